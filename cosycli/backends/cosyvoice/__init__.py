"""CosyVoice 2 and Fun-CosyVoice 3, converted by `cosy convert`: a language model, a flow and a vocoder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosycli.backends.cosyvoice.tokenizer import added
from cosycli.errors import ModelError
from cosycli.types import Voice

if TYPE_CHECKING:
    from cosycli.backends import Backend

FORMAT = 1  # of bundles; raised whenever older ones no longer open
CONFIG = "config.json"  # of a bundle: what the graphs' files do not say
DEFAULT_VOICE = "default"
KEEP = {
    "vocoder:": "what is rounded in it is heard as noise",
    "f0:": "its result is summed up to a phase",
    "flow-encoder:": "it takes no time",
    "flow-prepare:": "it runs once a chunk",
    "flow-step:proj_out": "the solver adds up its errors",
    "flow-step:input": "the solver adds up its errors",
}
SOUNDS = False
MARKS = added(3)
OPTIONS = frozenset({"seed", "instruct", "steps", "control", "strict"})


def load(folder: Path, provider: str = "cpu", precision: str | None = None) -> Backend:
    """Open a bundle's graphs. Raises ProviderError, ModelError, and UsageError for another precision."""
    from cosycli.backends.cosyvoice.backend import CosyVoice

    return CosyVoice(folder, provider, precision)


def config(folder: Path | None) -> dict[str, Any]:
    """A bundle's settings. Raises ModelError where it has none."""
    try:
        found = dict(json.loads((Path(folder or "") / CONFIG).read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder} holds no CosyVoice model: {error}", "convert the model again") from error
    if found.get("format") != FORMAT:
        raise ModelError(f"{folder} was converted by another version of cosy", "convert the model again, with --force")
    return found


def default_voice(folder: Path | None) -> str:
    """The bundle's own voice, or the first that was added."""
    from cosycli.bundles import voices as packs

    known = packs.paths(config(folder)["version"], folder)
    if not known:
        raise ModelError("this model has no voice yet", "add one: cosy voice add NAME --audio FILE --text TRANSCRIPT")
    return DEFAULT_VOICE if DEFAULT_VOICE in known else sorted(known)[0]


def voices(folder: Path | None) -> tuple[Voice, ...]:
    """The bundle's voices and those that were added, arrays not yet loaded."""
    from cosycli.bundles import voices as packs

    found = packs.paths(config(folder)["version"], folder)
    return tuple(_voice(packs.read(path), folder, with_arrays=False) for path in found.values())


def voice(folder: Path | None, name: str) -> Voice:
    """One voice with its arrays. Raises ModelError where there is no such voice."""
    from cosycli.bundles import voices as packs

    known = packs.paths(config(folder)["version"], folder)
    if name not in known:
        raise ModelError(f"there is no voice {name!r}", f"voices of this model: {', '.join(sorted(known)) or 'none'}")
    return _voice(packs.read(known[name]), folder, with_arrays=True)


def _voice(pack: Any, folder: Path | None, *, with_arrays: bool) -> Voice:
    arrays = {**pack.arrays, "text": pack.text} if with_arrays else {}
    return Voice(
        name=pack.name,
        language=pack.facts.get("language", ""),
        sex="unknown",
        model=folder.name if folder else "cosyvoice",
        licence=pack.facts.get("licence", ""),
        arrays=arrays,
    )
