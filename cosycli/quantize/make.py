"""Bundle in, bundle out: calibrate, find what to keep, write, open and listen to the result before it has a name."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from cosycli.bundles import catalog, store
from cosycli.engine import Engine
from cosycli.errors import CosyError, InferenceError, UsageError
from cosycli.quantize import graphs, sensitivity
from cosycli.quantize.methods import Prepared, Wish, prepare
from cosycli.quantize.reference import Fidelity, Reference, check_sound
from cosycli.quantize.sensitivity import Sensitivity

MIN_SNR = {"fp16": 30.0, "int8": 12.0, "int4": 6.0}  # dB; int8 of 20 dB is recognised as well as float32
CALIBRATION, CHECKS = 8, 3  # texts


@dataclass(frozen=True)
class Terms:
    """What the result must hold to. None is not asked for; `min_snr` has a default for each target."""

    min_snr: float
    max_slowdown: float | None = None
    keep: int | None = None
    ranking: bool = False  # wanted in any case, for a report


class Listener(Protocol):
    """Who hears of the work: `step` names what begins and how many parts it has, `advance` ends a part."""

    def step(self, what: str, parts: int = 0) -> Callable[[], None]:
        """Something begins; returns the function that ends each of its parts."""
        ...


@dataclass(frozen=True)
class Made:
    """What came out."""

    name: str
    source: str
    precision: str
    fidelity: Fidelity
    slowdown: float | None  # only where it was a condition
    quantised: int
    put_back: list[str]  # "graph:layer", worst first
    ranking: list[Sensitivity]
    kept: Mapping[str, Mapping[str, str]]  # graph → node → why it stays float32
    sizes: Mapping[str, int]  # "before" and "after", bytes

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


def chosen_texts(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Evenly spread: those for calibration, and those the result is compared on, which are others where there are
    enough: from the shorter half, the shortest first, because that one is spoken for every layer.
    """
    calibration = _even(texts, CALIBRATION)
    others = [text for text in texts if text not in calibration] or list(texts)
    short = sorted(others, key=len)[: max(CHECKS, len(others) // 2)]
    return calibration, _even(short, CHECKS)


def _even(texts: Sequence[str], count: int) -> list[str]:
    return [texts[i * len(texts) // count] for i in range(min(count, len(texts)))] if len(texts) >= count else [*texts]


Measure = Callable[[Path, Made, Reference], None]


def make(
    source: str,
    target: str,
    wish: Wish,
    terms: Terms,
    texts: Sequence[str],
    listener: Listener,
    *,
    command: str = "",
    force: bool = False,
    measure: Measure = lambda folder, made, reference: None,
) -> Made:
    """Make the bundle `target` of the bundle `source`.

    `command` makes it again; `force` replaces a bundle; `measure` sees the result before it has its name.
    Raises UsageError where there is nothing to quantise or the terms cannot be met, InferenceError for a result that
    does not sound, ModelError.
    """
    manifest = catalog.manifest(source)
    reference, folder = _reference(source, texts, listener)
    looked_at = _prepared(reference, manifest, wish, listener)
    reasons = {one.name: one.kept for one in looked_at}
    prepared = [one for one in looked_at if one.layers]
    if not prepared:
        raise UsageError(
            f"nothing in {source} can become {wish.to}",
            "quantise the float32 bundle it was made from, or use --to int8",
        )
    ranking, excluded = _agreed(reference, prepared, terms, listener)
    made: list[Made] = []

    def build(scratch: Path) -> store.Manifest:
        listener.step("writing")
        sizes = write(scratch, folder, reference, prepared, excluded)
        kept = {name: dict(nodes) for name, nodes in reasons.items() if nodes}
        count = sum(len(one.layers) for one in prepared) - len(excluded)
        new = replace(
            manifest,
            name=target,
            precision=wish.precision,
            files={},
            made={"source": source, "command": command, "put_back": excluded, "kept": kept},
        )
        store.write_manifest(scratch, new)
        listener.step("listening to the result")
        fidelity, slowdown = _verified(scratch, reference, prepared, excluded, terms)
        result = Made(target, source, wish.precision, fidelity, slowdown, count, excluded, ranking, kept, sizes)
        measure(scratch, result, reference)
        made.append(result)
        return new

    store.add(replace(manifest, name=target), build, replace=force)
    return made[0]


def _reference(source: str, texts: Sequence[str], listener: Listener) -> tuple[Reference, Path]:
    calibration, checks = chosen_texts(texts)
    advance = listener.step("speaking in float32", len(calibration) + len(checks))
    folder, _ = catalog.ensure(source, lambda line: None)
    try:
        engine = Engine(source, provider="cpu", precision="float32")
        engine.open()
    except UsageError:  # it holds one precision only
        engine = Engine(source, provider="cpu")
    return Reference(engine, calibration, checks, advance), folder


def _prepared(reference: Reference, manifest: store.Manifest, wish: Wish, listener: Listener) -> list[Prepared]:
    from cosycli import backends

    keep = backends.family(manifest.family).KEEP
    advance = listener.step("looking at the graphs", len(reference.sessions))
    found = []
    for name, session in reference.sessions.items():
        own = {key.partition(":")[2]: reason for key, reason in keep.items() if key.partition(":")[0] == name}
        found.append(prepare(wish, name, session.path, own, reference.feeds[name]))
        advance()
    return [one for one in found if one]


def _agreed(
    reference: Reference, prepared: Sequence[Prepared], terms: Terms, listener: Listener
) -> tuple[list[Sensitivity], list[str]]:
    """The ranking, where one was needed, and the layers that go back to float so that the terms are met."""
    listener.step("listening with every layer quantised")

    def holds(excluded: Collection[str]) -> bool:
        variants = sensitivity.sessions(prepared, excluded)
        if not variants:
            return True
        try:
            if reference.fidelity(variants).snr < terms.min_snr:
                return False
        except InferenceError:  # not numbers: some layer overflows
            return False
        return terms.max_slowdown is None or reference.slowdown(variants) <= terms.max_slowdown

    fine = terms.keep is None and holds([])
    if fine and not terms.ranking:
        return [], []
    total = sum(len(one.layers) for one in prepared)
    ranking = sensitivity.rank(reference, prepared, listener.step("quantising each layer alone", total))
    if fine:
        return ranking, []
    if terms.keep is not None:
        excluded = sensitivity.worst(ranking, terms.keep)
        enough = holds(excluded)
        count = terms.keep if enough else None
    else:
        listener.step("putting layers back to float, worst first")
        count = sensitivity.fewest(total, lambda n: holds(sensitivity.worst(ranking, n)))
    if count is None or count >= total:
        raise UsageError(
            f"{'with so many layers kept ' if count is None else ''}no layer can be quantised within these terms",
            "ask for less: a lower --min-snr, a higher --max-slowdown, another --to or --calibrate",
        )
    return ranking, sensitivity.worst(ranking, count)


def write(
    scratch: Path, folder: Path, reference: Reference, prepared: Sequence[Prepared], excluded: Collection[str]
) -> dict[str, int]:
    """Fill the folder: changed graphs, the others as they were, everything else that is no graph; sizes in bytes."""
    changed = {one.name: one for one in prepared}
    before = after = 0
    used = {session.path.name for session in reference.sessions.values()}
    for name, session in reference.sessions.items():
        target = scratch / session.path.name
        before += size(session.path)
        one = changed.get(name)
        if one is not None and len(sensitivity.excluded_of(one, excluded)) < len(one.layers):
            graphs.save(one.without(sensitivity.excluded_of(one, excluded)), target)
        else:
            for path in _files(session.path):
                shutil.copyfile(path, scratch / path.name)
        after += size(target)
    graph_files = {path.name for graph in folder.glob("*.onnx") for path in _files(graph)} | used
    for path in folder.iterdir():
        if path.is_file() and path.name not in graph_files and path.name != store.MANIFEST:
            shutil.copyfile(path, scratch / path.name)
    return {"before": before, "after": after}


def _files(graph: Path) -> list[Path]:
    """A graph's file and the one of its weights, if it has one."""
    beside = graph.with_suffix(".weights")
    return [graph, beside] if beside.exists() else [graph]


def size(graph: Path) -> int:
    """Bytes of a graph's file and of its weights beside it."""
    return sum(path.stat().st_size for path in _files(graph))


def _verified(
    scratch: Path, reference: Reference, prepared: Sequence[Prepared], excluded: Collection[str], terms: Terms
) -> tuple[Fidelity, float | None]:
    """Open what was written and listen to it. How it sounds where it will run is the worse of file and twin."""
    engine = Engine(folder=scratch, provider="cpu")
    variants = {name: session for name, session in engine.open().sessions.items() if name in reference.sessions}
    audio = reference.heard(variants)
    check_sound(audio, reference.backend.rate)
    written = reference.compare(audio, variants)
    twin = reference.fidelity(sensitivity.sessions(prepared, excluded))
    fidelity = min(written, twin, key=lambda f: f.snr)
    if fidelity.snr < terms.min_snr:
        raise CosyError(
            f"the result has an SNR of {fidelity.snr:.1f} dB, under {terms.min_snr:g}", "keep more layers in float"
        )
    return fidelity, reference.slowdown(variants) if terms.max_slowdown is not None else None
