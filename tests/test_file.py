"""`cosy file` with a scripted voice: what it finds, refuses, makes, leaves as it is, and says."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
import wave
from pathlib import Path

import pytest
import soundfile
from fakes import backend as fake

from cosycli import cli
from cosycli.audio.formats import unwritable
from cosycli.audio.wavfile import FileSink, read_comment
from cosycli.batch import fingerprint
from cosycli.batch.inputs import find

RATE = 24000
TESTS = Path(__file__).parent
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX only")


@pytest.fixture
def voice(monkeypatch, tmp_path):
    """The scripted voice; the current folder is empty, and the user has no lexicon."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COSY_CONFIG", str(tmp_path / ".config"))
    return fake.install(monkeypatch.setattr)


def run(*arguments):
    return cli.program(["file", *map(str, arguments)])


def write(files):
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


def made(folder="."):
    """Audio and subtitle files below a folder; drafts would be among them."""
    texts = (".txt", ".md")
    found = (path for path in Path(folder).rglob("*") if path.is_file() and path.suffix not in texts)
    return sorted(path.relative_to(folder).as_posix() for path in found)


def frames(path):
    return soundfile.info(str(path)).frames


def lines(captured):
    return [json.loads(line) for line in captured.splitlines()]


def start(*arguments, delay=0.0, **options):
    """`cosy file` as a process of its own, with the scripted voice."""
    env = os.environ | {"PYTHONPATH": str(TESTS), "COSY_FAKE_DELAY": str(delay)}
    command = [sys.executable, "-m", "fakes.backend", "file", *map(str, arguments)]
    return subprocess.Popen(command, env=env, **options)


# --- which texts, which files


def test_each_text_has_its_audio_beside_it(voice):
    write({"a.txt": "你好", "b.md": "# 再见"})
    assert run("a.txt", "b.md") == 0
    assert made() == ["a.wav", "b.wav"]
    assert voice.loads == 1


def test_a_folder_keeps_its_structure(voice):
    """Names come from stems; only texts are read, hidden files are not."""
    write(
        {
            "book/1/a.txt": "一。",
            "book/2/a.txt": "二。",
            "book/B.MD": "三。",
            "book/x.csv": "四",
            "book/.git/c.txt": "五",
        }
    )
    assert run("book", "-d", "out") == 0
    assert made("out") == ["1/a.wav", "2/a.wav", "B.wav"]


def test_glob_chooses(voice):
    write({"book/a.txt": "一。", "book/b.srt": "二。", "book/ch/c.log": "三。", "book/d.wav": b"RIFF"})
    assert run("book", "-d", "out", "--glob", "*.srt", "--glob", "ch/*") == 0
    assert made("out") == ["b.wav", "ch/c.wav"]
    assert run("book", "-d", "all", "--glob", "*") == 0  # audio is never taken for a text
    assert made("all") == ["a.wav", "b.wav", "ch/c.wav"]


def test_order_is_that_of_a_reader(voice, capsys):
    """Chapter 10 came before chapter 2."""
    write({f"book/ch{n}.txt": "好。" for n in (10, 9, 2, 1)} | {"book/a/z.txt": "好。"})
    assert [source.place.name for source in find(["book"]).sources] == ["ch1", "ch2", "ch9", "ch10", "z"]
    run("book", "-d", "out", "--json")
    assert [line["input"] for line in lines(capsys.readouterr().out)[:-1]] == [
        str(Path("book", name)) for name in ("ch1.txt", "ch2.txt", "ch9.txt", "ch10.txt", str(Path("a", "z.txt")))
    ]


def test_a_text_named_twice_is_made_once(voice):
    write({"book/a.txt": "你好"})
    assert run("book", "book/a.txt", "./book/a.txt", "-d", "out") == 0
    assert len(voice.said) == 1


@pytest.mark.parametrize("name", ["wav", "flac", "ogg", "mp3"])
def test_formats(voice, name):
    """CL-02: a WAV's header counts exactly what follows it."""
    write({"a.txt": "第一句。第二句。"})
    assert run("a.txt", "--format", name.upper()) == 0
    assert run("a.txt", "-o", f"b.{name}") == 0
    for path in (f"a.{name}", f"b.{name}"):
        assert frames(path) > RATE
    if name == "wav":
        with wave.open("a.wav") as file:
            tail = os.path.getsize("a.wav") - 44 - file.getnframes() * 2
        assert tail == 0 or not hasattr(os, "setxattr")


def test_text_without_a_full_stop(voice):
    """SG-01. No closing mark, no sound."""
    write({"a.txt": "今天没有句号"})
    assert run("a.txt") == 0
    assert 0.8 <= frames("a.wav") / RATE <= 4


def test_all_sentences_of_a_text_are_in_one_file(voice):
    """SG-03. Of many sentences only the last was in the file, or each wrote over the one before."""
    write({"a.txt": "".join(f"第{n}句，今天天气很好我们去公园散步吧。" for n in range(1, 21))})
    assert run("a.txt", "-d", "out") == 0
    assert made("out") == ["a.wav"]
    assert frames("out/a.wav") / RATE >= 20 * 16 * fake.SYLLABLE * 0.9


# --- parts


def test_a_file_for_each_line(voice):
    write({"a.txt": "第一行。\r\n\r\n---\n第二行没有句号\n   \n第三行。"})
    assert run("a.txt", "--split", "line", "-d", "out") == 0
    assert made("out") == ["a-0001.wav", "a-0002.wav", "a-0003.wav"]
    assert voice.said == ["第一行。", "第二行没有句号", "第三行。"]


def test_a_file_for_each_paragraph(voice):
    write({"a.md": "第一段，\n还是第一段。\n\n \t\n* * *\n\n第二段。\n\n"})
    assert run("a.md", "--split", "paragraph", "--subtitles", "srt") == 0
    assert made() == ["a-0001.srt", "a-0001.wav", "a-0002.srt", "a-0002.wav"]


def test_only_changed_lines_are_made_again(voice):
    write({"a.txt": "一行。\n两行。\n三行。\n"})
    run("a.txt", "--split", "line")
    voice.said.clear()
    write({"a.txt": "一行。\n二行。\n三行。\n四行。\n"})
    assert run("a.txt", "--split", "line") == 0
    assert voice.said == ["二行。", "四行。"]


# --- what is refused before any work


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x/a.txt", "y/a.txt", "-d", "out"], ["x/a.txt", "y/a.txt"]),
        (["x/a.txt", "x/a.md"], ["x/a.txt", "x/a.md"]),
        (["x", "y", "-d", "out"], ["x/a.md", "x/a.txt"]),
        (["x/a.txt", "y/a.txt", "-o", "o.wav"], ["2 texts", "-d DIR"]),
        (["x/a.txt", "nope.txt", "-o", "o.wav"], ["2 texts"]),
        (["y", "-o", "o.wav", "-d", "out"], ["-o", "-d"]),
        (["y", "-o", "o.wav", "--split", "line"], ["--split"]),
        (["y", "-o", "o.xyz"], [".xyz"]),
        (["y", "-o", "o.mp3", "--format", "wav"], ["mp3", "wav"]),
        (["y", "-o", "-", "--format", "mp3"], ["WAV"]),
        (["y", "-o", "-", "--subtitles", "srt"], ["WAV"]),
        (["y", "--split", "word"], ["line", "paragraph"]),
        (["y", "--speed", "9"], ["0.5 to 2"]),
        (["y", "--encoding", "hex"], ["hex"]),
        (["y", "--lexicon", "nope.txt"], ["nope.txt"]),
        (["y", "--subtitles", "doc"], ["srt"]),
        (["y", "--format", "aiff"], ["wav"]),
        (["nope.txt"], ["nope.txt"]),
        (["empty"], ["empty", "*.txt"]),
        (["y", "--glob", "*.rst"], ["*.rst"]),
        (["-"], ["-o FILE"]),
        ([], ["INPUT"]),
    ],
)
def test_wrong_use_is_refused_before_anything_is_made(voice, capsys, arguments, words):
    """CL-17. Two texts became one file, the second over the first, after hours of work."""
    write({"x/a.txt": "一", "x/a.md": "二", "y/a.txt": "三"})
    Path("empty").mkdir()
    assert run(*arguments) == 2
    said = capsys.readouterr().err.replace(os.sep, "/")
    assert said.startswith("error: ")
    assert "hint: " in said
    assert all(word in said for word in words)
    assert made() == []
    assert not Path("out").exists()
    assert voice.loads == 0


@pytest.mark.parametrize(("arguments", "code"), [(["--voice", "bob"], 3), (["--model", "bob"], 3)])
def test_an_unknown_voice_is_refused_before_anything_is_made(voice, arguments, code):
    write({"a.txt": "一"})
    assert run("a.txt", "-d", "out", *arguments) == code
    assert not Path("out").exists()


def test_a_text_is_never_written_over(voice, capsys):
    """Subtitles of a.srt are a.srt; audio of a.wav is a.wav."""
    write({"a.srt": "字幕。", "b.wav": "其实是文字。"})
    for arguments in (["a.srt", "--subtitles", "srt"], ["b.wav"], ["a.srt", "--subtitles", "srt", "--force"]):
        assert run(*arguments) == 2
        assert "written over" in capsys.readouterr().err
    assert Path("a.srt").read_text() == "字幕。"
    assert Path("b.wav").read_text() == "其实是文字。"


def test_a_recording_beside_its_text_is_not_written_over(voice, capsys):
    """Data sets come as a.txt with a.wav, its recording by a human: making audio of the texts destroyed them all."""
    write({"a.txt": "你好", "b.txt": "再见"})
    soundfile.write("a.wav", [0.1] * 999, RATE)
    assert run("a.txt", "b.txt") == 1
    assert "--force" in capsys.readouterr().err
    assert (frames("a.wav"), made()) == (999, ["a.wav", "b.wav"])
    assert run("a.txt", "--force") == 0
    assert frames("a.wav") != 999


@pytest.mark.parametrize("output", ["nowhere/x.wav", ".", os.sep])
def test_an_output_that_cannot_be_written_is_found_first(voice, capsys, output):
    """CL-10. Found out after the model was loaded and the text spoken, and still exit 0."""
    write({"a.txt": "你好"})
    assert run("a.txt", "-o", output) == 1
    assert f"error: cannot write {output}" in capsys.readouterr().err
    assert voice.loads == 0


def test_a_folder_that_cannot_be_written_is_found_first(voice, capsys):
    """CL-10. The folder is a file: fails for root as well, which a read-only folder does not."""
    write({"a.txt": "你好", "out": "a file"})
    assert run("a.txt", "-d", "out") == 1
    assert run("a.txt", "-d", "out/deep/er") == 1
    assert "error: cannot write to out" in capsys.readouterr().err
    assert voice.loads == 0


def test_one_folder_that_cannot_be_written_does_not_stop_the_others(voice, capsys):
    write({"in/a/x.txt": "你好", "in/b/x.txt": "再见", "out/a": "a file"})
    assert run("in", "-d", "out") == 1
    assert made("out") == ["a", "b/x.wav"]
    assert str(Path("out", "a")) in capsys.readouterr().err


def test_an_output_that_is_a_folder_or_has_too_long_a_name(voice, capsys):
    """Its draft could be written; only the last rename, after all the work, would fail."""
    write({"in/a.txt": "你好", f"in/{'n' * 251}.txt": "再见", "in/c.txt": "好"})
    Path("out/a.wav").mkdir(parents=True)
    assert run("in", "-d", "out", "--format", "wav") == 1
    assert run("in", "-d", "flac", "--format", "flac") == 1
    assert made("flac") == ["a.flac", "c.flac"]
    assert "it is a folder" in capsys.readouterr().err
    assert not any("n" in sentence for sentence in voice.said)


# --- bad texts


def test_bad_texts_do_not_stop_the_others(voice, capsys):
    """CL-15. One binary file stopped the whole overnight batch."""
    write({"1.txt": "你好", "2.txt": b"\x7fELF\0\0\1" * 99, "3.txt": b"", "4.txt": "再见", "5.txt": "---\n\n***"})
    assert run("1.txt", "2.txt", "3.txt", "4.txt", "5.txt", "6.txt") == 1
    assert made() == ["1.wav", "4.wav"]
    summary = capsys.readouterr().err.split("2 done")[1].splitlines()
    assert "4 failed:" in summary[0]
    assert summary[1:] == [
        "  6.txt: there is no such file",
        "  2.txt: it is not text (it contains NUL bytes)",
        "  3.txt: it is empty",
        "  5.txt: there is nothing to speak in it",
    ]


def test_what_fails_while_it_is_made(voice, capsys):
    """CL-09, CL-15: silence, a failing graph and a bug of ours are failures of one text each, and leave no file."""
    write(
        {
            "a.txt": "你好",
            "b.txt": "这句失败",
            "c.txt": "无声",
            "d.txt": "这句崩溃",
            "e.txt": "<!-- 注释 -->",
            "f.txt": "再见",
        }
    )
    assert run("a.txt", "b.txt", "c.txt", "d.txt", "e.txt", "f.txt", "--subtitles", "srt") == 1
    assert made() == ["a.srt", "a.wav", "f.srt", "f.wav"]
    said = capsys.readouterr().err
    for reason in ("b.txt: the graph failed", "d.txt: internal error", "TypeError: a bug", "c.txt: ", "e.txt: "):
        assert reason in said
    assert "2 done" in said
    assert "4 failed:" in said
    assert "Traceback" not in said


def test_a_model_that_fails_again_and_again_ends_the_batch(voice, capsys):
    write({f"{n}.txt": "这句失败" for n in range(9)})
    assert run(".") == 4
    assert len(voice.said) == 3


def test_a_single_text_fails_with_its_own_exit_code_and_one_message(voice, capsys):
    """Exit 2 for nothing to speak, as `speak` has it; and not the same words three times over."""
    for content, code in ((b"", 2), (b"\n---\n", 2), (b"\0\1\2\3", 2), ("失败".encode(), 4)):
        write({"a.txt": content})
        assert run("a.txt", "-o", "x.wav") == code
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert made() == []


@pytest.mark.parametrize("how", ["errno", "library", "part"])
def test_a_full_disk_ends_the_batch_at_once(voice, monkeypatch, capsys, how):
    """Ten thousand times "No space left on device", one for each text; or "System error", as libsndfile has it."""
    write({f"{n}.txt": "好" for n in range(9)})
    real = FileSink.write

    def full(self, chunk):
        if self.path.name == "2.wav" and how != "errno":
            with self._foreign_errors():
                raise soundfile.LibsndfileError(2) if how == "library" else AssertionError
        if self.path.name == "2.wav":
            error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise unwritable(self.path, error) from error
        real(self, chunk)

    monkeypatch.setattr(FileSink, "write", full)
    assert run(".") == 1
    said = capsys.readouterr().err
    assert made() == ["0.wav", "1.wav"]
    assert "6 not begun" in said
    assert "no room left" in said


@posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_dev_full(voice, capsys):
    """CL-10. Written to a full device, exit 0."""
    write({"a.txt": "你好"})
    assert run("a.txt", "-o", "/dev/full") == 1
    assert "No space left" in capsys.readouterr().err


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read and write all")
def test_permissions(voice, capsys):
    """CL-10, CL-15. A text that may not be read; a folder that may not be written to."""
    write({"in/a.txt": "你好", "in/b.txt": "再见"})
    os.chmod("in/a.txt", 0)
    Path("locked").mkdir(mode=0o500)
    assert run("in", "-d", "locked") == 1
    assert run("in", "-d", "out") == 1
    assert made("out") == ["b.wav"]
    assert "in/a.txt: cannot be read: Permission denied" in capsys.readouterr().err


# --- run again


def test_what_is_done_is_left_as_it_is(voice, capsys):
    write({"a.txt": "你好", "b.txt": "再见"})
    assert run("a.txt", "b.txt") == 0
    before = [os.stat(name).st_mtime_ns for name in ("a.wav", "b.wav")]
    capsys.readouterr()
    voice.loads = 0
    assert run("a.txt", "b.txt") == 0
    assert [os.stat(name).st_mtime_ns for name in ("a.wav", "b.wav")] == before
    assert capsys.readouterr().err == "nothing to do: 2 files are up to date (--force makes them anew)\n"
    assert run("a.txt", "b.txt", "--force") == 0
    assert [os.stat(name).st_mtime_ns for name in ("a.wav", "b.wav")] != before


def test_the_model_is_not_loaded_for_nothing(voice, monkeypatch):
    write({"a.txt": "你好"})
    run("a.txt")
    again = fake.install(monkeypatch.setattr)
    assert run("a.txt") == 0
    assert again.loads == 0


@pytest.mark.parametrize("name", ["wav", "flac", "ogg", "mp3"])
@pytest.mark.parametrize(
    "change",
    [
        ["--speed", "1.2"],
        ["--voice", "af_heart"],
        ["--no-normalize"],
        ["--lexicon", "words.txt"],
        ["--subtitles", "srt"],
    ],
)
def test_other_options_make_it_again(voice, change, name):
    """The fingerprint is in every format's metadata and holds all that decides how the text sounds."""
    write({"a.txt": "重庆 3 月。", "words.txt": "重庆 = chong2 qing4"})
    assert run("a.txt", "--format", name) == 0
    for expected in (1, 0):
        voice.said.clear()
        assert run("a.txt", "--format", name, *change) == 0
        assert len(voice.said) == expected


def test_a_changed_text_or_lexicon_is_made_again(voice):
    write({"a.txt": "重庆。", "words.txt": "重庆 = chong2 qing4"})
    arguments = ("a.txt", "--lexicon", "words.txt")
    run(*arguments)
    for name, content in (("words.txt", "重庆 = zhong4 qing4"), ("a.txt", "重庆！")):
        voice.said.clear()
        write({name: content})
        run(*arguments)
        assert len(voice.said) == 1


def test_another_encoding_of_the_same_text_changes_nothing(voice):
    write({"a.txt": "今天天气很好，我们去散步。"})
    run("a.txt")
    voice.said.clear()
    for encoding in ("gb18030", "utf-16", "utf-8-sig"):
        write({"a.txt": "今天天气很好，我们去散步。".encode(encoding)})
        assert run("a.txt") == 0
    assert voice.said == []


def test_another_version_makes_it_again(voice, monkeypatch):
    """A voice that was bettered, or another reading of numbers, would stand beside the old one in the same book."""
    write({"a.txt": "你好"})
    run("a.txt")
    monkeypatch.setattr(fingerprint, "sound_version", lambda model: "another")
    voice.said.clear()
    assert run("a.txt") == 0
    assert voice.said == ["你好"]


def test_the_version_follows_code_and_data():
    """What decides how a text sounds is in it."""
    files = {name for part in ("text", "engine.py", "data", "backends/kokoro") for name, _ in _files(part)}
    assert {"segment.py", "engine.py", "backend.py", "zf_xiaobei.npz"} <= files


def _files(part):
    from importlib import resources

    return fingerprint._files(resources.files("cosycli").joinpath(part))


@pytest.mark.parametrize("name", ["wav", "flac", "ogg", "mp3"])
@pytest.mark.parametrize("damage", ["half", "last byte", "empty", "junk"])
def test_a_damaged_file_is_made_again(voice, name, damage):
    """A copy that broke off keeps its metadata, and the file passed for done."""
    path = Path(f"a.{name}")
    write({"a.txt": "今天天气很好。我们去公园散步，然后一起吃饭。"})
    run("a.txt", "--format", name)
    whole = path.read_bytes()
    content = {"half": whole[: len(whole) // 2], "last byte": whole[:-1], "empty": b"", "junk": b"junk" * 99}[damage]
    path.write_bytes(content)
    run("a.txt", "--format", name)
    assert path.read_bytes() == whole or name == "ogg"  # Ogg streams have a random serial number
    assert frames(path) > RATE
    assert (read_comment(path) or "").startswith("cosy:1:")


def test_missing_or_old_subtitles_are_made_again(voice):
    """The subtitles of a text that has changed since, with audio made anew without them, were taken for good."""
    write({"a.txt": "你好。"})
    run("a.txt", "--subtitles", "srt")
    os.remove("a.srt")
    assert run("a.txt", "--subtitles", "srt") == 0
    assert "你好" in Path("a.srt").read_text()
    write({"a.txt": "再见。"})
    run("a.txt")
    assert run("a.txt", "--subtitles", "srt") == 0
    assert "再见" in Path("a.srt").read_text()
    assert run("a.txt", "--subtitles", "vtt") == 0
    assert made() == ["a.srt", "a.vtt", "a.wav"]


def test_drafts_of_killed_runs_are_swept(voice):
    write({"in/a.txt": "你好", "out/.cosy-0123456789abcdef.part": b"half"})
    assert run("in", "-d", "out") == 0
    assert made("out") == ["a.wav"]
    write({"out/.cosy-0123456789abcdef.part": b"half"})
    assert run("in", "-d", "out") == 0
    assert made("out") == ["a.wav"]


def test_same_bytes_every_time(voice):
    write({"a.txt": "今天天气很好。我们去公园散步。"})
    run("a.txt", "-o", "1.wav")
    run("a.txt", "-o", "2.wav")
    assert Path("1.wav").read_bytes() == Path("2.wav").read_bytes()


# --- encodings


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "gb18030", "big5"])
def test_any_encoding_is_spoken_as_written(voice, encoding):
    """CL-18, CL-20, CL-21."""
    text = "今天我在家里看书，没有出门。" if encoding != "big5" else "今天我在家裡看書，沒有出門。"
    write({"a.txt": text.encode(encoding)})
    assert run("a.txt") == 0
    assert "".join(voice.said) in (text, "今天我在家里看书，没有出门。")


def test_an_encoding_that_is_named(voice, capsys):
    write({"a.txt": "你好".encode("gb18030"), "b.txt": "再见"})
    assert run("a.txt", "b.txt", "--encoding", "gb18030", "-d", "out") in (0, 1)
    assert run("a.txt", "--encoding", "utf-8", "-d", "out", "--force") == 1
    assert "utf-8" in capsys.readouterr().err


@posix
def test_locale_does_not_matter(tmp_path):
    """CL-18. On a Chinese Windows a UTF-8 text failed with "'gbk' codec can't decode"; JSON could not be printed."""
    (tmp_path / "é𠮷.txt").write_text("你好，世界。", "utf-8")
    env = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "gbk", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "fakes.backend", "file", ".", "--json"]
    result = subprocess.run(
        command, cwd=tmp_path, env=os.environ | env | {"PYTHONPATH": str(TESTS)}, capture_output=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert frames(tmp_path / "é𠮷.wav") == round(4 * fake.SYLLABLE * RATE)
    assert json.loads(result.stdout.splitlines()[0].decode("gbk"))["status"] == "done"


# --- standard input and output


def test_standard_input_to_a_file(tmp_path):
    command = ("-", "-o", tmp_path / "x.wav")
    for _ in range(2):
        process = start(*command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        _, err = process.communicate("第一句。第二句。".encode("gb18030"), timeout=60)
        assert process.returncode == 0
    assert b"up to date" in err
    assert frames(tmp_path / "x.wav") > 5.9 * fake.SYLLABLE * RATE


def test_both_sentences_on_stdout(tmp_path):
    """CL-01. A WAV on stdout had the first sentence only, or failed with `Illegal seek`."""
    sizes = []
    for text in ("第一句。", "第一句。第二句。"):
        process = start("-", "-o", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out, _ = process.communicate(text.encode(), timeout=60)
        assert process.returncode == 0
        sizes.append(len(out))
    assert sizes[1] >= 2 * sizes[0] - 44
    (tmp_path / "o.wav").write_bytes(out)
    with wave.open(str(tmp_path / "o.wav")) as file:
        assert file.getframerate() == RATE
    with open(tmp_path / "p.wav", "wb") as file:
        process = start("-", "-o", "-", stdin=subprocess.PIPE, stdout=file)
        process.communicate(text.encode(), timeout=60)
    with wave.open(str(tmp_path / "p.wav")) as file:
        assert file.getnframes() * 2 + 44 == (tmp_path / "p.wav").stat().st_size == len(out)


def test_stdout_speaks_before_the_end_of_input():
    """The first sentence comes out while the pipe's writer still thinks about the second."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start("-", "-o", "-", "--json", **pipes) as process:
        process.stdin.write("第一句话说完了。\n第二".encode())
        process.stdin.flush()
        assert process.stdout.read(44)[:4] == b"RIFF"
        process.stdin.write("句话。\n".encode())
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(out) > 10 * fake.SYLLABLE * RATE * 2
    assert json.loads(err)["status"] == "done"


def test_nothing_on_stdin():
    process = start("-", "-o", "-", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, b"")
    assert b"nothing to speak" in err


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path):
    (tmp_path / "a.txt").write_text("今天天气很好。" * 500, "utf-8")
    with start(tmp_path / "a.txt", "-o", "-", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@posix
def test_a_pipe_as_input_is_read_once(voice):
    """`cosy file <(…)`: read for the plan and read again for the work, the second time it was empty."""
    os.mkfifo("p")
    writer = subprocess.Popen(["sh", "-c", "printf 你好 > p"])
    assert run("p", "-o", "x.wav") == 0
    writer.wait()
    assert voice.said == ["你好"]


def test_a_film_is_no_text(voice, capsys):
    """A disk image called notes.txt is not read into memory whole."""
    with open("notes.txt", "wb") as file:
        file.truncate(1 << 40)
    assert run("notes.txt", "-d", "out") == 1
    assert "more than 64 MB" in capsys.readouterr().err


@posix
def test_a_device_is_no_text(voice):
    """`cosy file /dev/zero` filled the memory."""
    assert run("/dev/zero", "-d", "out") == 1


# --- what it says


def test_lines_where_there_is_no_terminal(voice, capsys):
    write({"a.txt": "你好", "b.txt": "再见"})
    run("a.txt", "b.txt")
    out, err = capsys.readouterr()
    assert out == ""
    first, second, summary = err.splitlines()
    assert (first, second) == ("[1/2] a.wav: 0.4 s", "[2/2] b.wav: 0.4 s")
    assert summary.startswith("2 done (0.8 s of speech, real-time factor ")


def test_quiet_says_only_what_failed(voice, capsys):
    write({"a.txt": "你好", "b.txt": ""})
    run("a.txt", "-q")
    assert capsys.readouterr().err == ""
    run("a.txt", "b.txt", "-q")
    assert capsys.readouterr().err == "1 up to date, 1 failed:\n  b.txt: it is empty\n"


def test_json_for_scripts(voice, capsys):
    write({"a.txt": "你好", "b.txt": "", "c.txt": "再见\n好"})
    run("a.txt")
    capsys.readouterr()
    assert run("a.txt", "b.txt", "c.txt", "--json") == 1
    *values, summary = lines(capsys.readouterr().out)
    assert sorted(values, key=lambda value: value["input"]) == [
        {"path": "a.wav", "input": "a.txt", "status": "skipped", "seconds": 0.4, "reason": None},
        {"path": None, "input": "b.txt", "status": "failed", "seconds": 0.0, "reason": "it is empty"},
        {"path": "c.wav", "input": "c.txt", "status": "done", "seconds": values[-1]["seconds"], "reason": None},
    ]
    counts = summary["summary"]
    assert (counts["done"], counts["skipped"], counts["failed"], counts["left"]) == (1, 1, 1, 0)
    assert summary["failures"] == [{"input": "b.txt", "reason": "it is empty"}]


@posix
def test_names_that_are_no_text(voice, capsys):
    """A file name in GBK on a UTF-8 system could be read but not printed."""
    name = os.fsdecode("名字.txt".encode("gbk"))
    write({name: "你好"})
    assert run(".", "--json") == 0
    assert lines(capsys.readouterr().out)[0]["status"] == "done"
    assert len(made()) == 1


def read_all(terminal):
    shown = b""
    with os.fdopen(terminal, "rb", buffering=0) as file, contextlib.suppress(OSError):  # EIO: the other end is closed
        while block := file.read(65536):
            shown += block
    return shown


@posix
def test_a_bar_on_a_terminal(tmp_path):
    """Time left and real-time factor; lines stand above it; nothing of it remains."""
    for n in range(3):
        (tmp_path / f"{n} [b].txt").write_text("今天天气很好，我们去公园散步。", "utf-8")
    master, slave = pty.openpty()
    with start(tmp_path, delay=0.05, stderr=slave, stdin=slave, stdout=subprocess.PIPE) as process:
        os.close(slave)
        shown = read_all(master)
        assert process.stdout.read() == b""
        assert process.wait(60) == 0
    text = shown.decode()
    assert "RTF 0." in text
    assert "left" in text
    assert "1/3 files" in text
    assert "[b].wav: 2.6 s" in text.replace("\r\n", "")
    assert "3 done" in text.splitlines()[-1]


# --- interrupted, long


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(tmp_path, number):
    """CL-13. Ctrl-C: no half file, no traceback, what is finished stays, and a rerun goes on from there."""
    for n in range(4):
        (tmp_path / f"{n}.txt").write_text("今天天气很好。" * (1 if n < 2 else 400), "utf-8")
    with start(tmp_path, delay=0.01, stderr=subprocess.PIPE) as process:
        until(lambda: (tmp_path / "1.wav").exists() and any(tmp_path.glob(".cosy-*")), process)
        begun = time.monotonic()
        process.send_signal(number)
        err = process.stderr.read().decode()
        assert process.wait(60) == (130 if number == signal.SIGINT else 143)
        assert time.monotonic() - begun < 5
    assert made(tmp_path) == ["0.wav", "1.wav"]
    assert "Traceback" not in err
    assert number != signal.SIGINT or "2 done" in err


@posix
def test_nohup_is_obeyed(tmp_path):
    """Closing the terminal ended a long `nohup cosy file`: its handler replaced the signal that nohup ignores."""
    for n in range(2):
        (tmp_path / f"{n}.txt").write_text("今天天气很好。", "utf-8")
    ignored = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    with start(tmp_path, delay=0.05, stderr=subprocess.PIPE, preexec_fn=ignored) as process:
        until((tmp_path / "0.wav").exists, process)
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 0
    assert made(tmp_path) == ["0.wav", "1.wav"]


def until(true, process):
    deadline = time.monotonic() + 60
    while not true():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_long_text_needs_little_memory(voice, monkeypatch):
    """3 MB of text are two days of speech: neither it nor its audio is ever held whole."""
    write({"a.txt": "今天天气很好，我们去公园散步。" * 66_000})
    assert os.path.getsize("a.txt") > 2_900_000
    peak, count = [], 0
    real = FileSink.write

    def watched(self, chunk):
        nonlocal count
        count += 1
        real(self, chunk)
        if count == 3000:
            peak.append(tracemalloc.get_traced_memory()[1])
            raise KeyboardInterrupt

    write({"b.txt": "今天天气很好，3 月 1 日 we go to the park。"})
    assert run("b.txt", "--format", "flac") == 0  # dictionaries are loaded before it is measured
    monkeypatch.setattr(FileSink, "write", watched)
    tracemalloc.start()
    try:
        assert run("a.txt", "--format", "flac") == 130
    finally:
        tracemalloc.stop()
    assert peak[0] < 20_000_000  # the text itself is 3 MB as bytes and 2 MB as characters
    assert made() == ["b.flac"]


def test_a_text_too_long_for_wav_is_noted(voice, monkeypatch, capsys):
    """After 25 hours of speech a WAV file is full: better known at the beginning of the night than at its end."""
    write({"a.txt": "天" * 500_000})

    def stop(self, chunk):
        raise KeyboardInterrupt

    monkeypatch.setattr(FileSink, "write", stop)
    assert run("a.txt") == 130
    assert "note: a.txt is about 31 hours of speech" in capsys.readouterr().err
    assert run("a.txt", "--format", "flac") == 130
    assert "note" not in capsys.readouterr().err


def test_a_copy_without_its_metadata(voice):
    """A copy without metadata is no longer known as done, and is made again."""
    write({"in/a.txt": "你好"})
    run("in", "-d", "out")
    shutil.copyfile("out/a.wav", "bare.wav")
    os.replace("bare.wav", "out/a.wav")
    voice.said.clear()
    assert run("in", "-d", "out") == 0
    assert len(voice.said) == (1 if hasattr(os, "setxattr") else 0)
