"""Playing through another program: the right one is chosen, all of it arrives, and its failures are told."""

from __future__ import annotations

import os
import sys
import textwrap
import time

import numpy as np
import pytest
from fakes.sounddevice_fake import FakeSoundDevice
from measures import speech_like

from cosycli.audio import players
from cosycli.audio.devices import check, open_speaker
from cosycli.audio.join import to_int16
from cosycli.audio.players import PLAYERS, Player, PlayerSink, find_player
from cosycli.errors import AudioDeviceError, CosyError
from cosycli.types import Chunk, Sentence

pytestmark = pytest.mark.skipif(os.name == "nt", reason="PortAudio comes with sounddevice on Windows")
RATE = 24000
KEEP = 'cat >> "$RECORD"'


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Install shell scripts under players' names, alone on PATH but for the shell's own tools; gives the record."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("cat", "sleep", "sh", "head", "echo"):
        real = next(f"{place}/{tool}" for place in ("/bin", "/usr/bin") if os.path.exists(f"{place}/{tool}"))
        (folder / tool).symlink_to(real)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))

    def install(**scripts):
        for name, script in scripts.items():
            path = folder / name.replace("_", "-")
            path.write_text(f'#!/bin/sh\necho "$0 $*" >> "$RECORD.calls"\n{textwrap.dedent(script)}\n')
            path.chmod(0o755)
        return tmp_path / "record"

    return install


def player(name="paplay"):
    return next(player for player in PLAYERS if player.name == name)


def play(sink, samples, size=6000):
    said = Sentence("一句话。", "一句话。")
    with sink:
        for at in range(0, len(samples), size):
            sink.write(Chunk(samples[at : at + size], RATE, at / RATE, said, last=at + size >= len(samples)))


def test_all_samples_arrive_and_the_end_is_awaited(programs):
    """AD-04: the player gets every sample, preroll first, and is waited for."""
    record = programs(paplay=f"{KEEP}; sleep 0.3; echo done >> $RECORD.done")
    samples = speech_like(2.0, RATE)
    sink = PlayerSink(player(), RATE, preroll=0.25)
    play(sink, samples)
    assert record.with_suffix(".done").exists()
    heard = np.frombuffer(record.read_bytes(), "<i2")
    assert not heard[:6000].any()
    assert np.array_equal(heard[6000:], to_int16(samples))
    assert sink.report.frames == len(samples)


@pytest.mark.parametrize(
    ("working", "chosen"),
    [
        (("pw-cat", "paplay", "aplay", "ffplay"), "pw-cat"),
        (("paplay", "aplay", "ffplay"), "paplay"),
        (("aplay", "ffplay"), "aplay"),
        (("ffplay",), "ffplay"),
    ],
)
def test_the_first_player_that_works_is_taken(programs, working, chosen):
    """In the documented order; the others are there too and fail."""
    programs(**{p.name: f"echo --raw; {KEEP}" if p.name in working else "echo refused >&2; exit 1" for p in PLAYERS})
    assert find_player(RATE).name == chosen


@pytest.mark.parametrize(
    ("name", "script"),
    [
        ("pw-cat", "cat"),  # an old one whose --help knows no --raw
        ("aplay", "cat; exit 1"),
        ("ffplay", "cat; echo 'audio open failed' >&2"),  # says so, and exits with 0
        ("paplay", "sleep 20"),
    ],
)
def test_players_that_do_not_work_are_passed_over(programs, name, script):
    """Being installed is not enough; one that hangs costs no more than its share of the three seconds."""
    programs(**{name: script})
    begun = time.monotonic()
    assert find_player(RATE, seconds=0.7) is None
    assert time.monotonic() - begun < 3


def test_no_player_at_all(programs):
    """Nothing on PATH."""
    programs()
    assert find_player(RATE) is None


@pytest.mark.parametrize("name", ["pw-cat", "paplay", "aplay", "ffplay"])
def test_command_lines_name_the_rate(name):
    """CL-04 for players: no chipmunks."""
    command = player(name).command(22050)
    assert command[0] == name
    assert "22050" in " ".join(command)
    assert "{" not in " ".join(command)


def test_early_death_is_told_in_the_players_own_words(programs):
    """The child's exit code and words were ignored, and silence counted as success."""
    programs(paplay="head -c 1000 > /dev/null; echo first >&2; echo 'Stream error: no such sink' >&2; exit 3")
    with pytest.raises(AudioDeviceError, match="paplay failed: Stream error: no such sink") as failure:
        play(PlayerSink(player(), RATE), speech_like(60.0, RATE), size=24000)
    assert failure.value.exit_code == 5
    assert "-o FILE" in failure.value.hint


def test_failure_at_the_end_is_told_too(programs):
    """It took everything and then failed without a word."""
    programs(paplay="cat > /dev/null; exit 7")
    with pytest.raises(AudioDeviceError, match="code 7"):
        play(PlayerSink(player(), RATE), speech_like(0.5, RATE))


def test_a_player_that_takes_nothing_is_no_hang(programs, monkeypatch):
    """Stopped or stuck: an error after a while, and it is killed."""
    monkeypatch.setattr(players, "PATIENCE", 0.3)
    programs(paplay="exec sleep 60")
    sink = PlayerSink(player(), RATE)
    with pytest.raises(AudioDeviceError, match="no more sound"):
        play(sink, speech_like(60.0, RATE), size=240000)
    assert sink._process.returncode is not None


def test_a_player_that_never_ends_is_no_hang(programs, monkeypatch):
    """It took everything and does not exit."""
    monkeypatch.setattr(players, "PATIENCE", 0.3)
    programs(paplay="exec sleep 60")
    with pytest.raises(AudioDeviceError, match="hangs"):
        play(PlayerSink(player(), RATE), speech_like(0.3, RATE))


def test_ctrl_c_kills_the_player(programs):
    """CL-13: what it still holds is not played."""
    programs(paplay="exec sleep 60")
    sink = PlayerSink(player(), RATE)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), sink:
        raise KeyboardInterrupt
    assert time.monotonic() - begun < 2
    assert sink._process.returncode == -9


def test_nothing_to_play_is_a_failure(programs):
    """CL-09."""
    programs(paplay="cat")
    with pytest.raises(CosyError, match="no sound"), PlayerSink(player(), RATE):
        pass


def test_a_missing_program_is_an_error(programs):
    """It went between the choice and the start."""
    programs()
    with pytest.raises(AudioDeviceError, match="nowhere"), PlayerSink(Player("nowhere", ()), RATE):
        pass


@pytest.mark.parametrize("options", [{"devices": 0}, {"open_error": "Device unavailable"}])
def test_a_player_stands_in_for_portaudio(programs, monkeypatch, options):
    """No device for PortAudio, but a player that works: it is used, and `check` says so."""
    record = programs(aplay=KEEP)
    monkeypatch.setitem(sys.modules, "sounddevice", FakeSoundDevice(**options))
    assert check(RATE) == "aplay"
    samples = speech_like(0.4, RATE)
    sink = open_speaker(RATE)
    record.unlink()  # the blink of silence it was tried with
    play(sink, samples)
    assert record.read_bytes() == to_int16(samples).tobytes()


def test_the_message_names_players_that_were_tried(programs, monkeypatch):
    """AD-01: neither PortAudio nor what else is there can play."""
    programs(aplay="exit 1", ffplay="exit 1")
    monkeypatch.setitem(sys.modules, "sounddevice", FakeSoundDevice(devices=0))
    with pytest.raises(AudioDeviceError, match="aplay, ffplay cannot play") as failure:
        open_speaker(RATE)
    assert "--raw" in failure.value.hint
