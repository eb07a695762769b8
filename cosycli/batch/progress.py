"""What is shown while a batch runs and when it ends: a bar on a terminal, lines elsewhere, JSON for scripts.

Counts what is done; knows nothing of how it is done.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosycli.batch.fingerprint import seconds_of
from cosycli.batch.inputs import Failure
from cosycli.batch.make import Made
from cosycli.batch.plan import Job, Plan
from cosycli.console import Bar, Console, error, out_json, say
from cosycli.timing import Meter
from cosycli.types import Chunk

_SHOWN = 28  # columns of a name beside the bar


@dataclass
class Progress:
    """Tells the user, and remembers for the summary."""

    console: Console
    plan: Plan
    bar: Bar | None = None
    made: int = 0
    failures: list[Failure] = field(default_factory=list)
    begun: int = 0  # jobs that are over or under way
    audio: float = 0.0
    work: float = 0.0
    _size: int = 0  # characters of finished jobs
    _inside: int = 0  # characters said of the one under way
    _over: int = 0  # jobs

    def __post_init__(self) -> None:
        self._todo = self.plan.todo

    def known(self) -> None:
        """Tell what the plan knows already: inputs that cannot be spoken, files that are done."""
        for note in self.plan.notes:
            self.console.note(f"note: {note}")
        for failure in self.plan.failures:
            self._failed(failure, None, told=not self._todo and self._many)  # else the summary follows at once
        for job in self.plan.jobs:
            if job.done:
                self.console.detail(f"{_shown(job.output)} is up to date")
                self._json(job, "skipped", seconds_of(job.output) if self.console.json else 0.0)

    def begins(self, job: Job) -> None:
        """A file is begun."""
        self._inside = 0
        self.begun += 1
        if self.bar:
            name = _shown(job.output.name)
            self.bar.show(name if len(name) <= _SHOWN else f"…{name[1 - _SHOWN :]}", remark=self._remark())

    def chunk(self, chunk: Chunk, meter: Meter) -> None:
        """A piece of it is there."""
        if self.bar and chunk.last and chunk.sentence is not None:
            size = self._todo[self.begun - 1].size
            self._inside = min(size, self._inside + len(chunk.sentence.source))
            self.bar.show(completed=self._size + self._inside, remark=self._remark(meter))

    def notice(self, line: str) -> None:
        """Something in the text will not be heard as it is written."""
        self.console.note(f"note: {_shown(self._todo[self.begun - 1].name)}: {line}")

    def ends(self, made: Made) -> None:
        """It is finished, or has failed."""
        self._size += made.job.size
        self._inside = 0
        if made.reason is None:
            self.made += 1
            self._over += 1
            self.audio += made.seconds
            self.work += made.work
            self.console.note(f"{self._count()} {_shown(made.job.output)}: {made.seconds:.1f} s")
            self._json(made.job, "done", made.seconds)
        else:
            self._over += 1
            self._failed(Failure(made.job.name, made.reason, made.exit_code), made.job)
        if self.bar:
            self.bar.show(completed=self._size, remark=self._remark())

    def conclude(self, trouble: str = "") -> None:
        """The summary: how much, how fast, and the name of each failure."""
        skipped, left = len(self.plan.jobs) - len(self._todo), self.left
        if self.console.json:
            out_json({"summary": self._numbers(skipped, left), "failures": [_named(f) for f in self.failures]})
        if self.failures and not self._many:
            return  # one text, and its error has been told
        for line in self._lines(skipped, left, trouble):
            if self.failures:
                say(line)  # also when quiet: what failed must be known
            else:
                self.console.note(line)

    @property
    def left(self) -> int:
        """Jobs that are not over."""
        return len(self._todo) - self._over

    @property
    def _many(self) -> bool:
        return len(self.plan.jobs) + len(self.plan.failures) > 1

    def _lines(self, skipped: int, left: int, trouble: str) -> list[str]:
        counts = [f"{self.made} done{self._speed()}"] if self.made or not skipped else []
        counts += [f"{skipped} up to date"] if skipped else []
        counts += [f"{len(self.failures)} failed"] if self.failures else []
        counts += [f"{left} {trouble or 'left'}"] if left else []
        if not self._todo and not self.failures:
            return [f"nothing to do: {_files(skipped)} up to date (--force makes them anew)"]
        return [", ".join(counts) + (":" if self.failures else ""), *(f"  {f.name}: {f.reason}" for f in self.failures)]

    def _speed(self) -> str:
        if not self.audio:
            return ""
        return f" ({_duration(self.audio)} of speech, real-time factor {self.work / self.audio:.2f})"

    def _numbers(self, skipped: int, left: int) -> dict[str, Any]:
        factor = round(self.work / self.audio, 4) if self.audio else None
        counts = {"done": self.made, "skipped": skipped, "failed": len(self.failures), "left": left}
        return {**counts, "seconds": round(self.audio, 3), "real_time_factor": factor}

    def _count(self) -> str:
        total = str(len(self._todo))
        return f"[{self._over:>{len(total)}}/{total}]"

    def _remark(self, meter: Meter | None = None) -> str:
        audio, work = self.audio + (meter.audio if meter else 0), self.work + (meter.work if meter else 0)
        return f"{self._over}/{len(self._todo)} files" + (f", RTF {work / audio:.2f}," if audio else ",")

    def _failed(self, failure: Failure, job: Job | None, *, told: bool = False) -> None:
        self.failures.append(failure)
        if not told and (not self.console.quiet or not self._many):
            error(f"{failure.name}: {failure.reason}")
        self._json(job, "failed", 0.0, failure)

    def _json(self, job: Job | None, status: str, seconds: float, failure: Failure | None = None) -> None:
        if not self.console.json:
            return
        name = failure.name if failure and not job else job.source.name if job else ""
        value: dict[str, Any] = {"path": str(job.output) if job else None, "input": name}
        if job and job.part is not None:
            value["part"] = job.part + 1
        value |= {"status": status, "seconds": round(seconds, 3), "reason": failure.reason if failure else None}
        out_json(value)


def _named(failure: Failure) -> dict[str, str]:
    return {"input": failure.name, "reason": failure.reason}


def _files(count: int) -> str:
    return "1 file is" if count == 1 else f"{count} files are"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def _shown(path: Path | str) -> str:
    """A path that can be printed whatever bytes it is made of."""
    return os.fsencode(path).decode("utf-8", "replace")


def exit_code(progress: Progress, *, single: bool) -> int:
    """0 if nothing failed; what a single text failed of; else 1, as some of many did."""
    if not progress.failures:
        return 0
    return int(progress.failures[0].exit_code) if single else 1
