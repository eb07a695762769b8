"""Measures each voice's norm statistics on calibration sentences and fits how to predict them for a new sentence.

    python tools/calibrate.py --work DIR [--share 4] [--threads 2] [--check]

Writes cosycli/data/voices/NAME.npz (`style`, kept as it is; `mean`, `var`: the voice's averages; `centre`: what
`statistics.describe` says of its average sentence; `path`: where each style row lies; `curve`: how every channel
changes along it) and cosycli/data/predictor.npz (what the voices share). Channels are in the order of
`graphs.BODY_NORMS`, then `graphs.GENERATOR_NORMS`. Measurements are kept in DIR, so a stopped run goes on where it
was: about 25 ms of one core a frame, half an hour in all. With --check nothing is written; sentences are left out in
turn and predicted.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cosycli.backends.kokoro import backend, graphs, speakers, statistics, symbols
from cosycli.backends.kokoro.weights import Checkpoint, read_parts
from cosycli.text.pronounce import pronounce

Floats = NDArray[np.float32]

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "cosycli/data"
TEXTS = {"zh-CN": "calibration-zh.txt", "en-US": "calibration-en.txt"}
SPEEDS = (0.5, 0.7, 1.4, 2.0)  # besides 1, for one short sentence in eight
SHORT = 16  # characters; other speeds change long and short sentences alike, and long ones take minutes
SHORTEST = 8  # characters; spoken by every voice, since averages suit these least and they cost little

# Chosen by leaving sentences out (docs/embedded-voice.md): a fourth of these penalties, or four times, is as good.
COMPONENTS = 24
RIDGE = 0.05
CURVE_RIDGE = 0.004
FEATURE_GAIN = 2.0  # weight of the 512 feature averages together, a scalar's being 1


@dataclass(frozen=True)
class Measurement:
    """One sentence of one voice: its description, and every norm channel's mean and variance."""

    voice: str
    key: str
    speed: float
    frames: int
    tokens: int
    described: Floats
    mean: Floats
    var: Floats


class Meter:
    """Decodes whole sentences with the norms measuring their own statistics, as the untouched graph does."""

    def __init__(self, threads: int) -> None:
        checkpoint = Checkpoint(read_parts())
        self._threads = threads
        self._encoder = self._open(graphs.encoder(checkpoint))
        self._style = self._open(graphs.style(checkpoint))
        self._source = self._open(graphs.source(checkpoint))
        self._body = self._open(measuring(graphs.body(checkpoint)))
        self._generator = self._open(measuring(graphs.generator(checkpoint)))
        self._gain = graphs.snake_gain(checkpoint)

    def _open(self, model: Any) -> Any:
        options = ort.SessionOptions()
        options.intra_op_num_threads = self._threads
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def measure(self, ids: Sequence[int], style: Floats, speed: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Described, mean, variance and audio of a sentence."""
        row = style[min(len(ids), len(style) - 1)][None]
        tokens = np.array([[0, *ids, 0]], np.int64)
        features, f0, energy, durations = self._encoder.run(
            None, {"tokens": tokens, "style": row, "speed": np.array([speed], np.float32)}
        )
        gain, bias = np.split(self._style.run(None, {"style": row[:, :128]})[0][0], 2)
        cut = backend.BODY_NORM_CHANNELS
        of_style = {"gain": _packed(gain[:cut]), "bias": _packed(bias[:cut])}
        body, *of_body = self._body.run(None, {"features": features, "f0": f0, "energy": energy, **of_style})
        phase, voiced = _phases(f0)
        (harmonics,) = self._source.run(None, {"phase": phase, "voiced": voiced})
        audio, *of_generator = self._generator.run(
            None,
            {
                "body": body,
                "harmonics": harmonics,
                "gain": _packed(gain[cut:] * self._gain),
                "bias": _packed(bias[cut:] * self._gain),
            },
        )
        mean, var = (np.concatenate([a.ravel(), b.ravel()]) for a, b in zip(of_body, of_generator, strict=True))
        described = statistics.describe(features[0], f0.ravel(), energy.ravel(), durations.ravel(), speed)
        return described, mean, var, audio


def _packed(x: Floats) -> Floats:
    return x[None, :, None]


def _phases(f0: Floats) -> tuple[Floats, Floats]:
    """Phase and voicing of the whole sentence, one half-frame more at each side."""
    index = np.clip(np.arange(-1, f0.shape[2] + 1), 0, f0.shape[2] - 1)
    phase = backend._cycles(f0)[:, index]
    return phase[None].astype(np.float32), (f0[0, 0, index] > statistics.VOICED).astype(np.float32)[None, None]


def measuring(model: Any) -> Any:
    """The graph with `gain` and `bias` for inputs, its norms measuring, and `mean` and `var` as further outputs."""
    nodes: list[Any] = []
    paths: list[str] = []
    for node in model.graph.node:
        if node.op_type == "Split" and node.input[0] in ("scale", "shift"):
            node.input[0] = {"scale": "gain", "shift": "bias"}[node.input[0]]
            paths = [name.split("/", 1)[1] for name in node.output]
            node.output[:] = [f"{node.input[0]}/{path}" for path in paths]
        scale = next((name for name in node.input if name.startswith("scale/")), None)
        if scale:
            path = scale.split("/", 1)[1]
            (x,) = (name for name in node.input if name != scale)
            nodes += _measure(x, path)
            node.input[list(node.input).index(x)] = f"away/{path}"
        node.input[:] = [
            name.replace("shift/", "bias/", 1) if name.startswith("shift/") else name for name in node.input
        ]
        nodes.append(node)
    for kind in ("mean", "var"):
        nodes.append(helper.make_node("Concat", [f"{kind}/{path}" for path in paths], [kind], axis=1))
        model.graph.output.append(helper.make_tensor_value_info(kind, TensorProto.FLOAT, None))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(numpy_helper.from_array(np.array([2], np.int64), "time"))
    model.graph.initializer.append(numpy_helper.from_array(np.float32(statistics.EPSILON), "epsilon"))
    for value in model.graph.input:
        value.name = {"scale": "gain", "shift": "bias"}.get(value.name, value.name)
    return model


def _measure(x: str, path: str) -> list[Any]:
    """Nodes from a norm's input to its mean, variance, scale and the input less its mean."""
    steps = [
        ("ReduceMean", [x, "time"], "mean", {}),
        ("Sub", [x, f"mean/{path}"], "away", {}),
        ("ReduceSumSquare", [f"away/{path}", "time"], "squares", {}),
        ("Shape", [x], "length", {"start": 2}),
        ("Cast", [f"length/{path}"], "count", {"to": TensorProto.FLOAT}),
        ("Div", [f"squares/{path}", f"count/{path}"], "var", {}),
        ("Add", [f"var/{path}", "epsilon"], "safe", {}),
        ("Sqrt", [f"safe/{path}"], "spread", {}),
        ("Div", [f"gain/{path}", f"spread/{path}"], "scale", {}),
    ]
    return [helper.make_node(kind, inputs, [f"{name}/{path}"], **extra) for kind, inputs, name, extra in steps]


def plan(share: int) -> Iterator[tuple[str, str, float]]:
    """(voice, sentence, speed): each voice speaks the shortest and one sentence in `share`; together they speak all."""
    lines = {
        language: list(dict.fromkeys((ROOT / "tools" / name).read_text("utf-8").splitlines()))
        for language, name in TEXTS.items()
    }
    for index, voice in enumerate(speakers.voices()):
        own = lines[voice.language]
        every = share if voice.language == "zh-CN" else 2  # only two voices speak English
        for i, line in enumerate(own):
            if i % every == index % every or len(line) < SHORTEST:
                yield voice.name, line, 1.0
            if len(line) < SHORT and i % 8 == index % 8:
                yield voice.name, line, SPEEDS[(i // 8 + index) % len(SPEEDS)]


def measurements(work: Path, share: int, threads: int) -> list[Measurement]:
    """All of the plan's measurements, read from `work` where they were made before."""
    meter: Meter | None = None
    found = []
    work.mkdir(parents=True, exist_ok=True)
    for name, line, speed in plan(share):
        key = f"{zlib.crc32(line.encode()):08x}"
        path = work / f"{name}-{key}-{speed}.npz"
        if not path.exists():
            meter = meter or Meter(threads)
            ids, _ = symbols.tokens(pronounce(line))
            described, mean, var, audio = meter.measure(ids, speakers.voice(name).arrays["style"], speed)
            sizes = {"frames": np.int64(len(audio) // backend.FRAME), "tokens": np.int64(len(ids))}
            _save(path, described=described, mean=mean, var=var, **sizes)
            print(name, speed, line, flush=True)
        with np.load(path) as data:
            sizes = int(data["frames"]), int(data["tokens"])
            found.append(Measurement(name, key, speed, *sizes, data["described"], data["mean"], data["var"]))
    return found


def _save(path: Path, /, **arrays: Any) -> None:
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, **arrays)
    part.replace(path)


VoiceData = dict[str, Floats]


def styles() -> dict[str, Floats]:
    """Each voice's style rows."""
    return {voice.name: speakers.voice(voice.name).arrays["style"] for voice in speakers.voices()}


def fit(data: Sequence[Measurement], styles: Mapping[str, Floats]) -> tuple[dict[str, VoiceData], statistics.Predictor]:
    """Averages and curve of each voice, then a ridge regression, reduced to few components, on what they leave over.

    Everything is weighted by frames: unweighted, or in logarithms, the errors of all channels share a sign, and the
    log-spectral distance doubles (0.11 → 0.23) though each channel's error stays as small.
    """
    weight = np.array([m.frames for m in data], np.float32)
    weight /= weight.mean()
    described = np.stack([m.described for m in data])
    deviations = np.zeros((len(data), 2, len(data[0].mean)), np.float32)
    voices = {}
    for name in sorted({m.voice for m in data}):
        rows = np.array([i for i, m in enumerate(data) if m.voice == name])
        voices[name] = _fit_voice(data, rows, weight, described, deviations)
        voices[name] |= _fit_curve(data, rows, weight, deviations, styles[name])
    scale = _input_scale(described)
    inputs = described * scale
    weighted = inputs * (weight / len(data))[:, None]
    solve = np.linalg.solve(inputs.T @ weighted + RIDGE * np.eye(len(scale), dtype=np.float32), weighted.T)
    flat = deviations.reshape(len(data), -1)
    basis = _components((inputs @ solve @ flat) * np.sqrt(weight)[:, None])
    weights = solve @ (flat @ basis.T) * scale[:, None]
    spread = described.std(axis=0)
    usual = statistics.MOST_UNUSUAL * spread
    scores = np.clip(described, -usual, usual) @ weights
    return voices, _packed_predictor(spread, weights, scores.std(axis=0), basis)


def _fit_voice(
    data: Sequence[Measurement], rows: NDArray[np.int64], weight: Floats, described: Floats, deviations: Floats
) -> VoiceData:
    """One voice's averages and slope; its rows of `described` and `deviations` become what is left over."""
    natural = np.array([i for i in rows if data[i].speed == 1.0])
    w = weight[natural] / weight[natural].sum()
    centre = w @ described[natural]
    mean = w @ np.stack([data[i].mean for i in natural])
    spread = w @ np.stack([data[i].var for i in natural]) + np.float32(statistics.EPSILON)
    described[rows] -= centre
    for i in rows:
        deviations[i, 0] = (data[i].mean - mean) / np.sqrt(spread)
        deviations[i, 1] = (data[i].var + np.float32(statistics.EPSILON)) / spread - 1
    return {
        "mean": mean,
        "var": np.maximum(spread - np.float32(statistics.EPSILON), 0),
        "centre": centre,
    }


def _fit_curve(
    data: Sequence[Measurement], rows: NDArray[np.int64], weight: Floats, deviations: Floats, style: Floats
) -> VoiceData:
    """How a voice's channels change along its style; its rows of `deviations` become what is left over.

    Style rows, one for each number of tokens, lie on a line (99 % of their variance), far apart: row 5 is as far from
    row 90 as row 90 is from zero. Beyond the shortest and longest sentence measured, the line is not followed.
    """
    natural = np.array([i for i in rows if data[i].speed == 1.0])
    tokens = np.array([min(data[i].tokens, len(style) - 1) for i in natural])
    w = weight[natural] / weight[natural].sum()
    timbre = style[:, :128] - w @ style[tokens, :128]
    direction = np.linalg.svd(timbre[tokens], full_matrices=False)[2][0]
    place = timbre @ direction / (timbre[tokens] @ direction).std()
    place = np.clip(place, place[tokens].min(), place[tokens].max())
    path = np.stack([place, place**2 - w @ place[tokens] ** 2], axis=1).astype(np.float32)
    x = path[tokens]
    penalty = CURVE_RIDGE * np.eye(2, dtype=np.float32)
    curve = np.tensordot(np.linalg.solve(x.T @ (x * w[:, None]) + penalty, (x * w[:, None]).T), deviations[natural], 1)
    every = np.array([min(data[i].tokens, len(style) - 1) for i in rows])
    deviations[rows] -= np.tensordot(path[every], curve, 1)
    return {"path": path, "curve": curve.astype(np.float16)}


def _input_scale(described: Floats) -> Floats:
    scalars, features = described[:, : statistics.SCALARS], described[:, statistics.SCALARS :]
    together = FEATURE_GAIN / np.sqrt(np.square(features).mean() * features.shape[1])
    return np.concatenate([1 / scalars.std(axis=0), np.full(features.shape[1], together)]).astype(np.float32)


def _components(fitted: Floats) -> Floats:
    """Orthonormal directions [COMPONENTS, 2·channels] in which the fitted deviations vary most."""
    values, vectors = np.linalg.eigh((fitted @ fitted.T).astype(np.float64))
    top = slice(-1, -1 - COMPONENTS, -1)
    directions = (vectors[:, top].T @ fitted) / np.sqrt(values[top])[:, None]
    return directions.astype(np.float32)


def _packed_predictor(spread: Floats, weights: Floats, scores: Floats, basis: Floats) -> statistics.Predictor:
    """The basis in int8, one step a component and half: measured no worse than float32."""
    halves = basis.reshape(len(basis), 2, -1)
    step = np.abs(halves).max(axis=2) / 127
    integers = np.round(halves / step[:, :, None]).astype(np.int8)
    real = (np.asarray(x, np.float32) for x in (spread, weights, scores))
    return statistics.Predictor(*real, integers, step.astype(np.float32))


def check(data: Sequence[Measurement], folds: int = 4) -> None:
    """Leave sentences out (in all voices at once), predict them, and compare with the voice's averages."""
    keys = sorted({m.key for m in data})
    rows = []
    for fold in range(folds):
        out = {key for i, key in enumerate(keys) if i % folds == fold}
        voices, predictor = fit([m for m in data if m.key not in out], styles())
        for m in (m for m in data if m.key in out):
            own = voices[m.voice]
            guess = statistics.predict(own, predictor, m.described, m.tokens)
            rows.append((m.frames, m.speed, *_error(m, *guess), *_error(m, own["mean"], own["var"])))
    table = np.array(rows)
    print("group            sentences   predicted: ln σ, mean/σ   averages: ln σ, mean/σ")
    for low, high in ((0, 100), (100, 200), (200, 300), (300, 10_000)):
        picked = table[(table[:, 0] >= low) & (table[:, 0] < high) & (table[:, 1] == 1)]
        _print_row(f"{low} to {high} frames", picked)
    for speed in sorted(set(table[:, 1])):
        _print_row(f"speed {speed}", table[table[:, 1] == speed])


def _error(m: Measurement, mean: Floats, var: Floats) -> tuple[float, float]:
    epsilon = np.float32(statistics.EPSILON)
    spread = np.log((var + epsilon) / (m.var + epsilon)) / 2
    return float(np.abs(spread).mean()), float((np.abs(mean - m.mean) / np.sqrt(m.var + epsilon)).mean())


def _print_row(name: str, rows: NDArray[np.float64]) -> None:
    if len(rows):
        predicted_spread, predicted_mean, spread, mean = rows[:, 2:].mean(axis=0)
        print(f"{name:18} {len(rows):4}   {predicted_spread:.3f} {predicted_mean:.3f}   {spread:.3f} {mean:.3f}")


def write(voices: dict[str, VoiceData], predictor: statistics.Predictor) -> None:
    """Replace the package's data; a voice keeps its style."""
    for name, arrays in voices.items():
        _save(DATA / "voices" / f"{name}.npz", style=speakers.voice(name).arrays["style"], **arrays)
    _save(DATA / "predictor.npz", **vars(predictor))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps the measurements")
    parser.add_argument("--share", type=int, default=4, help="each Mandarin voice speaks one sentence in so many")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="cross-validate instead of writing")
    arguments = parser.parse_args()
    data = measurements(arguments.work, arguments.share, arguments.threads)
    if arguments.check:
        check(data)
    else:
        write(*fit(data, styles()))


if __name__ == "__main__":
    main()
