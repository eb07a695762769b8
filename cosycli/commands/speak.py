"""`cosy speak`: text in, sound out while it is still being made."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosycli import console
from cosycli.audio.formats import RAW_PLAYER, raw_line
from cosycli.commands.options import (
    ControlOption,
    EncodingOption,
    InstructOption,
    JsonOption,
    LexiconOption,
    ModelOption,
    NormalizeOption,
    ProviderOption,
    QuietOption,
    SeedOption,
    SpeedOption,
    StepsOption,
    StrictOption,
    VerboseOption,
    VoiceOption,
    chosen_options,
    tell_provider,
)
from cosycli.errors import UsageError

if TYPE_CHECKING:
    from cosycli.engine import Engine
    from cosycli.text.lexicon import Lexicon
    from cosycli.timing import Arrivals, Meter
    from cosycli.types import Chunk, Options, Sentence

RATE = 24_000  # of every model so far; a device is opened before the model is loaded


@dataclass(frozen=True)
class Target:
    """Where the sound goes."""

    output: str | None  # a path, "-" for WAV on stdout, or None
    raw: bool
    play: bool
    device: str | None
    preroll: float
    subtitles: Path | None

    @property
    def to_stdout(self) -> bool:
        return self.raw or self.output == "-"

    def check(self) -> None:
        """Refuse, before anything is loaded, what could not be written in the end."""
        from cosycli.audio.formats import check_output
        from cosycli.audio.raw import stdout
        from cosycli.audio.subtitles import check_subtitles

        if self.raw and self.output not in (None, "-"):
            raise UsageError(
                "--raw writes to standard output, -o to a file", "give one of them; .wav is what most want"
            )
        if not 0 <= self.preroll <= 10:
            raise UsageError(f"--preroll {self.preroll:g} is out of range", "give seconds from 0 to 10")
        if self.to_stdout:
            stdout()
        elif self.output is not None:
            check_output(self.output)
        if self.subtitles is not None:
            check_subtitles(self.subtitles)

    def sinks(self, engine: Engine) -> list[Any]:
        """The sinks, devices already open. Raises AudioDeviceError (exit 5) if nothing can play."""
        from cosycli.audio.devices import open_speaker
        from cosycli.audio.raw import RawStream, WavStream, stdout
        from cosycli.audio.subtitles import SubtitleSink
        from cosycli.audio.wavfile import open_output

        sinks: list[Any] = []
        if self.play:
            sinks.append(open_speaker(RATE, self.device, preroll=self.preroll))
        if self.to_stdout:
            sinks.append((RawStream if self.raw else WavStream)(stdout(), RATE))
        elif self.output is not None:
            sinks.append(open_output(self.output, RATE))
        if self.subtitles is not None:
            sinks.append(SubtitleSink(self.subtitles))
        return sinks


WordsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TEXT]...", help="What to say; `-` reads standard input.", show_default=False),
]
TextFileOption = Annotated[
    Path | None,
    typer.Option("--text-file", "-f", metavar="FILE", help="Read the text from a file.", show_default=False),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write .wav, .flac, .ogg or .mp3 instead of playing; `-` streams WAV to stdout.",
        show_default=False,
    ),
]
RawOption = Annotated[
    bool, typer.Option("--raw", help=f"Stream bare samples to stdout: cosy speak --raw 你好 | {RAW_PLAYER}")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        "-d",
        envvar="COSY_DEVICE",
        help="Output device, by number or part of its name; `cosy devices` lists them.",
        show_default=False,
    ),
]
PrerollOption = Annotated[
    float,
    typer.Option(
        "--preroll", envvar="COSY_PREROLL", help="Seconds of silence first, for devices that wake slowly (Bluetooth)."
    ),
]
SubtitlesOption = Annotated[
    Path | None,
    typer.Option("--subtitles", metavar="FILE", help="Write subtitles too: .srt, .vtt or .lrc.", show_default=False),
]


def speak(
    words: WordsArgument = None,
    text_file: TextFileOption = None,
    output: OutputOption = None,
    play: Annotated[bool, typer.Option("--play", help="Play as well as write.")] = False,
    raw: RawOption = False,
    voice: VoiceOption = None,
    speed: SpeedOption = 1.0,
    model: ModelOption = None,
    provider: ProviderOption = "auto",
    device: DeviceOption = None,
    preroll: PrerollOption = 0.0,
    subtitles: SubtitlesOption = None,
    instruct: InstructOption = None,
    seed: SeedOption = None,
    steps: StepsOption = None,
    control: ControlOption = False,
    strict: StrictOption = False,
    normalize: NormalizeOption = True,
    lexicon: LexiconOption = None,
    encoding: EncodingOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be said and how, and load no model.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say a text: live, into a file, or into a pipe.

    Text from a pipe is said sentence by sentence as it arrives. Pauses: <break time="500ms"/>.
    """
    from cosycli.commands.input import chosen_lexicon
    from cosycli.engine import check_speed, get_engine
    from cosycli.text.encoding import check_encoding
    from cosycli.types import Options

    report = console.Console(quiet, verbose, json)
    target = Target(output, raw, play or (output is None and not raw), device, preroll, subtitles)
    check_speed(speed)
    check_encoding(encoding)
    own_words = chosen_lexicon(lexicon)
    text = _text(words, text_file, encoding)
    if dry_run:
        _print_sentences(text, Options(speed=speed, normalize=normalize), own_words, report)
        return
    target.check()
    engine = get_engine(model, provider=provider, progress=report.step)
    draws = not engine.family.SOUNDS  # such a model says it otherwise each time
    if draws and seed is None:
        seed = secrets.randbelow(1_000_000)
        report.note(f"seed {seed}: --seed {seed} says it in the same way again")
    options = chosen_options(engine, speed, normalize, instruct, seed, steps, control, strict)
    engine.voice(voice)
    with ExitStack() as stack:
        sinks = target.sinks(engine)
        engine.open_in_background()
        if not draws:
            _prime(text, options, own_words)
        arrivals, meter = _watched(text, engine, sinks)
        chunks = engine.stream(arrivals, voice=voice, options=options, lexicon=own_words, notice=_remark(report))
        if target.raw:
            report.note(raw_line(RATE))
        _pour(meter, stack.enter_context(closing(chunks)), sinks)
    _conclude(meter, sinks, engine, report, target, seed)


def _prime(text: Iterable[str], options: Options, lexicon: Lexicon | None) -> None:
    """Load what the text's first sentence needs (dictionaries, grammar) while the model opens in its thread: 0.2 s."""
    from cosycli.engine import sentences

    if isinstance(text, list):  # known already; from a pipe it may be a while until it comes
        next(sentences(text[0][:200], options, lexicon), None)


def _remark(report: console.Console) -> Callable[[str], None]:
    return lambda line: report.note(f"note: {line}")


def _watched(text: Iterable[str], engine: Engine, sinks: list[Any]) -> tuple[Arrivals, Meter]:
    """The text and a meter of the work on it, in which neither waiting for text nor opening the model counts."""
    from cosycli.text.normalize import speakable
    from cosycli.timing import Arrivals, Meter

    def ready(piece: str) -> None:
        if not speakable(piece):
            return
        started = meter.clock()
        engine.open()
        meter.loading += meter.clock() - started
        for sink in sinks:
            if hasattr(sink, "begin"):  # a player learns from the first chunk how fast speech is made here
                sink.begin()

    arrivals = Arrivals(text, ready)
    meter = Meter(arrivals.clock)
    return arrivals, meter


def _text(words: list[str] | None, text_file: Path | None, encoding: str | None) -> Iterable[str]:
    """The text in pieces. What is known whole and has nothing to say is refused here, before a model is loaded."""
    from cosycli.commands.input import StdinPieces, as_typed, file_text, stdin_is_piped
    from cosycli.text.normalize import speakable

    if words and text_file is not None:
        raise UsageError("text is given twice: as words and as --text-file", "give one of them")
    if text_file is not None and str(text_file) != "-":
        text = file_text(text_file, encoding)
    elif words and words != ["-"]:
        text = as_typed(" ".join(words), encoding)
    elif words == ["-"] or text_file is not None or stdin_is_piped():
        return StdinPieces(encoding)
    else:
        raise UsageError("there is no text to speak", 'give some: cosy speak "你好", or pipe it in')
    if not speakable(text):
        raise nothing_to_speak()
    return [text]


def nothing_to_speak() -> UsageError:
    """The text is empty, or only marks, symbols and emoji."""
    return UsageError(
        "there is nothing to speak in the text", "give some words; `cosy speak --dry-run` shows what is heard"
    )


def _pour(meter: Meter, chunks: Iterator[Chunk], sinks: list[Any]) -> None:
    """Pull the chunks through the sinks; nothing is written before the first chunk is there."""
    from cosycli.audio.sinks import Tee

    with Tee(*sinks) as tee:
        for chunk in meter.watch(chunks):
            tee.write(chunk)
        if meter.first_chunk is None:
            raise nothing_to_speak()


def _conclude(
    meter: Meter, sinks: list[Any], engine: Engine, report: console.Console, target: Target, seed: int | None
) -> None:
    for sink in sinks:
        for note in getattr(getattr(sink, "report", None), "notes", []):
            report.note(f"note: {note}")
    loading = engine.timing.load_seconds if engine.timing else 0.0
    rtf, first = meter.rtf or 0.0, meter.first_chunk or 0.0
    line = f"{meter.audio:.1f} s of audio, first chunk after {first:.2f} s, real-time factor {rtf:.2f}"
    report.detail(f"{line}; the model took {loading:.2f} s of it to load")
    tell_provider(engine, report)
    if target.output not in (None, "-"):
        report.note(f"wrote {target.output}: {meter.audio:.1f} s")
    if report.json:
        _print_metrics(meter, engine, target, loading, seed)


def _print_metrics(meter: Meter, engine: Engine, target: Target, loading: float, seed: int | None) -> None:
    import json

    value = {
        "output": target.output,
        "seconds": round(meter.audio, 3),
        "sentences": meter.sentences,
        "first_chunk_latency": round(meter.first_chunk or 0.0, 4),
        "load_seconds": round(loading, 4),
        "real_time_factor": round(meter.rtf or 0.0, 4),
        "model": engine.model,
        "seed": seed,
    }
    line = json.dumps(value, ensure_ascii=False)
    print(line, file=sys.stderr if target.to_stdout else sys.stdout, flush=True)  # audio keeps stdout to itself


def _print_sentences(text: Iterable[str], options: Any, lexicon: Any, report: console.Console) -> None:
    from cosycli.engine import sentences

    count = 0
    for sentence in sentences(text, options, lexicon, _remark(report)):
        count += bool(sentence.words)
        if report.json:
            console.out_json(_described(sentence))
        elif sentence.words:
            console.out(f"{sentence.text}\n    {_sounds(sentence)}")
    if not count:
        raise nothing_to_speak()


def _described(sentence: Sentence) -> dict[str, Any]:
    words = [{"text": w.text, "kind": w.kind, "sounds": list(w.sounds)} for w in sentence.words]
    return {"text": sentence.text, "source": sentence.source, "pause": sentence.pause, "words": words}


def _sounds(sentence: Sentence) -> str:
    shown = (f"/{' '.join(w.sounds)}/" if w.kind == "en" else " ".join(w.sounds) or w.text for w in sentence.words)
    return " ".join(shown)
