"""Letters that are neither Chinese nor Latin, made readable: Greek by name, kana and hangul by sound.

Unicode's own character names say how they sound. Other scripts have no reading here ("").
"""

from __future__ import annotations

import re
import unicodedata

KANA_OR_HANGUL = re.compile("[\u3041-\u3096\u309d-\u30fa\u30fc-\u30ff\uac00-\ud7a3]+")
_VOWELS = {"a": "ɑ", "i": "i", "u": "u", "e": "ɛ", "o": "oʊ"}
_CONSONANTS = {"sh": "ʃ", "ch": "ʧ", "ts": "ts", "j": "ʤ", "r": "ɾ", "g": "ɡ", "y": "j", "c": "k", "ng": "ŋ"}
_SOUND = re.compile(r"sh|ch|ts|ng|[a-z]")


def greek(letter: str) -> str:
    """The English name of a Greek letter, or ""."""
    match = re.match(r"GREEK (?:SMALL|CAPITAL) LETTER (?:FINAL )?([A-Z]+)", unicodedata.name(letter, ""))
    return match[1].lower().replace("lamda", "lambda") if match else ""


def sounds(text: str) -> str:
    """IPA for a run of kana or hangul, roughly: けいこ is kɛikoʊ."""
    latin = ""
    for char in text:
        name = unicodedata.name(char, "").split()
        small = "SMALL" in name
        said = name[-1].lower() if name and name[-1].isalpha() else ""
        if char in "っッー" or not said:
            continue
        said = {"hu": "fu", "si": "shi", "ti": "chi", "tu": "tsu", "zi": "ji", "vu": "bu"}.get(said, said)
        latin = latin[:-1] + said if small and latin.endswith("i") else latin + said
    return "".join(_VOWELS.get(s) or _CONSONANTS.get(s, s) for s in _SOUND.findall(latin))
