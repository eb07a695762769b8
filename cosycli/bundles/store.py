"""Where bundles lie on disk: the home folder, building under a lock, the manifest, and noticing damage.

Knows no model family: the caller passes the function that fills an empty folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cosycli.bundles.sums import quick_sum
from cosycli.errors import CosyError, ModelError, UsageError

MANIFEST = "manifest.json"
_SCRATCH = "~"  # no part of a name: else a build of `a` would sweep away the scratch of `a-b`


@dataclass(frozen=True)
class Manifest:
    """What a bundle says of itself. `files` maps each file to its size and SHA-256."""

    name: str
    family: str  # the module in cosycli.backends that speaks it
    version: str  # changes whenever the family's graphs do: an older bundle is rebuilt
    precision: str
    licence: str
    rate: int
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)  # from which bundle, by which command, what was kept why
    sums: Mapping[str, str] = field(default_factory=dict)  # each file's quick sum, compared before it is opened


def home() -> Path:
    """The folder of all caches: `COSY_HOME`, else the platform's user cache folder."""
    asked = os.environ.get("COSY_HOME")
    if asked:
        return Path(asked).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("cosy", appauthor=False))


def is_name(name: str) -> bool:
    """Whether a bundle may have this name: a plain folder name that no build in progress uses."""
    return re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}", name) is not None and not name.endswith(".lock")


def installed() -> list[str]:
    """The names of all bundles in the cache that have a manifest, in order."""
    folder = home() / "bundles"
    found = [path.parent.name for path in folder.glob(f"*/{MANIFEST}")] if folder.is_dir() else []
    return sorted(name for name in found if is_name(name))


def bundle_path(name: str) -> Path:
    """The folder of a bundle, whether or not it exists."""
    return home() / "bundles" / name


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a bundle, or None where there is none or it cannot be read."""
    try:
        fields = json.loads((folder / MANIFEST).read_text("utf-8"))
        files = {name: (int(size), str(digest)) for name, (size, digest) in fields.pop("files").items()}
        return Manifest(**fields, files=files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def intact(folder: Path, manifest: Manifest, *, thorough: bool = False) -> bool:
    """Whether every file has its size (or, if thorough, its digest: 0.2 s for the embedded voice)."""
    for name, (size, digest) in manifest.files.items():
        path = folder / name
        try:
            if path.stat().st_size != size or (thorough and file_digest(path) != digest):
                return False
        except OSError:
            return False
    return True


def damaged(path: Path) -> bool:
    """Whether a bundle's file is other than when it was made, by its quick sum. What has no sum is not judged."""
    manifest = read_manifest(path.parent)
    try:
        return manifest is not None and path.name in manifest.sums and quick_sum(path) != manifest.sums[path.name]
    except OSError:
        return True


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def ensure(
    wanted: Manifest,
    build: Callable[[Path], None],
    *,
    rebuild: bool = False,
    waiting: Callable[[], None] = lambda: None,
) -> Path:
    """The bundle's folder, built first if it is missing, damaged, or of another version.

    One process builds, others wait (`waiting` is called once if so). The folder appears complete or not at all.
    Raises ModelError where the cache cannot be written.
    """
    folder = bundle_path(wanted.name)
    if not rebuild and _usable(folder, wanted):
        return folder
    with _lock(folder, waiting):
        if rebuild or not _usable(folder, wanted, thorough=True):
            _replace(folder, lambda scratch: _built(build, scratch, wanted))
    return folder


def _built(build: Callable[[Path], None], scratch: Path, wanted: Manifest) -> Manifest:
    build(scratch)
    return wanted


def add(manifest: Manifest, build: Callable[[Path], Manifest], *, replace: bool = False) -> Path:
    """Make a bundle under its name; `build` fills an empty folder and returns the manifest to keep.

    The folder appears complete or not at all. Raises UsageError where the name is taken, ModelError where the cache
    cannot be written, and what `build` raises.
    """
    folder = bundle_path(manifest.name)
    with _lock(folder, lambda: None):
        if folder.exists() and not replace:
            raise UsageError(f"there is a model {manifest.name} already", "give another name with -o, or --force")
        _replace(folder, build)
    return folder


def _usable(folder: Path, wanted: Manifest, *, thorough: bool = False) -> bool:
    found = read_manifest(folder)
    same = found is not None and (found.family, found.version) == (wanted.family, wanted.version)
    return same and found is not None and intact(folder, found, thorough=thorough)


def _lock(folder: Path, waiting: Callable[[], None]) -> Any:
    import filelock

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder.parent / f"{folder.name}.lock")
        try:
            return lock.acquire(timeout=0)
        except filelock.Timeout:
            waiting()
            return lock.acquire()
    except (OSError, NotImplementedError) as error:
        raise _unwritable(folder, error) from error


def _replace(folder: Path, build: Callable[[Path], Manifest]) -> None:
    _sweep(folder)
    try:
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}{_SCRATCH}", dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        write_manifest(scratch, build(scratch))
        old = scratch.with_name(f"{scratch.name}-old")
        if folder.exists():
            folder.rename(old)
        scratch.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except CosyError:
        raise
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what a killed build of the same bundle left; the lock is ours, so nobody is using it."""
    for stale in folder.parent.glob(f".{folder.name}{_SCRATCH}*"):
        shutil.rmtree(stale, ignore_errors=True)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a bundle's manifest, with the sizes and digests of the files that lie there."""
    paths = [path for path in sorted(folder.iterdir()) if path.name != MANIFEST]
    files = {path.name: (path.stat().st_size, file_digest(path)) for path in paths}
    fields = asdict(manifest) | {"files": files}
    fields["sums"] = {name: quick_sum(folder / name) for name in files}
    (folder / MANIFEST).write_text(json.dumps(fields, indent=1), "utf-8")


def _unwritable(folder: Path, error: BaseException) -> ModelError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ModelError(
        f"cannot build the voice in {folder.parent}: {reason}",
        "free some space (350 MB are needed) or set COSY_HOME to a folder that can be written",
    )
