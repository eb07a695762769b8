"""How graphs are opened: what was tuned here is used, what was tuned elsewhere is not, and COSY_THREADS wins."""

from __future__ import annotations

import json
import os
import sys
import threading

import pytest
from fakes.onnxruntime_fake import Fake

from cosycli import runtime, tuning
from cosycli.runtime import Session, threads
from cosycli.tuning import DEFAULT, Tuning

CHOSEN = Tuning(threads=3, optimisation="basic", mem_reuse=True, spinning="never")


@pytest.fixture
def ort(tmp_path, monkeypatch):
    """A machine of four cores with the fake onnxruntime 9.9 and nothing tuned."""
    fake = Fake()
    fake.GraphOptimizationLevel = type("Levels", (), {name: name for name in tuning.LEVELS.values()})
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    monkeypatch.setenv("COSY_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("COSY_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    return fake


def opened_with(monkeypatch, provider="cpu"):
    """The session options of a graph that is opened now."""
    seen = []
    real = runtime._session

    def spy(path, options, wanted):
        seen.append(options)
        return real(path, options, wanted)

    monkeypatch.setattr(runtime, "_session", spy)
    Session(tuning.path(), provider=provider)
    return seen[0]


def test_nothing_tuned_is_the_defaults(ort, monkeypatch):
    options = opened_with(monkeypatch)
    assert options.intra_op_num_threads == 4
    assert options.entries == {"session.force_spinning_stop": "1"}
    assert (options.enable_mem_reuse, options.graph_optimization_level) == (False, "ORT_ENABLE_ALL")
    assert not tuning.path().exists()


def test_what_was_tuned_is_how_graphs_are_opened(ort, monkeypatch):
    tuning.keep(CHOSEN, 4, "config", {"gain": 0.1})
    assert threads() == 3
    options = opened_with(monkeypatch)
    assert options.intra_op_num_threads == 3
    assert options.entries == {"session.intra_op.allow_spinning": "0"}
    assert (options.enable_mem_reuse, options.graph_optimization_level) == (True, "ORT_ENABLE_BASIC")
    assert [path.name for path in tuning.path().parent.iterdir()] == ["tuning.json"]


def test_a_gpu_session_keeps_the_default_options(ort, monkeypatch):
    """They were measured on the CPU; TensorRT on a graph that was optimised less is another thing."""
    tuning.keep(CHOSEN, 4, "config", {})
    ort.got = {"CUDAExecutionProvider": None}
    options = opened_with(monkeypatch, "cuda")
    assert options.graph_optimization_level == "ORT_ENABLE_ALL"


def test_graph_options_hold_only_for_the_model_they_were_found_with(ort, monkeypatch):
    """Tuned on a busy machine, the embedded voice was fastest with one thread and few optimisations; a bundle of int8
    layers that onnxruntime must fuse then ran three times slower than before, in every process.
    """
    tuning.keep(CHOSEN, 4, "another", {})
    options = opened_with(monkeypatch)
    assert options.intra_op_num_threads == 3
    assert options.entries == {"session.intra_op.allow_spinning": "0"}
    assert (options.enable_mem_reuse, options.graph_optimization_level) == (False, "ORT_ENABLE_ALL")


def test_cosy_threads_wins_over_what_was_tuned(ort, monkeypatch):
    tuning.keep(CHOSEN, 4, "config", {})
    monkeypatch.setenv("COSY_THREADS", "2")
    assert threads() == 2
    assert opened_with(monkeypatch).intra_op_num_threads == 2


def test_another_number_of_cores_ignores_it(ort, monkeypatch):
    """A home folder is shared by machines, and a container gets fewer cores: three threads for two cores thrash."""
    tuning.keep(CHOSEN, 4, "config", {})
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert threads() == 2
    assert tuning.current(2) == DEFAULT


def test_another_version_of_onnxruntime_ignores_it(ort):
    tuning.keep(CHOSEN, 4, "config", {})
    assert tuning.current(4) == CHOSEN
    ort.__version__ = "10.0"
    assert tuning.current(4) == DEFAULT


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"\xff", b"{}",
        {"threads": 0}, {"threads": "2"}, {"threads": True}, {"optimisation": "most"}, {"spinning": 1},
        {"mem_reuse": "no"},
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_counts_as_none(ort, content):
    """Speaking must not fail over a file that only makes it faster."""
    path = tuning.keep(CHOSEN, 4, "config", {})
    if isinstance(content, dict):
        content = json.dumps(json.loads(path.read_bytes()) | content).encode()
    path.write_bytes(content)
    assert tuning.current(4) == DEFAULT
    assert threads() == 4


def test_forget(ort):
    assert tuning.forget() is False
    tuning.keep(CHOSEN, 4, "config", {})
    assert tuning.forget() is True
    assert threads() == 4


def test_a_trial_holds_in_every_thread_and_ends(ort):
    """Graphs are opened by a pool of threads: a trial that only its own thread saw would measure the defaults."""
    found = []
    tuning.keep(CHOSEN, 4, "config", {})
    with tuning.trying(Tuning(threads=7)):
        thread = threading.Thread(target=lambda: found.append(threads()))
        thread.start()
        thread.join()
        with tuning.trying(None):
            assert threads() == 7
    assert found == [7]
    assert threads() == 3


def test_bad_values_are_not_kept():
    for bad in ({"threads": 0}, {"threads": 1.5}, {"optimisation": "none"}, {"spinning": "often"}, {"mem_reuse": 1}):
        with pytest.raises(ValueError, match=r"threads|option"):
            Tuning(**bad)
    assert "buffers shared" in str(CHOSEN)
