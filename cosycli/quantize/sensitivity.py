"""Which layers a quantisation hurts: each one alone, what becomes of its output and of the sound; and how many to
put back until a condition holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from cosycli.errors import InferenceError
from cosycli.quantize import graphs, measures
from cosycli.quantize.calibrate import Feed
from cosycli.quantize.fp16 import half_name
from cosycli.quantize.graphs import Array, Layer
from cosycli.quantize.methods import Prepared, open_model
from cosycli.quantize.reference import Reference
from cosycli.runtime import Session

FEEDS = 2  # runs of a graph that a layer's output is taken from
TEXTS = 1  # check texts that are spoken for each layer
SAMPLE = 1 << 16  # values of an output


@dataclass(frozen=True)
class Sensitivity:
    """One layer quantised alone. `kl`: divergence of its output's distribution, in nats; `snr`, `lsd`: of the sound,
    in dB (`lsd` None where timing changed).
    """

    graph: str
    layer: str
    kind: str
    size: int
    kl: float
    snr: float
    lsd: float | None


def rank(reference: Reference, prepared: Sequence[Prepared], advance: Callable[[], None]) -> list[Sensitivity]:
    """All layers, the one that hurts most first."""
    found = []
    for one in prepared:
        feeds = _spread(reference.feeds[one.name])
        session = open_model(graphs.with_outputs(one.model, [layer.output for layer in one.layers]))
        for layer in one.layers:
            found.append(_alone(reference, one, layer, feeds, session))
            advance()
    return sorted(found, key=lambda s: (s.snr, -s.kl))


def _spread(feeds: Sequence[Feed]) -> list[Feed]:
    """Two of them, from the middle of the first and of the second half."""
    return [feeds[(2 * i + 1) * len(feeds) // (2 * FEEDS)] for i in range(FEEDS)] if feeds else []


def _alone(reference: Reference, one: Prepared, layer: Layer, feeds: Sequence[Feed], original: Session) -> Sensitivity:
    model = one.only([layer.name])
    made = {name for node in model.graph.node for name in node.output}
    output = layer.output if layer.output in made else half_name(layer.output)
    session = open_model(graphs.with_outputs(model, [output]))
    before, after = _values(original, layer.output, feeds), _values(session, output, feeds)
    try:
        fidelity = reference.fidelity({one.name: session}, TEXTS)
    except InferenceError:  # not numbers: nothing hurts more
        return Sensitivity(one.name, layer.name, layer.kind, layer.size, float("inf"), float("-inf"), None)
    kl = measures.divergence(before, after) if np.isfinite(after).all() else float("inf")
    return Sensitivity(one.name, layer.name, layer.kind, layer.size, kl, fidelity.snr, fidelity.lsd)


def _values(session: Session, tensor: str, feeds: Sequence[Feed]) -> Array:
    values = [session.run(feed, [tensor])[0].ravel() for feed in feeds]
    flat = np.concatenate(values) if values else np.zeros(1, np.float32)
    return flat[:: max(1, flat.size // SAMPLE)]


def fewest(count: int, holds: Callable[[int], bool]) -> int | None:
    """The smallest n in 0…count for which it holds, if more is never worse; None if not even all are enough."""
    if holds(0):
        return 0
    low, high = 0, count  # does not hold for low
    if not holds(count):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def sessions(prepared: Sequence[Prepared], excluded: Collection[str]) -> dict[str, Session]:
    """The graphs as they will sound without these layers ("graph:layer"). One with nothing quantised is left out."""
    found = {}
    for one in prepared:
        names = excluded_of(one, excluded)
        if len(names) < len(one.layers):
            found[one.name] = open_model(one.listen(names))
    return found


def excluded_of(one: Prepared, excluded: Collection[str]) -> list[str]:
    """The layers of one graph among these."""
    return [layer.name for layer in one.layers if f"{one.name}:{layer.name}" in excluded]


def worst(ranking: Sequence[Sensitivity], count: int) -> list[str]:
    """The first of a ranking as "graph:layer"."""
    return [f"{entry.graph}:{entry.layer}" for entry in ranking[:count]]
