"""float32 graphs → float16, with what overflows or loses sound kept in float32, and why.

A tensor keeps its name where it is float32; its float16 form is `name/fp16`. So a node that stays in float32, an
output, or a subgraph that reads a tensor from outside finds what it expected, and casts stand only where both forms
are needed. Explicit casts, random nodes, loops and branches stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cosycli.quantize import graphs

LARGEST = 65504.0
MARGIN = 4.0  # another text may be this much louder than those that were measured

# Operators that stay in float32, and why. All others convert if their definition allows float16.
KEPT_KINDS: dict[str, str] = {
    **dict.fromkeys(
        ("LayerNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "RMSNormalization",
         "SkipSimplifiedLayerNormalization", "InstanceNormalization", "GroupNormalization", "GroupNorm",
         "BatchNormalization", "LpNormalization", "MeanVarianceNormalization"),
        "norm: sums of squares overflow",
    ),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Exp", "Log", "Pow", "Softplus"), "exponential: overflows"),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceL2", "ReduceSumSquare", "CumSum"), "long sum: loses digits"),
    **dict.fromkeys(("Sin", "Cos", "Tan", "Atan", "Floor", "Mod", "Round", "Ceil"), "phase: a turn needs its digits"),
    **dict.fromkeys(("Sqrt", "Reciprocal", "STFT", "DFT", "Resize", "Upsample", "Range"), "spectrum or position"),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial",
                     "Bernoulli", "EyeLike", "ConstantOfShape"), "makes float32 by definition"),
    **dict.fromkeys(("If", "Loop", "Scan", "SequenceMap"), "a subgraph"),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "ConvInteger",
                     "MatMulInteger", "QLinearMatMul"), "already integer arithmetic"),
    "Cast": "an explicit cast",
    "CastLike": "an explicit cast",
}  # fmt: skip
# Contributed operators whose inputs and outputs of floats may all be float16 (docs/ContribOperators of ONNX Runtime).
CONTRIB = ("Attention", "MultiHeadAttention", "GroupQueryAttention", "FastGelu", "BiasGelu", "Gelu", "QuickGelu",
           "FusedConv", "FusedMatMul", "RotaryEmbedding", "BiasSplitGelu", "NhwcConv", "Snake")  # fmt: skip


def plan(
    model: Any,
    types: Mapping[str, str],
    peaks: Mapping[str, float],
    keep: Mapping[str, str],
) -> tuple[set[str], dict[str, str]]:
    """Which nodes convert, and why each of the others that hold floats stays.

    `types`: tensor → onnxruntime's type ("tensor(float)"); `peaks`: largest magnitude met in a tensor; `keep`: prefix
    of node names → reason.
    """
    residual = _residual_sums(model.graph)
    constants = graphs.weights(model.graph)
    peak = {name: float(np.abs(numpy_helper.to_array(t)).max(initial=0)) for name, t in constants.items()
            if t.data_type == TensorProto.FLOAT}  # fmt: skip
    for name, value in peaks.items():
        peak[name] = MARGIN * value
    converted, kept = set(), {}
    for node in model.graph.node:
        floats = [n for n in (*node.input, *node.output) if types.get(n) == "tensor(float)" or n in peak]
        if not floats:
            continue
        reason = _reason(node, keep, residual) or _overflow(node, peak)
        if reason:
            kept[node.name] = reason
        else:
            converted.add(node.name)
    return converted, kept


def _reason(node: Any, keep: Mapping[str, str], residual: Collection[str]) -> str:
    for prefix, reason in keep.items():
        if node.name.startswith(prefix):
            return reason
    if node.op_type in KEPT_KINDS:
        return KEPT_KINDS[node.op_type]
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        return "a subgraph"
    if node.name in residual:
        return "residual sum: a small part would be rounded away"
    return "" if _free(node) else "no float16 form of this operator is known"


def _overflow(node: Any, peak: Mapping[str, float]) -> str:
    worst = max((peak.get(name, 0.0) for name in (*node.input, *node.output)), default=0.0)
    return f"values up to {worst:.3g} with margin: overflows" if worst > LARGEST else ""


def _free(node: Any) -> bool:
    """Whether the operator's definition allows float16 wherever it takes or makes floats that vary."""
    if node.domain not in ("", "ai.onnx"):
        return node.op_type in CONTRIB
    return bool(_float16_positions(node)[0])


def _float16_positions(node: Any) -> tuple[set[int], set[int]]:
    """The inputs and outputs, by position, that become float16 when the node does."""
    if node.domain not in ("", "ai.onnx"):
        return set(range(len(node.input))), set(range(len(node.output)))
    try:
        schema = onnx.defs.get_schema(node.op_type, max_inclusive_version=onnx.defs.onnx_opset_version())
    except onnx.defs.SchemaError:
        return set(), set()
    wide = {c.type_param_str for c in schema.type_constraints if "tensor(float16)" in c.allowed_type_strs}

    def positions(formal: Any, count: int) -> set[int]:
        last = len(formal) - 1  # the last one may stand for any number
        return {i for i in range(count) if formal and formal[min(i, last)].type_str in wide}

    return positions(schema.inputs, len(node.input)), positions(schema.outputs, len(node.output))


def _residual_sums(graph: Any) -> set[str]:
    """Additions of a tensor and something that was computed from it by a layer."""
    place = {name: i for i, node in enumerate(graph.node) for name in node.output}
    through: list[dict[str, bool]] = []  # per node: ancestors' outputs within reach → whether a layer lies between
    found = set()
    for node in graph.node:
        reach: dict[str, bool] = {}
        layer = node.op_type in graphs.LAYERS
        for name in node.input:
            above = through[place[name]] if name in place else {}
            for ancestor, passed in (*above.items(), (name, False)):
                reach[ancestor] = reach.get(ancestor, False) or passed or layer
        if node.op_type == "Add" and len(node.input) == 2:
            a, b = node.input
            for one, other in ((a, b), (b, a)):
                if other in place and through[place[other]].get(one):
                    found.add(node.name)
        through.append(dict(list(reach.items())[-_REACH:]))
    return found


_REACH = 400  # tensors looked back for a residual's start; blocks are far shorter


def convert(model: Any, types: Mapping[str, str], converted: Collection[str]) -> Any:
    """The model with these nodes in float16. Inputs and outputs keep their types. Changes the model."""
    return _Writer(model, types, converted).write(twin=False)


def rounding_twin(model: Any, types: Mapping[str, str], converted: Collection[str]) -> Any:
    """A float32 model that rounds what `convert` stores in float16, overflow included.

    On the CPU onnxruntime computes float16 nodes in float32 and drops the casts between them, so a float16 model
    sounds better there than on a GPU. This one does not: it is what quality is measured with.
    """
    return _Writer(model, types, converted).write(twin=True)


class _Writer:
    """Writes the nodes in order, with casts made when they are first needed."""

    def __init__(self, model: Any, types: Mapping[str, str], converted: Collection[str]) -> None:
        self.model, self.graph = model, model.graph
        self.converted = converted
        self.constants = graphs.weights(model.graph)
        self.floats = {name for name, kind in types.items() if kind == "tensor(float)"}
        self.floats |= {name for name, t in self.constants.items() if t.data_type == TensorProto.FLOAT}
        self.have: set[str] = {i.name for i in self.graph.input} | set(self.constants)
        self.nodes: list[Any] = []
        self.halves: list[Any] = []

    def write(self, *, twin: bool) -> Any:
        """Rewrite the graph."""
        outputs = {output.name for output in self.graph.output}
        for node in self.graph.node:
            half = node.name in self.converted
            ins, outs = _float16_positions(node) if half else (set(), set())
            for name in graphs.captured(node):
                self._float32(name)
            new = onnx.NodeProto()
            new.CopyFrom(node)
            for i, name in enumerate(node.input):
                if name in self.floats:
                    new.input[i] = self._float16(name) if i in ins else self._float32(name)
            made = [i for i, name in enumerate(node.output) if i in outs and name in self.floats]
            for i in made:
                new.output[i] = half_name(node.output[i])
            self.nodes.append(new)
            self.have.update(new.output)
            for name in node.output:
                if name in outputs and name not in self.have:
                    self._float32(name)
        return self._finish(twin)

    def _float16(self, name: str) -> str:
        half = half_name(name)
        if half not in self.have:
            if name in self.constants:
                value = numpy_helper.to_array(self.constants[name]).astype(np.float16)
                self.halves.append(numpy_helper.from_array(value, half))
            else:
                self.nodes.append(helper.make_node("Cast", [name], [half], name=f"cast/{half}", to=TensorProto.FLOAT16))
            self.have.add(half)
        return half

    def _float32(self, name: str) -> str:
        if name not in self.have and half_name(name) in self.have:
            cast = helper.make_node("Cast", [half_name(name)], [name], name=f"cast/{name}", to=TensorProto.FLOAT)
            self.nodes.append(cast)
            self.have.add(name)
        return name

    def _finish(self, twin: bool) -> Any:
        nodes, halves = (self._rounded(), [_widened(t) for t in self.halves]) if twin else (self.nodes, self.halves)
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        used = {n for node in nodes for n in (*node.input, *graphs.captured(node))} | {
            o.name for o in self.graph.output
        }
        kept = [tensor for tensor in self.graph.initializer if tensor.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend([*kept, *halves])
        del self.graph.value_info[:]
        return self.model

    def _rounded(self) -> list[Any]:
        """The nodes with every float16 tensor in float32, rounded by a cast there and back."""
        nodes = []
        for node in self.nodes:
            new = onnx.NodeProto()
            new.CopyFrom(node)
            if node.name.startswith("cast/"):
                if node.output[0].endswith(_HALF):
                    nodes += _there_and_back(node.input[0], node.output[0])
                else:  # the float32 form of what was rounded already
                    nodes.append(helper.make_node("Identity", node.input, node.output, name=node.name))
                continue
            for i, name in enumerate(node.output):
                if name.endswith(_HALF):
                    new.output[i] = f"{name}/exact"
            nodes.append(new)
            nodes += [n for name in node.output if name.endswith(_HALF) for n in _there_and_back(f"{name}/exact", name)]
        return nodes


_HALF = "/fp16"


def half_name(name: str) -> str:
    """What a tensor's float16 form is called."""
    return name + _HALF


def _there_and_back(name: str, rounded: str) -> list[Any]:
    middle = f"{rounded}/half"
    return [
        helper.make_node("Cast", [name], [middle], name=f"{rounded}/there", to=TensorProto.FLOAT16),
        helper.make_node("Cast", [middle], [rounded], name=f"{rounded}/back", to=TensorProto.FLOAT),
    ]


def _widened(tensor: Any) -> Any:
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name)
