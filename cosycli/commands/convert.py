"""`cosy convert`: a CosyVoice release on disk becomes a model that `cosy` speaks with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosycli import console
from cosycli.commands.options import QuietOption, VerboseOption


def convert(
    checkpoint: Annotated[Path, typer.Argument(metavar="FOLDER", help="A release: llm.pt, flow.pt, hift.pt, a yaml.")],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="NAME", help="The model's name.", show_default="cosyvoice3")
    ] = None,
    precision: Annotated[
        str,
        typer.Option("--precision", metavar="NAME", help="int8, for CPUs; float32, for GPUs and to quantize."),
    ] = "int8",
    rl: Annotated[
        bool, typer.Option("--rl", help="Take the language model tuned by reinforcement learning, llm.rl.pt.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a model of this name.")] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Convert a CosyVoice 3 checkpoint, without PyTorch. Nothing in it is executed."""
    from cosycli.convert.make import convert as make

    report = console.Console(quiet, verbose)
    name, notes = make(checkpoint, output, precision=precision, tuned=rl, replace=force, progress=report.step)
    for line in notes:
        report.note(f"note: {line}")
    report.note(f"use it: cosy speak --model {name} 你好")
