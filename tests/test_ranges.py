"""Ranges of keys and values in int8 caches."""

from __future__ import annotations

import numpy as np
import pytest

from cosycli.backends.cosyvoice import ranges

DIM = 128
PARTS = {"scale": np.ones((1, 3 * DIM), np.float32), "bias": np.full((1, 3 * DIM), 2, np.float32)}


@pytest.fixture
def reach() -> np.ndarray:
    return np.random.default_rng(0).uniform(1, 9, (1, 2 * DIM)).astype(np.float32)


def split(vector: np.ndarray) -> list[np.ndarray]:
    return np.split(vector, 7)


def test_what_keys_lose_queries_get_and_what_values_lose_comes_back(reach: np.ndarray) -> None:
    queries, keys, values, *bias, back = split(ranges.vector(PARTS, reach))
    assert np.allclose(queries * keys, 1)
    assert np.allclose(values * back, 1)
    assert np.allclose(np.concatenate(bias), 2 * np.concatenate([queries, keys, values]))
    assert (reach[0, DIM:] * values <= 127.001).all()
    assert (reach[0, :DIM] * keys <= 127.001).all()


def test_pairs_that_are_rotated_into_each_other_have_one_scale(reach: np.ndarray) -> None:
    """Else a rotation would turn one channel's unit into the other's."""
    _, keys, *_ = split(ranges.vector(PARTS, reach))
    assert (keys[0:64:2] == keys[1:64:2]).all()
    assert (keys[64::2] != keys[65::2]).any()


def test_a_channel_of_zeros_has_a_range() -> None:
    assert np.isfinite(ranges.vector(PARTS, np.zeros((1, 2 * DIM), np.float32))).all()


def test_what_reached_the_end_of_its_range_gets_a_wider_one(reach: np.ndarray) -> None:
    caches = {f"cache.0.{kind}": np.full((2, 2, 3, 64), 100, np.int8) for kind in "kv"}
    found, ended = ranges.measured(caches, reach)
    assert not ended
    assert np.allclose(found, ranges.scales(reach) * 150)
    caches["cache.0.v"][1, 0, 2, 5] = -128
    found, ended = ranges.measured(caches, reach)
    assert ended
    assert found[0, DIM + 5] == pytest.approx(4 * reach[0, DIM + 5])


def test_what_was_too_small_to_measure_does_not_get_a_range_of_nothing(reach: np.ndarray) -> None:
    caches = {f"cache.0.{kind}": np.zeros((2, 2, 3, 64), np.int8) for kind in "kv"}
    found, ended = ranges.measured(caches, reach)
    assert not ended
    assert (found > reach / 50).all()
