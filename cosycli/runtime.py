"""The only user of onnxruntime: sessions, threads, providers and why, one lock a session, foreign errors made ours.

Knows no model family. A session is opened once and serves many threads; its lock is held around `run` alone.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cosycli.errors import InferenceError, ModelError

# More threads than this slow the small windows of streaming down on every machine measured.
MAX_THREADS = 8


def available_cores() -> int:
    """How many CPUs this process may use (the affinity mask, not the host's count)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads() -> int:
    """Threads a session computes with: `COSY_THREADS`, else the CPUs of this process."""
    asked = os.environ.get("COSY_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return max(1, min(MAX_THREADS, available_cores()))


def has_int8_kernels() -> bool:
    """Whether 8-bit convolutions are exact and fast here: VNNI on x86, always on ARM.

    Without VNNI, x86 kernels add pairs of products in 16 bits and saturate, which is heard as noise.
    """
    import platform

    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    with contextlib.suppress(OSError):
        flags = Path("/proc/cpuinfo").read_text()
        return "avx512_vnni" in flags or "avx_vnni" in flags
    return False


def why() -> str:
    """Why the graphs run where they run, in words."""
    kernels = "8-bit kernels" if has_int8_kernels() else "no exact 8-bit kernels, so float32"
    return f"this version runs on the CPU ({kernels})"


class Session:
    """One opened graph.

    Raises ModelError if the file cannot be opened, InferenceError if a run fails.
    """

    def __init__(self, path: Path, *, intra_threads: int | None = None) -> None:
        import onnxruntime as ort

        ort.set_default_logger_severity(4)  # an error is told once, in our own words
        options = ort.SessionOptions()
        # A number of our own also keeps onnxruntime from pinning threads, which fails in containers (#8313).
        options.intra_op_num_threads = intra_threads or threads()
        options.inter_op_num_threads = 1
        # Threads spin between the parts of a run, but not after it: five graphs take turns here, and the spinning
        # threads of one held the cores against the next (first chunk 275 ms with it, 150 without, on 2 idle cores).
        options.add_session_config_entry("session.force_spinning_stop", "1")
        # Planning which buffers to share takes as long as the rest of opening (0.5 s of 1 s for the generator's 1,500
        # nodes), and saves nothing: peak memory and speed are the same without it.
        options.enable_mem_reuse = False
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        started = time.perf_counter()
        try:
            self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has no common base class for its exceptions
            raise ModelError(
                f"cannot open {path}: {_first_line(error)}", "run `cosy warmup --rebuild` to assemble the voice anew"
            ) from error
        self.path = path
        self.load_seconds = time.perf_counter() - started
        self.provider: str = self._session.get_providers()[0]
        self._outputs = [output.name for output in self._session.get_outputs()]
        self._lock = threading.Lock()

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
        """Run the graph on arrays by name; returns the outputs asked for, in order. Raises InferenceError."""
        try:
            with self._lock:
                results: list[Any] = self._session.run(list(outputs or self._outputs), dict(inputs))
        except Exception as error:
            raise InferenceError(
                f"inference failed in {self.path.name}: {_first_line(error)}", "run it again with --verbose"
            ) from error
        return results


def optimise(path: Path) -> None:
    """Replace a model file by its optimised form, with fusions for the CPU but nothing tied to one kind of CPU.

    Opening it then takes half the time. Raises ModelError.
    """
    import onnxruntime as ort

    draft = path.with_suffix(".optimised")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # else a thread is pinned to each core (#8313)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(draft)
    try:
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        draft.replace(path)
    except Exception as error:
        raise ModelError(
            f"cannot optimise {path}: {_first_line(error)}",
            "free some space and try again; if that does not help, report it",
        ) from error


def check_finite(samples: np.ndarray[Any, Any], graph: str) -> None:
    """Raise InferenceError if a graph made NaN or infinity: such audio must never be written."""
    if not np.isfinite(samples).all():
        raise InferenceError(f"{graph} produced samples that are not numbers", "run `cosy warmup --rebuild`")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
