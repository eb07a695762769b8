"""Version 3's flow: a token encoder that looks three tokens ahead, and a diffusion transformer (DiT).

The official modules are `CausalMaskedDiffWithDiT` and `DiT` (CosyVoice @ ace7c47); operators and constants are theirs.
Everything that depends on the solver's time alone is in a table of vectors, a row for each time.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cosycli.convert import build as graphs
from cosycli.convert.build import FLOAT, INT8, INT64, Array, Graph
from cosycli.convert.parts import Table, embedded_times, look_ahead, mish, silu, twice
from cosycli.quantize import int8

ESTIMATOR = "decoder.estimator"
HEAD = 64  # channels of an attention head
ROTATED = 64  # only the first 64 channels carry positions: rotation comes before the split into heads
POSITIONS = 15_000  # the longest sequence, in frames
EPSILON = 1e-6
SIGMAS = 6  # that keys and values reach from their mean, before anything is known of the voice


def build(folder: Path, weights: Mapping[str, Array], times: Array, precision: str) -> dict[str, Any]:
    """Write encoder, prepare and step graphs, and the table for these times [n]."""
    _encoder(folder, weights)
    _prepare(folder, weights)
    names = [f"{ESTIMATOR}.time_embed.time_mlp.{layer}" for layer in (0, 2)]
    table = Table(weights, silu(embedded_times(weights, names, times)))
    dim, layers = _step(folder, weights, table, precision)
    np.save(folder / "flow-table.npy", table.rows())
    return {"dim": dim, "layers": layers, "rate": 2}


def _encoder(folder: Path, weights: Mapping[str, Array]) -> None:
    """Token embeddings [1, n + 3, channels] → mu [1, 2n, channels]; the last three are only looked at."""
    channels = weights["pre_lookahead_layer.conv1.weight"].shape[1]
    graph = Graph(folder, "flow-encoder")
    graph.input("embedded", [1, "ahead", channels])
    out = look_ahead(graph, "embedded", weights, "pre_lookahead_layer")
    graph.output(twice(graph, out, channels), [1, "frames", channels], "mu")
    graph.save()


def _prepare(folder: Path, weights: Mapping[str, Array]) -> None:
    """What the steps of a chunk share: the input layer is linear, and so is the first convolution after it."""
    projection, bias = weights[f"{ESTIMATOR}.input_embed.proj.weight"], weights[f"{ESTIMATOR}.input_embed.proj.bias"]
    channels, dim = projection.shape[1] // 4, projection.shape[0]
    conv = f"{ESTIMATOR}.input_embed.conv_pos_embed.conv1.0"
    taps = weights[f"{conv}.weight"].shape[2]
    graph = Graph(folder, "flow-prepare")
    for name in ("cond", "mu", "spk"):
        graph.input(name, ["rows", "frames", channels])
    joined = graph.op("Concat", ["cond", "mu", "spk"], axis=2)
    hidden = graph.linear(joined, "input", projection[:, channels:], bias)
    graph.output(hidden, ["rows", "frames", dim], "prepared.hidden")
    graph.input("tail.hidden", ["rows", taps - 1, dim])
    joined = graph.op("Concat", ["tail.hidden", hidden], axis=1)
    x = graph.op("Transpose", [joined], perm=[0, 2, 1])
    groups = dim // weights[f"{conv}.weight"].shape[1]
    mixed = graph.conv(x, "conv1", weights[f"{conv}.weight"], weights[f"{conv}.bias"], group=groups)
    graph.output(mixed, ["rows", dim, "frames"], "prepared.mixed")
    graph.keep(joined, taps - 1, 1, "tail.hidden")
    graph.save()


def _step(folder: Path, weights: Mapping[str, Array], table: Table, precision: str) -> tuple[int, int]:
    """One evaluation: x [1, frames, channels] and what is prepared → velocity [rows, frames, channels]."""
    projection = weights[f"{ESTIMATOR}.input_embed.proj.weight"]
    channels, dim = projection.shape[1] // 4, projection.shape[0]
    graph = Graph(folder, "flow-step")
    layer = _Layer(graph, weights, table, dim, precision)
    layers = next(i for i in itertools.count() if f"{layer.prefix(i)}.attn_norm.linear.weight" not in weights)
    for index in range(layers):
        layer.plan(index)
    scale, shift = table.layer(f"{ESTIMATOR}.norm_out.linear", 2)  # in this order, other than in the blocks
    last = table.add(1 + scale), table.add(shift)

    graph.input("x", [1, "frames", channels])
    graph.input("table", [len(table) * dim])
    graph.input("place", ["rows", dim // HEAD, "frames", 3], INT64)
    graph.input("end", [1], INT64)
    graph.input("start", [1], INT64)
    if precision == "int8":
        layer.declare_ranges(folder / "flow-ranges.npz")
    layer.vectors = graph.ops("Split", ["table"], len(table), "vectors", axis=0)
    hidden = _input(graph, weights, projection[:, :channels])
    normed = layer.norm(hidden, layer.places[0][0:2])
    for index in range(layers):
        following = layer.places[index + 1][0:2] if index + 1 < layers else last
        hidden, normed = layer.block(index, hidden, normed, following)
    name = f"{ESTIMATOR}.proj_out"
    out = graph.linear(normed, "proj_out", weights[f"{name}.weight"], weights[f"{name}.bias"])
    graph.output(out, ["rows", "frames", channels], "velocity")
    graph.save()
    return dim, layers


def _input(graph: Graph, weights: Mapping[str, Array], projection: Array) -> str:
    """x and what was prepared → the blocks' input, with its convolutional positions."""
    dim = projection.shape[0]
    name = f"{ESTIMATOR}.input_embed.conv_pos_embed"
    first, second = (weights[f"{name}.conv{place}.0.weight"] for place in (1, 2))
    back, groups = first.shape[2] - 1, dim // first.shape[1]
    own = graphs.plain(graph, "x", "input", projection, None)
    graph.input("tail.own", [1, back, dim])
    joined = graph.op("Concat", ["tail.own", own], axis=1)
    graph.keep(joined, back, 1, "tail.own")
    graph.input("prepared.hidden", ["rows", "frames", dim])
    graph.input("prepared.mixed", ["rows", dim, "frames"])
    mixed = graph.conv(graph.op("Transpose", [joined], perm=[0, 2, 1]), "conv1", first, group=groups)
    mixed = mish(graph, graph.add("prepared.mixed", mixed))
    graph.input("tail.mixed", ["rows", dim, back])
    joined = graph.op("Concat", ["tail.mixed", mixed], axis=2)
    graph.keep(joined, back, 2, "tail.mixed")
    mixed = mish(graph, graph.conv(joined, "conv2", second, weights[f"{name}.conv2.0.bias"], group=groups))
    return graph.add(graph.add("prepared.hidden", own), graph.op("Transpose", [mixed], perm=[0, 2, 1]))


class _Layer:
    """A transformer block: first its weights are rounded and its vectors planned, then its nodes are made."""

    def __init__(self, graph: Graph, weights: Mapping[str, Array], table: Table, dim: int, precision: str) -> None:
        self._graph = graph
        self._weights = weights
        self._table = table
        self._dim = dim
        self._int8 = precision == "int8"
        self.places: list[tuple[int, ...]] = []
        self.vectors: list[str] = []
        angles = np.arange(POSITIONS)[:, None] / 10000 ** (np.arange(0, ROTATED, 2) / ROTATED)
        self._rotary = [graph.constant("cos", np.cos(angles)), graph.constant("sin", np.sin(angles))]
        self._caches = INT8 if self._int8 else FLOAT
        self._products: list[dict[str, Array]] = []  # in int8: what each block's `ranges` are made of
        self._ranges: list[str] = []  # three for each block

    def prefix(self, index: int) -> str:
        """Of the block's keys in the checkpoint."""
        return f"{ESTIMATOR}.transformer_blocks.{index}"

    def plan(self, index: int) -> None:
        """Round a block's weights, and put what depends on the time into the table."""
        weights, prefix = self._weights, self.prefix(index)
        names = [f"{prefix}.attn.to_{part}" for part in "qkv"]
        qkv = np.concatenate([weights[f"{name}.weight"] for name in names])
        bias = np.concatenate([weights[f"{name}.bias"] for name in names])
        shift_a, scale_a, gate_a, shift_f, scale_f, gate_f = self._table.layer(f"{prefix}.attn_norm.linear", 6)
        norm_a = self._norm(f"layers.{index}.qkv", qkv, bias, scale_a, shift_a, ranged=True)
        attention = norm_a + self._gate(f"layers.{index}.out", f"{prefix}.attn.to_out.0", gate_a)
        name = f"{prefix}.ff.ff.0.0"
        weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        norm_f = self._norm(f"layers.{index}.ff1", weight, bias, scale_f, shift_f)
        forward = norm_f + self._gate(f"layers.{index}.ff2", f"{prefix}.ff.ff.2", gate_f)
        self.places.append(attention + forward)

    def _norm(
        self, name: str, weight: Array, bias: Array, scale: Array, shift: Array, *, ranged: bool = False
    ) -> tuple[int, int]:
        """A product of what is normed and modulated. In int8 the inputs' channels are evened first: what one range
        for all of them must cover is known from the modulation, and the inverse goes into the weights (SmoothQuant).
        """
        gain = 1 + scale
        if self._int8:
            product = {"bias": bias, "reach": self._reach(weight, bias, gain, shift)} if ranged else {}
            reach = (3 * np.abs(gain) + np.abs(shift)).max(axis=0)
            even = np.sqrt(np.maximum(reach, 1e-4) / np.maximum(np.abs(weight).max(axis=0), 1e-6))
            even /= np.exp(np.mean(np.log(even)))
            gain, shift, weight = gain / even, shift / even, weight * even
        if self._int8 and ranged:
            self._products.append({"scale": np.asarray(self._constants(name, weight, None)), **product})
        else:
            self._constants(name, weight, bias)
        return self._table.add(gain), self._table.add(shift)

    def _reach(self, weight: Array, bias: Array, gain: Array, shift: Array) -> Array:
        """How far from 0 keys and values [2 · dim] come, if what is normed has unit variance and no correlations."""
        weight, bias = weight[self._dim :].astype(np.float64), bias[self._dim :]
        spread = np.sqrt((weight**2) @ (gain.astype(np.float64) ** 2).T).max(axis=1)
        mean = np.abs(weight @ shift.T.astype(np.float64) + bias[:, None]).max(axis=1)
        made: Array = (mean + SIGMAS * spread).astype(np.float32)
        return made

    def declare_ranges(self, path: Path) -> None:
        """Keys and values are kept in int8, each channel in a range of its own, which is an input: for each block what
        the product of queries, keys and values is scaled by, its bias, and what attention's outputs are scaled by.
        `path` gets what these are made of (see `backends.cosyvoice.ranges`).
        """
        graph, dim, blocks = self._graph, self._dim, len(self._products)
        parts = {key: np.stack([one[key] for one in self._products]) for key in ("scale", "bias", "reach")}
        np.savez(path, scale=parts["scale"], bias=parts["bias"], reach=parts["reach"])
        graph.input("ranges", [7 * dim * blocks])
        sizes = graph.constant("ranges.sizes", [3 * dim, 3 * dim, dim] * blocks, np.int64)
        self._ranges = graph.ops("Split", ["ranges", sizes], 3 * blocks, "ranged", axis=0)

    def _gate(self, name: str, key: str, gate: Array) -> tuple[int, int]:
        """A product whose outputs are multiplied by a gate: its scale in int8, and its bias, are the table's."""
        weight, bias = self._weights[f"{key}.weight"], self._weights[f"{key}.bias"]
        scale = self._constants(name, weight, None)
        return self._table.add(gate * scale), self._table.add(gate * bias)

    def _constants(self, name: str, weight: Array, bias: Array | None) -> Array | float:
        """Keep a weight; the scale that its rounded outputs must be multiplied by."""
        graph = self._graph
        if bias is not None:
            graph.constant(f"{name}.bias", bias)
        if not self._int8:
            graph.constant(f"{name}.weight", weight.T)
            return 1.0
        rounded, scale = int8.quantize_weight(np.ascontiguousarray(weight.T), 1)
        graph.constant(f"{name}.w8", rounded)
        if bias is not None:
            graph.constant(f"{name}.w_scale", scale)
        return scale

    def norm(self, x: str, vectors: tuple[int, ...]) -> str:
        """Layer norm with scale and bias from the table."""
        scale, bias = (self.vectors[place] for place in vectors)
        return self._graph.op("LayerNormalization", [x, scale, bias], axis=-1, epsilon=EPSILON)

    def _rounded(self, x: str, name: str, scale: str, bias: str) -> str:
        """A product with a weight in int8, whose scale and bias are constants or inputs."""
        return self._graph.contrib("DynamicQuantizeMatMul", [x, f"{name}.w8", scale, "", bias], name)

    def _product(self, x: str, name: str) -> str:
        graph = self._graph
        if self._int8:
            return self._rounded(x, name, f"{name}.w_scale", f"{name}.bias")
        return graph.op("Add", [graph.op("MatMul", [x, f"{name}.weight"], name), f"{name}.bias"])

    def _gated(self, x: str, name: str, gate: int, bias: int) -> str:
        graph, scale, shift = self._graph, self.vectors[gate], self.vectors[bias]
        if self._int8:
            return self._rounded(x, name, scale, shift)
        return graph.add(graph.op("Mul", [graph.op("MatMul", [x, f"{name}.weight"], name), scale]), shift)

    def block(self, index: int, x: str, normed: str, following: tuple[int, ...]) -> tuple[str, str]:
        """The block's output, and that normed for what follows."""
        graph = self._graph
        _, _, gate_a, bias_a, gain_f, shift_f, gate_f, bias_f = self.places[index]
        name = f"layers.{index}.qkv"
        if self._ranges:
            scale, bias, back = self._ranges[3 * index : 3 * index + 3]
            qkv = self._rounded(normed, name, scale, bias)
            mixed = graph.op("Mul", [self._attention(qkv, index), back])
        else:
            mixed = self._attention(self._product(normed, name), index)
        # Add and LayerNormalization: SkipLayerNormalization takes three times as long on a CPU.
        x = graph.add(x, self._gated(mixed, f"layers.{index}.out", gate_a, bias_a))
        normed = self.norm(x, (gain_f, shift_f))
        wide = graph.contrib("FastGelu", [self._product(normed, f"layers.{index}.ff1")])
        x = graph.add(x, self._gated(wide, f"layers.{index}.ff2", gate_f, bias_f))
        return x, self.norm(x, following)

    def _attention(self, qkv: str, index: int) -> str:
        graph, dim = self._graph, self._dim
        rest = dim - ROTATED
        sizes = graph.axes(ROTATED, rest, ROTATED, rest, dim)
        q0, q, k0, k, v = graph.ops("Split", [qkv, sizes], 5, axis=2)
        q0, k0 = (
            graph.contrib("RotaryEmbedding", [part, "start", *self._rotary], interleaved=1, num_heads=1)
            for part in (q0, k0)
        )
        query, key = (graph.op("Concat", [first, other], axis=2) for first, other in ((q0, q), (k0, k)))
        whole = [
            graph.cached(part, f"cache.{index}.{kind}", dim // HEAD, HEAD, self._caches)
            for part, kind in ((key, "k"), (v, "v"))
        ]
        return graph.contrib("MultiHeadAttention", [query, *whole], f"layers.{index}.attention", num_heads=dim // HEAD)
