"""What `run.sh` runs on a GPU machine: one line of JSON a check; exit 1 if one fails. Nothing is skipped in silence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from cosycli import runtime
from cosycli.engine import Engine
from cosycli.measure import percentile
from cosycli.timing import Meter

ROOT = Path(__file__).resolve().parents[2]
TEXTS = (ROOT / "tests/data/sentences-zh.txt").read_text("utf-8").splitlines()


def opened(provider: str) -> Engine:
    """An engine that runs on this provider, or an error."""
    engine = Engine(provider=provider)
    engine.open()
    return engine


def spoken(engine: Engine, text: str) -> tuple[np.ndarray, Meter]:
    """A text's samples and what they took."""
    meter = Meter()
    return np.concatenate([chunk.samples for chunk in meter.watch(engine.stream(text))]), meter


def used_mb() -> int:
    """Memory in use on the first GPU."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0])


def providers() -> dict[str, object]:
    """What is listed, and what really opens a session."""
    found = {name: runtime.provider_opens(name) or "works" for name in ("tensorrt", "cuda", "cpu")}
    return {"ok": found["cuda"] == "works", **found}


def parity(provider: str) -> dict[str, object]:
    """The GPU's samples against the CPU's float32 ones. FP16 (TensorRT) and TF32 round differently."""
    from cosycli.backends.kokoro.backend import Kokoro
    from cosycli.bundles import embedded

    gpu, cpu = opened(provider), Engine(provider="cpu")
    folder, _ = embedded.ensure(lambda step: None)
    cpu._backend = Kokoro(folder, precision="float32")
    ratios = []
    for text in TEXTS[:5]:
        a, b = spoken(cpu, text)[0], spoken(gpu, text)[0]
        size = min(len(a), len(b))
        ratios.append(float(10 * np.log10(np.mean(a[:size] ** 2) / np.mean((a[:size] - b[:size]) ** 2))))
    got = {name: session.provider for name, session in gpu.open().sessions.items()}
    return {"ok": min(ratios) > (10 if provider == "tensorrt" else 30), "snr_db": ratios, "providers": got}


def speed(provider: str) -> dict[str, object]:
    """First-chunk latency and real-time factor once warm, ten short texts of different lengths (OR-15) among them."""
    engine = opened(provider)
    texts = [*TEXTS[:20], *(f"{TEXTS[i][:5]}。" for i in range(10))]
    for text in texts[:5]:
        spoken(engine, text)
    meters = [spoken(engine, text)[1] for text in texts]
    firsts = sorted(meter.first_chunk or 0.0 for meter in meters)
    factor = sum(meter.work for meter in meters) / sum(meter.audio for meter in meters)
    p50, p95 = percentile(firsts, 50), percentile(firsts, 95)
    return {"ok": provider == "cpu" or p50 < 0.12, "p50": p50, "p95": p95, "real_time_factor": factor}


def memory() -> dict[str, object]:
    """OR-16: GPU memory after 200 varied texts against that after 50."""
    engine = opened("cuda")
    joined = "".join(TEXTS)
    marks = {}
    for count in range(1, 201):
        at = (count * 37) % 900
        spoken(engine, joined[at : at + 5 + (count * 13) % 60])
        if count in (50, 200):
            marks[count] = used_mb()
    return {"ok": marks[200] <= 1.05 * marks[50] + 16, "after_50_mb": marks[50], "after_200_mb": marks[200]}


def second_start() -> dict[str, object]:
    """OR-07: a second process opens TensorRT's cached engines in at most 30 % of the first one's time."""
    if runtime.provider_opens("tensorrt"):
        return {"ok": True, "left_out": runtime.provider_opens("tensorrt")}
    took = []
    script = "from cosycli.engine import Engine; Engine(provider='tensorrt').open()"
    for _ in range(2):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", script], check=True, env=os.environ)
        took.append(time.perf_counter() - started)
    return {"ok": took[1] <= 0.3 * took[0], "seconds": took}


def chunk_gaps() -> dict[str, object]:
    """Work between the chunks of ten sentences: what a player has to bridge."""
    engine = opened("cuda")
    gaps = [gap for text in TEXTS[:10] for gap in spoken(engine, text)[1].gaps]
    return {"ok": bool(gaps), "median": median(gaps), "longest": max(gaps)}


CHECKS: tuple[tuple[str, Callable[[], dict[str, object]]], ...] = (
    ("providers", providers),
    ("parity cuda", lambda: parity("cuda")),
    ("speed cuda", lambda: speed("cuda")),
    ("speed cpu", lambda: speed("cpu")),
    ("gaps cuda", chunk_gaps),
    ("memory", memory),
    ("tensorrt second start", second_start),
    ("parity tensorrt", lambda: parity("tensorrt")),
    ("speed tensorrt", lambda: speed("tensorrt")),
)


def main() -> int:
    """Run every check; one that raises is a failed one."""
    failed = 0
    for name, check in CHECKS:
        started = time.perf_counter()
        try:
            result = check()
        except Exception as error:
            result = {"ok": False, "error": f"{type(error).__name__}: {error}"[:400]}
        failed += not result["ok"]
        print(json.dumps({"check": name, **result, "took": round(time.perf_counter() - started, 2)}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
