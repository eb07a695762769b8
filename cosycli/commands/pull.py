"""`cosy pull`: download an official release and convert it."""

from __future__ import annotations

from typing import Annotated

import typer

from cosycli import console
from cosycli.commands.convert import ForceOption, NameOption, PrecisionOption, TunedOption
from cosycli.commands.options import QuietOption, VerboseOption


def pull(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="cosyvoice3 or cosyvoice2.")],
    source: Annotated[str, typer.Option("--source", metavar="HUB", help="huggingface or modelscope.")] = "huggingface",
    output: NameOption = None,
    precision: PrecisionOption = "int8",
    rl: TunedOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Download an official release (3.4 GB) and convert it. What broke off goes on when it is run again.

    Mirrors: HF_ENDPOINT for Hugging Face, MODELSCOPE_DOMAIN for ModelScope.
    """
    from cosycli.bundles.hub import download
    from cosycli.commands.convert import convert

    report = console.Console(quiet, verbose)
    report.step(f"downloading {release} from {source}")
    folder = download(release, source, tuned=rl, shown=not quiet)
    convert(folder, output, precision, rl, force, quiet, verbose)
    report.note(f"the release lies in {folder}; it can be deleted")
