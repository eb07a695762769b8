"""What `cosy bench` makes of times: latencies, gaps, stalls, percentiles over rounds, ratios and what they mean."""

from __future__ import annotations

import json

import pytest
from fakes.scripted import ScriptedBackend, ScriptedEngine

from cosycli.bench.compare import compare, meaning, read_run
from cosycli.bench.figures import FIGURES, Spoken, Trial, figures, longest_stall, speak, spread
from cosycli.bench.rounds import result, rotated, run
from cosycli.bench.setups import Setup
from cosycli.errors import UsageError


class Clock:
    """Stands still but for what the voice's work takes."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def scripted(times, **script):
    """An engine whose n-th piece takes times[n] seconds by the clock that comes with it."""
    clock = Clock()

    def take(index, samples):
        clock.now += times[index % len(times)]
        return samples

    return ScriptedEngine(ScriptedBackend(change=take, **script)), clock


def spoken(first, *, gaps=(), stall=0.0, work=1.0, audio=4.0):
    return Spoken(first, tuple(gaps), stall, work, audio)


def trial(*texts, load=1.0, memory=400.0, threads=2):
    return Trial("int8", "cpu", "zm_yunxi", threads, load, memory, texts)


def test_a_text_spoken_by_the_clock():
    """Three words in three pieces of 0.5 s, of which the first loses 0.2 s of silence and keeps back the 5 ms that a
    fade may need: its 0.295 s and the next 0.5 s have been played at 0.995 s, and the third is ready at 1.15 s.
    """
    engine, clock = scripted([0.2, 0.05, 0.9], chunk=0.5, tail=0.3)
    one = speak(engine, "你好世界吃饭。", None, clock)
    assert one.first == pytest.approx(0.2)
    assert one.gaps == pytest.approx((0.05, 0.9))
    assert one.stall == pytest.approx(0.155)
    assert one.work == pytest.approx(1.15)
    assert one.audio == pytest.approx(0.95)


def test_a_pause_between_sentences_is_no_gap():
    """It is made at once, and would halve the median gap of a text of short sentences."""
    engine, clock = scripted([0.1], chunk=9.0)
    one = speak(engine, '你好。<break time="900ms"/>再见。', None, clock)
    assert one.audio > 1.5
    assert one.gaps == pytest.approx((0.1,))


def test_a_text_without_sound_is_none():
    engine, clock = scripted([0.1])
    assert speak(engine, "……", None, clock) is None


@pytest.mark.parametrize(
    ("arrivals", "longest"),
    [
        ([], 0.0),
        ([(0.1, 0.2)], 0.0),
        ([(0.1, 0.2), (0.25, 0.5), (0.8, 0.5)], 0.0),  # the last comes exactly when it is needed
        ([(0.1, 0.2), (0.5, 0.5), (0.9, 0.5)], 0.2),
        ([(0.1, 0.2), (0.4, 0.1), (0.9, 0.5)], 0.4),  # after a stall, playback goes on from the late chunk
    ],
)
def test_the_longest_stall_of_a_player_that_starts_at_once(arrivals, longest):
    assert longest_stall(arrivals) == pytest.approx(longest)


def test_percentiles_are_of_all_texts_in_all_rounds():
    """The median of each round's worst hides the one text in a hundred that was slow."""
    rounds = [trial(*(spoken(0.1) for _ in range(50))) for _ in range(2)]
    rounds[1] = trial(*(spoken(0.1) for _ in range(48)), spoken(0.3), spoken(0.9))
    found = figures(rounds)
    assert (found["latency_p50"], found["latency_p95"], found["latency_p99"]) == (0.1, 0.1, 0.3)


def test_gaps_factor_load_and_memory():
    rounds = [
        trial(spoken(0.1, gaps=(0.2, 0.4), work=1.0, audio=4.0), spoken(0.1, stall=0.05), load=1.0, memory=400),
        trial(spoken(0.1, gaps=(0.3,), work=3.0, audio=4.0), load=3.0, memory=450),
        trial(spoken(0.1, gaps=(0.3,), work=2.0, audio=4.0), load=1.1, memory=410),
    ]
    found = figures(rounds)
    assert (found["gap_p50"], found["gap_p95"], found["gap_longest"]) == (0.3, 0.4, 0.4)
    assert found["stall_longest"] == 0.05
    assert found["real_time_factor"] == pytest.approx(0.5)  # of 0.25, 0.75 and 0.5
    assert found["throughput"] == pytest.approx(2.0)
    assert (found["load_seconds"], found["memory_mb"]) == (1.1, 450)
    assert list(found) == list(FIGURES)


def test_spread_is_half_of_what_lies_between_the_rounds():
    rounds = [trial(spoken(first), load=1.0) for first in (0.09, 0.10, 0.11)]
    assert spread(rounds)["latency_p50"] == pytest.approx(0.1)
    assert spread(rounds)["load_seconds"] == 0
    assert spread(rounds)["stall_longest"] == 0
    assert spread(rounds[:1]) == {}


# Order


def test_setups_alternate_and_none_is_always_first():
    """A busy minute in the middle of a run made whatever was measured in it look slow."""
    seen = []

    def measure(setup):
        seen.append(setup.model)
        return len(seen)

    trials = run([Setup("a"), Setup("b"), Setup("c")], measure, 4)
    assert seen == list("abcbcacababc")
    assert trials == [[1, 6, 8, 10], [2, 4, 9, 11], [3, 5, 7, 12]]
    assert rotated(1, 5) == [0]


def test_a_result_is_named_after_what_really_ran():
    found = result(Setup("kokoro", provider="auto"), [trial(spoken(0.12345678))])
    assert found["name"] == "kokoro:int8:cpu"
    assert found["latency_p50"] == 0.1235
    assert json.loads(json.dumps(found)) == found


# Ratios


@pytest.mark.parametrize(
    ("figure", "before", "after", "noise", "words"),
    [
        ("latency_p50", 0.18, 0.1, 0.03, "B is 1.8 times faster"),
        ("latency_p50", 0.1, 0.18, 0.03, "B is 1.8 times slower"),
        ("real_time_factor", 0.23, 0.2, 0.03, "B is 1.15 times faster"),
        ("throughput", 4.0, 8.0, 0.03, "B is 2.0 times faster"),
        ("throughput", 8.0, 4.0, 0.03, "B is 2.0 times slower"),
        ("memory_mb", 440.0, 880.0, 0.03, "B is 2.0 times larger"),
        ("stall_longest", 0.2, 0.1, 0.03, "B is 2.0 times shorter"),
        ("latency_p50", 0.100, 0.102, 0.03, "no difference beyond the noise (±3%)"),
        ("latency_p50", 0.15, 0.1, 0.6, "no difference beyond the noise (±60%)"),
        ("stall_longest", 0.0, 0.0, 0.03, "the same"),
        ("stall_longest", 0.0, 0.2, 0.03, "A has none"),
        ("stall_longest", 0.2, 0.0, 0.03, "B has none"),
    ],
)
def test_a_ratio_in_words(figure, before, after, noise, words):
    assert meaning(FIGURES[figure], before, after, noise) == words


def one(name="kokoro:int8:cpu", first=0.1, rounds=1):
    model, precision, provider = name.split(":")
    trials = [Trial(precision, provider, "zm_yunxi", 2, 1.0, 400.0, (spoken(first),)) for _ in range(rounds)]
    return result(Setup(model), trials)


def test_results_are_compared_by_name_or_one_with_one():
    a, b = one(first=0.2), one(first=0.1)
    found = {ratio.figure: ratio for ratio in compare([a, one("x:int8:cpu")], [one("y:int8:cpu"), b])}
    assert list(found) == list(FIGURES)
    assert found["latency_p50"].ratio == 0.5
    assert found["latency_p50"].meaning == "B is 2.0 times faster"
    assert found["stall_longest"].ratio is None
    assert {ratio.b for ratio in compare([a], [one("other:float32:cuda")])} == {"other:float32:cuda"}
    with pytest.raises(UsageError, match="no setup in common") as caught:
        compare([a, one("x:int8:cpu")], [one("y:int8:cpu")])
    assert "y:int8:cpu" in caught.value.hint


def test_the_rounds_of_either_say_what_noise_is():
    """Ratios of two busy minutes were taken for a gain."""
    a, b = one(first=0.10), one(first=0.12)
    assert "slower" in compare([a], [b])[0].meaning
    b["spread"] = {"latency_p50": 0.25}
    assert "noise (±25%)" in compare([a], [b])[0].meaning


MACHINE = {"cpu": "", "cores": 2, "gpu": [], "memory_mb": 1, "system": "", "python": "", "onnxruntime": "", "cosy": ""}
RUN = {"machine": MACHINE, "rounds": 1, "texts": 1, "characters": 9, "results": [one()]}


def test_a_run_is_read_again():
    assert read_run(json.dumps(RUN), "a.json") == RUN


@pytest.mark.parametrize(
    "change",
    [None, [], {}, {"results": []}, {"results": [{}]}, {"machine": None}, {"results": [one() | {"memory_mb": "4"}]},
     {"results": [one() | {"name": 1}]}, {"results": [one() | {"spread": {"memory_mb": None}}]}, {"rounds": None}],
)  # fmt: skip
def test_what_is_no_run_is_refused(change):
    content = json.dumps(RUN | change if change and isinstance(change, dict) else change)
    with pytest.raises(UsageError, match=r"a\.json is no run"):
        read_run(content, "a.json")
    with pytest.raises(UsageError, match="no run"):
        read_run("{", "a.json")
