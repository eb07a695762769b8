"""What a user chose to hold from now on: a small file beside the user's lexicon. Options and environment go first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cosycli.errors import ModelError


def path() -> Path:
    """Where choices are kept."""
    from cosycli.text.lexicon import user_lexicon_path

    return user_lexicon_path().with_name("preferences.json")


def _all() -> dict[str, Any]:
    try:
        found = json.loads(path().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def kept(key: str) -> str | None:
    """What was chosen, or None. A file that cannot be read counts as none."""
    value = _all().get(key)
    return value if isinstance(value, str) else None


def keep(key: str, value: str | None) -> None:
    """Choose; None forgets. Raises ModelError where the file cannot be written."""
    from cosycli.audio.atomic import write_atomically

    chosen = {name: old for name, old in _all().items() if name != key}
    if value is not None:
        chosen[key] = value
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path(), (json.dumps(chosen, indent=1) + "\n").encode())
    except OSError as error:
        raise ModelError(
            f"cannot write {path()}: {error.strerror or error}", "set COSY_CONFIG to another folder"
        ) from error
