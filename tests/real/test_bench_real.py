"""`cosy bench` with the embedded voice: both precisions, in processes of their own, in one short run."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.real


def test_two_precisions_in_turns(cosy_env, tmp_path):
    """Memory is that of one model: a process that held both showed the same 800 MB for each."""
    (tmp_path / "mine.txt").write_text("你好。\n今天的会议改到下午三点，地点在二楼会议室。\n", "utf-8")
    arguments = ["--precision", "int8", "--precision", "float32", "--provider", "cpu", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "cosycli", "bench", *arguments, "--sentences", "mine.txt", "--json", "--plot", "b.html"],
        cwd=tmp_path, env=cosy_env, capture_output=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    run = json.loads(done.stdout)
    assert [result["name"] for result in run["results"]] == ["kokoro:int8:cpu", "kokoro:float32:cpu"]
    for result in run["results"]:
        assert 0 < result["latency_p50"] <= result["latency_p99"] < 60
        assert 0 < result["gap_p50"] <= result["gap_longest"]
        assert 0 < result["real_time_factor"] < 60
        assert 0 < result["load_seconds"] < 120
        assert 150 < result["memory_mb"] < 1500
        assert result["threads"] == run["machine"]["cores"] or result["threads"] == 8
    assert b"warmed up" in done.stderr
    assert (tmp_path / "b.html").stat().st_size > 2000


def test_how_graphs_are_opened_is_heard_by_no_one(cosy_env, tmp_path):
    """What --tune keeps is used by `cosy speak`, whose speech stays speech: as long, as loud."""
    import numpy as np
    import soundfile

    from cosycli import runtime, tuning

    sounds = []
    for name, chosen in (("plain", None), ("tuned", tuning.Tuning(1, "basic", mem_reuse=True, spinning="never"))):
        config = tmp_path / name
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COSY_CONFIG", str(config))
            if chosen:
                tuning.keep(chosen, runtime.available_cores(), "kokoro", {})
        command = [sys.executable, "-m", "cosycli", "speak", "今天天气很好。", "-o", f"{name}.wav", "-v"]
        env = cosy_env | {"COSY_CONFIG": str(config)}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=280)
        assert done.returncode == 0, done.stderr.decode()
        sounds.append(soundfile.read(tmp_path / f"{name}.wav")[0])
    plain, tuned = sounds
    assert len(plain) == len(tuned)
    assert 0.8 < np.sqrt(np.mean(tuned**2)) / np.sqrt(np.mean(plain**2)) < 1.25
