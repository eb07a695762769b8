"""Playback through another program that is present: samples go to its standard input.

Knows the programs' command lines and how they fail; used where PortAudio or a device for it is missing.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import IO

from cosycli.audio.join import silence, to_int16
from cosycli.audio.pacing import Clock, Gate
from cosycli.audio.sinks import check_rate, require_sound
from cosycli.audio.speaker import AHEAD, WAY_OUT, Report
from cosycli.errors import AudioDeviceError
from cosycli.types import Chunk

PATIENCE = 10.0  # seconds a player may take nothing before it is taken for hung
SLICE = 0.05
F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ, which Python 3.10 on Linux has and mypy on other systems has not


@dataclass(frozen=True)
class Player:
    """A program that plays s16le mono from its standard input."""

    name: str
    arguments: tuple[str, ...]
    needs: str = ""  # what `--help` must mention

    def command(self, rate: int) -> list[str]:
        """The command line for a rate."""
        return [self.name, *(argument.format(rate=rate) for argument in self.arguments)]


QUICK = ("-loglevel", "error", "-probesize", "32")
# Short buffers, or paplay and aplay wait for 2 s and 0.5 s of audio before the first sound.
PLAYERS = (
    Player("pw-cat", ("--playback", "--raw", "--rate={rate}", "--channels=1", "--format=s16", "-"), needs="--raw"),
    Player(
        "paplay",
        ("--raw", "--format=s16le", "--rate={rate}", "--channels=1", "--latency-msec=250", "--client-name=cosy"),
    ),
    Player("aplay", ("-q", "-t", "raw", "-f", "S16_LE", "-r", "{rate}", "-c", "1", "--buffer-time=200000", "-")),
    Player("ffplay", ("-nodisp", "-autoexit", *QUICK, "-f", "s16le", "-ar", "{rate}", "-i", "-")),
)


def find_player(rate: int, seconds: float = 2.0) -> Player | None:
    """The first player that plays a blink of silence without complaint, all tried within `seconds`."""
    if sys.platform == "win32":  # PortAudio comes with sounddevice there
        return None
    deadline = time.monotonic() + seconds
    for player in PLAYERS:
        if shutil.which(player.name) and _works(player, rate, deadline):
            return player
    return None


def _works(player: Player, rate: int, deadline: float) -> bool:
    try:
        if player.needs and player.needs not in _run([player.name, "--help"], b"", deadline).stdout.decode():
            return False
        result = _run(player.command(rate), bytes(rate // 50 * 2), deadline)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0 and not result.stderr.strip()  # ffplay says "no device" and exits with 0


def _run(command: list[str], content: bytes, deadline: float) -> subprocess.CompletedProcess[bytes]:
    left = deadline - time.monotonic()
    return subprocess.run(command, input=content, capture_output=True, timeout=max(0.01, left), check=False)


class PlayerSink:
    """A sink that plays through another program; the same manners as Speaker."""

    def __init__(
        self,
        player: Player,
        rate: int,
        *,
        preroll: float = 0.0,
        rtf: float | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.player, self.rate, self.preroll, self.frames = player, rate, preroll, 0
        self._clock = clock
        self._gate = Gate(self._buffered, clock, rtf)
        self._process: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] | None = None
        self._started: float | None = None
        self._underruns, self._gap = 0, 0.0

    def __enter__(self) -> PlayerSink:
        self._complaints = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                self.player.command(self.rate),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                bufsize=0,
                start_new_session=True,  # the terminal's Ctrl-C is ours to handle
            )
        except OSError as error:
            self._complaints.close()
            raise AudioDeviceError(f"cannot run {self.player.name}: {error.strerror}", WAY_OUT) from error
        os.set_blocking(self._pipe(), False)
        self._widen_pipe()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._drain()
        finally:
            self._kill()

    def begin(self) -> None:
        """Synthesis starts now, see Speaker.begin."""
        self._gate.begin()

    def write(self, chunk: Chunk) -> None:
        """Send a chunk; waits while the pipe is full."""
        check_rate(chunk, self.rate)
        if self._gate.open and self._buffered() <= 0:
            self._gate.starved()
            self._underruns += 1
        for ready in self._gate.admit(chunk):
            self._send(ready)
        self._gate.begin()

    @property
    def report(self) -> Report:
        """What has been played so far; an outside player's own gaps are not known."""
        return Report(
            device=self.player.name,
            rate=self.rate,
            frames=self.frames,
            played=self.frames,
            underruns=self._underruns,
            waited=self._gate.waited,
            rtf=self._gate.pacer.rtf,
        )

    def _send(self, chunk: Chunk) -> None:
        if self._started is None:
            self._started = self._clock()
            self._feed(to_int16(silence(self.preroll, self.rate)).astype("<i2").tobytes())
        samples = to_int16(chunk.samples)
        self.frames += len(samples)
        self._feed(samples.astype("<i2").tobytes())

    def _buffered(self) -> float:
        """Seconds sent and not yet heard, by the clock: a player takes what it gets and plays at its own pace."""
        if self._started is None:
            return 0.0
        return self.preroll + self.frames / self.rate - (self._clock() - self._started)

    def _feed(self, content: bytes) -> None:
        view, idle = memoryview(content), 0.0
        while view:
            sent = self._write_some(view)
            view = view[sent:]
            idle = 0.0 if sent else idle + SLICE
            if idle >= PATIENCE:
                raise AudioDeviceError(f"{self.player.name} takes no more sound", WAY_OUT)

    def _write_some(self, view: memoryview) -> int:
        if not select.select([], [self._pipe()], [], SLICE)[1]:
            return 0
        try:
            return os.write(self._pipe(), view)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise self._failed() from None

    def _drain(self) -> None:
        for chunk in self._gate.finish():
            self._send(chunk)
        require_sound(self.frames)
        process = self._living()
        assert process.stdin is not None
        process.stdin.close()
        left = max(0.0, self._buffered()) + PATIENCE
        while process.poll() is None and left > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SLICE)
            left -= SLICE
        if process.returncode != 0:
            raise self._failed()

    def _kill(self) -> None:
        process = self._living()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        if process.poll() is None:
            process.kill()
            process.wait()
        if self._complaints is not None:
            self._complaints.close()

    def _failed(self) -> AudioDeviceError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._living().wait(1.0)
        code = self._living().returncode
        words = self._last_words() or ("it hangs" if code is None else f"it ended with code {code}")
        return AudioDeviceError(f"{self.player.name} failed: {words}", WAY_OUT)

    def _last_words(self) -> str:
        if self._complaints is None:
            return ""
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _living(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "used outside its with block"
        return self._process

    def _pipe(self) -> int:
        stdin = self._living().stdin
        assert stdin is not None
        return stdin.fileno()

    def _widen_pipe(self) -> None:
        """Let the pipe hold as much as Speaker runs ahead; where it cannot, it holds 64 KiB, 1.4 s."""
        if sys.platform == "linux":
            import fcntl

            with contextlib.suppress(OSError):
                fcntl.fcntl(self._pipe(), F_SETPIPE_SZ, int(AHEAD * self.rate * 2))


def installed_players() -> Iterator[str]:
    """Names of the players on this machine, working or not."""
    return (player.name for player in PLAYERS if shutil.which(player.name))
