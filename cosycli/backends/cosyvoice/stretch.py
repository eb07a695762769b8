"""Speed: a mel spectrogram with more or fewer frames, by linear interpolation as in the official code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Mel = NDArray[Any]


class Stretch:
    """One utterance's frames at another speed, chunk by chunk: the same as the whole."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._held: Mel | None = None  # from frame `_first` on
        self._first = 0
        self._made = 0

    def feed(self, mel: Mel, *, last: bool = False) -> Mel:
        """Frames [n, bands] in, about n / speed out."""
        if self._speed == 1:
            return mel
        held = mel if self._held is None else np.concatenate([self._held, mel])
        known = self._first + len(held)
        if not len(held):
            return held
        total = int(known / self._speed) if last else int((known - 1.5) / self._speed)
        place = np.clip((np.arange(self._made, max(total, self._made)) + 0.5) * self._speed - 0.5, 0, known - 1)
        below = np.floor(place).astype(int)
        share = (place - below)[:, None].astype(np.float32)
        after = np.minimum(below + 1, known - 1) - self._first
        made: Mel = held[below - self._first] * (1 - share) + held[after] * share
        self._made += len(made)
        following = max(int(np.floor((self._made + 0.5) * self._speed - 0.5)), 0)
        drop = min(max(following - self._first, 0), len(held) - 1)
        self._held, self._first = held[drop:], self._first + drop
        return made
