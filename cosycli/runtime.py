"""The only user of onnxruntime: sessions, threads, providers and why, one lock a session, foreign errors made ours.

Knows no model family. A session is opened once and serves many threads; its lock is held around `run` alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cosycli import providers, tuning
from cosycli.errors import InferenceError, ModelError
from cosycli.providers import ProviderError

# More threads than this slow the small windows of streaming down on every machine measured.
MAX_THREADS = 8


def available_cores() -> int:
    """How many CPUs this process may use (the affinity mask, not the host's count)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads() -> int:
    """Threads a session computes with: `COSY_THREADS`, else what was tuned, else the CPUs of this process."""
    asked = os.environ.get("COSY_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    cores = available_cores()
    return tuning.current(cores).threads or default_threads(cores)


def default_threads(cores: int) -> int:
    """Threads where nothing was tuned."""
    return max(1, min(MAX_THREADS, cores))


def has_int8_kernels() -> bool:
    """Whether 8-bit convolutions are exact and fast here: VNNI on x86, always on ARM.

    Without VNNI, x86 kernels add pairs of products in 16 bits and saturate, which is heard as noise.
    """
    import platform

    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    with contextlib.suppress(OSError):
        flags = Path("/proc/cpuinfo").read_text()
        return "avx512_vnni" in flags or "avx_vnni" in flags
    return False


def why() -> str:
    """Why the CPU computes in the precision it does, in words."""
    return "8-bit kernels" if has_int8_kernels() else "no exact 8-bit kernels, so float32"


def installed_wheels() -> dict[str, str]:
    """Each ONNX Runtime wheel in this environment and its version. They overwrite each other's files."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-silicon"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def wheel_conflict() -> tuple[str, str] | None:
    """What is wrong with the installed wheels and the commands that mend it; None if nothing is."""
    wheels = installed_wheels()
    if len(wheels) < 2:
        return None
    kept = "onnxruntime-gpu" if "onnxruntime-gpu" in wheels else next(iter(wheels))
    names = " ".join(wheels)
    return (
        f"{' and '.join(wheels)} are both installed and overwrite each other",
        f"pip uninstall -y {names} && pip install --force-reinstall --no-deps {kept}",
    )


def listed_providers() -> tuple[str, ...]:
    """What onnxruntime was built with, by its own names; not what works here."""
    import onnxruntime as ort

    return tuple(ort.get_available_providers())


def provider_opens(name: str) -> str | None:
    """None if a session of one addition really runs on this provider (a name of ours, "cuda"), else why not."""
    import tempfile

    if providers.NAMES[name] not in listed_providers():
        return "this onnxruntime was built without it"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "addition.onnx"
        path.write_bytes(_addition())
        try:
            Session(path, provider=name).run({"x": np.ones(1, np.float32)})
        except (InferenceError, ModelError) as error:
            return error.message
    return None


def _addition() -> bytes:
    """A model of one node: y = x + x."""
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "addition", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    data: bytes = model.SerializeToString()
    return data


def candidates(asked: str, *, builds: bool = False) -> tuple[tuple[str, ...], str]:
    """The providers to try, in order, and why these. `builds`: engines that take minutes to build may be built."""
    if asked == "cpu" or (asked == "auto" and not providers.has_nvidia() and sys.platform == "linux"):
        return ("cpu",), "cpu was asked for" if asked == "cpu" else "no NVIDIA GPU here"
    engines = engines_folder()
    built = builds or (engines.is_dir() and any(engines.iterdir()))
    return providers.candidates(asked, listed_providers(), nvidia=providers.has_nvidia(), engines=built)


def engines_folder() -> Path:
    """Where TensorRT's engines are kept, a folder for each environment they fit."""
    from cosycli.bundles.store import home

    return home() / "engines"


_preloaded = threading.Lock()


def preload() -> None:
    """Load the CUDA and cuDNN libraries that pip installed, before the first session that needs them (#25609)."""
    import onnxruntime as ort

    # It prints what it does not find; what is missing shows when the session is opened, and stdout may be audio.
    with _preloaded, contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        if hasattr(ort, "preload_dlls"):
            ort.preload_dlls()


EVERY = 15.0  # seconds between two lines of progress


def _unheard(line: str) -> None:
    return None


_tell: Callable[[str], None] = _unheard


@contextlib.contextmanager
def telling(progress: Callable[[str], None]) -> Iterator[None]:
    """Send what takes long while sessions are opened, in any thread, to this function meanwhile."""
    global _tell
    before, _tell = _tell, progress
    try:
        yield
    finally:
        _tell = before


@contextlib.contextmanager
def _building(what: str) -> Iterator[None]:
    """Say that something is built once, and every 15 s that it still is: TensorRT tells nothing for minutes."""
    tell, done, started = _tell, threading.Event(), time.perf_counter()
    tell(f"building the {what}, once for this GPU; it may take minutes")

    def remind() -> None:
        while not done.wait(EVERY):
            tell(f"still building the {what}, {time.perf_counter() - started:.0f} s so far")

    thread = threading.Thread(target=remind, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class Session:
    """One opened graph, on the provider that was asked for and no other; what that cannot run, the CPU does.

    `shapes`: input → (minimum, optimum, maximum), for TensorRT. `cuda_graph`: runs of fixed shapes may be captured
    (`loop.Loop`), where the graph allows it. `mem_reuse`: whether tensors share buffers, if not as tuned.

    Raises ModelError if the file cannot be opened,
    ProviderError if the provider did not open it, InferenceError if a run fails.
    """

    def __init__(
        self,
        path: Path,
        *,
        provider: str = "cpu",
        intra_threads: int | None = None,
        shapes: Mapping[str, Any] | None = None,
        cuda_graph: bool = False,
        mem_reuse: bool | None = None,
    ) -> None:
        import onnxruntime as ort

        from cosycli.bundles.store import damaged

        ort.set_default_logger_severity(4)  # an error is told once, in our own words
        self.path = path
        self.wanted = provider
        self.cuda_graph = cuda_graph and provider == "cuda"  # whether runs can be captured; false if it did not open
        self.notes: list[str] = []  # what went otherwise than expected, for people
        started = time.perf_counter()
        if damaged(path) or damaged(
            path.with_suffix(".weights")
        ):  # with a bit flipped it may still open, and be heard as noise, or crash the process
            raise ModelError(f"{path} is damaged", "run `cosy warmup --rebuild` to assemble the voice anew")
        if provider in providers.NVIDIA:
            preload()
        tuned = tuning.current(available_cores(), model=path.parent.name) if provider == "cpu" else tuning.DEFAULT
        if mem_reuse is not None:
            tuned = replace(tuned, mem_reuse=mem_reuse)
        options = _options(intra_threads, tuned)
        if provider != "cpu":
            options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        self._session = self._open(options, shapes)
        self.load_seconds = time.perf_counter() - started
        self.provider: str = self._session.get_providers()[0]
        self.outputs = [output.name for output in self._session.get_outputs()]
        self._lock = threading.Lock()
        self.observer: Callable[[Mapping[str, Any]], None] | None = None  # sees what each run is fed

    def _open(self, options: Any, shapes: Mapping[str, Any] | None) -> Any:
        if self.wanted == "cpu":
            try:
                return _session(self.path, options, ["CPUExecutionProvider"])
            except Exception as error:  # onnxruntime has no common base class for its exceptions
                raise ModelError(
                    f"cannot open {self.path}: {first_line(error)}",
                    "run `cosy warmup --rebuild` to assemble the voice anew",
                ) from error
        if self.wanted == "tensorrt":
            return self._open_engine(options, shapes)
        chosen = providers.session_options(self.wanted, None, providers.memory_limit())
        if self.cuda_graph:
            try:
                return self._open_on(options, chosen | {"enable_cuda_graph": "1"})
            except ProviderError as error:  # a node that is not on the GPU, or a loop, cannot be captured
                self.cuda_graph = False
                self.notes.append(f"no CUDA graph for {self.path.name}: {error.message}")
        return self._open_on(options, chosen)

    def _open_engine(self, options: Any, shapes: Mapping[str, Any] | None) -> Any:
        """With TensorRT. An engine in the cache that does not open is foreign or damaged: it is built anew, once."""
        folder = engines_folder() / _environment(self.path).key
        known = folder.is_dir() and any(folder.iterdir())
        folder.mkdir(parents=True, exist_ok=True)
        chosen = providers.session_options("tensorrt", folder) | providers.profile_options(shapes or {})
        try:
            if known:
                return self._open_on(options, chosen)
            with _building(f"TensorRT engine of {self.path.name}"):
                return self._open_on(options, chosen)
        except ProviderError:
            if not known:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        self.notes.append(f"the cached TensorRT engine of {self.path.name} does not fit: built anew")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with _building(f"TensorRT engine of {self.path.name}"):
            return self._open_on(options, chosen)

    def _open_on(self, options: Any, provider_options: Mapping[str, str]) -> Any:
        name = providers.NAMES[self.wanted]
        reason = ""
        try:
            session = _session(self.path, options, [(name, dict(provider_options)), "CPUExecutionProvider"])
            if session.get_providers()[0] == name:
                return session
        except Exception as error:  # with CUDA_PATH set it raises where it else falls back in silence (#21424)
            reason = first_line(error)
        missing = _missing(self.wanted)
        if missing:
            reason = f"{', '.join(missing)} not found"
        raise ProviderError(
            f"{self.wanted} cannot run {self.path.name}: {reason or 'onnxruntime fell back to the CPU'}",
            providers.how_to_mend(self.wanted, reason, missing),
        )

    def shares(self) -> dict[str, float]:
        """The share of the graph's nodes on each provider, by onnxruntime's own record (1.24 and later, else only
        the session's provider). A graph that is half on the CPU may be slower than one that is there whole.
        """
        counts: Counter[str] = Counter()
        with contextlib.suppress(Exception):  # not recorded, or not to be had from this version
            for part in self._session.get_provider_graph_assignment_info():
                counts[part.ep_name] += len(part.get_nodes())
        total = sum(counts.values())
        return {name: count / total for name, count in counts.most_common()} if total else {self.provider: 1.0}

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
        """Run the graph on arrays by name; returns the outputs asked for, in order. Raises InferenceError."""
        if self.observer is not None:
            self.observer(inputs)
        try:
            with self._lock:
                results: list[Any] = self._session.run(list(outputs or self.outputs), dict(inputs))
        except Exception as error:
            raise InferenceError(
                f"inference failed in {self.path.name}: {first_line(error)}", "run it again with --verbose"
            ) from error
        return results

    @contextlib.contextmanager
    def locked(self) -> Iterator[Any]:
        """onnxruntime's own session, which nobody else runs meanwhile: for bound inputs and outputs."""
        with self._lock:
            yield self._session

    @contextlib.contextmanager
    def played_by(self, other: Session) -> Iterator[None]:
        """Let another graph of the same inputs and outputs answer in this one's place meanwhile."""
        with self._lock:
            own, self._session = self._session, other._session
        try:
            yield
        finally:
            with self._lock:
                self._session = own


def tensor_types(path: Path, names: Sequence[str]) -> dict[str, str]:
    """The type that onnxruntime infers for tensors that the model at `path` has among its outputs, contributed
    operators included: "tensor(float)", "tensor(int64)"… Raises ModelError.
    """
    import onnxruntime as ort

    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = _session(path, options, ["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"cannot open {path}: {first_line(error)}", "make the bundle again") from error
    known = {value.name: str(value.type) for value in (*session.get_outputs(), *session.get_inputs())}
    return {name: known[name] for name in names if name in known}


def optimise(path: Path) -> None:
    """Replace a model file by its optimised form, with fusions for the CPU but nothing tied to one kind of CPU.

    Opening it then takes half the time. Raises ModelError.
    """
    import onnxruntime as ort

    draft = path.with_suffix(".optimised")
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # else a thread is pinned to each core (#8313)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(draft)
    try:
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        draft.replace(path)
    except Exception as error:
        raise ModelError(
            f"cannot optimise {path}: {first_line(error)}",
            "free some space and try again; if that does not help, report it",
        ) from error


def _options(intra_threads: int | None, chosen: tuning.Tuning) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    # A number of our own also keeps onnxruntime from pinning threads, which fails in containers (#8313).
    options.intra_op_num_threads = intra_threads or threads()
    options.inter_op_num_threads = 1
    for key, value in tuning.SPINNING[chosen.spinning].items():
        options.add_session_config_entry(key, value)
    options.enable_mem_reuse = chosen.mem_reuse
    # A pattern is kept for every shape that a graph ever meets, and each run then wants its memory in one block: 24 MB
    # more for the generator after its 156 window lengths, and no faster (95.7 s against 99.9 s of CPU time for them).
    options.enable_mem_pattern = False
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, tuning.LEVELS[chosen.optimisation])
    return options


def _session(path: Path, options: Any, wanted: Sequence[Any]) -> Any:
    """Open without onnxruntime's own second try, which drops every provider but the CPU (#25145) and prints."""
    import onnxruntime as ort

    return ort.InferenceSession(str(path), options, providers=list(wanted), enable_fallback=0)


def _missing(provider: str) -> tuple[str, ...]:
    """The shared libraries that this provider lacks here."""
    if provider not in providers.NVIDIA:
        return ()
    import onnxruntime as ort

    folder = Path(getattr(ort, "__file__", "") or ".").parent / "capi"
    return providers.missing_libraries(folder / f"libonnxruntime_providers_{provider}.so")


def _environment(path: Path) -> providers.Environment:
    from importlib.metadata import PackageNotFoundError, version

    import onnxruntime as ort

    from cosycli.bundles.store import file_digest

    tensorrt = "system"
    for name in ("tensorrt", "tensorrt-cu13", "tensorrt-cu12"):
        with contextlib.suppress(PackageNotFoundError):
            tensorrt = version(name)
            break
    return providers.Environment(_gpu(), tensorrt, str(ort.__version__), file_digest(path))


def _gpu() -> str:
    """The GPU's compute capability by its driver; "unknown" where that cannot be asked."""
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    with contextlib.suppress(OSError, subprocess.SubprocessError, IndexError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.split()[0]
    return "unknown"


def check_finite(samples: np.ndarray[Any, Any], graph: str) -> None:
    """Raise InferenceError if a graph made NaN or infinity: such audio must never be written."""
    if not np.isfinite(samples).all():
        raise InferenceError(f"{graph} produced samples that are not numbers", "run `cosy warmup --rebuild`")


def first_line(error: BaseException) -> str:
    """What onnxruntime says first; the rest is its own call stack."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
