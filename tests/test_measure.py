"""Figures of `cosy warmup` and the benchmarks: percentiles, what is cold and what warm, what is counted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from fakes.scripted import ScriptedEngine

from cosycli import runtime
from cosycli.engine import Timing
from cosycli.measure import measure, peak_memory_mb, percentile

TEXTS = ("你好。", "今天天气很好。我们去公园。", "Good morning.")


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50), (95, 95), (99, 99), (100, 100), (0, 1), (1, 1), (50.5, 51)]
)
def test_a_percentile_is_a_figure_that_was_measured(percent, expected):
    """Nearest rank: no value between two measurements, and p99 of a hundred is the 99th."""
    assert percentile(list(range(1, 101)), percent) == expected


def test_percentiles_of_few_values():
    """One is all of them; none is nothing; the 95th of three is the largest."""
    assert [percentile([7.0], p) for p in (1, 50, 99)] == [7.0, 7.0, 7.0]
    assert percentile([], 50) == 0.0
    assert percentile([1.0, 2.0, 9.0], 95) == 9.0
    assert percentile([1.0, 2.0, 9.0], 50) == 2.0


def test_every_text_is_spoken_once_and_counted():
    """Audio, sentences and progress are those of the texts."""
    engine, ticks = ScriptedEngine(), []
    report = measure(engine, TEXTS, progress=lambda: ticks.append(1))
    spoken = [text for event, text in engine.backend.log if event == "begun"]
    assert spoken == ["你好。", "今天天气很好。", "我们去公园。", "Good morning."]
    assert (report.sentences, len(ticks)) == (3, 3)
    whole = sum(chunk.seconds for text in TEXTS for chunk in ScriptedEngine().stream(text))
    assert report.audio_seconds == pytest.approx(whole)
    assert report.precision == "scripted"
    assert report.model == "kokoro"
    assert report.threads == runtime.threads()
    assert "CPU" in report.why


def test_the_first_sentence_is_cold_and_does_not_spoil_the_percentiles(monkeypatch):
    """Latency of the first text after opening is shown apart; p50, p95 and p99 are of the others."""
    times = iter([0.9, 0.1, 0.2, 0.3, 0.4])

    class Metered:
        def __init__(self):
            self.first_chunk, self.audio = next(times), 1.0
            self.work = 2 * self.first_chunk

        def watch(self, chunks):
            return chunks

    monkeypatch.setattr("cosycli.measure.Meter", Metered)
    report = measure(ScriptedEngine(), ["你好。"] * 5)
    assert report.cold_latency == 0.9
    assert (report.latency_p50, report.latency_p95, report.latency_p99) == (0.2, 0.4, 0.4)
    assert report.real_time_factor == pytest.approx(3.8 / 5)


def test_texts_that_say_nothing_are_left_out():
    """An empty line among the sentences has no latency: 0 ms would flatter the figures."""
    report = measure(ScriptedEngine(), ["……", "你好。", ""])
    assert report.sentences == 1
    assert report.cold_latency > 0
    assert report.latency_p50 == report.cold_latency


def test_nothing_spoken_is_no_division_by_zero():
    """All texts empty: zeros."""
    report = measure(ScriptedEngine(), ["", "……"])
    assert (report.sentences, report.real_time_factor, report.latency_p99) == (0, 0.0, 0.0)


@pytest.mark.parametrize("built", [True, False])
def test_load_time_is_that_of_the_one_opening(built):
    """The model that was opened before is not reported as loading in no time."""
    engine = ScriptedEngine()
    engine.open()
    engine.timing = Timing(1.25, built)
    report = measure(engine, TEXTS)
    assert report.load_seconds == 1.25
    assert report.built is built
    assert engine.loads == 1


def test_the_report_is_json():
    """Plain values under the documented names, seconds rounded to a tenth of a millisecond."""
    value = json.loads(json.dumps(measure(ScriptedEngine(), TEXTS).as_json()))
    assert {"load_seconds", "cold_latency", "latency_p50", "latency_p95", "latency_p99", "memory_mb"} <= set(value)
    assert all(round(v, 4) == v for v in value.values() if isinstance(v, float))


@pytest.mark.skipif(not sys.platform.startswith(("linux", "darwin")), reason="needs getrusage")
def test_memory_is_the_peak_in_megabytes():
    """A process that held 200 MB for a moment has had more than that at its peak, and less than a gigabyte."""
    code = (
        "from cosycli.measure import peak_memory_mb; b = bytearray(b'x') * 200_000_000; del b; print(peak_memory_mb())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert 200 < float(run.stdout) < 1000
    assert peak_memory_mb() > 10


@pytest.mark.skipif(sys.platform != "linux", reason="a quirk of Linux")
def test_memory_is_this_process_alone():
    """A benchmark that held two models reported its own 1,080 MB for the `cosy` it had started, which used 440."""
    grown = bytearray(b"x") * 400_000_000
    child = [sys.executable, "-c", "from cosycli.measure import peak_memory_mb; print(peak_memory_mb())"]
    assert float(subprocess.run(child, capture_output=True, text=True, check=True).stdout) < 200
    assert len(grown) == 400_000_000
