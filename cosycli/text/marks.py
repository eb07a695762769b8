"""Marks that a model follows and nobody reads, such as [breath]: what prepares text for speech must not touch them.

Each is one character on its way, of a block so rare that no text has it; a lone letter is never normalised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

FIRST = 0x30A00  # in CJK Unified Ideographs Extension G
LONGEST = 24  # characters of a mark


def hide(pieces: Iterable[str], marks: Sequence[str]) -> Iterator[str]:
    """The pieces with characters for marks. A mark may begin in one piece and end in the next."""
    pattern = re.compile("|".join(map(re.escape, sorted(marks, key=len, reverse=True))))
    places = {mark: chr(FIRST + place) for place, mark in enumerate(marks)}
    held = ""
    for piece in pieces:
        text = pattern.sub(lambda found: places[found.group()], held + piece)
        begun = max(text.rfind("["), text.rfind("<"))
        cut = (
            begun if begun >= 0 and len(text) - begun < LONGEST and not re.search(r"[]>]", text[begun:]) else len(text)
        )
        held = text[cut:]
        if text[:cut]:
            yield text[:cut]
    if held:
        yield held


def show(text: str, marks: Sequence[str]) -> str:
    """The text with its marks as they were written."""
    return "".join(marks[place] if 0 <= (place := ord(c) - FIRST) < len(marks) else c for c in text)
