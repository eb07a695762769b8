"""Bundle in, bundle out: the result sounds, has what was asked for, and appears whole or not at all."""

from __future__ import annotations

import errno

import numpy as np
import onnx
import pytest
from fakes.graphs import noise

from cosycli.bundles import catalog, store
from cosycli.engine import Engine
from cosycli.errors import InferenceError, ModelError, UsageError
from cosycli.quantize import graphs, int8, make, sensitivity
from cosycli.quantize.make import Terms
from cosycli.quantize.methods import Wish
from cosycli.quantize.reference import Reference

TEXTS = ["你好。", "今天下雨。", "明天晴天。", "谢谢。", "再见。"]


class Steps:
    """Keeps what it is told."""

    def __init__(self):
        self.said = []

    def step(self, what, parts=0):
        self.said.append(what)
        return lambda: None


ALL = Wish("int8", convolutions=True)


def made(wish=ALL, terms=Terms(12.0), target="small", **more):
    """Make a bundle of the tiny one."""
    return make.make("tiny", target, wish, terms, TEXTS, Steps(), **more)


def digests(folder):
    """Each file's digest."""
    return {path.name: store.file_digest(path) for path in folder.iterdir()}


def nothing_left(home):
    """No bundle of the new name, no scratch folder."""
    return sorted(path.name for path in home.parent.iterdir() if path.suffix != ".lock") == ["tiny"]


@pytest.mark.parametrize("wish", [Wish("fp16"), ALL, Wish("int8", "entropy"), Wish("int4")], ids=str)
def test_a_bundle_is_made_and_speaks(tiny, wish):
    """Smaller, near, usable by name; the source is as it was, and what is no graph comes along."""
    before = digests(tiny)
    terms = Terms({"fp16": 45.0, "int8": 15.0, "int4": 10.0}[wish.to])
    result = made(wish, terms, command="cosy quantize tiny")
    folder = store.bundle_path("small")
    assert digests(tiny) == before
    assert result.sizes["after"] < result.sizes["before"]
    assert terms.min_snr <= result.fidelity.snr < 100
    assert 0 < result.fidelity.lsd < 3
    assert (folder / "notes.txt").read_text() == "kept"
    manifest = catalog.manifest("small")
    assert manifest.precision == wish.precision
    assert manifest.made["source"] == "tiny"
    assert manifest.made["command"] == "cosy quantize tiny"
    assert store.intact(folder, manifest, thorough=True)
    quiet = np.concatenate([chunk.samples for chunk in Engine("small").stream("你好。")])
    loud = np.concatenate([chunk.samples for chunk in Engine("tiny").stream("你好。")])
    assert 0.7 < np.std(quiet) / np.std(loud) < 1.4
    assert not np.array_equal(quiet, loud)


def test_a_graph_without_anything_to_quantise_is_copied(tiny):
    """int4 is for products: the convolutions' graph is the same file."""
    result = made(Wish("int4"), Terms(0.0))
    assert result.quantised == 1
    assert digests(tiny)["synth.onnx"] == digests(store.bundle_path("small"))["synth.onnx"]


def test_layers_are_put_back_until_the_sound_is_near_enough(tiny):
    """The first layer's range is taken by a click: it goes back to float first, and is said to."""
    plain = made(Wish("int8", "minmax"), Terms(0.0))
    near = made(Wish("int8", "minmax"), Terms(plain.fidelity.snr + 3), target="near")
    assert near.put_back[0] == "synth:first"
    assert 0 < near.quantised < plain.quantised
    assert near.fidelity.snr >= plain.fidelity.snr + 3
    assert [entry.snr for entry in near.ranking] == sorted(entry.snr for entry in near.ranking)
    assert catalog.manifest("near").made["put_back"] == near.put_back
    names = {t.name for t in onnx.load(store.bundle_path("near") / "synth.onnx").graph.initializer}
    assert "w1" in names


def test_a_ranking_tells_divergence_and_sound_of_each_layer(tiny):
    """Every layer once; one that hurts the sound more also has an output further from its own distribution."""
    result = made(Wish("int8", "minmax"), Terms(0.0, ranking=True))
    assert {(entry.graph, entry.layer) for entry in result.ranking} == {
        ("synth", "first"),
        ("synth", "second"),
        ("shape", "gain"),
    }
    assert result.put_back == []
    by_layer = {entry.layer: entry for entry in result.ranking}
    assert by_layer["first"].snr < by_layer["second"].snr
    assert by_layer["first"].kl > by_layer["second"].kl > 0
    assert by_layer["first"].lsd > 0


def test_just_so_many_layers_are_kept(tiny):
    """--keep 2: the two worst."""
    result = made(Wish("int8", "minmax"), Terms(0.0, keep=2))
    assert len(result.put_back) == 2
    assert result.quantised == 1


def test_layers_are_put_back_until_it_is_fast_enough(tiny, monkeypatch):
    """--max-slowdown: integer layers that are slower than floats are worth nothing."""
    back = []
    real = sensitivity.sessions
    monkeypatch.setattr(sensitivity, "sessions", lambda ready, out: back.append(len(out)) or real(ready, out))
    monkeypatch.setattr(Reference, "slowdown", lambda self, variants: 2.0 - 0.6 * back[-1])
    result = made(Wish("int8", "minmax"), Terms(0.0, max_slowdown=1.5))
    assert len(result.put_back) == 1
    assert result.slowdown is not None


@pytest.mark.parametrize("terms", [Terms(200.0), Terms(0.0, keep=9), Terms(200.0, keep=1)], ids=str)
def test_terms_that_nothing_meets_leave_nothing(tiny, terms):
    """An error says what to change, and no bundle appears."""
    with pytest.raises(UsageError, match="no layer can be quantised"):
        made(Wish("int8", "minmax"), terms)
    assert nothing_left(tiny)


def test_nothing_to_quantise_is_an_error(tiny):
    """A bundle that is int8 already has no float layers."""
    made()
    with pytest.raises(UsageError, match="nothing in small"):
        make.make("small", "smaller", ALL, Terms(0.0), TEXTS, Steps())


def broken(monkeypatch, weight):
    """Let every quantised layer have these weights."""
    real = int8.quantize_weight

    def replaced(values, axis):
        rounded, scale = real(values, axis)
        return rounded, (scale * weight).astype(np.float32)

    monkeypatch.setattr(int8, "quantize_weight", replaced)


@pytest.mark.parametrize(
    ("weight", "error", "words"), [(0.0, InferenceError, "silent"), (np.nan, UsageError, "no layer can be quantised")]
)
def test_a_result_that_does_not_sound_is_never_seen(tiny, monkeypatch, weight, error, words):
    """OR-10. NaN and silence came out with exit code 0, and the broken model stayed."""
    broken(monkeypatch, weight)
    with pytest.raises(error, match=words):
        made(terms=Terms(-100.0))
    assert nothing_left(tiny)


def test_a_layer_that_overflows_goes_back(tiny, monkeypatch):
    """OR-10. One layer that makes NaN is put back like one that makes noise; the others stay quantised."""
    real = int8.quantize_weight

    def replaced(values, axis):
        rounded, scale = real(values, axis)
        return rounded, scale * np.float32(np.nan if values.shape == (128, 256) else 1)

    monkeypatch.setattr(int8, "quantize_weight", replaced)
    result = made(Wish("int8", "minmax"), Terms(5.0))
    assert "shape:gain" in result.put_back
    assert result.quantised


def test_a_result_that_does_not_load_is_never_seen(tiny, monkeypatch):
    """OR-11. The file was written and only the next start found that onnxruntime refuses it."""
    real = graphs.save

    def save(model, path):
        real(model, path)
        if path.parent.parent == tiny.parent:
            path.write_bytes(b"no graph")

    monkeypatch.setattr(graphs, "save", save)
    with pytest.raises(ModelError):
        made()
    assert nothing_left(tiny)


@pytest.mark.parametrize("place", ["graph", "copy"])
def test_a_full_disk_leaves_nothing(tiny, monkeypatch, place):
    """One line, and neither a half bundle nor a scratch folder."""

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    if place == "graph":
        real = graphs.save
        monkeypatch.setattr(graphs, "save", lambda m, path: full() if tiny.parent in path.parents else real(m, path))
    else:
        monkeypatch.setattr(make.shutil, "copyfile", full)
    with pytest.raises(ModelError, match="No space left"):
        made()
    assert nothing_left(tiny)


def test_a_name_that_is_taken_stays_unless_forced(tiny):
    """With force the old bundle is replaced, but only by one that is good."""
    made()
    before = digests(store.bundle_path("small"))
    with pytest.raises(UsageError, match="already"):
        made(Wish("fp16"), Terms(30.0))
    with pytest.raises(UsageError):
        made(Wish("fp16"), Terms(300.0), force=True)
    assert digests(store.bundle_path("small")) == before
    made(Wish("fp16"), Terms(30.0), force=True)
    assert catalog.manifest("small").precision == "fp16"


def test_weights_beside_a_graph_come_along(tiny, monkeypatch):
    """A model over 2 GB is two files; of a quantised one the old weights stay behind."""
    monkeypatch.setattr(graphs, "LIMIT", 1000)
    for name in ("synth", "shape"):
        model = graphs.load(tiny / f"{name}.onnx")
        graphs.save(model, tiny / f"{name}.onnx")
    (tiny / store.MANIFEST).unlink()
    store.write_manifest(tiny, store.Manifest("tiny", "tinyvoice", "1", "float32", "CC0", 24000))
    made(Wish("int4"), Terms(0.0))
    folder = store.bundle_path("small")
    assert store.file_digest(folder / "synth.weights") == store.file_digest(tiny / "synth.weights")
    assert (folder / "shape.weights").stat().st_size < (tiny / "shape.weights").stat().st_size / 4
    assert len(list(Engine("small").stream("你好。"))) > 0


def test_timing_that_changes_is_said(tiny):
    """Waves of different length cannot be compared: the graphs' own outputs are."""
    reference = Reference(Engine("tiny", provider="cpu"), TEXTS[:1], TEXTS[1:2], lambda: None)
    longer = [np.concatenate([audio, noise(10)]) for audio in reference.audio]
    changed = reference.compare(longer, {"shape": reference.sessions["shape"]})
    assert changed.timing_changed
    assert changed.snr == float("inf")


def test_calibration_and_checks_are_different_texts():
    """The result is judged by what it was not fitted to, and by the short ones, spoken for each layer."""
    texts = [f"{'字' * n}。" for n in range(1, 51)]
    calibration, checks = make.chosen_texts(texts)
    assert len(calibration) == make.CALIBRATION
    assert len(checks) == make.CHECKS
    assert not set(calibration) & set(checks)
    assert checks[0] == min(checks, key=len)
    assert make.chosen_texts(["一。"]) == (["一。"], ["一。"])
