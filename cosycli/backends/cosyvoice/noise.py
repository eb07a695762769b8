"""The random numbers that PyTorch's CPU generator draws after `manual_seed(0)`.

The official models keep such numbers as constants outside of the checkpoint. NumPy's Mersenne
twister is the same generator.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Uniform:
    """`torch.rand`, in order: float32 numbers in [0, 1), equal to the last bit. After `period` it begins again."""

    def __init__(self, start: int, period: int) -> None:
        self._beginning = _after(start)
        self._period = period
        self._random = np.random.RandomState()
        self._rewind()

    def _rewind(self) -> None:
        self._random.set_state(self._beginning)
        self._left = self._period

    def take(self, count: int) -> Array:
        """The next `count` numbers."""
        parts = []
        while count:
            part = min(count, self._left)
            draws = np.frombuffer(self._random.bytes(4 * part), np.uint32)
            parts.append((draws & 0xFFFFFF).astype(np.float32) / np.float32(1 << 24))
            count -= part
            self._left -= part
            if not self._left:
                self._rewind()
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


@functools.cache
def _after(start: int) -> Any:
    """The generator's state after `start` draws."""
    random = np.random.RandomState(0)
    while start:  # a part at a time, so that 5 million draws take no memory
        part = min(start, 1 << 20)
        random.bytes(4 * part)
        start -= part
    return random.get_state()


def normal(count: int) -> Array:
    """`torch.randn` of 16 numbers or more, float32: Box-Muller on blocks of 16, as PyTorch fills them (to 5e-7)."""
    blocks = -(-count // 16)
    drawn = Uniform(0, blocks * 16).take(blocks * 16).reshape(blocks, 2, 8)
    radius = np.sqrt(-2 * np.log1p(-drawn[:, 0]))
    angle = np.float32(2 * np.pi) * drawn[:, 1]
    made: Array = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]
    return made
