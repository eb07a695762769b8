"""Files and streams: whole or absent, headers exact, metadata read back, refusals before work, quiet ends."""

from __future__ import annotations

import io
import os
import pty
import signal
import stat
import struct
import subprocess
import sys
import textwrap
import time
import wave

import numpy as np
import pytest
import soundfile
from measures import speech_like

from cosycli.audio import wavfile
from cosycli.audio.atomic import Draft, sweep, write_atomically
from cosycli.audio.formats import FORMATS, RAW_PLAYER, check_output, raw_line
from cosycli.audio.join import to_int16
from cosycli.audio.raw import ListenerGone, RawStream, WavStream, wav_header
from cosycli.audio.sinks import Tee
from cosycli.audio.wavfile import FileSink, open_output, read_comment
from cosycli.errors import CosyError, UsageError
from cosycli.types import Chunk

RATE = 24000
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX only")


def chunks(samples, size=5000):
    """Samples as a stream of chunks."""
    return [Chunk(samples[at : at + size], RATE, at / RATE) for at in range(0, len(samples), size)]


def write_all(sink, samples):
    with sink:
        for chunk in chunks(samples):
            sink.write(chunk)


@pytest.fixture(autouse=True)
def buffered_stdout(monkeypatch):
    """As users have it: without a buffer, stdout has nothing left to fail on at exit."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


def break_off(sink, error):
    """Write one chunk, then fail."""
    with sink:
        sink.write(chunks(speech_like(0.3, RATE))[0])
        raise error


@pytest.fixture
def speech():
    """1.3 s."""
    return speech_like(1.3, RATE)


def run(code, *args, **options):
    """A program in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.run(command, capture_output=True, timeout=60, **options)


# Files


@pytest.mark.parametrize("extension", FORMATS)
def test_file_has_the_samples_and_the_comment(tmp_path, speech, extension):
    """All four formats: rate, length, content and the fingerprint read back; nothing else in the folder."""
    path = tmp_path / f"声音.{extension}"
    write_all(FileSink(path, RATE, comment="cosy:1:абв 你好"), speech)
    data, rate = soundfile.read(path)
    assert rate == RATE
    assert len(data) == pytest.approx(len(speech), abs=0 if extension != "mp3" else 2400)
    if extension in ("wav", "flac"):
        assert np.array_equal(np.round(data * 32768).astype(np.int16), to_int16(speech))
    else:
        assert np.corrcoef(data[: len(speech)], speech)[0, 1] > 0.95
    assert read_comment(path) == "cosy:1:абв 你好"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("comment", ["", "cosy:fingerprint"])
def test_wav_header_is_exact(tmp_path, speech, comment):
    """CL-02: a header that was never patched claimed 41666 s. 44 bytes, the samples, and nothing else."""
    path = tmp_path / "o.wav"
    write_all(FileSink(path, RATE, comment=comment), speech)
    with wave.open(str(path)) as file:
        assert file.getnframes() == len(speech)
        extra = 0 if not comment or hasattr(os, "getxattr") else path.stat().st_size - len(speech) * 2 - 44
        assert file.getnframes() * 2 + 44 + extra == path.stat().st_size
    assert struct.unpack("<I", path.read_bytes()[4:8])[0] == path.stat().st_size - 8


def test_wav_comment_without_extended_attributes(tmp_path, speech, monkeypatch):
    """Where the file system keeps no attributes the comment is stored behind the samples, in an exact file."""

    def refuse(*_):
        raise OSError(95, "not supported")

    monkeypatch.setattr(wavfile.os, "setxattr", refuse, raising=False)
    monkeypatch.setattr(wavfile.os, "getxattr", refuse, raising=False)
    path = tmp_path / "o.wav"
    write_all(FileSink(path, RATE, comment="cosy:fallback"), speech)
    content = path.read_bytes()
    assert read_comment(path) == "cosy:fallback"
    assert content[36:44] == b"data" + struct.pack("<I", len(speech) * 2)
    assert struct.unpack("<I", content[4:8])[0] == len(content) - 8
    with wave.open(str(path)) as file:
        assert file.getnframes() == len(speech)


def test_comment_survives_a_copy_with_attributes(tmp_path, speech):
    """cp -p, rsync -X, shutil.copy2 and a move keep the fingerprint."""
    import shutil

    write_all(FileSink(tmp_path / "a.wav", RATE, comment="cosy:x"), speech)
    shutil.copy2(tmp_path / "a.wav", tmp_path / "b.wav")
    os.rename(tmp_path / "b.wav", tmp_path / "c.wav")
    assert read_comment(tmp_path / "c.wav") == "cosy:x"


@pytest.mark.parametrize("content", [b"", b"RIFF", os.urandom(300)])
@pytest.mark.parametrize("extension", FORMATS)
def test_no_comment_in_what_is_no_audio(tmp_path, content, extension):
    """A damaged or foreign file has no fingerprint; asking never raises."""
    path = tmp_path / f"x.{extension}"
    path.write_bytes(content)
    assert read_comment(path) is None
    assert read_comment(tmp_path / "absent.wav") is None
    assert read_comment(tmp_path) is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, CosyError("model broke")])
@pytest.mark.parametrize("extension", FORMATS)
def test_failure_leaves_nothing(tmp_path, extension, error):
    """CL-13: Ctrl-C or an error half-way: no file under the final name, no temporary one."""
    with pytest.raises((KeyboardInterrupt, CosyError)):
        break_off(FileSink(tmp_path / f"a.{extension}", RATE), error)
    assert os.listdir(tmp_path) == []


def test_failure_keeps_the_file_that_was_there(tmp_path):
    """An older result is replaced only by a complete new one."""
    path = tmp_path / "a.wav"
    path.write_bytes(b"older")
    with pytest.raises(KeyboardInterrupt):
        break_off(FileSink(path, RATE), KeyboardInterrupt)
    assert path.read_bytes() == b"older"


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("extension", FORMATS)
def test_no_samples_is_a_failure(tmp_path, extension, count):
    """CL-09: success was reported with an empty file, whether no chunk came or an empty one."""
    with pytest.raises(CosyError) as failure, FileSink(tmp_path / f"a.{extension}", RATE) as sink:
        [sink.write(Chunk(np.zeros(0, np.float32), RATE, 0.0)) for _ in range(count)]
    assert failure.value.exit_code == 1
    assert os.listdir(tmp_path) == []


@posix
@pytest.mark.parametrize("extension", FORMATS)
def test_full_disk_is_reported_and_leaves_nothing(tmp_path, extension):
    """CL-10: a write that the system refuses half-way (here a size limit, which holds for root too)."""
    code = """
        import resource, signal, sys, numpy as np
        from cosycli.audio.wavfile import FileSink
        from cosycli.errors import CosyError
        from cosycli.types import Chunk
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        noise = np.random.default_rng(0).uniform(-.5, .5, 240000).astype(np.float32)
        try:
            with FileSink(sys.argv[1], 24000) as sink:
                for at in range(0, 240000, 24000):
                    sink.write(Chunk(noise[at:at + 24000], 24000, at / 24000))
        except CosyError as error:
            print(error.exit_code, error.message)
    """
    result = run(code, tmp_path / f"a.{extension}")
    assert result.stdout.decode().startswith(f"1 cannot write {tmp_path}/a.{extension}: "), result
    assert result.stderr == b""
    assert os.listdir(tmp_path) == []


def test_mode_and_link_of_an_existing_file_are_kept(tmp_path, speech):
    """A symbolic link stays one, what it points to is replaced and keeps its mode."""
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "a.wav"
    real.write_bytes(b"")
    real.chmod(0o640)
    link = tmp_path / "a.wav"
    link.symlink_to(real)
    write_all(FileSink(link, RATE), speech)
    assert link.is_symlink()
    assert real.stat().st_size == 44 + 2 * len(speech)
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@posix
def test_new_file_has_an_ordinary_mode(tmp_path, speech):
    """Temporary files are often private; a result must be as readable as any other new file."""
    write_all(FileSink(tmp_path / "a.wav", RATE), speech)
    (tmp_path / "b").touch()
    assert (tmp_path / "a.wav").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_name_of_255_bytes_is_written(tmp_path, speech):
    """The temporary name does not grow out of the final one."""
    path = tmp_path / ("长" * 83 + "ab.wav")
    write_all(FileSink(path, RATE), speech)
    assert path.stat().st_size > 44


def test_a_chunk_of_another_rate_is_a_bug(tmp_path):
    """It would play at the wrong pitch."""
    with pytest.raises(ValueError, match="16000"), FileSink(tmp_path / "a.wav", RATE) as sink:
        sink.write(Chunk(np.zeros(10, np.float32), 16000, 0.0))


def test_minutes_in_one_chunk_do_not_crash_vorbis(tmp_path):
    """libvorbis overflowed the stack when given minutes in one call."""
    samples = np.tile(speech_like(10, RATE), 30)
    with FileSink(tmp_path / "a.ogg", RATE) as sink:
        sink.write(Chunk(samples, RATE, 0.0))
    assert soundfile.info(tmp_path / "a.ogg").frames == len(samples)


def test_a_wav_too_long_for_its_header_is_refused(tmp_path, speech, monkeypatch):
    """After 4 GiB the 32-bit size wraps, and a day of audio becomes a second."""
    monkeypatch.setattr(wavfile, "WAV_LIMIT", 10000)
    with pytest.raises(CosyError, match="4 GiB"):
        write_all(FileSink(tmp_path / "a.wav", RATE), speech)
    assert os.listdir(tmp_path) == []


# Drafts of killed processes


@posix
def test_sweep_removes_what_a_killed_process_left_and_nothing_else(tmp_path):
    """After SIGKILL a draft stays; a later run removes it, but not the draft of a process still at work."""
    code = """
        import sys, time
        from cosycli.audio.atomic import Draft
        Draft(sys.argv[1])
        print(1, flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), tmp_path / "a.wav"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    with processes[0], processes[1]:
        assert all(process.stdout.read(1) == b"1" for process in processes)
        (tmp_path / "mine.part").touch()
        assert len(os.listdir(tmp_path)) == 3
        processes[0].kill()
        processes[0].wait()
        assert sweep(tmp_path) == 1
        assert len(os.listdir(tmp_path)) == 2
        processes[1].send_signal(signal.SIGKILL)
        processes[1].wait()
        assert sweep(tmp_path) == 1
    assert os.listdir(tmp_path) == ["mine.part"]


def test_own_drafts_are_not_swept(tmp_path):
    """Nor those of this process."""
    with Draft(tmp_path / "a.wav") as draft:
        assert sweep(tmp_path) == 0
        os.write(draft.fd, b"x")
    assert (tmp_path / "a.wav").read_bytes() == b"x"


def test_write_atomically_replaces(tmp_path):
    """Small files too."""
    write_atomically(tmp_path / "a", b"1")
    write_atomically(tmp_path / "a", b"22")
    assert (tmp_path / "a").read_bytes() == b"22"
    assert os.listdir(tmp_path) == ["a"]


# Refusals before work


@pytest.mark.parametrize("name", ["a.wav", "a.FLAC", "a.ogg", "a.Mp3", "./b.c.wav", "空 格.wav"])
def test_good_outputs_pass_and_leave_no_trace(tmp_path, name):
    """The check writes nothing that stays."""
    assert check_output(tmp_path / name).name in FORMATS
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a.txt", "a", "a.wave", ".wav", "a.m4a", "a."])
def test_unknown_extension_lists_the_known(tmp_path, name):
    """CL-10: exit 2 and all four names."""
    with pytest.raises(UsageError) as failure:
        check_output(tmp_path / name)
    assert all(known in failure.value.hint for known in FORMATS)


def test_format_given_by_name_needs_no_extension(tmp_path):
    """--format wins over the extension; a wrong one is refused."""
    assert check_output(tmp_path / "a", "MP3").name == "mp3"
    with pytest.raises(UsageError, match="aiff"):
        check_output(tmp_path / "a.wav", "aiff")


@pytest.mark.parametrize(
    "path", ["/nonexistent/x.wav", "/", "/proc/x.wav", "/dev/null/x.wav", "/tmp", "/" + "x" * 300 + ".wav"]
)
@posix
def test_unwritable_outputs_are_refused_before_work(path):
    """CL-10: exit 1 with path and reason, as root too."""
    with pytest.raises(CosyError) as failure:
        check_output(path)
    assert failure.value.exit_code == 1
    assert path in failure.value.message
    assert failure.value.hint


def test_a_folder_named_like_a_file_is_refused(tmp_path):
    """CL-10: a directory as target."""
    (tmp_path / "d.wav").mkdir()
    with pytest.raises(CosyError, match="folder"):
        check_output(tmp_path / "d.wav")
    assert os.listdir(tmp_path / "d.wav") == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permission bits do not bind root")
def test_read_only_folder_and_file_are_refused(tmp_path):
    """CL-10, for users who are not root."""
    (tmp_path / "a.wav").touch(0o444)
    with pytest.raises(CosyError, match="read-only"):
        check_output(tmp_path / "a.wav")
    tmp_path.chmod(0o555)
    with pytest.raises(CosyError, match="ermission"):
        check_output(tmp_path / "b.wav")
    tmp_path.chmod(0o755)


def test_existing_file_is_kept_where_asked(tmp_path):
    """overwrite=False is wrong use, exit 2."""
    (tmp_path / "a.wav").touch()
    assert check_output(tmp_path / "a.wav").name == "wav"
    with pytest.raises(UsageError, match="exists"):
        check_output(tmp_path / "a.wav", overwrite=False)


# Devices and pipes as files


@posix
def test_devices_are_written_to_and_not_replaced(speech):
    """`-o /dev/null` as root must not turn the device into a file; /dev/full fails with a reason (CL-10)."""
    check_output("/dev/null")
    write_all(open_output("/dev/null", RATE), speech)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(CosyError, match=r"/dev/full.*space") as failure:
        write_all(open_output("/dev/full", RATE), speech)
    assert failure.value.exit_code == 1
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    with pytest.raises(UsageError):
        check_output("/dev/null", "mp3")


@posix
def test_a_named_pipe_gets_a_wav_stream(tmp_path, speech):
    """A FIFO stays a FIFO, its reader gets the whole stream."""
    fifo = tmp_path / "f"
    os.mkfifo(fifo)
    check_output(fifo)
    with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE) as reader:
        write_all(open_output(fifo, RATE), speech)
        received = reader.stdout.read()
    assert received == wav_header(RATE) + to_int16(speech).tobytes()
    assert stat.S_ISFIFO(fifo.stat().st_mode)


# Streams

STREAM = """
    import sys, numpy as np
    from cosycli.audio.raw import RawStream, WavStream, stdout
    from cosycli.errors import CosyError
    from cosycli.types import Chunk
    made, frames = 0, int(sys.argv[3]) if len(sys.argv) > 3 else 2400
    def chunks(count):
        global made
        for at in range(count):
            made += 1
            yield Chunk(np.full(frames, 0.1, np.float32), 24000, at / 10)
    kind = {"raw": RawStream, "wav": WavStream}[sys.argv[1]]
    try:
        with kind(stdout(), 24000) as sink:
            for chunk in chunks(int(sys.argv[2])):
                sink.write(chunk)
    except CosyError as error:
        print("error:", error.message, error.hint, file=sys.stderr)
        sys.exit(int(error.exit_code))
    finally:
        print(made, file=sys.stderr)
"""


def test_wav_to_a_pipe_is_readable_by_wave(tmp_path):
    """CL-01: both sentences arrive, in a stream whose sizes are the documented maximum."""
    result = run(STREAM, "wav", 20)
    assert result.returncode == 0
    assert len(result.stdout) == 44 + 20 * 4800
    assert result.stdout[4:8] == result.stdout[40:44] == b"\xff" * 4
    with wave.open(io.BytesIO(result.stdout)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        assert len(file.readframes(10**8)) == 20 * 4800
    data, rate = soundfile.read(io.BytesIO(result.stdout))
    assert (len(data), rate) == (20 * 2400, RATE)


@pytest.mark.parametrize("before", [b"", b"seven b"])
def test_wav_to_a_redirected_file_gets_exact_sizes(tmp_path, before):
    """CL-02 for `-o - > file`, also behind what another program wrote there first."""
    with open(tmp_path / "o", "wb", buffering=0) as out:
        out.write(before)
        subprocess.run([sys.executable, "-c", textwrap.dedent(STREAM), "wav", "20"], stdout=out, timeout=60, check=True)
    content = (tmp_path / "o").read_bytes()
    assert content.startswith(before + wav_header(RATE, 48000))
    assert len(content) == len(before) + 44 + 96000


@posix
def test_wav_appended_to_a_file_is_left_alone(tmp_path):
    """`>> file`: seeking back would write the header at the end instead."""
    (tmp_path / "o").write_bytes(b"head")
    with open(tmp_path / "o", "ab") as out:
        subprocess.run([sys.executable, "-c", textwrap.dedent(STREAM), "wav", "2"], stdout=out, timeout=60, check=True)
    assert (tmp_path / "o").read_bytes()[:48] == b"head" + wav_header(RATE)
    assert (tmp_path / "o").stat().st_size == 48 + 2 * 4800


def test_raw_is_s16le_and_its_line_says_so(speech):
    """CL-04: users guessed rate and channels and got chipmunks."""
    file = io.BytesIO()
    write_all(RawStream(file, RATE), speech)
    assert np.array_equal(np.frombuffer(file.getvalue(), "<i2"), to_int16(speech))
    assert raw_line(RATE) == "s16le 24000 Hz mono"
    assert RAW_PLAYER == "aplay -t raw -f S16_LE -r 24000 -c 1"


def test_each_chunk_is_flushed():
    """A listener hears a chunk when it is made, not when a buffer fills."""
    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as out, open(writer, "wb") as file, RawStream(file, RATE) as sink:
        sink.write(Chunk(np.zeros(10, np.float32), RATE, 0.0))
        assert len(out.read(100)) == 20


@posix
@pytest.mark.parametrize("kind", ["raw", "wav"])
def test_closed_pipe_ends_quietly_and_stops_the_work(kind):
    """CL-11: `| head -c 1000` printed a BrokenPipeError; now nothing is said and the next chunk is the last."""
    command = [sys.executable, "-c", textwrap.dedent(STREAM), kind, "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1000)
        process.stdout.close()
        stderr = process.stderr.read().decode()
        assert process.wait(20) in (0, 141)
    assert 1 <= int(stderr) < 100  # a pipe holds 14 of these chunks


@posix
@pytest.mark.parametrize("frames", ["300", "2400", "24000"])  # Python keeps what is left of 4 KiB to fail on again
def test_full_disk_on_stdout_is_an_error_once(frames):
    """`> /dev/full`: exit 1 and a reason, and no second complaint when Python flushes at exit."""
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", textwrap.dedent(STREAM), "raw", "5", frames]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert result.returncode == 1
    assert b"No space left" in result.stderr
    assert b"Exception ignored" not in result.stderr
    assert b"Traceback" not in result.stderr


@posix
@pytest.mark.parametrize("kind", ["raw", "wav"])
def test_a_terminal_is_refused(kind):
    """CL-06: samples were dumped into the terminal as garbage; now exit 2 names redirection and pipes."""
    master, slave = pty.openpty()
    command = [sys.executable, "-c", textwrap.dedent(STREAM), kind, "50"]
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.PIPE) as process:
        os.close(slave)
        stderr = process.stderr.read()
        assert process.wait(20) == 2
    assert b"redirect" in stderr
    assert b"pipe" in stderr
    os.set_blocking(master, False)
    try:
        shown = os.read(master, 10000)
    except OSError:
        shown = b""
    os.close(master)
    assert shown == b""


@posix
def test_closed_stdout_is_an_error():
    """`>&-`: a message, no AttributeError."""
    code = f"{sys.executable} -c '{textwrap.dedent(STREAM)}' raw 3 >&-"
    result = subprocess.run(["sh", "-c", code], stderr=subprocess.PIPE, timeout=60)
    assert result.returncode == 1
    assert b"closed" in result.stderr
    assert b"Traceback" not in result.stderr


@posix
def test_a_non_blocking_pipe_loses_nothing():
    """A parent such as node hands over non-blocking pipes, on which a full pipe raised BlockingIOError."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    command = [sys.executable, "-c", textwrap.dedent(STREAM), "raw", "100"]
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE) as process, open(reader, "rb") as out:
        os.close(writer)
        time.sleep(0.5)
        assert len(out.read()) == 100 * 4800
        assert process.wait(20) == 0


@pytest.mark.parametrize("kind", [RawStream, WavStream])
def test_a_stream_without_samples_fails_and_sends_nothing(kind):
    """CL-09 for pipes: not even a header."""
    file = io.BytesIO()
    with pytest.raises(CosyError), kind(file, RATE):
        pass
    assert file.getvalue() == b""


def test_listener_gone_is_seen_by_the_caller(speech):
    """The sink's own block swallows it, and `gone` tells."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb", buffering=0) as file:
        sink = RawStream(file, RATE)
        with sink:
            sink.write(chunks(speech)[0])
            pytest.fail("not reached")
        assert sink.gone
        with pytest.raises(ListenerGone), RawStream(file, RATE):
            raise ListenerGone


def test_tee_commits_all_or_none(tmp_path, speech):
    """--play -o: every sink gets every chunk; an error discards in all."""
    tee = Tee(FileSink(tmp_path / "a.wav", RATE), FileSink(tmp_path / "b.flac", RATE))
    write_all(tee, speech)
    assert soundfile.info(tmp_path / "a.wav").frames == soundfile.info(tmp_path / "b.flac").frames == len(speech)
    with pytest.raises(KeyboardInterrupt), Tee(FileSink(tmp_path / "c.wav", RATE), FileSink(tmp_path / "d.wav", RATE)):
        raise KeyboardInterrupt
    with pytest.raises(CosyError), Tee(FileSink(tmp_path / "e.wav", RATE), FileSink("/nonexistent/f.wav", RATE)):
        pytest.fail("not reached")
    assert sorted(os.listdir(tmp_path)) == ["a.wav", "b.flac"]
