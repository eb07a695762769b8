"""What the figures were measured on: CPU, cores, GPU, memory, versions. Asks the system; opens no model."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """The machine and the versions."""
    from cosycli import __version__, runtime

    return {
        "cpu": cpu_name(),
        "cores": runtime.available_cores(),
        "gpu": gpu_names(),
        "memory_mb": memory_mb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "onnxruntime": ", ".join(f"{name} {version}" for name, version in runtime.installed_wheels().items()),
        "cosy": __version__,
    }


def cpu_name() -> str:
    """The CPU's model as its maker calls it, as far as the system tells."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        return (_lines("sysctl", "-n", "machdep.cpu.brand_string") or ["unknown"])[0]
    return platform.processor() or platform.machine() or "unknown"


def gpu_names() -> list[str]:
    """NVIDIA's GPUs by their driver; none where there is no driver."""
    from cosycli.providers import has_nvidia

    return _lines("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") if has_nvidia() else []


def memory_mb() -> int | None:
    """The machine's memory in megabytes; None where the system does not tell."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6)
    except (AttributeError, ValueError, OSError):
        return None


def busy() -> str | None:
    """How much other programs compute, in words, if it is more than half of the CPUs; None where the system does not
    tell.
    """
    if not hasattr(os, "getloadavg"):
        return None
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1  # both are the host's, in containers too
    return f"load {load:.1f} on {cpus} CPUs" if load > max(1.0, cpus / 2) else None


def told(run: Mapping[str, Any]) -> list[str]:
    """Machine, versions and what was spoken, a line each, for people."""
    m = run["machine"]
    memory = f", {m['memory_mb'] / 1000:.1f} GB" if m["memory_mb"] else ""
    gpu = f", {' and '.join(m['gpu'])}" if m["gpu"] else ", no GPU"
    threads = " and ".join(dict.fromkeys(str(result["threads"]) for result in run["results"]))
    rounds = f"{run['rounds']} rounds in turns" if run["rounds"] > 1 else "1 round"
    return [
        f"{m['cpu']}, {m['cores']} cores for this process, {threads} threads{gpu}{memory}, {m['system']}",
        f"cosy {m['cosy']}, {m['onnxruntime']}, Python {m['python']}",
        f"{run['texts']} texts of {run['characters']} characters, warmed up first, {rounds}",
    ]


def _lines(*command: str) -> list[str]:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return []
