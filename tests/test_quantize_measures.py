"""What quantisation is judged and steered by: distances of signals, ranges, records of what graphs are fed."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from fakes.graphs import noise, two_convs

from cosycli.quantize import calibrate, measures, sensitivity
from cosycli.quantize.calibrate import Values
from cosycli.quantize.methods import open_model


def test_snr_is_energy_over_difference():
    """A tenth of the amplitude as noise is 20 dB; equal is infinite; silence has none."""
    x = noise(10_000)
    assert measures.snr(x, x + 0.1 * noise(10_000, seed=2)) == pytest.approx(20, abs=0.3)
    assert measures.snr(x, x) == float("inf")
    assert measures.snr(0 * x, x) == float("-inf")


def test_log_spectral_distance_is_in_decibels():
    """Twice as loud is 6 dB everywhere; silence against silence is equal; noise under the floor is not heard."""
    x = noise(24_000)
    assert measures.log_spectral_distance(x, x) == 0
    assert measures.log_spectral_distance(x, 2 * x) == pytest.approx(6.02, abs=0.1)
    assert measures.log_spectral_distance(0 * x, 0 * x) == 0
    tone = np.sin(np.arange(24_000) / 10)
    assert measures.log_spectral_distance(tone, tone + 1e-7 * x) < 0.5


def test_divergence_grows_with_the_difference():
    """0 for the same values; more for a shifted distribution than for a slightly rounded one."""
    x = noise(50_000)
    rounded = np.round(x * 50) / 50
    assert measures.divergence(x, x) == 0
    assert 0 < measures.divergence(x, rounded) < measures.divergence(x, np.round(x * 2) / 2)
    assert measures.divergence(x, x + 1) > 0.3
    assert measures.divergence(np.ones(5), np.ones(5)) == 0


def test_divergence_is_no_artefact_of_levels():
    """256 levels against bins half as wide: every second bin was empty, and layers that were hardly changed came out
    with 2 to 4 nats, far above those that were.
    """
    x = np.clip(noise(200_000), -4, 4)
    step = np.float32(8 / 255)
    assert measures.divergence(x, np.round(x / step) * step) < 0.02


def values(x):
    """The values of one tensor [1, C, n]."""
    found = Values(1)
    for part in np.array_split(x, 4, axis=2):
        found.add(part)
    return found


def test_values_are_kept_channel_by_channel():
    """Extremes, mean and deviation over several runs are those of all values together."""
    x = noise(1, 4, 4000) * np.array([1, 2, 4, 8]).reshape(1, 4, 1) + 3
    x = x.astype(np.float32)
    found = values(x)
    np.testing.assert_allclose(found.mean, x[0].mean(1), rtol=1e-4)
    np.testing.assert_allclose(found.deviation, x[0].std(1), rtol=1e-3)
    np.testing.assert_array_equal(found.peaks, np.abs(x[0]).max(1))
    assert found.peak == np.abs(x).max()
    low, high = found.limits("minmax", found.mean, found.deviation)
    normal = (x[0] - found.mean[:, None]) / found.deviation[:, None]
    assert (low, high) == pytest.approx((normal.min(), normal.max()), rel=1e-4)


@pytest.mark.parametrize(("method", "at_most"), [("minmax", 1000), ("percentile", 6), ("entropy", 200)])
def test_ranges_leave_out_what_hardly_occurs(method, at_most):
    """One value of 1000 among 40,000 of a normal distribution: its range has room for little else. Percentile cuts
    it off, entropy too where that distorts the distribution less, min-max keeps it.
    """
    x = noise(1, 1, 40_000)
    x[0, 0, 77] = 1000
    low, high = values(x).limits(method)
    assert high <= at_most
    assert high >= 2
    assert low <= -2
    if method == "minmax":
        assert high == 1000


def test_entropy_does_not_cut_an_even_distribution():
    """Where every value is as frequent, what is cut off is missing."""
    x = np.linspace(-3, 5, 40_000, dtype=np.float32)[None, None]
    low, high = values(x).limits("entropy")
    assert (low, high) == pytest.approx((-3, 5), abs=0.3)


def test_constant_tensors_have_a_range():
    """A tensor that is always 0, or always 7, was divided by an empty range."""
    for constant in (0.0, 7.0):
        for method in calibrate.METHODS:
            assert values(np.full((1, 2, 10), constant, np.float32)).limits(method) == (constant, constant)


def test_a_recorder_samples_all_runs_alike_and_copies():
    """Long calibration must not fill the memory; a buffer that is used again must not change what was kept."""
    recorder = calibrate.Recorder(limit=8)
    buffer = np.zeros(1)
    for number in range(100):
        buffer[0] = number
        recorder({"x": buffer})
    kept = [int(feed["x"][0]) for feed in recorder.feeds]
    assert 4 <= len(kept) <= 8
    assert len(set(np.diff(kept))) == 1
    assert kept[0] == 0
    assert kept[-1] > 80


def test_recording_ends_with_the_block():
    """Whatever happens inside, the session is not watched afterwards."""
    session = open_model(two_convs())
    with contextlib.suppress(KeyError), calibrate.recorded({"g": session}) as recorders:
        session.run({"x": noise(1, 32, 10)})
        raise KeyError
    assert len(recorders["g"].feeds) == 1
    session.run({"x": noise(1, 32, 10)})
    assert len(recorders["g"].feeds) == 1


def test_another_graph_plays_and_leaves():
    """A variant answers in a session's place for a while, and never for good."""
    first, second = open_model(two_convs()), open_model(two_convs(seed=3))
    feed = {"x": noise(1, 32, 10)}
    own, other = first.run(feed)[0], second.run(feed)[0]
    with contextlib.suppress(KeyError), first.played_by(second):
        np.testing.assert_array_equal(first.run(feed)[0], other)
        raise KeyError
    np.testing.assert_array_equal(first.run(feed)[0], own)


@pytest.mark.parametrize("needed", [0, 1, 5, 20, 21])
def test_the_fewest_layers_are_put_back(needed):
    """Found with few trials: each takes seconds."""
    asked = []

    def holds(count):
        asked.append(count)
        return count >= needed

    assert sensitivity.fewest(20, holds) == (needed if needed <= 20 else None)
    assert len(asked) <= 7
