"""A language model that lost its way is noticed, and speech is not mistaken for it."""

from __future__ import annotations

import numpy as np
import pytest

from cosycli.backends.cosyvoice.watch import Watch


def some(count: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(100, 6000, count).tolist()


def seen(text: int, tokens: list[int], *, quiet: bool = False) -> tuple[int, str]:
    watch = Watch(text)
    for place, token in enumerate(tokens):
        if trouble := watch.add(token, quiet):
            return place, trouble
    return len(tokens), watch.verdict()


def test_speech_is_left_alone() -> None:
    assert seen(40, some(300)) == (300, "")


def test_a_sentence_that_does_not_end() -> None:
    place, trouble = seen(10, some(3000))
    assert place == 14 * 10 + 75
    assert "longer than the text" in trouble


def test_few_kinds_of_tokens() -> None:
    place, trouble = seen(100, np.random.default_rng(0).choice([700, 800, 900, 1000], 300).tolist())
    assert place == 74
    assert "repeated" in trouble


@pytest.mark.parametrize("length", [11, 40, 75])
def test_the_same_words_again_and_again(length: int) -> None:
    place, trouble = seen(100, [*some(60), *some(length, 1) * 20])
    assert place < 60 + max(75, 2 * length) + length + 25
    assert "repeated" in trouble


def test_a_loop_with_a_token_in_ten_changed() -> None:
    tokens, random = some(30, 1) * 20, np.random.default_rng(2)
    changed = [int(random.integers(100, 6000)) if random.random() < 0.1 else token for token in tokens]
    assert "repeated" in seen(100, changed)[1]


def test_words_said_twice_are_left_alone() -> None:
    assert seen(40, [*some(50), *some(50, 1) * 2, *some(50, 2)]) == (200, "")


def test_silence_is_noticed_after_four_seconds_and_a_shorter_pause_is_left_alone() -> None:
    assert seen(100, [1] * 200, quiet=True) == (99, "it was silent for 4 s")
    watch = Watch(60)
    for token in some(50):
        watch.add(token)
    for _ in range(90):
        watch.add(1, quiet=True)
    assert [watch.add(token) for token in some(50, 1)] == [""] * 50


def test_nothing() -> None:
    assert Watch(5).end() == "it said nothing"
    assert seen(5, []) == (0, "it said nothing")


def test_a_sentence_much_shorter_than_its_text() -> None:
    assert "shorter than the text" in seen(30, some(20))[1]
    assert seen(2, some(1)) == (1, "")


def test_a_sentence_that_was_cut_off() -> None:
    watch = Watch(5)
    for token in some(100):
        watch.add(token)
    watch.cut()
    assert watch.verdict() == "it had not ended after 4 s"


@pytest.mark.parametrize(("level", "trouble"), [(1e-4, "it cannot be heard"), (0.05, "")])
def test_audio_that_cannot_be_heard(level: float, trouble: str) -> None:
    watch = Watch(10)
    for token in some(50):
        watch.add(token)
    watch.heard(np.zeros(24_000, np.float32), 24_000)
    watch.heard(level * np.random.default_rng(0).standard_normal(24_000).astype(np.float32), 24_000)
    assert watch.verdict() == trouble
