"""Text → speech tokens, one after another: the language model with its key-value cache and CosyVoice's rules of length.

Sequence, sampling and limits are those of `Qwen2LM` and `CosyVoice3LM` (CosyVoice @ ace7c47). Knows no flow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosycli.backends.cosyvoice import sampler
from cosycli.errors import InferenceError

if TYPE_CHECKING:
    from cosycli.backends.cosyvoice.watch import Watch

Array = NDArray[Any]

SHORTEST, LONGEST = 2, 20  # speech tokens for each text token
USUAL = 8  # of them, as a rule: room for so many is taken at once
ROUND = 128  # positions: room for caches is taken in such steps
# Silence and breath of version 3: of more than five in a row, the rest is not spoken.
SILENT = frozenset({1, 2, 28, 29, 55, 248, 494, 2241, 2242, 2322, 2323})
SILENT_IN_A_ROW = 5
MIX_TEXT, MIX_SPEECH = 5, 15  # tokens that alternate where text arrives while it is spoken


@dataclass(frozen=True)
class Prefix:
    """What all sentences of a voice begin with, and the caches [1, kv heads, length, head] after it, by input name."""

    text: tuple[int, ...]
    caches: Mapping[str, Array]

    @property
    def length(self) -> int:
        """In positions: the first is the mark that begins every sequence."""
        return len(self.text) + 1


@dataclass(frozen=True)
class Request:
    """What to speak: text ids, and the prompt's text and speech."""

    text: Sequence[int]
    prompt_text: Sequence[int] = ()
    prompt_speech: Sequence[int] = ()

    def shortest(self) -> int:
        """Speech tokens, at least: the official rule."""
        return SHORTEST * len(self.text)

    def longest(self) -> int:
        """Speech tokens, at most: the official rule."""
        return LONGEST * len(self.text)


class Decoding:
    """Sequences of one batch, as far as they are decoded: embeddings in, logits out. `room`: positions to begin with;
    more is taken when it is needed.
    """

    def __init__(self, model: LanguageModel, rows: int, room: int, prefix: Prefix | None = None) -> None:
        from cosycli.loop import Loop

        self._settings = model.settings
        self._names = model.caches
        state = {name.replace("past", "present"): name for name in self._names}
        self._loop = Loop(model.sessions["lm"], state, in_place=True)
        self._room = self._rounded(room)
        self.lengths = np.zeros(rows, np.int64)
        for name in self._names:
            cache = self._empty(rows)
            if prefix:
                cache[:, :, : prefix.length] = prefix.caches[name]
            self._loop.start({name: cache})
        if prefix:
            self.lengths += prefix.length

    @staticmethod
    def joined(model: LanguageModel, parts: Sequence[Decoding]) -> Decoding:
        """The sequences of all parts as one batch, which is then apart from them."""
        made = Decoding(model, 0, max(part._room for part in parts))
        for name in model.caches:
            made._loop.start({name: np.concatenate([made._fitted(part._loop.state(name)) for part in parts])})
        made.lengths = np.concatenate([part.lengths for part in parts])
        return made

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these sequences alone."""
        self.lengths = self.lengths[rows]
        self._change(lambda cache: cache[rows])

    def feed(self, embeds: Array) -> Array:
        """Append embeddings [rows, n, hidden]; the logits [rows, vocabulary] after them. Raises InferenceError."""
        count = embeds.shape[1]
        self.lengths = self.lengths + count
        longest = int(self.lengths.max())
        if longest > self._room:
            self._room = self._rounded(longest, longest + longest // 2)
            self._change(self._fitted)
        (logits,) = self._loop.step(
            {
                "embeds": embeds.astype(np.float32, copy=False),
                "seqlens_k": (self.lengths - 1).astype(np.int32),
                "total_sequence_length": np.array(longest, np.int32),
                "last": np.full((len(embeds), 1), count - 1, np.int64),
            }
        )
        return logits

    def state(self, name: str) -> Array:
        """A copy of a cache [rows, kv heads, longest sequence, head]."""
        return self._loop.state(name)[:, :, : int(self.lengths.max())].copy()

    def _rounded(self, needed: int, wanted: int = 0) -> int:
        limit: int = self._settings["positions"]
        if needed > limit:
            raise InferenceError(
                f"a sentence of {needed} positions; the model holds {limit}", "cut the text into shorter sentences"
            )
        return min(-(-max(needed, wanted) // ROUND) * ROUND, limit)

    def _empty(self, rows: int) -> Array:
        return np.zeros((rows, self._settings["kv_heads"], self._room, self._settings["head"]), np.float32)

    def _fitted(self, cache: Array) -> Array:
        made = self._empty(len(cache))
        made[:, :, : cache.shape[2]] = cache
        return made

    def _change(self, changed: Callable[[Array], Array]) -> None:
        """Replace each cache, one at a time, so that no two copies of all are held."""
        for name in self._names:
            self._loop.start({name: changed(self._loop.state(name))})


class LanguageModel:
    """The language model of a bundle. May be used by many threads; each sequence has its own caches."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], provider: str = "cpu") -> None:
        from cosycli.runtime import Session

        self.settings = settings
        # No CUDA graph: a prompt and a step differ in shape, and the total length is read on the CPU.
        self.sessions = {"lm": Session(folder / "lm.onnx", provider=provider, mem_reuse=True)}
        self.caches = [f"past.{layer}.{kind}" for layer in range(settings["layers"]) for kind in ("key", "value")]
        self._text = np.load(folder / "text-embedding.npy", mmap_mode="r")
        self._speech = np.load(folder / "speech-embedding.npy", mmap_mode="r")
        self._sos, self._task = np.load(folder / "lm-marks.npy")
        self.stop = frozenset(settings["stop"])
        self.silent = SILENT if settings["version"] == 3 else frozenset()

    def start(self, request: Request, prefix: Prefix | None = None) -> Array:
        """The embeddings [n, hidden] that come before the first speech token, without the prefix."""
        prompt = list(request.prompt_text)
        if prefix:
            if tuple(prompt) != prefix.text:
                raise ValueError("a prefix of another prompt")
            head: list[Array] = []
        else:
            head = [self._sos[None], self.text(prompt)]
        parts = [*head, self.text(request.text), self._task[None], self.speech(request.prompt_speech)]
        return np.concatenate(parts)

    def text(self, ids: Sequence[int]) -> Array:
        """Embeddings of text tokens [n, hidden]."""
        made: Array = self._text[np.asarray(ids, np.int64)].astype(np.float32)
        return made

    def speech(self, ids: Sequence[int]) -> Array:
        """Embeddings of speech tokens [n, hidden]."""
        made: Array = self._speech[np.asarray(ids, np.int64)].astype(np.float32)
        return made

    def prefix(self, prompt_text: Sequence[int]) -> Prefix:
        """The caches of what all sentences with this prompt text begin with."""
        embeds = np.concatenate([self._sos[None], self.text(prompt_text)])[None]
        decoding = Decoding(self, 1, embeds.shape[1])
        decoding.feed(embeds)
        return Prefix(tuple(prompt_text), {name: decoding.state(name) for name in self.caches})

    def generate(
        self,
        request: Request,
        seed: int,
        *,
        prefix: Prefix | None = None,
        strict: bool = False,
        limit: int | None = None,
        watch: Watch | None = None,
    ) -> Iterator[int]:
        """Yield speech tokens as they are drawn. `strict` lets nothing end a sentence before its shortest length, where
        the official rule bans one id. `limit`: of tokens, below the official one. `watch` sees all that is drawn, also
        what is not spoken, and may end the sentence. Raises InferenceError.
        """
        draft = _Draft(self, request, seed, strict, limit, watch)
        if draft.ended:
            return
        decoding, logits = self._begun(request, prefix)
        while (token := draft.take(logits[0])) is not None:
            if draft.spoken:
                yield token
            if draft.ended:
                return
            logits = decoding.feed(self.speech([token])[None])

    def generate_together(
        self,
        requests: Sequence[Request],
        seeds: Sequence[int],
        *,
        prefix: Prefix | None = None,
        strict: bool = False,
        limit: int | None = None,
        watches: Sequence[Watch | None] | None = None,
    ) -> list[list[int]]:
        """The speech tokens of several sentences: each as `generate` yields them, but decoded as one batch, in which
        four sentences take little longer than one. Raises InferenceError.
        """
        given = watches or [None] * len(requests)
        drafts = [
            _Draft(self, request, seed, strict, limit, watch)
            for request, seed, watch in zip(requests, seeds, given, strict=True)
        ]
        said: list[list[int]] = [[] for _ in requests]
        going = [row for row, draft in enumerate(drafts) if not draft.ended]
        if not going:
            return said
        # Prompts alone: computing bounds them, so that a batch is no faster, and padding would be computed too.
        begun = [self._begun(requests[row], prefix) for row in going]
        logits = np.concatenate([first for _, first in begun])
        decoding = Decoding.joined(self, [part for part, _ in begun])
        del begun
        while True:
            kept, following = [], []
            for place, row in enumerate(going):
                token = drafts[row].take(logits[place])
                if token is None:
                    continue
                if drafts[row].spoken:
                    said[row].append(token)
                if not drafts[row].ended:
                    kept.append(place)
                    following.append(token)
            if not kept:
                return said
            if len(kept) < len(going):
                decoding.keep(kept)
                going = [going[place] for place in kept]
            logits = decoding.feed(self.speech(following)[:, None])

    def bistream(
        self,
        text: Iterable[Sequence[int]],
        seed: int,
        *,
        prefix: Prefix,
        prompt_text: Sequence[int] = (),
        prompt_speech: Sequence[int] = (),
        limit: int | None = None,
        watch: Watch | None = None,
    ) -> Iterator[int]:
        """Yield speech tokens while text ids still arrive: five of text, then speech until the model asks for more.

        `prefix`: what comes before everything (version 3: the prompt up to <|endofprompt|>; version 2: nothing);
        `prompt_text`: what the prompt's speech says, mixed with it. Each text id counts as if it came alone, however
        they arrive. Two rules are not the official ones: without prompt speech too, the first text comes before any
        speech; and a token that is neither speech nor what is asked for is never drawn, where that raises an error.
        `watch` sees all that is drawn, and is told of the text. Raises InferenceError.
        """
        fill = self.settings["fill"]
        others = self.stop - {fill}
        random, spoken = np.random.default_rng(seed), _Spoken(self.silent)
        waiting, speech = list(prompt_text), list(prompt_speech)
        fill_at = MIX_SPEECH - len(speech) % MIX_SPEECH
        limit = self.settings["positions"] if limit is None else limit
        decoding = Decoding(self, 1, prefix.length + ROUND, prefix)
        embeds = np.zeros((0, self.settings["hidden"]), np.float32)  # what was fed last, or is to be fed first
        drawn: list[int] = []
        texts, starved = 0, not speech
        for token in itertools.chain.from_iterable(text):
            waiting.append(token)
            texts += 1
            if watch:
                watch.expect(1)
            while speech and len(waiting) >= MIX_TEXT:
                embeds = np.concatenate([embeds, self.text(waiting[:MIX_TEXT]), self.speech(speech[:MIX_SPEECH])])
                del waiting[:MIX_TEXT], speech[:MIX_SPEECH]
            if speech or (starved and len(waiting) < MIX_TEXT):
                continue
            if starved:
                embeds = self.text(waiting[:MIX_TEXT])
                del waiting[:MIX_TEXT]
            while True:
                if len(drawn) >= limit:
                    return _cut(watch)
                logits = decoding.feed(embeds[None])[0]
                drawn.append(fill if len(drawn) == fill_at else sampler.draw(logits, drawn, random, others))
                if drawn[-1] == fill:
                    break
                if watch and watch.add(drawn[-1], drawn[-1] in self.silent):
                    return
                if spoken.keeps(drawn[-1]):
                    yield drawn[-1]
                embeds = self.speech(drawn[-1:])
            fill_at = len(drawn) + MIX_SPEECH
            starved = True
        # What was fed last is fed again if anything was drawn: so does the official code.
        embeds = np.concatenate([embeds, self.text(waiting), self._task[None]])
        while len(drawn) < min(LONGEST * texts, limit):
            logits = decoding.feed(embeds[None])[0]
            drawn.append(sampler.draw(logits, drawn, random))
            if drawn[-1] in self.stop or (watch and watch.add(drawn[-1], drawn[-1] in self.silent)):
                return
            if spoken.keeps(drawn[-1]):
                yield drawn[-1]
            embeds = self.speech(drawn[-1:])
        _cut(watch)

    def _begun(self, request: Request, prefix: Prefix | None) -> tuple[Decoding, Array]:
        """A sequence after all that comes before its first speech token, and the logits there [1, vocabulary]."""
        embeds = self.start(request, prefix)[None]
        room = (prefix.length if prefix else 0) + embeds.shape[1]
        decoding = Decoding(self, 1, min(room + USUAL * len(request.text), self.settings["positions"]), prefix)
        return decoding, decoding.feed(embeds)


def _cut(watch: Watch | None) -> None:
    if watch:
        watch.cut()


class _Draft:
    """One sentence's tokens as they are drawn, and when they end."""

    def __init__(
        self,
        model: LanguageModel,
        request: Request,
        seed: int,
        strict: bool,
        limit: int | None,
        watch: Watch | None,
    ) -> None:
        self._stop, self._silent = model.stop, model.silent
        self._banned = model.stop if strict else frozenset({model.settings["speech"]})
        self._random = np.random.default_rng(seed)
        self._shortest = request.shortest()
        self._longest = min(request.longest(), request.longest() if limit is None else limit)
        self._watch = watch
        self._spoken = _Spoken(model.silent)
        self._drawn: list[int] = []
        self.spoken = True  # whether the last token is heard
        self.ended = self._longest <= 0

    def take(self, logits: Array) -> int | None:
        """Draw the next token from logits [vocabulary]; None where the sentence is over."""
        early = len(self._drawn) < self._shortest
        token = sampler.draw(logits, self._drawn, self._random, self._banned if early else ())
        if token in self._stop:
            self.ended = True
            return None
        self._drawn.append(token)
        self.spoken = self._spoken.keeps(token)
        self.ended = len(self._drawn) >= self._longest
        if self._watch:
            if self._watch.add(token, token in self._silent):
                self.ended = True
                return None
            if self.ended:
                self._watch.cut()
        return token


class _Spoken:
    """Which of the drawn tokens are spoken: of silence, five in a row."""

    def __init__(self, silent: frozenset[int]) -> None:
        self._silent = silent
        self._row = 0

    def keeps(self, token: int) -> bool:
        self._row = self._row + 1 if token in self._silent else 0
        return self._row <= SILENT_IN_A_ROW
