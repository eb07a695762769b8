"""A whole model family of two small graphs, for tests of what works on any bundle: pytest fixture `tiny`."""

from __future__ import annotations

import sys
import types
import zlib

import numpy as np
import onnx
import pytest
from fakes.graphs import model, node, noise, two_convs, value

from cosycli.backends import Pcm
from cosycli.bundles import store
from cosycli.runtime import Session
from cosycli.types import Voice

RATE, SYLLABLE = 24_000, 2400
NAME = "tiny"


class Tiny:
    """A syllable is noise of its own through `shape.onnx` (a product) and `synth.onnx` (two convolutions, a sum)."""

    rate = RATE

    def __init__(self, folder, precision):
        manifest = store.read_manifest(folder)
        self.precision = manifest.precision if manifest else "float32"
        if precision not in (None, self.precision):
            from cosycli.errors import UsageError

            raise UsageError(f"it holds {self.precision}", "leave it out")
        self.provider = "cpu"
        self.sessions = {name: Session(folder / f"{name}.onnx") for name in ("shape", "synth")}

    def synthesize(self, sentence, voice, options):
        sounds = [sound for word in sentence.words for sound in word.sounds]
        for index, sound in enumerate(sounds):
            random = np.random.default_rng(zlib.crc32(sound.encode()))
            x = random.standard_normal((1, 32, SYLLABLE)).astype(np.float32)
            x[0, :, 7] *= 30  # a click, which takes most steps of the first layer's range
            (gain,) = self.sessions["shape"].run({"id": random.standard_normal((1, 128)).astype(np.float32)})
            (y,) = self.sessions["synth"].run({"x": x, "gain": gain})
            yield Pcm(0.1 * y[0, 0], last=index == len(sounds) - 1)


def synth():
    """x [1, 32, n], gain [1, 256] → y [1, 1, n]."""
    made = two_convs()
    made.graph.node[2].output[0] = "deep"
    del made.graph.output[:]
    made.graph.output.append(value("y", [1, 1, "n"]))
    made.graph.input.append(value("gain", [1, 256]))
    made.graph.node.extend(
        [
            node("ReduceMean", "deep axes", "mean", keepdims=1),
            node("ReduceMax", "gain", "loud", keepdims=0),
            node("Tanh", "loud", "factor"),
            node("Mul", "mean factor", "y"),
        ]
    )
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1], np.int64), "axes"))
    return made


def shape():
    """id [1, 128] → gain [1, 256]."""
    weight = {"w": noise(128, 256, scale=0.1)}
    return model([node("MatMul", "id w", "gain")], [value("id", [1, 128])], [value("gain", [1, 256])], weight)


def install(name=NAME):
    """The bundle in the cache."""
    folder = store.bundle_path(name)
    folder.mkdir(parents=True)
    onnx.save(synth(), folder / "synth.onnx")
    onnx.save(shape(), folder / "shape.onnx")
    (folder / "notes.txt").write_text("kept")
    store.write_manifest(folder, store.Manifest(name, "tinyvoice", "1", "float32", "CC0", RATE))
    return folder


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The family, and its bundle in a cache of the test's own."""
    module = types.ModuleType("cosycli.backends.tinyvoice")
    voice = Voice("hum", "zh-CN", "female", NAME, "CC0")
    module.KEEP = {}
    module.SOUNDS, module.MARKS, module.OPTIONS = True, (), frozenset({"seed"})
    module.default_voice = lambda folder=None: voice.name
    module.load = lambda folder, provider="cpu", precision=None: Tiny(folder, precision)
    module.voices = lambda folder=None: (voice,)
    module.voice = lambda folder, name: voice
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("COSY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COSY_CONFIG", str(tmp_path / "config"))
    return install()
