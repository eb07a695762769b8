"""The bundle cache: built once, by one process, whole or not at all; damage is noticed; failures are told."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cosycli.bundles import store
from cosycli.errors import InferenceError, ModelError


def manifest(version="1", name="tiny"):
    return store.Manifest(name, "fake", version, "float32", "CC0", 24000)


class Build:
    """A build function that counts its calls and writes two files; `fail` is raised after the first."""

    def __init__(self, content=b"graph", fail=None):
        self.content, self.fail, self.folders = content, fail, []

    def __call__(self, folder):
        self.folders.append(folder)
        (folder / "a.onnx").write_bytes(self.content)
        if self.fail:
            raise self.fail
        (folder / "b.onnx").write_bytes(self.content * 2)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache of the test's own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("COSY_HOME", str(folder))
    return folder


def leftovers(home):
    """What lies in the cache besides the bundle and its lock."""
    return sorted(p.name for p in (home / "bundles").iterdir() if p.name not in ("tiny", "tiny.lock"))


def test_built_once_and_then_reused(home):
    """The second call finds a whole bundle and builds nothing."""
    build = Build()
    folder = store.ensure(manifest(), build)
    assert folder == home / "bundles" / "tiny"
    assert store.ensure(manifest(), build) == folder
    assert len(build.folders) == 1
    assert build.folders[0] != folder  # built elsewhere and renamed
    assert sorted(p.name for p in folder.iterdir()) == ["a.onnx", "b.onnx", "manifest.json"]
    assert leftovers(home) == []


def test_the_manifest_tells_what_is_there():
    """Sizes and digests of every file, and the facts that were asked for."""
    folder = store.ensure(manifest("7"), Build())
    found = store.read_manifest(folder)
    assert (found.version, found.family, found.rate) == ("7", "fake", 24000)
    assert {name: size for name, (size, _) in found.files.items()} == {"a.onnx": 5, "b.onnx": 10}
    assert store.intact(folder, found, thorough=True)


@pytest.mark.parametrize("wanted", [manifest("2"), store.Manifest("tiny", "other", "1", "float32", "CC0", 24000)])
def test_another_version_or_family_is_rebuilt(home, wanted):
    """After an upgrade the old graphs are replaced, with nothing of them left."""
    store.ensure(manifest("1"), Build(b"old"))
    folder = store.ensure(wanted, Build(b"new"))
    assert (folder / "a.onnx").read_bytes() == b"new"
    assert store.read_manifest(folder).version == wanted.version
    assert leftovers(home) == []


def test_rebuild_is_done_when_asked_for():
    """`--rebuild` builds although the bundle is whole."""
    store.ensure(manifest(), Build(b"old"))
    folder = store.ensure(manifest(), Build(b"new"), rebuild=True)
    assert (folder / "a.onnx").read_bytes() == b"new"


def damage(folder, how):
    """Harm a bundle in one of the ways that disks, users and interrupted copies do."""
    graph, facts = folder / "a.onnx", folder / "manifest.json"
    if how == "truncated":
        graph.write_bytes(b"gra")
    elif how == "empty":
        graph.write_bytes(b"")
    elif how == "missing":
        graph.unlink()
    elif how == "folder in place of a file":
        graph.unlink()
        graph.mkdir()
    elif how == "no manifest":
        facts.unlink()
    elif how == "manifest cut":
        facts.write_text(facts.read_text()[:40])
    elif how == "manifest of zeros":
        facts.write_bytes(b"\0" * 200)
    elif how == "manifest of another kind":
        facts.write_text("[1, 2]")
    elif how == "manifest without files":
        facts.write_text(json.dumps({"name": "tiny"}))
    elif how == "manifest with a stranger":
        facts.write_text(json.dumps(json.loads(facts.read_text()) | {"stranger": 1}))


DAMAGES = (
    "truncated", "empty", "missing", "folder in place of a file", "no manifest", "manifest cut", "manifest of zeros",
    "manifest of another kind", "manifest without files", "manifest with a stranger",
)  # fmt: skip


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_is_noticed_and_mended(home, how):
    """A cache that was cut short by a full disk or a killed copy is rebuilt, not opened."""
    folder = store.ensure(manifest(), Build())
    damage(folder, how)
    build = Build()
    assert store.ensure(manifest(), build) == folder
    assert len(build.folders) == 1
    assert store.intact(folder, store.read_manifest(folder), thorough=True)
    assert leftovers(home) == []


def test_changed_bytes_of_the_same_size_are_noticed_when_looked_at_thoroughly():
    """Sizes alone do not show a flipped bit; the digests do."""
    folder = store.ensure(manifest(), Build())
    found = store.read_manifest(folder)
    (folder / "a.onnx").write_bytes(b"grabh")
    assert store.intact(folder, found)
    assert not store.intact(folder, found, thorough=True)


def test_under_the_lock_the_look_is_thorough(monkeypatch):
    """A file was missing; while we waited it came back with the right size and the wrong bytes: that is damage too."""
    folder = store.ensure(manifest(), Build())
    (folder / "a.onnx").unlink()
    lock = store._lock

    def restored(*arguments):
        (folder / "a.onnx").write_bytes(b"grabh")
        return lock(*arguments)

    monkeypatch.setattr(store, "_lock", restored)
    store.ensure(manifest(), Build(b"fresh"))
    assert (folder / "a.onnx").read_bytes() == b"fresh"


def test_what_another_process_repaired_while_we_waited_is_used(monkeypatch):
    """The same, but it came back whole: nothing is built a second time."""
    folder = store.ensure(manifest(), Build())
    (folder / "a.onnx").unlink()
    lock = store._lock

    def restored(*arguments):
        (folder / "a.onnx").write_bytes(b"graph")
        return lock(*arguments)

    monkeypatch.setattr(store, "_lock", restored)
    assert store.ensure(manifest(), Build(fail=AssertionError("built again"))) == folder


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt(), MemoryError(), InferenceError("no", "no")])
def test_an_interrupted_build_leaves_nothing(home, error):
    """Ctrl-C, or a bug, in the middle: no half-made folder under the final name, and the next run succeeds."""
    with pytest.raises(type(error)):
        store.ensure(manifest(), Build(fail=error))
    assert not (home / "bundles" / "tiny").exists()
    assert leftovers(home) == []
    assert store.ensure(manifest(), Build()).is_dir()


def test_a_failed_rebuild_keeps_the_old_bundle(home):
    """What worked before an attempt to rebuild works after it failed."""
    folder = store.ensure(manifest(), Build(b"old"))
    with pytest.raises(RuntimeError):
        store.ensure(manifest(), Build(b"new", fail=RuntimeError()), rebuild=True)
    assert (folder / "b.onnx").read_bytes() == b"oldold"
    assert store.ensure(manifest(), Build(fail=AssertionError("built again"))) == folder
    assert leftovers(home) == []


CHILD = """
    import os, sys, time
    from pathlib import Path
    from cosycli.bundles import store
    mode, log = sys.argv[1], Path(sys.argv[2])

    def build(folder):
        with log.open("a") as file:
            file.write(f"built by {os.getpid()}\\n")
        (folder / "a.onnx").write_bytes(b"half")
        (log.parent / "begun").touch()
        if mode == "stick":
            time.sleep(120)
        deadline = time.monotonic() + 60
        while mode == "gate" and not (log.parent / "gate").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        (folder / "a.onnx").write_bytes(b"whole")

    def waiting():
        (log.parent / f"waiting-{os.getpid()}").write_text("once")
        with log.open("a") as file:
            file.write("waited\\n")

    folder = store.ensure(store.Manifest("tiny", "fake", "1", "float32", "CC0", 24000), build, waiting=waiting)
    print((folder / "a.onnx").read_bytes().decode())
"""


def child(mode, log):
    """A process of its own that wants the bundle."""
    command = [sys.executable, "-c", textwrap.dedent(CHILD), mode, str(log)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(condition):
    """Wait for a condition; a minute is more than any machine needs."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_process_builds_while_the_others_wait(tmp_path):
    """Three shells at once on a fresh machine: one build, two that wait and say so once, three that succeed."""
    log = tmp_path / "log"
    children = [child("gate", log) for _ in range(3)]
    until(lambda: len(list(tmp_path.glob("waiting-*"))) == 2)
    (tmp_path / "gate").touch()
    for process in children:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "whole\n", "")
    lines = log.read_text().splitlines()
    assert sum(line.startswith("built") for line in lines) == 1
    assert lines.count("waited") == 2


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_build_leaves_no_bundle_and_the_next_one_cleans_up(home, tmp_path):
    """SIGKILL in the middle: the lock is free again, the remains are swept, the next run succeeds."""
    process = child("stick", tmp_path / "log")
    until((tmp_path / "begun").exists)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not (home / "bundles" / "tiny").exists()
    assert len(leftovers(home)) == 1  # what the dead process had begun
    build = Build()
    store.ensure(manifest(), build)
    assert len(build.folders) == 1
    assert leftovers(home) == []


def test_a_kill_between_the_two_renames_is_survived(home):
    """The old bundle was moved aside and the new one not yet in place: the next run builds, and sweeps both."""
    folder = store.ensure(manifest(), Build())
    folder.rename(folder.with_name(".tiny~abc-old"))
    (folder.parent / ".tiny~abc").mkdir()
    build = Build()
    store.ensure(manifest(), build)
    assert len(build.folders) == 1
    assert leftovers(home) == []


def test_a_live_build_of_another_bundle_is_not_swept(home):
    """Sweeping looks at the bundle's own remains only; another bundle may be in the middle of its build."""
    other = home / "bundles" / ".tiny-live~x"
    other.mkdir(parents=True)
    store.ensure(manifest(), Build())
    assert other.is_dir()


def test_a_live_build_of_the_same_bundle_is_not_swept(home, tmp_path):
    """Whoever comes second waits; only the holder of the lock sweeps. Else its folder vanished under the builder."""
    process = child("gate", tmp_path / "log")
    until((tmp_path / "begun").exists)
    (scratch,) = (home / "bundles").glob(".tiny~*")
    with ThreadPoolExecutor(1) as pool:
        waited = threading.Event()
        second = pool.submit(store.ensure, manifest(), Build(b"second"), waiting=waited.set)
        assert waited.wait(60)
        assert scratch.is_dir()
        (tmp_path / "gate").touch()
        folder = second.result(60)
    assert process.communicate(timeout=60)[0] == "whole\n"
    assert (folder / "a.onnx").read_bytes() == b"whole"


def test_two_threads_of_one_process_build_once():
    """The lock excludes threads as well as processes."""
    begun, gate, waited = threading.Event(), threading.Event(), threading.Event()
    build = Build()

    def slow(folder):
        begun.set()
        assert gate.wait(60)
        build(folder)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(store.ensure, manifest(), slow)
        assert begun.wait(60)
        second = pool.submit(store.ensure, manifest(), slow, waiting=waited.set)
        assert waited.wait(60)
        gate.set()
        assert first.result(60) == second.result(60)
    assert len(build.folders) == 1


def told(error, home):
    """The error names the folder and what to do about it."""
    assert error.exit_code == 3
    assert str(home / "bundles") in error.message
    assert "COSY_HOME" in error.hint
    assert "\n" not in error.message + error.hint


def test_a_home_that_is_a_file_is_told(home):
    """COSY_HOME names a file: nothing can be built there, and the way out is COSY_HOME."""
    home.write_text("not a folder")
    with pytest.raises(ModelError) as caught:
        store.ensure(manifest(), Build())
    told(caught.value, home)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs Unix permissions")
def test_a_home_that_cannot_be_written_is_told(home, monkeypatch):
    """A read-only home: permission bits where they bind, the system's answer played where we are root."""
    (home / "bundles").mkdir(parents=True)
    if os.geteuid() == 0:

        def refuse(*_, **__):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(store.tempfile, "mkdtemp", refuse)
    else:
        (home / "bundles").chmod(0o500)
    try:
        with pytest.raises(ModelError) as caught:
            store.ensure(manifest(), Build())
    finally:
        (home / "bundles").chmod(0o700)
    told(caught.value, home)
    assert "Permission denied" in caught.value.message


def test_a_whole_bundle_in_a_home_that_cannot_be_written_is_used(monkeypatch):
    """A cache prepared by an administrator, read-only to its users, needs no lock."""
    store.ensure(manifest(), Build())

    def refuse(*_, **__):
        raise AssertionError("asked for the lock")

    monkeypatch.setattr(store, "_lock", refuse)
    assert store.ensure(manifest(), Build()).is_dir()


def test_a_full_disk_is_told_and_nothing_half_made_stays(home):
    """The disk fills up in the middle of the build: the message says so, and the space is given back."""
    with pytest.raises(ModelError) as caught:
        store.ensure(manifest(), Build(fail=OSError(errno.ENOSPC, "No space left on device")))
    told(caught.value, home)
    assert "No space left on device" in caught.value.message
    assert "free some space" in caught.value.hint
    assert leftovers(home) == []
    assert not (home / "bundles" / "tiny").exists()


def test_a_disk_that_refuses_more_is_met_for_real(home, tmp_path):
    """The same with a real limit on what may be written, as a quota would set: an error of the system's own."""
    resource = pytest.importorskip("resource")
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        from cosycli.bundles import store
        from cosycli.errors import ModelError
        try:
            store.ensure(
                store.Manifest("tiny", "fake", "1", "float32", "CC0", 24000),
                lambda folder: (folder / "a.onnx").write_bytes(b"x" * 100_000),
            )
        except ModelError as error:
            print(error.message)
    """
    assert resource.RLIMIT_FSIZE is not None
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert result.stdout.startswith(f"cannot build the voice in {home / 'bundles'}"), result.stderr
    assert leftovers(home) == []


def test_errors_of_the_builder_keep_their_own_words():
    """A damaged package is not reported as a full disk."""
    with pytest.raises(ModelError, match="package is missing"):
        store.ensure(manifest(), Build(fail=ModelError("a package is missing", "install it")))


def test_a_tilde_in_cosy_home_is_the_users_home(tmp_path, monkeypatch):
    """COSY_HOME=~/voices from a file that no shell reads must not make a folder called "~"."""
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "me"))
    monkeypatch.setenv("COSY_HOME", "~/voices")
    assert store.home() == tmp_path / "me" / "voices"
    assert store.ensure(manifest(), Build()) == tmp_path / "me" / "voices" / "bundles" / "tiny"


@pytest.mark.parametrize("asked", [None, ""])
def test_without_cosy_home_the_platforms_cache_is_used(asked, tmp_path, monkeypatch):
    """Unset or empty: the user's cache folder, not the working folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if asked is None:
        monkeypatch.delenv("COSY_HOME")
    else:
        monkeypatch.setenv("COSY_HOME", asked)
    assert store.home().is_absolute()
    assert "cosy" in store.home().parts
