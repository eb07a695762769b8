"""Text → speech tokens, one after another: the language model with its key-value cache and CosyVoice's rules of length.

Sequence, sampling and limits are those of `Qwen2LM` and `CosyVoice3LM` (CosyVoice @ ace7c47). Knows no flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosycli.backends.cosyvoice import sampler
from cosycli.errors import InferenceError

Array = NDArray[Any]

SHORTEST, LONGEST = 2, 20  # speech tokens for each text token
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
    """Sequences of one batch, as far as they are decoded: embeddings in, logits out."""

    def __init__(self, model: LanguageModel, rows: int, room: int, prefix: Prefix | None = None) -> None:
        from cosycli.loop import Loop

        settings = model.settings
        room = -(-room // ROUND) * ROUND
        if room > settings["positions"]:
            raise InferenceError(
                f"a sentence of {room} positions; the model holds {settings['positions']}",
                "cut the text into shorter sentences",
            )
        names = [f"{layer}.{kind}" for layer in range(settings["layers"]) for kind in ("key", "value")]
        self._loop = Loop(model.sessions["lm"], {f"present.{name}": f"past.{name}" for name in names}, in_place=True)
        shape = (rows, settings["kv_heads"], room, settings["head"])
        caches = {f"past.{name}": np.zeros(shape, np.float32) for name in names}
        self.lengths = np.zeros(rows, np.int64)
        if prefix:
            for name, kept in prefix.caches.items():
                caches[name][:, :, : prefix.length] = kept
            self.lengths += prefix.length
        self._loop.start(caches)

    def feed(self, embeds: Array, counts: Array | None = None) -> Array:
        """Append embeddings [rows, n, hidden], each row its own count of them; logits [rows, vocabulary] after them.

        Different counts can only be in the first call. Raises InferenceError.
        """
        counts = np.full(len(embeds), embeds.shape[1]) if counts is None else counts
        self.lengths = self.lengths + counts
        (logits,) = self._loop.step(
            {
                "embeds": embeds.astype(np.float32, copy=False),
                "seqlens_k": (self.lengths - 1).astype(np.int32),
                "total_sequence_length": np.array(self.lengths.max(), np.int32),
                "last": (counts - 1).astype(np.int64)[:, None],
            }
        )
        return logits

    def caches(self, names: Iterable[str], length: int) -> dict[str, Array]:
        """Copies of the caches' first positions."""
        return {name: self._loop.state(name)[:, :, :length].copy() for name in names}


class LanguageModel:
    """The language model of a bundle. May be used by many threads; each sequence has its own caches."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], provider: str = "cpu") -> None:
        from cosycli.runtime import Session

        self.settings = settings
        self.sessions = {"lm": Session(folder / "lm.onnx", provider=provider, mem_reuse=True, cuda_graph=True)}
        self._text = np.load(folder / "text-embedding.npy", mmap_mode="r")
        self._speech = np.load(folder / "speech-embedding.npy", mmap_mode="r")
        self._sos, self._task = np.load(folder / "lm-marks.npy")
        self._stop = frozenset(settings["stop"])
        self._silent = SILENT if settings["version"] == 3 else frozenset()

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
        names = [f"past.{layer}.{kind}" for layer in range(self.settings["layers"]) for kind in ("key", "value")]
        return Prefix(tuple(prompt_text), decoding.caches(names, embeds.shape[1]))

    def generate(
        self,
        request: Request,
        seed: int,
        *,
        prefix: Prefix | None = None,
        strict: bool = False,
        limit: int | None = None,
    ) -> Iterator[int]:
        """Yield speech tokens as they are drawn. `strict` lets nothing end a sentence before its shortest length, where
        the official rule bans one id. `limit`: of tokens, below the official one. Raises InferenceError.
        """
        longest = min(request.longest(), limit if limit is not None else request.longest())
        embeds = self.start(request, prefix)[None]
        room = (prefix.length if prefix else 0) + embeds.shape[1] + longest
        decoding = Decoding(self, 1, room, prefix)
        random = np.random.default_rng(seed)
        spoken = _Spoken(self._silent)
        drawn: list[int] = []
        banned = self._stop if strict else {self.settings["speech"]}
        while len(drawn) < longest:
            logits = decoding.feed(embeds)[0]
            token = sampler.draw(logits, drawn, random, banned if len(drawn) < request.shortest() else ())
            if token in self._stop:
                return
            drawn.append(token)
            if spoken.keeps(token):
                yield token
            embeds = self.speech([token])[None]

    def generate_together(
        self, requests: Sequence[Request], seeds: Sequence[int], *, strict: bool = False
    ) -> list[list[int]]:
        """Speech tokens of several sentences, decoded as one batch: each as `generate` would."""
        starts = [self.start(request) for request in requests]
        counts = np.array([len(start) for start in starts])
        embeds = np.zeros((len(starts), int(counts.max()), starts[0].shape[1]), np.float32)
        for row, start in enumerate(starts):
            embeds[row, : len(start)] = start
        longest = [request.longest() for request in requests]
        decoding = Decoding(self, len(starts), int((counts + longest).max()))
        randoms = [np.random.default_rng(seed) for seed in seeds]
        drawn: list[list[int]] = [[] for _ in starts]
        ended = [size == 0 for size in longest]
        banned = self._stop if strict else {self.settings["speech"]}
        logits = decoding.feed(embeds, counts)
        while True:
            following = [0] * len(starts)
            for row, request in enumerate(requests):
                if ended[row]:
                    continue
                early = len(drawn[row]) < request.shortest()
                token = sampler.draw(logits[row], drawn[row], randoms[row], banned if early else ())
                if token in self._stop:
                    ended[row] = True
                    continue
                drawn[row].append(token)
                following[row] = token
                ended[row] = len(drawn[row]) >= longest[row]
            if all(ended):
                break
            logits = decoding.feed(self.speech(following)[:, None])
        return [[token for token in tokens if spoken.keeps(token)] for tokens, spoken in self._each(drawn)]

    def _each(self, drawn: Sequence[list[int]]) -> Iterator[tuple[list[int], _Spoken]]:
        for tokens in drawn:
            yield tokens, _Spoken(self._silent)


class _Spoken:
    """Which of the drawn tokens are spoken: of silence, five in a row."""

    def __init__(self, silent: frozenset[int]) -> None:
        self._silent = silent
        self._row = 0

    def keeps(self, token: int) -> bool:
        self._row = self._row + 1 if token in self._silent else 0
        return self._row <= SILENT_IN_A_ROW
