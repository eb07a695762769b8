"""What a quantisation came to: the figures before and after, the ranking of layers, as rows, JSON or an HTML page."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cosycli.bench import chart
from cosycli.bench.chart import Bar, Words
from cosycli.bench.compare import NOISE
from cosycli.bench.figures import FIGURES
from cosycli.quantize.make import Made

SHOWN = ("load_seconds", "memory_mb", "latency_p50", "latency_p95", "real_time_factor")
LOUDEST = 60.0  # dB of SNR that the plot reaches to; more is as good as equal
COLOUR, PUT_BACK = "#2a6f97", "#c8553d"


def columns(made: Made, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The setups that were measured; the last is the new bundle."""
    return [result["name"] for result in results[:-1]] + [f"{made.name} (new)"]


def rows(made: Made, results: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Size, speed and quality of each setup, a row a figure. Quality is against the source in float32."""
    sizes = [result["size"] for result in results]
    found = [("size of the graphs (MB)", *(f"{size / 1e6:.0f}" for size in sizes))]
    for name in SHOWN:
        found.append((FIGURES[name].label, *(FIGURES[name].shown(result[name]) for result in results)))
    qualities = [result["fidelity"] for result in results]
    found.append(("SNR (dB)", *(_decibels(quality["snr"]) for quality in qualities)))
    found.append(("log-spectral distance (dB)", *(_decibels(quality["lsd"], 2) for quality in qualities)))
    return found


def _decibels(value: float | None, decimals: int = 1) -> str:
    if value is None:
        return "timing changed"
    if math.isinf(value):
        return "equal" if value > 0 else "none"
    return f"{value:.{decimals}f}"


def verdict(made: Made, results: Sequence[Mapping[str, Any]], remarks: Sequence[str]) -> tuple[list[str], list[str]]:
    """What was gained, and warnings, in words. The first of the results is the source in float32."""
    source, new = results[0], results[-1]
    size = new["size"] / source["size"]
    good, bad = [], list(remarks)
    if size < 0.98:
        good.append(f"{made.name} is {1 / size:.1f} times smaller than {source['name']}")
    for other in results[:-1]:
        ratio = new["real_time_factor"] / other["real_time_factor"]
        noise = max(NOISE, *(float(one.get("spread", {}).get("real_time_factor", 0)) for one in (other, new)))
        if ratio > 1 + noise:
            bad.append(f"{made.name} is {ratio:.2f} times slower than {other['name']}")
        elif ratio < 1 - noise:
            good.append(f"{made.name} is {1 / ratio:.2f} times faster than {other['name']}")
        else:
            good.append(f"{made.name} is as fast as {other['name']} (within ±{noise:.0%})")
    if made.put_back:
        good.append(f"{len(made.put_back)} of {made.quantised + len(made.put_back)} layers stay in float: worst first")
    return good, bad


def as_json(made: Made, results: Sequence[Mapping[str, Any]], words: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """All of it. SNR of equal signals, which JSON has no number for, is null."""
    source, new = results[0], results[-1]
    plain = {
        **made.as_json(),
        "before": source,
        "after": new,
        "measured": list(results),
        "size_ratio": new["size"] / source["size"],
        "speed_ratio": source["real_time_factor"] / new["real_time_factor"],
        **words,
    }
    return dict(_finite(plain))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value


def text(report: Mapping[str, Any]) -> bytes:
    """A report as a JSON file."""
    return (json.dumps(report, ensure_ascii=False, indent=1) + "\n").encode()


def html(
    made: Made, results: Sequence[Mapping[str, Any]], words: Mapping[str, Sequence[str]], about: Sequence[str]
) -> bytes:
    """A page that needs nothing else: figures, the ranking as a plot and as a table, and why other nodes stay."""
    parts = [chart.table(("", *columns(made, results)), rows(made, results))]
    if made.ranking:
        drawn = list(_plot(made))
        parts += [
            "<h2>Each layer quantised alone</h2>",
            "<p>SNR of the sound in dB: a short bar hurts. Red layers were put back to float.</p>",
            chart.svg(drawn, chart.BAR * (len(made.ranking) + 1)),
            chart.table(
                ("layer", "operator", "weights", "KL divergence (nats)", "SNR (dB)", "log-spectral distance (dB)"),
                [
                    (
                        f"{s.graph}:{s.layer}",
                        s.kind,
                        f"{s.size:,}",
                        f"{s.kl:.2e}",
                        _decibels(s.snr),
                        _decibels(s.lsd, 2),
                    )
                    for s in made.ranking
                ],
            ),
        ]
    if made.kept:
        parts += ["<h2>Kept in float32 by rule</h2>", chart.table(("graph", "nodes", "why"), _reasons(made))]
    lines = [*about, *words["gained"], *(f"Warning: {line}" for line in words["warnings"])]
    return chart.page(f"{made.name}: {made.source} as {made.precision}", lines, "\n".join(parts)).encode()


def _plot(made: Made) -> Iterator[Bar | Words]:
    """A bar a layer, the worst on top."""
    back = set(made.put_back)
    for index, s in enumerate(made.ranking):
        name, y = f"{s.graph}:{s.layer}", index * chart.BAR
        value = LOUDEST if math.isinf(s.snr) and s.snr > 0 else min(LOUDEST, max(0.0, s.snr))
        length = max(1.0, chart.WIDTH * value / LOUDEST)
        yield Words(chart.LEFT - 10, y + chart.BAR / 2, name[-34:], to_the_left=True)
        yield Bar(chart.LEFT, y, length, PUT_BACK if name in back else COLOUR)
        yield Words(chart.LEFT + length + 6, y + chart.BAR / 2, _decibels(s.snr))


def _reasons(made: Made) -> list[tuple[str, ...]]:
    counted = Counter((graph, reason) for graph, nodes in made.kept.items() for reason in nodes.values())
    return [(graph, str(count), reason) for (graph, reason), count in counted.most_common()]
