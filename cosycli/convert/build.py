"""Writes one ONNX graph. Weights go to a file beside it as they come, so that a model of gigabytes needs no memory.

Knows no model: `qwen2`, `dit`, `unet` and `hift` call it. Names are predictable: a layer's node is named after the
weights' key in the checkpoint, so that a quantiser can be told by a prefix what to leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cosycli.quantize import int4, int8

Array = NDArray[Any]
OPSET = 17
IR = 9
INLINE = 1024  # bytes: smaller constants stay in the model, where shape inference can read them
PAGE = 4096  # large weights begin at one, so that onnxruntime can map them from the file

FLOAT, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16
INT64, INT32, INT8 = TensorProto.INT64, TensorProto.INT32, TensorProto.INT8


class Graph:
    """Collects nodes, and writes `folder/NAME.onnx` with its weights in `folder/NAME.weights`.

    Every method that adds nodes returns the name of the tensor they make. `product` is how a layer multiplies by
    its weights: one of the functions below.
    """

    def __init__(self, folder: Path, name: str, product: Product | None = None) -> None:
        self.path = folder / f"{name}.onnx"
        self._file = (folder / f"{name}.weights").open("wb")
        self._product = product or plain
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, shape: Sequence[int | str], kind: int = FLOAT) -> str:
        """Declare an input; a string is a dimension that varies."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def output(self, tensor: str, shape: Sequence[int | str], name: str = "", kind: int = FLOAT) -> None:
        """Declare a tensor as an output, under another name if one is given."""
        if name and name != tensor:
            self._nodes.append(helper.make_node("Identity", [tensor], [name], name=f"{name}/out"))
        self._outputs.append(helper.make_tensor_value_info(name or tensor, kind, list(shape)))

    def constant(self, name: str, value: Any, dtype: Any = None) -> str:
        """Add a constant once; its name. Arrays of float64 become float32."""
        if name in self._constants:
            return name
        array = np.ascontiguousarray(np.asarray(value, dtype)).reshape(np.shape(value))
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        small = array.nbytes <= INLINE
        self._constants[name] = numpy_helper.from_array(array, name) if small else self._stored(name, array)
        return name

    def _stored(self, name: str, array: Array) -> Any:
        step = PAGE if array.nbytes > PAGE else 64
        self._file.write(bytes(-self._file.tell() % step))
        tensor = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
        tensor.data_location = TensorProto.EXTERNAL
        place = {"location": Path(self._file.name).name, "offset": self._file.tell(), "length": array.nbytes}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        array.tofile(self._file)
        return tensor

    def scalar(self, value: float) -> str:
        """A float32 constant."""
        return self.constant(f"scalar:{value!r}", np.float32(value))

    def axes(self, *values: int) -> str:
        """An int64 constant: axes, a shape, sizes."""
        return self.constant(f"axes:{values}", values, np.int64)

    def op(self, kind: str, inputs: Sequence[str], name: str = "", *, domain: str = "", **attributes: Any) -> str:
        """Add a node of one output, which has the node's name."""
        return self.ops(kind, inputs, 1, name, domain=domain, **attributes)[0]

    def ops(
        self, kind: str, inputs: Sequence[str], outputs: int | Sequence[str], name: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node of several outputs: their number, or their names ("" for one that nobody wants)."""
        name = name or f"{kind}_{len(self._nodes)}"
        if isinstance(outputs, int):
            outputs = [name if place == 0 else f"{name}:{place}" for place in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), list(outputs), name=name, **attributes))
        return list(outputs)

    def contrib(self, kind: str, inputs: Sequence[str], name: str = "", **attributes: Any) -> str:
        """Add one of onnxruntime's own operators, of one output."""
        return self.op(kind, inputs, name, domain="com.microsoft", **attributes)

    def linear(self, x: str, name: str, weight: Array, bias: Array | None = None) -> str:
        """x · weightᵀ + bias, with the weight [out, in] as PyTorch keeps it."""
        return self._product(self, x, name, weight, bias)

    def conv(self, x: str, name: str, weight: Array, bias: Array | None = None, **attributes: Any) -> str:
        """A convolution with the weight [out, in / groups, taps]."""
        inputs = [x, self.constant(f"{name}.weight", weight)]
        if bias is not None:
            inputs.append(self.constant(f"{name}.bias", bias))
        return self.op("Conv", inputs, name, kernel_shape=list(weight.shape[2:]), **attributes)

    def norm(self, x: str, name: str, weights: Mapping[str, Array], key: str, epsilon: float) -> str:
        """Layer norm over the last axis, with the checkpoint's scale and bias."""
        scale, bias = (self.constant(f"{name}.{part}", weights[f"{key}.{part}"]) for part in ("weight", "bias"))
        return self.op("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=epsilon)

    def cached(self, x: str, name: str, heads: int, width: int, kind: int = FLOAT) -> str:
        """Append x [rows, frames, heads · width] to the cache `name` in place (inputs `place` and `end`), and return
        all that it holds, [rows, heads, so far, width]. See `backends.cosyvoice.state`. In int8 x is rounded, so it
        must have been brought to that range.
        """
        self.input(name, ["rows", heads, f"{name}.room", width], kind)
        x = self.op("Reshape", [x, self.axes(0, 0, heads, width)])
        x = self.op("Transpose", [x], perm=[0, 2, 1, 3])
        if kind == INT8:
            x = self.op("QuantizeLinear", [x, self.scalar(1.0), self.constant("zero:int8", 0, np.int8)])
        elif kind != FLOAT:
            x = self.op("Cast", [x], to=kind)
        whole = self.op("ScatterND", [name, "place", x], f"{name}.next")
        self.output(whole, ["rows", heads, f"{name}.room", width], kind=kind)
        held = self.op("Slice", [whole, self.axes(0), "end", self.axes(2)])
        return held if kind == FLOAT else self.op("Cast", [held], to=FLOAT)

    def keep(self, tensor: str, length: int, axis: int, name: str) -> None:
        """The last `length` along an axis are the tail that the next run begins with, its input `name`."""
        ends = [self.axes(-length), self.axes(np.iinfo(np.int64).max), self.axes(axis)]
        shape = next(value for value in self._inputs if value.name == name).type.tensor_type.shape.dim
        sizes = [size.dim_param or size.dim_value for size in shape]
        self.output(self.op("Slice", [tensor, *ends]), sizes, f"{name}.next")

    def add(self, *names: str) -> str:
        """The sum of tensors."""
        total = names[0]
        for name in names[1:]:
            total = self.op("Add", [total, name])
        return total

    def save(self) -> Path:
        """Write the model; the graph's path."""
        self._file.close()
        if not Path(self._file.name).stat().st_size:
            Path(self._file.name).unlink()
        graph = helper.make_graph(
            self._nodes, self.path.stem, self._inputs, self._outputs, list(self._constants.values())
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="cosycli")
        model.ir_version = IR
        onnx.save(model, self.path)
        return self.path


Product = Callable[[Graph, str, str, Array, "Array | None"], str]


def plain(graph: Graph, x: str, name: str, weight: Array, bias: Array | None) -> str:
    """In float32."""
    made = graph.op("MatMul", [x, graph.constant(f"{name}.weight", weight.T)], name)
    return made if bias is None else graph.op("Add", [made, graph.constant(f"{name}.bias", bias)], f"{name}/biased")


def dynamic(graph: Graph, x: str, name: str, weight: Array, bias: Array | None) -> str:
    """In int8: a scale for each output, the input's range found while it runs. For many rows at once."""
    rounded, scale = int8.quantize_weight(np.ascontiguousarray(weight.T), 1)
    inputs = [x, graph.constant(f"{name}.w8", rounded), graph.constant(f"{name}.w_scale", scale)]
    if bias is not None:
        inputs += ["", graph.constant(f"{name}.bias", bias)]
    return graph.contrib("DynamicQuantizeMatMul", inputs, name)


def blocks(bits: int, block: int) -> Product:
    """In 8 or 4 bits with a scale for each block of inputs: for one row at a time, which reads weights and no more."""

    def product(graph: Graph, x: str, name: str, weight: Array, bias: Array | None) -> str:
        packed, scale = int4.pack(weight.T, block, bits)
        inputs = [x, graph.constant(f"{name}.w{bits}", packed), graph.constant(f"{name}.scales", scale)]
        if bias is not None:
            inputs += ["", "", graph.constant(f"{name}.bias", bias)]
        size = {"K": weight.shape[1], "N": weight.shape[0], "bits": bits, "block_size": block, "accuracy_level": 4}
        return graph.contrib("MatMulNBits", inputs, name, **size)

    return product
