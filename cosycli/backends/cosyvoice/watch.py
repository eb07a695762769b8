"""Notices a language model that has lost its way: it goes on and on, repeats itself, is cut off, or says nothing.

Rates are those of speech: 25 tokens a second, and a text token is a syllable or two. The numbers are judged from
these rates: far from all speech, so that nothing is made twice in vain. Knows no model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

PACE, EXTRA = 14, 75  # speech tokens for a text token, and for a pause: more than twice as slow as people speak
HASTE, SOME = 1, 5  # fewer speech tokens for each of at least so many text tokens: 25 syllables a second
STUCK, FEW = 75, 4  # so many tokens in a row of so few kinds are no speech
HUSH = 100  # tokens of silence in a row: four seconds
PERIOD = 75  # tokens: loops are looked for up to the length of a clause, three seconds
ALIKE = 0.6  # share of tokens that return after a period; of the same words said again, a tenth does
EVERY = 25  # tokens: loops are looked for once a second
FAINT = 1e-3  # of full scale, in the loudest tenth of a second: 40 dB under speech


class Watch:
    """Sees one sentence's tokens go by, and its audio. `text`: how many text tokens it has."""

    def __init__(self, text: int) -> None:
        self._text = text
        self._count = 0
        self._seen: list[int] = []  # without silence: a long pause is no repetition
        self._quiet = 0
        self._loudest: float | None = None
        self._trouble = ""

    def expect(self, text: int) -> None:
        """So many more text tokens have arrived."""
        self._text += text

    def add(self, token: int, quiet: bool = False) -> str:
        """What is wrong with the sentence as of this token, or nothing. `quiet`: it stands for silence."""
        self._count += 1
        self._quiet = self._quiet + 1 if quiet else 0
        if not quiet:
            self._seen.append(token)
        self._trouble = self._trouble or self._wrong(quiet)
        return self._trouble

    def cut(self) -> None:
        """The sentence ended because it may not be longer."""
        self._trouble = self._trouble or f"it had not ended after {self._count / 25:.0f} s"

    def heard(self, samples: NDArray[Any], rate: int) -> None:
        """Audio that was made of it, samples [n] in [-1, 1]."""
        size = rate // 10
        for start in range(0, len(samples), size):
            level = float(np.sqrt(np.mean(samples[start : start + size].astype(np.float64) ** 2)))
            self._loudest = max(self._loudest or 0.0, level)

    def end(self) -> str:
        """That there is nothing to hear, or nothing."""
        return "" if self._count else "it said nothing"

    def verdict(self) -> str:
        """What is wrong with the sentence as a whole, or nothing."""
        if self._trouble or self.end():
            return self._trouble or self.end()
        if self._text >= SOME and self._count < HASTE * self._text:
            return f"it spoke for {self._count / 25:.1f} s, much shorter than the text"
        if self._loudest is not None and self._loudest < FAINT:
            return "it cannot be heard"
        return ""

    def _wrong(self, quiet: bool) -> str:
        if self._count > PACE * self._text + EXTRA:
            return f"it spoke for {self._count / 25:.0f} s, much longer than the text"
        if self._quiet >= HUSH:
            return f"it was silent for {self._quiet / 25:.0f} s"
        last = self._seen[-STUCK:]
        stuck = len(last) == STUCK and len(set(last)) <= FEW
        if not quiet and (stuck or (len(self._seen) % EVERY == 0 and loops(self._seen))):
            return "it repeated itself"
        return ""


def loops(tokens: list[int]) -> bool:
    """Whether the end of a sequence comes again and again: at least three times, and for three seconds."""
    end = np.array(tokens[-3 * PERIOD :])
    for period in range(1, PERIOD + 1):
        span = max(STUCK, 2 * period)
        if len(end) < span + period:
            return False
        if np.mean(end[-span:] == end[-span - period : -period]) >= ALIKE:
            return True
    return False
