"""Marks that a model follows pass through text preparation unharmed."""

from __future__ import annotations

import pytest

from cosycli.backends.cosyvoice import MARKS
from cosycli.engine import sentences
from cosycli.text.marks import hide, show
from cosycli.types import Options


def spoken(pieces: list[str]) -> str:
    return "".join(show(s.text, MARKS) for s in sentences(hide(pieces, MARKS), Options(), sounds=False))


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_marks_stay_and_what_is_around_them_is_read(size: int) -> None:
    text = "她说：[laughter]有5个[breath]。<strong>重点</strong>在这里。高管对报道[j][ǐ]予好评。"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert spoken(pieces) == text.replace("5", "五")


def test_other_brackets_are_text() -> None:
    assert spoken(["有[5]个"]) == "有[五]个"
