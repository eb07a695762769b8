"""What the user named (files, folders, `-`) becomes texts to read, in an order that is the same every time.

Knows nothing of audio or of where it goes.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from cosycli.errors import CosyError, Exit, UsageError

TEXTS = ("*.txt", "*.md")
MAX_BYTES = 64 << 20  # of one text: 1,300 hours of speech; what is larger is a film with the wrong name
_BLOCK = 1 << 20
_AUDIO = (".wav", ".flac", ".ogg", ".mp3")  # never a text, whatever the pattern: a batch's own results


@dataclass(frozen=True)
class Source:
    """A text to speak: the name its user knows it by, and its place below the output folder."""

    name: str
    path: Path | None  # None is standard input
    place: Path  # relative, without an extension: ch1/a
    held: bytes | None = field(default=None, repr=False)  # the content of what can be read only once

    def read(self) -> bytes:
        """Its bytes. Raises CosyError where it cannot be read."""
        if self.held is not None:
            return self.held
        try:
            return _stdin() if self.path is None else _content(self.path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CosyError(f"cannot be read: {reason}", "check its permissions") from error

    def kept(self) -> Source:
        """The same, its content kept in memory if it comes from a pipe."""
        regular = self.path is not None and self.path.is_file()
        return self if regular or self.held is not None else replace(self, held=self.read())


@dataclass(frozen=True)
class Failure:
    """An input that cannot be spoken, and why."""

    name: str
    reason: str
    exit_code: Exit = Exit.FAILED


@dataclass
class Found:
    """All that was found, and what could not be looked at."""

    sources: list[Source] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def find(inputs: Sequence[str], patterns: Sequence[str] = TEXTS) -> Found:
    """The texts behind the user's words, each once. Raises UsageError if there are none."""
    found = Found()
    seen: set[str] = set()
    for source in _all(inputs, patterns, found.failures):
        key = "-" if source.path is None else os.path.realpath(source.path)
        if key not in seen:
            seen.add(key)
            found.sources.append(source)
    if not found.sources:
        raise _nothing(inputs, patterns, found.failures)
    return found


def _all(inputs: Sequence[str], patterns: Sequence[str], failures: list[Failure]) -> Iterator[Source]:
    for name in inputs:
        if name == "-":
            yield Source("standard input", None, Path("stdin"))
            continue
        for path in _expanded(name):
            if os.path.isdir(path):
                yield from _below(Path(path), patterns, failures)
            elif os.path.exists(path):
                yield Source(path, Path(path), Path(Path(path).stem))
            else:
                failures.append(Failure(path, "there is no such file"))


def _expanded(name: str) -> list[str]:
    """Shells on Windows leave `*.txt` as it is."""
    if not os.path.exists(name) and glob.has_magic(name):
        return sorted(glob.glob(name, recursive=True), key=_natural) or [name]
    return [name]


def _below(folder: Path, patterns: Sequence[str], failures: list[Failure]) -> Iterator[Source]:
    """The texts in a folder and the folders in it; hidden ones are left out, links to folders not followed."""

    def unreadable(error: OSError) -> None:
        failures.append(Failure(str(error.filename), f"cannot be read: {error.strerror}"))

    for parent, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = sorted((name for name in folders if not name.startswith(".")), key=_natural)
        for name in sorted(names, key=_natural):
            path = Path(parent, name)
            inside = path.relative_to(folder)
            if not name.startswith(".") and path.suffix.lower() not in _AUDIO and _matches(inside, patterns):
                yield Source(str(path), path, inside.parent / inside.stem)


def _matches(inside: Path, patterns: Sequence[str]) -> bool:
    """A pattern with a slash is held against the path below the folder, one without against the name alone."""
    return any(
        fnmatch.fnmatchcase((inside.as_posix() if "/" in pattern else inside.name).casefold(), pattern.casefold())
        for pattern in patterns
    )


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort chapter 2 before chapter 10."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), part) if index % 2 else (1, 0, part) for index, part in enumerate(parts)]


def _nothing(inputs: Sequence[str], patterns: Sequence[str], failures: Sequence[Failure]) -> UsageError:
    if failures:
        first = failures[0]
        more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
        return UsageError(f"{first.name}: {first.reason}{more}", "check the name; quote it if it has spaces")
    return UsageError(
        f"no text found in {', '.join(inputs)}: nothing there is named {' or '.join(patterns)}",
        "name the files, or choose others with --glob PATTERN",
    )


def _content(path: Path) -> bytes:
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise ValueError("it is no file")
    with open(path, "rb") as file:
        return _limited(file)


def _stdin() -> bytes:
    return _limited(sys.stdin.buffer) if sys.stdin is not None else b""


def _limited(file: BinaryIO) -> bytes:
    blocks, size = [], 0
    while block := file.read(_BLOCK):
        blocks.append(block)
        size += len(block)
        if size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES >> 20} MB, too much for a text")
    return b"".join(blocks)
