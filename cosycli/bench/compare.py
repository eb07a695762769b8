"""Two results against each other, measured now or read from files: ratios, and what they mean in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cosycli.bench.figures import FIGURES, Figure
from cosycli.bench.machine import told
from cosycli.errors import UsageError

NOISE = 0.03  # runs of one and the same setup on an idle machine differ by as much


@dataclass(frozen=True)
class Ratio:
    """One figure of A and B. `ratio` is B's to A's, None where A's is 0."""

    a: str
    b: str
    figure: str
    before: float
    after: float
    ratio: float | None
    meaning: str


def compare(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[Ratio]:
    """Ratios of the results with the same name, or of one against one. Raises UsageError if nothing pairs."""
    old, new = ({result["name"]: result for result in results} for results in (before, after))
    pairs = [(old[name], new[name]) for name in old if name in new]
    if not pairs and len(old) == len(new) == 1:
        pairs = [(before[0], after[0])]
    if not pairs:
        raise UsageError(
            "the two have no setup in common",
            f"the first has {', '.join(old)}; the second {', '.join(new)}",
        )
    return [_ratio(a, b, name) for a, b in pairs for name in FIGURES]


def _ratio(a: Mapping[str, Any], b: Mapping[str, Any], name: str) -> Ratio:
    before, after = a[name], b[name]
    noise = max(NOISE, *(float(one["spread"].get(name, 0)) for one in (a, b)))
    ratio = round(after / before, 4) if before else None
    return Ratio(a["name"], b["name"], name, before, after, ratio, meaning(FIGURES[name], before, after, noise))


def meaning(figure: Figure, before: float, after: float, noise: float = NOISE) -> str:
    """The ratio in words: "B is 1.8 times faster". A difference that the rounds of one setup also show is none."""
    if before == after:
        return "the same"
    if not before or not after:
        return "A has none" if not before else "B has none"
    if max(before, after) / min(before, after) <= 1 + noise:
        return f"no difference beyond the noise (±{noise:.0%})"
    b_wins = (after > before) is figure.more_is_better
    times = round(max(before, after) / min(before, after), 2)
    return f"B is {times:.{1 if times >= 1.5 else 2}f} times {figure.better if b_wins else figure.worse}"


def read_run(content: str, where: str) -> dict[str, Any]:
    """A run that `cosy bench --json` printed. Raises UsageError for anything else."""
    try:
        found = json.loads(content)
        told(found)
        if not found["results"]:
            raise ValueError("no results")
        for result in found["results"]:
            numbers = [*(result[name] for name in FIGURES), *result["spread"].values()]
            if not isinstance(result["name"], str) or not all(isinstance(n, int | float) for n in numbers):
                raise TypeError("a result has a name and figures")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{where} is no run of `cosy bench --json`", "`cosy bench --json > FILE` makes one") from None
    return dict(found)
