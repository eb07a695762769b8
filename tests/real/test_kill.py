"""SIGKILL at any moment: what stands under a final name is whole, and a rerun completes the set.

The process that is killed is the real command line writing real files. Most kills hit the scripted voice, which starts
sooner; some hit the embedded one. The moments are random (seeded), between a little before the first file is begun
and the time when the rest would be finished.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import soundfile

pytestmark = [pytest.mark.real, pytest.mark.skipif(os.name == "nt", reason="SIGKILL")]

TESTS = Path(__file__).parent.parent
KILLS = {"cosycli": 5, "fakes.backend": 15}  # the module that is run, and how often it is killed
IN_A_ROW = 5  # kills before a run is left alone, so that it goes on from what several have left
LINES = ("好。", "你好。", "再见。")


@dataclass
class Batch:
    """One command over the same few texts into a folder of its own."""

    module: str
    folder: Path
    env: dict[str, str]

    def start(self, out: str, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", self.module, "file", "in", "-d", out, "--subtitles", "srt", "--split", "line"]
        return subprocess.Popen(command, cwd=self.folder, env=self.env, stderr=stderr)

    def run(self, out: str) -> str:
        """A run that is left alone; what it said."""
        with self.start(out, subprocess.PIPE) as process:
            assert process.stderr is not None
            said = process.stderr.read().decode()
        assert process.returncode == 0, said
        return said

    def files(self, out: str) -> dict[str, bytes]:
        folder = self.folder / out
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(params=list(KILLS))
def batch(request, tmp_path, cosy_env) -> Batch:
    for name in ("a", "b/c"):
        path = tmp_path / "in" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(LINES), "utf-8")
    return Batch(request.param, tmp_path, cosy_env | {"PYTHONPATH": str(TESTS), "COSY_FAKE_DELAY": "0.05"})


def first_draft_after(batch: Batch) -> tuple[float, float]:
    """Seconds until an undisturbed run begins its first file, and until it ends."""
    begun, first = time.monotonic(), 0.0
    with batch.start("calm") as process:
        while process.poll() is None:
            if not first and any(path.is_file() for path in (batch.folder / "calm").rglob("*")):
                first = time.monotonic() - begun
            time.sleep(0.002)
    assert process.returncode == 0
    return first, time.monotonic() - begun


def check_whole(batch: Batch, out: str, wanted: dict[str, bytes]) -> int:
    """Each file under a final name is that of an undisturbed run, byte for byte; returns the number of drafts."""
    files = batch.files(out)
    finished = {name: content for name, content in files.items() if not Path(name).name.startswith(".cosy-")}
    for name, content in finished.items():
        assert content == wanted[name], name
        if name.endswith(".wav") and hasattr(os, "setxattr"):
            assert soundfile.info(str(batch.folder / out / name)).frames * 2 + 44 == len(content)
    return len(files) - len(finished)


def test_killed_at_any_moment_a_rerun_completes_the_set(batch):
    """After a power cut half a file passed for done, or a hundred hidden drafts filled the folder.

    Each kill hits a run that goes on from where the last one was killed; after five, one is left alone.
    """
    first, whole = first_draft_after(batch)
    wanted = batch.files("calm")
    assert len(wanted) == 4 * len(LINES)
    source, pace = random.Random(2), 1.0  # pace: of this machine, against the undisturbed run
    hits = drafts = folder = 0
    for number in range(3 * KILLS[batch.module]):
        out = f"out-{folder}"
        left = 1 - sum(name in wanted for name in batch.files(out)) / len(wanted)
        with batch.start(out) as process:
            time.sleep(pace * (0.9 * first + source.random() * left * (whole - first)))
            process.kill()
        drafts += check_whole(batch, out, wanted)
        if process.returncode == -signal.SIGKILL:
            hits += 1
        else:  # it was done before: the machine is faster now, and this set is complete
            pace *= 0.8
        if process.returncode == 0 or number % IN_A_ROW == IN_A_ROW - 1:
            complete(batch, out, wanted)
            folder += 1
        if hits == KILLS[batch.module]:
            break
    assert hits == KILLS[batch.module]  # or the moments were chosen badly, and this proves little
    print(f"{batch.module}: {hits} killed, {drafts} drafts left behind, of which none remained")


def complete(batch: Batch, out: str, wanted: dict[str, bytes]) -> None:
    """Run it again: the set is complete, nothing else is there, and one more run has nothing to do."""
    batch.run(out)
    assert check_whole(batch, out, wanted) == 0
    assert set(batch.files(out)) == set(wanted)
    assert "nothing to do" in batch.run(out)
