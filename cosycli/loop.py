"""A graph run step after step on its own state, such as a language model on its key-value cache.

What a step returns as state is fed to the next one where it is: on a GPU nothing of it travels. With a state of fixed
size that is updated in place, a CUDA graph can be captured, which takes the launches of hundreds of kernels at once.
Like `runtime`, it uses onnxruntime; it knows no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosycli.errors import InferenceError
from cosycli.runtime import Session, first_line

Array = NDArray[Any]

DEVICES = {"CUDAExecutionProvider": "cuda", "TensorrtExecutionProvider": "cuda"}


class Loop:
    """Steps of one sequence. Not for two threads at once; many loops may share a session.

    `state`: output → the input that it becomes, as {"present.0.key": "past.0.key"}. `in_place`: an output is written
    over the input of the step before (both have one size, the graph writes where the step's position says); else
    onnxruntime allocates what each step returns, and it may grow.
    """

    def __init__(self, session: Session, state: Mapping[str, str], *, in_place: bool = False) -> None:
        self._session = session
        self._state = dict(state)
        self._in_place = in_place
        self._device = DEVICES.get(session.provider, "cpu")
        self._held: dict[str, Any] = {}  # input → the OrtValue it has now
        self._fixed: dict[str, Any] = {}  # inputs and outputs at the addresses that a CUDA graph remembers
        self._plain = [name for name in session.outputs if name not in self._state]
        self._graph = session.cuda_graph and in_place  # a growing state has no fixed address

    def start(self, state: Mapping[str, Array]) -> None:
        """Begin a sequence with this state, by input name; it is copied to the device once."""
        for name, value in state.items():
            held = self._held.get(name)
            if self._in_place and held is not None and tuple(held.shape()) == value.shape:
                held.update_inplace(np.ascontiguousarray(value))  # the address stays, so a captured graph stays valid
            else:
                self._held[name] = self._to_device(value)

    def step(self, inputs: Mapping[str, Array]) -> list[Array]:
        """One step; the outputs that are no state, in order. Raises InferenceError."""
        missing = set(self._state.values()) - set(self._held)
        if missing:
            raise InferenceError(f"{self._session.path.name} has no state: {', '.join(sorted(missing))}", "start first")
        try:
            return self._step(inputs)
        except Exception as error:
            raise InferenceError(
                f"inference failed in {self._session.path.name}: {first_line(error)}", "run it again with --verbose"
            ) from error

    def _step(self, inputs: Mapping[str, Array]) -> list[Array]:
        with self._session.locked() as raw:
            binding = raw.io_binding()
            for name, value in inputs.items():
                self._bind_input(binding, name, value)
            for name, held in self._held.items():
                binding.bind_ortvalue_input(name, held)
            for name in self._session.outputs:
                self._bind_output(binding, name)
            binding.synchronize_inputs()
            raw.run_with_iobinding(binding, self._run_options())
            binding.synchronize_outputs()
            made = dict(zip(self._session.outputs, binding.get_outputs(), strict=True))
        if not self._in_place:
            self._held |= {self._state[name]: made[name] for name in self._state}
        if self._graph:  # from now on the others stay at these addresses too
            self._fixed |= {name: made[name] for name in self._plain}
        return [made[name].numpy() for name in self._plain]

    def state(self, name: str) -> Array:
        """A copy of the state as it is now, by input name."""
        value: Array = self._held[name].numpy()
        return value

    def _bind_input(self, binding: Any, name: str, value: Array) -> None:
        if self._graph:
            fixed = self._fixed.get(name)
            if fixed is None:
                self._fixed[name] = fixed = self._to_device(value)
            elif tuple(fixed.shape()) != value.shape:
                raise ValueError(f"{name} changed its shape, which a CUDA graph cannot")
            else:
                fixed.update_inplace(np.ascontiguousarray(value))
            binding.bind_ortvalue_input(name, fixed)
        else:
            binding.bind_cpu_input(name, np.ascontiguousarray(value))

    def _bind_output(self, binding: Any, name: str) -> None:
        if name in self._state and self._in_place:
            binding.bind_ortvalue_output(name, self._held[self._state[name]])
        elif name in self._state:
            binding.bind_output(name, self._device)
        elif self._graph and name in self._fixed:
            binding.bind_ortvalue_output(name, self._fixed[name])
        else:
            binding.bind_output(name, self._device if self._graph else "cpu")

    def _run_options(self) -> Any:
        import onnxruntime as ort

        options = ort.RunOptions()
        if self._session.cuda_graph:
            # -1 neither captures nor replays. The step that finds out where outputs lie must not be captured.
            ready = self._graph and all(name in self._fixed for name in self._plain)
            options.add_run_config_entry("gpu_graph_id", "1" if ready else "-1")
        return options

    def _to_device(self, value: Array) -> Any:
        import onnxruntime as ort

        # On the CPU onnxruntime keeps the array itself, and writing in place would change the caller's.
        return ort.OrtValue.ortvalue_from_numpy(np.array(value, order="C"), self._device, 0)


def capture(loop: Loop, state: Mapping[str, Array], inputs: Mapping[str, Array], steps: int = 3) -> None:
    """Run a few steps so that the CUDA graph is there before the first sentence; the state is as given afterwards.

    Three: the first finds out where outputs lie, the second captures, the third replays.
    """
    loop.start(state)
    for _ in range(steps):
        loop.step(inputs)
    loop.start(state)
