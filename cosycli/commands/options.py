"""Every option that several commands share, defined once: name, environment variable, help text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cosycli.console import Console
    from cosycli.engine import Engine
    from cosycli.types import Options


def tell_provider(engine: Engine, report: Console) -> None:
    """What went otherwise than asked when the model was opened; with --verbose, which provider each graph got."""
    for line in engine.notes:
        report.note(f"note: {line}")
    engine.notes.clear()
    sessions = getattr(engine.open(), "sessions", {})
    got = ", ".join(f"{name} {_shown(session.shares())}" for name, session in sessions.items())
    report.detail(f"{engine.why}; {got}")


def _shown(shares: dict[str, float]) -> str:
    """CUDA 96 % CPU 4 %; a share of all is not worth a number."""
    names = {name.removesuffix("ExecutionProvider"): share for name, share in shares.items()}
    return " ".join(name if share == 1 else f"{name} {share:.0%}" for name, share in names.items())


def chosen_options(
    engine: Engine,
    speed: float,
    normalize: bool,
    instruct: str | None,
    seed: int | None,
    steps: int | None,
    control: bool,
    strict: bool,
) -> Options:
    """The options for a model. Raises UsageError for those that it does not have."""
    from cosycli.types import Options

    options = Options(speed, normalize, seed, instruct, steps, control, strict)
    engine.check(options)
    return options


VoiceOption = Annotated[
    str | None,
    typer.Option(
        "--voice", "-V", envvar="COSY_VOICE", help="Who speaks; `cosy voices` lists them.", show_default=False
    ),
]
ModelOption = Annotated[
    str | None, typer.Option("--model", "-m", envvar="COSY_MODEL", help="Which model speaks.", show_default="kokoro")
]
ProviderOption = Annotated[
    str,
    typer.Option(
        "--provider",
        envvar="COSY_PROVIDER",
        metavar="NAME",
        help="What computes: auto, tensorrt, cuda, directml, coreml or cpu. One that is named and does not work is "
        "an error.",
    ),
]
SpeedOption = Annotated[float, typer.Option("--speed", "-s", help="How fast: 0.5 to 2, where 1 is normal.")]
NormalizeOption = Annotated[
    bool, typer.Option("--normalize/--no-normalize", help="Read numbers, dates and symbols as words.")
]
LexiconOption = Annotated[
    str | None,
    typer.Option(
        "--lexicon", metavar="FILE", help="Pronunciations, a line each: 重庆 = chong2 qing4.", show_default=False
    ),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(
        "--encoding", metavar="NAME", help="Encoding of the text; found out if not given.", show_default=False
    ),
]
InstructOption = Annotated[
    str | None,
    typer.Option("--instruct", metavar="TEXT", help="How to say it (CosyVoice): 用四川话说这句话.", show_default=False),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Repeat what was said with this seed (CosyVoice).", show_default=False),
]
StepsOption = Annotated[
    int | None,
    typer.Option("--steps", min=1, help="Solver steps (CosyVoice): fewer are faster.", show_default="10"),
]
ControlOption = Annotated[
    bool, typer.Option("--control-tokens", help="Follow marks such as [breath] and <strong> (CosyVoice).")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Let no sentence end sooner than its text can be said (CosyVoice).")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Only errors on stderr.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="More words on stderr.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Results as JSON on stdout.")]
