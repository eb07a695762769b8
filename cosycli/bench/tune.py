"""The best way to open graphs on this machine: tried in turns, and taken only if it beats the defaults for certain.

First threads, then each of ONNX Runtime's options alone, then what helped together. The best of many always looks
better than it is, so it is then measured anew, between two runs of the defaults whose difference is the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from cosycli.bench.figures import Trial, figures
from cosycli.bench.rounds import run
from cosycli.bench.setups import Setup
from cosycli.runtime import default_threads
from cosycli.tuning import DEFAULT, Tuning

CLOSE = 0.03  # of two that are nearer than this neither is better
SCREENING = 2  # rounds
BUSY = 0.12  # noise above which something else is at work: what is fastest beside it is not what is fastest alone
OPTIONS: tuple[dict[str, str | bool], ...] = (
    {"optimisation": "extended"},
    {"optimisation": "basic"},
    {"mem_reuse": True},
    {"spinning": "never"},
    {"spinning": "always"},
)

Measure = Callable[[Setup], Trial]


@dataclass(frozen=True)
class Tried:
    """A way to open graphs and its cost against the defaults' in the same rounds: 0.9 is 10 % less."""

    tuning: Tuning
    cost: float


@dataclass(frozen=True)
class Decision:
    """What came of it. `gain` and `noise` are shares of the defaults' cost; None if nothing was worth a second look."""

    best: Tuning
    better: bool  # beats the defaults by more than the noise
    tried: tuple[Tried, ...]
    gain: float | None = None
    noise: float | None = None

    def __str__(self) -> str:
        if self.gain is None or self.noise is None:
            return "nothing beats the defaults"
        if self.noise > BUSY:
            return (
                f"this machine is busy with something else: the defaults differ from themselves by {self.noise:.0%}, "
                "so nothing is kept. Try again when nothing else runs"
            )
        verdict = "is kept" if self.better else "is not kept"
        amount = f"{abs(self.gain):.1%} {'less' if self.gain >= 0 else 'more'}"
        told = f"costs {amount} than the defaults, which differ from themselves by up to {self.noise:.1%}"
        return f"{self.best}: {told}, so it {verdict}"


def thread_counts(cores: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, 16 … and all cores."""
    steps = {base << power for base in (2, 3) for power in range(16)}
    return sorted({1, cores, *(step for step in steps if step < cores)})


def trials_needed(cores: int, rounds: int) -> int:
    """How many processes `tune` starts at most."""
    return SCREENING * (len(thread_counts(cores)) + 1 + len(OPTIONS) + 2) + 3 * rounds


def tune(base: Setup, cores: int, rounds: int, measure: Measure) -> Decision:
    """Find the best way to open `base` with so many cores; `rounds` is for the last, decisive measurement."""
    usual = default_threads(cores)
    others = [Tuning(threads=count) for count in thread_counts(cores) if count != usual]
    counts = [Tried(DEFAULT, 1.0), *_screened(base, others, measure)]
    best = _fewest_threads(counts)
    options = _screened(base, [replace(best.tuning, **change) for change in OPTIONS], measure)  # type: ignore[arg-type]
    found = [*counts, *options]
    helping = [place for place, one in enumerate(options) if one.cost < (1 - CLOSE) * best.cost]
    if len({key for place in helping for key in OPTIONS[place]}) > 1:
        found += _screened(base, [_together(best.tuning, helping, options)], measure)
    winner = min([best, *found[len(counts) :]], key=lambda one: one.cost)
    if winner.cost > (1 - CLOSE) * best.cost:
        winner = best
    if winner.cost > 1 - CLOSE:
        return Decision(DEFAULT, False, tuple(found))
    gain, noise = confirmed(base, winner.tuning, rounds, measure)
    return Decision(winner.tuning, noise < gain and noise <= BUSY, tuple(found), gain, noise)


def confirmed(base: Setup, winner: Tuning, rounds: int, measure: Measure) -> tuple[float, float]:
    """What the winner gains on the defaults, and the largest difference of the defaults from themselves.

    It is held against the faster of the two: a moment that only slowed the other is no gain.
    """
    chosen = [replace(base, tuning=tuning) for tuning in (DEFAULT, winner, DEFAULT)]
    one, its, other = ([cost(trial) for trial in trials] for trials in run(chosen, measure, rounds))
    faster = [min(pair) for pair in zip(one, other, strict=True)]
    gain = 1 - median(mine / theirs for mine, theirs in zip(its, faster, strict=True))
    noise = max(abs(a - b) / least for a, b, least in zip(one, other, faster, strict=True))
    return gain, max(noise, CLOSE)


def cost(trial: Trial) -> float:
    """The geometric mean of first-chunk latency, real-time factor and load time: a command line opens a model often,
    so all three are wanted and none more than another.
    """
    found = figures([trial])
    return float((found["latency_p50"] * found["real_time_factor"] * found["load_seconds"]) ** (1 / 3))


def _screened(base: Setup, tunings: Sequence[Tuning], measure: Measure) -> list[Tried]:
    """Each way's cost against the defaults' in the same rounds."""
    if not tunings:
        return []
    chosen = [replace(base, tuning=tuning) for tuning in (DEFAULT, *tunings)]
    defaults, *others = ([cost(trial) for trial in trials] for trials in run(chosen, measure, SCREENING))
    ratios = [median(mine / theirs for mine, theirs in zip(costs, defaults, strict=True)) for costs in others]
    return [Tried(tuning, ratio) for tuning, ratio in zip(tunings, ratios, strict=True)]


def _fewest_threads(tried: Sequence[Tried]) -> Tried:
    """Of the counts that are as good as the best the usual one, else the one that leaves the most to others."""
    least = min(one.cost for one in tried)
    return min((one for one in tried if one.cost * (1 - CLOSE) <= least), key=lambda one: one.tuning.threads or 0)


def _together(tuning: Tuning, helping: Sequence[int], options: Sequence[Tried]) -> Tuning:
    """All changes that helped; of two values for one option, the better one."""
    for place in sorted(helping, key=lambda place: -options[place].cost):
        tuning = replace(tuning, **OPTIONS[place])  # type: ignore[arg-type]
    return tuning
