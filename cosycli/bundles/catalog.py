"""Bundles by name: the embedded one, which is built when it is needed, and those that were made from others.

A bundle that was made carries in its manifest the command that makes it again, because nothing else can mend it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cosycli.bundles import embedded, store
from cosycli.errors import ModelError, UsageError


def names() -> list[str]:
    """All models that can be named here, the embedded one first."""
    return [embedded.NAME, *(name for name in store.installed() if name != embedded.NAME)]


def manifest(name: str) -> store.Manifest:
    """What a bundle says of itself; it need not be built yet. Raises ModelError where there is no such bundle."""
    if name == embedded.NAME:
        return embedded.wanted()
    found = store.read_manifest(store.bundle_path(name)) if store.is_name(name) else None
    if found is None:
        raise ModelError(f"there is no model {name!r}", f"models here: {', '.join(names())}")
    return found


def ensure(name: str, progress: Callable[[str], None], *, rebuild: bool = False) -> tuple[Path, bool]:
    """A bundle's folder and whether it was built just now. Raises ModelError, and UsageError for a rebuild of one
    that is not built by itself.
    """
    if name == embedded.NAME:
        return embedded.ensure(progress, rebuild=rebuild)
    found = manifest(name)
    if rebuild:
        raise UsageError(f"{name} was made by a command and is not rebuilt by itself", _again(found))
    if found.family == embedded.wanted().family and found.version != embedded.wanted().version:
        raise ModelError(f"{name} was made from an earlier version of {found.family}", _again(found))
    folder = store.bundle_path(name)
    if not store.intact(folder, found):
        raise damaged(name)
    return folder, False


def damaged(name: str) -> ModelError:
    """The error for a bundle whose files are not what its manifest says."""
    return ModelError(f"the model {name} in {store.bundle_path(name)} is damaged", _again(manifest(name)))


def _again(found: store.Manifest) -> str:
    command = found.made.get("command")
    return f"make it again: {command}" if command else f"remove it: rm -r {store.bundle_path(found.name)}"
