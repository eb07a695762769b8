"""Measures an engine over sentences: load time, first-chunk latency cold and warm, real-time factor, memory.

Shared by `cosy warmup` and the benchmarks, so that both mean the same by each figure.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cosycli.engine import Engine
from cosycli.timing import Meter
from cosycli.types import Options

LEAST = 5  # texts that are spoken however long it takes


@dataclass(frozen=True)
class Report:
    """What one process measured. Seconds; latencies run from the request to the first chunk of sound."""

    load_seconds: float
    built: bool  # the voice was assembled first; part of load_seconds
    cold_latency: float  # the first sentence after opening the graphs
    latency_p50: float
    latency_p95: float
    latency_p99: float
    real_time_factor: float
    audio_seconds: float
    sentences: int
    memory_mb: float
    model: str
    precision: str
    threads: int
    providers: dict[str, str]
    why: str

    def as_json(self) -> dict[str, Any]:
        """The report with rounded numbers."""
        return {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(self).items()}


def measure(
    engine: Engine,
    texts: Sequence[str],
    *,
    voice: str | None = None,
    options: Options | None = None,
    progress: Callable[[], None] = lambda: None,
    seconds: float = math.inf,
) -> Report:
    """Open the model if need be and speak every text once. The first is cold; the others give the percentiles.

    After `seconds` of speaking no other text is begun, once there have been `LEAST`.
    """
    from cosycli import runtime

    started = time.perf_counter()
    backend = engine.open()
    loading = engine.timing.load_seconds if engine.timing else time.perf_counter() - started
    meters = [
        meter for meter in _meters(engine, texts, voice, options, progress, seconds) if meter.first_chunk is not None
    ]
    latencies = [meter.first_chunk or 0.0 for meter in meters]
    warm = sorted(latencies[1:] or latencies)
    audio = sum(meter.audio for meter in meters)
    sessions = getattr(backend, "sessions", {})
    return Report(
        load_seconds=loading,
        built=bool(engine.timing and engine.timing.built),
        cold_latency=latencies[0] if latencies else 0.0,
        latency_p50=percentile(warm, 50),
        latency_p95=percentile(warm, 95),
        latency_p99=percentile(warm, 99),
        real_time_factor=sum(meter.work for meter in meters) / audio if audio else 0.0,
        audio_seconds=audio,
        sentences=len(meters),
        memory_mb=peak_memory_mb(),
        model=engine.model,
        precision=backend.precision,
        threads=runtime.threads(),
        providers={name: session.provider for name, session in sessions.items()},
        why=engine.why or f"on the CPU, {runtime.why()}",
    )


def _meters(
    engine: Engine,
    texts: Sequence[str],
    voice: str | None,
    options: Options | None,
    progress: Callable[[], None],
    seconds: float,
) -> Iterator[Meter]:
    started = time.perf_counter()
    for place, text in enumerate(texts):
        if place >= LEAST and time.perf_counter() - started > seconds:
            return
        meter = Meter()
        with closing(engine.stream(text, voice=voice, options=options)) as chunks:
            for _ in meter.watch(chunks):
                pass
        progress()
        yield meter


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile of sorted values: a figure that was really measured. 0 for none."""
    if not values:
        return 0.0
    rank = -(-len(values) * percent // 100)
    return values[max(0, int(rank) - 1)]


def peak_memory_mb() -> float:
    """The process's largest resident size so far, in megabytes; 0 where the system does not tell.

    Linux's getrusage also counts what the parent had when it started this process, so /proc is asked first.
    """
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1e3
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
