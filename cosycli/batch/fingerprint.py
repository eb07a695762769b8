"""How a finished file tells, when the batch runs again, whether it is still what would be made.

Its metadata carry a mark: a hash of the text and of all that decides how it sounds, and which subtitles lie beside it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosycli.types import Options

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from cosycli.text.lexicon import Lexicon

_PREFIX = "cosy:1"
_TAIL = 1 << 16  # bytes; an Ogg page has at most 65,307


@dataclass(frozen=True)
class Recipe:
    """All that decides how a text sounds, the text aside."""

    model: str
    voice: str
    options: Options
    lexicon: Lexicon | None
    format: str

    def fingerprint(self, text: str) -> str:
        """The hash of a text spoken by this recipe."""
        digest = self._digest.copy()
        digest.update(text.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:32]

    @functools.cached_property
    def _digest(self) -> hashlib._Hash:
        entries = self.lexicon.entries if self.lexicon else {}
        words = sorted((word, entry.kind, *entry.sounds) for word, entry in entries.items())
        options: list[Any] = [self.options.speed, self.options.normalize, self.options.seed]
        changed = {key: value for key, value in asdict(self.options).items() if value != getattr(Options(), key)}
        options += [[key, changed[key]] for key in ("instruct", "steps", "control", "strict") if key in changed]
        facts = [sound_version(self.model), self.model, self.voice, options, words, self.format]
        return hashlib.sha256(json.dumps(facts).encode() + b"\0")


@functools.cache
def sound_version(model: str) -> str:
    """Changes with the bundle and with whatever in this package decides how a text sounds: code and data.

    Two half-done batches never mix: after an upgrade that may be heard, everything is made again.
    """
    from cosycli.bundles.catalog import manifest

    bundle = manifest(model)
    digest = hashlib.sha256(f"{bundle.version} {sorted(bundle.files.items())}".encode())
    package = resources.files("cosycli")
    for part in ("engine.py", "audio/join.py", "text", f"backends/{bundle.family}", "data"):
        for name, file in _files(package.joinpath(part)):
            digest.update(name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _files(part: Traversable) -> Iterator[tuple[str, Traversable]]:
    if part.is_file():
        yield part.name, part
    elif part.is_dir() and part.name != "__pycache__":
        for inner in sorted(part.iterdir(), key=lambda entry: entry.name):
            yield from _files(inner)


def mark(fingerprint: str, subtitles: str | None) -> str:
    """What is written into a file's metadata."""
    return f"{_PREFIX}:{fingerprint}:{subtitles or ''}"


def is_ours(path: Path) -> bool:
    """Whether the file was made by a batch."""
    from cosycli.audio.wavfile import read_comment

    return (read_comment(path) or "").startswith(_PREFIX)


def is_done(path: Path, fingerprint: str, subtitles: Path | None) -> bool:
    """Whether this file is whole, made of this very text and recipe, with the subtitles that are asked for."""
    from cosycli.audio.wavfile import read_comment

    if not path.is_file():
        return False
    prefix, _, kind = (read_comment(path) or "").rpartition(":")
    if prefix != f"{_PREFIX}:{fingerprint}" or not is_whole(path):
        return False
    return subtitles is None or (kind == subtitles.suffix.lstrip(".") and subtitles.is_file())


def is_whole(path: Path) -> bool:
    """Whether an audio file is complete to its last sample: copies break off, disks fill, editors save over it."""
    import soundfile

    try:
        with soundfile.SoundFile(os.fspath(path)) as file:
            if not file.frames or not _ends_well(path, file.format, file.frames):
                return False
            file.seek(file.frames - 1)
            return len(file.read(1)) == 1
    except (soundfile.LibsndfileError, OSError, RuntimeError, AssertionError):
        return False


def _ends_well(path: Path, container: str, frames: int) -> bool:
    """What the library forgives: a file that ends early just has fewer frames for it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if container == "WAV":
            return size >= 44 + 2 * frames and struct.unpack("<I", file.read(8)[4:])[0] + 8 == size
        file.seek(max(0, size - _TAIL))
        tail = file.read()
    if container == "OGG":
        page = tail.rfind(b"OggS")
        return page >= 0 and bool(tail[page + 5] & 4)  # the flag of a stream's last page
    return container != "MP3" or tail[-128:-125] == b"TAG"  # an MP3 with a comment ends in 128 bytes of it


def seconds_of(path: Path) -> float:
    """How long a finished file plays."""
    import soundfile

    return float(soundfile.info(os.fspath(path)).duration)
