"""Shaping one sentence's samples on their way out: trimmed edges, a peak guard, a closing fade, set pauses.

Pure arithmetic on numpy arrays. However the input is cut into pieces, the output is the same, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cosycli.errors import InferenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Samples = NDArray[np.float32]

SOUND = 0.01  # -40 dBFS: what is louder belongs to a syllable
LEAD = 0.12  # seconds kept before the first sound, at most 0.2; a soft initial (h, f, x) starts 0.1 s below -40 dBFS
TAIL = 0.25  # seconds kept after the last sound, at most 0.35; final vowels decay within 0.2 s
FADE = 0.005
KNEE, CEILING = np.float32(0.9), np.float32(0.989)  # float32(0.99) is above 0.99


def silence(seconds: float, rate: int) -> Samples:
    """That many seconds of nothing."""
    return np.zeros(max(0, round(seconds * rate)), np.float32)


def limit(samples: Samples) -> Samples:
    """Keep peaks under 0.99 by bending what exceeds 0.9; all else passes untouched.

    The bend is a fraction, t / (1 + t): division rounds alike everywhere, tanh does not.
    """
    size = np.abs(samples)
    loud = size > KNEE
    if not loud.any():
        return samples
    room = CEILING - KNEE
    over = np.minimum((size[loud] - KNEE) / room, np.float32(1e6))
    bent = samples.copy()
    bent[loud] = np.copysign(KNEE + room * (over / (np.float32(1) + over)), samples[loud])
    return bent


def to_int16(samples: Samples) -> NDArray[np.int16]:
    """The one conversion all sinks use: scaled by 32767, rounded half away from zero, clipped."""
    if not np.isfinite(samples).all():
        raise InferenceError("the model produced numbers that are not sound (NaN)", "try another provider or precision")
    wide = samples.astype(np.float64) * 32767.0
    rounded: NDArray[np.float64] = np.copysign(np.floor(np.abs(wide) + 0.5), wide)
    return np.clip(rounded, -32768, 32767).astype(np.int16)


def fade_out(samples: Samples, rate: int, seconds: float = FADE) -> Samples:
    """Samples whose last 5 ms fall to exactly zero.

    The curve is a raised cosine squared: flat at both ends, and under 0.01 a fifth before the end.
    """
    count = min(len(samples), round(seconds * rate))
    if count == 0:
        return samples
    position = np.arange(count - 1, -1, -1, dtype=np.float64) / count
    curve = (0.5 - 0.5 * np.cos(np.pi * position)) ** 2
    faded = samples.copy()
    faded[-count:] = (faded[-count:] * curve).astype(np.float32)
    return faded


class Edges:
    """Trims the silence before a sentence's first sound and after its last, as the samples stream by.

    Silence inside the sentence passes whole; what may turn out to be its end is held until more sound comes.
    `skipped` counts the samples dropped in front, by which word times move; with `exact`, too little silence in
    front is made up for, and counts as negative.
    """

    def __init__(
        self, rate: int, lead: float = LEAD, tail: float = TAIL, threshold: float = SOUND, *, exact: bool = False
    ) -> None:
        self._exact = exact
        self._lead, self._tail = int(lead * rate), int(tail * rate)
        self._threshold = np.float32(threshold)
        self._held = np.zeros(0, np.float32)
        self._allowed = 0  # samples that may still pass without another sound
        self._sounding = False
        self.skipped = 0

    def push(self, samples: Samples) -> Samples:
        """Take the next piece; give what is certain to stay."""
        held = np.concatenate((self._held, samples))
        loud = np.flatnonzero(np.abs(held) > self._threshold)
        if not len(loud):
            return self._let_out(held, self._allowed) if self._sounding else self._wait(held)
        if not self._sounding:
            self._sounding = True
            drop = int(loud[0]) - self._lead
            if drop < 0:
                held = np.concatenate((np.zeros(-drop if self._exact else 0, np.float32), held))
                drop = drop if self._exact else 0
                self.skipped += drop
            else:
                held = self._skip(held, drop)
            loud = loud - drop
        end = int(loud[-1]) + 1
        self._allowed = end + self._tail
        return self._let_out(held, self._allowed)

    def finish(self) -> Samples:
        """End of the sentence: what is still held is silence and is dropped."""
        self._held = self._held[:0]
        return self._held

    def _wait(self, held: Samples) -> Samples:
        self._held = self._skip(held, max(0, len(held) - self._lead))
        return held[:0]

    def _skip(self, held: Samples, count: int) -> Samples:
        self.skipped += count
        return held[count:]

    def _let_out(self, held: Samples, count: int) -> Samples:
        count = min(count, len(held))
        self._allowed -= count
        self._held = held[count:]
        return held[:count]


class FadeOut:
    """Holds the last 5 ms back, so that whatever comes last is faded, also when generation is cut short."""

    def __init__(self, rate: int, seconds: float = FADE) -> None:
        self._rate, self._seconds = rate, seconds
        self._count = round(seconds * rate)
        self._held = np.zeros(0, np.float32)

    def push(self, samples: Samples) -> Samples:
        """Take the next piece; give all but the last 5 ms."""
        held = np.concatenate((self._held, samples))
        cut = max(0, len(held) - self._count)
        self._held = held[cut:]
        return held[:cut]

    def finish(self) -> Samples:
        """The last 5 ms, faded to zero."""
        held, self._held = self._held, self._held[:0]
        return fade_out(held, self._rate, self._seconds)


class SentenceShaper:
    """Edges, peak guard and fade in a row: what a backend's samples pass through, a sentence at a time."""

    def __init__(self, rate: int, lead: float = LEAD, tail: float = TAIL, *, exact: bool = False) -> None:
        self._rate = rate
        self._edges = Edges(rate, lead, tail, exact=exact)
        self._fade = FadeOut(rate)

    @property
    def skipped(self) -> float:
        """Seconds dropped in front so far; final once the first samples came out."""
        return self._edges.skipped / self._rate

    def push(self, samples: Samples) -> Samples:
        """Take a piece, give what is ready."""
        return self._fade.push(limit(self._edges.push(samples)))

    def finish(self) -> Samples:
        """What remains, faded. Call it when the sentence ends, wherever it ends."""
        return np.concatenate((self._fade.push(limit(self._edges.finish())), self._fade.finish()))
