"""Execution providers by the names that users give them: order, options, what keeps one from working, what mends it.

Pure facts and the file system; it never imports onnxruntime, which is runtime's alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cosycli.errors import InferenceError, UsageError

# What ONNX Runtime calls them, in the order in which `auto` tries them.
NAMES = {
    "tensorrt": "TensorrtExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "directml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "cpu": "CPUExecutionProvider",
}
NVIDIA = ("tensorrt", "cuda")
CHOICES = ("auto", *NAMES)
GPU_WHEEL = "onnxruntime-gpu[cuda,cudnn]"  # the extras bring the CUDA libraries of the version the wheel is built for

_LIBRARY = re.compile(rb"lib(?:cublas|cublasLt|cudart|cudnn|cufft|curand|nvinfer)\.so\.\d+")
_IN_WORDS = re.compile(r"lib[A-Za-z_]+\.so(?:\.\d+)*")


class ProviderError(InferenceError):
    """A provider that was asked for did not open a session. Exit code 4."""


@dataclass(frozen=True)
class Environment:
    """What decides whether a provider's cached engine fits: another GPU, library or model needs another engine."""

    gpu: str  # compute capability, "8.9"
    tensorrt: str
    onnxruntime: str
    model: str  # SHA-256 of the graph file

    @property
    def key(self) -> str:
        """A folder name that differs whenever any part does."""
        joined = "\0".join((self.gpu, self.tensorrt, self.onnxruntime, self.model))
        return hashlib.sha256(joined.encode()).hexdigest()[:20]


def check_provider(name: str | None) -> str:
    """The name in small letters; `auto` for none. Raises UsageError for one that does not exist."""
    chosen = (name or "auto").lower()
    if chosen not in CHOICES:
        raise UsageError(f"there is no provider {name!r}", f"give one of {', '.join(CHOICES)}")
    return chosen


def has_nvidia() -> bool:
    """Whether an NVIDIA driver is at work here, in WSL too. Asking onnxruntime would not tell: it lists what it was
    built with.
    """
    if sys.platform == "win32":
        return (Path(os.environ.get("SYSTEMROOT", "C:/Windows")) / "System32" / "nvcuda.dll").exists()
    return any(os.path.exists(path) for path in ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"))


def candidates(asked: str, listed: tuple[str, ...], *, nvidia: bool, engines: bool) -> tuple[tuple[str, ...], str]:
    """The providers to try, in order, and why these: `listed` is what onnxruntime was built with.

    `auto` leaves NVIDIA's out where there is no driver, and TensorRT where no engine has been built: that takes
    minutes, and is `cosy warmup`'s to do.
    """
    if asked != "auto":
        return (asked,), f"{asked} was asked for"
    found = [name for name, full in NAMES.items() if full in listed]
    if not nvidia:
        found = [name for name in found if name not in NVIDIA]
    elif not engines:
        found = [name for name in found if name != "tensorrt"]
    if not nvidia and "cuda" not in found and found == ["cpu"]:
        return ("cpu",), "no GPU here that this onnxruntime can use"
    return tuple(dict.fromkeys((*found, "cpu"))), "the first that works"


def session_options(name: str, engine_folder: Path | None = None, memory_mb: int | None = None) -> dict[str, str]:
    """The provider's own options, by onnxruntime's documentation of each.

    CUDA: exhaustive search times every algorithm for every new shape, 6 to 30 s for a short text; the arena's default
    growth doubles and never gives back.
    """
    if name == "cuda":
        options = {"cudnn_conv_algo_search": "HEURISTIC", "arena_extend_strategy": "kSameAsRequested"}
        return options | ({"gpu_mem_limit": str(memory_mb * 1024 * 1024)} if memory_mb else {})
    if name == "tensorrt" and engine_folder is not None:
        folder = str(engine_folder)
        return {
            "trt_fp16_enable": "1",
            "trt_engine_cache_enable": "1",
            "trt_engine_cache_path": folder,
            "trt_timing_cache_enable": "1",
            "trt_timing_cache_path": folder,
        }
    return {}


def profile_options(shapes: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]) -> dict[str, str]:
    """TensorRT's explicit shapes: input → (minimum, optimum, maximum). No text may need another engine."""
    kinds = ("trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_profile_max_shapes")
    return {
        kind: ",".join(f"{name}:{'x'.join(map(str, sizes[place]))}" for name, sizes in sorted(shapes.items()))
        for place, kind in enumerate(kinds)
    }


def memory_limit() -> int | None:
    """GPU memory that sessions may take together, in MB: COSY_GPU_MEMORY."""
    asked = os.environ.get("COSY_GPU_MEMORY", "")
    return int(asked) if asked.isascii() and asked.isdigit() and int(asked) > 0 else None


def missing_libraries(provider_library: Path) -> tuple[str, ...]:
    """Shared libraries that a provider's own one names and the system does not find, newest version of each."""
    try:
        named = {match.decode() for match in _LIBRARY.findall(provider_library.read_bytes())}
    except OSError:
        return ()
    newest: dict[str, str] = {}
    for name in sorted(named, key=lambda n: int(n.rsplit(".", 1)[1])):
        newest[name.split(".")[0]] = name
    return tuple(name for name in sorted(newest.values()) if not _loads(name))


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def how_to_mend(name: str, reason: str, missing: tuple[str, ...] = ()) -> str:
    """The command that mends what keeps a provider from working, or the way round it."""
    wanted = " ".join((*missing, *_IN_WORDS.findall(reason)))
    if "driver version is insufficient" in reason or "CUDA_ERROR_NO_DEVICE" in reason or "no CUDA-capable" in reason:
        return "update or install the NVIDIA driver (nvidia-smi shows it), or use --provider cpu"
    if name == "tensorrt" and "nvinfer" in wanted:
        return "pip install tensorrt-cu13 (or -cu12, as your onnxruntime-gpu), or use --provider cuda"
    if name in NVIDIA and not has_nvidia():
        return "there is no NVIDIA driver here; use --provider cpu"
    if name in NVIDIA:
        return f"pip install '{GPU_WHEEL}', or use --provider cpu"
    return "use --provider cpu"
