"""Small real ONNX models, for tests of what reads, changes and runs graphs."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, kind=FLOAT):
    """An input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def node(kind, inputs, outputs, **attributes):
    """A node named after its first output."""
    inputs, outputs = inputs.split(), outputs.split()
    attributes.setdefault("name", outputs[0])
    return helper.make_node(kind, [i if i != "-" else "" for i in inputs], outputs, **attributes)


def model(nodes, inputs, outputs, constants=None, opset=20):
    """A model of these nodes; constants by name."""
    initializers = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 9
    return made


def two_convs(seed=0, channels=32, **constants):
    """x [1, C, n] → Conv → LeakyRelu → Conv → y [1, C, n]."""
    random = np.random.default_rng(seed)
    shape = (channels, channels, 3)
    found = {
        "w1": (random.standard_normal(shape) / 10).astype(np.float32),
        "b1": random.standard_normal(channels).astype(np.float32),
        "w2": (random.standard_normal(shape) / 10).astype(np.float32),
        "b2": random.standard_normal(channels).astype(np.float32),
    } | constants
    nodes = [
        node("Conv", "x w1 b1", "first", pads=[1, 1]),
        node("LeakyRelu", "first", "active", alpha=0.1),
        node("Conv", "active w2 b2", "y", pads=[1, 1], name="second"),
    ]
    return model(nodes, [value("x", [1, channels, "n"])], [value("y", [1, channels, "n"])], found)


def noise(*shape, seed=1, scale=1.0):
    """float32 of a normal distribution."""
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)
