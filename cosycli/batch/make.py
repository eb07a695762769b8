"""Jobs become files, one after the other; each appears whole or not at all.

A text that fails does not stop the others; a full disk or a model that fails again and again does.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Protocol

from cosycli.audio.atomic import Draft, sweep
from cosycli.audio.formats import is_special, unwritable
from cosycli.audio.sinks import Sink, Tee
from cosycli.batch.inputs import Failure, Source
from cosycli.batch.plan import Job, Plan, Wishes, parts
from cosycli.errors import CosyError, Exit, InferenceError, ModelError, UsageError
from cosycli.timing import Meter
from cosycli.types import Chunk

Notice = Callable[[str], None]
# The last: texts that are spoken next, where only the time for all of them counts.
Speak = Callable[[str, Notice, Iterable[str] | None], Generator[Chunk, None, None]]
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_SYSTEM = 2  # libsndfile's number for it
_FOLLOWING = 32  # texts that a model may look at beside the one that it speaks
_IN_A_ROW = 3  # failures of the model after which it will not recover


@dataclass(frozen=True)
class Made:
    """What became of a job: seconds of audio and of work, or why there is none."""

    job: Job
    seconds: float = 0.0
    work: float = 0.0
    reason: str | None = None
    exit_code: Exit = Exit.DONE


class Stopped(CosyError):
    """The rest of the batch cannot be made either."""


class Watcher(Protocol):
    """Who is told while files are made."""

    def begins(self, job: Job) -> None: ...

    def chunk(self, chunk: Chunk, meter: Meter) -> None: ...

    def notice(self, line: str) -> None: ...

    def ends(self, made: Made) -> None: ...


def make(jobs: Sequence[Job], wishes: Wishes, speak: Speak, rate: int, watcher: Watcher) -> None:
    """Make the files. Raises Stopped, or ModelError, where going on is of no use."""
    broken = place = 0
    for source, group in groupby(jobs, key=lambda job: job.source):
        texts = _texts(source, wishes)
        for job in group:
            place += 1
            following = _following(jobs[place : place + _FOLLOWING], wishes, source, texts)
            watcher.begins(job)
            made, error = _made(job, texts, wishes, speak, rate, watcher, following)
            watcher.ends(made)
            broken = broken + 1 if isinstance(error, InferenceError) else 0
            _check_sense(error, job, broken)


def _check_sense(error: Exception | None, job: Job, broken: int) -> None:
    """Raise if what went wrong will go wrong ten thousand times."""
    if error is None:
        return
    if isinstance(error, ModelError) or broken == _IN_A_ROW:
        raise error
    if _is_full(error):
        raise Stopped(
            f"there is no room left in {job.output.parent}", "make room and run it again: it goes on from here"
        )


def _is_full(error: BaseException) -> bool:
    """Whether the disk is full. The sound library says "System error", or writes a part and soundfile asserts."""
    cause = error.__cause__
    if isinstance(cause, OSError):
        return cause.errno in _FULL
    return isinstance(error, CosyError) and (isinstance(cause, AssertionError) or getattr(cause, "code", 0) == _SYSTEM)


def _texts(source: Source, wishes: Wishes) -> list[str] | CosyError:
    try:
        return parts(source, wishes)
    except CosyError as error:  # it could be read a moment ago
        return error


def _following(
    jobs: Sequence[Job], wishes: Wishes, source: Source, texts: list[str] | CosyError
) -> Generator[str, None, None]:
    """The texts of jobs that come next, read when they are asked for; `texts` are those of `source`."""
    for job in jobs:
        if job.source != source:
            source, texts = job.source, _texts(job.source, wishes)
        if not isinstance(texts, CosyError) and (job.part or 0) < len(texts):
            yield texts[job.part or 0]


def _made(
    job: Job,
    texts: list[str] | CosyError,
    wishes: Wishes,
    speak: Speak,
    rate: int,
    watcher: Watcher,
    following: Iterable[str],
) -> tuple[Made, Exception | None]:
    meter = Meter()
    try:
        text = _text_of(job, texts, wishes)
        with closing(speak(text, watcher.notice, following)) as chunks, _sinks(job, wishes, rate) as sink:
            for chunk in meter.watch(chunks):
                sink.write(chunk)
                watcher.chunk(chunk, meter)
            if meter.first_chunk is None:
                raise UsageError("there is nothing to speak in it")
    except CosyError as error:
        return Made(job, reason=error.message, exit_code=error.exit_code), error
    except MemoryError:
        raise
    except Exception as error:
        # A bug that one text in a thousand uncovers at three in the morning: told, and the others go on.
        reason = f"internal error, please report it: {type(error).__name__}: {error}"
        return Made(job, reason=reason, exit_code=Exit.FAILED), error
    return Made(job, meter.audio, meter.work), None


def _text_of(job: Job, texts: list[str] | CosyError, wishes: Wishes) -> str:
    if isinstance(texts, CosyError):
        raise texts
    index = job.part or 0
    if index >= len(texts) or wishes.recipe.fingerprint(texts[index]) != job.fingerprint:
        raise CosyError("it was changed in the meantime; run it again")
    return texts[index]


@contextmanager
def _sinks(job: Job, wishes: Wishes, rate: int) -> Iterator[Sink]:
    """The audio file, and its subtitles, which are final first: an audio file that says it has some never lies."""
    from cosycli.audio.subtitles import SubtitleSink
    from cosycli.audio.wavfile import open_output

    sinks: list[Sink] = [open_output(job.output, rate, wishes.recipe.format, job.mark)]
    if job.subtitles is not None:
        sinks.append(SubtitleSink(job.subtitles))
    with Tee(*sinks) as tee:
        yield tee


def prepare_folders(plan: Plan, wishes: Wishes) -> Plan:
    """Make the folders that jobs write to, clean them, and move what cannot be written from jobs to failures.

    Raises CosyError if no folder can be written to: then there is nothing to go on with.
    """
    for folder in dict.fromkeys(job.output.parent for job in plan.jobs):
        sweep(folder)
    folders = dict.fromkeys(job.output.parent for job in plan.todo if not is_special(job.output))
    bad = {
        folder: trouble for folder in folders if (trouble := _folder_trouble(folder, create=wishes.folder is not None))
    }
    if bad and len(bad) == len(folders):
        raise next(iter(bad.values()))
    jobs, failures = [], list(plan.failures)
    for job in plan.jobs:
        trouble = None if job.done else bad.get(job.output.parent) or _output_trouble(job)
        if trouble:
            failures.append(Failure(job.name, trouble.message, trouble.exit_code))
        else:
            jobs.append(job)
    return Plan(jobs, failures, plan.notes)


def _folder_trouble(folder: Path, *, create: bool) -> CosyError | None:
    """Why nothing can be written to a folder; found out by trying, as permission bits say nothing to root."""
    try:
        if create:
            folder.mkdir(parents=True, exist_ok=True)
        Draft(folder / "cosy.wav").discard()
    except FileExistsError:
        return CosyError(f"cannot write to {folder}: it is a file", "choose another name for the folder")
    except OSError as error:
        return CosyError(f"cannot write to {folder}: {error.strerror or error}", "choose another folder with -d DIR")
    return None


def _output_trouble(job: Job) -> CosyError | None:
    """Why the file itself could not be written in the end: a folder of its name, a name too long, read-only."""
    for path in filter(None, (job.output, job.subtitles)):
        try:
            if stat.S_ISDIR(path.stat().st_mode):
                return CosyError(f"cannot write {path}: it is a folder")
            if not is_special(path) and not os.access(path, os.W_OK):
                return CosyError(f"cannot write {path}: it is read-only")
        except FileNotFoundError:
            continue
        except OSError as error:
            return unwritable(path, error)
    return None
