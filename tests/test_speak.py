"""`cosy speak` with a scripted voice: what it accepts and refuses, where the sound goes, what it says, how it ends."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import wave

import numpy as np
import pytest
import soundfile
from fakes.sounddevice_fake import FakeSoundDevice
from fakes.tones import RATE

from cosycli import cli, engine
from cosycli.backends import Pcm


def run(*arguments):
    return cli.program(["speak", *arguments])


def samples(path):
    data, rate = soundfile.read(path, dtype="float32")
    assert rate == RATE
    return data


# --- where the sound goes


@pytest.mark.parametrize("name", ["x.wav", "x.flac", "x.ogg", "x.mp3"])
def test_the_extension_chooses_the_format(tones, tmp_path, name):
    assert run("你好世界", "-o", str(tmp_path / name)) == 0
    assert len(samples(tmp_path / name)) > 0.5 * RATE
    assert os.listdir(tmp_path) == [name]


def test_wav_header_counts_exactly_what_follows(tones, tmp_path):
    """CL-02. A header that was never patched claimed 41,666 seconds."""
    assert run("第一句。第二句。", "-o", str(tmp_path / "x.wav")) == 0
    with wave.open(str(tmp_path / "x.wav")) as file:
        assert file.getnframes() * 2 + 44 == (tmp_path / "x.wav").stat().st_size


def test_every_sentence_is_on_stdout(tones, capfdbinary):
    """CL-01. Only the first sentence reached the pipe, or `Illegal seek`."""
    lengths = []
    for text in ("第一句。", "第一句。第二句。"):
        assert run(text, "-o", "-") == 0
        data = capfdbinary.readouterr().out
        assert data[:4] == b"RIFF"
        lengths.append(len(data))
    assert lengths[1] >= 2 * lengths[0] - 44


def test_raw_names_its_format_first(tones, capfdbinary):
    """CL-04. Users guessed the rate and heard chipmunks."""
    assert run("--raw", "你好") == 0
    out, err = capfdbinary.readouterr()
    assert err.decode().splitlines()[0] == "s16le 24000 Hz mono"
    assert 0.2 * RATE * 2 < len(out) < RATE * 2
    assert np.abs(np.frombuffer(out, "<i2")).max() > 5000


def test_help_shows_a_player_line_that_fits(capsys):
    """CL-04: the help's `aplay` line has our format, rate and channels."""
    assert run("--help") == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "aplay -t raw -f S16_LE -r 24000 -c 1" in words


def test_raw_is_refused_on_a_terminal(tmp_path):
    """CL-06. Samples filled the terminal with garbage."""
    import pty

    leader, follower = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "cosycli", "speak", "--raw", "你好"], stdout=follower, stderr=subprocess.PIPE, timeout=60
    )
    os.close(follower)
    try:
        shown = os.read(leader, 4096)
    except OSError:  # nothing was ever written
        shown = b""
    os.close(leader)
    assert done.returncode == 2
    assert len(shown) < 400
    assert b"\0" not in shown
    assert "pipe" in done.stderr.decode()


def unhurried(tones, last, monkeypatch):
    """A device that begins when the `last` syllable is being made: on a loaded machine a faster one ran dry between."""
    device = FakeSoundDevice(default_rate=RATE, speed=1.0, hold=True)
    tones.fault = lambda count: device.go.set() if count == last else None
    monkeypatch.setitem(sys.modules, "sounddevice", device)
    return device


def test_it_plays_all_of_it_and_writes_it_too(tones, tmp_path, monkeypatch):
    """AD-04: what the device took is what the file holds, and the stream was stopped, not aborted."""
    device = unhurried(tones, 5, monkeypatch)
    assert run("第一句。第二句。", "-o", str(tmp_path / "x.wav"), "--play") == 0
    with wave.open(str(tmp_path / "x.wav")) as file:
        written = np.frombuffer(file.readframes(10**7), "<i2")
    assert np.array_equal(device.frames[: len(written)], written)
    assert not device.frames[len(written) :].any()
    assert "stop" in device.order
    assert "abort" not in device.order


def test_preroll_is_silence_for_the_device_only(tones, tmp_path, monkeypatch):
    """AD-03. The first syllable was lost while the headphones woke up; a file needs no such silence."""
    device = unhurried(tones, 1, monkeypatch)
    assert run("你好", "--play", "-o", str(tmp_path / "x.wav"), "--preroll", "0.3") == 0
    with wave.open(str(tmp_path / "x.wav")) as file:
        written = np.frombuffer(file.readframes(10**7), "<i2")
    preroll = round(0.3 * RATE)
    assert not device.frames[:preroll].any()
    assert np.array_equal(device.frames[preroll : preroll + len(written)], written)


def test_subtitles_come_with_the_sound(tones, tmp_path):
    for name in ("x.srt", "x.vtt", "x.lrc"):
        assert run("第一句。第二句。", "-o", str(tmp_path / "x.wav"), "--subtitles", str(tmp_path / name)) == 0
        text = (tmp_path / name).read_text("utf-8")
        assert "第一句" in text
        assert "第二句" in text


def test_a_break_is_as_long_as_it_says(tones, tmp_path):
    lengths = []
    for text in ('一<break time="500ms"/>二', '一<break time="1500ms"/>二'):
        assert run(text, "-o", str(tmp_path / "x.wav")) == 0
        lengths.append(len(samples(tmp_path / "x.wav")) / RATE)
    assert lengths[1] - lengths[0] == pytest.approx(1.0, abs=0.01)


def test_the_end_is_faded_and_peaks_are_kept(tones, tmp_path):
    """ST-04, ST-15. A tone that stops at full level clicked; a level above 1 wrapped around."""
    tones.level = 1.4
    assert run("一二三四", "-o", str(tmp_path / "x.wav")) == 0
    data = samples(tmp_path / "x.wav")
    assert np.abs(data).max() <= 0.99
    assert np.abs(data[-24:]).max() <= 0.01


# --- what it refuses, and when


def refused(capsys, code, *arguments):
    assert run(*arguments) == code
    err = capsys.readouterr().err
    assert "Traceback" not in err
    told = [line.split(":")[0] for line in err.splitlines()]
    assert told[-2:] == ["error", "hint"]
    assert set(told[:-2]) <= {"note"}
    return err


@pytest.mark.parametrize("text", ["……！？", "。。。", "———", "😀", "", "   ", "👍🏽🎉", "\u200b\ufeff", "***", '"'])
def test_nothing_to_speak_loads_no_model(tones, tmp_path, capsys, text):
    """SG-06, TN-26. Marks alone pinned a CPU, raised, or wrote an empty file."""
    error = refused(capsys, 2, text, "-o", str(tmp_path / "x.wav"))
    assert "nothing to speak" in error
    assert tones.loads == 0
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("speed", ["0", "-1", "0.49", "2.01", "nan", "inf", "abc"])
def test_a_bad_speed_is_refused_with_the_range(tones, capsys, speed):
    """ST-12."""
    error = refused(capsys, 2, "你好", "-o", "x.wav", f"--speed={speed}")
    assert "0.5" in error or "number" in error
    assert tones.loads == 0


def test_speed_is_heard(tones, tmp_path):
    """ST-12. The option was accepted and had no effect."""
    lengths = {}
    for speed in ("0.5", "1", "2"):
        assert run("一二三四五六七八", "-o", str(tmp_path / "x.wav"), "--speed", speed) == 0
        lengths[speed] = len(samples(tmp_path / "x.wav"))
    assert lengths["2"] < 0.7 * lengths["1"] < 0.7 * lengths["0.5"]


@pytest.mark.parametrize("option", ["--sped", "--voise", "--outptu"])
def test_a_mistyped_option_is_not_spoken(tones, capsys, option):
    """CL-07. The rest of the command line was spoken as text."""
    error = refused(capsys, 2, option, "1.2", "你好")
    assert option in error
    meant = {"--sped": "--speed", "--voise": "--voice", "--outptu": "--output"}[option]
    assert meant in error
    assert tones.loads == 0


@pytest.mark.parametrize("path", ["/nonexistent/x.wav", "/", "/proc/x.wav", "x.aiff", "x", "x.txt"])
def test_an_output_that_cannot_be_is_refused_before_the_model(tones, tmp_path, capsys, monkeypatch, path):
    """CL-10. It synthesised for a minute, failed to write, and exited 0."""
    monkeypatch.chdir(tmp_path)
    code = run("你好", "-o", path)
    assert code in (1, 2)
    assert path.rstrip("/") in capsys.readouterr().err
    assert tones.loads == 0
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_told(tones, capsys):
    """CL-10."""
    assert run("你好", "-o", "/dev/full") == 1
    assert "No space left" in capsys.readouterr().err


def test_a_voice_without_sound_is_a_failure(tones, tmp_path, capsys):
    """CL-09. An empty file, reported as success."""
    tones.synthesize = _silent
    refused(capsys, 4, "你好", "-o", str(tmp_path / "x.wav"))
    assert os.listdir(tmp_path) == []


def _silent(sentence, voice, options):
    yield Pcm(np.zeros(2400, np.float32), (), last=True)


def test_noise_that_is_no_number_is_never_written(tones, tmp_path, capsys):
    """OR-10. NaN became silence in a file, exit 0."""

    def broken(sentence, voice, options):
        yield Pcm(np.full(2400, np.nan, np.float32), (), last=True)

    tones.synthesize = broken
    refused(capsys, 4, "你好", "-o", str(tmp_path / "x.wav"))
    assert os.listdir(tmp_path) == []


def test_unknown_voices_and_models_are_refused(tones, capsys, monkeypatch):
    assert "zm_yunxi" in refused(capsys, 3, "你好", "-o", "x.wav", "--voice", "zm_yunxii")
    monkeypatch.setattr(engine, "_process", None)
    assert "kokoro" in refused(capsys, 3, "你好", "-o", "x.wav", "--model", "kokorro")


def test_text_given_twice_is_refused(tones, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("你好", "utf-8")
    refused(capsys, 2, "你好", "-f", str(tmp_path / "a.txt"), "-o", "x.wav")
    refused(capsys, 2, "-f", str(tmp_path / "missing.txt"), "-o", "x.wav")
    refused(capsys, 2, "你好", "--raw", "-o", "x.wav")
    refused(capsys, 2, "你好", "--preroll", "-1")


def test_no_text_at_all_is_refused(tones, capsys):
    refused(capsys, 2, "-o", "x.wav")


# --- no sound card


@pytest.fixture
def no_players(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


def test_without_portaudio_or_player_it_says_what_to_install(tones, capsys, monkeypatch, no_players):
    """AD-01. A cryptic PortAudio number, after the model had loaded."""
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    error = refused(capsys, 5, "你好")
    assert "PortAudio" in error
    assert "-o FILE" in error
    assert "--raw" in error
    assert tones.loads == 0


def test_without_a_device_it_offers_a_file(tones, capsys, monkeypatch, no_players):
    """AD-01."""
    monkeypatch.setitem(sys.modules, "sounddevice", FakeSoundDevice(devices=0))
    error = refused(capsys, 5, "你好")
    assert "device" in error
    assert "-o FILE" in error
    assert tones.loads == 0


def test_no_sound_card_is_known_within_three_seconds(tmp_path):
    """AD-01, as a process: sounddevice does not find PortAudio, no player is on the path."""
    nullsink = os.path.join(os.path.dirname(__file__), "fakes", "nullsink")
    env = {**os.environ, "PYTHONPATH": nullsink, "NULLSINK": '{"missing": true}', "PATH": str(tmp_path)}
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "cosycli", "speak", "你好"], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 5
    assert time.monotonic() - started < 20  # 0.5 s on an idle machine
    assert done.stderr.startswith("error: PortAudio")


# --- how it ends


def test_ctrl_c_leaves_nothing_and_says_130(tones, tmp_path):
    """CL-13. Interruption was reported as success, half a file stayed."""

    def press(count):
        if count == 2:
            raise KeyboardInterrupt

    tones.fault = press
    assert run("一二三四五六", "-o", str(tmp_path / "x.wav")) == 130
    assert os.listdir(tmp_path) == []


def test_ctrl_c_silences_the_device(tones, monkeypatch):
    """CL-13."""

    def press(count):
        if count == 5:
            raise KeyboardInterrupt

    tones.fault = press
    device = FakeSoundDevice(default_rate=RATE)
    monkeypatch.setitem(sys.modules, "sounddevice", device)
    assert run("一二三四。五六七八。九十。") == 130
    assert "abort" in device.order
    assert device.order[-1] == "close"


def test_a_closed_pipe_ends_quietly_and_stops_the_work(tones, capfd, monkeypatch):
    """CL-11. A traceback, and synthesis went on for nobody."""
    from cosycli.audio import raw

    class Closed(io.BytesIO):
        def write(self, data):
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(raw, "stdout", Closed)
    assert run("--raw", "一二三四五六七八九十") == 0
    assert "Traceback" not in capfd.readouterr().err
    assert tones.pulled <= 3


def test_a_failing_voice_is_no_success(tones, tmp_path, capsys):
    from cosycli.errors import InferenceError

    def fail(count):
        if count == 1:
            raise InferenceError("the graph failed", "try again")

    tones.fault = fail
    refused(capsys, 4, "一二三四", "-o", str(tmp_path / "x.wav"))
    assert os.listdir(tmp_path) == []


# --- what it says


def test_words_go_to_stderr_and_results_to_stdout(tones, tmp_path, capsys):
    assert run("你好", "-o", str(tmp_path / "x.wav"), "--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["sentences"] == 1
    assert found["seconds"] == pytest.approx(len(samples(tmp_path / "x.wav")) / RATE, abs=0.001)
    assert found["first_chunk_latency"] >= 0
    assert "wrote" in err


def test_json_stays_out_of_audio(tones, capfdbinary):
    assert run("你好", "-o", "-", "--json") == 0
    out, err = capfdbinary.readouterr()
    assert out[:4] == b"RIFF"
    assert json.loads(err.decode().splitlines()[-1])["output"] == "-"


def test_quiet_is_quiet(tones, tmp_path, capsys):
    assert run("你好", "-o", str(tmp_path / "x.wav"), "-q") == 0
    assert capsys.readouterr() == ("", "")


def test_another_language_is_remarked_on_once(tones, tmp_path, capsys):
    """TN-18. German digits became English, and nobody said why."""
    text = "Über 12 Schüler lernen Französisch, und das ist groß. Die Kinder gehen nicht in die Schule."
    assert run(text, "-o", str(tmp_path / "x.wav")) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1
    assert "German" in notes[0]


def test_dry_run_prints_and_loads_nothing(tones, capsys):
    assert run("--dry-run", "重庆有5个。Hello.") == 0
    out = capsys.readouterr().out
    assert "五个" in out
    assert "chong2 qing4" in out
    assert tones.loads == 0


def test_dry_run_as_json(tones, capsys):
    assert run("--dry-run", "--json", "重庆。你好。") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in lines] == ["重庆。", "你好。"]
    assert lines[0]["words"][0]["sounds"] == ["chong2", "qing4"]


def test_lexicons_of_user_and_command_line(tones, tmp_path, monkeypatch, capsys):
    """TN-31. There was no way to force a reading."""
    monkeypatch.setenv("COSY_CONFIG", str(tmp_path))
    (tmp_path / "lexicon.txt").write_text("重庆 = zhong4 qing4\n厦门 = sha4 men2\n", "utf-8")
    (tmp_path / "mine.txt").write_text("重庆 = chong2 qing5\n", "utf-8")
    assert run("--dry-run", "重庆和厦门") == 0
    out = capsys.readouterr().out
    assert "zhong4 qing4" in out
    assert "sha4 men2" in out
    assert run("--dry-run", "重庆和厦门", "--lexicon", str(tmp_path / "mine.txt")) == 0
    out = capsys.readouterr().out
    assert "chong2 qing5" in out
    assert "sha4 men2" in out


def test_normalization_can_be_turned_off(tones, capsys):
    assert run("--dry-run", "--no-normalize", "--json", "有5个人") == 0
    assert "5" in json.loads(capsys.readouterr().out)["text"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_text_files_of_any_encoding(tones, tmp_path, capsys, encoding):
    """CL-18, CL-20, CL-21."""
    (tmp_path / "a.txt").write_bytes("今天天气很好，我们一起去公园。".encode(encoding))
    assert run("--dry-run", "-f", str(tmp_path / "a.txt")) == 0
    assert "今天天气很好" in capsys.readouterr().out


def test_help_and_dry_run_import_no_model_or_audio_library():
    """`cosy --help` took two seconds to import what it did not use."""
    script = (
        "import sys\nfrom cosycli import cli\n"
        "cli.program(sys.argv[1:])\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & set(sys.argv[0:0] or %r)), file=sys.stderr)"
    )
    heavy = ("numpy", "onnxruntime", "onnx", "soundfile", "sounddevice", "soxr", "rich", "kaldifst", "opencc")
    done = subprocess.run([sys.executable, "-c", script % (heavy,), "--help"], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]"
    done = subprocess.run(
        [sys.executable, "-c", script % (heavy[:6],), "speak", "--dry-run", "你好"], capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_words_that_the_locale_cannot_decode(encoding):
    """CL-21. Under LC_ALL=C the words of the command line reached us as surrogates: there was "nothing to speak"."""
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}
    text = "今天天气很好".encode(encoding)
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"cosycli", b"speak", b"--dry-run", text], env=env, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert "今天天气很好" in done.stdout.decode()


def test_a_provider_that_was_passed_over_is_said_once(tones, tmp_path, capsys):
    """OR-01. `auto` fell back to the CPU, and only a log line said so."""
    real = engine.Engine._load

    def load(self, rebuild):
        self.notes, self.why = (
            ["cuda cannot run g.onnx; trying cpu. To mend it: a command"],
            "cpu: the first that works",
        )
        return real(self, rebuild)

    engine.Engine._load = load
    try:
        assert run("你好。再见。", "-o", str(tmp_path / "x.wav"), "-v") == 0
    finally:
        engine.Engine._load = real
    err = capsys.readouterr().err
    assert err.count("cuda cannot run") == 1
    assert "cpu: the first that works" in err
