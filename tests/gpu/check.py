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
sys.path.insert(0, str(ROOT / "tests"))
TEXTS = (ROOT / "tests/data/sentences-zh.txt").read_text("utf-8").splitlines()


def opened(provider: str, model: str = "kokoro") -> Engine:
    """An engine that runs on this provider, or an error."""
    engine = Engine(model, provider=provider)
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


def parity(provider: str, model: str = "kokoro") -> dict[str, object]:
    """The GPU's samples against the CPU's float32 ones. FP16 (TensorRT) and TF32 round differently."""
    gpu, cpu = opened(provider, model), Engine(provider="cpu", precision="float32")
    ratios = []
    for text in TEXTS[:5]:
        a, b = spoken(cpu, text)[0], spoken(gpu, text)[0]
        size = min(len(a), len(b))
        ratios.append(float(10 * np.log10(np.mean(a[:size] ** 2) / np.mean((a[:size] - b[:size]) ** 2))))
    got = {name: session.provider for name, session in gpu.open().sessions.items()}
    return {"ok": min(ratios) > (10 if provider == "tensorrt" else 30), "snr_db": ratios, "providers": got}


def speed(provider: str, model: str = "kokoro") -> dict[str, object]:
    """First-chunk latency and real-time factor once warm, ten short texts of different lengths (OR-15) among them."""
    engine = opened(provider, model)
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


FP16 = "gpu-check-fp16"


def fp16(provider: str) -> dict[str, object]:
    """`cosy quantize --to fp16`, measured on this provider, as its own JSON tells."""
    command = [sys.executable, "-m", "cosycli", "quantize", "kokoro", "--to", "fp16", "-o", FP16]
    done = subprocess.run([*command, "--provider", provider, "--json", "--force"], capture_output=True, text=True)
    if done.returncode:
        return {"ok": False, "error": done.stderr[-400:]}
    told = json.loads(done.stdout.splitlines()[-1])
    wanted = ("size_ratio", "speed_ratio", "fidelity", "gained", "warnings")
    return {"ok": told["fidelity"]["snr"] >= 30, **{name: told[name] for name in wanted}}


def steps(provider: str) -> dict[str, object]:
    """A state that stays on the device, and a captured CUDA graph, against the same by hand on the CPU."""
    from fakes.graphs import noise

    from cosycli.loop import Loop, capture

    names, zero = {"present": "past"}, {"past": np.zeros((1, 4), np.float32)}
    inputs = [{"x": noise(1, 4, seed=number)} for number in range(20)]
    made, captured = [], None
    for where, graph in (("cpu", False), (provider, False), (provider, provider == "cuda")):
        session = _cell(where, graph)
        loop = Loop(session, names, in_place=True)
        if graph:
            captured = session.cuda_graph
            capture(loop, zero, inputs[0])
        loop.start(zero)
        made.append([loop.step(one)[0] for one in inputs])
    worst = max(float(np.abs(a - b).max()) for other in made[1:] for a, b in zip(made[0], other, strict=True))
    return {"ok": worst < 1e-5 and captured is not False, "worst": worst, "captured": captured}


def _cell(provider: str, graph: bool) -> runtime.Session:
    """present = tanh(x + past), y = 2 · present."""
    import onnx
    from fakes.graphs import model, node, value

    nodes = [node("Add", "x past", "sum"), node("Tanh", "sum", "present"), node("Mul", "present two", "y")]
    shape = [1, 4]
    made = model(
        nodes, [value("x", shape), value("past", shape)], [value("y", shape), value("present", shape)],
        {"two": np.float32(2)},
    )  # fmt: skip
    path = Path(os.environ.get("TMPDIR", "/tmp")) / "cosy-check-cell.onnx"
    onnx.save(made, path)
    return runtime.Session(path, provider=provider, cuda_graph=graph)


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
    ("steps cuda", lambda: steps("cuda")),
    ("memory", memory),
    ("tensorrt second start", second_start),
    ("parity tensorrt", lambda: parity("tensorrt")),
    ("speed tensorrt", lambda: speed("tensorrt")),
    ("fp16 cuda", lambda: fp16("cuda")),
    ("parity fp16 cuda", lambda: parity("cuda", FP16)),
    ("speed fp16 cuda", lambda: speed("cuda", FP16)),
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
