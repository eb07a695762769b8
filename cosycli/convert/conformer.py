"""Version 2's token encoder: a look-ahead layer, attention at 25 Hz, upsampling, attention at 50 Hz.

The official module is `UpsampleConformerEncoder` (CosyVoice @ ace7c47): no convolution module, no macaron; positions
are relative (Transformer-XL), so that keys and values can be kept. A graph for each rate.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cosycli.convert.build import FLOAT, INT64, Array, Graph, Product
from cosycli.convert.parts import look_ahead, twice

EPSILON = 1e-12  # of the layers' norms
LAST_EPSILON = 1e-5  # of all others


def embedding(weights: Mapping[str, Array]) -> Array:
    """The token table [tokens, channels] after the encoder's input layer, which sees one token at a time."""
    table = np.asarray(weights["input_embedding.weight"], np.float32)
    out = table @ weights["encoder.embed.out.0.weight"].T + weights["encoder.embed.out.0.bias"]
    out = (out - out.mean(1, keepdims=True)) / np.sqrt(out.var(1, keepdims=True) + LAST_EPSILON)
    out = out * weights["encoder.embed.out.1.weight"] + weights["encoder.embed.out.1.bias"]
    made: Array = (out * np.sqrt(out.shape[1])).astype(np.float32)
    return made


def build(folder: Path, weights: Mapping[str, Array], product: Product) -> None:
    """Write `flow-encoder` (embeddings [1, n + 3, channels] → hidden [1, n, channels]) and `flow-upsample` (→ mu
    [1, 2n, mel channels]).
    """
    channels = weights["encoder.after_norm.weight"].shape[0]
    graph = Graph(folder, "flow-encoder", product)
    graph.input("embedded", [1, "ahead", channels])
    hidden = look_ahead(graph, "embedded", weights, "encoder.pre_lookahead_layer")
    hidden = _layers(graph, hidden, weights, "encoder.encoders")
    graph.output(hidden, [1, "tokens", channels], "hidden")
    graph.save()

    graph = Graph(folder, "flow-upsample", product)
    graph.input("hidden", [1, "tokens", channels])
    taps = weights["encoder.up_layer.conv.weight"].shape[2]
    graph.input("tail.repeated", [1, taps - 1, channels])
    joined = graph.op("Concat", ["tail.repeated", twice(graph, "hidden", channels)], axis=1)
    graph.keep(joined, taps - 1, 1, "tail.repeated")
    x = graph.op("Transpose", [joined], perm=[0, 2, 1])
    x = graph.conv(x, "up_layer", weights["encoder.up_layer.conv.weight"], weights["encoder.up_layer.conv.bias"])
    x = graph.op("Transpose", [x], perm=[0, 2, 1])
    x = graph.linear(x, "up_embed", weights["encoder.up_embed.out.0.weight"], weights["encoder.up_embed.out.0.bias"])
    x = graph.norm(x, "up_norm", weights, "encoder.up_embed.out.1", LAST_EPSILON)
    x = graph.op("Mul", [x, graph.scalar(float(np.sqrt(channels)))])
    x = _layers(graph, x, weights, "encoder.up_encoders")
    x = graph.norm(x, "after_norm", weights, "encoder.after_norm", LAST_EPSILON)
    mu = graph.linear(x, "proj", weights["encoder_proj.weight"], weights["encoder_proj.bias"])
    graph.output(mu, [1, "frames", weights["encoder_proj.weight"].shape[0]], "mu")
    graph.save()


def _layers(graph: Graph, x: str, weights: Mapping[str, Array], prefix: str) -> str:
    heads, width = weights[f"{prefix}.0.self_attn.pos_bias_u"].shape
    graph.input("place", ["rows", heads, "frames", 3], INT64)
    graph.input("end", [1], INT64)
    graph.input("start", [1], INT64)
    positions = _sinusoids(graph, heads * width)
    for index in itertools.count():
        name = f"{prefix}.{index}"
        if f"{name}.norm_mha.weight" not in weights:
            return x
        normed = graph.norm(x, f"layers.{index}.norm_mha", weights, f"{name}.norm_mha", EPSILON)
        x = graph.add(x, _attention(graph, normed, positions, weights, f"{name}.self_attn", index))
        normed = graph.norm(x, f"layers.{index}.norm_ff", weights, f"{name}.norm_ff", EPSILON)
        wide = _linear(graph, normed, weights, f"{name}.feed_forward.w_1", f"layers.{index}.ff1")
        wide = graph.op("Mul", [wide, graph.op("Sigmoid", [wide])])
        x = graph.add(x, _linear(graph, wide, weights, f"{name}.feed_forward.w_2", f"layers.{index}.ff2"))
    raise AssertionError


def _linear(graph: Graph, x: str, weights: Mapping[str, Array], key: str, name: str) -> str:
    return graph.linear(x, name, weights[f"{key}.weight"], weights.get(f"{key}.bias"))


def _sinusoids(graph: Graph, channels: int) -> str:
    """[distances, channels] for the distances end − 1, end − 2, … −(new frames): from each new frame to each before
    and after it. One more than there are, for `_shifted`.
    """
    zero, one = graph.axes(0), graph.scalar(1)
    start, end = (
        graph.op("Squeeze", [graph.op("Cast", [value], to=FLOAT), zero], f"{value}/float") for value in ("start", "end")
    )
    count = graph.op("Sub", [end, start])
    last = graph.op("Neg", [graph.op("Add", [count, one])])
    distances = graph.op("Range", [graph.op("Sub", [end, one]), last, graph.scalar(-1)])
    steps = np.arange(0, channels, 2, dtype=np.float32) * np.float32(-np.log(10000.0) / channels)
    frequencies = graph.constant("frequencies", np.exp(steps)[None])
    angle = graph.op("Mul", [graph.op("Unsqueeze", [distances, graph.axes(1)]), frequencies])
    pair = [graph.op("Unsqueeze", [graph.op(kind, [angle]), graph.axes(2)]) for kind in ("Sin", "Cos")]
    return graph.op("Reshape", [graph.op("Concat", pair, axis=2), graph.axes(-1, channels)])


def _attention(graph: Graph, x: str, positions: str, weights: Mapping[str, Array], prefix: str, index: int) -> str:
    heads, width = weights[f"{prefix}.pos_bias_u"].shape
    dim, name = heads * width, f"layers.{index}"
    query, key, value = (
        _linear(graph, x, weights, f"{prefix}.linear_{kind}", f"{name}.{kind}") for kind in ("q", "k", "v")
    )
    keys, values = (
        graph.cached(part, f"cache.{index}.{kind}", heads, width) for part, kind in ((key, "k"), (value, "v"))
    )
    split = graph.axes(0, 0, heads, width)
    query = graph.op("Mul", [query, graph.scalar(width**-0.5)])
    biased = []
    for kind in ("u", "v"):
        bias = weights[f"{prefix}.pos_bias_{kind}"].reshape(dim) * width**-0.5
        added = graph.add(query, graph.constant(f"{name}.bias_{kind}", bias))
        biased.append(graph.op("Transpose", [graph.op("Reshape", [added, split])], perm=[0, 2, 1, 3]))
    by_content, by_distance = biased
    projected = _linear(graph, positions, weights, f"{prefix}.linear_pos", f"{name}.pos")
    projected = graph.op("Reshape", [projected, graph.axes(-1, heads, width)])
    projected = graph.op("Transpose", [projected], perm=[1, 2, 0])
    distant = _shifted(graph, graph.op("MatMul", [by_distance, projected]), heads)
    content = graph.op("MatMul", [by_content, graph.op("Transpose", [keys], perm=[0, 1, 3, 2])])
    shares = graph.op("Softmax", [graph.add(content, distant)], axis=-1)
    mixed = graph.op("Transpose", [graph.op("MatMul", [shares, values])], perm=[0, 2, 1, 3])
    mixed = graph.op("Reshape", [mixed, graph.axes(0, 0, dim)])
    return _linear(graph, mixed, weights, f"{prefix}.linear_out", f"{name}.out")


def _shifted(graph: Graph, scores: str, heads: int) -> str:
    """Scores by distance [1, heads, n, end + n] → by key [1, heads, n, end].

    Row i begins n − 1 − i further to the right: in one piece of memory that is rows of one less, from n − 1 on.
    """
    count = graph.op("Sub", ["end", "start"])
    one = graph.axes(1)
    first = graph.op("Sub", [count, one])
    row = graph.op("Sub", [graph.op("Add", ["end", count]), one])
    flat = graph.op("Reshape", [scores, graph.axes(0, heads, -1)])
    after = graph.op("Add", [first, graph.op("Mul", [count, row])])
    flat = graph.op("Slice", [flat, first, after, graph.axes(2)])
    shape = graph.op("Concat", [graph.axes(1), graph.axes(heads), count, row], axis=0)
    rows = graph.op("Reshape", [flat, shape])
    return graph.op("Slice", [rows, graph.axes(0), "end", graph.axes(3)])
