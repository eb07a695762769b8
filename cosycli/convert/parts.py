"""What both versions' flows are made of: the look-ahead layer, and what a solver's times turn into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cosycli.convert.build import Array, Graph

CYCLES = 1000  # by which a time is multiplied before it is embedded, as in Matcha-TTS


def look_ahead(graph: Graph, embedded: str, weights: Mapping[str, Array], prefix: str) -> str:
    """PreLookaheadLayer: embeddings [1, n + 3, channels] → [1, n, channels]; the last three are only looked at."""
    first, second = weights[f"{prefix}.conv1.weight"], weights[f"{prefix}.conv2.weight"]
    back = second.shape[2] - 1
    graph.input("tail.hidden", [1, first.shape[0], back])
    x = graph.op("Transpose", [embedded], perm=[0, 2, 1])
    hidden = graph.conv(x, "conv1", first, weights[f"{prefix}.conv1.bias"])
    hidden = graph.op("LeakyRelu", [hidden], alpha=0.01)
    joined = graph.op("Concat", ["tail.hidden", hidden], axis=2)
    out = graph.conv(joined, "conv2", second, weights[f"{prefix}.conv2.bias"])
    graph.keep(joined, back, 2, "tail.hidden")
    now = graph.op("Slice", [x, graph.axes(0), graph.axes(1 - first.shape[2]), graph.axes(2)])
    return graph.op("Transpose", [graph.add(out, now)], perm=[0, 2, 1])


def twice(graph: Graph, x: str, channels: int) -> str:
    """[1, n, channels] → [1, 2n, channels], each frame two times."""
    repeated = graph.op("Expand", [graph.op("Unsqueeze", [x, graph.axes(2)]), graph.axes(1, 1, 2, 1)])
    return graph.op("Reshape", [repeated, graph.axes(0, -1, channels)])


def mish(graph: Graph, x: str) -> str:
    """x · tanh(softplus(x))."""
    return graph.op("Mul", [x, graph.op("Tanh", [graph.op("Softplus", [x])])])


def silu(x: Array) -> Array:
    """x · sigmoid(x)."""
    made: Array = x / (1 + np.exp(-x))
    return made


def embedded_times(weights: Mapping[str, Array], layers: Sequence[str], times: Array) -> Array:
    """Times [n] through sinusoids and two linear layers with SiLU between them: [n, channels], float64."""
    count = weights[f"{layers[0]}.weight"].shape[1] // 2
    angle = CYCLES * times[:, None] * np.exp(np.arange(count) * -(np.log(10000) / (count - 1)))
    made = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    for place, name in enumerate(layers):
        made = silu(made) if place else made
        made = made @ weights[f"{name}.weight"].T.astype(np.float64) + weights[f"{name}.bias"]
    return made


class Table:
    """Collects vectors of one length that depend on the time; the graph gets them as one input, split."""

    def __init__(self, weights: Mapping[str, Array], embedded: Array) -> None:
        self._columns: list[Array] = []
        self._embedded = embedded.astype(np.float32)  # [times, channels]: what layers of the time begin with
        self._weights = weights

    def layer(self, name: str, parts: int = 1) -> list[Array]:
        """The `parts` vectors [times, dim] that a linear layer makes of the time."""
        made = self._embedded @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return np.split(made, parts, axis=1)

    def add(self, vectors: Array) -> int:
        """Keep vectors [times, dim]; their place."""
        self._columns.append(vectors.astype(np.float32))
        return len(self._columns) - 1

    def rows(self) -> Array:
        """[times, vectors · dim]."""
        return np.concatenate(self._columns, axis=1)

    def __len__(self) -> int:
        return len(self._columns)
