"""Model families. A bundle's manifest names its family; the family is the module of that name in this package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from cosycli.errors import ModelError
from cosycli.types import Options, Samples, Sentence, TimedWord, Voice

if TYPE_CHECKING:
    from cosycli.runtime import Session


@dataclass(frozen=True)
class Pcm:
    """A piece of one sentence's audio: samples in [-1, 1], and the words that start in it.

    Word times are seconds from the start of the sentence's audio.
    """

    samples: Samples
    words: tuple[TimedWord, ...] = ()
    last: bool = False
    note: str = ""  # what went otherwise than it should, for people


class Backend(Protocol):
    """What a family offers to the engine: a generator whose frame holds all state of a sentence."""

    rate: int
    precision: str

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The opened graphs by name."""
        ...

    def synthesize(self, sentence: Sentence, voice: Voice, options: Options) -> Generator[Pcm, None, None]:
        """Yield the sentence's audio. Closing the generator stops the work."""
        ...


@runtime_checkable
class LooksAhead(Protocol):
    """A backend that does some of the work of several sentences at once, where that is faster."""

    def look_ahead(self, sentence: Sentence, later: Iterator[Sentence], voice: Voice, options: Options) -> None:
        """Get this sentence ready if it is not, and with it some of those that will be spoken after it."""
        ...


class Family(Protocol):
    """What a module in this package offers."""

    # What no quantiser touches, and why: "graph:prefix of node names" → reason. A prefix may be empty.
    KEEP: Mapping[str, str]
    # Marks that `Options.control` makes it follow.
    MARKS: Sequence[str]
    # Whether it speaks sounds, and a text without known ones is silent to it; else it reads the text itself.
    SOUNDS: bool
    # The options beyond speed and normalize that it has, by their names in `types.Options`.
    OPTIONS: Collection[str]

    def load(self, folder: Path, provider: str = "cpu", precision: str | None = None) -> Backend:
        """Open a bundle's graphs on a provider. Raises ProviderError, ModelError, and UsageError for a precision
        that the bundle does not hold.
        """
        ...

    def default_voice(self, folder: Path | None) -> str:
        """Who speaks if nobody is named. Raises ModelError where the bundle has no voice."""
        ...

    def voices(self, folder: Path | None) -> tuple[Voice, ...]:
        """The bundle's voices, arrays not yet loaded."""
        ...

    def voice(self, folder: Path | None, name: str) -> Voice:
        """One voice with its arrays. Raises ModelError where there is no such voice."""
        ...


def family(name: str) -> Family:
    """The family's module. Raises ModelError for a family that this version does not know."""
    if not name.isidentifier():
        raise ModelError(f"there is no model {name!r}", f"models here: {', '.join(families())}")
    try:
        return cast("Family", importlib.import_module(f"cosycli.backends.{name}"))
    except ModuleNotFoundError as error:
        if error.name != f"cosycli.backends.{name}":
            raise
        raise ModelError(f"there is no model {name!r}", f"models here: {', '.join(families())}") from error


def families() -> tuple[str, ...]:
    """The names of all families that this version speaks."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
