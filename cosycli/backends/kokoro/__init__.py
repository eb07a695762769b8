"""The embedded default voice: Kokoro-82M v1.0 (Apache-2.0), cut so that it streams inside a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cosycli.types import Voice

if TYPE_CHECKING:
    from cosycli.backends import Backend

KEEP = {
    "encoder:": "published in int8 as it is, and its durations decide the timing",
    "source:": "phases of the F0: a turn needs its digits",
    "generator:istft/": "inverse STFT: log magnitudes and phases",
}


SOUNDS = True
MARKS: tuple[str, ...] = ()
OPTIONS: frozenset[str] = frozenset({"seed"})  # its noise is always the same


def default_voice(folder: Path | None = None) -> str:
    """The speaker used when none is named."""
    from cosycli.backends.kokoro.speakers import DEFAULT

    return DEFAULT


def load(folder: Path, provider: str = "cpu", precision: str | None = None) -> Backend:
    """Open the graphs of an assembled bundle. Raises ProviderError where the provider does not take them."""
    from cosycli.backends.kokoro.backend import Kokoro

    return Kokoro(folder, precision, provider)


def voices(folder: Path | None = None) -> tuple[Voice, ...]:
    """The ten speakers; they lie in the package, not in the bundle."""
    from cosycli.backends.kokoro.speakers import voices as speakers

    return speakers()


def voice(folder: Path | None, name: str) -> Voice:
    """One speaker with its arrays."""
    from cosycli.backends.kokoro.speakers import voice as speaker

    return speaker(name)
