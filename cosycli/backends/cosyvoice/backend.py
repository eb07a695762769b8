"""The family's backend: text → speech tokens → mel → samples, each as soon as the one before it allows."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosycli.backends import Pcm
from cosycli.backends.cosyvoice import MARKS, config, kept
from cosycli.backends.cosyvoice.flow import GUIDANCE, STEPS, Flow, Stream
from cosycli.backends.cosyvoice.lm import LanguageModel, Prefix, Request
from cosycli.backends.cosyvoice.stretch import Stretch
from cosycli.backends.cosyvoice.tokenizer import END_OF_PROMPT, Tokenizer
from cosycli.backends.cosyvoice.vocoder import RATE, Vocoder
from cosycli.backends.cosyvoice.watch import Watch
from cosycli.errors import UsageError
from cosycli.text.marks import show
from cosycli.types import Options, Samples, Sentence, Voice

if TYPE_CHECKING:
    from cosycli.runtime import Session

Array = NDArray[Any]

ASSISTANT = "You are a helpful assistant."  # what version 3's prompts begin with
PROMPT = ("speaker", "flow_tokens", "mel")  # what the flow knows of a voice
ATTEMPTS = 2  # at a sentence in which the language model loses its way
TOGETHER = 8  # sentences that are decoded as one batch: a third of the time for each of what it takes alone
KEPT = 64  # sentences that are decoded and not yet spoken: what is never asked for is forgotten
ANOTHER = 7919  # added to the seed for the next attempt


@dataclass(frozen=True)
class _Prepared:
    """What a voice's sentences have in common."""

    request: Request  # without the text
    prefix: Prefix
    opening: int  # ids of the prompt's text that are not said: what the model is told
    solved: Mapping[str, Array]  # the flow's state after the prompt's complete blocks
    tokens: int  # of the prompt, in the flow

    def asking(self, text: Sequence[int]) -> Request:
        """The request for a text."""
        return replace(self.request, text=text)


@dataclass(frozen=True)
class _Decoded:
    """A sentence's speech tokens, and what was noticed while they were drawn."""

    tokens: Sequence[int]
    watch: Watch


class CosyVoice:
    """A converted bundle. Many threads may synthesize at once."""

    rate = RATE

    def __init__(self, folder: Path, provider: str = "cpu", precision: str | None = None) -> None:
        settings = config(folder)
        self._folder, self._provider = folder, provider
        self.precision: str = settings["precision"]
        if precision not in (None, self.precision):
            raise UsageError(
                f"{folder.name} is in {self.precision}, not {precision}", f"convert it again: --precision {precision}"
            )
        self.version: int = settings["version"]
        # Graphs of hundreds of megabytes are read at the same time as the tokenizer's text is.
        with ThreadPoolExecutor(4) as pool:
            tokenizer = pool.submit(Tokenizer, folder, self.version)
            lm = pool.submit(LanguageModel, folder, settings["lm"], provider)
            flow = pool.submit(Flow, folder, settings["flow"], provider)
            vocoder = pool.submit(Vocoder, folder, settings["vocoder"], provider)
        self._lm, self._flow, self._vocoder = lm.result(), flow.result(), vocoder.result()
        self._tokenizer = tokenizer.result()
        self._lock = threading.Lock()
        self._prepared: dict[tuple[Any, ...], _Prepared] = {}
        self._openings: dict[tuple[int, ...], Prefix] = {}
        self._solved: dict[tuple[Any, ...], Mapping[str, Array]] = {}
        self._decoded: dict[tuple[Any, ...], _Decoded] = {}

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The opened graphs by name."""
        return {**self._lm.sessions, **self._flow.sessions, **self._vocoder.sessions}

    def synthesize(self, sentence: Sentence, voice: Voice, options: Options) -> Generator[Pcm, None, None]:
        """Yield the sentence's audio. Raises UsageError for options that the bundle does not have, InferenceError."""
        steps = STEPS if options.steps is None else options.steps
        self._flow.check_steps(steps)
        prepared = self.prepare(voice, steps, options.instruct)
        text = [self._encoded(sentence, options)]
        with self._lock:
            decoded = self._decoded.pop(self._key(sentence, voice, options), None)
        for attempt in range(ATTEMPTS):
            stream = self._stream(voice, steps, prepared.solved)
            trouble, given = "", False
            seed = (options.seed or 0) + attempt * ANOTHER
            watch = Watch(0 if sentence.more else len(text[0]))
            rules: dict[str, Any] = {"limit": self._flow.limit - stream.tokens, "watch": watch}
            if decoded and not attempt:
                watch, tokens = decoded.watch, iter(decoded.tokens)
                if watch.verdict():
                    yield Pcm(np.zeros(0, np.float32), note=f"{watch.verdict()}; trying again with another seed")
                    continue
            elif sentence.more:
                tokens = self._arriving(prepared, text, sentence.more, seed, rules)
            else:
                request = prepared.asking(text[0])
                tokens = self._lm.generate(request, seed, prefix=prepared.prefix, strict=options.strict, **rules)
            for pcm in self._attempt(tokens, watch, stream, seed, options.speed or 1.0):
                trouble = pcm.note
                if trouble and not given and attempt + 1 < ATTEMPTS:
                    break  # nobody has heard anything of it yet
                given = given or len(pcm.samples) > 0
                yield pcm
            if not trouble or given:
                return
            yield Pcm(np.zeros(0, np.float32), note=f"{trouble}; trying again with another seed")

    def look_ahead(self, sentence: Sentence, later: Iterator[Sentence], voice: Voice, options: Options) -> None:
        """Decode the sentence's speech tokens if that has not been done, and with it those of some that come later."""
        if self._key(sentence, voice, options) in self._decoded:
            return
        batch = {self._key(sentence, voice, options): sentence}
        while len(batch) < TOGETHER and (one := next(later, None)):
            key = self._key(one, voice, options)
            if one.words and not one.more and key not in self._decoded:
                batch[key] = one
        if len(batch) == 1 or sentence.more:
            return  # alone it can as well be decoded while it is spoken
        prepared = self.prepare(voice, STEPS if options.steps is None else options.steps, options.instruct)
        texts = [self._encoded(one, options) for one in batch.values()]
        watches = [Watch(len(text)) for text in texts]
        found = self._lm.generate_together(
            [prepared.asking(text) for text in texts],
            [options.seed or 0] * len(texts),
            prefix=prepared.prefix,
            strict=options.strict,
            limit=self._flow.limit - prepared.tokens,
            watches=watches,
        )
        with self._lock:
            self._decoded.update(zip(batch, map(_Decoded, found, watches), strict=True))
            for key in list(self._decoded)[:-KEPT]:
                del self._decoded[key]

    @staticmethod
    def _key(sentence: Sentence, voice: Voice, options: Options) -> tuple[Any, ...]:
        """All that its speech tokens depend on."""
        told = (options.instruct, options.seed, options.strict, options.control)
        return (sentence.text, voice.name, id(voice.arrays), *told)

    def _encoded(self, sentence: Sentence, options: Options) -> list[int]:
        written = show(sentence.text, MARKS) if options.control else sentence.text
        return self._tokenizer.encode(written, control=options.control)

    def _arriving(
        self, prepared: _Prepared, text: list[list[int]], more: Iterator[str], seed: int, rules: Mapping[str, Any]
    ) -> Iterator[int]:
        """The speech tokens of a sentence while it arrives. `text`: its ids so far; those that come are added."""

        def arriving() -> Iterator[list[int]]:
            yield from list(text)
            for part in more:
                text.append(self._tokenizer.encode(part))
                yield text[-1]

        prompt = prepared.request.prompt_text
        opening = prompt[: prepared.opening if self.version == 3 else 0]
        with self._lock:
            if tuple(opening) not in self._openings:
                self._openings[tuple(opening)] = self._lm.prefix(opening)
        return self._lm.bistream(
            arriving(),
            seed,
            prefix=self._openings[tuple(opening)],
            prompt_text=prompt[len(opening) :],
            prompt_speech=prepared.request.prompt_speech,
            **rules,
        )

    def _attempt(
        self, tokens: Iterator[int], watch: Watch, stream: Stream, seed: int, speed: float
    ) -> Generator[Pcm, None, None]:
        """One generation: ends with a piece that is marked as the last, and says what was wrong with it."""
        speech, stretch = self._vocoder.stream(seed), Stretch(speed)
        waiting: list[int] = []
        for token in tokens:
            waiting.append(token)
            if len(waiting) >= stream.wanted:
                samples = speech.feed(stretch.feed(stream.feed(waiting)))
                waiting = []
                if len(samples):
                    watch.heard(samples, RATE)
                    yield Pcm(samples)
        if watch.end():
            yield Pcm(np.zeros(0, np.float32), last=True, note=watch.end())
            return
        samples = speech.feed(stretch.feed(stream.feed(waiting, last=True), last=True), last=True)
        watch.heard(samples, RATE)
        yield Pcm(samples, last=True, note=watch.verdict())

    def revoice(
        self, tokens: Sequence[int] | Array, voice: Voice, steps: int = STEPS
    ) -> Generator[Samples, None, None]:
        """Yield the samples of speech tokens [n] in a voice: what was said, by somebody else."""
        self._flow.check_steps(steps)
        stream, speech = self._stream(voice, steps, self.prepare(voice, steps).solved), self._vocoder.stream()
        at = 0
        while at < len(tokens):
            count = max(stream.wanted, 1)
            last = at + count >= len(tokens)
            yield speech.feed(stream.feed(tokens[at : at + count], last=last), last=last)
            at += count

    def prepare(self, voice: Voice, steps: int = STEPS, instruct: str | None = None) -> _Prepared:
        """What all sentences of a voice share: made once, kept."""
        key = (voice.name, id(voice.arrays), steps, instruct)
        with self._lock:
            if key not in self._prepared:
                self._prepared[key] = self._make(voice, steps, instruct)
            return self._prepared[key]

    def _make(self, voice: Voice, steps: int, instruct: str | None) -> _Prepared:
        request, opening = self._request(voice, instruct)
        prefix = self._lm.prefix(request.prompt_text)
        key = (voice.name, id(voice.arrays), steps)
        if key not in self._solved:
            self._solved[key] = self._solve(voice, steps)
        return _Prepared(request, prefix, opening, self._solved[key], len(voice.arrays["flow_tokens"]))

    def _solve(self, voice: Voice, steps: int) -> Mapping[str, Array]:
        """The flow's state after the prompt: from the disk, where that pays, else computed."""
        prompt = [voice.arrays[part] for part in PROMPT]
        name = kept.key(self._folder, prompt, steps, GUIDANCE) if self._provider == "cpu" else None
        found = kept.load(name)
        if found is not None:
            return found
        stream = self._stream(voice, steps, None)
        stream.solve_prompt()
        saved = stream.saved()
        kept.store(name, saved)
        return saved

    def _request(self, voice: Voice, instruct: str | None) -> tuple[Request, int]:
        """The prompt that the language model gets, and how many of its text's ids are what it is told: the others
        are what the voice says in the recording.
        """
        spoken, said = voice.arrays["tokens"].tolist(), str(voice.arrays["text"])
        encode = self._tokenizer.encode
        end = encode(END_OF_PROMPT, control=True)
        if instruct:
            told = [*encode(f"{ASSISTANT} {instruct}" if self.version == 3 else instruct), *end]
            return Request((), told), len(told)
        opening = [*encode(ASSISTANT), *end] if self.version == 3 else []
        if not said:  # across languages: the voice comes from the flow alone
            return Request((), opening), len(opening)
        return Request((), [*opening, *encode(said)], spoken), len(opening)

    def _stream(self, voice: Voice, steps: int, solved: Mapping[str, Array] | None) -> Stream:
        prompt = [voice.arrays[part] for part in PROMPT]
        return self._flow.stream(*prompt, steps=steps, guidance=GUIDANCE, saved=solved)
