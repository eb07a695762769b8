"""A release → a bundle with a name."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cosycli.backends.cosyvoice import CONFIG, DEFAULT_VOICE, FORMAT
from cosycli.bundles import store, voices
from cosycli.convert import checkpoint, flow, hift, qwen2, release
from cosycli.errors import ModelError, UsageError

PRECISIONS = ("int8", "float32")
ENCODERS = ("speech_tokenizer", "speaker_encoder")
# What the default voice says in its recording, and who. Three seconds: every second of a prompt is work in every chunk.
DEFAULT_TEXT = "您好，很高兴为您朗读，我们慢慢聊吧。"
DEFAULT_SPEAKER = "zf_xiaoxiao"

STEPS = 5  # that progress is told of
Progress = Callable[[str], None]


def convert(
    source: Path,
    name: str | None = None,
    *,
    precision: str = "int8",
    tuned: bool = False,
    replace: bool = False,
    progress: Progress = lambda step: None,
) -> tuple[str, list[str]]:
    """Make a bundle of a release's folder; its name, and what is to be told. It appears complete or not at all.

    Raises ModelError for a release that cannot be read, UsageError for a name that is taken or a bad precision.
    """
    if precision not in PRECISIONS:
        raise UsageError(f"there is no precision {precision!r} to convert to", f"choose {' or '.join(PRECISIONS)}")
    notes: list[str] = []
    with release.opened(source, tuned=tuned) as found:
        name = name or f"cosyvoice{found.version}"
        if not store.is_name(name):
            raise UsageError(f"{name!r} cannot be a model's name", "use letters, digits, - and _")
        command = ["cosy", "convert", str(source.resolve()), "-o", name, "--precision", precision]
        manifest = store.Manifest(
            name=name,
            family="cosyvoice",
            version=str(FORMAT),
            precision=precision,
            licence="Apache-2.0",
            rate=24_000,
            made={"command": shlex.join(command + ["--rl"] * tuned), "model": f"CosyVoice {found.version}"},
        )

        def build(folder: Path) -> store.Manifest:
            notes.extend(_fill(folder, found, precision, progress))
            progress("checking what was written")
            from dataclasses import replace as changed

            sources = {path.name: store.file_digest(path) for path in found.sources}
            return changed(manifest, made={**manifest.made, "sources": sources})

        store.add(manifest, build, replace=replace)
    return name, notes


def _fill(folder: Path, found: release.Release, precision: str, progress: Progress) -> list[str]:
    settings: dict[str, Any] = {
        "format": FORMAT,
        "version": found.version,
        "precision": precision,
        "fmax": found.fmax,
    }
    progress(f"converting the language model to {precision}")
    settings["lm"] = qwen2.build(folder, found.llm, found.config, found.version, found.speech, precision)
    progress(f"converting the flow to {precision}")
    settings["flow"] = flow.build(folder, found.flow, found.version, precision, found.head)
    progress("converting the vocoder")
    settings["vocoder"] = hift.build(folder, found.hift, found.version)
    if found.tokenizer is None:
        raise ModelError(f"{found.folder} lacks {release.BLANK}/vocab.json or merges.txt", "download it again, whole")
    for file in ("vocab.json", "merges.txt"):
        shutil.copyfile(found.tokenizer / file, folder / file)
    for encoder in ENCODERS:
        path = getattr(found, encoder)
        if path is not None:
            shutil.copyfile(path, folder / f"{encoder}.onnx")
    (folder / CONFIG).write_text(json.dumps(settings, indent=1), "utf-8")
    return [*_import_voices(folder, found), *_default_voice(folder, found, progress)]


def _import_voices(folder: Path, found: release.Release) -> list[str]:
    """The release's own voices."""
    if found.voices is None:
        return []
    speakers = int(found.flow.shape("spk_embed_affine_layer.weight")[1])
    packs = voices.of_release(checkpoint.read(found.voices), speakers, int(np.load(folder / "flow-noise.npy").shape[1]))
    skipped = [pack.name for pack in packs if not store.is_name(pack.name)]
    for pack in packs:
        if pack.name not in skipped:
            voices.write(folder / f"{pack.name}{voices.SUFFIX}", pack)
    return [f"voices whose names no file can have were left out: {', '.join(skipped)}"] if skipped else []


def _default_voice(folder: Path, found: release.Release, progress: Progress) -> list[str]:
    """A voice to begin with: its recording is spoken by the embedded voice."""
    missing = [encoder for encoder in ENCODERS if getattr(found, encoder) is None]
    if missing:
        return [f"{found.folder} has no {' and no '.join(missing)}: no voice can be added to this model"]
    from cosycli.backends.cosyvoice import prompt
    from cosycli.engine import Engine
    from cosycli.runtime import Session

    progress("making a default voice")
    engine = Engine(provider="cpu")
    chunks = list(engine.stream(DEFAULT_TEXT, voice=DEFAULT_SPEAKER))
    samples = np.concatenate([chunk.samples for chunk in chunks])
    encoders = [Session(folder / f"{encoder}.onnx") for encoder in ENCODERS]
    made = prompt.make(samples, chunks[0].rate, DEFAULT_TEXT, encoders[0], encoders[1], found.fmax)
    facts = {"licence": "Apache-2.0", "language": "zh-CN", "source": f"spoken by {DEFAULT_SPEAKER} of Kokoro-82M"}
    voices.write(folder / f"{DEFAULT_VOICE}{voices.SUFFIX}", pack(DEFAULT_VOICE, made, facts))
    return []


def pack(name: str, made: Any, facts: dict[str, str]) -> voices.Pack:
    """A prompt as a voice pack."""
    arrays = {key: getattr(made, key) for key in voices.ARRAYS}
    return voices.Pack(name, made.text, arrays, facts)
