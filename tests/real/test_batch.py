"""`cosy file` with the embedded voice."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
import soundfile

pytestmark = pytest.mark.real
RATE = 24000


def cosy_file(env, folder, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "cosycli", "file", *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        timeout=280,
        **options,
    )


def test_text_without_a_full_stop_and_twenty_sentences(cosy_env, tmp_path):
    """SG-01, SG-03. No closing mark, no sound; of twenty sentences only the last was in the file."""
    (tmp_path / "a.txt").write_text("今天没有句号", "utf-8")
    many = "".join(f"第{n}句，今天天气很好，我们一起去公园散步。" for n in range(1, 21))
    (tmp_path / "b.txt").write_text(many, "utf-8")
    result = cosy_file(cosy_env, tmp_path, "a.txt", "b.txt", "--subtitles", "srt")
    assert result.returncode == 0, result.stderr.decode()
    assert 0.8 <= soundfile.info(tmp_path / "a.wav").duration <= 4
    assert soundfile.info(tmp_path / "b.wav").duration >= 0.12 * len(many)
    assert bursts(soundfile.read(tmp_path / "b.wav")[0]) >= 20
    subtitles = (tmp_path / "b.srt").read_text("utf-8")
    assert all(f"第{n}句" in subtitles for n in range(1, 21))
    assert "2 done" in result.stderr.decode()


def bursts(samples):
    """Stretches of sound with at least 0.2 s of silence between them."""
    frame = RATE // 50
    count = len(samples) // frame
    loud = abs(samples[: count * frame]).reshape(count, frame).max(axis=1) > 0.02
    found, silent = 0, 10
    for sounding in loud:
        found += bool(sounding and silent >= 10)
        silent = 0 if sounding else silent + 1
    return found


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux")
def test_in_a_cpuset(cosy_env, tmp_path):
    """OR-18. In containers onnxruntime printed pthread_setaffinity errors and took a thread for each host core."""
    (tmp_path / "a.txt").write_text("今天天气很好。", "utf-8")
    one = sorted(os.sched_getaffinity(0))[:1]
    process = subprocess.Popen(
        [sys.executable, "-m", "cosycli", "file", "a.txt"],
        cwd=tmp_path,
        env=cosy_env | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, one),
    )
    most = 0
    with process:
        while process.poll() is None:
            most = max(most, threads(process.pid))
            time.sleep(0.01)
        said = process.stderr.read().decode()
    assert process.returncode == 0, said
    assert "affinity" not in said
    assert most <= 8  # measured 5; three graphs with a thread for each of 64 cores would be 190


def threads(pid):
    """Threads of a process; 0 once it has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0
