"""Where chunks go: the one verb all sinks share, and several of them at once.

Leaving a sink without an error drains or commits it; leaving with one, Ctrl-C included, discards.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol

from cosycli.errors import CosyError
from cosycli.types import Chunk


class Sink(Protocol):
    """A context manager with one verb."""

    def __enter__(self) -> Sink: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...

    def write(self, chunk: Chunk) -> None: ...


class Tee:
    """Several sinks as one: each sees every chunk, and all are committed or all discarded."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks
        self._stack = ExitStack()

    def __enter__(self) -> Tee:
        with ExitStack() as stack:
            for sink in self.sinks:
                stack.enter_context(sink)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._stack.__exit__(kind, error, trace)

    def write(self, chunk: Chunk) -> None:
        """Hand the chunk to each sink in turn."""
        for sink in self.sinks:
            sink.write(chunk)


def check_rate(chunk: Chunk, rate: int) -> None:
    """A chunk of another rate would play too fast or too slow: that is a bug, not a user's mistake."""
    if chunk.rate != rate:
        raise ValueError(f"chunk at {chunk.rate} Hz for a sink at {rate} Hz")


def require_sound(frames: int) -> None:
    """Success without a single sample is a failure."""
    if frames == 0:
        raise CosyError("no sound was made", "check the text with --dry-run, or try another voice")
