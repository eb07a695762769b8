"""Version 2's flow: a Conformer encoder, and a causal UNet of one level as estimator.

The official modules are `CausalMaskedDiffWithXvec` and `CausalConditionalDecoder` (CosyVoice @ ace7c47); operators and
constants are theirs. Positions come from the convolutions alone, whose ends are kept; attention keeps keys and values.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cosycli.convert import build as graphs
from cosycli.convert import conformer
from cosycli.convert.build import FLOAT, FLOAT16, INT64, Array, Graph
from cosycli.convert.parts import Table, embedded_times, mish

ESTIMATOR = "decoder.estimator"
HEAD = 64  # channels of an attention head in the release
EPSILON = 1e-5
FIRST = f"{ESTIMATOR}.down_blocks.0.0"


def build(
    folder: Path, weights: Mapping[str, Array], times: Array, precision: str, head: int | None = None
) -> dict[str, Any]:
    """Write encoder, upsample, prepare and step graphs, and the table for these times [n].

    `head` is the width of the estimator's attention heads, which no tensor tells. The release's is 64; a model so small
    that this would leave it one head has two.
    """
    product = graphs.dynamic if precision == "int8" else graphs.plain
    conformer.build(folder, weights, product)
    _prepare(folder, weights)
    embedded = embedded_times(weights, [f"{ESTIMATOR}.time_mlp.linear_{layer}" for layer in (1, 2)], times)
    table = Table(weights, embedded * np.tanh(np.logaddexp(0, embedded)))  # mish, which every layer begins with
    step = _Step(folder, weights, table, precision, head)
    step.write()
    np.save(folder / "flow-table.npy", table.rows())
    return {"dim": step.dim, "layers": step.layers, "rate": 2}


def _flat(weight: Array) -> Array:
    """A convolution's weight [out, in, taps] for frames side by side: [out, taps · in]."""
    made: Array = np.ascontiguousarray(weight.transpose(0, 2, 1)).reshape(len(weight), -1)
    return made


def _side_by_side(graph: Graph, x: str, tail: str, rows: int | str, channels: int, taps: int) -> str:
    """x [rows, n, channels] and what came before it, `tail` → [rows, n, taps · channels]."""
    graph.input(tail, [rows, taps - 1, channels])
    joined = graph.op("Concat", [tail, x], axis=1)
    graph.keep(joined, taps - 1, 1, tail)
    far = np.iinfo(np.int64).max
    parts = [
        graph.op("Slice", [joined, graph.axes(tap), graph.axes(tap - taps + 1 or far), graph.axes(1)])
        for tap in range(taps)
    ]
    return graph.op("Concat", parts, axis=2)


def _prepare(folder: Path, weights: Mapping[str, Array]) -> None:
    """What the steps of a chunk share: the first layers are linear in mu, speaker and prompt."""
    conv, direct = weights[f"{FIRST}.block1.block.0.weight"], weights[f"{FIRST}.res_conv.weight"]
    dim, inputs, taps = conv.shape
    channels = inputs // 4
    graph = Graph(folder, "flow-prepare")
    for name in ("cond", "mu", "spk"):
        graph.input(name, ["rows", "frames", channels])
    joined = graph.op("Concat", ["mu", "spk", "cond"], axis=2)
    beside = _side_by_side(graph, joined, "tail.shared", "rows", inputs - channels, taps)
    for x, name, weight, bias in (
        (beside, "conv", conv, weights[f"{FIRST}.block1.block.0.bias"]),
        (joined, "direct", direct, weights[f"{FIRST}.res_conv.bias"]),
    ):
        made = graph.linear(x, name, _flat(weight[:, channels:]), bias)
        graph.output(made, ["rows", "frames", dim], f"prepared.{name}")
    graph.save()


class _Step:
    """One evaluation: x [1, frames, channels] and what is prepared → velocity [rows, frames, channels]."""

    def __init__(
        self, folder: Path, weights: Mapping[str, Array], table: Table, precision: str, head: int | None
    ) -> None:
        int8 = precision == "int8"
        self.graph = Graph(folder, "flow-step", graphs.dynamic if int8 else graphs.plain)
        self.dim = int(weights[f"{FIRST}.block1.block.0.weight"].shape[0])
        self.layers = 0  # of attention, so far
        self._weights = weights
        self._kind = FLOAT16 if int8 else FLOAT
        middle = [
            f"{ESTIMATOR}.mid_blocks.{index}" for index in self._indices(f"{ESTIMATOR}.mid_blocks", "0.mlp.1.bias")
        ]
        self._middle = middle
        resnets = [FIRST, *[f"{name}.0" for name in middle], f"{ESTIMATOR}.up_blocks.0.0"]
        self._times = {name: table.add(*table.layer(f"{name}.mlp.1")) for name in resnets}
        self._vectors: list[str] = []
        self._inner = int(weights[f"{ESTIMATOR}.down_blocks.0.1.0.attn1.to_q.weight"].shape[0])
        self._head = head or min(HEAD, self._inner // 2)
        self._heads = self._inner // self._head

    def _indices(self, prefix: str, key: str) -> range:
        return range(next(i for i in itertools.count() if f"{prefix}.{i}.{key}" not in self._weights))

    def write(self) -> None:
        """Write the graph."""
        graph, dim = self.graph, self.dim
        channels = int(self._weights[f"{ESTIMATOR}.final_proj.weight"].shape[0])
        graph.input("x", [1, "frames", channels])
        graph.input("table", [len(self._times) * dim])
        graph.input("place", ["rows", self._heads, "frames", 3], INT64)
        graph.input("end", [1], INT64)
        for name in ("conv", "direct"):
            graph.input(f"prepared.{name}", ["rows", "frames", dim])
        self._vectors = graph.ops("Split", ["table"], len(self._times), "vectors", axis=0)
        x = self._mixed(self._first(channels), f"{ESTIMATOR}.down_blocks.0.1")
        skipped = x
        x = self._conv(x, f"{ESTIMATOR}.down_blocks.0.2", "down")
        for place, name in enumerate(self._middle):
            x = self._mixed(self._resnet(x, f"{name}.0", f"mid.{place}"), f"{name}.1")
        x = graph.op("Concat", [x, skipped], axis=2)
        x = self._mixed(self._resnet(x, f"{ESTIMATOR}.up_blocks.0.0", "up.resnet"), f"{ESTIMATOR}.up_blocks.0.1")
        x = self._conv(x, f"{ESTIMATOR}.up_blocks.0.2", "up")
        x = self._conv(x, f"{ESTIMATOR}.final_block.block.0", "final")
        x = self._activated(x, f"{ESTIMATOR}.final_block", "final")
        name = f"{ESTIMATOR}.final_proj"
        out = graph.linear(x, "final_proj", _flat(self._weights[f"{name}.weight"]), self._weights[f"{name}.bias"])
        graph.output(out, ["rows", "frames", channels], "velocity")
        graph.save()

    def _first(self, channels: int) -> str:
        """The first resnet: both guidance rows share x, and the rest of its input is prepared."""
        graph, weights = self.graph, self._weights
        conv, direct = (weights[f"{FIRST}.{key}.weight"][:, :channels] for key in ("block1.block.0", "res_conv"))
        beside = _side_by_side(graph, "x", "tail.first", 1, channels, conv.shape[2])
        hidden = graph.add("prepared.conv", graphs.plain(graph, beside, "first.conv", _flat(conv), None))
        hidden = self._rest(hidden, FIRST, "first")
        return graph.add(hidden, "prepared.direct", graphs.plain(graph, "x", "first.direct", _flat(direct), None))

    def _resnet(self, x: str, key: str, name: str) -> str:
        hidden = self._rest(self._conv(x, f"{key}.block1.block.0", f"{name}.conv1"), key, name)
        weight, bias = self._weights[f"{key}.res_conv.weight"], self._weights[f"{key}.res_conv.bias"]
        return self.graph.add(hidden, self.graph.linear(x, f"{name}.direct", _flat(weight), bias))

    def _rest(self, hidden: str, key: str, name: str) -> str:
        """A resnet after its first convolution."""
        hidden = self._activated(hidden, f"{key}.block1", f"{name}.1")
        hidden = self.graph.add(hidden, self._vectors[self._times[key]])
        return self._activated(
            self._conv(hidden, f"{key}.block2.block.0", f"{name}.conv2"), f"{key}.block2", f"{name}.2"
        )

    def _conv(self, x: str, key: str, name: str) -> str:
        weight, bias = self._weights[f"{key}.weight"], self._weights[f"{key}.bias"]
        _, channels, taps = weight.shape
        beside = _side_by_side(self.graph, x, f"tail.{name}", "rows", channels, taps)
        return self.graph.linear(beside, name, _flat(weight), bias)

    def _activated(self, x: str, key: str, name: str) -> str:
        return mish(self.graph, self.graph.norm(x, f"{name}.norm", self._weights, f"{key}.block.2", EPSILON))

    def _mixed(self, x: str, prefix: str) -> str:
        """The transformer blocks after a resnet."""
        graph, weights = self.graph, self._weights
        for index in self._indices(prefix, "norm1.weight"):
            key, name = f"{prefix}.{index}", f"layers.{self.layers}"
            normed = graph.norm(x, f"{name}.norm1", weights, f"{key}.norm1", EPSILON)
            packed = np.concatenate([weights[f"{key}.attn1.to_{kind}.weight"] for kind in ("q", "k", "v")])
            query, keys, values = graph.ops("Split", [graph.linear(normed, f"{name}.qkv", packed)], 3, axis=2)
            held = [
                graph.cached(part, f"cache.{self.layers}.{kind}", self._heads, self._head, self._kind)
                for part, kind in ((keys, "k"), (values, "v"))
            ]
            mixed = graph.contrib("MultiHeadAttention", [query, *held], f"{name}.attention", num_heads=self._heads)
            out, bias = weights[f"{key}.attn1.to_out.0.weight"], weights[f"{key}.attn1.to_out.0.bias"]
            x = graph.add(x, graph.linear(mixed, f"{name}.out", out, bias))
            normed = graph.norm(x, f"{name}.norm3", weights, f"{key}.norm3", EPSILON)
            wide, bias = weights[f"{key}.ff.net.0.proj.weight"], weights[f"{key}.ff.net.0.proj.bias"]
            hidden = graph.contrib("Gelu", [graph.linear(normed, f"{name}.ff1", wide, bias)])
            narrow, bias = weights[f"{key}.ff.net.2.weight"], weights[f"{key}.ff.net.2.bias"]
            x = graph.add(x, graph.linear(hidden, f"{name}.ff2", narrow, bias))
            self.layers += 1
        return x
