"""What graphs are fed while the engine speaks, and the range that each tensor needs: min-max, percentile, entropy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from onnx import helper

from cosycli.quantize import graphs
from cosycli.quantize.graphs import Array, Layer
from cosycli.quantize.int8 import Scaling
from cosycli.quantize.measures import kl
from cosycli.runtime import Session

Feed = Mapping[str, Array]
Range = tuple[float, float]

METHODS = ("entropy", "percentile", "minmax")
FEEDS = 24  # kept of each graph; more make calibration longer and its ranges hardly wider
BINS = 2048
LEVELS = 256  # of an unsigned 8-bit activation
PERCENT = 99.99
SAMPLE = 1 << 14  # values of one tensor taken from one run
TOGETHER = 24  # tensors looked at in one run of a graph: all at once would hold hundreds of megabytes


class Recorder:
    """Keeps what a graph is fed: every run at first, then every second, every fourth, so that all are sampled alike."""

    def __init__(self, limit: int = FEEDS) -> None:
        self.feeds: list[dict[str, Array]] = []
        self._limit, self._every, self._met = limit, 1, 0

    def __call__(self, feed: Mapping[str, Any]) -> None:
        if self._met % self._every == 0:
            if len(self.feeds) == self._limit:
                self.feeds = self.feeds[::2]
                self._every *= 2
            if self._met % self._every == 0:
                self.feeds.append({name: np.array(value) for name, value in feed.items()})  # buffers are used again
        self._met += 1


@contextmanager
def recorded(sessions: Mapping[str, Session]) -> Iterator[dict[str, Recorder]]:
    """Record what each of these graphs is fed meanwhile."""
    recorders = {name: Recorder() for name in sessions}
    try:
        for name, session in sessions.items():
            session.observer = recorders[name]
        yield recorders
    finally:
        for session in sessions.values():
            session.observer = None


class Values:
    """What one tensor held over all feeds, channel by channel: exact extremes, mean, deviation, and an even sample."""

    def __init__(self, axis: int) -> None:
        self._axis = axis
        self._low: Array = np.zeros(0)
        self._high: Array = np.zeros(0)
        self._sum: Array = np.zeros(0)
        self._squares: Array = np.zeros(0)
        self._count = 0
        self._sample: list[Array] = []

    def add(self, value: Array) -> None:
        """Take in what one run made; its channels lie along the axis."""
        rows = np.moveaxis(value, self._axis, 0).reshape(value.shape[self._axis], -1).astype(np.float32, copy=False)
        if not rows.size:
            return
        low, high = rows.min(axis=1), rows.max(axis=1)
        total = rows.sum(axis=1, dtype=np.float64)
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
        if not self._count:
            self._low, self._high, self._sum, self._squares = low, high, total, squares
        else:
            self._low, self._high = np.minimum(self._low, low), np.maximum(self._high, high)
            self._sum, self._squares = self._sum + total, self._squares + squares
        self._count += rows.shape[1]
        self._sample.append(rows[:, :: max(1, rows.size // SAMPLE)].copy())

    @property
    def peak(self) -> float:
        """The largest magnitude."""
        return float(max(np.abs(self._low).max(initial=0), np.abs(self._high).max(initial=0)))

    @property
    def peaks(self) -> Array:
        """The largest magnitude [channels]."""
        return np.maximum(np.abs(self._low), np.abs(self._high))

    @property
    def mean(self) -> Array:
        """Mean [channels]."""
        mean: Array = (self._sum / max(1, self._count)).astype(np.float32)
        return mean

    @property
    def deviation(self) -> Array:
        """Standard deviation [channels]."""
        spread = self._squares / max(1, self._count) - (self._sum / max(1, self._count)) ** 2
        deviation: Array = np.sqrt(np.maximum(spread, 0)).astype(np.float32)
        return deviation

    def limits(self, method: str, shift: Array | float = 0.0, scale: Array | float = 1.0) -> Range:
        """The range that (value − shift) / scale is quantised in; values outside are clipped to it."""
        low = float(np.min((self._low - shift) / scale))
        high = float(np.max((self._high - shift) / scale))
        if method == "minmax" or low >= high:
            return low, high
        column = (-1, 1) if isinstance(shift, np.ndarray) or isinstance(scale, np.ndarray) else (1, 1)
        shift, scale = np.reshape(shift, column), np.reshape(scale, column)
        values = np.concatenate([((part - shift) / scale).ravel() for part in self._sample])
        counts, edges = np.histogram(values, BINS, (low, high))
        return _percentile(counts, edges) if method == "percentile" else _entropy(counts, edges)


def watch(session: Session, tensors: Mapping[str, int], feeds: Iterable[Feed]) -> dict[str, Values]:
    """The values of tensors (name → axis of its channels) that a session has among its outputs."""
    found = {name: Values(axis) for name, axis in tensors.items()}
    names = list(tensors)
    for feed in feeds:
        for start in range(0, len(names), TOGETHER):
            group = names[start : start + TOGETHER]
            for name, value in zip(group, session.run(feed, group), strict=True):
                found[name].add(value)
    return found


def _percentile(counts: Array, edges: Array) -> Range:
    """The narrowest range with at most 0.01 % of the values beyond either end."""
    share = np.cumsum(counts) / counts.sum()
    cut = (100 - PERCENT) / 100
    first = int(np.searchsorted(share, cut, side="right"))
    last = int(np.searchsorted(share, 1 - cut, side="left"))
    return float(edges[first]), float(edges[min(last, BINS - 1) + 1])


def _entropy(counts: Array, edges: Array) -> Range:
    """The range whose clipped and rounded distribution is nearest to the tensor's own, by KL divergence.

    Migacz, "8-bit inference with TensorRT" (2017), for unsigned activations with a zero point: ranges shrink around
    zero from both ends alike, what is beyond is counted into the outermost bins.
    """
    peak = max(abs(edges[0]), abs(edges[-1]))
    best, chosen = float("inf"), (float(edges[0]), float(edges[-1]))
    for share in np.linspace(1.0, 0.1, 46):
        reach = peak * share
        first = max(0, int(np.searchsorted(edges, -reach, side="right")) - 1)
        last = min(BINS, int(np.searchsorted(edges, reach, side="left")))
        if last - first < LEVELS:
            break
        divergence = kl(_clipped(counts, first, last), _rounded(counts, first, last))
        if divergence < best:
            best, chosen = divergence, (float(edges[first]), float(edges[last]))
    return chosen


def _clipped(counts: Array, first: int, last: int) -> Array:
    """The distribution with what lies outside moved to the ends; over all bins, so that candidates compare."""
    clipped = np.zeros(BINS, np.float64)
    clipped[first:last] = counts[first:last]
    clipped[first] += counts[:first].sum()
    clipped[last - 1] += counts[last:].sum()
    return clipped


def _rounded(counts: Array, first: int, last: int) -> Array:
    """What 256 levels over [first, last) make of the counts inside it: each level's mass spread over its bins."""
    inside = counts[first:last].astype(np.float64)
    level = np.arange(last - first) * LEVELS // (last - first)
    filled = inside > 0
    mass = np.bincount(level, inside, LEVELS)
    bins = np.maximum(np.bincount(level, filled, LEVELS), 1)
    spread = np.zeros(BINS, np.float64)
    spread[first:last] = np.where(filled, (mass / bins)[level], 0)
    return spread


def with_peaks(model: Any, tensors: Sequence[str]) -> Any:
    """The model with the largest magnitude of each of these tensors as an output, which takes no memory to speak of."""
    wider = graphs.clone(model)
    for name in tensors:
        wider.graph.node.append(helper.make_node("Abs", [name], [f"{name}/abs"], name=f"{name}/abs"))
        peak = helper.make_node("ReduceMax", [f"{name}/abs"], [f"{name}/peak"], name=f"{name}/peak", keepdims=0)
        wider.graph.node.append(peak)
    return graphs.with_outputs(wider, [f"{name}/peak" for name in tensors])


def peaks(session: Session, tensors: Sequence[str], feeds: Iterable[Feed]) -> dict[str, float]:
    """The largest magnitude of each tensor over all feeds, from a model with `with_peaks`."""
    found = dict.fromkeys(tensors, 0.0)
    for feed in feeds:
        for name, value in zip(tensors, session.run(feed, [f"{name}/peak" for name in tensors]), strict=True):
            found[name] = max(found[name], float(value))
    return found


UNEVEN = 4.0  # a channel that is so many times louder than the median one takes the others' steps


def scalings(
    layers: Iterable[Layer], values: Mapping[str, Values], method: str, *, even: bool = True
) -> tuple[dict[str, Scaling], dict[str, Scaling]]:
    """How each layer's input, and each convolution's output, is quantised. With `even`, channels of very different
    loudness are scaled to one (Xiao et al., SmoothQuant, 2023; here outputs too, centred).
    """
    inputs, outputs = {}, {}
    for layer in layers:
        coming = values[layer.data]
        scale = _evening(coming.peaks) if even and layer.groups == 1 else None
        inputs[layer.name] = Scaling(*coming.limits(method, 0.0, 1.0 if scale is None else scale), None, scale)
        if layer.kind == "Conv":
            going = values[layer.output]
            outputs[layer.name] = _centred(going, method) if even else Scaling(*going.limits(method))
    return inputs, outputs


def _evening(peaks: Array) -> Array | None:
    middle = float(np.median(peaks))
    if not middle or peaks.max() < UNEVEN * middle:
        return None
    scale: Array = (np.maximum(peaks, middle / 100) / middle).astype(np.float32)
    return scale


def _centred(values: Values, method: str) -> Scaling:
    deviation, mean = values.deviation, values.mean
    middle = float(np.median(deviation))
    uneven = bool(middle) and max(float(deviation.max()), float(np.abs(mean).max())) > UNEVEN * middle
    if not uneven:
        return Scaling(*values.limits(method))
    scale = np.maximum(deviation, middle / 100)
    return Scaling(*values.limits(method, mean, scale), mean, scale)
