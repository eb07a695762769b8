"""What is measured while a text is spoken, and what becomes of it over texts and rounds. Seconds and megabytes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median

from cosycli.engine import Engine
from cosycli.measure import percentile
from cosycli.timing import Meter

Clock = Callable[[], float]


@dataclass(frozen=True)
class Figure:
    """How a figure is told. `better` and `worse` say what a smaller value is; of what is made, a larger one."""

    words: str
    unit: str
    decimals: int
    better: str = "faster"
    worse: str = "slower"
    more_is_better: bool = False

    @property
    def label(self) -> str:
        """Its name with its unit."""
        return f"{self.words} ({self.unit})" if self.unit else self.words

    def shown(self, value: float) -> str:
        """A value as people read it, without its unit."""
        return f"{value * 1000 if self.unit == 'ms' else value:.{self.decimals}f}"


FIGURES = {
    "latency_p50": Figure("first chunk, p50", "ms", 0),
    "latency_p95": Figure("first chunk, p95", "ms", 0),
    "latency_p99": Figure("first chunk, p99", "ms", 0),
    "gap_p50": Figure("between chunks, p50", "ms", 0),
    "gap_p95": Figure("between chunks, p95", "ms", 0),
    "gap_longest": Figure("between chunks, longest", "ms", 0),
    "stall_longest": Figure("longest stall in playback", "ms", 0, "shorter", "longer"),
    "real_time_factor": Figure("real-time factor", "", 3),
    "throughput": Figure("speech made in a second", "s", 2, more_is_better=True),
    "load_seconds": Figure("load time", "s", 2),
    "memory_mb": Figure("memory, peak", "MB", 0, "smaller", "larger"),
}


@dataclass(frozen=True)
class Spoken:
    """What one text took."""

    first: float  # from the request to the first chunk of sound
    gaps: tuple[float, ...]  # work between the chunks of speech
    stall: float  # the longest silence, had playback begun with the first chunk
    work: float
    audio: float


@dataclass(frozen=True)
class Trial:
    """What one process with one setup took, and what it really ran with."""

    precision: str
    provider: str
    voice: str
    threads: int
    load_seconds: float
    memory_mb: float
    spoken: tuple[Spoken, ...]


def speak(
    engine: Engine, text: str, voice: str | None, clock: Callable[[], float] = time.perf_counter
) -> Spoken | None:
    """Speak a text into nothing; None if it has no sound."""
    meter = Meter(clock)
    arrivals: list[tuple[float, float]] = []  # when each chunk from the first sound on was ready, and its length
    speech: list[float] = []
    with closing(engine.stream(text, voice=voice)) as chunks:
        for chunk in meter.watch(chunks):
            if meter.first_chunk is not None:
                arrivals.append((meter.work, chunk.seconds))
                if chunk.sentence is not None:
                    speech.append(meter.work)
    if meter.first_chunk is None:
        return None
    gaps = tuple(later - sooner for sooner, later in itertools.pairwise(speech))
    return Spoken(meter.first_chunk, gaps, longest_stall(arrivals), meter.work, meter.audio)


def longest_stall(arrivals: Sequence[tuple[float, float]]) -> float:
    """The longest wait of a player that starts with the first of (ready at, seconds of audio). 0: it never ran dry."""
    longest = 0.0
    until = arrivals[0][0] if arrivals else 0.0
    for ready, seconds in arrivals:
        longest = max(longest, ready - until)
        until = max(until, ready) + seconds
    return longest


def figures(trials: Sequence[Trial]) -> dict[str, float]:
    """The figures of one setup. Percentiles are of all texts in all rounds, so that rare ones are met."""
    spoken = [one for trial in trials for one in trial.spoken]
    latencies = sorted(one.first for one in spoken)
    gaps = sorted(gap for one in spoken for gap in one.gaps)
    factors = [sum(one.work for one in trial.spoken) / sum(one.audio for one in trial.spoken) for trial in trials]
    factor = median(factors)
    return {
        **{f"latency_p{percent}": percentile(latencies, percent) for percent in (50, 95, 99)},
        "gap_p50": percentile(gaps, 50),
        "gap_p95": percentile(gaps, 95),
        "gap_longest": max(gaps, default=0.0),
        "stall_longest": max(one.stall for one in spoken),
        "real_time_factor": factor,
        "throughput": 1 / factor if factor else 0.0,
        "load_seconds": median(trial.load_seconds for trial in trials),
        "memory_mb": max(trial.memory_mb for trial in trials),
    }


def spread(trials: Sequence[Trial]) -> dict[str, float]:
    """How far rounds lie from their middle, as a share of it: 0.04 is ±4 %. Nothing for a single round."""
    if len(trials) < 2:
        return {}
    rounds = [figures([trial]) for trial in trials]
    found = {}
    for name in FIGURES:
        values = [one[name] for one in rounds]
        middle = (max(values) + min(values)) / 2
        found[name] = (max(values) - middle) / middle if middle else 0.0
    return found
