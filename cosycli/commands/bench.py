"""`cosy bench`: what each setup takes, measured in turns; two of them compared; the best way to open graphs here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosycli import console
from cosycli.commands.options import JsonOption, QuietOption, VerboseOption
from cosycli.errors import CosyError, UsageError

if TYPE_CHECKING:
    from cosycli.bench.figures import Trial
    from cosycli.bench.setups import Setup

ROUNDS, TUNE_ROUNDS = 3, 5
BundleArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="BUNDLE", help="What to measure: a bundle, or bundle:precision:provider."),
]
PrecisionOption = Annotated[
    list[str] | None, typer.Option("--precision", metavar="NAME", help="int8 or float32; several: repeat it.")
]
ProvidersOption = Annotated[
    list[str] | None, typer.Option("--provider", metavar="NAME", help="As of `cosy speak`; several: repeat it.")
]
VoiceOption = Annotated[
    str | None, typer.Option("--voice", "-V", envvar="COSY_VOICE", help="Who speaks.", show_default=False)
]
SentencesOption = Annotated[
    Path | None, typer.Option("--sentences", metavar="FILE", help="Your own texts, one a line.", show_default=False)
]
RoundsOption = Annotated[
    int | None,
    typer.Option("--rounds", metavar="N", min=1, max=100, help=f"{ROUNDS}; {TUNE_ROUNDS} for --tune."),
]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw the figures: .html or .png.", show_default=False)
]
CompareOption = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--compare", metavar="A B", help="B's figures to A's: setups, or files of --json.", show_default=False
    ),
]


def bench(
    bundles: BundleArgument = None,
    precision: PrecisionOption = None,
    provider: ProvidersOption = None,
    voice: VoiceOption = None,
    sentences: SentencesOption = None,
    rounds: RoundsOption = None,
    plot: PlotOption = None,
    compare: CompareOption = None,
    tune: Annotated[bool, typer.Option("--tune", help="Find the fastest way to compute here and keep it.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="Forget what --tune kept.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Measure first-chunk latency, gaps, speed, load time and memory, of one setup or of several in turns."""
    report = console.Console(quiet, verbose, json)
    if reset:
        _reset(report)
        if not tune:
            return
    if compare and (bundles or precision or provider or tune):
        raise UsageError("--compare names both setups itself", "write --compare kokoro:int8 kokoro:float32, no more")
    _check_plot(plot)
    texts = _texts(sentences)
    if compare:
        _compare(compare, _Job(texts, rounds or ROUNDS, report), voice, plot)
        return
    chosen = _chosen(bundles, precision, provider, voice)
    if tune:
        _tune(chosen, plot, _Job(texts, rounds or TUNE_ROUNDS, report))
        return
    from cosycli.bench.report import draw, show

    run = _measured(chosen, _Job(texts, rounds or ROUNDS, report))
    if plot is not None:
        draw(run, plot, report)
    show(run, as_json=json)


@dataclass(frozen=True)
class _Job:
    """What is spoken, how often, and who is told."""

    texts: Sequence[str]
    rounds: int
    report: console.Console


# Values, checked before anything is measured.


def _chosen(
    bundles: list[str] | None, precision: list[str] | None, provider: list[str] | None, voice: str | None
) -> list[Setup]:
    from cosycli.bench.setups import check, combined, parse
    from cosycli.engine import default_model
    from cosycli.providers import check_provider

    named = bundles or [os.environ.get("COSY_MODEL") or default_model()]
    runners = provider or [os.environ.get("COSY_PROVIDER") or "auto"]
    chosen = combined(
        [parse(name, voice) for name in named], precision or [], [check_provider(name) for name in runners]
    )
    for setup in chosen:
        check(setup)
    return chosen


def _texts(path: Path | None) -> list[str]:
    from cosycli.bench.setups import shipped_texts
    from cosycli.commands.input import own_sentences

    return shipped_texts() if path is None else own_sentences(path)


def _check_plot(path: Path | None) -> None:
    if path is None:
        return
    from importlib.util import find_spec

    from cosycli.commands.input import check_place

    kind = path.suffix.lower()
    if kind not in (".html", ".png"):
        raise UsageError(f"cannot draw {path}: only .html and .png can be drawn", "name it so: --plot bench.html")
    if kind == ".png" and find_spec("PIL") is None:
        raise CosyError("drawing a PNG needs Pillow", "pip install 'cosycli[plot]', or draw a page: --plot bench.html")
    check_place(path)


# Measuring.


@contextmanager
def _measuring(what: str, trials: int, texts: Sequence[str], job: _Job) -> Iterator[Callable[[Setup], Trial]]:
    """The function that measures one setup, under a bar that all of them move on."""
    from cosycli.bench import child
    from cosycli.bench.setups import warm_up_texts

    warm_up = warm_up_texts(texts)
    job.report.note(f"{what}; each process is warmed up first, with {len(warm_up)} texts that do not count")
    told: set[str] = set()

    def note(text: str) -> None:
        if text not in told:
            told.add(text)
            job.report.note(f"note: {text}")

    with console.progress("measuring", trials * len(texts), shown=not job.report.quiet) as advance:
        listener = child.Listener(job.report.step, note, advance)

        def measure(setup: Setup) -> Trial:
            trial = child.measure(setup, texts, warm_up, listener)
            tuned = f", {setup.tuning}" if setup.tuning else ""
            job.report.detail(f"{setup}{tuned}: opened in {trial.load_seconds:.2f} s, {trial.memory_mb:.0f} MB")
            return trial

        yield measure


def _measured(chosen: Sequence[Setup], job: _Job) -> dict[str, Any]:
    """Measure the setups in turns; the run as --json tells it."""
    from cosycli.bench.machine import machine
    from cosycli.bench.rounds import result, run

    turns = f", {len(chosen)} setups in turns" if len(chosen) > 1 else ""
    what = f"measuring {job.rounds} round{'s' * (job.rounds > 1)} of {len(job.texts)} texts{turns}"
    with _measuring(what, job.rounds * len(chosen), job.texts, job) as measure:
        trials = run(chosen, measure, job.rounds)
    about = {"machine": machine(), "warmed_up": True, "rounds": job.rounds, "texts": len(job.texts)}
    results = [result(setup, mine) for setup, mine in zip(chosen, trials, strict=True)]
    return about | {"characters": sum(map(len, job.texts)), "results": results}


# --compare


def _compare(sides: tuple[str, str], job: _Job, voice: str | None, plot: Path | None) -> None:
    """Files are read, setups measured, both in one run; the ratios of B to A."""
    from cosycli.bench.compare import compare, read_run
    from cosycli.bench.report import draw, show_machine, show_ratios, tell_apart
    from cosycli.bench.setups import check, parse
    from cosycli.commands.input import file_text

    earlier = [read_run(file_text(side, None), side) if _is_file(side) else None for side in sides]
    setups = [parse(side, voice) for side, run in zip(sides, earlier, strict=True) if run is None]
    for setup in setups:
        check(setup)
    run = _measured(setups, job) if setups else None
    fresh = iter(run["results"] if run else ())
    a, b = (found["results"] if found else [next(fresh)] for found in earlier)
    known = [found for found in (*earlier, run) if found]
    if len(known) > 1:
        tell_apart(known, job.report)
    ratios = compare(a, b)
    if plot is not None:
        draw(known[0] | {"results": [*a, *b]}, plot, job.report)
    if job.report.json:
        from dataclasses import asdict

        console.out_json((run or {}) | {"compared": [asdict(ratio) for ratio in ratios]})
        return
    if run is not None:
        show_machine(run)
    show_ratios(ratios)


def _is_file(side: str) -> bool:
    return side.lower().endswith(".json") or Path(side).is_file()


# --tune


def _reset(report: console.Console) -> None:
    from cosycli import tuning

    path = tuning.path()
    report.note(f"removed {path}" if tuning.forget() else f"nothing was kept in {path}")


def _tune(chosen: Sequence[Setup], plot: Path | None, job: _Job) -> None:
    from cosycli import runtime, tuning
    from cosycli.bench.machine import busy, cpu_name
    from cosycli.bench.setups import tuning_texts
    from cosycli.bench.tune import trials_needed, tune

    if len(chosen) > 1 or plot is not None:
        raise UsageError("--tune takes one setup and no --plot", "name one bundle and one precision")
    if chosen[0].provider not in ("auto", "cpu"):
        raise UsageError("--tune is for the CPU: a GPU has no threads to choose", "leave out --provider")
    if os.environ.get("COSY_THREADS"):
        raise UsageError("COSY_THREADS is set, and would win over what is tuned", "unset COSY_THREADS")
    load = busy()
    if load:
        # Seen with load 6 on 2 cores: one thread cost half of two in every round, because others held the second core.
        raise CosyError(
            f"other programs keep this machine busy ({load}): what is fastest now may not be when it is idle",
            "try again when nothing else runs (the load is that of the last minute), or set COSY_THREADS yourself",
        )
    from dataclasses import asdict, replace

    cores, texts = runtime.available_cores(), tuning_texts(job.texts)
    what = f"trying ways to compute on {cores} cores, {len(texts)} texts each (nothing else should run)"
    with _measuring(what, trials_needed(cores, job.rounds), texts, job) as measure:
        decision = tune(replace(chosen[0], provider="cpu"), cores, job.rounds, measure)
    found = {"cores": cores, **asdict(decision), "decision": str(decision), "file": None}
    if decision.better:
        why = {"gain": decision.gain, "noise": decision.noise, "cpu": cpu_name(), "setup": str(chosen[0])}
        found["file"] = str(tuning.keep(decision.best, cores, chosen[0].model, why))
    if job.report.json:
        console.out_json(found)
        return
    rows = [(str(one.tuning), f"{one.cost:.3f}") for one in decision.tried]
    console.table("Cost against the defaults, two rounds", ("way", "cost"), rows, right=(1,))
    console.out(str(decision))
    if found["file"]:
        job.report.note(f"kept in {found['file']}; `cosy bench --reset` forgets it")
