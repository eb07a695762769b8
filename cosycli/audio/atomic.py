"""Files that appear whole or not at all: written under a hidden name beside the target, then renamed.

Owns the hidden names and their clean-up; knows nothing of what is written.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path
from types import TracebackType

PREFIX, SUFFIX = ".cosy-", ".part"  # independent of the target's name, which may already be 255 bytes long


class Draft:
    """A file in the making. `commit` puts it under its final name, `discard` leaves nothing.

    A symbolic link is followed, so that what it points to is replaced and not the link.
    """

    def __init__(self, target: Path | str) -> None:
        self.target = Path(os.path.realpath(target))
        if self.target.is_dir():
            raise IsADirectoryError(21, "it is a folder", str(target))
        os.lstat(self.target.parent / ".")  # a missing folder is reported as such
        self.path, self.fd = _create(self.target.parent)
        self._keep_mode()

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def commit(self) -> None:
        """Flush to disk and rename; on failure nothing is left."""
        try:
            os.fsync(self.fd)
            if os.name == "nt":  # Windows renames no open file; elsewhere the lock is kept until the name is final
                self._close()
            os.replace(self.path, self.target)
        except BaseException:
            self.discard()
            raise
        self._close()

    def discard(self) -> None:
        """Remove the draft; may be called twice."""
        self._close()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def _keep_mode(self) -> None:
        if os.name != "nt":
            with contextlib.suppress(OSError):
                os.fchmod(self.fd, os.stat(self.target).st_mode & 0o777)


def write_atomically(target: Path | str, content: bytes) -> None:
    """Write a whole small file."""
    with Draft(target) as draft:
        view = memoryview(content)
        while view:
            view = view[os.write(draft.fd, view) :]


def sweep(folder: Path | str) -> int:
    """Remove drafts that killed processes left in `folder`; those of living ones are locked and stay."""
    removed = 0
    for path in Path(folder).glob(f"{PREFIX}*{SUFFIX}"):
        with contextlib.suppress(OSError):
            removed += _remove_if_stale(path)
    return removed


def _create(folder: Path) -> tuple[Path, int]:
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    while True:
        path = folder / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
        fd = os.open(path, flags, 0o666)
        _lock(fd)
        if path.exists():  # a sweep between open and lock takes it for a dead one
            return path, fd
        os.close(fd)


def _remove_if_stale(path: Path) -> bool:
    if sys.platform == "win32":  # an open file cannot be removed there: trying is the test
        path.unlink()
        return True
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if not _lock(fd):
            return False
        path.unlink()
        return True
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    """Take the lock that says "its writer lives"; the kernel drops it with the process. False: held, or no locks."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
