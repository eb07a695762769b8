"""Measures the int8 ranges of the generator's 48 and the body's 10 large convolutions: cosycli/data/int8-ranges.npz.

Runs the float32 graphs as the engine does, over calibration sentences, all ten voices and three speeds, and
records for each convolution: its input's range, its output's mean and deviation a channel, and the range of the
output once centred and scaled. Extremes are clipped at quantiles of 5e-5 (inputs) and 1e-4 (outputs): chosen because
plain minima and maxima lose 3 dB of SNR.

    python tools/ranges.py [--sentences 4]
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from cosycli.backends.kokoro import backend as kokoro
from cosycli.backends.kokoro import graphs, speakers
from cosycli.backends.kokoro.weights import Checkpoint, read_parts
from cosycli.text.pronounce import pronounce
from cosycli.types import Options, Sentence

ROOT = Path(__file__).resolve().parent.parent


class Recorder:
    """Stands in for a graph's session: runs the float32 graph with taps and keeps what they show."""

    def __init__(self, model: Any, names: Callable[[str], bool], factor: Callable[[str], Any]) -> None:
        self.taps = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "Conv" and names(n.output[0])}
        self.factor = {name: factor(name) for name in self.taps}
        for name in {*self.taps, *self.taps.values()}:
            model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
        self.session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        self.outputs = [o.name for o in self.session.get_outputs()]
        self.moments: dict[str, list[Any]] = defaultdict(lambda: [0.0, 0.0, 0])
        self.inputs: dict[str, list[np.ndarray]] = defaultdict(list)
        self.samples: dict[str, list[np.ndarray]] = defaultdict(list)

    def run(self, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        got = dict(zip(self.outputs, self.session.run(None, feeds), strict=True))
        for name, source in self.taps.items():
            x, y = got[source][0] * self.factor[name], got[name][0].astype(np.float64)
            m = self.moments[name]
            m[0], m[1], m[2] = m[0] + y.sum(1), m[1] + (y * y).sum(1), m[2] + y.shape[1]
            self.inputs[name].append(np.quantile(x, [5e-5, 1 - 5e-5]))
            self.samples[name].append(y[:, ::37].astype(np.float32))
        return [got[self.outputs[0]]]

    def ranges(self) -> dict[str, np.ndarray]:
        data: dict[str, np.ndarray] = {}
        for name in self.taps:
            total, squares, count = self.moments[name]
            mean = total / count
            std = np.sqrt(np.maximum(squares / count - mean * mean, 1e-8))
            low, high = (
                np.quantile([i[0] for i in self.inputs[name]], 0.1),
                np.quantile([i[1] for i in self.inputs[name]], 0.9),
            )
            out = (np.concatenate(self.samples[name], axis=1) - mean[:, None]) / std[:, None]
            data[f"{name}/range"] = np.array([low, high, *np.quantile(out, [1e-4, 1 - 1e-4])], np.float32)
            data[f"{name}/mean"], data[f"{name}/std"] = mean.astype(np.float32), std.astype(np.float32)
        return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=4, help="sentences a voice and speed")
    parser.add_argument("--bundle", type=Path, required=True, help="folder with encoder, style and body graphs")
    arguments = parser.parse_args()
    texts = {
        "zh-CN": (ROOT / "tools/calibration-zh.txt").read_text("utf-8").splitlines(),
        "en-US": (ROOT / "tools/calibration-en.txt").read_text("utf-8").splitlines(),
    }
    checkpoint = Checkpoint(read_parts())

    def period(name: str) -> Any:
        """Snakes count in periods; what is quantised is the convolution's input."""
        block, conv = name.rsplit("/", 1)
        return np.pi / checkpoint.alpha(block, int(conv[5]), int(conv[7])).reshape(-1, 1)

    engine = kokoro.Kokoro(arguments.bundle, precision="float32")
    recorders = (
        Recorder(graphs.generator(checkpoint), lambda name: "/convs" in name, period),
        Recorder(graphs.body(checkpoint), lambda name: name.endswith(("/conv1", "/conv2")), lambda name: 1.0),
    )
    engine.generator, engine.body = recorders  # type: ignore[assignment]
    kokoro.CHUNK_FRAMES = (200,)
    for index, speaker in enumerate(speakers.voices()):
        voice = speakers.voice(speaker.name)
        lines = texts[speaker.language]
        for k in range(arguments.sentences):
            line = lines[(index * 7 + k * 5) % len(lines)]
            sentence = Sentence(line, line, pronounce(line))
            for speed in (1.0, 1.0, 0.8, 1.3)[k % 4 : k % 4 + 1]:
                for _ in engine.synthesize(sentence, voice, Options(speed=speed)):
                    pass
        print(speaker.name, flush=True)
    target = ROOT / "cosycli/data/int8-ranges.npz"
    data = recorders[0].ranges() | recorders[1].ranges()
    names = sorted({key.rsplit("/", 1)[0] for key in data})
    np.savez_compressed(target, names=np.array(names), **data)
    print(target, target.stat().st_size)


if __name__ == "__main__":
    main()
