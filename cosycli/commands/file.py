"""`cosy file`: texts in, audio files out; run it again and only what is missing or changed is made."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosycli import console
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
    from cosycli.backends import Backend
    from cosycli.batch.inputs import Found, Source
    from cosycli.batch.make import Speak
    from cosycli.batch.plan import Plan, Wishes
    from cosycli.engine import Engine
    from cosycli.types import Chunk


SEED = 1  # of files, where none is given


class AudioFormat(str, Enum):
    """What `--format` takes."""

    WAV, FLAC, OGG, MP3 = "wav", "flac", "ogg", "mp3"


class SubtitleFormat(str, Enum):
    """What `--subtitles` takes."""

    SRT, VTT, LRC = "srt", "vtt", "lrc"


class Split(str, Enum):
    """What `--split` takes."""

    LINE, PARAGRAPH = "line", "paragraph"


InputsArgument = Annotated[
    list[str],
    typer.Argument(metavar="INPUT", help="Text files, folders (with all below them), or `-` for standard input."),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The audio file of a single text: .wav, .flac, .ogg or .mp3; `-` streams WAV to stdout.",
        show_default=False,
    ),
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        "-d",
        metavar="DIR",
        help="Folder for the audio files, made if need be; structure below a folder INPUT is kept.",
        show_default="beside each text",
    ),
]
GlobOption = Annotated[
    list[str] | None,
    typer.Option(
        "--glob",
        metavar="PATTERN",
        help="Which files of a folder are texts; may be given several times.",
        show_default="*.txt and *.md",
    ),
]
FormatOption = Annotated[
    AudioFormat | None,
    typer.Option("--format", case_sensitive=False, help="Format of the audio files.", show_default="wav"),
]
SplitOption = Annotated[
    Split | None,
    typer.Option(
        "--split",
        case_sensitive=False,
        help="A file for each line or paragraph: a-0001.wav, a-0002.wav ...",
        show_default=False,
    ),
]
SubtitlesOption = Annotated[
    SubtitleFormat | None,
    typer.Option("--subtitles", case_sensitive=False, help="Write subtitles beside each file.", show_default=False),
]


def file(
    inputs: InputsArgument,
    output: OutputOption = None,
    folder: FolderOption = None,
    glob: GlobOption = None,
    audio_format: FormatOption = None,
    split: SplitOption = None,
    subtitles: SubtitlesOption = None,
    force: Annotated[bool, typer.Option("--force", help="Make everything anew, and write over what is there.")] = False,
    voice: VoiceOption = None,
    speed: SpeedOption = 1.0,
    model: ModelOption = None,
    provider: ProviderOption = "auto",
    instruct: InstructOption = None,
    seed: SeedOption = None,
    steps: StepsOption = None,
    control: ControlOption = False,
    strict: StrictOption = False,
    normalize: NormalizeOption = True,
    lexicon: LexiconOption = None,
    encoding: EncodingOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Turn text files into audio files.

    Files appear as they are finished. Run it again to go on: what is done with the same text, voice and
    options is left as it is. A text that cannot be spoken does not stop the others (exit code 1).

    Several texts in one file: cat a.txt b.txt | cosy file - -o ab.wav
    """
    from cosycli.batch.inputs import TEXTS, find
    from cosycli.commands.input import chosen_lexicon
    from cosycli.engine import check_speed, get_engine
    from cosycli.text.encoding import check_encoding

    report = console.Console(quiet, verbose, json)
    check_speed(speed)
    check_encoding(encoding)
    words = chosen_lexicon(lexicon)
    name = _check_target(output, folder, audio_format, split, subtitles)
    found = find(inputs, glob or TEXTS)
    _check_sources(found, output, folder)
    engine = get_engine(model, provider=provider, progress=report.step)
    if seed is None and not engine.family.SOUNDS:
        seed = SEED  # another one each time would make everything anew
        report.detail(f"seed {seed}")
    options = chosen_options(engine, speed, normalize, instruct, seed, steps, control, strict)
    speaker = engine.voice(voice).name

    def speak(
        text: Any, notice: Callable[[str], None], following: Iterable[str] | None
    ) -> Generator[Chunk, None, None]:
        return engine.stream(text, voice=speaker, options=options, lexicon=words, notice=notice, following=following)

    if output == "-":
        _stream(found.sources[0], encoding, speak, engine, report)
        return
    from cosycli.batch.fingerprint import Recipe
    from cosycli.batch.plan import Wishes, make_plan

    recipe = Recipe(engine.model, engine.voice_mark(speaker), options, words, name)
    wishes = Wishes(recipe, Path(output) if output else None, folder, _value(split), _value(subtitles), encoding, force)
    plan = make_plan(found.sources, found.failures, wishes)
    code = _run(plan, wishes, engine, speak, report)
    raise typer.Exit(code)


def _value(choice: Enum | None) -> str | None:
    return choice.value if choice else None


def _check_target(
    output: str | None,
    folder: Path | None,
    audio_format: AudioFormat | None,
    split: Split | None,
    subtitles: SubtitleFormat | None,
) -> str:
    """Refuse what contradicts itself or cannot be written; return the format's name."""
    from cosycli.audio.formats import check_output
    from cosycli.audio.raw import stdout

    asked = _value(audio_format)
    if output is None:
        return asked or "wav"
    if folder is not None:
        raise UsageError("-o names one file, -d the folder of many", "give one of them")
    if split is not None:
        raise UsageError("--split makes many files, -o names one", "use -d DIR")
    if output == "-":
        if asked not in (None, "wav") or subtitles is not None:
            raise UsageError("standard output takes WAV alone", "use -o FILE for other formats and for subtitles")
        stdout()
        return "wav"
    found = check_output(output, asked if not Path(output).suffix else None)
    if asked not in (None, found.name):
        raise UsageError(f"{output} says .{found.name} and --format {asked}", "drop --format, or change the name")
    return found.name


def _check_sources(found: Found, output: str | None, folder: Path | None) -> None:
    count = len(found.sources) + len(found.failures)
    if output is not None and count > 1:
        raise UsageError(
            f"{count} texts do not go into one file {output}",
            "use -d DIR for a file each, or join them: cat A B | cosy file - -o FILE",
        )
    if output is None and folder is None and any(source.path is None for source in found.sources):
        raise UsageError("standard input has no name to call the audio by", "use -o FILE, -d DIR, or -o - to stream")


def _stream(source: Source, encoding: str | None, speak: Speak, engine: Engine, report: console.Console) -> None:
    """One text to standard output, said as it arrives."""
    from cosycli.audio.raw import WavStream, stdout
    from cosycli.commands.input import StdinPieces
    from cosycli.commands.speak import nothing_to_speak
    from cosycli.text.encoding import decode
    from cosycli.timing import Meter

    engine.open_in_background()
    text: Any = StdinPieces(encoding) if source.path is None else decode(source.read(), encoding, source.name)
    meter = Meter()
    with closing(speak(text, lambda line: report.note(f"note: {line}"), None)) as chunks:
        watched = meter.watch(chunks)
        first = next(watched, None)
        if first is None:
            raise nothing_to_speak()
        with WavStream(stdout(), first.rate) as sink:
            sink.write(first)
            for chunk in watched:
                sink.write(chunk)
    report.detail(f"{meter.audio:.1f} s of audio")
    if report.json:
        value = {"path": "-", "input": source.name, "status": "done", "seconds": round(meter.audio, 3), "reason": None}
        console.out_json(value, to_stderr=True)  # audio keeps stdout to itself


def _opened(engine: Engine, wishes: Wishes) -> Backend:
    """The model, opened while the text processing loads, so that the first file's figures are those of its work."""
    from cosycli.engine import sentences

    engine.open_in_background()
    list(sentences("一 1 a", wishes.recipe.options, wishes.recipe.lexicon))
    return engine.open()


def _run(plan: Plan, wishes: Wishes, engine: Engine, speak: Speak, report: console.Console) -> int:
    """Make what is to be made; the model is opened only if there is something."""
    from cosycli.batch.make import Stopped, make, prepare_folders
    from cosycli.batch.progress import Progress, exit_code

    plan = prepare_folders(plan, wishes)
    progress = Progress(report, plan)
    progress.known()
    try:
        if plan.todo:
            rate = _opened(engine, wishes).rate
            with console.work_bar(plan.size, shown=not report.quiet) as progress.bar:
                make(plan.todo, wishes, speak, rate, progress)
            tell_provider(engine, report)
    except Stopped:
        progress.conclude("not begun")
        if progress.left:
            raise
        return exit_code(progress, single=wishes.output is not None)
    except KeyboardInterrupt:
        progress.conclude("left when interrupted; run it again to go on")
        raise
    progress.conclude()
    return exit_code(progress, single=wishes.output is not None)
