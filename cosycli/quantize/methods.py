"""The ways to quantise one graph, behind one face: what can be, what stays and why, and the graph with some put back.

Adding a way: a function here that returns a Prepared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosycli.quantize import calibrate, fp16, graphs, int4, int8
from cosycli.quantize.calibrate import Feed
from cosycli.quantize.graphs import Layer
from cosycli.runtime import Session, tensor_types

Build = Callable[[Collection[str]], Any]  # names of layers → a model
TARGETS = ("fp16", "int8", "int4")


@dataclass(frozen=True)
class Wish:
    """What is to be made."""

    to: str
    calibrate: str | None = None  # int8: None is dynamic, else how static ranges are chosen
    convolutions: bool = False  # int8 dynamic: these too, though they are slow so
    block: int = 32  # int4: inputs that share a scale
    accuracy: int = 4  # int4: 0 the kernel's choice, 1 float32, 4 int8

    @property
    def precision(self) -> str:
        """What the manifest calls it."""
        return f"int8 static ({self.calibrate})" if self.calibrate else "int8 dynamic" if self.to == "int8" else self.to


@dataclass(frozen=True)
class Prepared:
    """One graph, ready to be written with any of its layers quantised.

    `without`: layers to leave in float → the model to keep. `only`: layers to quantise, nothing else → a model to
    listen to. `listen`: like `without`, as it will sound where it is meant to run.
    """

    name: str
    model: Any
    layers: Sequence[Layer]
    kept: Mapping[str, str]  # node → why it stays
    without: Build
    only: Build
    listen: Build


def prepare(wish: Wish, name: str, path: Path, keep: Mapping[str, str], feeds: Sequence[Feed]) -> Prepared | None:
    """A graph's candidates, which may be none, calibrated on what it was fed; None for a graph that stays whole."""
    if any(not prefix for prefix in keep):
        return None
    model = graphs.load(path)
    ways = {"fp16": _fp16, "int8": _static if wish.calibrate else _dynamic, "int4": _int4}
    return ways[wish.to](wish, name, model, keep, feeds)


def _integer(
    name: str, model: Any, layers: Sequence[Layer], kept: Mapping[str, str], build: Callable[[Any, list[Layer]], Any]
) -> Prepared:
    """With a function that quantises layers of a model in place."""

    def only(names: Collection[str]) -> Any:
        return build(graphs.clone(model), [layer for layer in layers if layer.name in names])

    def without(names: Collection[str]) -> Any:
        return only([layer.name for layer in layers if layer.name not in names])

    return Prepared(name, model, layers, kept, without, only, without)


def _dynamic(wish: Wish, name: str, model: Any, keep: Mapping[str, str], feeds: Sequence[Feed]) -> Prepared:
    kinds = int8.KINDS if wish.convolutions else int8.PRODUCTS
    return _integer(name, model, *int8.candidates(model, kinds, keep), int8.dynamic)


def _int4(wish: Wish, name: str, model: Any, keep: Mapping[str, str], feeds: Sequence[Feed]) -> Prepared:
    layers, kept = int4.candidates(model, keep)
    return _integer(name, model, layers, kept, lambda m, some: int4.convert(m, some, wish.block, wish.accuracy))


def _static(wish: Wish, name: str, model: Any, keep: Mapping[str, str], feeds: Sequence[Feed]) -> Prepared:
    layers, kept = int8.candidates(model, int8.KINDS, keep)
    tensors = {tensor: int8.channel_axis(layer) for layer in layers for tensor in (layer.data, layer.output)}
    values = calibrate.watch(open_model(graphs.with_outputs(model, tensors)), tensors, feeds[::2]) if layers else {}
    inputs, outputs = calibrate.scalings(layers, values, wish.calibrate or "minmax")
    return _integer(name, model, layers, kept, lambda m, some: int8.static(m, some, inputs, outputs))


def _fp16(wish: Wish, name: str, model: Any, keep: Mapping[str, str], feeds: Sequence[Feed]) -> Prepared:
    every = [tensor for node in model.graph.node for tensor in node.output if tensor]
    types = _types(model, every)
    floats = [tensor for tensor in every if types.get(tensor) == "tensor(float)"]
    peaks = calibrate.peaks(open_model(calibrate.with_peaks(model, floats)), floats, feeds[::4])
    converted, kept = fp16.plan(model, types, peaks, keep)
    layers = [layer for layer in graphs.layers(model.graph) if layer.name in converted]

    def without(names: Collection[str]) -> Any:
        return fp16.convert(graphs.clone(model), types, converted - set(names))

    def listen(names: Collection[str]) -> Any:
        return fp16.rounding_twin(graphs.clone(model), types, converted - set(names))

    def only(names: Collection[str]) -> Any:
        return fp16.rounding_twin(graphs.clone(model), types, set(names))

    return Prepared(name, model, layers, kept, without, only, listen)


def _types(model: Any, tensors: Sequence[str]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.onnx"
        graphs.save(graphs.with_outputs(model, tensors), path)
        return tensor_types(path, [*tensors, *(value.name for value in model.graph.input)])


def open_model(model: Any, provider: str = "cpu") -> Session:
    """A session of a model that has no file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.onnx"
        graphs.save(model, path)
        return Session(path, provider=provider)
