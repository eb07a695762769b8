"""Through a real sound server: what reaches the loudspeaker is what was given, from its first sample to its last."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from measures import contains, speech_like

RATE = 24000
SECONDS = 2.5

PLAY = """
    import sys
    import numpy as np
    from cosycli.audio.devices import open_speaker
    from cosycli.audio.players import PLAYERS, PlayerSink
    from cosycli.types import Chunk, Sentence
    way, samples, preroll = sys.argv[1], np.load(sys.argv[2]), float(sys.argv[3])
    if way == "portaudio":
        sink = open_speaker(24000, preroll=preroll)
    else:
        sink = PlayerSink(next(p for p in PLAYERS if p.name == way), 24000, preroll=preroll)
    said = Sentence("一句话。", "一句话。")
    print(type(sink).__name__, flush=True)
    with sink:
        sink.begin()
        for at in range(0, len(samples), 6000):
            sink.write(Chunk(samples[at:at + 6000], 24000, at / 24000, said, last=at + 6000 >= len(samples)))
    print(sink.report.underruns, sink.report.played, flush=True)
"""


def play_command(pulse, way, samples, preroll=0.0):
    np.save(pulse.folder / "signal.npy", samples)
    return [sys.executable, "-c", textwrap.dedent(PLAY), way, str(pulse.folder / "signal.npy"), str(preroll)]


@pytest.mark.parametrize("way", ["portaudio", "paplay", "aplay"])
def test_the_recording_holds_all_of_it_without_a_gap(pulse, way):
    """AD-03, AD-04, ST-10. The first syllable or the last word was lost, or the joints stuttered."""
    samples = speech_like(SECONDS, RATE)
    with pulse.record() as recorder:
        result = subprocess.run(play_command(pulse, way, samples), env=pulse.env, capture_output=True, timeout=60)
    assert result.returncode == 0, result.stderr.decode()
    assert result.stderr == b""  # ALSA's and PortAudio's chatter is kept away
    kind, facts = result.stdout.decode().split("\n", 1)
    assert kind == ("Speaker" if way == "portaudio" else "PlayerSink")
    assert facts.split() == ["0", str(len(samples))]
    contains(recorder.samples, samples, RATE)


def test_a_recording_that_misses_something_is_noticed():
    """The comparison itself: a gap, a lost start, a lost end, a repeated block, silence."""
    samples = speech_like(SECONDS, RATE)
    quiet = np.zeros(RATE, np.float32)
    good = np.concatenate((quiet, samples, quiet))
    assert contains(good, samples, RATE) == RATE
    damaged = {
        "start": np.concatenate((quiet, 0 * samples[:1200], samples[1200:], quiet)),
        "end": np.concatenate((quiet, samples[:-1200], quiet)),
        "gap": np.concatenate((quiet, samples[:30000], quiet[:240], samples[30000:], quiet)),
        "hole": np.concatenate((quiet, samples[:30000], 0 * samples[30000:30480], samples[30480:], quiet)),
        "repeat": np.concatenate((quiet, samples[:30000], samples[29000:], quiet)),
        "silence": np.concatenate((quiet, 0 * samples, quiet)),
    }
    for recording in damaged.values():
        with pytest.raises(AssertionError):
            contains(recording, samples, RATE)


@pytest.mark.parametrize("way", ["portaudio", "paplay"])
def test_ctrl_c_silences_the_server_at_once(pulse, way):
    """CL-13: what is queued in the server is dropped too; the process ends promptly."""
    samples = speech_like(8.0, RATE)
    with pulse.record() as recorder:
        with subprocess.Popen(
            play_command(pulse, way, samples), env=pulse.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            process.stdout.readline()
            time.sleep(1.5)
            process.send_signal(signal.SIGINT)
            begun = time.monotonic()
            stderr = process.communicate(timeout=20)[1]
            took = time.monotonic() - begun
        pulse.pactl("list", "short", "sink-inputs")
    assert process.returncode not in (0, -11, 134)
    assert b"KeyboardInterrupt" in stderr  # the command line turns it into exit 130
    assert took < 2.0
    sounding = np.flatnonzero(np.abs(recorder.samples) > 0.01)
    assert 0 < (sounding[-1] - sounding[0]) / RATE < 4.0


def test_without_a_server_the_answer_is_quick(pulse):
    """AD-01: the server is gone: exit within three seconds, with a way out."""
    env = pulse.env | {"PULSE_SERVER": "unix:/nonexistent"}
    code = """
        import sys, time
        from cosycli.audio.devices import open_speaker
        from cosycli.errors import AudioDeviceError
        begun = time.monotonic()
        try:
            open_speaker(24000)
        except AudioDeviceError as error:
            print(error.message, "|", error.hint)
            sys.exit(5 if time.monotonic() - begun < 3 else 1)
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, timeout=60)
    assert result.returncode == 5, result
    assert b"-o FILE" in result.stdout
    assert result.stderr == b""


def test_wav_stream_is_taken_by_players(pulse):
    """CL-01, CL-04: `-o - | aplay`, `| paplay` and the help's line for --raw play all of it."""
    samples = speech_like(1.5, RATE)
    np.save(pulse.folder / "signal.npy", samples)
    code = """
        import sys
        import numpy as np
        from cosycli.audio.raw import RawStream, WavStream, stdout
        from cosycli.types import Chunk
        kind = {"wav": WavStream, "raw": RawStream}[sys.argv[1]]
        with kind(stdout(), 24000) as sink:
            sink.write(Chunk(np.load(sys.argv[2]), 24000, 0.0))
    """
    from cosycli.audio.formats import RAW_PLAYER

    players = {"aplay -q": "wav", RAW_PLAYER: "raw", "paplay --raw --rate=24000 --channels=1 --format=s16le": "raw"}
    for player, kind in players.items():
        command = [sys.executable, "-c", textwrap.dedent(code), kind, str(pulse.folder / "signal.npy")]
        with (
            pulse.record() as recorder,
            subprocess.Popen(command, stdout=subprocess.PIPE) as source,
            subprocess.Popen(player.split(), stdin=source.stdout, env=pulse.env) as sounding,
        ):
            source.stdout.close()
            assert sounding.wait(60) == 0, player
        contains(recorder.samples, samples, RATE)
