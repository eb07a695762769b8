"""The meter: what counts as work, as waiting and as sound. Every figure the project prints comes from it."""

from __future__ import annotations

import numpy as np
import pytest

from cosycli.timing import Arrivals, Meter
from cosycli.types import Chunk, Sentence

RATE = 24000
SAID = Sentence("你好。", "你好。")


class Clock:
    """Time that passes only where the test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def chunk(seconds, sentence=SAID, last=False):
    return Chunk(np.zeros(round(seconds * RATE), np.float32), RATE, 0.0, sentence, (), last)


def making(clock, *steps):
    """A stream that takes the given time for each chunk."""
    for took, made in steps:
        clock.now += took
        yield made


def test_chunks_pass_through_unchanged_and_are_pulled_one_by_one():
    """The meter changes nothing and runs nothing ahead."""
    made, clock = [chunk(0.1), chunk(0.2), chunk(0.3, last=True)], Clock()
    pulled = []

    def stream():
        for each in made:
            pulled.append(each)
            yield each

    for count, each in enumerate(Meter(clock).watch(stream()), 1):
        assert each is made[count - 1]
        assert len(pulled) == count


def test_waiting_for_the_listener_is_not_work():
    """Playing at real time made the real-time factor 1.0 on every machine."""
    clock = Clock()
    meter = Meter(clock)
    for _ in meter.watch(making(clock, (0.2, chunk(1.0)), (0.1, chunk(1.0)), (0.3, chunk(2.0, last=True)))):
        clock.now += 50.0  # playback
    assert meter.work == pytest.approx(0.6)
    assert meter.audio == pytest.approx(4.0)
    assert meter.rtf == pytest.approx(0.15)
    assert meter.first_chunk == pytest.approx(0.2)
    assert meter.gaps == pytest.approx([0.1, 0.3])
    assert meter.sentences == 1


def test_the_first_chunk_is_the_first_that_sounds():
    """A pause in front, or a chunk of which everything was trimmed, is not the first sound."""
    clock = Clock()
    meter = Meter(clock)
    steps = [(0.1, chunk(0.5, sentence=None)), (0.2, chunk(0.0)), (0.4, chunk(0.1)), (0.8, chunk(0.1, last=True))]
    assert len(list(meter.watch(making(clock, *steps)))) == 4
    assert meter.first_chunk == pytest.approx(0.7)
    assert meter.audio == pytest.approx(0.7)
    assert meter.gaps == pytest.approx([0.8])


def test_work_after_the_last_chunk_counts():
    """A stream that thinks on after its last chunk has worked for it."""
    clock = Clock()

    def stream():
        yield chunk(1.0, last=True)
        clock.now += 0.5

    meter = Meter(clock)
    list(meter.watch(stream()))
    assert meter.work == pytest.approx(0.5)


def test_opening_the_model_is_not_part_of_the_real_time_factor():
    """A cold run of two characters had a factor of 3 because of 2 s of loading."""
    clock = Clock()
    meter = Meter(clock)
    list(meter.watch(making(clock, (2.3, chunk(1.0, last=True)))))
    meter.loading = 2.0
    assert meter.rtf == pytest.approx(0.3)
    meter.loading = 5.0
    assert meter.rtf == 0.0


def test_without_sound_there_is_no_factor():
    """Nothing made: None, not a division by zero."""
    meter = Meter(Clock())
    assert list(meter.watch(iter(()))) == []
    assert meter.rtf is None
    assert meter.first_chunk is None


def test_errors_pass_through():
    """What breaks in the stream reaches the caller."""

    def stream():
        yield chunk(0.1)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(Meter().watch(stream()))


def test_waiting_for_text_is_not_work():
    """A model that writes ten words a second made the voice look slow."""
    clock = Clock()
    told = []

    def typing():
        for piece in ("你", "好", "。"):
            clock.now += 7.0
            yield piece

    arrivals = Arrivals(typing(), told.append, clock)
    meter = Meter(arrivals.clock)

    def speaking():
        for _ in arrivals:
            clock.now += 0.25  # work
        yield chunk(1.0, last=True)

    list(meter.watch(speaking()))
    assert told == ["你", "好", "。"]
    assert arrivals.waited == pytest.approx(21.0)
    assert meter.work == pytest.approx(0.75)
    assert meter.first_chunk == pytest.approx(0.75)
