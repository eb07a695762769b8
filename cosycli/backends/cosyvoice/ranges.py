"""Keys and values in int8: the range that each of their channels has in a flow's caches.

A channel's scale is part of the product that makes it, and its inverse of what reads it: keys' of the queries, values'
of attention's outputs. So ranges cost nothing while they are used, and a voice has its own. Knows no solver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MOST = 127  # of int8
MARGIN = 1.5  # what was not heard in the prompt may reach further
ROTATED = 64  # channels of the first head whose pairs are rotated into each other, and must have one scale
WIDER = 4  # times as far, for a channel that reached the end of its range
FEW = 4  # that a channel's largest value counts for at least: of fewer, rounding is too large a part
LEAST = 1e-6  # a channel that is always 0 has a range as well


def vector(parts: Mapping[str, Array], reach: Array) -> Array:
    """The step graph's input `ranges`, for reaches [blocks, 2 · dim] of keys and values.

    `parts`: scale and bias [blocks, 3 · dim] of the product that makes queries, keys and values.
    """
    keys, values = np.split(scales(reach), 2, axis=1)
    by = np.concatenate([keys, 1 / keys, 1 / values], axis=1)
    made: Array = np.concatenate([parts["scale"] * by, parts["bias"] * by, values], axis=1)
    return made.astype(np.float32).reshape(-1)


def scales(reach: Array) -> Array:
    """What 1 in the caches stands for [blocks, 2 · dim]."""
    made = np.maximum(reach, LEAST) / MOST
    pairs = made[:, :ROTATED].reshape(len(made), -1, 2).max(axis=2)
    made[:, :ROTATED] = pairs.repeat(2, axis=1)
    return made


def measured(caches: Mapping[str, Array], reach: Array) -> tuple[Array, bool]:
    """The reaches [blocks, 2 · dim] of what caches `cache.BLOCK.k` and `.v` [rows, heads, frames, width] hold in the
    ranges of `reach`, with a margin, and whether any channel's range was too narrow to tell.

    A rotated key counts in the range of its pair, which is the wider of two.
    """
    found = np.empty_like(reach)
    dim = reach.shape[1] // 2
    for block in range(len(reach)):
        for kind, part in (("k", slice(0, dim)), ("v", slice(dim, None))):
            held = np.abs(caches[f"cache.{block}.{kind}"].astype(np.int16))
            found[block, part] = held.max(axis=(0, 2)).reshape(-1)
    ended = found >= MOST
    return scales(reach) * np.where(ended, WIDER * MOST, MARGIN * np.maximum(found, FEW)), bool(ended.any())
