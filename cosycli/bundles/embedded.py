"""The embedded voice's bundle: which version is wanted, building it, the default speaker."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from cosycli.bundles import store

NAME = "kokoro"
# Raise it whenever the graphs change in a way that the digest of the sources below does not show.
FORMAT = 2
_SOURCES = ("weights.py", "graphs.py", "assemble.py")


@functools.cache
def wanted() -> store.Manifest:
    """The manifest that a usable bundle has, files aside. Its version follows the code and data it is made from."""
    digest = hashlib.sha256(str(FORMAT).encode())
    package = resources.files("cosycli")
    for name in _SOURCES:
        digest.update(package.joinpath("backends", "kokoro", name).read_bytes())
    digest.update(package.joinpath("data", "int8-ranges.npz").read_bytes())
    return store.Manifest(
        name=NAME,
        family="kokoro",
        version=digest.hexdigest()[:16],
        precision="int8",
        licence="Apache-2.0",
        rate=24_000,
    )


def ensure(progress: Callable[[str], None], *, rebuild: bool = False) -> tuple[Path, bool]:
    """The bundle's folder, and whether it was built just now. Raises ModelError."""
    built = False

    def build(folder: Path) -> None:
        nonlocal built
        from cosycli.backends.kokoro.assemble import assemble

        assemble(folder, progress)
        _give_back()
        built = True

    folder = store.ensure(
        wanted(), build, rebuild=rebuild, waiting=lambda: progress("waiting for another process that builds the voice")
    )
    return folder, built


def _give_back() -> None:
    """Return to the system what assembling took: glibc kept 370 MB of it for as long as the process lived."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def default_voice() -> str:
    """The speaker used when none is named."""
    from cosycli.backends.kokoro.speakers import DEFAULT

    return DEFAULT
