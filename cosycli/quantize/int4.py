"""Large matrix products with weights of 4 bits: `MatMulNBits`, a scale for each block of inputs of each output."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from onnx import helper

from cosycli.quantize import int8
from cosycli.quantize.graphs import Array, Layer, Rewriter

BLOCKS = (16, 32, 64, 128, 256)
SMALLEST = 1 << 14  # numbers in a weight


def candidates(model: Any, keep: Mapping[str, str]) -> tuple[list[Layer], dict[str, str]]:
    """The products that are worth it, and why each other layer stays."""
    fit, kept = int8.candidates(model, int8.PRODUCTS, keep)
    large = []
    for layer in fit:
        if layer.size < SMALLEST:
            kept[layer.name] = f"a weight of {layer.size} numbers"
        else:
            large.append(layer)
    return large, kept


def pack(matrix: Array, block: int, bits: int = 4) -> tuple[Array, Array]:
    """[in, out] → integers of 4 or 8 bits, uint8 [out, blocks, block · bits / 8], low half first, and scales
    [out, blocks].

    Symmetric around the middle: the block's value of largest magnitude, sign included, becomes −8 (−128), so that all
    steps are used (the rule of onnxruntime's and llama.cpp's 4-bit blocks).
    """
    middle = 1 << (bits - 1)
    rows = matrix.T.astype(np.float32)
    blocks = -(-rows.shape[1] // block)
    rows = np.pad(rows, ((0, 0), (0, blocks * block - rows.shape[1]))).reshape(len(rows), blocks, block)
    high, low = rows.max(axis=2), rows.min(axis=2)
    scale = np.where(high > -low, high, low) / -middle
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    rows *= inverse[..., None]
    q = np.clip(np.rint(rows, out=rows) + middle, 0, 2 * middle - 1).astype(np.uint8)
    packed = q if bits == 8 else q[..., 0::2] | (q[..., 1::2] << 4)
    return packed, scale.astype(np.float32)


def unpack(packed: Array, scale: Array, inputs: int) -> Array:
    """The matrix [in, out] that 4-bit weights stand for."""
    q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:2], -1).astype(np.float32) - 8
    matrix: Array = (q * scale[..., None]).reshape(len(packed), -1)[:, :inputs].T
    return matrix


def convert(model: Any, layers: Collection[Layer], block: int = 32, accuracy: int = 4) -> Any:
    """These products with 4-bit weights. `accuracy`: 0 lets the kernel choose, 1 computes in float32, 4 in int8.

    Changes the model.
    """
    rewriter = Rewriter(model)
    for layer in layers:
        n = layer.name
        node = rewriter.node(n)
        matrix = int8.matrix_of(rewriter.value(layer.weight), node)
        packed, scale = pack(matrix, block)
        inputs = [layer.data, rewriter.constant(f"{n}/w4", packed), rewriter.constant(f"{n}/scales", scale.ravel())]
        product = f"{n}/product" if layer.bias else layer.output
        size = {"K": matrix.shape[0], "N": matrix.shape[1], "bits": 4, "block_size": block, "accuracy_level": accuracy}
        nodes = [helper.make_node("MatMulNBits", inputs, [product], name=n, domain="com.microsoft", **size)]
        if layer.bias:
            nodes.append(helper.make_node("Add", [product, layer.bias], [layer.output], name=f"{n}/biased"))
        rewriter.replace(n, nodes)
    return rewriter.finish(("com.microsoft", 1))
