"""Mel spectrogram → samples, chunk by chunk.

Version 3 is causal but for four frames, and its chunks are exactly the whole. Version 2 is not: its chunks overlap and
are cross-faded, as the official code does it. The source of both is the official `SineGen2` (CosyVoice @ ace7c47).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cosycli.backends.cosyvoice import noise
from cosycli.backends.cosyvoice.state import Stateful

if TYPE_CHECKING:
    from cosycli.runtime import Session

Array = NDArray[Any]
Samples = NDArray[np.float32]
Noise = Callable[[int], Array]  # the next `n` samples' noise [n, harmonics]

RATE = 24_000
FRAME = 480  # samples of a mel frame
HARMONICS = 9
AMPLITUDE, UNVOICED = 0.1, 0.1 / 3
VOICED_NOISE = 0.003
VOICED = 10.0  # Hz: below it a frame has no pitch
LOUDEST = 0.99
SIZE, HOP = 16, 4  # of the network's last transform, in samples
SOURCE_NOISE = 5_052_970  # draws before the source's noise, where the official modules are built in the yaml's order
BUFFER = 300 * RATE * HARMONICS  # numbers in that noise; what is longer begins with it again
CONTEXT, OVERLAP = 8, 3840  # version 2: frames and samples that chunks share


class VocoderStream(Protocol):
    """One utterance. Not for two threads at once."""

    def feed(self, mel: Array, *, last: bool = False) -> Samples:
        """Take mel frames [n, bands]; the samples that are complete, 480 a frame in all. Raises InferenceError."""
        ...


class Vocoder:
    """The vocoder of a bundle. Its streams may be used by many threads, one each."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], provider: str = "cpu", noise_start: int = SOURCE_NOISE
    ) -> None:
        from cosycli.runtime import Session

        self.settings = settings
        # The predictor's result is summed up to a phase, and is too small for a GPU.
        self.sessions: dict[str, Session] = {
            "f0": Session(folder / "f0.onnx", mem_reuse=True),
            "vocoder": Session(folder / "vocoder.onnx", provider=provider, mem_reuse=True),
        }
        self.noise_start = noise_start
        with np.load(folder / "vocoder-source.npz") as file:
            self.mix = file["weight"], file["bias"]

    def stream(self, seed: int = 0, source_noise: Noise | None = None) -> VocoderStream:
        """An utterance. `seed` is of version 2's noise; version 3's is always the same."""
        if self.settings["version"] == 3:
            return _Causal(self, source_noise or _official_noise(self.noise_start))
        random = np.random.default_rng(seed)
        return _Overlapping(self, source_noise or (lambda n: random.standard_normal((n, HARMONICS), dtype=np.float32)))

    def source(self, phase: Array, voiced: Array, drawn: Array) -> Samples:
        """The harmonic source. Phases in cycles [n, 9] and whether there is a pitch [n], for each sample (or frame,
        where `drawn` is [n, samples, 9]).
        """
        weight, bias = self.mix
        loud = np.where(voiced, VOICED_NOISE, UNVOICED).astype(np.float32)
        waves = (AMPLITUDE * voiced)[:, None] * np.sin(2 * np.pi * phase)
        tone = (waves @ weight + bias).astype(np.float32)
        hiss = drawn @ weight
        made: Samples = np.tanh(tone + hiss * loud) if hiss.ndim == 1 else np.tanh(tone[:, None] + hiss * loud[:, None])
        return made


def _official_noise(start: int) -> Noise:
    """Version 3's noise, in order: uniform in [0, 1), the same for every utterance."""
    draws = noise.Uniform(start, BUFFER)
    return lambda n: draws.take(n * HARMONICS).reshape(n, HARMONICS)


class _Phase:
    """The harmonics' phases at the frames' ends, in cycles; kept within one, so that length costs no precision."""

    def __init__(self) -> None:
        self._now = np.zeros(HARMONICS)

    def follow(self, f0: Array) -> Array:
        """Fundamental frequencies [n] in Hz → phases [n, 9]."""
        turns = np.mod(f0[:, None].astype(np.float32) * np.arange(1, HARMONICS + 1, dtype=np.float32) / RATE, 1)
        summed = self._now + np.cumsum(turns.astype(np.float64) * FRAME, axis=0)
        if len(summed):
            self._now = np.mod(summed[-1], 1)
        made: Array = np.mod(summed, 1)
        return made


class _Causal:
    """Version 3."""

    def __init__(self, vocoder: Vocoder, source_noise: Noise) -> None:
        self._vocoder = vocoder
        self._noise = source_noise
        self._f0 = Stateful(vocoder.sessions["f0"], 1)
        self._network = Stateful(vocoder.sessions["vocoder"], 1)
        self._phase = _Phase()
        bands = vocoder.settings["bands"]
        self._f0_mel = np.zeros((0, bands), np.float32)  # what the predictor has not yet passed
        self._mel = np.zeros((0, bands), np.float32)  # what the network has not yet passed
        self._source = np.zeros(0, np.float32)  # from eight samples before the network's next transform on
        self._begun = False
        self._overlap = np.zeros(SIZE - HOP, np.float32)

    def feed(self, mel: Array, *, last: bool = False) -> Samples:
        mel = np.asarray(mel, np.float32)
        settings = self._vocoder.settings
        self._follow(np.concatenate([self._f0_mel, mel]), settings["f0_ahead"], last)
        self._mel = np.concatenate([self._mel, mel])
        count = len(self._mel) - (0 if last else settings["ahead"])
        if count <= 0 or (not self._begun and len(self._source) < 2 * SIZE):
            return np.zeros(0, np.float32)
        return self._spoken(count, last)

    def _follow(self, mel: Array, ahead: int, last: bool) -> None:
        """Append the source of all frames whose pitch is known by now."""
        if last:
            mel = np.pad(mel, ((0, ahead), (0, 0)))
        count = len(mel) - ahead
        self._f0_mel = mel[max(count, 0) :]
        if count <= 0:
            return
        (f0,) = self._f0.run({"mel": mel.T[None]}, count)
        drawn = self._noise(count * FRAME).reshape(count, FRAME, HARMONICS)
        source = self._vocoder.source(self._phase.follow(f0), f0 > VOICED, drawn).reshape(-1)
        self._source = np.concatenate([self._source, source])

    def _spoken(self, count: int, last: bool) -> Samples:
        first = not self._begun
        ahead = self._vocoder.settings["ahead"]
        mel = np.pad(self._mel, ((0, ahead), (0, 0))) if last else self._mel
        self._mel = mel[count:]
        half = SIZE // 2
        if first:
            self._source = np.concatenate([self._source[1 : half + 1][::-1], self._source])
        if last:
            self._source = np.concatenate([self._source, self._source[-half - 1 : -1][::-1]])
        steps = count * FRAME // HOP + first
        inputs = {
            "mel": mel[: count + ahead].T[None],
            "source": self._source[None, None, : HOP * (steps - 1) + SIZE],
            "first": np.array([int(first)]),
        }
        (speech,) = self._network.run(inputs, count)
        self._source = self._source[HOP * steps :]
        self._begun = True
        return self._added(speech, first, last)

    def _added(self, speech: Array, first: bool, last: bool) -> Samples:
        """Add what overlaps, and give out what nothing will be added to."""
        speech[: SIZE - HOP] += self._overlap
        if last:
            speech[-SIZE // 2 - HOP : -SIZE // 2] *= _edges()[1]
            ready = speech[: -SIZE // 2]
        else:
            self._overlap = speech[HOP - SIZE :].copy()
            ready = speech[: HOP - SIZE]
        if first:
            ready = ready[SIZE // 2 :]
            ready[:HOP] *= _edges()[0]
        made: Samples = np.clip(ready, -LOUDEST, LOUDEST)
        return made


def _edges() -> tuple[Array, Array]:
    """Gains of the first and of the last samples: one window is missing there, and all of them were divided by."""
    squares = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(SIZE) / SIZE)) ** 2
    whole = squares.reshape(-1, HOP).sum(axis=0)
    first, last = (whole / (whole - missing) for missing in (squares[-HOP:], squares[:HOP]))
    return first.astype(np.float32), last.astype(np.float32)


class _Overlapping:
    """Version 2: the last frames and samples of a chunk are made again with the next, and cross-faded."""

    def __init__(self, vocoder: Vocoder, source_noise: Noise) -> None:
        self._vocoder = vocoder
        self._noise = source_noise
        self._mel = np.zeros((0, vocoder.settings["bands"]), np.float32)
        self._source = np.zeros(0, np.float32)
        self._tail = np.zeros(0, np.float32)

    def feed(self, mel: Array, *, last: bool = False) -> Samples:
        mel = np.concatenate([self._mel, np.asarray(mel, np.float32)])
        if not len(mel) or (not last and len(mel) <= 2 * CONTEXT):
            self._mel = mel  # too short to be worth it; the next chunk brings more
            return np.zeros(0, np.float32)
        source = self._sourced(mel)
        source[: len(self._source)] = self._source
        speech = self.whole(mel, source)
        if len(self._tail):
            window = np.hamming(2 * OVERLAP).astype(np.float32)
            speech[:OVERLAP] = speech[:OVERLAP] * window[:OVERLAP] + self._tail * window[OVERLAP:]
        if last:
            return speech
        self._mel, self._source, self._tail = mel[-CONTEXT:], source[-OVERLAP:], speech[-OVERLAP:]
        return speech[:-OVERLAP]

    def _sourced(self, mel: Array) -> Samples:
        """The source of these frames: phases run straight between the frames' middles."""
        (f0,) = self._vocoder.sessions["f0"].run({"mel": mel.T[None]})
        turns = np.mod(f0[:, None] * np.arange(1, HARMONICS + 1, dtype=np.float32) / RATE, 1)
        phase = np.cumsum(turns.astype(np.float64), axis=0) * FRAME
        place = np.clip((np.arange(len(mel) * FRAME) + 0.5) / FRAME - 0.5, 0, len(mel) - 1)
        below = np.floor(place).astype(int)
        share = (place - below)[:, None]
        between = phase[below] * (1 - share) + phase[np.minimum(below + 1, len(mel) - 1)] * share
        voiced = np.repeat(f0 > VOICED, FRAME)
        return self._vocoder.source(between, voiced, self._noise(len(voiced)))

    def whole(self, mel: Array, source: Samples) -> Samples:
        """mel [n, bands] and its source [480 n] → samples."""
        half = SIZE // 2
        padded = np.pad(source, half, mode="reflect")
        inputs = {"mel": mel.T[None], "source": padded[None, None], "first": np.array([1])}
        (speech,) = self._vocoder.sessions["vocoder"].run(inputs)
        made: Samples = speech[half:-half].copy()
        made[:HOP] *= _edges()[0]
        made[-HOP:] *= _edges()[1]
        return np.clip(made, -LOUDEST, LOUDEST)
