"""Where a sentence that is too long is cut: at its clauses, then spaces, then words, then anywhere.

Lengths are estimated phonemes. Knows nothing of pauses.
"""

from __future__ import annotations

import math
import re

from cosycli.text.chars import HAN

_CJK = re.compile(f"[{HAN}\u3040-\u30ff\uac00-\ud7af]")
# Estimated phonemes: a Chinese syllable is four or five symbols with its tone, an English letter just over
# one; a capital may be spelled; a digit may become a word or two, a sign a phrase.
_COST_CJK, _COST_LOWER, _COST_UPPER, _COST_DIGIT = 5.0, 1.1, 2.2, 8.0
_COST_LETTER, _COST_MARK, _COST_SPACE = 1.5, 1.0, 0.2

CLAUSE_MARK = re.compile(r"(?:[，；：、…—]+|[,;:](?=\s))[”’\"'）)】》」』]*\s*")
_STRONG = re.compile(r"[，；：…—,;:]")
_SPACE = re.compile(r"(?<![\s\d])\s+(?=\S)")

_RANK_CLAUSE, _RANK_LIST, _RANK_SPACE = 3, 2, 1


def cost(text: str) -> float:
    """Estimated phonemes."""
    return sum(map(_char_cost, text))


def _char_cost(char: str) -> float:
    if "a" <= char <= "z" or char == "'":
        return _COST_LOWER
    if _CJK.match(char):
        return _COST_CJK
    if char.isspace():
        return _COST_SPACE
    if char.isdigit():
        return _COST_DIGIT
    if char.isalpha():
        return _COST_UPPER if char.isascii() else _COST_LETTER
    return _COST_MARK


def split(text: str, budget: float) -> list[str]:
    """The text in parts of about equal length, none dearer than `budget` (but one character at least)."""
    total = [0.0]
    for char in text:
        total.append(total[-1] + _char_cost(char))
    if total[-1] <= budget:
        return [text]
    breaks = _breaks(text)
    parts: list[str] = []
    start = 0
    while total[-1] - total[start] > budget:
        left = total[-1] - total[start]
        ideal = left / math.ceil(left / budget)
        end = _best(breaks, total, start, ideal, budget) or _word_end(text, total, start, budget)
        parts.append(text[start:end])
        start = end
    return [*parts, text[start:]]


def _breaks(text: str) -> list[tuple[int, int]]:
    """Places after which to cut, with their rank."""
    found = {m.end(): _RANK_SPACE for m in _SPACE.finditer(text)}
    for mark in CLAUSE_MARK.finditer(text):
        found[mark.end()] = _RANK_CLAUSE if _STRONG.search(mark[0]) else _RANK_LIST
    return sorted((place, rank) for place, rank in found.items() if place < len(text))


def _best(breaks: list[tuple[int, int]], total: list[float], start: int, ideal: float, budget: float) -> int:
    """The break of the highest rank that is not too near the beginning, nearest to the ideal length; 0 if none."""
    best, place = (0, 0.0), 0
    for candidate, rank in breaks:
        length = total[candidate] - total[start]
        if candidate <= start or length < 0.3 * ideal:
            continue
        if length > budget:
            break
        if (rank, -abs(length - ideal)) > best or not place:
            best, place = (rank, -abs(length - ideal)), candidate
    return place


def _word_end(text: str, total: list[float], start: int, budget: float) -> int:
    """The last word boundary within the budget; inside a word that is longer than that, anywhere."""
    end = start + 1
    while end < len(text) and total[end + 1] - total[start] <= budget:
        end += 1
    import rjieba

    last = start
    for word in rjieba.cut(text[start : end + 8]):
        if last + len(word) > end:
            break
        last += len(word)
    return last if last > start else end
