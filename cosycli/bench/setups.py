"""What to measure: bundles, precisions and providers in combination, and the texts that are spoken."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from cosycli.errors import CosyError, UsageError
from cosycli.tuning import Tuning

EVERY = 6  # of the 50 everyday sentences: 9, which with the long ones are two minutes of speech
WARM_UP = 60  # characters: 10 s of speech and more meet every size of window


@dataclass(frozen=True)
class Setup:
    """One way to speak. None: the bundle's or the machine's own choice."""

    model: str
    precision: str | None = None
    provider: str = "auto"
    voice: str | None = None
    tuning: Tuning | None = None
    folder: str | None = None  # a bundle that has no name yet

    def __str__(self) -> str:
        parts = (self.model, self.precision or "", "" if self.provider == "auto" else self.provider)
        return ":".join(parts).rstrip(":")


def parse(written: str, voice: str | None = None) -> Setup:
    """A setup as it is written: bundle, bundle:precision or bundle:precision:provider. Raises UsageError."""
    from cosycli.providers import check_provider

    parts = written.split(":")
    if len(parts) > 3 or not parts[0]:
        raise UsageError(f"{written!r} is no setup", "write it as bundle:precision:provider, such as kokoro:int8:cpu")
    model, precision, provider = (*parts, "", "")[:3]
    return Setup(model, precision or None, check_provider(provider or None), voice)


def combined(setups: Iterable[Setup], precisions: Sequence[str], providers: Sequence[str]) -> list[Setup]:
    """Each setup with every precision and provider, where it names none itself; without repetitions."""
    found = []
    for setup in setups:
        kinds: list[str | None] = [setup.precision] if setup.precision else [*precisions] or [None]
        runners = [setup.provider] if setup.provider != "auto" else [*providers] or ["auto"]
        found += [replace(setup, precision=p, provider=r) for p, r in itertools.product(kinds, runners)]
    return list(dict.fromkeys(found))


def check(setup: Setup) -> None:
    """Whether bundle, voice and precision exist, before minutes of measuring; opens no model. Raises CosyError."""
    from cosycli.bundles import catalog, embedded
    from cosycli.engine import Engine

    manifest = catalog.manifest(setup.model)
    Engine(setup.model).voice(setup.voice)
    held = ("int8", "float32") if manifest == embedded.wanted() else (manifest.precision,)
    if setup.precision not in (None, *held):
        raise UsageError(f"{setup.model} holds {' and '.join(held)}, not {setup.precision}", "name what it holds")


def texts_of(content: str) -> list[str]:
    """The lines that can be spoken."""
    from cosycli.text.normalize import speakable

    return [line.strip() for line in content.splitlines() if speakable(line)]


def everyday_texts() -> list[str]:
    """The package's 50 everyday sentences."""
    return texts_of(resources.files("cosycli").joinpath("data", "everyday.txt").read_text("utf-8"))


def shipped_texts() -> list[str]:
    """Everyday sentences and long ones, Chinese and English."""
    data = resources.files("cosycli").joinpath("data")
    everyday, long = (texts_of(data.joinpath(name).read_text("utf-8")) for name in ("everyday.txt", "long.txt"))
    if not everyday or not long:
        raise CosyError("the package's sentences are missing", "install cosycli again")
    return everyday[::EVERY] + long


def warm_up_texts(texts: Sequence[str]) -> list[str]:
    """The shortest text, and the longest that is not very long."""
    shortest = min(texts, key=len)
    return [shortest, max((text for text in texts if len(text) <= WARM_UP), key=len, default=shortest)]


def tuning_texts(texts: Sequence[str]) -> list[str]:
    """Five texts for --tune, which measures many setups: from the shortest to one of 10 s."""
    short = sorted((text for text in texts if len(text) <= WARM_UP), key=len) or sorted(texts, key=len)[:1]
    return [short[round(place * (len(short) - 1) / 4)] for place in range(5)] if len(short) > 5 else short
