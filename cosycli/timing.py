"""Measures a stream of chunks as it passes: first-chunk latency, real-time factor, gaps. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from cosycli.types import Chunk


@dataclass
class Meter:
    """What one stream took. Times are seconds; waiting for the consumer is not counted as work."""

    clock: Callable[[], float] = time.perf_counter
    first_chunk: float | None = None  # from the first pull to the first chunk with sound
    work: float = 0.0  # spent making chunks
    audio: float = 0.0  # seconds of audio made, pauses included
    sentences: int = 0
    gaps: list[float] = field(default_factory=list)  # work for each chunk after the first
    loading: float = 0.0  # opening the model, if that happened inside the stream; part of first_chunk

    @property
    def rtf(self) -> float | None:
        """Real-time factor: seconds of work a second of audio, opening the model aside."""
        return max(0.0, self.work - self.loading) / self.audio if self.audio else None

    def watch(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Pass the chunks through."""
        while True:
            started = self.clock()
            chunk = next(chunks, None)
            took = self.clock() - started
            self.work += took
            if chunk is None:
                return
            self._count(chunk, took)
            yield chunk

    def _count(self, chunk: Chunk, took: float) -> None:
        self.audio += chunk.seconds
        self.sentences += chunk.last
        if self.first_chunk is not None:
            self.gaps.append(took)
        elif chunk.sentence is not None and len(chunk.samples):
            self.first_chunk = self.work


class Arrivals:
    """Text on its way in: passes it through, and keeps the wait for it out of what is counted as work."""

    def __init__(
        self,
        pieces: Iterable[str],
        ready: Callable[[str], None] = lambda piece: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.waited = 0.0  # seconds
        self._pieces, self._ready, self._clock = pieces, ready, clock

    def __iter__(self) -> Iterator[str]:
        pieces = iter(self._pieces)
        while True:
            started = self._clock()
            piece = next(pieces, None)
            self.waited += self._clock() - started
            if piece is None:
                return
            self._ready(piece)
            yield piece

    def ready(self, seconds: float) -> bool:
        """Whether more is there within so many seconds, or the end; true if nobody can tell."""
        ready = getattr(self._pieces, "ready", None)
        started = self._clock()
        there: bool = ready is None or ready(seconds)
        self.waited += self._clock() - started
        return there

    def clock(self) -> float:
        """A clock that stands still while text is awaited."""
        return self._clock() - self.waited
