"""Pinyin as text: what a syllable is made of, and accents turned into tone digits.

Knows nothing of characters or of any voice's symbols.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

FINALS = frozenset([
    "a", "ai", "an", "ang", "ao", "e", "ei", "en", "eng", "er", "o", "ong", "ou", "i", "ia", "ian", "iang",
    "iao", "ie", "in", "ing", "iong", "iou", "u", "ua", "uai", "uan", "uang", "uei", "uen", "ueng", "uo", "v",
    "van", "ve", "vn",
])  # fmt: skip
_SYLLABLE = re.compile(r"(zh|ch|sh|[bpmfdtnlgkhjqxrzcsyw]?)([a-zêv]+)([1-5])")
_NASALS = frozenset(["m", "n", "ng", "hm", "hng"])  # interjections without a vowel
_TONES = {"\u0304": "1", "\u0301": "2", "\u030c": "3", "\u0300": "4"}
# Spellings with y and w stand for the finals that they begin.
_WITH_Y = {"i": "i", "in": "in", "ing": "ing", "u": "v", "ue": "ve", "uan": "van", "un": "vn", "ong": "iong", "o": "io"}
_SHORT = {"iu": "iou", "ui": "uei", "un": "uen", "ue": "ve"}


class Syllable(NamedTuple):
    """A syllable taken apart: `zhuang4` is ("zh", "uang", 4, False); `merged` tells a final with r."""

    initial: str
    final: str
    tone: int
    merged: bool


def split(pinyin: str) -> Syllable | None:
    """The parts of a syllable with its tone digit, or None where it is none."""
    match = _SYLLABLE.fullmatch(pinyin)
    if match is None:
        nasal = pinyin[:-1] in _NASALS and pinyin[-1] in "12345"
        return Syllable("", pinyin[:-1], int(pinyin[-1]), False) if nasal else None
    initial, final, tone = match[1], match[2], int(match[3])
    merged = final.endswith("r") and (initial, final) != ("", "er")
    plain = _final(initial, final[:-1] if merged else final)
    if plain not in FINALS and not (plain == "io" and initial == "y"):
        nasal = pinyin[:-1] in _NASALS
        return Syllable("", pinyin[:-1], tone, False) if nasal else None
    return Syllable("" if initial in ("y", "w") else initial, plain, tone, merged)


def _final(initial: str, final: str) -> str:
    """The full name of a final, which spelling shortens after some initials."""
    if initial == "y":
        return _WITH_Y.get(final, f"i{'ou' if final == 'ou' else final}")
    if initial == "w":
        return {"u": "u", "ei": "uei", "en": "uen", "eng": "ueng", "o": "uo"}.get(final, f"u{final}")
    if initial in ("j", "q", "x") and final.startswith("u"):
        return "v" + final[1:]
    return _SHORT.get(final, final)


def is_pinyin(text: str) -> bool:
    """Whether this is one syllable with a tone digit."""
    return split(text) is not None


def numbered(text: str) -> str:
    """A syllable with its tone as a digit, from one with a digit or an accent (`chóng`, `lü4`, `de`)."""
    text = unicodedata.normalize("NFD", text.strip().lower().replace("u:", "v"))
    tone = next((_TONES[c] for c in text if c in _TONES), "")
    text = unicodedata.normalize("NFC", "".join(c for c in text if c not in _TONES)).replace("ü", "v")
    if text[-1:].isdigit():
        return text[:-1] + ("5" if text[-1] == "0" else text[-1])
    return text + (tone or "5")
