"""`cosy voice`: voices of CosyVoice models, made of recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosycli import console
from cosycli.commands.options import JsonOption, QuietOption
from cosycli.errors import ModelError, UsageError

if TYPE_CHECKING:
    from cosycli.types import Samples

app = typer.Typer(help="Add, list, show and remove voices of CosyVoice models.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The voice's name.")]
BundleOption = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", envvar="COSY_MODEL", help="A CosyVoice model, if there are several.", show_default=False
    ),
]


def chosen(model: str | None) -> str:
    """The CosyVoice model that is meant: the one named, or the only one. Raises UsageError, ModelError."""
    from cosycli.bundles import catalog

    if model and catalog.manifest(model).family == "cosyvoice":
        return model
    known = [name for name in catalog.names() if catalog.manifest(name).family == "cosyvoice"]
    if not known:
        raise ModelError("there is no CosyVoice model here", "convert one first: cosy convert FOLDER")
    if len(known) > 1:
        versions = {_version(name) for name in known}
        if len(versions) > 1:
            raise UsageError(f"there are several models: {', '.join(known)}", "name one with --model")
    return known[0]


def _folder(model: str) -> Path:
    from cosycli.bundles import catalog

    return catalog.ensure(model, lambda step: None)[0]


def _version(model: str) -> int:
    from cosycli.backends import cosyvoice
    from cosycli.bundles import store

    return int(cosyvoice.config(store.bundle_path(model))["version"])


@app.command("add")
def add(
    name: NameArgument,
    audio: Annotated[Path, typer.Option("--audio", "-a", metavar="FILE", help="3 to 10 s of one person's speech.")],
    text: Annotated[
        str | None, typer.Option("--text", "-t", metavar="TEXT", help="What is said in it.", show_default=False)
    ] = None,
    model: BundleOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a voice of this name.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Make a voice of a recording. With what is said in it, the voice speaks as there; else only its sound is taken."""
    from cosycli.backends.cosyvoice import prompt
    from cosycli.bundles import voices as packs
    from cosycli.convert.make import pack
    from cosycli.runtime import Session

    report = console.Console(quiet)
    packs.check_name(name)
    folder = _folder(chosen(model))
    version = _config(folder)["version"]
    if name in packs.paths(version) and not force:
        raise UsageError(f"there is a voice {name} already", "give another name, or --force")
    samples, rate = read(audio)
    encoders = [folder / f"{kind}.onnx" for kind in ("speech_tokenizer", "speaker_encoder")]
    for path in encoders:
        if not path.is_file():
            raise ModelError(f"{folder.name} has no {path.name}", "convert it again from a whole release")
    opened = [Session(path) for path in encoders]
    made = prompt.make(
        samples, rate, (text or "").strip(), opened[0], opened[1], _config(folder)["fmax"],
        lambda line: report.note(f"note: {line}"),
    )  # fmt: skip
    packs.write(packs.folder(version) / f"{name}{packs.SUFFIX}", pack(name, made, {"source": audio.name}))
    if not made.text:
        report.note("note: without --text the voice is spoken across languages only: its sound, not its manner")
    report.note(f"use it: cosy speak --model {folder.name} --voice {name} 你好")


def _config(folder: Path) -> dict[str, Any]:
    from cosycli.backends import cosyvoice

    return cosyvoice.config(folder)


def read(path: Path) -> tuple[Samples, int]:
    """A sound file's samples [n, channels] and rate. Raises UsageError."""
    import soundfile

    from cosycli.backends.cosyvoice.prompt import LONGEST

    if not path.is_file():
        raise UsageError(f"there is no file {path}", "give a recording: WAV, FLAC, MP3 or OGG")
    try:
        with soundfile.SoundFile(str(path)) as file:
            if file.frames > 4 * LONGEST * file.samplerate:
                seconds = file.frames / file.samplerate
                raise UsageError(f"{path} is {seconds:.0f} s long, and 30 s is the limit", "cut 3 to 10 s out of it")
            return file.read(dtype="float32", always_2d=True), int(file.samplerate)
    except (RuntimeError, ValueError) as error:
        raise UsageError(f"{path} is no sound file that can be read: {error}", "convert it to WAV") from error


@app.command("list")
def list_(model: BundleOption = None, json: JsonOption = False) -> None:
    """List the voices of a CosyVoice model."""
    from cosycli.backends import cosyvoice
    from cosycli.bundles import voices as packs

    folder = _folder(chosen(model))
    found = packs.paths(_config(folder)["version"], folder)
    default = cosyvoice.default_voice(folder) if found else ""
    rows = [_about(packs.read(path), name == default, path) for name, path in found.items()]
    if json:
        console.out_json(rows)
        return
    keys = ("name", "seconds", "transcript", "source")
    table = [(*(str(row[key]) for key in keys), "default" if row["default"] else "") for row in rows]
    console.table("Voices", (*keys, ""), table)


def _about(pack: Any, default: bool, path: Path) -> dict[str, Any]:
    seconds = round(len(pack.arrays["tokens"]) / 25, 1)
    return {
        "name": pack.name,
        "seconds": seconds,
        "transcript": pack.text,
        "source": pack.facts.get("source", ""),
        "licence": pack.facts.get("licence", ""),
        "default": default,
        "file": str(path),
    }


@app.command("show")
def show(name: NameArgument, model: BundleOption = None, json: JsonOption = False) -> None:
    """Show what is known about a voice."""
    from cosycli.backends import cosyvoice
    from cosycli.bundles import voices as packs

    folder = _folder(chosen(model))
    found = packs.paths(_config(folder)["version"], folder)
    if name not in found:
        raise ModelError(f"there is no voice {name!r}", f"voices of this model: {', '.join(sorted(found)) or 'none'}")
    about = _about(packs.read(found[name]), name == cosyvoice.default_voice(folder), found[name])
    if json:
        console.out_json(about)
        return
    console.table(name, ("", ""), [(key, str(value)) for key, value in about.items()])


@app.command("rm")
def remove(name: NameArgument, model: BundleOption = None, quiet: QuietOption = False) -> None:
    """Remove a voice that was added."""
    from cosycli.bundles import voices as packs

    folder = _folder(chosen(model))
    added = packs.paths(_config(folder)["version"])
    if name not in added:
        own = name in packs.paths(_config(folder)["version"], folder)
        raise ModelError(
            f"{name} belongs to the model, and stays" if own else f"there is no voice {name!r}",
            f"voices that were added: {', '.join(sorted(added)) or 'none'}",
        )
    added[name].unlink()
    console.Console(quiet).note(f"removed the voice {name}")
