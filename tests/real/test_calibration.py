"""The tools that measure the shipped data still measure the graphs as they are now."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from cosycli.backends.kokoro import speakers, statistics, symbols
from cosycli.text.pronounce import pronounce

pytestmark = pytest.mark.real
TOOLS = Path(__file__).parents[2] / "tools"


def tool(name):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_predicted_statistics_are_near_the_measured_ones():
    """The graphs were cut anew and the tool that calibrates them no longer ran; nobody saw until it was needed."""
    voice = speakers.voice("zm_yunxi")
    ids, _ = symbols.tokens(pronounce("今天早上的风很大。"))
    described, mean, var, audio = tool("calibrate").Meter(1).measure(ids, voice.arrays["style"], 1.0)
    assert np.abs(audio).max() > 0.1
    spread = np.sqrt(voice.arrays["var"] + statistics.EPSILON)
    predicted = statistics.predict(voice.arrays, statistics.shared(), described, len(ids))
    error = np.median(np.abs(predicted[0] - mean) / spread)
    averages = np.median(np.abs(voice.arrays["mean"] - mean) / spread)
    assert error < 0.1
    assert error < averages
    assert abs(np.median(np.log((predicted[1] + 1e-5) / (var + 1e-5)))) < 0.2


def test_ranges_know_every_large_convolution():
    """An int8 graph whose ranges are of another layout would be noise."""
    from cosycli.backends.kokoro.assemble import int8_ranges

    ranges = int8_ranges()
    assert len(ranges) == 58
    for name, found in ranges.items():
        assert found.low < 0 < found.high, name
        assert found.out_low < 0 < found.out_high, name
        assert (found.std > 0).all(), name
