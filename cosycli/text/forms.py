"""A regular expression that is compiled when a text first holds one of the characters it needs.

There are some 150 forms of numbers and signs; compiling all of them takes 0.1 s, and few texts need more
than ten.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property


class Form:
    """What a span looks like; `needs` lists characters of which a text must hold one ("" for any text)."""

    def __init__(self, needs: str, form: str, flags: int = 0) -> None:
        self._needs = frozenset(needs)
        self._form = form
        self._flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The expression itself."""
        return re.compile(self._form, self._flags)

    def sub(self, reading: str | Callable[[re.Match[str]], str], text: str) -> str:
        """The text with every such span replaced by its reading."""
        if self._needs and self._needs.isdisjoint(text):
            return text
        return self.compiled.sub(reading, text)


Rule = tuple[Form, str | Callable[[re.Match[str]], str]]


def apply(text: str, rules: tuple[Rule, ...]) -> str:
    """Apply rules in their order."""
    for form, reading in rules:
        text = form.sub(reading, text)
    return text
