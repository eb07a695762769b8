"""How graphs are opened on the CPU: threads and ONNX Runtime's options, as measured by `cosy bench --tune`.

Owns the file that keeps the choice and when it holds. Read on the way to the first sound, so it imports nothing heavy.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

# Our name for each of ONNX Runtime's levels.
LEVELS = {"basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}
# What threads do while they wait: sleep; spin within a run and stop with it; spin on after it.
SPINNING = {
    "never": {"session.intra_op.allow_spinning": "0"},
    "within": {"session.force_spinning_stop": "1"},
    "always": {},
}


@dataclass(frozen=True)
class Tuning:
    """One way to open the graphs. The defaults are what this package uses where nothing was tuned."""

    threads: int | None = None  # None: one for each core
    optimisation: str = "all"
    # Planning which buffers to share takes as long as the rest of opening (0.5 s of 1 s for the generator's 1,500
    # nodes), and saves nothing: peak memory and speed are the same without it.
    mem_reuse: bool = False
    # Five graphs take turns here, and the spinning threads of one held the cores against the next (first chunk
    # 275 ms with it, 150 without, on 2 idle cores).
    spinning: str = "within"

    def __post_init__(self) -> None:
        count = self.threads
        if not (count is None or (type(count) is int and count > 0)):
            raise ValueError(f"{count!r} threads")
        if self.optimisation not in LEVELS or self.spinning not in SPINNING or type(self.mem_reuse) is not bool:
            raise ValueError("an unknown option")

    def __str__(self) -> str:
        reuse = "buffers shared" if self.mem_reuse else "buffers not shared"
        threads = "default threads" if self.threads is None else f"{self.threads} thread{'s' * (self.threads > 1)}"
        return f"{threads}, optimisation {self.optimisation}, {reuse}, spinning {self.spinning}"


DEFAULT = Tuning()

_trial: Tuning | None = None


@contextlib.contextmanager
def trying(tuning: Tuning | None) -> Iterator[None]:
    """Let whatever is opened meanwhile, in any thread, be opened so; None changes nothing. For measurements."""
    global _trial
    before = _trial
    _trial = tuning if tuning is not None else before
    try:
        yield
    finally:
        _trial = before


def path() -> Path:
    """Where the choice is kept: beside the user's lexicon."""
    from cosycli.text.lexicon import user_lexicon_path

    return user_lexicon_path().with_name("tuning.json")


def current(cores: int, onnxruntime: str | None = None, *, model: str | None = None) -> Tuning:
    """What holds now: the trial, else the kept choice if it was made here, else the defaults.

    A home folder may be shared by machines, a container may get fewer cores than last time, and another ONNX Runtime
    has other kernels. A file that cannot be used counts as none. How threads work holds for any model; how graphs are
    optimised only for the one it was found with: the int8 layers of another may depend on fusions.
    """
    if _trial is not None:
        return _trial
    try:
        found = json.loads(path().read_text("utf-8"))
        if found["cores"] != cores or found["onnxruntime"] != (onnxruntime or _version()):
            return DEFAULT
        kept = Tuning(**{field.name: found[field.name] for field in fields(Tuning)})
        if model is not None and found["model"] != model:
            return replace(kept, optimisation=DEFAULT.optimisation, mem_reuse=DEFAULT.mem_reuse)
        return kept
    except (OSError, ValueError, KeyError, TypeError):
        return DEFAULT


def _version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)


def keep(tuning: Tuning, cores: int, model: str, why: dict[str, Any]) -> Path:
    """Keep a choice for this machine, found with a model; `why` is for people. Returns the file."""
    from cosycli.audio.atomic import write_atomically

    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    content = {"cores": cores, "onnxruntime": _version(), "model": model, **asdict(tuning), **why}
    write_atomically(target, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    return target


def forget() -> bool:
    """Remove the kept choice; whether there was one."""
    try:
        path().unlink()
    except FileNotFoundError:
        return False
    return True
