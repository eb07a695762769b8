"""The figures of the README: medians of interleaved runs on this machine, beside what is asked for.

    python tests/bench/figures.py [--rounds 5] [--json]

Latencies run from the request to the first chunk of sound, in a process whose graphs are open and have been used.
The untouched graph is the published model run whole, in the same process and alternately. Nothing else should run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from cosycli.backends.kokoro import symbols
from cosycli.backends.kokoro.weights import read_parts
from cosycli.engine import Engine, sentences
from cosycli.measure import peak_memory_mb, percentile
from cosycli.runtime import threads
from cosycli.timing import Meter
from cosycli.types import Options

ROOT = Path(__file__).resolve().parent.parent.parent
TEN_SECONDS = "昨天傍晚我沿着河边慢慢走回家，看见几个孩子在草地上放风筝，他们的笑声随着风一直传到桥的另一头去了。"

ASKED = {  # name: (at most, aim, unit)
    "first chunk, p50": (200, 100, "ms"),
    "first chunk, p95": (300, 150, "ms"),
    "real-time factor": (0.30, 0.15, ""),
    "cold cosy speak 你好": (2.0, 1.0, "s"),
    "cosy --help": (0.30, 0.15, "s"),
    "peak memory": (900, 500, "MB"),
    "sooner than the untouched graph": (10, 25, "×"),
}


def texts() -> list[str]:
    """Texts of 10 to 300 characters, from the sentences that quality is measured on."""
    lines = (ROOT / "tests/data/sentences-zh.txt").read_text("utf-8").splitlines()
    joined = "".join(lines)
    return [line for line in lines if len(line) >= 10][:20] + [joined[a : a + n] for a, n in
            ((0, 40), (90, 60), (200, 80), (330, 120), (500, 160), (700, 200), (950, 250), (1100, 300))]  # fmt: skip


def speak(engine: Engine, text: str, most: int | None = None) -> Meter:
    """Speak a text, or its first chunks."""
    meter = Meter()
    with closing(engine.stream(text)) as chunks:
        for count, _ in enumerate(meter.watch(chunks), 1):
            if count == most:
                break
    return meter


def untouched() -> Callable[[str], float]:
    """Seconds that the published graph takes for a text, whole."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads()
    session = ort.InferenceSession(bytes(read_parts()), options, providers=["CPUExecutionProvider"])
    style = Engine().voice().arrays["style"]

    def run(text: str) -> float:
        words = [word for sentence in sentences(text, Options()) for word in sentence.words]
        ids, _ = symbols.tokens(words)
        feeds = {"tokens": np.array([[0, *ids, 0]]), "style": style[len(ids)][None], "speed": np.ones(1, np.float32)}
        started = time.perf_counter()
        session.run(None, feeds)
        return time.perf_counter() - started

    return run


def process(*arguments: str) -> float:
    """Seconds that a whole `cosy` process takes."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "cosycli", *arguments], check=True, capture_output=True)
    return time.perf_counter() - started


def figures(rounds: int) -> dict[str, Any]:
    """All figures; each round takes every kind of run once, so that a busy moment hits all alike."""
    engine, whole = Engine(), untouched()
    engine.open()
    speak(engine, TEN_SECONDS)
    latencies, factors, ours, theirs, cold, shown = [], [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "x.wav")
        process("speak", "你好", "-o", target)
        for _ in range(rounds):
            meters = [speak(engine, text) for text in texts()]
            latencies += [meter.first_chunk for meter in meters]
            factors.append(sum(meter.work for meter in meters) / sum(meter.audio for meter in meters))
            for _ in range(3):
                ours.append(speak(engine, TEN_SECONDS, most=1).first_chunk)
                cold.append(process("speak", "你好", "-o", target))
                shown.append(process("--help"))
            theirs.append(whole(TEN_SECONDS))
    return {
        "first chunk, p50": 1e3 * percentile(sorted(latencies), 50),
        "first chunk, p95": 1e3 * percentile(sorted(latencies), 95),
        "real-time factor": median(factors),
        "cold cosy speak 你好": median(cold),
        "cosy --help": median(shown),
        "peak memory": alone(),
        "sooner than the untouched graph": median(theirs) / median(ours),
        "10 s sentence, ours / whole (s)": (round(median(ours), 3), round(median(theirs), 3)),
        "this process's memory, both models (MB)": round(peak_memory_mb()),
    }


def alone() -> float:
    """Peak memory of a process that speaks the 50 everyday sentences and nothing else, in MB."""
    command = [sys.executable, "-m", "cosycli", "warmup", "--json", "-q"]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["memory_mb"])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = figures(arguments.rounds)
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
        return
    for name, value in found.items():
        most, aim, unit = ASKED.get(name, ("", "", ""))
        shown = f"{value:.3g}" if isinstance(value, float) else str(value)
        print(f"{name:40} {shown:>14} {unit:3} at most {most}, aim {aim}" if unit or most else f"{name:40} {shown:>14}")


if __name__ == "__main__":
    main()
