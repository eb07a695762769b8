"""Norm statistics predicted for a sentence, and the tool that measures and fits them."""

from __future__ import annotations

import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cosycli.backends.kokoro import speakers, statistics

ROOT = Path(__file__).parent.parent
CHANNELS = 18698
NAMES = [voice.name for voice in speakers.voices()]
HELD_OUT = np.load(ROOT / "tests/data/norm-statistics.npz")
EVERY = 37  # the fixture keeps one channel in so many


@pytest.fixture(scope="module")
def calibrate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("calibrate", ROOT / "tools/calibrate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["calibrate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def encoded(frames: int = 120, seed: int = 0) -> dict[str, Any]:
    """Encoder outputs of plausible size."""
    rng = np.random.default_rng(seed)
    f0 = np.where(rng.random(2 * frames) < 0.6, 200.0, 0.0)
    return {
        "features": rng.standard_normal((1, 512, frames)).astype(np.float32) * 0.3,
        "f0": f0[None, None].astype(np.float32),
        "energy": rng.standard_normal((1, 1, 2 * frames)).astype(np.float32),
        "durations": np.array([16, *[2] * ((frames - 40) // 2), 24], np.float32),
    }


def error(voice: str, row: int, mean: Any, var: Any) -> float:
    """Mean distance of each channel's (mean, ln σ) from the exact ones, in standard deviations."""
    exact_mean, exact_var = HELD_OUT["mean"][row], HELD_OUT["var"][row] + statistics.EPSILON
    shift = np.abs(mean[::EVERY] - exact_mean) / np.sqrt(exact_var)
    stretch = np.abs(np.log((var[::EVERY] + statistics.EPSILON) / exact_var)) / 2
    return float(shift.mean() + stretch.mean())


@pytest.mark.parametrize("row", range(len(HELD_OUT["voices"])))
def test_prediction_is_nearer_than_the_average(row: int) -> None:
    """你好 was silent: the voice's style row changes with the number of tokens, and the norms were frozen to what
    rows of long sentences gave. Sentences never used for calibration must come out nearer to their own statistics
    than the voice's averages are, short ones at half the distance."""
    name = str(HELD_OUT["voices"][row])
    arrays = speakers.voice(name).arrays
    described = HELD_OUT["described"][row]
    predicted = error(
        name, row, *statistics.predict(arrays, statistics.shared(), described, int(HELD_OUT["tokens"][row]))
    )
    average = error(name, row, arrays["mean"], arrays["var"])
    assert predicted < average
    if HELD_OUT["tokens"][row] < 40:
        assert predicted < 0.6 * average


@pytest.mark.parametrize("name", NAMES)
def test_average_sentence_gets_the_averages(name: str) -> None:
    arrays = dict(speakers.voice(name).arrays)
    arrays["path"] = np.zeros_like(arrays["path"])  # the middle of the voice's styles
    mean, var = statistics.predict(arrays, statistics.shared(), arrays["centre"], 80)
    np.testing.assert_allclose(mean, arrays["mean"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(var, arrays["var"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_longest_sentences_use_the_last_style_row(name: str) -> None:
    arrays = speakers.voice(name).arrays
    np.testing.assert_array_equal(statistics.along(arrays, 509), statistics.along(arrays, 5000))
    assert np.abs(statistics.along(arrays, 5) - statistics.along(arrays, 90)).mean() > 0.05


def test_text_features_are_measured_not_predicted() -> None:
    """The first norm normalises the text features themselves, which are known: a few of them, guessed three
    deviations off, doubled the distance from the untouched graph."""
    sentence = encoded()
    mean, var = statistics.statistics(speakers.voice(NAMES[0]).arrays, **sentence)
    np.testing.assert_allclose(mean[:512], sentence["features"][0].mean(axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(var[:512], sentence["features"][0].var(axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_no_sentence_leaves_the_bounds(name: str, size: float) -> None:
    """A question held its last mark seven deviations longer than any calibration sentence, and was noise."""
    arrays = speakers.voice(name).arrays
    odd = arrays["centre"] + np.random.default_rng(1).standard_normal(len(arrays["centre"])).astype(np.float32) * size
    mean, var = statistics.predict(arrays, statistics.shared(), odd.astype(np.float32), 5)
    spread = arrays["var"] + statistics.EPSILON
    assert np.isfinite(mean).all()
    assert np.isfinite(var).all()
    assert (np.abs(mean - arrays["mean"]) <= statistics.MOST_SHIFT * np.sqrt(spread) * 1.001 + 1e-6).all()
    assert (var + statistics.EPSILON >= statistics.LEAST_RATIO * spread * 0.999).all()
    assert (var + statistics.EPSILON <= statistics.MOST_RATIO * spread * 1.001).all()


def test_one_unusual_input_moves_no_further_than_its_bound() -> None:
    arrays = speakers.voice(NAMES[0]).arrays
    predictor = statistics.shared()
    there, beyond = arrays["centre"].copy(), arrays["centre"].copy()
    there[1] += statistics.MOST_UNUSUAL * predictor.spread[1] * 1.01
    beyond[1] += 100 * predictor.spread[1]
    np.testing.assert_array_equal(
        statistics.predict(arrays, predictor, there, 50)[0], statistics.predict(arrays, predictor, beyond, 50)[0]
    )


def test_a_component_moves_no_further_than_its_bound() -> None:
    """Inputs that are each usual can still add up to something that no calibration sentence was."""
    ones = np.ones(4, np.float32)
    voice = {
        "centre": 0 * ones,
        "mean": np.zeros(1),
        "var": np.ones(1),
        "path": np.zeros((3, 2)),
        "curve": np.zeros((2, 2, 1)),
    }
    predictor = statistics.Predictor(
        ones, np.eye(4, 1, dtype=np.float32) + 1, ones[:1], np.ones((1, 2, 1), np.int8), np.full((1, 2), 0.25)
    )
    mean, _ = statistics.predict(voice, predictor, ones, 1)
    assert mean == pytest.approx(statistics.MOST_SCORE * 0.25, rel=1e-4)


def test_same_sentence_same_statistics() -> None:
    arrays = speakers.voice(NAMES[0]).arrays
    first = statistics.statistics(arrays, **encoded())
    again = statistics.statistics(arrays, **encoded())
    other = statistics.statistics(arrays, **encoded(seed=1))
    np.testing.assert_array_equal(first, again)
    assert first[0].dtype == first[1].dtype == np.float32
    assert first[0].shape == first[1].shape == (CHANNELS,)
    assert np.abs(first[0] - other[0]).max() > 1e-4


def test_sentence_without_voice_or_speech_is_described() -> None:
    """Punctuation alone: no voiced frame, and pauses that take up all of it."""
    silent = encoded(frames=40)
    silent["f0"][:] = 0
    described = statistics.describe(*(x.reshape(-1, x.shape[-1]).squeeze() for x in silent.values()))
    assert np.isfinite(described).all()
    assert described[1] == 1.0
    assert described[2] == described[3] == 0.0


def test_speed_keeps_the_length_that_a_sentence_has_by_nature() -> None:
    """At double speed a sentence is as short as half of it, but its pauses weigh no more."""
    args = [x.squeeze() for x in encoded().values()]
    slow, fast = statistics.describe(*args, speed=1.0), statistics.describe(*args, speed=2.0)
    assert fast[0] == pytest.approx(slow[0] / 2)
    np.testing.assert_array_equal(slow[1:], fast[1:])


@pytest.mark.parametrize("name", NAMES)
def test_voice_data_is_whole_and_small(name: str) -> None:
    path = ROOT / "cosycli/data/voices" / f"{name}.npz"
    assert path.stat().st_size < 1_000_000
    arrays = speakers.voice(name).arrays
    assert arrays["style"].shape == (510, 256)
    assert arrays["mean"].shape == arrays["var"].shape == (CHANNELS,)
    assert arrays["path"].shape == (510, 2)
    assert arrays["curve"].shape == (2, 2, CHANNELS)
    assert (arrays["var"] >= 0).all()
    assert all(np.isfinite(x).all() for x in arrays.values())


def test_predictor_is_small() -> None:
    assert (ROOT / "cosycli/data/predictor.npz").stat().st_size < 1_000_000
    assert statistics.shared().basis.shape[1:] == (2, CHANNELS)


def test_predictor_reads_what_was_written(calibrate: ModuleType, tmp_path: Path) -> None:
    calibrate._save(tmp_path / "p.npz", **vars(statistics.shared()))
    again = statistics.load(io.BytesIO((tmp_path / "p.npz").read_bytes()))
    for name, value in vars(statistics.shared()).items():
        np.testing.assert_array_equal(value, getattr(again, name))


def invented(calibrate: ModuleType, voices: int = 2, sentences: int = 60, channels: int = 40) -> list[Any]:
    """Sentences whose statistics follow their description by a law that the fit must find."""
    rng = np.random.default_rng(3)
    law = rng.standard_normal((2, statistics.SCALARS, channels)) * 0.05
    made = []
    for voice in range(voices):
        base = rng.standard_normal(channels)
        for i in range(sentences):
            scalars = rng.standard_normal(statistics.SCALARS)
            frames = int(np.exp(rng.uniform(np.log(50), np.log(400))))
            described = np.concatenate([scalars, rng.standard_normal(512) * 0.01]).astype(np.float32)
            described[0] = 1 / frames
            away = np.concatenate([[100 * (1 / frames - 0.008)], scalars[1:]])
            mean, var = base + away @ law[0], np.maximum(1 + away @ law[1], 0.2)
            made.append(
                calibrate.Measurement(
                    f"v{voice}", str(i), 1.0, frames, 5 + i, described, mean.astype(np.float32), var.astype(np.float32)
                )
            )
    return made


def test_fit_finds_a_linear_law(calibrate: ModuleType) -> None:
    data = invented(calibrate)
    rows = np.random.default_rng(4).standard_normal((510, 256)).astype(np.float32)
    voices, predictor = calibrate.fit([m for m in data if int(m.key) < 50], {"v0": rows, "v1": rows})
    predicted, average = [], []
    for m in (m for m in data if int(m.key) >= 50):
        own = voices[m.voice]
        predicted.append(calibrate._error(m, *statistics.predict(own, predictor, m.described, m.tokens)))
        average.append(calibrate._error(m, own["mean"], own["var"]))
    assert np.mean(predicted) < 0.5 * np.mean(average)


def test_written_voice_keeps_its_style(calibrate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A voice's array is called `path`, as was the parameter of the function that saves it."""
    arrays = dict(speakers.voice(NAMES[0]).arrays)
    style = arrays.pop("style")
    (tmp_path / "voices").mkdir()
    monkeypatch.setattr(calibrate, "DATA", tmp_path)
    calibrate.write({NAMES[0]: arrays}, statistics.shared())
    with np.load(tmp_path / "voices" / f"{NAMES[0]}.npz") as written:
        np.testing.assert_array_equal(written["style"], style)
        np.testing.assert_array_equal(written["path"], arrays["path"])


def test_measuring_graph_normalises_and_reports(calibrate: ModuleType) -> None:
    """The tool turns y = x·scale + shift into a norm that measures: the same output as the norm written out."""
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper

    def value(name: str, shape: list[Any]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = [
        helper.make_node("Split", ["scale", "sizes"], ["scale/a"], axis=1),
        helper.make_node("Split", ["shift", "sizes"], ["shift/a"], axis=1),
        helper.make_node("Mul", ["x", "scale/a"], ["scaled"]),
        helper.make_node("Add", ["scaled", "shift/a"], ["y"]),
    ]
    inputs = [value("x", [1, 3, "n"]), value("scale", [1, 3, 1]), value("shift", [1, 3, 1])]
    sizes = numpy_helper.from_array(np.array([3], np.int64), "sizes")
    graph = helper.make_graph(nodes, "norm", inputs, [value("y", [1, 3, "n"])], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = ort.InferenceSession(calibrate.measuring(model).SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((1, 3, 50)).astype(np.float32) * 3 + 7
    gain, bias = np.array([[[2.0], [0.5], [1.0]]], np.float32), np.array([[[1.0], [0.0], [-1.0]]], np.float32)
    y, mean, var = session.run(None, {"x": x, "gain": gain, "bias": bias})
    np.testing.assert_allclose(mean[0, :, 0], x[0].mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(var[0, :, 0], x[0].var(axis=1), rtol=1e-4)
    expected = (x - mean) / np.sqrt(x.var(axis=2, keepdims=True) + statistics.EPSILON) * gain + bias
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_plan_gives_every_sentence_to_somebody(calibrate: ModuleType) -> None:
    jobs = list(calibrate.plan(4))
    assert len(jobs) == len(set(jobs))
    for name in calibrate.TEXTS.values():
        lines = set((ROOT / "tools" / name).read_text("utf-8").splitlines())
        assert lines <= {line for _, line, speed in jobs if speed == 1.0}
    assert {voice for voice, _, _ in jobs} == set(NAMES)
    assert {speed for _, _, speed in jobs} >= {0.5, 1.0, 2.0}
