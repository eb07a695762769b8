"""A language model that lost its way is noticed, and speech is not mistaken for it."""

from __future__ import annotations

import numpy as np

from cosycli.backends.cosyvoice.watch import Watch


def seen(text: int, tokens: list[int]) -> tuple[int, str]:
    watch = Watch(text)
    for place, token in enumerate(tokens):
        if trouble := watch.add(token):
            return place, trouble
    return len(tokens), watch.end()


def test_speech_is_left_alone() -> None:
    tokens = np.random.default_rng(0).integers(100, 6000, 300).tolist()
    assert seen(40, tokens) == (300, "")


def test_a_sentence_that_does_not_end() -> None:
    tokens = np.random.default_rng(0).integers(100, 6000, 3000).tolist()
    place, trouble = seen(10, tokens)
    assert place == 14 * 10 + 75
    assert "longer than the text" in trouble


def test_repetition() -> None:
    place, trouble = seen(100, [700, 800, 900] * 100)
    assert place == 74
    assert "repeated" in trouble


def test_silence() -> None:
    tokens = [1, 2, 28, 29, 55, 248] * 50
    assert "silent" in seen(100, tokens)[1]


def test_nothing() -> None:
    assert seen(5, []) == (0, "it said nothing")
