"""Repetition-aware sampling (RAS), as CosyVoice draws speech tokens (`ras_sampling` @ ace7c47)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TOP_P, TOP_K = 0.8, 25
WINDOW = 10  # tokens in which a repetition counts
TAU = 0.1  # share of the window that a token may fill: one occurrence is one too many


def nucleus(probabilities: Array) -> Array:
    """The ids that are drawn from first, most likely ones first: until their sum reaches 0.8, at most 25."""
    count = min(TOP_K, len(probabilities))
    top = np.argpartition(-probabilities, count - 1)[:count]
    edge = probabilities[top].min()  # of those as likely as the last, the lowest ids count, as in a stable sort
    top = np.flatnonzero(probabilities >= edge)
    top = top[np.argsort(-probabilities[top], kind="stable")][:count]
    before = np.cumsum(probabilities[top]) - probabilities[top]
    made: Array = top[before < TOP_P]
    return made


def softmax(logits: Array) -> Array:
    """In float64, so that draws do not depend on how float32 is summed."""
    powers = np.exp(logits.astype(np.float64) - logits.max())
    made: Array = powers / powers.sum()
    return made


def draw(logits: Array, recent: Sequence[int], random: np.random.Generator, banned: Collection[int] = ()) -> int:
    """One token id for logits [vocabulary]; `recent` are the tokens so far. What repeats is replaced by a draw from all
    that remain.
    """
    if banned:
        logits = logits.copy()
        logits[list(banned)] = -np.inf
    chances = softmax(logits)
    top = nucleus(chances)
    chosen = int(top[_place(chances[top], random)])
    if list(recent[-WINDOW:]).count(chosen) >= WINDOW * TAU:
        chances[chosen] = 0
        if chances.sum() > 0:
            return _place(chances, random)
    return chosen


def _place(weights: Array, random: np.random.Generator) -> int:
    sums = np.cumsum(weights)
    place = int(np.searchsorted(sums, random.random() * sums[-1], side="right"))
    return min(place, int(np.flatnonzero(weights)[-1]))
