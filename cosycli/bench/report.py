"""What `cosy bench` shows: machine and figures as lines and a table, ratios with their meaning, a drawing."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cosycli import console
from cosycli.bench import chart
from cosycli.bench.compare import Ratio
from cosycli.bench.figures import FIGURES
from cosycli.bench.machine import told

Run = Mapping[str, Any]


def show(run: Run, *, as_json: bool) -> None:
    """A run on standard output."""
    if as_json:
        console.out_json(run)
        return
    show_machine(run)
    names = [result["name"] for result in run["results"]]
    rows = [(figure.label, *(_cell(name, result) for result in run["results"])) for name, figure in FIGURES.items()]
    console.table("Bench", ("measure", *names), rows, right=range(1, len(names) + 1))


def show_machine(run: Run) -> None:
    """Where and how it was measured, a line each; marked where no person reads them."""
    for line in told(run):
        console.out(line if sys.stdout.isatty() else f"# {line}")


def _cell(name: str, result: Mapping[str, Any]) -> str:
    """A figure, and how far the rounds lie around their middle."""
    around = result["spread"].get(name, 0)
    return FIGURES[name].shown(result[name]) + (f" ±{around:.0%}" if around >= 0.005 else "")


def draw(run: Run, path: Path, report: console.Console) -> None:
    """A run as a file, whole or not at all."""
    from cosycli.audio.atomic import write_atomically

    drawn = chart.png(run, told(run)) if path.suffix.lower() == ".png" else chart.html(run, told(run)).encode()
    write_atomically(path, drawn)
    report.note(f"drawn: {path}")


def tell_apart(runs: Sequence[Run], report: console.Console) -> None:
    """Runs of different days are no alternate runs; those of different machines or texts compare something else."""
    report.note("note: these were not measured in turns; what else the machine did may show in the ratios")
    for name in ("machine", "texts", "characters"):
        if any(run.get(name) != runs[0].get(name) for run in runs):
            what = "machine or versions" if name == "machine" else "texts"
            report.note(f"note: the {what} are not the same in both")
            return


def show_ratios(ratios: Sequence[Ratio]) -> None:
    """A table for each pair of setups."""
    for a, b in dict.fromkeys((ratio.a, ratio.b) for ratio in ratios):
        rows = []
        for r in ratios:
            if (r.a, r.b) == (a, b):
                figure = FIGURES[r.figure]
                times = "-" if r.ratio is None else f"{r.ratio:.2f}"
                rows.append((figure.label, figure.shown(r.before), figure.shown(r.after), times, r.meaning))
        columns = ("measure", f"A {a}", f"B {b}", "B/A", "meaning")
        console.table("Bench", columns, rows, right=(1, 2, 3))
