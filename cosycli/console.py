"""Words on stderr, results on stdout: notes, details, steps, tables, JSON.

Knows nothing of what is said. Colour, spinners and bars only on a terminal; rich is imported only where it draws.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Console:
    """How talkative this run is. `json` sends results to stdout as JSON; words go to stderr in any case."""

    quiet: bool = False
    verbose: bool = False
    json: bool = False

    def note(self, text: str) -> None:
        """A line that people want to see."""
        if not self.quiet:
            say(text)

    def detail(self, text: str) -> None:
        """A line for --verbose."""
        if self.verbose and not self.quiet:
            say(text)

    def step(self, text: str) -> None:
        """One step of slow work that happens once, such as assembling the voice."""
        self.note(f"{text} …")


def say(text: str) -> None:
    """A line on stderr; a closed stderr is no reason to fail."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return


def error(message: str, hint: str = "") -> None:
    """What is wrong, and what to do."""
    say(f"{_paint('error:', '31;1')} {message}")
    if hint:
        say(f"{_paint('hint:', '36')} {hint}")


def _paint(text: str, code: str) -> str:
    import os

    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    if not on_terminal or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def out(text: str) -> None:
    """A line on stdout: something that was asked for."""
    _line(text, text.encode("ascii", "backslashreplace").decode())


def out_json(value: Any, *, to_stderr: bool = False) -> None:
    """A value on stdout as JSON, on one line so that lines can be told apart; on stderr where stdout is for audio."""
    _line(json.dumps(value, ensure_ascii=False), json.dumps(value), to_stderr=to_stderr)


def _line(text: str, plain: str, *, to_stderr: bool = False) -> None:
    """Print `text`, or `plain` where the stream cannot show it: a terminal in GBK, an odd file name.

    Whoever read our words has gone: there is no work left to do for them, and nothing went wrong (`| head -1`).
    """
    stream = sys.stderr if to_stderr else sys.stdout
    try:
        try:
            print(text, file=stream, flush=True)
        except UnicodeEncodeError:
            print(plain, file=stream, flush=True)
    except BrokenPipeError:
        raise SystemExit(0) from None  # not an OSError, of which Typer would make exit code 1


STYLES = {"ok": "green", "note": "yellow", "FAIL": "bold red"}


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    marked: int | None = None,
) -> None:
    """A table on stdout: drawn on a terminal, tab-separated without a title elsewhere.

    `marked` names the column whose words ok, note and FAIL are coloured.
    """
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            out("\t".join(row))
        return
    from rich import box
    from rich.console import Console as Rich
    from rich.markup import escape
    from rich.table import Table

    drawn = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        drawn.add_column(column, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        cells = [escape(cell) for cell in row]
        if marked is not None:
            cells[marked] = f"[{STYLES[row[marked]]}]{cells[marked]}[/]"
        drawn.add_row(*cells)
    Rich().print(drawn)


@contextmanager
def progress(what: str, total: int, *, shown: bool = True) -> Iterator[Callable[[], None]]:
    """A bar on stderr, if that is a terminal; yields the function that moves it on by one."""
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console as Rich
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Rich(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


@dataclass
class Bar:
    """A bar for work of unequal pieces: what is being done, how much of it all, a remark, the time left."""

    _move: Callable[..., None]

    def show(self, what: str | None = None, completed: float | None = None, remark: str | None = None) -> None:
        """Change what is shown; what is not given stays."""
        given = {"description": what, "completed": completed, "remark": remark}
        self._move(**{name: value for name, value in given.items() if value is not None})


@contextmanager
def work_bar(total: float, *, shown: bool = True) -> Iterator[Bar | None]:
    """A bar on stderr with the time left, if that is a terminal. Lines said meanwhile stand above it."""
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console as Rich
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    name = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = (name, BarColumn(20), TextColumn("{task.fields[remark]}"), TimeRemainingColumn(compact=True), "left")
    console = Rich(stderr=True, highlight=False)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=total, remark="")
        yield Bar(lambda **fields: bar.update(task, **fields))
