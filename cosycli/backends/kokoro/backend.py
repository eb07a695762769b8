"""Speaks sentences with the embedded voice: encoder once a sentence, body and generator in growing windows.

All windows carry the context that makes them equal to the whole. Knows nothing of text, files or devices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cosycli.backends import Pcm
from cosycli.backends.kokoro import statistics, symbols
from cosycli.bundles.store import damaged, read_manifest
from cosycli.errors import InferenceError, ModelError, UsageError
from cosycli.runtime import Session, check_finite, has_int8_kernels
from cosycli.types import Options, Samples, Sentence, TimedWord, Voice, Word

RATE = 24_000
FRAME = 600  # samples of one encoder frame, 40 a second
HALF = 300  # samples of one half-frame, 80 a second
PRECISIONS = ("float32", "int8")
BODY_NORM_CHANNELS = 9482
NORM_CHANNELS = 18698

# Receptive fields, measured (tests/real/test_kokoro.py): with less, chunks differ from the whole.
BODY_CONTEXT = 11  # frames
GENERATOR_CONTEXT = 9  # half-frames
COLUMNS = 60  # harmonics' columns a half-frame
SOURCE_BLOCK = 16  # half-frames that the source stage makes at once
# Chunk lengths in frames: 0.15 s, then doubling to 1.6 s. Each chunk plays for longer than the next one takes
# to make on 2 cores, and context costs 11 % of a long chunk.
CHUNK_FRAMES = (6, 10, 16, 32, 48, 64)
EARLY_FRAMES = 2  # a syllable is heard 50 to 75 ms before its first token begins
LEAD_FRAMES = 3  # silence decoded before the first syllable: 75 ms, and room for an early onset
# Speech ends where the predicted energy falls for good: it goes from 7 to -9 within 0.1 s, while the last token
# holds 0.6 s of silence more. In ten voices and twelve sentences no sound above -40 dBFS came later than 0.6 frames
# after the energy passed -4. A sentence keeps 0.25 s of quiet, so 11 frames; tokens say how far to look.
SILENT = -4.0
TAIL_FRAMES = 11
LATEST_FRAMES = 16  # after the last sounding token: a vowel may run on into the mark, a drawn-out mark may breathe
PART_SOUNDS = 100  # characters of one word's phonemes, where a word is longer than the encoder takes
# The smallest, usual and largest windows that `_Windows` makes, for providers that build an engine for shapes.
_HALVES, _FRAMES = (2, 82, 2 * 70 + 2 * GENERATOR_CONTEXT), (1, 48, 70 + GENERATOR_CONTEXT + 2 * BODY_CONTEXT)
SHAPES: dict[str, dict[str, Any]] = {
    "generator": {
        "body": tuple((1, 512, n) for n in _HALVES),
        "harmonics": tuple((1, 22, COLUMNS * n + 1) for n in _HALVES),
    },
    "body": {
        "features": tuple((1, 512, n) for n in _FRAMES),
        "f0": tuple((1, 1, 2 * n) for n in _FRAMES),
        "energy": tuple((1, 1, 2 * n) for n in _FRAMES),
    },
}


@dataclass(frozen=True)
class _Plan:
    """One encoded sentence: everything that its windows are cut from. Half-frame arrays have twice the frames."""

    features: Samples  # [1, 512, T]
    f0: Samples  # [1, 1, 2T]
    energy: Samples  # [1, 1, 2T]
    cycles: np.ndarray[Any, np.dtype[np.float64]]  # [9, 2T] phase of each harmonic, in cycles
    voiced: Samples  # [2T]
    body_affine: tuple[Samples, Samples]
    generator_affine: tuple[Samples, Samples]
    first: int  # frames [first, last) are decoded
    last: int
    words: tuple[TimedWord, ...]  # seconds from the start of the sentence's audio


class Kokoro:
    """The embedded voice's backend: opens each graph once, when first needed."""

    rate = RATE

    def __init__(self, folder: Path, precision: str | None = None, provider: str = "cpu") -> None:
        self.precision, kind = _precision(folder, precision, provider)
        self.provider = provider

        def opened(name: str) -> Session:
            return Session(folder / name, provider=provider, shapes=SHAPES[name.split(".")[0]])

        # The encoder is the published int8 graph, whose layers no GPU provider runs; style and source are too small
        # to be worth the way to a GPU and back.
        names = (f"generator{kind}.onnx", "encoder.onnx", f"body{kind}.onnx", "style.onnx", "source.onnx")
        on_cpu = names[1], *names[3:]
        # Two at a time: opening is mostly single-threaded, and this is on the way to the first sound.
        with ThreadPoolExecutor(2) as pool:
            found = list(
                pool.map(
                    lambda n: Session(folder / n) if n in on_cpu or provider == "cpu" else opened(n),
                    names,
                )
            )
        self.generator, self.encoder, self.body, self.style, self.source = found
        self._gain = _read_gain(folder / "snake_gain.npy")

    @property
    def sessions(self) -> dict[str, Session]:
        """The opened graphs by name."""
        return {name: getattr(self, name) for name in ("encoder", "style", "source", "body", "generator")}

    def synthesize(self, sentence: Sentence, voice: Voice, options: Options) -> Generator[Pcm, None, None]:
        """Yield the sentence's audio in growing chunks, each with the words that start in it."""
        pieces = _pieces(sentence.words)
        origin = 0.0  # seconds of the pieces before
        for index, words in enumerate(pieces):
            origin += yield from self._piece(words, voice, options, origin, final=index == len(pieces) - 1)

    def _piece(
        self, words: Sequence[Word], voice: Voice, options: Options, origin: float, *, final: bool
    ) -> Generator[Pcm, None, float]:
        plan = self._encode(words, voice, options)
        if plan is None:
            return 0.0
        windows = _Windows(self, plan)
        position, size = plan.first, 0
        while position < plan.last:
            end = min(plan.last, position + CHUNK_FRAMES[min(size, len(CHUNK_FRAMES) - 1)])
            if plan.last - end < CHUNK_FRAMES[0]:
                end = plan.last  # no crumb at the end
            samples = windows.decode(position, end)
            start, stop = ((f - plan.first) * FRAME / RATE for f in (position, end))
            done = end == plan.last
            timed = tuple(
                _later(w, origin) for w in plan.words if start <= w.start < stop or (done and w.start >= stop)
            )
            yield Pcm(samples, timed, last=done and final)
            position, size = end, size + 1
        return (plan.last - plan.first) * FRAME / RATE

    def _encode(self, words: Sequence[Word], voice: Voice, options: Options) -> _Plan | None:
        words = _ended(words)
        ids, spans = symbols.tokens(words)
        if not ids:
            return None
        row = voice.arrays["style"][min(len(ids), len(voice.arrays["style"]) - 1)][None]
        features, f0, energy, durations = self.encoder.run(
            {
                "tokens": np.array([[0, *ids, 0]], np.int64),
                "style": row,
                "speed": np.array([options.speed or 1.0], np.float32),
            }
        )
        if not features.shape[2]:
            raise InferenceError("the encoder made no frames", "run `cosy warmup --rebuild`")
        frozen = statistics.statistics(voice.arrays, features, f0, energy, durations, options.speed or 1.0)
        scale, shift = self._affine(row, *frozen)
        first, end, last = _speech_frames(durations, energy, spans, words)
        cut = BODY_NORM_CHANNELS
        return _Plan(
            features,
            f0,
            energy,
            _cycles(f0),
            (f0[0, 0] > 10).astype(np.float32),
            (scale[:, :cut], shift[:, :cut]),
            (scale[:, cut:], shift[:, cut:]),
            first,
            last,
            _timed_words(durations, spans, words, first, end),
        )

    def _affine(self, row: Samples, mean: Samples, var: Samples) -> tuple[Samples, Samples]:
        """Each norm's scale and shift [1, C, 1] for this sentence: γ/σ and β − μγ/σ, snake period included."""
        (affine,) = self.style.run({"style": row[:, :128]})
        gain, bias = affine[0, :NORM_CHANNELS], affine[0, NORM_CHANNELS:]
        scale = gain / np.sqrt(var + np.float32(1e-5))
        shift = bias - mean * scale
        scale[BODY_NORM_CHANNELS:] *= self._gain
        shift[BODY_NORM_CHANNELS:] *= self._gain
        return scale[None, :, None], shift[None, :, None]


class _Track:
    """Columns of a sentence that are made in order, only as far as they are asked for, and kept while needed."""

    def __init__(self, make: Callable[[int, int], Samples], start: int) -> None:
        self._make = make  # (columns made so far, columns needed) → the next columns, [1, channels, ≥ 1]
        self._kept: Samples | None = None
        self._from = self._made = start

    def window(self, low: int, high: int) -> Samples:
        """Columns [low, high). `low` never goes back."""
        while self._kept is None or self._made < high:
            new = self._make(self._made, high)
            self._kept = new if self._kept is None else np.concatenate([self._kept, new], axis=2)
            self._made += new.shape[2]
        self._kept = self._kept[:, :, low - self._from :]
        self._from = low
        return np.ascontiguousarray(self._kept[:, :, : high - low])


class _Windows:
    """One sentence's way through the decoder, window by window."""

    def __init__(self, kokoro: Kokoro, plan: _Plan) -> None:
        self._kokoro, self._plan = kokoro, plan
        # The tracks do not refer to this object: a sentence's arrays (up to 20 MB) are then freed when it ends. In a
        # cycle they waited for the garbage collector, which does not know how large they are.
        self._body = _Track(partial(_make_body, kokoro, plan), 2 * plan.first)
        self._harmonics = _Track(partial(_make_harmonics, kokoro, plan), COLUMNS * 2 * plan.first)

    def decode(self, start: int, end: int) -> Samples:
        """Samples of frames [start, end)."""
        plan = self._plan
        low = max(2 * plan.first, 2 * start - GENERATOR_CONTEXT)
        high = min(2 * plan.last, 2 * end + GENERATOR_CONTEXT)
        (audio,) = self._kokoro.generator.run(
            {
                "body": self._body.window(low, high),
                "harmonics": self._harmonics.window(COLUMNS * low, COLUMNS * high + 1),
                "scale": plan.generator_affine[0],
                "shift": plan.generator_affine[1],
            }
        )
        check_finite(audio, "the generator")
        offset = (2 * start - low) * HALF
        samples: Samples = audio[offset : offset + (end - start) * FRAME]
        return samples


def _make_body(kokoro: Kokoro, plan: _Plan, made: int, needed: int) -> Samples:
    """Half-frames from `made` to `needed` of the body's output."""
    start, end = made // 2, min(plan.last, (needed + 1) // 2)
    low, high = max(plan.first, start - BODY_CONTEXT), min(plan.last, end + BODY_CONTEXT)
    (body,) = kokoro.body.run(
        {
            "features": plan.features[:, :, low:high],
            "f0": plan.f0[:, :, 2 * low : 2 * high],
            "energy": plan.energy[:, :, 2 * low : 2 * high],
            "scale": plan.body_affine[0],
            "shift": plan.body_affine[1],
        }
    )
    new: Samples = body[:, :, 2 * (start - low) : 2 * (end - low)]
    return new


def _make_harmonics(kokoro: Kokoro, plan: _Plan, made: int, needed: int) -> Samples:
    """The next block's columns; blocks lie on a grid of their own, so that windows cannot change a phase."""
    start = made // COLUMNS
    stop = min(2 * plan.last, start + SOURCE_BLOCK)
    phase, voiced = _source_window(plan, start, stop)
    (columns,) = kokoro.source.run({"phase": phase, "voiced": voiced})
    new: Samples = columns if stop == 2 * plan.last else columns[:, :, :-1]
    return new


def _precision(folder: Path, asked: str | None, provider: str) -> tuple[str, str]:
    """The precision to open and what its files' names end with. A bundle that was quantised holds one, under plain
    names; the embedded one holds two.
    """
    if not (folder / "generator-int8.onnx").exists():
        manifest = read_manifest(folder)
        only = manifest.precision if manifest else "float32"
        if asked not in (None, only):
            raise UsageError(f"{folder.name} holds {only}, not {asked}", "leave out the precision")
        return only, ""
    # Only the CPU has kernels for int8 convolutions.
    precision = asked or ("int8" if provider == "cpu" and has_int8_kernels() else "float32")
    if precision not in PRECISIONS:
        raise UsageError(f"{folder.name} holds {' and '.join(PRECISIONS)}, not {asked}", "name one of them")
    return precision, "-int8" if precision == "int8" else ""


def _read_gain(path: Path) -> Samples:
    try:
        gain: Samples = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise ModelError(f"cannot read {path}: {error}", "run `cosy warmup --rebuild`") from error
    if gain.shape != (NORM_CHANNELS - BODY_NORM_CHANNELS,) or not np.isfinite(gain).all() or damaged(path):
        raise ModelError(f"{path} is damaged", "run `cosy warmup --rebuild`")
    return gain


def _ended(words: Sequence[Word]) -> list[Word]:
    """The words with a mark at their end: a single bare syllable (是) came out as a breath, 40 dB down."""
    closed = [*words]
    return closed if closed and closed[-1].kind == "punct" else [*closed, Word("。", "punct")]


def _pieces(words: Sequence[Word]) -> list[list[Word]]:
    """Words in runs that the encoder can take at once; text is cut long before, so this is a safeguard."""
    pieces: list[list[Word]] = [[]]
    length = 0
    for word in (part for whole in words for part in _parts(whole)):
        cost = len(symbols.spoken(word)) + 1
        if length + cost > symbols.LIMIT and pieces[-1]:
            pieces.append([])
            length = 0
        pieces[-1].append(word)
        length += cost
    return pieces


def _parts(word: Word) -> list[Word]:
    """A word that alone is too long (a page of `wwww…`, read letter by letter) in parts; the first keeps its text."""
    if len(symbols.spoken(word)) < symbols.LIMIT:
        return [word]
    sounds = word.sounds if len(word.sounds) > 1 else tuple(re.findall(f".{{1,{PART_SOUNDS}}}", word.sounds[0], re.S))
    if len(sounds) < 2:
        return [word]
    half = len(sounds) // 2
    return [
        *_parts(Word(word.text, word.kind, sounds[:half])),
        *_parts(Word("", word.kind, sounds[half:])),
    ]


def _cycles(f0: Samples) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Phase of the 9 harmonics at each half-frame's middle, in cycles, float64 so that it stays exact for minutes."""
    harmonics = np.arange(1, 10)[:, None]
    per_sample = (f0[0, 0].astype(np.float64) * harmonics / RATE) % 1.0
    cycles: np.ndarray[Any, np.dtype[np.float64]] = np.cumsum(per_sample, axis=1) * HALF
    return cycles


def _source_window(plan: _Plan, low: int, high: int) -> tuple[Samples, Samples]:
    """Phase [1, 9, n+2] and voicing [1, 1, n+2] of half-frames [low − 1, high + 1), edges repeated."""
    index = np.clip(np.arange(low - 1, high + 1), 0, plan.cycles.shape[1] - 1)
    window = plan.cycles[:, index]
    window = window - np.floor(window[:, :1])  # whole cycles do not sound; small numbers keep float32 exact
    return window[None].astype(np.float32), plan.voiced[index][None, None]


def _speech_frames(
    durations: Samples, energy: Samples, spans: Sequence[tuple[int, int]], words: Sequence[Word]
) -> tuple[int, int, int]:
    """The frame to decode from, the one where speech ends, and the one to decode to. Other frames are silent."""
    ends = np.cumsum(durations).astype(int)
    sounding = [span for span, word in zip(spans, words, strict=True) if word.kind != "punct" and span[1] > span[0]]
    total = int(ends[-1])
    if not sounding:
        return 0, total, total
    # Token i of the ids is token i + 1 of the graph, which begins with a silent one.
    first = max(0, int(ends[sounding[0][0]]) - LEAD_FRAMES)
    latest = min(total, int(ends[sounding[-1][1]]) + LATEST_FRAMES)
    loud = np.flatnonzero(energy[0, 0, 2 * first : 2 * latest] > SILENT)
    end = first + (int(loud[-1]) // 2 + 1 if len(loud) else latest - first)
    return first, end, min(latest, end + TAIL_FRAMES)


def _timed_words(
    durations: Samples, spans: Sequence[tuple[int, int]], words: Sequence[Word], first: int, end: int
) -> tuple[TimedWord, ...]:
    """Words with the times of their tokens, counted from frame `first`; none outlasts the speech."""
    ends = (np.cumsum(durations) - EARLY_FRAMES) * FRAME / RATE
    origin, limit = first * FRAME / RATE, (end - first) * FRAME / RATE
    timed = []
    for word, (begin, stop) in zip(words, spans, strict=True):
        if word.kind != "punct" and stop > begin:
            start, stopped = float(ends[begin]) - origin, float(ends[stop]) - origin
            timed.append(TimedWord(word.text, min(limit, max(0.0, start)), min(limit, stopped)))
    return tuple(timed)


def _later(word: TimedWord, seconds: float) -> TimedWord:
    return TimedWord(word.text, word.start + seconds, word.end + seconds) if seconds else word
