"""`cosy convert`: a CosyVoice release on disk becomes a model that `cosy` speaks with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosycli import console
from cosycli.commands.options import QuietOption, VerboseOption

NameOption = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="NAME", help="The model's name.", show_default="cosyvoice2 or cosyvoice3"),
]
PrecisionOption = Annotated[
    str, typer.Option("--precision", metavar="NAME", help="int8, for CPUs; float32, for GPUs and to quantize.")
]
TunedOption = Annotated[
    bool, typer.Option("--rl", help="Take the language model tuned by reinforcement learning, llm.rl.pt.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a model of this name.")]


def convert(
    checkpoint: Annotated[Path, typer.Argument(metavar="FOLDER", help="A release: llm.pt, flow.pt, hift.pt, a yaml.")],
    output: NameOption = None,
    precision: PrecisionOption = "int8",
    rl: TunedOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Convert a CosyVoice 2 or 3 checkpoint, without PyTorch. Nothing in it is executed."""
    from cosycli.convert.make import STEPS
    from cosycli.convert.make import convert as make

    report = console.Console(quiet, verbose)
    with console.work_bar(STEPS, shown=not quiet) as bar:
        done = iter(range(STEPS + 1))

        def progress(what: str) -> None:
            if bar is None:
                report.step(what)
            else:
                bar.show(what, next(done, STEPS))

        name, notes = make(checkpoint, output, precision=precision, tuned=rl, replace=force, progress=progress)
    for line in notes:
        report.note(f"note: {line}")
    report.note(f"use it: cosy speak --model {name} 你好")
