"""A graph that continues where its last run stopped: attention's keys and values, and the ends of convolutions' inputs.

By the names of a graph's inputs: `cache.*` [rows, heads, frames, width] is written in place, at the indices `place`,
and read up to `end`; `tail.*` is replaced by the output `tail.*.next`; `start` is where this run's frames begin.
Knows no model.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosycli.errors import InferenceError
from cosycli.loop import DEVICES

if TYPE_CHECKING:
    from cosycli.runtime import Session

Array = NDArray[Any]

# Frames that caches have room for at first, and by how many they grow at least. Room that nothing was written to takes
# no memory where pages are given out when they are touched; growing copies all that there is.
ROOM, GROWTH = (2000, 1000) if sys.platform != "win32" else (250, 250)
NORESERVE = 0x4000  # Linux's MAP_NORESERVE, which Python names since 3.13: room is not memory yet
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int8)": np.int8}


class Stateful:
    """One sequence through a session; many may share the session. Not for two threads at once."""

    def __init__(self, session: Session, rows: int) -> None:
        self.frames = 0  # so far
        self._session = session
        self._rows = rows
        self._device = DEVICES.get(session.provider, "cpu")
        with session.locked() as raw:
            known = {value.name: (value.shape, TYPES.get(value.type)) for value in raw.get_inputs()}
        self._caches = {name: value for name, value in known.items() if name.startswith("cache.")}
        self._room = 0  # frames that fit into the caches
        self._held: dict[str, tuple[Array, Any]] = {}  # a cache's array, where that is on the CPU, and its OrtValue
        self._tails = {
            name: np.zeros([rows if isinstance(size, str) else size for size in shape], kind)
            for name, (shape, kind) in known.items()
            if name.startswith("tail.")
        }
        self._placed = [name for name in ("start", "end", "place") if name in known]
        self._results = [name for name in session.outputs if not name.endswith(".next")]

    def run(self, inputs: Mapping[str, Array], frames: int) -> list[Array]:
        """Run the graph on the next `frames` frames; the outputs that are no state, in order. Raises InferenceError."""
        try:
            self._reserve(self.frames + frames)
            made = self._run({**inputs, **self._tails, **self._places(frames)})
        except Exception as error:
            from cosycli.runtime import first_line

            raise InferenceError(
                f"inference failed in {self._session.path.name}: {first_line(error)}", "run it again with --verbose"
            ) from error
        self._tails = {name: made[f"{name}.next"] for name in self._tails}
        self.frames += frames
        return [made[name] for name in self._results]

    def _run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        with self._session.locked() as raw:
            binding = raw.io_binding()
            for name, value in inputs.items():
                binding.bind_cpu_input(name, np.ascontiguousarray(value))
            for name, (_, held) in self._held.items():
                binding.bind_ortvalue_input(name, held)
            for name in self._session.outputs:
                cache = self._held.get(name.removesuffix(".next"))
                if cache:
                    binding.bind_ortvalue_output(name, cache[1])
                else:
                    binding.bind_output(name, "cpu")
            binding.synchronize_inputs()
            raw.run_with_iobinding(binding)
            binding.synchronize_outputs()
            made = dict(zip(self._session.outputs, binding.get_outputs(), strict=True))
        return {name: value.numpy() for name, value in made.items() if name.removesuffix(".next") not in self._held}

    def _places(self, frames: int) -> dict[str, Array]:
        made = {"start": np.array([self.frames]), "end": np.array([self.frames + frames])}
        if not self._caches:
            return {name: made[name] for name in self._placed}
        heads = next(iter(self._caches.values()))[0][1]
        at = np.arange(self.frames, self.frames + frames)
        place = np.stack(np.meshgrid(np.arange(self._rows), np.arange(heads), at, indexing="ij"), axis=-1)
        return {name: {**made, "place": place}[name] for name in self._placed}

    def _reserve(self, frames: int) -> None:
        if frames <= self._room or not self._caches:
            self._touch(frames)
            return
        self._room = max(frames + GROWTH, ROOM)
        for name, ((_, heads, _, width), kind) in self._caches.items():
            shape = (self._rows, heads, self._room, width)
            fresh = _zeros(shape, kind)
            if name in self._held:
                fresh[:, :, : self.frames] = self._held[name][1].numpy()[:, :, : self.frames]
            self._hold(name, fresh)
        self._touch(frames)

    def _touch(self, frames: int) -> None:
        # Here a fresh page costs 2 us; first written to by two threads of onnxruntime at once, 10 to 20: ScatterND took
        # 2 ms of a step of CosyVoice 3's flow after this, and 22 to 50 without it, of 105 and 140 in all.
        for array, _ in self._held.values():
            if len(array):
                array[:, :, self.frames : frames] = 0

    def _hold(self, name: str, array: Array) -> None:
        import onnxruntime as ort

        # On the CPU onnxruntime uses the array's own memory, which must live as long.
        self._held[name] = (
            array if self._device == "cpu" else array[:0],
            ort.OrtValue.ortvalue_from_numpy(array, self._device, 0),
        )

    def saved(self) -> dict[str, Array]:
        """A copy of the state, to begin other sequences with."""
        caches = {name: held.numpy()[:, :, : self.frames].copy() for name, (_, held) in self._held.items()}
        return {**caches, **self._tails, "frames": np.array(self.frames)}

    def restore(self, saved: Mapping[str, Array]) -> None:
        """Begin with a saved state. The arrays are copied, or left as they are."""
        frames = int(saved["frames"])
        self._reserve(frames)
        self.frames = frames
        self._tails = {name: saved[name] for name in self._tails}
        for name in self._caches:
            if self._device == "cpu":
                self._held[name][0][:, :, :frames] = saved[name]
            else:
                whole = np.zeros(self._held[name][1].shape(), saved[name].dtype)
                whole[:, :, :frames] = saved[name]
                self._held[name][1].update_inplace(whole)


def _zeros(shape: tuple[int, ...], kind: Any) -> Array:
    """Zeros in pages of their own: only what is touched takes memory, and all of it goes back at once."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE} if sys.platform == "linux" else {}
    return np.frombuffer(mmap.mmap(-1, size, **flags), kind).reshape(shape)
