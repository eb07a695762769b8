"""Repetition-aware sampling: what is drawn from, and how often."""

from __future__ import annotations

import numpy as np

from cosycli.backends.cosyvoice import sampler


def test_the_nucleus_ends_with_the_token_that_reaches_its_sum() -> None:
    assert sampler.nucleus(np.array([0.1, 0.5, 0.05, 0.35])).tolist() == [1, 3]
    assert sampler.nucleus(np.array([0.1, 0.4, 0.15, 0.35])).tolist() == [1, 3, 2]


def test_the_nucleus_holds_25_at_most_and_of_equals_the_first() -> None:
    assert sampler.nucleus(np.full(100, 0.01)).tolist() == list(range(25))


def test_draws_are_as_likely_as_their_share_of_the_nucleus() -> None:
    random = np.random.default_rng(0)
    logits = np.log(np.array([0.51, 0.1, 0.3, 0.05, 0.04]))
    drawn = [sampler.draw(logits, [], random) for _ in range(4000)]
    assert set(drawn) == {0, 2}
    assert abs(drawn.count(0) / 4000 - 0.51 / 0.81) < 0.03


def test_a_repetition_is_replaced_by_a_draw_from_all_that_remain() -> None:
    random = np.random.default_rng(0)
    logits = np.log(np.array([0.9, 0.04, 0.06]))
    drawn = [sampler.draw(logits, [0], random) for _ in range(4000)]
    assert 0 not in drawn
    assert abs(drawn.count(1) / 4000 - 0.4) < 0.03


def test_what_was_said_more_than_ten_tokens_ago_may_be_said_again() -> None:
    logits = np.log(np.array([0.98, 0.01, 0.01]))
    random = np.random.default_rng(0)
    assert all(sampler.draw(logits, [0] + [1] * 10, random) == 0 for _ in range(50))
    assert all(sampler.draw(logits, [0] + [1] * 9, random) != 0 for _ in range(50))


def test_banned_tokens_are_never_drawn_even_as_a_replacement() -> None:
    random = np.random.default_rng(0)
    logits = np.log(np.array([0.9, 0.05, 0.05]))
    assert {sampler.draw(logits, [1], random, {0}) for _ in range(200)} == {2}
    assert logits[0] == np.log(0.9)
