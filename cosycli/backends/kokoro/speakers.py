"""The embedded voice's ten speakers: facts to list, and their arrays from the package's data."""

from __future__ import annotations

from importlib import resources

import numpy as np

from cosycli.errors import ModelError
from cosycli.types import Voice

MODEL = "kokoro"
LICENCE = "Apache-2.0"
DEFAULT = "zm_yunxi"  # fewest wrong syllables of the ten, 1.5 % with figures read (docs/embedded-voice.md)

# (name, language, sex); the letters before the underscore are the model's own: language and sex.
_SPEAKERS = (
    ("zf_xiaobei", "zh-CN", "female"),
    ("zf_xiaoni", "zh-CN", "female"),
    ("zf_xiaoxiao", "zh-CN", "female"),
    ("zf_xiaoyi", "zh-CN", "female"),
    ("zm_yunjian", "zh-CN", "male"),
    ("zm_yunxi", "zh-CN", "male"),
    ("zm_yunxia", "zh-CN", "male"),
    ("zm_yunyang", "zh-CN", "male"),
    ("af_heart", "en-US", "female"),
    ("am_michael", "en-US", "male"),
)


def voices() -> tuple[Voice, ...]:
    """All speakers, without their arrays."""
    return tuple(Voice(name, language, sex, MODEL, LICENCE) for name, language, sex in _SPEAKERS)  # type: ignore[arg-type]


def voice(name: str) -> Voice:
    """A speaker with its arrays: `style` [510, 256], `mean` and `var` [18698]. Raises ModelError for a wrong name."""
    for known in voices():
        if known.name == name:
            return Voice(known.name, known.language, known.sex, MODEL, LICENCE, _arrays(name))
    from difflib import get_close_matches

    names = [known.name for known in voices()]
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ModelError(f"there is no voice {name!r}", f"{hint}`cosy voices` lists them")


def _arrays(name: str) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    path = resources.files("cosycli").joinpath("data", "voices", f"{name}.npz")
    try:
        with path.open("rb") as file, np.load(file) as data:
            return {key: data[key] for key in data.files}
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"voice {name} is damaged: {error}", "pip install --force-reinstall --no-deps cosycli"
        ) from error
