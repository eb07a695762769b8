"""`cosy warmup`, `cosy voices` and `cosy devices`: what they print, for people and for scripts."""

from __future__ import annotations

import json
import sys

import pytest
from fakes.sounddevice_fake import FakeSoundDevice

from cosycli import cli
from cosycli.commands import warmup
from cosycli.measure import LEAST


def said(capsys, *arguments, code=0):
    assert cli.program(list(arguments)) == code
    return capsys.readouterr()


def test_warmup_speaks_fifty_everyday_sentences(tones, capsys):
    """The first sound after a start took seconds, and nobody could see where they went."""
    out, err = said(capsys, "warmup")
    for measure in ("load time", "latency, cold", "latency, warm", "p50", "p95", "p99", "real-time factor", "memory"):
        assert measure in out
    assert "in 50 sentences" in out
    assert "CPU" in out
    assert "keep" in err  # what a later process has from it, and what not
    assert tones.loads == 1


def test_warmup_as_json(tones, capsys):
    out, _ = said(capsys, "warmup", "--json", "-q")
    found = json.loads(out)
    assert found["sentences"] == 50
    assert found["load_seconds"] >= 0
    assert 0 < found["latency_p50"] <= found["latency_p95"] <= found["latency_p99"]
    assert found["memory_mb"] > 10


def test_warmup_ends_after_a_minute_on_a_slow_machine(tones, tmp_path, capsys, monkeypatch):
    """CosyVoice on two busy cores spoke the fifty sentences in seven minutes."""
    monkeypatch.setattr(warmup, "EVERYDAY_TIME", 0)
    out, err = said(capsys, "warmup")
    assert f"in {LEAST} sentences" in out
    assert f"{LEAST} of 50 sentences: a minute had passed" in err
    (tmp_path / "mine.txt").write_text("你好。\n" * (LEAST + 2), "utf-8")
    out, err = said(capsys, "warmup", "--sentences", str(tmp_path / "mine.txt"))
    assert f"in {LEAST + 2} sentences" in out
    assert "a minute" not in err


def test_warmup_with_sentences_of_ones_own(tones, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("你好。\n\n……\n再见。\n", "utf-8")
    out, _ = said(capsys, "warmup", "--json", "-q", "--sentences", str(tmp_path / "mine.txt"))
    assert json.loads(out)["sentences"] == 2
    (tmp_path / "empty.txt").write_text("。。。\n", "utf-8")
    _, err = said(capsys, "warmup", "--sentences", str(tmp_path / "empty.txt"), code=2)
    assert "empty.txt" in err
    assert tones.loads == 1


def test_voices_lists_ten_with_one_default(capsys):
    found = json.loads(said(capsys, "voices", "--json").out)
    assert len(found) == 10
    assert sum(voice["language"] == "zh-CN" for voice in found) == 8
    assert [voice["name"] for voice in found if voice["default"]] == ["zm_yunxi"]
    assert {voice["licence"] for voice in found} == {"Apache-2.0"}
    table = said(capsys, "voices").out
    for voice in found:
        assert voice["name"] in table
    assert said(capsys, "voices", "--model", "nobody", code=3).err.startswith("error: ")


def test_devices_are_listed_with_the_default_one(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", FakeSoundDevice(devices=2))
    found = json.loads(said(capsys, "devices", "--json").out)
    assert [device["index"] for device in found] == [0, 1]
    assert [device["is_default"] for device in found] == [True, False]
    assert "Fake 1" in said(capsys, "devices").out


def test_devices_without_portaudio_say_what_to_install(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    err = said(capsys, "devices", code=5).err
    assert "PortAudio" in err
    assert "hint: " in err


@pytest.mark.parametrize(
    "command", [[], ["speak"], ["file"], ["warmup"], ["voices"], ["devices"], ["doctor"], ["bench"], ["quantize"]]
)
def test_every_command_has_help(capsys, command):
    for option in ("-h", "--help"):
        assert "Usage: cosy" in said(capsys, *command, option).out


def test_version_is_the_packages(capsys):
    from importlib.metadata import version

    assert said(capsys, "--version").out.strip() == f"cosy {version('cosycli')}"
