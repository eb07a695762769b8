"""A real sound server for the tests of this ring: PulseAudio with a null sink, and a recorder of what reaches it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

NEEDED = ("pulseaudio", "pactl", "parec", "paplay")
RATE = 24000


@dataclass
class Pulse:
    """A running server: `env` for processes that shall play to it, `record()` for what they played."""

    env: dict[str, str]
    folder: Path

    def pactl(self, *words: str) -> str:
        result = subprocess.run(["pactl", *words], env=self.env, capture_output=True, text=True, timeout=30)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def record(self) -> Recorder:
        return Recorder(self)


class Recorder:
    """Records the null sink's monitor while its block runs; `samples` afterwards, as float32 at 24 kHz."""

    def __init__(self, pulse: Pulse) -> None:
        self.pulse, self.file = pulse, pulse.folder / f"recording-{time.monotonic_ns()}.s16"
        self.samples = np.zeros(0, np.float32)

    def __enter__(self) -> Recorder:
        form = ["--raw", "--format=s16le", f"--rate={RATE}", "--channels=1", "--latency-msec=50"]
        with open(self.file, "wb") as out:
            command = ["parec", "--device=cosy_test.monitor", *form]
            self.process = subprocess.Popen(command, env=self.pulse.env, stdout=out)
        # An idle sink's monitor stands still and loses 40 ms when it wakes: silence keeps it going.
        self.awake = subprocess.Popen(["paplay", *form, "/dev/zero"], env=self.pulse.env)
        self._until_size(RATE)
        return self

    def __exit__(self, *_: object) -> None:
        self._until_size(self.file.stat().st_size + RATE)  # half a second more than was played
        for process in (self.process, self.awake):
            process.terminate()
            process.wait()
        self.samples = (np.fromfile(self.file, "<i2") / 32767).astype(np.float32)

    def _until_size(self, size: int) -> None:
        deadline = time.monotonic() + 30
        while self.file.stat().st_size < size:
            assert time.monotonic() < deadline, "the recorder records nothing"
            assert self.process.poll() is None
            time.sleep(0.02)


def _missing() -> str:
    tools = [tool for tool in NEEDED if not shutil.which(tool)]
    if tools:
        return f"{', '.join(tools)} not installed (apt install pulseaudio pulseaudio-utils)"
    try:
        found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    except OSError:
        found = "libportaudio.so"
    return (
        "" if "libportaudio.so" in found else "PortAudio not installed (apt install libportaudio2 libasound2-plugins)"
    )


@pytest.fixture
def pulse(tmp_path_factory: pytest.TempPathFactory):
    """A PulseAudio daemon of this test's own, which no other sees. COSY_REQUIRE_AUDIO=1 makes its absence a failure."""
    missing = _missing()
    if missing:
        (pytest.fail if os.environ.get("COSY_REQUIRE_AUDIO") == "1" else pytest.skip)(missing)
    folder = tmp_path_factory.mktemp("pa")
    env = _environment(folder)
    process, log = _start(folder, env)
    try:
        server = Pulse(env, folder)
        _until_answering(server, process, log)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(folder: Path) -> dict[str, str]:
    (folder / "run").mkdir(mode=0o700)
    (folder / ".asoundrc").write_text("pcm.!default { type pulse }\nctl.!default { type pulse }\n")
    server = f"unix:{folder}/run/native"
    foreign = ("PULSE_", "PIPEWIRE_", "DBUS_", "DISPLAY")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {"HOME": str(folder), "XDG_RUNTIME_DIR": f"{folder}/run", "PULSE_SERVER": server}


def _start(folder: Path, env: dict[str, str]) -> tuple[subprocess.Popen[bytes], Path]:
    script = folder / "start.pa"
    script.write_text(
        f"load-module module-native-protocol-unix socket={folder}/run/native auth-anonymous=1\n"
        "load-module module-null-sink sink_name=cosy_test rate=24000 channels=1 format=s16le norewinds=1\n"
        "set-default-sink cosy_test\n"
    )
    log = folder / "pulse.log"
    options = ["-n", "-F", str(script), "--daemonize=no", "--use-pid-file=no", "--exit-idle-time=-1"]
    with open(log, "wb") as out:
        daemon_env = {name: value for name, value in env.items() if name != "PULSE_SERVER"}
        command = ["pulseaudio", *options, "--disable-shm", "--realtime=no", "--high-priority=no"]
        return subprocess.Popen(command, env=daemon_env, stdout=out, stderr=out), log


def _until_answering(server: Pulse, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        result = subprocess.run(["pactl", "info"], env=server.env, capture_output=True, timeout=30)
        if result.returncode == 0:
            return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


@pytest.fixture(scope="session")
def home() -> Path:
    """A COSY_HOME with the assembled voice, which all tests and workers share; the store's lock lets one build it."""
    folder = Path(tempfile.gettempdir()) / f"cosy-tests-{os.getuid() if hasattr(os, 'getuid') else 0}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSY_HOME", str(folder))
        from cosycli.bundles import embedded

        embedded.ensure(lambda step: None)
    return folder


@pytest.fixture
def cosy_env(home: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a `cosy` process that has the assembled voice and nothing of this user's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COSY_")}
    return kept | {"COSY_HOME": str(home), "COSY_CONFIG": str(tmp_path / "no-config")}
