"""The embedded voice quantised for real: static int8 with ranges from what it speaks, and what it then sounds like."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from cosycli.bundles import catalog, store
from cosycli.engine import Engine
from cosycli.quantize import make
from cosycli.quantize.make import Terms
from cosycli.quantize.methods import Wish

pytestmark = pytest.mark.real

TEXTS = ["你好。", "今天下雨。", "请把门关上。", "谢谢你。", "明天再来。", "音乐已经暂停。"]


class Quiet:
    """Nobody watches."""

    def step(self, what, parts=0):
        return lambda: None


@pytest.fixture
def own_home(home, tmp_path, monkeypatch):
    """The assembled voice in a cache of the test's own."""
    shutil.copytree(home / "bundles" / "kokoro", tmp_path / "bundles" / "kokoro")
    monkeypatch.setenv("COSY_HOME", str(tmp_path))
    return tmp_path


def spoken(model, text="我们去公园散步吧。"):
    """A text's samples."""
    return np.concatenate([chunk.samples for chunk in Engine(model, provider="cpu").stream(text)])


def test_static_int8_of_the_embedded_voice_is_near_and_small(own_home, monkeypatch):
    """Everything that has integer kernels becomes int8, the sound keeps over 10 dB to float32, and the encoder,
    whose durations decide the timing, and the source, whose phases need their digits, are the files they were.
    """
    monkeypatch.setattr(make, "CALIBRATION", 3)
    made = make.make("kokoro", "small", Wish("int8", "percentile"), Terms(10.0), TEXTS, Quiet())
    assert made.put_back == []
    assert made.fidelity.snr > 10
    assert not made.fidelity.timing_changed
    assert made.sizes["after"] < 0.45 * made.sizes["before"]
    folder = store.bundle_path("small")
    for name in ("encoder.onnx", "source.onnx", "snake_gain.npy"):
        same = folder / name, own_home / "bundles" / "kokoro" / name
        assert store.file_digest(same[0]) == store.file_digest(same[1])
    assert not list(folder.glob("*-int8.onnx"))
    assert catalog.manifest("small").precision == "int8 static (percentile)"
    ours, theirs = spoken("small"), spoken("kokoro")
    assert abs(len(ours) - len(theirs)) < 0.02 * 24000  # edges are trimmed by their level
    assert np.isfinite(ours).all()
    assert 0.8 < np.std(ours) / np.std(theirs) < 1.25
