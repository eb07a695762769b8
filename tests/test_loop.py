"""Steps on a state that stays where it is: the same numbers as by hand, and on a GPU what a CUDA graph needs.

No GPU here: the CPU computes for real, the CUDA side is a fake that records what is bound where.
"""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from fakes.graphs import model, node, noise, value
from fakes.onnxruntime_fake import Fake

from cosycli import loop, providers, runtime
from cosycli.errors import InferenceError
from cosycli.loop import Loop
from cosycli.quantize.methods import open_model
from cosycli.runtime import Session

STATE = {"present": "past"}


def cell():
    """present = tanh(x + past), y = 2 · present: a state of one size."""
    nodes = [node("Add", "x past", "sum"), node("Tanh", "sum", "present"), node("Mul", "present two", "y")]
    inputs = [value("x", [1, 4]), value("past", [1, 4])]
    return model(nodes, inputs, [value("y", [1, 4]), value("present", [1, 4])], {"two": np.float32(2)})


def cache():
    """present = [past, x] along axis 1, y = its sum: a state that grows."""
    nodes = [node("Concat", "past x", "present", axis=1), node("ReduceSum", "present axes", "y", keepdims=1)]
    inputs = [value("x", [1, 1]), value("past", [1, "n"])]
    return model(nodes, inputs, [value("y", [1, 1]), value("present", [1, "m"])], {"axes": np.array([1], np.int64)})


def by_hand(session, start, steps):
    """What a loop must equal: everything through arrays."""
    held, found = dict(start), []
    for inputs in steps:
        made = dict(zip(session.outputs, session.run({**inputs, **held}), strict=True))
        held = {"past": made["present"]}
        found.append(made["y"])
    return found, held["past"]


@pytest.mark.parametrize("in_place", [False, True])
def test_steps_equal_those_by_hand(in_place):
    """The same outputs and the same state, and a second sequence is not touched by the first."""
    session = open_model(cell())
    steps = [{"x": noise(1, 4, seed=number)} for number in range(6)]
    ran = Loop(session, STATE, in_place=in_place)
    for start in (np.zeros((1, 4), np.float32), noise(1, 4, seed=50)):
        wanted, last = by_hand(session, {"past": start}, steps)
        ran.start({"past": start})
        for inputs, y in zip(steps, wanted, strict=True):
            np.testing.assert_array_equal(ran.step(inputs)[0], y)
        np.testing.assert_array_equal(ran.state("past"), last)


def test_a_state_may_grow():
    """A cache that is one column longer after each step."""
    session = open_model(cache())
    steps = [{"x": noise(1, 1, seed=number)} for number in range(5)]
    start = {"past": np.zeros((1, 0), np.float32)}
    wanted, last = by_hand(session, start, steps)
    ran = Loop(session, STATE)
    ran.start(start)
    assert [float(ran.step(inputs)[0][0, 0]) for inputs in steps] == [float(y[0, 0]) for y in wanted]
    np.testing.assert_array_equal(ran.state("past"), last)


def test_two_loops_share_a_session():
    """Two sentences at once: each has its own state."""
    session = open_model(cell())
    one, other = Loop(session, STATE, in_place=True), Loop(session, STATE, in_place=True)
    steps = [{"x": noise(1, 4, seed=number)} for number in range(4)]
    zero = {"past": np.zeros((1, 4), np.float32)}
    wanted, _ = by_hand(session, zero, steps)
    one.start(zero)
    other.start({"past": noise(1, 4, seed=9)})
    for inputs, y in zip(steps, wanted, strict=True):
        other.step({"x": noise(1, 4, seed=77)})
        np.testing.assert_array_equal(one.step(inputs)[0], y)


def test_a_start_is_copied():
    """The state is written in place, and the caller's array was the state: the next sequence that began with these
    zeros began with the end of the one before.
    """
    start = np.zeros((1, 4), np.float32)
    ran = Loop(open_model(cell()), STATE, in_place=True)
    ran.start({"past": start})
    kept = ran.step({"x": noise(1, 4)})[0]
    copy = kept.copy()
    ran.step({"x": noise(1, 4, seed=8)})
    assert not start.any()
    np.testing.assert_array_equal(kept, copy)  # what a step returned is not written over by the next


def test_errors_are_ours():
    """No state yet, and inputs that do not fit."""
    ran = Loop(open_model(cell()), STATE)
    with pytest.raises(InferenceError, match="has no state: past"):
        ran.step({"x": noise(1, 4)})
    ran.start({"past": np.zeros((1, 4), np.float32)})
    with pytest.raises(InferenceError, match="inference failed"):
        ran.step({"x": noise(1, 5)})


# What a GPU would be told


class OrtValue:
    """An array with an address."""

    def __init__(self, array, device):
        self.array, self.device, self.updates = np.array(array), device, 0

    @classmethod
    def ortvalue_from_numpy(cls, array, device, number):
        return cls(array, device)

    def update_inplace(self, array):
        self.array, self.updates = np.array(array), self.updates + 1

    def shape(self):
        return list(self.array.shape)

    def numpy(self):
        return self.array


class Binding:
    """Records what is bound."""

    def __init__(self):
        self.inputs, self.outputs, self.cpu = {}, {}, []

    def bind_cpu_input(self, name, array):
        self.cpu.append(name)

    def bind_ortvalue_input(self, name, held):
        self.inputs[name] = held

    def bind_ortvalue_output(self, name, held):
        self.outputs[name] = held

    def bind_output(self, name, device):
        self.outputs[name] = OrtValue(np.zeros((1, 4)), device)

    def synchronize_inputs(self):
        pass

    synchronize_outputs = synchronize_inputs

    def get_outputs(self):
        return list(self.outputs.values())


class Cuda:
    """A session on a GPU, as far as a loop looks."""

    provider, outputs, path = "CUDAExecutionProvider", ["y", "present"], types.SimpleNamespace(name="lm.onnx")

    def __init__(self, cuda_graph):
        self.cuda_graph, self.bindings, self.ids = cuda_graph, [], []

    def locked(self):
        import contextlib

        return contextlib.nullcontext(self)

    def io_binding(self):
        self.bindings.append(Binding())
        return self.bindings[-1]

    def run_with_iobinding(self, binding, options):
        self.ids.append(options.entries.get("gpu_graph_id"))


@pytest.fixture
def cuda(monkeypatch):
    """The pieces of onnxruntime that a loop uses itself."""

    class RunOptions:
        def __init__(self):
            self.entries = {}

        def add_run_config_entry(self, key, text):
            self.entries[key] = text

    monkeypatch.setitem(sys.modules, "onnxruntime", types.SimpleNamespace(OrtValue=OrtValue, RunOptions=RunOptions))


ZERO, X = {"past": np.zeros((1, 4), np.float32)}, {"x": np.ones((1, 4), np.float32)}


def test_the_cache_stays_on_the_gpu(cuda):
    """Each step's cache went to the CPU and back: it is bound where it is, and only what was asked for returns."""
    session = Cuda(cuda_graph=False)
    ran = Loop(session, STATE)
    ran.start(ZERO)
    for _ in range(2):
        ran.step(X)
    first, second = session.bindings
    assert first.inputs["past"].device == first.outputs["present"].device == "cuda"
    assert second.inputs["past"] is first.outputs["present"]
    assert first.outputs["y"].device == "cpu"
    assert first.cpu == ["x"]
    assert session.ids == [None, None]


def test_a_captured_graph_finds_everything_at_the_same_address(cuda):
    """It replays the addresses of its capture: inputs are updated in place, outputs bound to what they were, the
    state is written over itself; the first step, which finds out where outputs lie, is not captured.
    """
    session = Cuda(cuda_graph=True)
    ran = Loop(session, STATE, in_place=True)
    loop.capture(ran, ZERO, X)
    assert session.ids == ["-1", "1", "1"]
    ran.step(X)
    _, second, third, last = session.bindings
    for name in ("x", "past"):
        assert second.inputs[name] is third.inputs[name] is last.inputs[name]
    for name in ("y", "present"):
        assert second.outputs[name] is third.outputs[name] is last.outputs[name]
    assert last.outputs["present"] is last.inputs["past"]
    assert last.inputs["past"].updates == 1  # back to the start after the capture, without moving
    with pytest.raises(InferenceError, match="changed its shape"):
        ran.step({"x": np.ones((1, 5), np.float32)})


def test_a_growing_state_is_never_captured(cuda):
    """Its address changes with every step."""
    session = Cuda(cuda_graph=True)
    ran = Loop(session, STATE)
    ran.start(ZERO)
    ran.step(X)
    ran.step(X)
    assert session.ids == ["-1", "-1"]


@pytest.mark.parametrize("refused", [False, True])
def test_a_session_that_cannot_be_captured_opens_without(tmp_path, monkeypatch, refused):
    """A node on the CPU or a loop in the graph made the session fail; it opens without the capture, and says so."""
    monkeypatch.setenv("COSY_HOME", str(tmp_path))
    monkeypatch.setattr(providers, "missing_libraries", lambda path: ())
    (tmp_path / "g.onnx").write_bytes(b"graph")

    def outcome(path, options):
        return "cannot capture" if refused and options.get("enable_cuda_graph") else None

    ort = Fake(("CUDAExecutionProvider",), {"CUDAExecutionProvider": outcome})
    monkeypatch.setitem(sys.modules, "onnxruntime", ort)
    session = Session(tmp_path / "g.onnx", provider="cuda", cuda_graph=True)
    assert session.cuda_graph is not refused
    assert [options.get("enable_cuda_graph") for _, _, options, _ in ort.opened] == (["1", None] if refused else ["1"])
    assert bool(session.notes) is refused
    assert Session(tmp_path / "g.onnx", cuda_graph=True).cuda_graph is False  # the CPU has none


def test_a_build_of_minutes_is_told(monkeypatch):
    """TensorRT says nothing while it builds: people thought it hung."""
    monkeypatch.setattr(runtime, "EVERY", 0.05)
    said = []
    with runtime.telling(said.append), runtime._building("TensorRT engine of g.onnx"):
        import time

        time.sleep(0.3)
    assert said[0].startswith("building the TensorRT engine of g.onnx")
    assert len(said) > 2
    assert "still building" in said[-1]
    count = len(said)
    runtime._tell("not heard")
    assert len(said) == count
