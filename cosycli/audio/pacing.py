"""When may what is made be heard? Holds a sentence back until it can be played without a gap.

Pure decisions from an injected clock and a count of buffered seconds; knows no device and no samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cosycli.types import Chunk, Sentence

Clock = Callable[[], float]

# Seconds of speech, from above (the embedded voice takes 0.19 to 0.29 s a character): a guess too long costs a slow
# machine a later start, one too short a gap inside a sentence.
PER_HAN, PER_LETTER, PER_MARK = 0.3, 0.085, 0.25
GROWTH = 2.0  # a chunk may be twice as long as the one before it
ONE_OFF = 0.5  # part of a first chunk's time that is spent once a sentence, not for each second of it
MARGIN = 1.2
CLAUSE_MARKS = ",，、;；:：-—"  # a piece that ends so is not the end of its sentence


def expected_seconds(sentence: Sentence) -> float:
    """About how long a sentence takes to say."""
    han = sum("\u3400" <= letter <= "\u9fff" for letter in sentence.text)
    letters = sum(letter.isalnum() for letter in sentence.text) - han
    marks = sum(not letter.isalnum() and not letter.isspace() for letter in sentence.text)
    return han * PER_HAN + letters * PER_LETTER + marks * PER_MARK


def ends_sentence(chunk: Chunk) -> bool:
    """True where a wait is heard as a pause: after a sentence, or in a pause."""
    if chunk.sentence is None:
        return True
    return chunk.last and not chunk.sentence.whole().text.rstrip().endswith(tuple(CLAUSE_MARKS))


class Pacer:
    """How fast speech is made, as a real-time factor, and whether what is buffered will last."""

    def __init__(self, rtf: float | None = None) -> None:
        self._known, self._guess = rtf, rtf
        self._took = self._seconds = 0.0

    @property
    def rtf(self) -> float | None:
        """Seconds of work for a second of speech; None until something is known."""
        return self._known if self._known is not None else self._guess

    def made(self, seconds: float, took: float, first: bool) -> None:
        """A chunk of `seconds` took `took` to make.

        A sentence's first chunk contains one-off work and perhaps the wait for text, so it only gives a first guess.
        """
        if seconds <= 0:
            return
        if first:
            self._guess = took / seconds * ONE_OFF if self._guess is None else self._guess
            return
        self._took, self._seconds = 0.7 * self._took + took, 0.7 * self._seconds + seconds  # follows a changing load
        self._known = self._took / self._seconds

    def ready(self, buffered: float, remaining: float, last_chunk: float) -> bool:
        """Will `buffered` seconds last until the `remaining` ones are made, next chunk included?"""
        rtf = self.rtf
        if rtf is None:
            return False
        next_chunk = rtf * min(remaining, GROWTH * last_chunk)
        shortfall = (rtf - 1.0) * remaining + rtf * last_chunk
        return buffered >= MARGIN * max(next_chunk, shortfall)


class Gate:
    """Holds chunks until they may sound. Once a sentence has begun to sound, the rest of it passes at once.

    `begin()` says that work starts now; without it the first chunk's speed is unknown and the second is awaited.
    """

    def __init__(
        self,
        buffered: Callable[[], float],
        clock: Clock = time.monotonic,
        rtf: float | None = None,
        expected: Callable[[Sentence], float] = expected_seconds,
    ) -> None:
        self.pacer = Pacer(rtf)
        self.open = False  # inside a sentence that has begun to sound
        self.waited = False  # something was held although it was ready to be heard
        self._buffered, self._clock, self._expected = buffered, clock, expected
        self._held: list[Chunk] = []
        self._since: float | None = None
        self._first, self._said = True, 0.0

    def begin(self) -> None:
        """The time from here to the next `admit` is work."""
        self._since = self._clock()

    def admit(self, chunk: Chunk) -> list[Chunk]:
        """Take a chunk; give those that may sound now, in order."""
        self._learn(chunk)
        self._held.append(chunk)
        end = ends_sentence(chunk)
        released = self.open or end or self._is_ready(chunk)
        self.waited = self.waited or not released
        if end:
            self._said = 0.0
        self.open = released and not end
        return self._release() if released else []

    def starved(self) -> None:
        """Playback ran dry inside a sentence: gather again before going on."""
        self.open = False

    def finish(self) -> list[Chunk]:
        """Nothing more comes."""
        self.open = False
        return self._release()

    def _learn(self, chunk: Chunk) -> None:
        if chunk.sentence is None:
            return
        if self._since is not None:
            self.pacer.made(chunk.seconds, self._clock() - self._since, self._first)
        self._said += chunk.seconds
        self._first = chunk.last

    def _is_ready(self, chunk: Chunk) -> bool:
        assert chunk.sentence is not None
        held = sum(other.seconds for other in self._held)
        guess = self._expected(chunk.sentence.whole())
        remaining = max(guess - self._said, 0.1 * guess, chunk.seconds)
        return self.pacer.ready(self._buffered() + held, remaining, chunk.seconds)

    def _release(self) -> list[Chunk]:
        released, self._held = self._held, []
        return released
