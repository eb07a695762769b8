"""Text in, chunks out. Pulled: nothing runs until the next chunk is asked for, and closing the stream stops the work.

One engine a process, built on first use, shared by all subcommands and safe for many threads.
Knows no model family, file or device.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cosycli.errors import InferenceError, ModelError, UsageError
from cosycli.types import Chunk, Options, Samples, Sentence, TimedWord, Voice, Word

if TYPE_CHECKING:
    from pathlib import Path

    from cosycli.backends import Backend, Family, Pcm
    from cosycli.text.lexicon import Lexicon

DEFAULT_MODEL = "kokoro"
SPEED_RANGE = (0.5, 2.0)

# The silence between two sentences is what their edges keep plus what is added to reach the sentence's pause.
# A piece cut at a comma keeps less after it, so that the cut is not heard.
SENTENCE_TAIL, CLAUSE_TAIL = 0.25, 0.05
LEAD = 0.1
CLAUSE_PAUSE = 0.2  # a shorter pause than this is a cut within a sentence
LONGEST_UNASKED = 0.7  # seconds a text's layout brings (a heading's); what is longer was asked for with a tag

# Options that only some families have, and how the command line spells them.
FAMILY_OPTIONS = {
    "seed": "--seed",
    "instruct": "--instruct",
    "steps": "--steps",
    "control": "--control-tokens",
    "strict": "--strict",
}

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Timing:
    """How long it took to open the model, and whether the bundle had to be built."""

    load_seconds: float
    built: bool


class Engine:
    """Speaks with one model. Cheap to make: the model is opened when it is first needed, or by `open`."""

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        provider: str = "auto",
        precision: str | None = None,
        folder: Path | None = None,
        progress: Progress = lambda step: None,
    ) -> None:
        self.model = model  # the name of a bundle
        self.provider = provider  # as asked for
        self.builds = False  # whether `auto` may build TensorRT's engines, which takes minutes
        self.precision = precision  # as asked for: "float32", "int8"; None is the bundle's and the machine's choice
        self._folder = folder  # a bundle that has no name yet
        self.why = ""  # it runs where it runs
        self.notes: list[str] = []  # what went otherwise than asked, for people; complete once the model is open
        self.timing: Timing | None = None
        self._progress = progress
        self._lock = threading.Lock()
        self._backend: Backend | None = None
        self._voices: dict[str, Voice] = {}

    @property
    def family(self) -> Family:
        """The model's family. Raises ModelError where there is no such model."""
        from cosycli import backends
        from cosycli.bundles import catalog, store

        own = store.read_manifest(self._folder) if self._folder else None
        return backends.family((own or catalog.manifest(self.model)).family)

    def voice(self, name: str | None = None) -> Voice:
        """A voice with its arrays, loaded once. Raises ModelError where there is no such voice."""
        name = name or self.default_voice
        if name not in self._voices:
            self._voices[name] = self.family.voice(self._bundle, name)
        return self._voices[name]

    def voice_mark(self, name: str) -> str:
        """What changes with how a voice sounds: its name, and for one made of a recording, what was made of that."""
        import hashlib

        if self.family.SOUNDS:
            return name
        digest = hashlib.sha256()
        for key, value in sorted(self.voice(name).arrays.items()):
            digest.update(key.encode() + (value.tobytes() if hasattr(value, "tobytes") else str(value).encode()))
        return f"{name} {digest.hexdigest()[:16]}"

    @property
    def default_voice(self) -> str:
        """Who speaks if nobody is named. Raises ModelError."""
        return self.family.default_voice(self._bundle)

    def voices(self) -> tuple[Voice, ...]:
        """All voices of the model, arrays not loaded. Raises ModelError."""
        return self.family.voices(self._bundle)

    @property
    def _bundle(self) -> Path:
        """The model's folder. The embedded one need not be there yet: its voices lie in the package."""
        from cosycli.bundles import store

        return self._folder or store.bundle_path(self.model)

    def check(self, options: Options) -> None:
        """Raise UsageError for options that are out of range, or that this model does not have."""
        check_speed(options.speed)
        plain = Options()
        asked = {name for name in FAMILY_OPTIONS if getattr(options, name) != getattr(plain, name)}
        missing = sorted(asked - set(self.family.OPTIONS))
        if missing:
            flags = ", ".join(FAMILY_OPTIONS[name] for name in missing)
            raise UsageError(f"{self.model} has no {flags}", "choose a CosyVoice model: `cosy models` lists them")

    def open(self, *, rebuild: bool = False) -> Backend:
        """The backend, assembled and opened on the first call. Raises ModelError."""
        with self._lock:
            if self._backend is None or rebuild:
                self._backend = self._load(rebuild)
            return self._backend

    def _load(self, rebuild: bool) -> Backend:
        from cosycli.bundles import catalog, embedded

        started = time.perf_counter()
        if self._folder:
            backend = self._on_provider(self._folder)
            self.timing = Timing(time.perf_counter() - started, False)
            return backend
        folder, built = catalog.ensure(self.model, self._progress, rebuild=rebuild)
        try:
            backend = self._on_provider(folder)
        except ModelError as error:
            if self.model != embedded.NAME:
                raise catalog.damaged(self.model) from error
            if built:
                raise
            # Sizes were right but a graph does not open: the cache is damaged inside. Mend it once.
            self._progress("the cached voice is damaged; assembling it anew")
            folder, built = catalog.ensure(self.model, self._progress, rebuild=True)
            backend = self._on_provider(folder)
        self.timing = Timing(time.perf_counter() - started, built)
        return backend

    def _on_provider(self, folder: Path) -> Backend:
        """The backend on the first provider that opens it. One that was named has no second. Raises ProviderError."""
        from cosycli import runtime
        from cosycli.providers import ProviderError

        names, reason = runtime.candidates(self.provider, builds=self.builds)
        for place, name in enumerate(names):
            try:
                with runtime.telling(self._progress):
                    backend = self.family.load(folder, name, self.precision)
            except ProviderError as error:
                if place == len(names) - 1:
                    raise
                self.notes.append(f"{error.message}; trying {names[place + 1]}. To mend it: {error.hint}")
                continue
            self.why = f"{name}: {reason}" + (f", {runtime.why()}" if name == "cpu" else "")
            self.notes += [note for s in getattr(backend, "sessions", {}).values() for note in s.notes]
            return backend
        raise AssertionError("a list of candidates is never empty")

    def open_in_background(self) -> None:
        """Begin to open the model in a thread, so that reading text and opening graphs overlap."""
        threading.Thread(target=self._open_quietly, daemon=True).start()

    def _open_quietly(self) -> None:
        try:
            self.open()
        except Exception:
            return  # the caller's own `open` meets the same error, where it can be told

    def stream(
        self,
        text: str | Iterable[str],
        *,
        voice: str | None = None,
        options: Options | None = None,
        lexicon: Lexicon | None = None,
        notice: Callable[[str], None] = lambda line: None,
        following: Iterable[str] | None = None,
    ) -> Generator[Chunk, None, None]:
        """Yield the text's audio chunk by chunk. The same text, voice and options give the same samples.

        `text` may be an iterable of pieces that are still arriving; a sentence is spoken as soon as it is complete,
        or, by a model that can, while it arrives, if the iterable has a method `ready(seconds)` that tells whether more
        is there by then.
        `notice` is told, once each, what will not be heard as it is written. `following`: the texts that will be
        streamed next, where what counts is how long all of it takes and not when the first sound is there.
        Raises UsageError for a bad speed, ModelError for a missing voice or model, InferenceError.
        """
        options = options or Options()
        self.check(options)
        found = self.voice(voice)
        texts = self._sentences(text, options, lexicon, notice)
        if following is not None:
            later = (sentence for one in following for sentence in self._sentences(one, options, lexicon))
            texts = self._looking_ahead(texts, later, found, options)
        return self._speak(texts, found, options, notice)

    def _sentences(
        self,
        text: str | Iterable[str],
        options: Options,
        lexicon: Lexicon | None,
        notice: Callable[[str], None] = lambda line: None,
    ) -> Iterator[Sentence]:
        if options.control:
            from cosycli.text.marks import hide

            marks = self.family.MARKS
            text = list(hide([text], marks)) if isinstance(text, str) else hide(text, marks)
        return sentences(text, options, lexicon, notice, sounds=self.family.SOUNDS)

    def _looking_ahead(
        self, texts: Iterator[Sentence], later: Iterator[Sentence], voice: Voice, options: Options
    ) -> Iterator[Sentence]:
        """The same sentences; before each is given, the backend may look at it and at those after it."""
        from cosycli.backends import LooksAhead

        backend = self.open()
        if not isinstance(backend, LooksAhead):
            yield from texts
            return
        read: deque[Sentence] = deque()  # but not yet given

        def coming() -> Iterator[Sentence]:
            yield from tuple(read)
            for sentence in texts:
                read.append(sentence)
                yield sentence
            yield from later

        while (sentence := read.popleft() if read else next(texts, None)) is not None:
            if sentence.words:
                backend.look_ahead(sentence, coming(), voice, options)
            yield sentence

    def _speak(
        self, texts: Iterator[Sentence], voice: Voice, options: Options, notice: Callable[[str], None]
    ) -> Generator[Chunk, None, None]:
        clock = _Clock()
        silent = 0.0  # seconds of silence that the next sentence's pause still lacks; its edges may be enough
        dumb = False
        for sentence in texts:
            if sentence.words:
                backend = self.open()
                clock.rate = backend.rate
                if silent > 0:
                    yield clock.pause(silent)
                before = clock.samples
                with closing(_shaped(backend, sentence, voice, options, clock, notice)) as chunks:
                    yield from chunks
                if clock.samples == before:
                    dumb = True
                    notice(f"the voice made no sound for: {sentence.whole().text[:60]}")
                else:
                    clock.heard = True
                silent = sentence.pause - _tail(sentence) - LEAD
            else:  # a pause that was asked for
                silent += sentence.pause
        if silent + SENTENCE_TAIL + LEAD > LONGEST_UNASKED + 0.001 and clock.rate:
            yield clock.pause(silent + LEAD)  # a break tag that ends the text
        if dumb and not clock.heard:
            raise InferenceError("the voice made no sound at all", "try another voice, or `cosy warmup --rebuild`")


class _Clock:
    """Counts samples, so that every chunk knows its place in the stream and nothing drifts."""

    def __init__(self) -> None:
        self.rate = 0
        self.samples = 0
        self.heard = False  # a sentence has sounded

    @property
    def now(self) -> float:
        """Seconds of audio given out so far."""
        return self.samples / self.rate

    def pause(self, seconds: float) -> Chunk:
        """A chunk of silence."""
        from cosycli.audio.join import silence

        return self.chunk(silence(seconds, self.rate), None, (), last=False)

    def chunk(self, samples: Samples, sentence: Sentence | None, words: tuple[TimedWord, ...], *, last: bool) -> Chunk:
        """The next chunk of the stream."""
        start = self.now
        self.samples += len(samples)
        return Chunk(samples, self.rate, start, sentence, words, last)


def _tail(sentence: Sentence) -> float:
    return CLAUSE_TAIL if sentence.pause < CLAUSE_PAUSE else SENTENCE_TAIL


def _shaped(
    backend: Backend,
    sentence: Sentence,
    voice: Voice,
    options: Options,
    clock: _Clock,
    notice: Callable[[str], None] = lambda line: None,
) -> Generator[Chunk, None, None]:
    """One sentence's chunks: edges trimmed, peaks guarded, the end faded, word times from the stream's start."""
    import numpy as np

    from cosycli.audio.join import SentenceShaper
    from cosycli.runtime import check_finite

    # Between sentences the silence is exactly the pause; the very first sentence sounds as soon as it can.
    shaper = SentenceShaper(backend.rate, LEAD, _tail(sentence), exact=clock.heard)
    origin = clock.now
    waiting: list[TimedWord] = []
    with closing(backend.synthesize(sentence, voice, options)) as pieces:
        for piece in _ending(pieces):
            check_finite(piece.samples, "the model")
            if piece.note:
                notice(f"{piece.note}: {sentence.whole().text[:60]}")
            samples = shaper.push(piece.samples)
            waiting += piece.words
            if piece.last:
                samples = np.concatenate((samples, shaper.finish()))
            if len(samples) or piece.last:
                words = tuple(_moved(word, origin - shaper.skipped) for word in waiting)
                waiting = []
                yield clock.chunk(samples, sentence, words, last=piece.last)


def _ending(pieces: Iterator[Pcm]) -> Iterator[Pcm]:
    """The pieces up to the last one, which is added where generation was cut: every end is faded and marked."""
    for piece in pieces:
        yield piece
        if piece.last:
            return
    from cosycli.audio.join import silence
    from cosycli.backends import Pcm

    yield Pcm(silence(0.0, 1), last=True)


def _moved(word: TimedWord, seconds: float) -> TimedWord:
    return TimedWord(word.text, max(0.0, word.start + seconds), max(0.0, word.end + seconds))


def sentences(
    text: str | Iterable[str],
    options: Options,
    lexicon: Lexicon | None = None,
    notice: Callable[[str], None] = lambda line: None,
    *,
    sounds: bool = True,
) -> Iterator[Sentence]:
    """The text's sentences in order, each with its pronunciation, or for a model that reads text itself as one word."""
    from cosycli.text.pronounce import pronounce
    from cosycli.text.segment import segments

    pieces = [text] if isinstance(text, str) else text
    told: set[str] = set()
    for sentence in segments(pieces, normalize=options.normalize, official=not sounds):
        if not sounds:
            word = Word(sentence.text, "zh") if any(map(str.isalnum, sentence.text)) else None
            if word or not sentence.text:
                yield replace(sentence, words=(word,) if word else ())
            continue
        words = pronounce(sentence.text, lexicon) if sentence.text else ()
        for line in _remarks(sentence.text, words):
            if line not in told:
                told.add(line)
                notice(line)
        if any(word.sounds for word in words) or not sentence.text:
            yield replace(sentence, words=words)


def _remarks(text: str, words: tuple[Word, ...]) -> Iterator[str]:
    """What a listener will miss in a sentence: another language's own sounds, characters without any."""
    from cosycli.text.normalize import foreign
    from cosycli.text.pronounce import unsaid

    language = foreign(text) if text else None
    if language:
        yield f"this looks like {language}: the voices speak Chinese and English, and read it as such"
    elif silent := unsaid(words):
        yield f"no pronunciation known, left out: {' '.join(dict.fromkeys(silent))[:60]}"


def check_speed(speed: float | None) -> None:
    """Raise UsageError where a speed is outside 0.5 to 2."""
    low, high = SPEED_RANGE
    if speed is not None and not low <= speed <= high:
        raise UsageError(f"speed {speed:g} is out of range", f"give a speed from {low:g} to {high:g}; 1 is normal")


def default_model() -> str:
    """The model that speaks if none is named: the one that was chosen, if it is still here."""
    from cosycli.bundles import store
    from cosycli.preferences import kept

    chosen = kept("model")
    known = chosen and store.is_name(chosen) and store.read_manifest(store.bundle_path(chosen))
    return chosen if chosen and known else DEFAULT_MODEL


_process: Engine | None = None
_process_lock = threading.Lock()


def get_engine(
    model: str | None = None, *, provider: str | None = None, progress: Progress = lambda step: None
) -> Engine:
    """The process's one engine, made on the first call. Raises UsageError if another model or provider is asked for
    later.
    """
    from cosycli.providers import check_provider

    global _process
    wanted = check_provider(provider)
    with _process_lock:
        if _process is None:
            _process = Engine(model or default_model(), provider=wanted, progress=progress)
        for asked, has in ((model, _process.model), (provider and wanted, _process.provider)):
            if asked and asked != has:
                raise UsageError(f"this process already speaks with {has}, not {asked}", "start another process for it")
        return _process
