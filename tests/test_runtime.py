"""Sessions over tiny real graphs made here: results, errors in our words, threads, one lock each, a quiet stderr."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cosycli import runtime
from cosycli.errors import InferenceError, ModelError
from cosycli.runtime import Session, available_cores, check_finite, threads


def save(path, nodes, inputs, outputs, constants=None):
    """Write a valid graph of these nodes; inputs and outputs are float32, by name and shape."""
    values = {
        key: [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in given.items()]
        for key, given in (("in", inputs), ("out", outputs))
    }
    initializers = [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "tiny", values["in"], values["out"], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path


@pytest.fixture
def arithmetic(tmp_path):
    """x [n], y [n] → sum, product."""
    nodes = [helper.make_node("Add", ["x", "y"], ["sum"]), helper.make_node("Mul", ["x", "y"], ["product"])]
    vector = {"x": ["n"], "y": ["n"]}
    return save(tmp_path / "arithmetic.onnx", nodes, vector, {"sum": ["n"], "product": ["n"]})


@pytest.fixture
def convolution(tmp_path):
    """x [1, 8, n] → y: enough work that threads overlap."""
    weights = np.random.default_rng(1).standard_normal((8, 8, 31)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[15, 15])
    return save(tmp_path / "conv.onnx", [node], {"x": [1, 8, "n"]}, {"y": [1, 8, "n"]}, {"w": weights})


@pytest.fixture
def logarithm(tmp_path):
    """x → ln x: NaN below zero, minus infinity at zero, as a broken vocoder gives."""
    return save(tmp_path / "log.onnx", [helper.make_node("Log", ["x"], ["y"])], {"x": ["n"]}, {"y": ["n"]})


def array(*values):
    return np.array(values, np.float32)


def test_a_graph_runs_and_gives_its_outputs_in_order(arithmetic):
    """All outputs as the graph names them, or those asked for, in the order asked for."""
    session = Session(arithmetic)
    inputs = {"x": array(1, 2), "y": array(3, 4)}
    assert [out.tolist() for out in session.run(inputs)] == [[4, 6], [3, 8]]
    assert [out.tolist() for out in session.run(inputs, ["product", "sum"])] == [[3, 8], [4, 6]]
    assert session.provider == "CPUExecutionProvider"
    assert session.load_seconds > 0
    assert session.path == arithmetic


def test_the_same_input_gives_the_same_bits(convolution):
    """Twice in a session, in another session, and with another number of threads."""
    x = np.random.default_rng(2).standard_normal((1, 8, 5000)).astype(np.float32)
    results = [Session(convolution, intra_threads=count).run({"x": x})[0] for count in (1, 1, 2, 3)]
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize("content", [b"", b"not a graph", b"\x08\x07garbage" * 300, "half"])
def test_a_damaged_graph_is_a_model_error(arithmetic, content):
    """A truncated or overwritten file ends with exit 3, the file's name and the command that mends it."""
    data = arithmetic.read_bytes()
    arithmetic.write_bytes(data[: len(data) // 2] if content == "half" else content)
    with pytest.raises(ModelError) as caught:
        Session(arithmetic)
    assert caught.value.exit_code == 3
    assert "arithmetic.onnx" in caught.value.message
    assert "cosy warmup --rebuild" in caught.value.hint
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 600


def test_a_missing_graph_is_a_model_error(tmp_path):
    """Nothing there at all."""
    with pytest.raises(ModelError, match=r"gone\.onnx"):
        Session(tmp_path / "gone.onnx")


@pytest.mark.parametrize(
    "inputs",
    [
        {"x": array(1, 2, 3), "y": array(1, 2)},
        {"x": array(1)},
        {"x": array(1), "y": np.array([1.0])},
        {"x": array(1), "y": array(1), "z": array(1)},
    ],
    ids=["shapes", "missing", "type", "unknown"],
)
def test_a_failing_run_is_an_inference_error(arithmetic, inputs):
    """Exit 4 and one line, whatever onnxruntime raised; the session goes on working."""
    session = Session(arithmetic)
    with pytest.raises(InferenceError) as caught:
        session.run(inputs)
    assert caught.value.exit_code == 4
    assert caught.value.message.startswith("inference failed in arithmetic.onnx: ")
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert session.run({"x": array(1), "y": array(2)})[0].tolist() == [3]


def test_a_long_foreign_error_becomes_one_line(arithmetic):
    """onnxruntime's messages run over lines with C++ signatures and stack traces."""
    session = Session(arithmetic)

    class Broken:
        def run(self, *_):
            raise RuntimeError("\nout of memory " + "x" * 5000 + "\nStacktrace:\n void f()")

    session._session = Broken()
    with pytest.raises(InferenceError) as caught:
        session.run({})
    assert caught.value.message.startswith("inference failed in arithmetic.onnx: out of memory")
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("value", [-1.0, 0.0])
def test_numbers_that_are_no_sound_are_an_error(logarithm, value):
    """OR-10. Half precision overflowed, the vocoder gave NaN, and a silent file was written with exit 0."""
    (samples,) = Session(logarithm).run({"x": array(1, value, 2)})
    assert not np.isfinite(samples).all()
    with pytest.raises(InferenceError, match="the vocoder") as caught:
        check_finite(samples, "the vocoder")
    assert caught.value.exit_code == 4
    check_finite(samples[:1], "the vocoder")
    check_finite(samples[:0], "the vocoder")


def test_threads_follow_the_affinity_mask(monkeypatch):
    """OR-18. In a container with 2 of 64 cores, 64 threads fought over two; the mask counts, not the host."""
    monkeypatch.delenv("COSY_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert available_cores() == 2
    assert threads() == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    assert threads() == runtime.MAX_THREADS


def test_without_a_mask_the_processors_are_counted(monkeypatch):
    """macOS and Windows have no mask; a system that does not know its count has one."""
    monkeypatch.delenv("COSY_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert threads() == 4
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert threads() == 1


@pytest.mark.parametrize(
    ("asked", "given"), [("1", 1), ("12", 12), ("0", 2), ("-3", 2), ("many", 2), ("", 2), ("²", 2)]
)
def test_cosy_threads_overrides_if_it_is_a_number(monkeypatch, asked, given):
    """COSY_THREADS counts where it is a positive number; else the mask does."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setenv("COSY_THREADS", asked)
    assert threads() == given


CHILD = """
    import os, sys
    from pathlib import Path
    import numpy as np
    if sys.argv[2] != "all":
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    from cosycli.runtime import Session
    session = Session(Path(sys.argv[1]))
    before = len(os.listdir("/proc/self/task"))
    x = np.ones((1, 8, 100_000), np.float32)
    session.run({"x": x})
    print(len(os.listdir("/proc/self/task")))
"""


def in_child(path, mask, **environment):
    """Run the child; its lines and stderr."""
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(path), mask]
    env = {k: v for k, v in os.environ.items() if k != "COSY_THREADS"} | environment
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert result.returncode == 0, result.stderr
    return result.stdout.split(), result.stderr


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
def test_a_process_confined_to_one_core_computes_with_one_thread(convolution):
    """OR-18. onnxruntime started a thread a host core and printed `pthread_setaffinity_np failed` for each.

    The pool of a session has one thread less than it computes with, so that one core means no further thread
    (numpy's own pool is kept to one).
    """
    one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    (alone,), _ = in_child(convolution, "one", **one)
    (four,), _ = in_child(convolution, "one", COSY_THREADS="4", **one)
    assert int(four) - int(alone) == 3


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
@pytest.mark.parametrize("mask", ["all", "one"])
def test_stderr_stays_ours(convolution, mask):
    """OR-18. Opening and running in a container: no `pthread_setaffinity_np failed`, no search for a GPU, nothing."""
    assert in_child(convolution, mask)[1] == ""


def test_a_failure_is_told_once(arithmetic, capfd):
    """onnxruntime logged `Non-zero status code returned while running Add node` before our own error line."""
    session = Session(arithmetic)
    with pytest.raises(InferenceError, match=r"while running (Add|Mul) node"):
        session.run({"x": array(1, 2, 3), "y": array(1, 2)})
    arithmetic.write_bytes(arithmetic.read_bytes()[:50])
    with pytest.raises(ModelError):
        Session(arithmetic)
    assert capfd.readouterr().err == ""


def test_an_optimised_graph_computes_the_same(convolution, capfd):
    """The file is replaced as a whole, nothing lies beside it, and nothing is printed."""
    x = np.random.default_rng(4).standard_normal((1, 8, 500)).astype(np.float32)
    (before,) = Session(convolution).run({"x": x})
    runtime.optimise(convolution)
    (after,) = Session(convolution).run({"x": x})
    assert np.abs(before - after).max() <= 1e-4
    assert [p.name for p in convolution.parent.iterdir()] == ["conv.onnx"]
    assert capfd.readouterr().err == ""
    convolution.write_bytes(b"not a graph")
    with pytest.raises(ModelError, match=r"conv\.onnx"):
        runtime.optimise(convolution)


class Watched:
    """Stands in for onnxruntime's session and counts who is inside `run`."""

    def __init__(self, session):
        self.session, self.inside, self.most = session, 0, 0

    def run(self, *arguments):
        self.inside += 1
        self.most = max(self.most, self.inside)
        results = self.session.run(*arguments)
        self.inside -= 1
        return results


def test_four_threads_that_share_a_session_equal_one(convolution):
    """OR-19. Threads that share a session never meet inside `run`, and each gets its own result."""
    session = Session(convolution)
    session._session = watched = Watched(session._session)
    noise = np.random.default_rng(3)
    jobs = [noise.standard_normal((1, 8, 2000)).astype(np.float32) for _ in range(40)]
    serial = [session.run({"x": x})[0] for x in jobs]
    start = threading.Barrier(4)

    def work(share):
        start.wait(60)
        return [session.run({"x": x})[0] for x in share]

    with ThreadPoolExecutor(4) as pool:
        parallel = list(pool.map(work, [jobs[i::4] for i in range(4)]))
    for i in range(4):
        assert all(np.array_equal(a, b) for a, b in zip(parallel[i], serial[i::4], strict=True))
    assert watched.most == 1


def test_the_lock_is_free_outside_run_and_after_a_failure(arithmetic):
    """A lock kept after an error would hang the next sentence; one held between runs would serialise everything."""
    session = Session(arithmetic)
    session.run({"x": array(1), "y": array(1)})
    assert not session._lock.locked()
    with pytest.raises(InferenceError):
        session.run({"x": array(1)})
    assert not session._lock.locked()


def test_two_sessions_do_not_wait_for_each_other(arithmetic):
    """The lock belongs to a session: while one runs, another can."""
    first, second = Session(arithmetic), Session(arithmetic)
    with first._lock:
        assert second.run({"x": array(1), "y": array(1)})[0].tolist() == [2]


def test_ctrl_c_inside_a_run_is_not_made_into_an_inference_error(arithmetic):
    """KeyboardInterrupt must end the process with 130, not with 4."""
    session = Session(arithmetic)

    class Interrupted:
        def run(self, *_):
            raise KeyboardInterrupt

    session._session = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        session.run({})
    assert not session._lock.locked()


@pytest.mark.parametrize(
    ("machine", "flags", "expected"),
    [
        ("x86_64", "flags : avx2 avx512_vnni", True),
        ("x86_64", "flags : avx2 avx_vnni", True),
        ("x86_64", "flags : avx2", False),
        ("AMD64", None, False),
        ("arm64", None, True),
        ("aarch64", "", True),
    ],
)
def test_int8_only_where_it_is_exact(monkeypatch, machine, flags, expected):
    """On x86 without VNNI 8-bit products saturate, which was heard as noise: float32 there, and the reason told."""
    import platform

    def read(self, *_, **__):
        if flags is None:
            raise FileNotFoundError(str(self))
        return flags

    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(Path, "read_text", read)
    assert runtime.has_int8_kernels() is expected
    assert ("float32" in runtime.why()) is not expected
