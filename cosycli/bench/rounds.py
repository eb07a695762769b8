"""Who is measured when, and the result. What measures a setup comes from outside: no processes or models here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cosycli.bench.figures import Trial, figures, spread
from cosycli.bench.setups import Setup


def run(chosen: Sequence[Setup], measure: Callable[[Setup], Trial], rounds: int) -> list[list[Trial]]:
    """Each round measures every setup once: a busy moment, or a chip that grows hot, hits all alike.

    The order is rotated, so that none is always the first. Returns the trials of each setup.
    """
    trials: list[list[Trial]] = [[] for _ in chosen]
    for number in range(rounds):
        for place in rotated(len(chosen), number):
            trials[place].append(measure(chosen[place]))
    return trials


def rotated(count: int, number: int) -> list[int]:
    """0 1 2, then 1 2 0, then 2 0 1, …"""
    return [(place + number) % count for place in range(count)]


def result(setup: Setup, trials: Sequence[Trial]) -> dict[str, Any]:
    """A setup's figures, under the name of what it really ran with."""
    first = trials[0]
    return {
        "name": ":".join((setup.model, first.precision, first.provider)),
        "model": setup.model,
        "precision": first.precision,
        "provider": first.provider,
        "voice": first.voice,
        "threads": first.threads,
        **{name: round(value, 4) for name, value in figures(trials).items()},
        "spread": {name: round(value, 4) for name, value in spread(trials).items()},
    }
