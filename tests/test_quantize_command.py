"""`cosy quantize` as it is typed: what it refuses, prints, writes, and what it warns of."""

from __future__ import annotations

import json
import shlex
import xml.etree.ElementTree as ElementTree

import pytest

from cosycli import cli, providers, runtime
from cosycli.bench import child
from cosycli.bench.figures import Spoken, Trial
from cosycli.bundles import catalog, store
from cosycli.errors import InferenceError
from cosycli.quantize import make


@pytest.fixture(autouse=True)
def measured(monkeypatch, tiny):
    """Trials of no process: `work` is how long a setup takes for a second of sound; what was asked is kept."""
    monkeypatch.setenv("COSY_MODEL", "tiny")
    monkeypatch.setattr(runtime, "has_int8_kernels", lambda: True)  # the same words on every CPU

    class Measured:
        work, setups = {"new": 0.2, "old": 0.4}, []

        def __call__(self, setup, texts, warm_up, listener, command=()):
            self.setups.append(setup)
            work = self.work["new" if setup.folder else "old"]
            spoken = (Spoken(work / 4, (), 0.0, work, 1.0),)
            return Trial("float32", "cpu", "hum", 2, 0.5, 100.0, spoken)

    found = Measured()
    found.setups = []
    monkeypatch.setattr(child, "measure", found)
    return found


def run(capsys, code, *arguments):
    """Run it; what it printed."""
    assert cli.program(["quantize", *arguments]) == code
    return capsys.readouterr()


def test_it_prints_before_and_after(capsys, measured):
    """Without a bundle it is the model in use; every figure stands beside what it was."""
    shown = run(capsys, 0, "--to", "int8")
    rows = dict(line.split("\t", 1) for line in shown.out.splitlines())
    assert list(rows) == [
        "measure",
        "size of the graphs (MB)",
        "load time (s)",
        "memory, peak (MB)",
        "first chunk, p50 (ms)",
        "first chunk, p95 (ms)",
        "real-time factor",
        "SNR (dB)",
        "log-spectral distance (dB)",
    ]
    assert rows["measure"].split("\t") == ["tiny:float32:cpu", "tiny-int8 (new)"]
    assert rows["real-time factor"].split("\t") == ["0.400", "0.200"]
    assert rows["SNR (dB)"].split("\t")[0] == "equal"
    assert "tiny-int8 is 2.00 times faster than tiny:float32:cpu" in shown.err
    assert "times smaller" in shown.err
    assert "2 convolutions stay in float32" in shown.err
    assert "warning" not in shown.err
    assert "cosy speak --model tiny-int8" in shown.err
    order = [bool(setup.folder) for setup in measured.setups]
    assert order == [False, True, True, False]  # in turns


@pytest.mark.parametrize(
    ("nvidia", "arguments", "precision"),
    [
        (False, [], "int8 dynamic"),
        (True, [], "fp16"),
        (True, ["--provider", "cpu"], "int8 dynamic"),
        (True, ["--calibrate", "minmax", "--provider", "cpu"], "int8 static (minmax)"),
        (True, ["--to", "int4", "--provider", "cpu"], "int4"),
    ],
)
def test_without_a_target_it_is_what_suits_the_machine(nvidia, arguments, precision, monkeypatch):
    """float16 where a GPU runs it, else int8."""
    monkeypatch.setattr(providers, "has_nvidia", lambda: nvidia)
    seen = []
    monkeypatch.setattr(make, "make", lambda source, target, wish, *rest, **more: seen.append(wish.precision) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.program(["quantize", *arguments])
    assert seen == [precision]


def test_a_result_that_is_slower_is_warned_of(capsys, measured):
    """OR-13. INT8 made a vocoder slower and worse, and nothing said so."""
    measured.work["new"] = 1.0
    shown = run(capsys, 0, "--convolutions", "--json", "-o", "slow")
    told = json.loads(shown.out)
    assert told["speed_ratio"] == pytest.approx(0.4)
    assert 0 < told["size_ratio"] < 1
    assert told["before"]["real_time_factor"] == 0.4
    assert told["after"]["real_time_factor"] == 1.0
    assert told["fidelity"]["snr"] > 12
    assert any("2.50 times slower" in line for line in told["warnings"])
    assert "2.50 times slower" in shown.err
    assert "--calibrate" in shown.err


def test_float16_on_a_cpu_is_said_to_be_for_gpus(capsys):
    """The CPU computes it in float32: a user waited for a gain that could not come."""
    assert "no float16 kernels" in run(capsys, 0, "--to", "fp16").err


def test_a_cpu_without_exact_int8_gets_7_bits_and_is_told(capsys, monkeypatch):
    """Its kernels saturate with 8, which is heard."""
    monkeypatch.setattr(runtime, "has_int8_kernels", lambda: False)
    assert "7 bits" in run(capsys, 0, "--calibrate", "minmax").err


def test_reports_hold_the_ranking(capsys, tmp_path):
    """A page that is well-formed and needs nothing else, and the same as JSON."""
    run(capsys, 0, "--calibrate", "minmax", "--report", str(tmp_path / "r.html"))
    page = (tmp_path / "r.html").read_text("utf-8")
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    assert "synth:first" in page
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    run(capsys, 0, "--calibrate", "minmax", "--report", str(tmp_path / "r.json"), "-o", "again")
    told = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert told["ranking"][0]["layer"] == "first"
    assert set(told["ranking"][0]) == {"graph", "layer", "kind", "size", "kl", "snr", "lsd"}
    assert told["machine"]["cores"] >= 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nobody"], 3, "models here: kokoro, tiny"),
        (["--to", "int3"], 2, "int3"),
        (["--to", "fp16", "--calibrate", "entropy"], 2, "--calibrate is for int8"),
        (["--convolutions", "--calibrate", "entropy"], 2, "dynamic"),
        (["--to", "int4", "--block-size", "33"], 2, "16, 32, 64"),
        (["--to", "int4", "--accuracy-level", "2"], 2, "0, 1 or 4"),
        (["-o", "tiny"], 2, "in place"),
        (["-o", "kokoro"], 2, "cannot be called"),
        (["-o", "../out"], 2, "cannot be called"),
        (["--report", "r.pdf"], 2, ".html or .json"),
        (["--report", "/nowhere/r.html"], 1, "cannot write"),
        (["--sentences", "missing.txt"], 2, "missing.txt"),
        (["--provider", "abacus"], 2, "abacus"),
        (["--min-snr", "300", "--calibrate", "minmax"], 2, "lower --min-snr"),
    ],
)
def test_what_cannot_be_is_refused(capsys, tiny, monkeypatch, arguments, code, words):
    """In one line and a hint, before anything is measured, and nothing is left."""
    shown = run(capsys, code, *arguments)
    assert words in shown.err
    assert "error:" in shown.err
    assert "hint:" in shown.err
    assert shown.out == ""
    assert sorted(p.name for p in tiny.parent.iterdir() if p.suffix != ".lock") == ["tiny"]


def test_a_name_that_is_taken_is_refused_before_the_work(capsys, measured):
    """Not after minutes of calibration."""
    run(capsys, 0)
    done = len(measured.setups)
    assert "already" in run(capsys, 2).err
    assert len(measured.setups) == done
    run(capsys, 0, "--force")


def test_a_measurement_that_fails_leaves_no_bundle(capsys, tiny, monkeypatch):
    """The new bundle did not open in a process of its own: it must not appear."""

    def fail(*arguments):
        raise InferenceError("it died", "see why")

    monkeypatch.setattr(child, "measure", fail)
    assert "it died" in run(capsys, 4).err
    assert catalog.names() == ["kokoro", "tiny"]


def test_the_manifest_holds_the_command_that_makes_it_again(capsys, tmp_path):
    """All that was asked for, so that an error can name it after an upgrade."""
    (tmp_path / "own texts.txt").write_text("你好。\n再见。\n谢谢。\n", "utf-8")
    run(capsys, 0, "--calibrate", "percentile", "--min-snr", "5", "--sentences", str(tmp_path / "own texts.txt"))
    command = catalog.manifest("tiny-int8-percentile").made["command"]
    assert command.startswith("cosy quantize tiny --to int8 -o tiny-int8-percentile --calibrate percentile --min-snr 5")
    assert f"'{tmp_path}/own texts.txt'" in command
    run(capsys, 0, *shlex.split(command)[2:])
    assert store.is_name("tiny-int8-percentile")
