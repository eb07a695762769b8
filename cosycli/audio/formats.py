"""File formats by extension, and whether an output path can be written, known before any model is loaded.

Knows nothing of samples: it imports neither numpy nor soundfile, so the command line may ask it first.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cosycli.audio.atomic import Draft
from cosycli.errors import CosyError, UsageError


@dataclass(frozen=True)
class Format:
    """How a kind of file is written: its name and the two words libsndfile knows it by."""

    name: str
    container: str
    subtype: str


FORMATS = {
    "wav": Format("wav", "WAV", "PCM_16"),
    "flac": Format("flac", "FLAC", "PCM_16"),
    "ogg": Format("ogg", "OGG", "VORBIS"),
    "mp3": Format("mp3", "MP3", "MPEG_LAYER_III"),
}

RAW_PLAYER = "aplay -t raw -f S16_LE -r 24000 -c 1"  # shown in the help of --raw; must work as it stands


def raw_line(rate: int) -> str:
    """What `--raw` says on stderr, so that nobody has to guess the rate."""
    return f"s16le {rate} Hz mono"


def known_formats() -> str:
    """The formats in words, for messages."""
    names = list(FORMATS)
    return f"{', '.join(names[:-1])} or {names[-1]}"


def format_named(name: str) -> Format:
    """The format a user asked for by name, with or without a leading dot."""
    found = FORMATS.get(name.lower().lstrip("."))
    if found is None:
        raise UsageError(f"unknown audio format {name!r}", f"use {known_formats()}")
    return found


def format_of(path: Path | str, name: str | None = None) -> Format:
    """The format of an output: `name` if given, else the extension; devices and pipes get WAV."""
    if name:
        return format_named(name)
    if is_special(path):
        return FORMATS["wav"]
    suffix = Path(path).suffix
    if not suffix:
        raise UsageError(f"{path} has no extension to tell its format", f"end the name in {known_formats()}")
    if suffix.lower().lstrip(".") not in FORMATS:
        raise UsageError(f"{path}: unknown audio format {suffix!r}", f"end the name in {known_formats()}")
    return format_named(suffix)


def is_special(path: Path | str) -> bool:
    """True for devices, pipes and what stands for an open file: to be written in place, never renamed over."""
    if str(path).startswith(("/dev/fd/", "/proc/self/fd/")) or str(path) in ("/dev/stdout", "/dev/stderr"):
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def check_output(path: Path | str, name: str | None = None, *, overwrite: bool = True) -> Format:
    """Refuse, with a reason, an output that could not be written in the end; return its format."""
    path = Path(path)
    if os.path.isdir(path):  # first: "/" has no extension either
        raise CosyError(f"cannot write {path}: it is a folder", "give a file name, or a folder with -d")
    found = format_of(path, name)
    if is_special(path):
        _check_special(path, found)
    else:
        check_place(path, overwrite=overwrite)
    return found


def check_place(path: Path | str, *, overwrite: bool = True) -> None:
    """Check that a regular file can appear at `path`, by making and removing one beside it.

    Permission bits say nothing to root and nothing of read-only mounts, so it is tried.
    """
    path = Path(path)
    try:
        exists = os.path.lexists(path)
        if os.path.isdir(path):  # unlike Path.is_dir, never raises
            raise CosyError(f"cannot write {path}: it is a folder", "give a file name")
        if exists and not overwrite:
            raise UsageError(f"{path} exists already", "use --force to write it again")
        if os.path.exists(path) and not os.access(path, os.W_OK):
            raise CosyError(f"cannot write {path}: it is read-only", "choose another name or make it writable")
        Draft(path).discard()
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path | str, error: OSError) -> CosyError:
    """The one message for a path the system refuses."""
    hint = "choose another place with -o"
    if isinstance(error, FileNotFoundError):
        hint = f"create the folder first: mkdir -p {Path(path).parent}"
    return CosyError(f"cannot write {path}: {error.strerror or error}", hint)


def _check_special(path: Path, found: Format) -> None:
    if found.name != "wav":
        raise UsageError(f"{path} is a device or pipe and takes WAV only", "drop the format, or write to a file")
    if not os.access(path, os.W_OK):
        raise CosyError(f"cannot write {path}: permission denied", "choose another place with -o")
