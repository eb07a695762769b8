"""Solved prompts on disk: the first sentence of a process then begins as soon as those after it.

A file is one header line of JSON (where each array lies, of which type and shape), then the arrays. Whoever finds a
file that is not whole, or of something else, finds none. Knows neither flow nor voice: it keeps arrays under a key.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosycli import __version__
from cosycli.audio.atomic import Draft, sweep
from cosycli.bundles.store import MANIFEST, home

Array = NDArray[Any]

FORMAT, SUFFIX = 2, ".solved"
MOST = 1_000_000_000  # bytes of all files together: four voices of three seconds, ten steps, int8
SPARE = 2_000_000_000  # bytes that must be free on the disk after writing


def key(bundle: Path, arrays: Sequence[Array], *numbers: float) -> str | None:
    """The name of what depends on a bundle, some arrays and numbers; None for a bundle without manifest."""
    try:
        digest = hashlib.sha256((bundle / MANIFEST).read_bytes())
    except OSError:
        return None
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(repr((FORMAT, __version__, numbers)).encode())
    return digest.hexdigest()[:32]


class Kept(Mapping[str, Array]):
    """The arrays of a file, each read when it is asked for: it is not worth memory to hold what is copied at once."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, ValueError or KeyError for a file that is not whole."""
        self._lock = threading.Lock()
        self._file = path.open("rb")  # held: the file may be removed before it is read
        weakref.finalize(self, self._file.close)
        header = self._file.readline()
        self._entries: dict[str, tuple[str, list[int], int]] = json.loads(header)["arrays"]
        self._start = len(header)
        whole = self._start + sum(_size(kind, shape) for kind, shape, _ in self._entries.values())
        if os.fstat(self._file.fileno()).st_size != whole:
            raise ValueError(f"{path} is not whole")

    def __getitem__(self, name: str) -> Array:
        kind, shape, at = self._entries[name]
        content = bytearray(_size(kind, shape))
        with self._lock:
            self._file.seek(self._start + at)
            self._file.readinto(content)
        return np.frombuffer(content, kind).reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def load(name: str | None) -> Kept | None:
    """What was kept under a name, or None."""
    path = _path(name)
    if path is None:
        return None
    try:
        found = Kept(path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # what is used stays
    return found


def store(name: str | None, arrays: Mapping[str, Array]) -> threading.Thread | None:
    """Keep arrays under a name, in a thread that the process waits for (see `cli`). No room for it is no error."""
    path = _path(name)
    if path is None:
        return None
    writing = threading.Thread(target=_write, args=(path, arrays), name="saving", daemon=True)
    writing.start()
    return writing


def _path(name: str | None) -> Path | None:
    return home() / "solved" / f"{name}{SUFFIX}" if name else None


def _size(kind: str, shape: list[int]) -> int:
    return int(np.dtype(kind).itemsize) * math.prod(shape)


def _write(path: Path, arrays: Mapping[str, Array]) -> None:
    entries, at = {}, 0
    for name, array in arrays.items():
        entries[name] = (array.dtype.str, array.shape, at)
        at += array.nbytes
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent)
        if at > MOST or shutil.disk_usage(path.parent).free < at + SPARE:
            return
        with Draft(path) as draft, open(draft.fd, "wb", closefd=False) as file:
            file.write(json.dumps({"arrays": entries}).encode() + b"\n")
            for array in arrays.values():
                file.write(np.ascontiguousarray(array).data)
            file.flush()
        _drop_oldest(path.parent)


def _drop_oldest(folder: Path) -> None:
    total = 0
    for path in sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True):
        total += path.stat().st_size
        if total > MOST:
            with contextlib.suppress(OSError):  # Windows does not remove what another process has open
                path.unlink()
