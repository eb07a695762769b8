"""Notices a language model that has lost its way: it goes on and on, repeats itself, or says nothing.

Rates are those of speech: 25 tokens a second, and a text token is a syllable or two.
"""

from __future__ import annotations

from cosycli.backends.cosyvoice.lm import SILENT

PACE, EXTRA = 14, 75  # speech tokens for a text token, and for a pause: more than twice as slow as people speak
STUCK, FEW = 75, 4  # so many tokens in a row of so few kinds are no speech
HUSH = 100  # tokens of silence in a row: four seconds


class Watch:
    """Sees one sentence's tokens go by."""

    def __init__(self, text: int) -> None:
        self._longest = PACE * text + EXTRA
        self._seen: list[int] = []
        self._quiet = 0

    def add(self, token: int) -> str:
        """What is wrong with the sentence as of this token, or nothing."""
        self._seen.append(token)
        self._quiet = self._quiet + 1 if token in SILENT else 0
        if len(self._seen) > self._longest:
            return f"it spoke for {len(self._seen) / 25:.0f} s, much longer than the text"
        if self._quiet >= HUSH:
            return f"it was silent for {self._quiet / 25:.0f} s"
        last = self._seen[-STUCK:]
        if len(last) == STUCK and len(set(last)) <= FEW:
            return "it repeated itself"
        return ""

    def end(self) -> str:
        """What is wrong with the sentence as a whole, or nothing."""
        return "" if self._seen else "it said nothing"
