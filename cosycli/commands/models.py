"""`cosy models`: which models are here, which one speaks by default."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cosycli import console
from cosycli.commands.options import JsonOption, QuietOption
from cosycli.errors import UsageError

app = typer.Typer(help="List models, choose the default, remove one.", invoke_without_command=True)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")]


@app.callback()
def models(context: typer.Context, json: JsonOption = False) -> None:
    """List the models here: name, size, precision, default. `use` and `rm` change that."""
    if context.invoked_subcommand:
        return
    from cosycli.bundles import catalog
    from cosycli.engine import default_model

    default = default_model()
    rows = [_about(name, name == default) for name in catalog.names()]
    if json:
        console.out_json(rows)
        return
    table = [
        (row["name"], f"{row['bytes'] / 1e6:.0f} MB" if row["bytes"] else "not built yet", row["precision"],
         row["family"], row["licence"], "default" if row["default"] else "")
        for row in rows
    ]  # fmt: skip
    console.table("Models", ("name", "size", "precision", "family", "licence", ""), table)


def _about(name: str, default: bool) -> dict[str, Any]:
    from cosycli.bundles import catalog, store

    known = store.read_manifest(store.bundle_path(name)) or catalog.manifest(name)
    return {
        "name": name,
        "family": known.family,
        "precision": known.precision,
        "licence": known.licence,
        "bytes": sum(size for size, _ in known.files.values()),
        "default": default,
        "made": dict(known.made),
    }


@app.command("use")
def use(name: NameArgument, quiet: QuietOption = False) -> None:
    """Speak with a model from now on, where no --model and no COSY_MODEL is given."""
    from cosycli.bundles import catalog
    from cosycli.preferences import keep

    catalog.manifest(name)
    keep("model", name)
    console.Console(quiet).note(f"{name} speaks from now on")


@app.command("rm")
def remove(
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Remove a model from this machine."""
    import shutil

    from cosycli.bundles import catalog, embedded, store
    from cosycli.preferences import keep, kept

    if name == embedded.NAME:
        raise UsageError(f"{name} is part of cosy, and is built again when it is needed", "remove another one")
    about = _about(name, False)
    if not yes:
        command = about["made"].get("command", "")
        again = f" It can be made again: {command}." if command else ""
        typer.confirm(f"Remove {name}, {about['bytes'] / 1e6:.0f} MB?{again}", abort=True, err=True)
    folder = store.bundle_path(catalog.manifest(name).name)
    gone = folder.with_name(f".{name}~removed")
    folder.rename(gone)  # at once, so that nobody opens half a model
    shutil.rmtree(gone, ignore_errors=True)
    if kept("model") == name:
        keep("model", None)
    console.Console(quiet).note(f"removed {name}")
