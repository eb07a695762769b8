"""`cosy convert-voice`: what was said, by somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosycli import console
from cosycli.commands.options import ProviderOption, QuietOption, StepsOption, VoiceOption
from cosycli.commands.voice import BundleOption, chosen, read
from cosycli.errors import ModelError


def convert_voice(
    recording: Annotated[Path, typer.Argument(metavar="FILE", help="Speech: WAV, FLAC, MP3 or OGG.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Write .wav, .flac, .ogg or .mp3.", show_default=False)
    ],
    voice: VoiceOption = None,
    model: BundleOption = None,
    provider: ProviderOption = "auto",
    steps: StepsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Say again what is said in a recording of up to 30 s, in another voice (CosyVoice)."""
    from contextlib import closing

    from cosycli.audio.features import resample
    from cosycli.audio.formats import check_output
    from cosycli.audio.wavfile import open_output
    from cosycli.backends.cosyvoice import prompt
    from cosycli.backends.cosyvoice.backend import CosyVoice
    from cosycli.backends.cosyvoice.flow import STEPS
    from cosycli.bundles import store
    from cosycli.engine import get_engine
    from cosycli.runtime import Session
    from cosycli.types import Chunk

    report = console.Console(quiet)
    check_output(output)
    name = chosen(model)
    path = store.bundle_path(name) / "speech_tokenizer.onnx"
    if not path.is_file():
        raise ModelError(f"{name} has no {path.name}", "convert it again from a whole release")
    samples, rate = read(recording)
    samples = prompt.checked(samples, rate, lambda line: report.note(f"note: {line}"))
    engine = get_engine(name, provider=provider, progress=report.step)
    speaker = engine.voice(voice)
    backend = engine.open()
    assert isinstance(backend, CosyVoice)  # `chosen` gives nothing else
    tokens = prompt.spoken_tokens(resample(samples, rate, prompt.LOWEST_RATE), Session(path))
    seconds = 0.0
    with open_output(output, backend.rate) as file, closing(backend.revoice(tokens, speaker, steps or STEPS)) as pieces:
        for piece in pieces:
            file.write(Chunk(piece, backend.rate, seconds))
            seconds += len(piece) / backend.rate
    report.note(f"wrote {output}: {seconds:.1f} s")
