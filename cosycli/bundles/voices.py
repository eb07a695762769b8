"""Voice packs: what `cosy voice add` keeps of a recording. Those of one version of CosyVoice fit all its bundles."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cosycli.bundles import store
from cosycli.errors import ModelError, UsageError

SUFFIX = ".voice.npz"
ARRAYS = {"tokens": 1, "flow_tokens": 1, "mel": 2, "speaker": 1}  # and their numbers of axes


@dataclass(frozen=True)
class Pack:
    """A voice: arrays as in `backends.cosyvoice.prompt.Prompt`, and what is known about it."""

    name: str
    text: str
    arrays: Mapping[str, Any]
    facts: Mapping[str, str]  # licence, language, where it comes from


def folder(version: int) -> Path:
    """Where the packs of a version lie that were added here."""
    return store.home() / "voices" / f"cosyvoice{version}"


def check_name(name: str) -> None:
    """Raise UsageError for a name that cannot be a file's."""
    if not store.is_name(name):
        raise UsageError(f"{name!r} cannot be a voice's name", "use letters, digits, - and _")


def write(path: Path, pack: Pack) -> None:
    """Write a pack; the file appears whole or not at all. Raises ModelError where it cannot be written."""
    known = json.dumps({"text": pack.text, **pack.facts}, ensure_ascii=False)
    draft = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".voice-", delete=False) as file:
            draft = Path(file.name)
            np.savez(file, **pack.arrays, facts=np.frombuffer(known.encode(), np.uint8))
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(0o644)
        draft.replace(path)
    except OSError as error:
        raise ModelError(f"cannot write {path}: {error.strerror or error}", "free some space") from error
    finally:
        if draft is not None:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()


def read(path: Path) -> Pack:
    """Read a pack, which may come from anywhere. Raises ModelError for one that is damaged."""
    name = path.name.removesuffix(SUFFIX)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {key: held[key] for key in ARRAYS}
            facts = json.loads(held["facts"].tobytes().decode())
        fit = all(arrays[key].ndim == axes for key, axes in ARRAYS.items())
        if not fit or len(arrays["mel"]) != 2 * len(arrays["flow_tokens"]) or not isinstance(facts, dict):
            raise ValueError("its parts do not fit together")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("it holds values that are not numbers")
        known = {str(key): str(value) for key, value in facts.items()}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise ModelError(f"the voice {name} in {path} is damaged: {error}", "add it again: cosy voice add") from error
    return Pack(name, known.pop("text", ""), arrays, known)


def paths(version: int, bundle: Path | None = None) -> dict[str, Path]:
    """All voices by name: those that were added here, and those that came with a bundle."""
    found: dict[str, Path] = {}
    for place in (bundle, folder(version)):
        if place and place.is_dir():
            found |= {path.name.removesuffix(SUFFIX): path for path in sorted(place.glob(f"*{SUFFIX}"))}
    return found


def of_release(content: Any, speakers: int, mel: int) -> list[Pack]:
    """The voices of a release's spk2info.pt: whole prompts, and speaker vectors without one.

    `speakers`: the size of a speaker vector; `mel`: bands. Entries that are neither are left out.
    """
    made = []
    for name, entry in content.items() if isinstance(content, dict) else ():
        if not isinstance(entry, dict) or not isinstance(name, str):
            continue
        vector = np.asarray(entry.get("flow_embedding", entry.get("embedding", ())))
        if vector.size != speakers:
            continue
        tokens = np.asarray(entry.get("flow_prompt_speech_token", np.zeros(0)), np.int32).reshape(-1)
        frames = np.asarray(entry.get("prompt_speech_feat", np.zeros((0, mel))), np.float32).reshape(-1, mel)
        count = min(len(frames) // 2, len(tokens))
        spoken = np.asarray(entry.get("llm_prompt_speech_token", np.zeros(0)), np.int32).reshape(-1)
        arrays = {
            "tokens": spoken,
            "flow_tokens": tokens[:count],
            "mel": frames[: 2 * count],
            "speaker": np.asarray(vector, np.float32).reshape(-1),
        }
        text = entry.get("prompt_text", "")
        made.append(Pack(name, text if isinstance(text, str) else "", arrays, {"source": "spk2info.pt"}))
    return made
