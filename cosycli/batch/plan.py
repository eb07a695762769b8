"""From texts to jobs: which file each text becomes, what clashes, what is done already. Writes nothing.

Texts are read once here, for their fingerprints, and again when their turn comes: memory holds one at a time.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cosycli.batch.fingerprint import Recipe, is_done, is_ours, is_whole, mark
from cosycli.batch.inputs import Failure, Source
from cosycli.errors import CosyError, UsageError

_LINE = re.compile(r"\r\n|\r|\n")
_PARAGRAPH = re.compile(r"(?:\r\n|\r|\n)[^\S\r\n]*(?:\r\n|\r|\n)\s*")
_HANZI = re.compile("[\u4e00-\u9fff]+")
_BLOCK = 4096
WAV_HOURS = 24.8  # 4 GiB of 16-bit samples at 24 kHz
DIGITS = 4  # of a part's number; more only where there are more parts


@dataclass(frozen=True)
class Wishes:
    """What the user asked for: where files go, and how texts become files."""

    recipe: Recipe
    output: Path | None = None  # the one file
    folder: Path | None = None  # the folder of many; neither: beside each text
    split: str | None = None  # "line" or "paragraph"
    subtitles: str | None = None  # their format
    encoding: str | None = None
    force: bool = False

    def destination(self, source: Source, part: str = "") -> Path:
        """The audio file of a text, or of a part of it."""
        if self.output is not None:
            return self.output
        beside = source.path.parent / source.place.name if source.path else source.place
        stem = self.folder / source.place if self.folder is not None else beside
        return stem.with_name(f"{stem.name}{part}.{self.recipe.format}")

    def beside(self, output: Path) -> Path | None:
        """The subtitles of an audio file."""
        return output.with_suffix(f".{self.subtitles}") if self.subtitles else None


@dataclass(frozen=True)
class Job:
    """One file to make, or to leave as it is if it is `done`."""

    source: Source
    part: int | None  # which part of the text, counted from 0; None is all of it
    name: str  # what the user knows the text by
    output: Path
    subtitles: Path | None
    fingerprint: str
    size: int  # characters
    done: bool

    @property
    def mark(self) -> str:
        """What the file's metadata will say."""
        return mark(self.fingerprint, self.subtitles.suffix.lstrip(".") if self.subtitles else None)


@dataclass
class Plan:
    """All that is to be made, in order; what is done; what cannot be."""

    jobs: list[Job] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def todo(self) -> list[Job]:
        """What is not done yet."""
        return [job for job in self.jobs if not job.done]

    @property
    def size(self) -> int:
        """Characters to speak."""
        return sum(job.size for job in self.todo)


def make_plan(sources: Sequence[Source], failures: Iterable[Failure], wishes: Wishes) -> Plan:
    """Plan all of it. Raises UsageError where two texts claim one file or a text would be written over."""
    check_clashes(sources, wishes)
    plan = Plan(failures=list(failures))
    for source in sources:
        try:
            plan.jobs.extend(_jobs(source.kept(), wishes, plan.notes))
        except CosyError as error:
            plan.failures.append(Failure(source.name, error.message, error.exit_code))
    _check_inputs_survive(sources, plan.jobs)
    return plan


def check_clashes(sources: Sequence[Source], wishes: Wishes) -> None:
    """Refuse two texts that would become one file. Parts keep their text's name, so they never clash alone."""
    claimed: dict[str, Source] = {}
    for source in sources:
        output = wishes.destination(source)
        other = claimed.setdefault(_identity(output), source)
        if other is not source:
            raise UsageError(
                f"{other.name} and {source.name} would both become {output}",
                "rename one or run them apart; a folder as INPUT keeps its structure below -d DIR",
            )


def _check_inputs_survive(sources: Sequence[Source], jobs: Iterable[Job]) -> None:
    read = {_identity(source.path): source for source in sources if source.path is not None}
    for job in jobs:
        for path in filter(None, (job.output, job.subtitles)):
            source = read.get(_identity(path))
            if source is not None:
                raise UsageError(f"{path} would be written over {source.name}, which is to be read", "use -d DIR")


def _identity(path: Path) -> str:
    """The same for two names of one file, as far as the file system tells letters apart."""
    real = os.path.realpath(path)
    return real.casefold() if sys.platform in ("darwin", "win32") else real


def _jobs(source: Source, wishes: Wishes, notes: list[str]) -> Iterator[Job]:
    texts = parts(source, wishes)
    digits = max(DIGITS, len(str(len(texts))))
    for index, text in enumerate(texts):
        number = f"-{index + 1:0{digits}}" if wishes.split else ""
        output = wishes.destination(source, number)
        fingerprint, subtitles = wishes.recipe.fingerprint(text), wishes.beside(output)
        done = not wishes.force and is_done(output, fingerprint, subtitles)
        if not done and not wishes.force:
            _check_foreign(output, wishes)
        if not done and wishes.recipe.format == "wav" and (hours := _hours(text, wishes)) > WAV_HOURS:
            notes.append(
                f"{source.name} is about {hours:.0f} hours of speech, and a WAV file ends at {WAV_HOURS:.0f}; "
                "--format flac has no such limit"
            )
        name = f"{source.name} ({wishes.split} {index + 1})" if wishes.split else source.name
        part = index if wishes.split else None
        yield Job(source, part, name, output, subtitles, fingerprint, len(text), done)


def _hours(text: str, wishes: Wishes) -> float:
    """A rough length, of texts that may be too long: a hanzi takes 0.22 s, another character 0.065 s."""
    if len(text) < 200_000:
        return 0.0
    hanzi = sum(run.end() - run.start() for run in _HANZI.finditer(text))
    return (0.22 * hanzi + 0.065 * (len(text) - hanzi)) / 3600 / (wishes.recipe.options.speed or 1.0)


def _check_foreign(output: Path, wishes: Wishes) -> None:
    """Beside a text lies its recording: data sets come as a.txt and a.wav. What we did not make stays."""
    beside = wishes.output is None and wishes.folder is None
    if beside and output.exists() and is_whole(output) and not is_ours(output):
        raise CosyError(f"{output} exists and is no work of `cosy file`; --force writes over it, -d DIR goes elsewhere")


def parts(source: Source, wishes: Wishes) -> list[str]:
    """The text of a source, or the parts it is split into. Raises CosyError if there is nothing to speak."""
    from cosycli.text.clean import clean
    from cosycli.text.encoding import decode
    from cosycli.text.normalize import speakable

    text = decode(source.read(), wishes.encoding, "it")
    if not text.strip():
        raise UsageError("it is empty")
    if wishes.split:
        pieces = (_LINE if wishes.split == "line" else _PARAGRAPH).split(text)
        texts = [piece.strip() for piece in pieces if speakable(piece) and speakable(clean(piece))]
    else:
        blocks = (text[at : at + _BLOCK] for at in range(0, len(text), _BLOCK))
        texts = [text] if any(map(speakable, blocks)) else []
    if not texts:
        raise UsageError("there is nothing to speak in it")
    return texts
