"""ONNX models as the quantisers see them: layers with their weights, tensor types, writing files of any size."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from cosycli.errors import ModelError

Array = NDArray[Any]

LAYERS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
LIMIT = 1 << 30  # bytes; a protobuf file ends at 2 GB, so what is larger keeps its weights in a file beside it


@dataclass(frozen=True)
class Layer:
    """A node that multiplies by a constant: what is quantised or kept as one."""

    name: str
    kind: str  # the operator
    data: str  # the tensor that comes in
    weight: str  # the constant
    bias: str  # "" for none
    output: str
    size: int  # numbers in the weight
    rank: int  # dimensions of the weight
    groups: int = 1  # of a convolution


def load(path: Path) -> Any:
    """A model with its weights. Raises ModelError."""
    try:
        model = onnx.load(path)
    except Exception as error:  # onnx raises protobuf's errors and its own
        raise ModelError(f"cannot read {path}: {str(error).splitlines()[0][:200]}", "make the bundle again") from error
    name_nodes(model.graph)
    fold_constants(model.graph)
    return model


def save(model: Any, path: Path) -> None:
    """Write a model; large weights go to a file beside it."""
    if sum(len(t.raw_data) for t in model.graph.initializer) > LIMIT:
        onnx.save(model, path, save_as_external_data=True, location=f"{path.stem}.weights", size_threshold=1024)
    else:
        onnx.save(model, path)


def name_nodes(graph: Any) -> None:
    """Give every node a name of its own, so that it can be told and kept."""
    seen: set[str] = set()
    for index, node in enumerate(graph.node):
        if not node.name or node.name in seen:
            node.name = f"{node.op_type}_{index}"
        seen.add(node.name)


def fold_constants(graph: Any) -> None:
    """Turn Constant nodes of tensors into initialisers."""
    kept = []
    for node in graph.node:
        value = next((a for a in node.attribute if a.name in ("value", "value_float", "value_floats")), None)
        if node.op_type != "Constant" or value is None:
            kept.append(node)
            continue
        if value.name == "value":
            tensor = copy.copy(value.t)
            tensor.name = node.output[0]
        else:
            data = value.f if value.name == "value_float" else list(value.floats)
            tensor = numpy_helper.from_array(np.asarray(data, np.float32), node.output[0])
        graph.initializer.append(tensor)
    del graph.node[:]
    graph.node.extend(kept)


def weights(graph: Any) -> dict[str, Any]:
    """The constants of a graph by name, still packed."""
    return {tensor.name: tensor for tensor in graph.initializer}


def layers(graph: Any) -> list[Layer]:
    """The layers in order whose weight is a float32 constant."""
    constants = weights(graph)
    found = []
    for node in graph.node:
        if node.op_type not in LAYERS:
            continue
        tensor = constants.get(node.input[1])
        if tensor is None or tensor.data_type != TensorProto.FLOAT or node.input[0] in constants:
            continue
        bias = node.input[2] if len(node.input) > 2 else ""
        size, rank = int(np.prod(tensor.dims)), len(tensor.dims)
        groups = attributes(node).get("group", 1)
        found.append(
            Layer(node.name, node.op_type, node.input[0], tensor.name, bias, node.output[0], size, rank, groups)
        )
    return found


def attributes(node: Any) -> dict[str, Any]:
    """A node's attributes as Python values."""
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


class Rewriter:
    """Replaces nodes of a model by others, in place and in order; constants that nothing uses any more go."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.graph = model.graph
        self.constants = weights(model.graph)
        self._instead: dict[str, list[Any]] = {}
        self._added: dict[str, Array] = {}

    def value(self, name: str) -> Array:
        """A constant as an array."""
        array: Array = numpy_helper.to_array(self.constants[name])
        return array

    def node(self, name: str) -> Any:
        """A node by name."""
        return next(node for node in self.graph.node if node.name == name)

    def constant(self, name: str, value: Any, dtype: Any = None) -> str:
        """Add a constant; its name."""
        self._added[name] = np.asarray(value, dtype)
        return name

    def replace(self, name: str, nodes: Sequence[Any]) -> None:
        """Put nodes in the place of one."""
        self._instead[name] = list(nodes)

    def finish(self, *domains: tuple[str, int]) -> Any:
        """The model with all changes; `domains` are operator sets that new nodes need."""
        nodes = [new for node in self.graph.node for new in self._instead.get(node.name, [node])]
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        used = set(_names(self.graph))
        kept = [tensor for tensor in self.graph.initializer if tensor.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
        self.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in self._added.items() if n in used)
        del self.graph.value_info[:]  # types that were noted may be wrong now; onnxruntime infers its own
        require(self.model, *domains)
        return self.model


def require(model: Any, *domains: tuple[str, int]) -> None:
    """Make sure that a model imports operator sets of at least these versions."""
    known = {entry.domain: entry for entry in model.opset_import}
    for domain, version in domains:
        if domain not in known:
            model.opset_import.append(onnx.helper.make_opsetid(domain, version))


def _names(graph: Any) -> Iterator[str]:
    """Every tensor that is read in a graph or its subgraphs, and the graph's outputs."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _names(inner)
    yield from (output.name for output in graph.output)


def captured(node: Any) -> set[str]:
    """The tensors from outside that a node's subgraphs read."""
    found: set[str] = set()
    for attribute in node.attribute:
        for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            own = {t.name for t in inner.initializer} | {i.name for i in inner.input}
            own |= {name for n in inner.node for name in n.output}
            found |= set(_names(inner)) - own
    return found - {""}


def with_outputs(model: Any, names: Iterable[str]) -> Any:
    """The model with these tensors among its outputs, as they come; the original stays as it is."""
    wider = onnx.ModelProto()
    wider.CopyFrom(model)
    known = {output.name for output in wider.graph.output}
    wider.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names) if name not in known)
    return wider


def clone(model: Any) -> Any:
    """A copy to change."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    return other
