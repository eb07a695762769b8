"""The random numbers that PyTorch's CPU generator draws after `manual_seed(0)`.

The official models keep such numbers as constants outside of the checkpoint. NumPy's Mersenne
twister is the same generator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def uniform(start: int, count: int) -> Array:
    """`torch.rand`: `count` float32 numbers in [0, 1), from draw `start` on. Equal to the last bit."""
    random = np.random.RandomState(0)
    skipped = 0
    while skipped < start:  # a part at a time, so that 5 million draws take no memory
        part = min(start - skipped, 1 << 20)
        random.bytes(4 * part)
        skipped += part
    draws = np.frombuffer(random.bytes(4 * count), np.uint32)
    made: Array = (draws & 0xFFFFFF).astype(np.float32) / np.float32(1 << 24)
    return made


def normal(count: int) -> Array:
    """`torch.randn` of 16 numbers or more, float32: Box-Muller on blocks of 16, as PyTorch fills them (to 5e-7)."""
    blocks = -(-count // 16)
    drawn = uniform(0, blocks * 16).reshape(blocks, 2, 8)
    radius = np.sqrt(-2 * np.log1p(-drawn[:, 0]))
    angle = np.float32(2 * np.pi) * drawn[:, 1]
    made: Array = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)[:count]
    return made
