"""Execution providers: what `auto` tries, what a named one promises, what is said when it cannot be kept.

No test here needs a GPU: the runtime is a fake that gives, refuses, or silently swaps a provider.
"""

from __future__ import annotations

import sys

import pytest
from fakes.onnxruntime_fake import Fake

from cosycli import cli, engine, providers, runtime
from cosycli.errors import Exit, UsageError
from cosycli.providers import Environment, ProviderError

TRT, CUDA, CPU = "TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"
LISTED = (TRT, CUDA, CPU)


@pytest.fixture
def graph(tmp_path, monkeypatch):
    monkeypatch.setenv("COSY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(providers, "missing_libraries", lambda path: ())
    (tmp_path / "g.onnx").write_bytes(b"a graph")
    return tmp_path / "g.onnx"


def fake(monkeypatch, nvidia=True, **got):
    """An onnxruntime that lists everything; `got` says by our names how each provider behaves."""
    ort = Fake(LISTED, {providers.NAMES[name]: outcome for name, outcome in got.items()})
    monkeypatch.setitem(sys.modules, "onnxruntime", ort)
    monkeypatch.setattr(providers, "has_nvidia", lambda: nvidia)
    monkeypatch.setattr(runtime, "_gpu", lambda: "8.9")
    return ort


@pytest.mark.parametrize("outcome", ["silent", "CUDA failure 35: driver version is insufficient for CUDA runtime"])
@pytest.mark.parametrize("cuda_path", [None, "/x"])
def test_a_named_provider_that_is_not_got_is_an_error(graph, monkeypatch, outcome, cuda_path):
    """OR-01, OR-21. CUDA was asked for, the CPU computed, and only a log line said so; with CUDA_PATH set the same
    failure was raised instead. Both are one error now.
    """
    monkeypatch.delenv("CUDA_PATH", raising=False)
    if cuda_path:
        monkeypatch.setenv("CUDA_PATH", cuda_path)
    fake(monkeypatch, cuda=outcome)
    with pytest.raises(ProviderError) as caught:
        runtime.Session(graph, provider="cuda")
    assert caught.value.exit_code == Exit.INFERENCE
    assert "cuda cannot run g.onnx" in caught.value.message
    assert caught.value.hint


def test_a_session_tells_the_provider_it_got(graph, monkeypatch):
    """OR-01: the list of available providers lies; the session does not."""
    fake(monkeypatch)
    assert runtime.Session(graph, provider="cuda").provider == CUDA
    assert runtime.Session(graph).provider == CPU


def test_the_runtimes_own_fallback_is_off(graph, monkeypatch):
    """OR-05. Without TensorRT's libraries onnxruntime tried again with the CPU alone and skipped CUDA."""
    ort = fake(monkeypatch, tensorrt="libnvinfer.so.10: cannot open shared object file")
    with pytest.raises(ProviderError, match="tensorrt"):
        runtime.Session(graph, provider="tensorrt")
    assert [entry for entry in ort.log if entry[0] == "session"] == [("session", TRT)]
    assert ort.opened[0][3] == {"enable_fallback": 0}


def test_libraries_are_loaded_before_the_first_cuda_session_and_in_silence(graph, monkeypatch, capsys):
    """OR-03. cuDNN from pip was present and not found; and what the loader prints must not end up in piped audio."""
    ort = fake(monkeypatch)
    runtime.Session(graph, provider="cuda")
    assert ort.log[:2] == [("preload", ""), ("session", CUDA)]
    assert capsys.readouterr().out == ""


def test_cuda_searches_by_heuristic_and_grows_as_asked(graph, monkeypatch):
    """OR-15, OR-16. Exhaustive search took 6 to 30 s for a short text; memory only grew."""
    ort = fake(monkeypatch)
    monkeypatch.setenv("COSY_GPU_MEMORY", "2048")
    runtime.Session(graph, provider="cuda")
    options = ort.opened[0][2]
    assert options["cudnn_conv_algo_search"] == "HEURISTIC"
    assert options["arena_extend_strategy"] == "kSameAsRequested"
    assert options["gpu_mem_limit"] == str(2048 * 1024 * 1024)


def test_tensorrt_keeps_engines_for_explicit_shapes(graph, monkeypatch):
    """OR-07. Engines were built again at each start; a longer text built one more."""
    ort = fake(monkeypatch)
    shapes = {"x": ((1, 2), (1, 40), (1, 90)), "a": ((1,), (2,), (3,))}
    runtime.Session(graph, provider="tensorrt", shapes=shapes)
    runtime.Session(graph, provider="tensorrt", shapes=shapes)
    first, second = (options for _, _, options, _ in ort.opened)
    assert first == second
    assert first["trt_engine_cache_enable"] == first["trt_timing_cache_enable"] == first["trt_fp16_enable"] == "1"
    assert first["trt_profile_min_shapes"] == "a:1,x:1x2"
    assert first["trt_profile_max_shapes"] == "a:3,x:1x90"
    assert first["trt_engine_cache_path"].startswith(str(runtime.engines_folder()))


def test_an_engine_is_kept_for_one_environment():
    """OR-09. A plan built on another GPU ended the process. Each part of the key makes another folder."""
    base = ("8.9", "10.1", "1.31", "abc")
    keys = {Environment(*base).key}
    for place in range(4):
        keys.add(Environment(*(part + "x" if at == place else part for at, part in enumerate(base))).key)
    assert len(keys) == 5
    assert Environment("8.9", "1", "0.1", "a").key != Environment("8.91", "", "0.1", "a").key


def test_a_damaged_engine_is_built_anew_with_one_note(graph, monkeypatch):
    """OR-09. Junk in the cache: rebuilt, said once."""
    ort = fake(monkeypatch)
    runtime.Session(graph, provider="tensorrt")
    folder = runtime.engines_folder()
    (inside,) = folder.iterdir()
    (inside / "junk.engine").write_bytes(b"junk")
    there = lambda path, options: "deserialize error" if list(inside.glob("junk*")) else None  # noqa: E731
    ort.got[TRT] = there
    session = runtime.Session(graph, provider="tensorrt")
    assert session.provider == TRT
    assert len(session.notes) == 1
    assert "built anew" in session.notes[0]
    assert not (inside / "junk.engine").exists()


def test_a_first_engine_that_fails_leaves_nothing(graph, monkeypatch):
    fake(monkeypatch, tensorrt="no kernel")
    with pytest.raises(ProviderError):
        runtime.Session(graph, provider="tensorrt")
    assert list(runtime.engines_folder().iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "nvidia", "engines", "expected"),
    [
        ("auto", True, True, ("tensorrt", "cuda", "cpu")),
        ("auto", True, False, ("cuda", "cpu")),  # building an engine takes minutes: warm-up's to do
        ("auto", False, True, ("cpu",)),
        ("cuda", True, False, ("cuda",)),
        ("cuda", False, False, ("cuda",)),
        ("cpu", True, True, ("cpu",)),
    ],
)
def test_the_order_in_which_providers_are_tried(asked, nvidia, engines, expected):
    assert providers.candidates(asked, LISTED, nvidia=nvidia, engines=engines)[0] == expected


def test_a_machine_without_a_gpu_is_not_asked_for_one(monkeypatch):
    """The GPU wheel lists CUDA everywhere; trying it on every start cost a second and a warning."""
    ort = fake(monkeypatch, nvidia=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert runtime.candidates("auto")[0] == ("cpu",)
    assert ort.log == []


class Opened:
    """A family whose backend opens one session on the provider it is given."""

    def __init__(self, path):
        self.path = path

    def load(self, folder, provider="cpu", precision=None):
        opened = type("Backend", (), {})()
        opened.rate, opened.precision = 24000, "test"
        opened.sessions = {"g": runtime.Session(self.path, provider=provider)}
        return opened


@pytest.fixture
def make(graph, monkeypatch):
    from cosycli.bundles import embedded

    monkeypatch.setattr(embedded, "ensure", lambda progress, rebuild=False: (graph.parent, False))
    monkeypatch.setattr(engine.Engine, "family", Opened(graph))
    return lambda name: engine.Engine(provider=name)


def test_auto_takes_the_next_and_says_so_once(make, monkeypatch):
    """OR-01, OR-05: one line, with the command that mends it."""
    fake(monkeypatch, cuda="silent")
    speaks = make("auto")
    assert speaks.open().sessions["g"].provider == CPU
    assert len(speaks.notes) == 1
    assert "cuda cannot run" in speaks.notes[0]
    assert "pip install" in speaks.notes[0]
    assert speaks.why.startswith("cpu")


def test_a_named_provider_has_no_second(make, monkeypatch):
    fake(monkeypatch, cuda="silent")
    with pytest.raises(ProviderError):
        make("cuda").open()


def test_what_works_is_taken_without_a_word(make, monkeypatch):
    fake(monkeypatch)
    speaks = make("auto")
    assert speaks.open().sessions["g"].provider == CUDA
    assert speaks.notes == []
    assert speaks.why.startswith("cuda")


def test_unknown_providers_are_refused(tones, capsys):
    assert cli.program(["speak", "你好", "-o", "x.wav", "--provider", "gpu"]) == 2
    assert "auto, tensorrt, cuda" in capsys.readouterr().err
    assert tones.loads == 0
    assert providers.check_provider("CUDA") == "cuda"
    with pytest.raises(UsageError):
        providers.check_provider("x")


def test_both_wheels_are_named_with_what_mends_it(monkeypatch):
    """OR-02. onnxruntime overwrote onnxruntime-gpu: the GPU was gone, without a hint."""
    versions = {"onnxruntime": "1.31", "onnxruntime-gpu": "1.31"}

    def version(name):
        from importlib.metadata import PackageNotFoundError

        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr("importlib.metadata.version", version)
    wrong, mend = runtime.wheel_conflict()
    assert "onnxruntime and onnxruntime-gpu" in wrong
    assert mend.startswith("pip uninstall -y onnxruntime onnxruntime-gpu && pip install")
    assert mend.endswith("onnxruntime-gpu")
    del versions["onnxruntime"]
    assert runtime.wheel_conflict() is None


@pytest.mark.parametrize(
    ("name", "reason", "missing", "expected"),
    [
        ("cuda", "", ("libcudnn.so.9",), "onnxruntime-gpu[cuda,cudnn]"),
        ("cuda", "CUDA driver version is insufficient for CUDA runtime version", (), "driver"),
        ("tensorrt", "", ("libnvinfer.so.10",), "pip install tensorrt"),
        ("directml", "whatever", (), "--provider cpu"),
    ],
)
def test_each_lack_has_its_command(monkeypatch, name, reason, missing, expected):
    """OR-03."""
    monkeypatch.setattr(providers, "has_nvidia", lambda: True)
    assert expected in providers.how_to_mend(name, reason, missing)


def test_missing_libraries_are_read_from_the_provider_itself(tmp_path):
    """OR-03: which CUDA a wheel wants is written in it, the newest of each counts."""
    library = tmp_path / "libonnxruntime_providers_cuda.so"
    library.write_bytes(b"\0libcudart.so.12\0libcudart.so.99\0libc.so.6\0libcudnn.so.98\0")
    assert providers.missing_libraries(library) == ("libcudart.so.99", "libcudnn.so.98")
    assert providers.missing_libraries(tmp_path / "none.so") == ()


def test_a_provider_is_tried_for_real():
    """On the real runtime: the CPU adds one and one; a provider that this wheel lacks says so."""
    assert runtime.provider_opens("cpu") is None
    assert runtime.provider_opens("coreml")
    if not providers.has_nvidia():
        assert "cuda" in runtime.provider_opens("cuda") or "built without" in runtime.provider_opens("cuda")


def test_the_share_of_nodes_on_each_provider_is_known(graph, monkeypatch):
    """A session that says CUDA may run half of its nodes on the CPU and copy between them."""
    fake(monkeypatch)
    assert runtime.Session(graph, provider="cuda").shares() == {CUDA: 0.75, CPU: 0.25}
    assert runtime.Session(graph).shares() == {CPU: 1.0}


def test_building_an_engine_is_told_and_opening_a_built_one_is_not(graph, monkeypatch):
    """The first start with TensorRT takes minutes in silence; the second takes seconds and has nothing to say."""
    fake(monkeypatch, tensorrt=lambda path, options: _leave(options["trt_engine_cache_path"]))
    said = []
    with runtime.telling(said.append):
        runtime.Session(graph, provider="tensorrt")
        assert "building the TensorRT engine of g.onnx" in said.pop()
        runtime.Session(graph, provider="tensorrt")
    assert said == []


def _leave(folder):
    """What TensorRT leaves behind; None, as it works."""
    from pathlib import Path

    (Path(folder) / "g.engine").write_bytes(b"engine")


def test_only_a_warm_up_builds_engines_unasked(graph, monkeypatch):
    """`auto` never built what takes minutes, so nobody who did not name TensorRT ever had it; `cosy warmup` does, and
    later processes find the engines.
    """
    ort = fake(monkeypatch)
    monkeypatch.setattr(ort, "listed", LISTED)
    assert runtime.candidates("auto")[0] == ("cuda", "cpu")
    assert runtime.candidates("auto", builds=True)[0] == ("tensorrt", "cuda", "cpu")
    (runtime.engines_folder() / "key").mkdir(parents=True)
    assert runtime.candidates("auto")[0] == ("tensorrt", "cuda", "cpu")


def test_warming_up_may_build(monkeypatch, tones, tmp_path):
    """The command says so to its engine, and speaking does not."""
    for command, builds in ((["warmup", "-q"], True), (["speak", "你好", "-o", str(tmp_path / "x.wav"), "-q"], False)):
        monkeypatch.setattr(engine, "_process", None)
        cli.program(command)
        assert engine.get_engine().builds is builds
