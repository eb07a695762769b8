"""`cosy quantize`: a bundle made smaller or faster, listened to before it has a name, and what it cost."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosycli import console
from cosycli.commands.options import JsonOption, ProviderOption, QuietOption, VerboseOption
from cosycli.errors import UsageError

if TYPE_CHECKING:
    from cosycli.bench.setups import Setup
    from cosycli.quantize.make import Made
    from cosycli.quantize.methods import Wish
    from cosycli.quantize.reference import Reference

ROUNDS = 2


class To(str, Enum):
    """What `--to` takes."""

    fp16 = "fp16"
    int8 = "int8"
    int4 = "int4"


class Calibrate(str, Enum):
    """What `--calibrate` takes."""

    entropy = "entropy"
    percentile = "percentile"
    minmax = "minmax"


BundleArgument = Annotated[
    str | None, typer.Argument(metavar="BUNDLE", help="What to quantise; without it, the model in use.")
]
ToOption = Annotated[
    To | None,
    typer.Option(
        "--to",
        help="fp16 for GPUs; int8 for CPUs; int4 for large matrix products. Without it, what suits this machine.",
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="NAME", help="The new bundle, by default BUNDLE-int8 or the like."),
]
CalibrateOption = Annotated[
    Calibrate | None,
    typer.Option(
        "--calibrate", help="int8 with fixed ranges, measured while sentences are spoken. Without it they are dynamic."
    ),
]
ConvolutionsOption = Annotated[
    bool, typer.Option("--convolutions", help="int8 with dynamic ranges: convolutions too, though slow so.")
]
SentencesOption = Annotated[
    Path | None, typer.Option("--sentences", metavar="FILE", help="Your own sentences, one a line, to calibrate with.")
]
MinSnrOption = Annotated[
    float | None,
    typer.Option(
        "--min-snr",
        metavar="DB",
        help="Put layers back to float, worst first, until the sound is so near to float32. Without it: 30 for fp16, "
        "12 for int8, 6 for int4.",
    ),
]
SlowdownOption = Annotated[
    float | None,
    typer.Option("--max-slowdown", metavar="X", min=0.1, help="... until it takes at most so many times as long."),
]
KeepOption = Annotated[
    int | None, typer.Option("--keep", metavar="N", min=0, help="Keep just the N most sensitive layers in float.")
]
BlockOption = Annotated[int, typer.Option("--block-size", metavar="N", help="int4: inputs that share a scale.")]
AccuracyOption = Annotated[
    int, typer.Option("--accuracy-level", metavar="N", help="int4: computed in float32 (1), int8 (4), or either (0).")
]
ReportOption = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="Every layer's sensitivity and all figures: .html or .json."),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a bundle of that name.")]


def quantize(
    bundle: BundleArgument = None,
    to: ToOption = None,
    output: OutputOption = None,
    calibrate: CalibrateOption = None,
    convolutions: ConvolutionsOption = False,
    sentences: SentencesOption = None,
    min_snr: MinSnrOption = None,
    max_slowdown: SlowdownOption = None,
    keep: KeepOption = None,
    block_size: BlockOption = 32,
    accuracy_level: AccuracyOption = 4,
    report: ReportOption = None,
    provider: ProviderOption = "auto",
    force: ForceOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Make a new bundle of smaller numbers from one, and prove what that costs: size, speed, memory and sound."""
    words = console.Console(quiet, verbose, json)
    wish = _wish(to or _suiting(provider, calibrate), calibrate, convolutions, block_size, accuracy_level)
    source, target = _names(bundle, output, wish, force)
    _check_report(report)
    texts = _texts(sentences)
    from cosycli.providers import check_provider
    from cosycli.quantize.make import MIN_SNR, Terms, make

    runner = check_provider(provider)
    terms = Terms(MIN_SNR[wish.to] if min_snr is None else min_snr, max_slowdown, keep, ranking=report is not None)
    command = _command(source, target, wish, {"--min-snr": min_snr, "--max-slowdown": max_slowdown, "--keep": keep})
    if sentences:
        command += f" --sentences {shlex.quote(str(sentences.absolute()))}"
    results: list[dict[str, Any]] = []

    def measure(folder: Path, made: Made, reference: Reference) -> None:
        results.extend(_measured(_setups(source, folder, made, runner), made, reference, words))
        if report is not None:
            _write(report, made, results, wish)

    with _Steps(words) as steps:
        made = make(source, target, wish, terms, texts, steps, command=command, force=force, measure=measure)
    _tell(made, results, wish, words)


# Values, checked before anything is opened.


def _suiting(provider: str, calibrate: Calibrate | None) -> To:
    """float16 where a GPU will run it, else int8."""
    from cosycli import providers

    gpu = provider in providers.NVIDIA or (provider == "auto" and providers.has_nvidia())
    return To.fp16 if gpu and not calibrate else To.int8


def _wish(to: To, calibrate: Calibrate | None, convolutions: bool, block: int, accuracy: int) -> Wish:
    from cosycli.quantize.int4 import BLOCKS
    from cosycli.quantize.methods import Wish

    if calibrate and to is not To.int8:
        raise UsageError(f"--calibrate is for int8, not {to.value}", "leave it out, or use --to int8")
    if convolutions and (calibrate or to is not To.int8):
        raise UsageError("--convolutions is for int8 with dynamic ranges", "leave it out")
    if block not in BLOCKS:
        raise UsageError(f"a block of {block} is not possible", f"give one of {', '.join(map(str, BLOCKS))}")
    if accuracy not in (0, 1, 4):
        raise UsageError(f"there is no accuracy level {accuracy}", "give 0, 1 or 4")
    return Wish(to.value, calibrate.value if calibrate else None, convolutions, block, accuracy)


def _names(bundle: str | None, output: str | None, wish: Wish, force: bool) -> tuple[str, str]:
    import os

    from cosycli.bundles import catalog, embedded, store
    from cosycli.engine import default_model

    source = bundle or os.environ.get("COSY_MODEL") or default_model()
    catalog.manifest(source)
    target = output or f"{source}-{wish.to}" + (f"-{wish.calibrate}" if wish.calibrate else "")
    if not store.is_name(target) or target == embedded.NAME:
        raise UsageError(f"a bundle cannot be called {target!r}", "use letters, digits and - + . _: -o my-voice")
    if target == source:
        raise UsageError("a bundle is not quantised in place", "give the new one a name of its own with -o")
    if target in catalog.names() and not force:
        raise UsageError(f"there is a model {target} already", "give another name with -o, or --force")
    return source, target


def _check_report(path: Path | None) -> None:
    from cosycli.commands.input import check_place

    if path is None:
        return
    if path.suffix.lower() not in (".html", ".json"):
        raise UsageError(f"cannot write {path}: a report is .html or .json", "name it so: --report layers.html")
    check_place(path)


def _texts(path: Path | None) -> list[str]:
    from cosycli.bench.setups import everyday_texts
    from cosycli.commands.input import own_sentences

    return everyday_texts() if path is None else own_sentences(path)


def _command(source: str, target: str, wish: Wish, terms: Mapping[str, Any]) -> str:
    """What makes the bundle again; it stands in its manifest, and errors name it."""
    parts = ["cosy", "quantize", source, "--to", wish.to, "-o", target]
    if wish.calibrate:
        parts += ["--calibrate", wish.calibrate]
    if wish.convolutions:
        parts.append("--convolutions")
    if wish.to == "int4":
        parts += ["--block-size", str(wish.block), "--accuracy-level", str(wish.accuracy)]
    parts += [part for name, value in terms.items() if value is not None for part in (name, f"{value:g}")]
    return shlex.join([*parts, "--force"])


# The work, and what is said of it.


class _Steps:
    """Says what begins, and shows a bar for what has parts."""

    def __init__(self, words: console.Console) -> None:
        self._words = words
        self._bar = ExitStack()

    def __enter__(self) -> _Steps:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def step(self, what: str, parts: int = 0) -> Callable[[], None]:
        """End the bar before, begin another."""
        self._bar.close()
        self._words.step(what)
        if not parts:
            return lambda: None
        return self._bar.enter_context(console.progress(what, parts, shown=not self._words.quiet))


def _measured(
    setups: Sequence[Setup], made: Made, reference: Reference, words: console.Console
) -> list[dict[str, Any]]:
    """The source in float32, the source as it is used, if that differs, and the new bundle; in turns."""
    from cosycli.bench import child
    from cosycli.bench.rounds import result, run
    from cosycli.bench.setups import everyday_texts, tuning_texts, warm_up_texts

    spoken = tuning_texts(everyday_texts())
    words.step(f"measuring {ROUNDS} rounds of {len(spoken)} texts, {len(setups)} setups in turns, each warmed up first")
    with console.progress("measuring", ROUNDS * len(setups) * len(spoken), shown=not words.quiet) as advance:
        listener = child.Listener(advance=advance)
        trials = run(setups, lambda s: child.measure(s, spoken, warm_up_texts(spoken), listener), ROUNDS)
    results = [result(setup, mine) for setup, mine in zip(setups, trials, strict=True)]
    for setup, one in zip(setups, results, strict=True):
        one |= _about(setup, made, reference)
    results[-1]["name"] = made.name
    return results


def _setups(source: str, folder: Path, made: Made, provider: str) -> list[Setup]:
    from cosycli.bench.setups import Setup
    from cosycli.engine import Engine

    new = Setup(made.name, None, provider, folder=str(folder))
    used = Engine(source, provider=provider).open().precision
    try:
        precise = Engine(source, provider=provider, precision="float32").open().precision
    except UsageError:  # it holds one precision only
        return [Setup(source, None, provider), new]
    if used == precise:
        return [Setup(source, None, provider), new]
    return [Setup(source, precise, provider), Setup(source, used, provider), new]


def _about(setup: Setup, made: Made, reference: Reference) -> dict[str, Any]:
    """Size and sound of a setup."""
    from dataclasses import asdict

    from cosycli.engine import Engine
    from cosycli.quantize.make import size

    folder = Path(setup.folder) if setup.folder else None
    sessions = Engine(setup.model, provider="cpu", precision=setup.precision, folder=folder).open().sessions
    fidelity = made.fidelity if folder else reference.compare(reference.heard(sessions), sessions)
    return {"size": sum(size(session.path) for session in sessions.values()), "fidelity": asdict(fidelity)}


def _remarks(wish: Wish, results: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the numbers alone do not tell: kernels that are missing where it was measured."""
    from cosycli import runtime

    provider = str(results[-1]["provider"])
    if wish.to == "fp16" and provider == "cpu":
        return [
            "the CPU has no float16 kernels: onnxruntime computes in float32 there. This bundle is for GPUs, on which "
            "it has not been measured"
        ]
    if wish.to == "int8" and provider in ("cuda", "tensorrt"):
        return [f"{provider} has no kernels for these int8 operators: they run on the CPU. Use --to fp16 for GPUs"]
    if wish.to == "int8" and provider == "cpu" and not runtime.has_int8_kernels():
        return ["weights have 7 bits: on this CPU, which lacks VNNI, sums of products with 8 would saturate"]
    return []


def _words(made: Made, results: Sequence[Mapping[str, Any]], wish: Wish) -> dict[str, list[str]]:
    from cosycli.quantize.int8 import SLOW
    from cosycli.quantize.report import verdict

    gained, warnings = verdict(made, results, _remarks(wish, results))
    left = sum(reason == SLOW for nodes in made.kept.values() for reason in nodes.values())
    if left:
        gained.append(
            f"{left} convolutions stay in float32; with measured ranges they become int8: --calibrate percentile"
        )
    if wish.convolutions and results[-1]["real_time_factor"] > results[0]["real_time_factor"]:
        warnings.append(
            "convolutions with dynamic ranges have no fast kernel here: --calibrate percentile measures them"
        )
    return {"gained": gained, "warnings": warnings}


def _write(path: Path, made: Made, results: Sequence[Mapping[str, Any]], wish: Wish) -> None:
    from cosycli.audio.atomic import write_atomically
    from cosycli.bench.machine import machine
    from cosycli.quantize import report

    words, facts = _words(made, results, wish), machine()
    if path.suffix.lower() == ".json":
        write_atomically(path, report.text(report.as_json(made, results, words) | {"machine": facts}))
        return
    about = [f"{facts['cpu']}, {facts['cores']} cores, {facts['onnxruntime']}, cosy {facts['cosy']}"]
    write_atomically(path, report.html(made, results, words, about))


def _tell(made: Made, results: Sequence[Mapping[str, Any]], wish: Wish, words: console.Console) -> None:
    from cosycli.quantize import report

    told = _words(made, results, wish)
    if words.json:
        console.out_json(report.as_json(made, results, told))
    else:
        names = report.columns(made, results)
        rows = report.rows(made, results)
        console.table("Before and after", ("measure", *names), rows, right=range(1, len(names) + 1))
    for line in told["gained"]:
        words.note(line)
    for line in told["warnings"]:
        words.note(f"warning: {line}")
    for entry in made.put_back:
        words.detail(f"kept in float: {entry}")
    words.note(f"use it: cosy speak --model {made.name} 你好")
