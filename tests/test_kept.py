"""Solved prompts on disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosycli import cli
from cosycli.backends.cosyvoice import kept
from cosycli.bundles.store import MANIFEST

ARRAYS = {
    "step0/cache": np.arange(24, dtype=np.float16).reshape(2, 3, 4),
    "tail": np.zeros((1, 0, 5), np.float32),
    "solved": np.array(75),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COSY_HOME", str(tmp_path))
    monkeypatch.setattr(kept, "SPARE", 0)
    return tmp_path


def store(name: str | None, arrays: Any = ARRAYS) -> None:
    thread = kept.store(name, arrays)
    if thread:
        thread.join()


def test_arrays_come_back() -> None:
    store("a")
    found = kept.load("a")
    assert found is not None
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert np.array_equal(found[name], array)


def test_what_is_not_whole_is_not_found(home: Path) -> None:
    """A disk that filled up, a file of another program, half a download."""
    store("a")
    path = home / "solved" / f"a{kept.SUFFIX}"
    whole = path.read_bytes()
    for content in (b"", whole[:-1], whole[:20], b"[]\n", b"{}\n", os.urandom(100), whole + b"."):
        path.write_bytes(content)
        assert kept.load("a") is None
    assert kept.load("b") is None
    assert kept.load(None) is None


def test_a_key_names_all_that_the_state_depends_on(tmp_path: Path) -> None:
    assert kept.key(tmp_path, [np.zeros(3)], 10, 0.7) is None  # a folder of graphs without a manifest
    (tmp_path / MANIFEST).write_text("{}", "utf-8")
    one = kept.key(tmp_path, [np.zeros(3)], 10, 0.7)
    assert one == kept.key(tmp_path, [np.zeros(3)], 10, 0.7)
    others = [
        kept.key(tmp_path, [np.zeros(3, np.float32)], 10, 0.7),
        kept.key(tmp_path, [np.ones(3)], 10, 0.7),
        kept.key(tmp_path, [np.zeros((3, 1))], 10, 0.7),
        kept.key(tmp_path, [np.zeros(3)], 6, 0.7),
    ]
    (tmp_path / MANIFEST).write_text('{"a": 1}', "utf-8")
    assert len({one, *others, kept.key(tmp_path, [np.zeros(3)], 10, 0.7)}) == 6


def test_what_was_used_last_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store("a")
    monkeypatch.setattr(kept, "MOST", 2 * (home / "solved" / f"a{kept.SUFFIX}").stat().st_size)
    store("b")
    os.utime(home / "solved" / f"a{kept.SUFFIX}", (1, 1))
    os.utime(home / "solved" / f"b{kept.SUFFIX}", (2, 2))
    assert kept.load("a")
    store("c")
    assert [bool(kept.load(name)) for name in "abc"] == [True, False, True]
    monkeypatch.setattr(kept, "MOST", 10)
    store("d")
    assert kept.load("d") is None


def test_no_room_is_no_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "SPARE", 1 << 60)
    store("a")
    assert not list((home / "solved").iterdir())
    (home / "solved").rmdir()
    (home / "solved").write_text("a file where the folder should be", "utf-8")
    store("a")
    assert kept.load("a") is None


def test_success_waits_for_what_is_being_saved_and_ctrl_c_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends in `os._exit`, which took half-written files with it."""
    left: list[int] = []
    monkeypatch.setattr(cli.os, "_exit", left.append)
    monkeypatch.setattr(cli, "SAVING_TIME", 60)
    go = threading.Event()
    saving = threading.Thread(target=go.wait, args=(60,), name=cli.SAVING, daemon=True)
    saving.start()
    cli._leave(130)
    assert left == [130]
    threading.Timer(0.1, go.set).start()
    cli._leave(0)
    assert left == [130, 0]
    assert not saving.is_alive()
