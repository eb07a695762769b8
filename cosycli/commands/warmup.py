"""`cosy warmup`: prepares the caches, and measures what the first sound and the hundredth cost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosycli import console
from cosycli.commands.options import (
    JsonOption,
    ModelOption,
    ProviderOption,
    QuietOption,
    SpeedOption,
    VerboseOption,
    VoiceOption,
    tell_provider,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cosycli.engine import Engine
    from cosycli.measure import Report
    from cosycli.types import Options

EVERYDAY_TIME = 60  # seconds for our own sentences: a large model on a small machine would take minutes


def warmup(
    sentences: Annotated[
        Path | None,
        typer.Option("--sentences", metavar="FILE", help="Your own sentences, one a line.", show_default=False),
    ] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Assemble the voice anew, even if whole.")] = False,
    voice: VoiceOption = None,
    speed: SpeedOption = 1.0,
    model: ModelOption = None,
    provider: ProviderOption = "auto",
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Prepare the caches, open the model, speak 50 everyday sentences (for a minute at most), print what it took."""
    from cosycli.engine import check_speed, get_engine
    from cosycli.types import Options

    report = console.Console(quiet, verbose, json)
    check_speed(speed)
    texts = _sentences(sentences)
    engine = get_engine(model, provider=provider, progress=report.step)
    engine.voice(voice)
    engine.builds = True  # the one place where minutes may be spent on it
    engine.open(rebuild=rebuild)
    tell_provider(engine, report)
    limit = EVERYDAY_TIME if sentences is None else math.inf
    measured = _measure(engine, texts, voice, Options(speed=speed), report, limit)
    if measured.sentences < len(texts) and sentences is None:
        report.note(f"{measured.sentences} of {len(texts)} sentences: a minute had passed")
    if json:
        console.out_json(measured.as_json())
    else:
        _print(measured)
    report.note(_what_remains())


def _sentences(path: Path | None) -> list[str]:
    from cosycli.bench.setups import everyday_texts
    from cosycli.commands.input import own_sentences

    return everyday_texts() if path is None else own_sentences(path)


def _measure(
    engine: Engine, texts: Sequence[str], voice: str | None, options: Options, report: console.Console, limit: float
) -> Report:
    from cosycli.measure import measure

    with console.progress("speaking", len(texts), shown=not report.quiet) as advance:
        return measure(engine, texts, voice=voice, options=options, progress=advance, seconds=limit)


def _print(r: Report) -> None:
    def ms(seconds: float) -> str:
        return f"{seconds * 1000:.0f} ms"

    providers = ", ".join(sorted({name.removesuffix("ExecutionProvider") for name in r.providers.values()}))
    rows = [
        ("model", f"{r.model}, {r.precision}"),
        ("load time", f"{r.load_seconds:.2f} s" + (" (assembled first)" if r.built else "")),
        ("first-chunk latency, cold", ms(r.cold_latency)),
        ("first-chunk latency, warm", f"p50 {ms(r.latency_p50)}, p95 {ms(r.latency_p95)}, p99 {ms(r.latency_p99)}"),
        ("real-time factor", f"{r.real_time_factor:.3f}"),
        ("audio", f"{r.audio_seconds:.1f} s in {r.sentences} sentences"),
        ("memory, peak", f"{r.memory_mb:.0f} MB"),
        ("provider", f"{providers}: {r.why}"),
        ("threads", str(r.threads)),
    ]
    console.table("Warm-up", ("measure", "value"), rows)


def _what_remains() -> str:
    from cosycli.bundles import store

    return (
        f"A later process finds the assembled voice in {store.home()}, what CosyVoice solved of a\n"
        "voice's recording too, and, as long as memory allows, these files in the system's file cache. Opened graphs\n"
        "are not kept: each process opens its own, which is the load time above. To stay warm, keep one process and\n"
        "pipe text into `cosy speak -`."
    )
