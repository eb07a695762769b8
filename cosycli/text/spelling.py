"""How an English word that no dictionary knows is said, from its letters.

The rules are learnt (tools/train_spelling.py) and written in the notation of the dictionary.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

_ORDER = (1, -1, 2, -2, 3, -3, 4, -4)  # neighbours by how much they tell
DEEPEST = len(_ORDER)
_VOWELS = frozenset("AIOWYaiuæɑɔəɛɜɪʊʌᵻᵊ")
_STRESSED = frozenset("AIOWYiuæɑɔɛɜʊʌ")


def surroundings(word: str, at: int, depth: int) -> str:
    """A letter and its `depth` nearest neighbours; "_" is the edge of the word."""
    near = (at + step for step in _ORDER[:depth])
    return word[at] + "".join(word[i] if 0 <= i < len(word) else "_" for i in near)


@lru_cache(maxsize=1)
def _rules() -> dict[str, str]:
    text = resources.files("cosycli").joinpath("data", "spelling.txt").read_text("utf-8")
    return dict(line.split("\t") for line in text.splitlines())


def said(word: str, rules: dict[str, str] | None = None) -> str:
    """The sounds of a word in small letters a to z."""
    rules = _rules() if rules is None else rules
    shares = [_share(word, i, rules) for i in range(len(word))]
    return _one_stress([sound for share in shares for sound in _split(share)])


def _share(word: str, at: int, rules: dict[str, str]) -> str:
    for depth in range(DEEPEST, -1, -1):
        share = rules.get(surroundings(word, at, depth))
        if share is not None:
            return share
    return ""


def _split(share: str) -> list[str]:
    sounds: list[str] = []
    for char in share:
        if sounds and sounds[-1] in "ˈˌ":
            sounds[-1] += char
        else:
            sounds.append(char)
    return sounds


def _one_stress(sounds: list[str]) -> str:
    """Exactly one main stress; neighbouring letters know nothing of each other's."""
    once = [s for i, s in enumerate(sounds) if i == 0 or s != sounds[i - 1] or s[-1] in _VOWELS]
    main = [i for i, s in enumerate(once) if s[0] == "ˈ"]
    for i in main[1:]:
        once[i] = once[i][1:]
    if not main:
        strong = [i for i, s in enumerate(once) if s[-1] in _STRESSED] or [
            i for i, s in enumerate(once) if s[-1] in _VOWELS
        ]
        if strong:
            once[strong[0]] = "ˈ" + once[strong[0]].lstrip("ˌ")
    return "".join(once)
