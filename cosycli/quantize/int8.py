"""float32 layers → int8: dynamic (ranges found while it runs) and static (ranges measured before).

Weights are symmetric, a scale for each output channel. Activations are unsigned with a zero point, one scale a tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from cosycli import runtime
from cosycli.quantize import graphs
from cosycli.quantize.graphs import Array, Layer, Rewriter

# What onnxruntime's CPU provider has integer kernels for. Convolutions whose ranges are found while they run are 2.5 to
# 4 times slower than float32, so dynamic quantisation leaves them, unless they are asked for.
KINDS = ("Conv", "MatMul", "Gemm")
PRODUCTS = ("MatMul", "Gemm")
SLOW = "a convolution with dynamic ranges is slower than float32"
SMALLEST = 1024  # numbers in a weight: less is not worth two more operators


def candidates(model: Any, kinds: Collection[str], keep: Mapping[str, str]) -> tuple[list[Layer], dict[str, str]]:
    """The layers that can be quantised, and why each of the others stays."""
    fit, kept = [], {}
    for layer in graphs.layers(model.graph):
        told = next((reason for prefix, reason in keep.items() if layer.name.startswith(prefix)), "")
        reason = told or _unfit(layer, model, kinds)
        if reason:
            kept[layer.name] = reason
        else:
            fit.append(layer)
    return fit, kept


def _unfit(layer: Layer, model: Any, kinds: Collection[str]) -> str:
    if layer.kind == "Conv" and "Conv" not in kinds:
        return SLOW
    if layer.kind not in kinds:
        return f"no integer kernel for {layer.kind}"
    if layer.size < SMALLEST:
        return f"a weight of {layer.size} numbers"
    if layer.kind != "Conv" and layer.rank != 2:
        return "a batch of matrices"
    if layer.kind == "Gemm":
        node = next(n for n in model.graph.node if n.name == layer.name)
        values = graphs.attributes(node)
        if values.get("alpha", 1.0) != 1.0 or values.get("beta", 1.0) != 1.0 or values.get("transA", 0):
            return "a scaled or transposed product"
    return ""


def quantize_weight(weight: Array, axis: int) -> tuple[Array, Array]:
    """int8 weights and their scales [channels] along an axis. A channel of zeros has scale 1.

    They have 7 bits on x86 without VNNI, whose kernels add two products with 8-bit inputs in 16 bits: 2 · 255 · 63
    fits, 2 · 255 · 127 saturates.
    """
    most = 127 if runtime.has_int8_kernels() else 63
    others = tuple(i for i in range(weight.ndim) if i != axis)
    peak = np.abs(weight).max(axis=others)
    scale = np.where(peak > 0, peak / most, 1).astype(np.float32)
    shape = [-1 if i == axis else 1 for i in range(weight.ndim)]
    rounded = np.clip(np.round(weight / scale.reshape(shape)), -most, most).astype(np.int8)
    return rounded, scale


def activation(low: float, high: float) -> tuple[np.float32, np.uint8]:
    """Scale and zero point that map [low, high], stretched to hold 0, onto 0…255."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / 255 or 1.0)
    return scale, np.uint8(np.clip(round(-low / float(scale)), 0, 255))


def dynamic(model: Any, layers: Collection[Layer]) -> Any:
    """Quantise these layers; each finds the range of its input when it runs. Changes the model."""
    rewriter = Rewriter(model)
    for layer in layers:
        node = rewriter.node(layer.name)
        nodes = (
            _dynamic_conv(rewriter, layer, node) if layer.kind == "Conv" else _dynamic_product(rewriter, layer, node)
        )
        rewriter.replace(layer.name, nodes)
    return rewriter.finish(("com.microsoft", 1))


def _dynamic_conv(rewriter: Rewriter, layer: Layer, node: Any) -> list[Any]:
    """DynamicQuantizeLinear → ConvInteger → · scale + bias."""
    n = layer.name
    weight, scale = quantize_weight(rewriter.value(layer.weight), 0)
    along = [1, -1] + [1] * (weight.ndim - 2)
    inputs = [f"{n}/q", rewriter.constant(f"{n}/w8", weight), f"{n}/zero", rewriter.constant(f"{n}/w_zero", 0, np.int8)]
    scales = rewriter.constant(f"{n}/w_scale", scale.reshape(along))
    summed = f"{n}/scaled" if layer.bias else layer.output
    nodes = [
        helper.make_node(
            "DynamicQuantizeLinear", [layer.data], [f"{n}/q", f"{n}/scale", f"{n}/zero"], name=f"{n}/quantize"
        ),
        helper.make_node("ConvInteger", inputs, [f"{n}/sum"], name=n, **graphs.attributes(node)),
        helper.make_node("Cast", [f"{n}/sum"], [f"{n}/float"], name=f"{n}/cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{n}/scale", scales], [f"{n}/step"], name=f"{n}/steps"),
        helper.make_node("Mul", [f"{n}/float", f"{n}/step"], [summed], name=f"{n}/scaling"),
    ]
    if layer.bias:
        bias = rewriter.constant(f"{n}/bias", rewriter.value(layer.bias).reshape(along))
        nodes.append(helper.make_node("Add", [summed, bias], [layer.output], name=f"{n}/biased"))
    return nodes


def _dynamic_product(rewriter: Rewriter, layer: Layer, node: Any) -> list[Any]:
    """DynamicQuantizeMatMul, which does all of it in one operator."""
    n = layer.name
    matrix = matrix_of(rewriter.value(layer.weight), node)
    weight, scale = quantize_weight(matrix, matrix.ndim - 1)
    inputs = [layer.data, rewriter.constant(f"{n}/w8", weight), rewriter.constant(f"{n}/w_scale", scale), ""]
    if layer.bias:
        inputs.append(layer.bias)
    while not inputs[-1]:
        inputs.pop()
    return [helper.make_node("DynamicQuantizeMatMul", inputs, [layer.output], name=n, domain="com.microsoft")]


def matrix_of(weight: Array, node: Any) -> Array:
    """The constant of a product as [in, out]."""
    return weight.T.copy() if node.op_type == "Gemm" and graphs.attributes(node).get("transB", 0) else weight


@dataclass(frozen=True)
class Scaling:
    """How one activation is quantised: (value − shift) / scale lies in [low, high].

    `shift`, `scale` [channels]: channels of very different loudness are brought to one before they share 256 steps.
    None where that would gain little.
    """

    low: float
    high: float
    shift: Array | None = None
    scale: Array | None = None


def channel_axis(layer: Layer) -> int:
    """Where an activation of this layer has its channels."""
    return 1 if layer.kind == "Conv" else -1


Scalings = Mapping[str, Scaling]  # by layer


def static(model: Any, layers: Collection[Layer], inputs: Scalings, outputs: Scalings) -> Any:
    """Quantise these layers with QDQ nodes around them, by the measured scalings of their inputs and outputs.

    onnxruntime turns dequantise → Conv → quantise into one integer convolution; products are one operator at once.
    Changes the model.
    """
    rewriter = Rewriter(model)
    quantised: dict[str, str] = {}
    for layer in layers:
        rewriter.replace(layer.name, _qdq(rewriter, layer, inputs[layer.name], outputs.get(layer.name), quantised))
    return rewriter.finish(("com.microsoft", 1))


def _qdq(
    rewriter: Rewriter, layer: Layer, coming: Scaling, going: Scaling | None, quantised: dict[str, str]
) -> list[Any]:
    """The nodes of one layer. `quantised`: tensor → its rounded form, for what several layers read as it is."""
    node = rewriter.node(layer.name)
    conv = layer.kind == "Conv"
    matrix = rewriter.value(layer.weight) if conv else matrix_of(rewriter.value(layer.weight), node)
    bias = rewriter.value(layer.bias) if layer.bias else None
    nodes, entry = _entry(rewriter, layer, coming, matrix.ndim, quantised)
    if coming.scale is not None:
        matrix = matrix * coming.scale.reshape([1, -1] + [1] * (matrix.ndim - 2) if conv else [-1, 1])
    if conv:
        assert going is not None
        return nodes + _qdq_conv(rewriter, node, entry, matrix, bias, coming, going)
    return nodes + _integer_product(rewriter, layer, entry, matrix, bias)


def _entry(
    rewriter: Rewriter, layer: Layer, coming: Scaling, rank: int, quantised: dict[str, str]
) -> tuple[list[Any], str]:
    """A layer's input, evened and rounded; the nodes that are new and its name."""
    if coming.scale is None and layer.data in quantised:
        return [], quantised[layer.data]
    nodes, source, entry = [], layer.data, f"{layer.name}/in"
    if coming.scale is None:
        quantised[layer.data] = entry
    else:
        along = [1, -1] + [1] * (rank - 2) if layer.kind == "Conv" else [-1]
        source = f"{layer.name}/even"
        nodes.append(_by_constant(rewriter, "Mul", layer.data, 1 / coming.scale.reshape(along), source))
    return nodes + _pair(rewriter, source, entry, *activation(coming.low, coming.high)), entry


def _qdq_conv(
    rewriter: Rewriter, node: Any, entry: str, matrix: Array, bias: Array | None, coming: Scaling, going: Scaling
) -> list[Any]:
    n, output = node.name, node.output[0]
    shift, scale = going.shift, going.scale
    along = [1, -1] + [1] * (matrix.ndim - 2)
    if scale is not None and shift is not None:
        matrix = matrix / scale.reshape([-1] + [1] * (matrix.ndim - 1))
        bias = ((0.0 if bias is None else bias) - shift) / scale
    nodes: list[Any] = []
    steps = activation(coming.low, coming.high)[0] * _weight(rewriter, n, matrix, nodes)
    names = [entry, f"{n}/weight"]
    if bias is not None:
        names.append(_bias(rewriter, n, bias, steps, nodes))
    nodes.append(helper.make_node("Conv", names, [f"{n}/out"], name=n, **graphs.attributes(node)))
    rounded = output if scale is None else f"{n}/rounded"
    nodes += _pair(rewriter, f"{n}/out", rounded, *activation(going.low, going.high))
    if scale is not None and shift is not None:
        nodes.append(_by_constant(rewriter, "Mul", rounded, scale.reshape(along), f"{n}/loud"))
        nodes.append(_by_constant(rewriter, "Add", f"{n}/loud", shift.reshape(along), output))
    return nodes


def _integer_product(rewriter: Rewriter, layer: Layer, entry: str, matrix: Array, bias: Array | None) -> list[Any]:
    """Integers in, floats out, in the one operator that onnxruntime has for it. It finds that itself for a plain
    product, but not for one with a bias: that one read its weights as floats in every run, 10 times slower.
    """
    n = layer.name
    weight, scale = quantize_weight(matrix, 1)
    names = [
        f"{entry}/q",
        rewriter.constant(f"{n}/w8", weight),
        f"{entry}/scale",
        rewriter.constant(f"{n}/w_scale", scale),
        f"{entry}/zero",
        rewriter.constant(f"{n}/w_zero", np.zeros(len(scale), np.int8)),
    ]
    if bias is not None:
        names.append(rewriter.constant(f"{n}/bias", bias, np.float32))
    return [helper.make_node("MatMulIntegerToFloat", names, [layer.output], name=n, domain="com.microsoft")]


def _by_constant(rewriter: Rewriter, kind: str, name: str, value: Array, output: str) -> Any:
    """One elementwise step with a constant."""
    constant = rewriter.constant(f"{output}/by", value, np.float32)
    return helper.make_node(kind, [name, constant], [output], name=f"{output}/{kind}")


def _weight(rewriter: Rewriter, n: str, matrix: Array, nodes: list[Any]) -> Array:
    """Add a convolution's int8 weights and the node that reads them as floats; their scales."""
    weight, scale = quantize_weight(matrix, 0)
    names = [
        rewriter.constant(f"{n}/w8", weight),
        rewriter.constant(f"{n}/w_scale", scale),
        rewriter.constant(f"{n}/w_zero", np.zeros(len(scale), np.int8)),
    ]
    nodes.append(helper.make_node("DequantizeLinear", names, [f"{n}/weight"], name=f"{n}/weights", axis=0))
    return scale


def _pair(rewriter: Rewriter, name: str, rounded: str, scale: np.float32, zero: np.uint8) -> list[Any]:
    """Quantise and dequantise a tensor."""
    constants = [rewriter.constant(f"{rounded}/scale", scale), rewriter.constant(f"{rounded}/zero", zero)]
    q = f"{rounded}/q"
    return [
        helper.make_node("QuantizeLinear", [name, *constants], [q], name=f"{rounded}/quantize"),
        helper.make_node("DequantizeLinear", [q, *constants], [rounded], name=f"{rounded}/dequantize"),
    ]


def _bias(rewriter: Rewriter, n: str, bias: Array, step: Array, nodes: list[Any]) -> str:
    """A convolution's bias as int32 in steps of input scale · weight scale, as integer kernels add it."""
    rounded = np.clip(np.round(bias / step), -(2**31) + 1, 2**31 - 1).astype(np.int32)
    names = [
        rewriter.constant(f"{n}/bias32", rounded),
        rewriter.constant(f"{n}/bias_scale", step, np.float32),
        rewriter.constant(f"{n}/bias_zero", np.zeros(len(rounded), np.int32)),
    ]
    nodes.append(helper.make_node("DequantizeLinear", names, [f"{n}/bias"], name=f"{n}/biases", axis=0))
    return f"{n}/bias"
