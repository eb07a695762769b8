"""Speed by interpolation: chunked is the whole."""

from __future__ import annotations

import numpy as np
import pytest

from cosycli.backends.cosyvoice.stretch import Stretch

MEL = np.random.default_rng(0).standard_normal((103, 4)).astype(np.float32)


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.0, 1.3, 2.0])
@pytest.mark.parametrize("size", [1, 3, 50])
def test_chunks_are_the_whole(speed: float, size: int) -> None:
    whole = Stretch(speed).feed(MEL, last=True)
    assert len(whole) == int(len(MEL) / speed)
    stretch = Stretch(speed)
    parts = [stretch.feed(MEL[at : at + size], last=at + size >= len(MEL)) for at in range(0, len(MEL), size)]
    assert np.allclose(np.concatenate(parts), whole, atol=1e-5)


def test_frames_lie_between_their_neighbours() -> None:
    ramp = np.arange(100, dtype=np.float32)[:, None]
    made = Stretch(0.5).feed(ramp, last=True)[:, 0]
    assert np.allclose(made[10:-10], (np.arange(200)[10:-10] + 0.5) * 0.5 - 0.5, atol=1e-4)


def test_an_end_without_frames() -> None:
    speed = 1.3
    whole = Stretch(speed).feed(MEL, last=True)
    stretch = Stretch(speed)
    parts = [stretch.feed(MEL), stretch.feed(MEL[:0], last=True)]
    assert np.allclose(np.concatenate(parts), whole, atol=1e-5)
