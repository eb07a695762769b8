"""Live playback through PortAudio: a queue that runs ahead of the device by a fixed number of seconds.

Owns the only thread of a run, the device's callback. Knows chunks and rates; knows nothing of text or models.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from cosycli.audio.join import to_int16
from cosycli.audio.pacing import Clock, Gate
from cosycli.audio.patience import within
from cosycli.audio.quiet import quiet_stderr
from cosycli.audio.sinks import check_rate, require_sound
from cosycli.errors import AudioDeviceError
from cosycli.types import Chunk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Frames = NDArray[np.int16]

AHEAD = 10.0  # seconds synthesised before they are heard, and no more: 0.5 MB
LATENCY = 0.15  # PortAudio's "low" (9 ms on ALSA) does not survive a callback in Python beside a busy interpreter
# Silence after the end. ALSA's PulseAudio plugin drops its last buffer at a stop that should play it out, and that is
# more than the latency it reports (0.125 s for 0.1); what is dropped must not be speech.
TAIL = 0.3
COMMON_RATES = (48000, 44100)
PATIENCE = 5.0  # seconds without a callback after which a device is taken for dead; Bluetooth needs 2 to wake
SLICE = 0.02  # waits come in slices, so that Ctrl-C and a dead device are noticed
CLOSING = 2.0  # a driver whose device was unplugged may never return from stop()
WAY_OUT = "write to a file with -o FILE, or pipe --raw to a player"


@dataclass(frozen=True)
class Report:
    """What playing came to. Frames are counted at the device's rate."""

    device: str
    rate: int
    frames: int = 0
    played: int = 0
    underruns: int = 0
    gap: float = 0.0  # seconds of silence inside sentences
    waited: bool = False  # speech was held back to play it without gaps
    rtf: float | None = None

    @property
    def notes(self) -> list[str]:
        """What a listener should be told, a line each; usually nothing."""
        lines = []
        if self.waited and self.rtf is not None and self.rtf >= 1.0:
            lines.append(
                f"speech is made slower than it plays (real-time factor {self.rtf:.1f}): it was buffered first"
            )
        if self.underruns:
            times = "once" if self.underruns == 1 else f"{self.underruns} times"
            lines.append(f"the sound ran dry {times} ({self.gap:.1f} s in all)")
        return lines


class Speaker:
    """A sink that plays. Leaving it waits until all was heard; leaving it with an error silences at once."""

    def __init__(
        self,
        rate: int,
        device: int | str | None = None,
        *,
        preroll: float = 0.0,
        ahead: float = AHEAD,
        rtf: float | None = None,
        clock: Clock = time.monotonic,
        sounddevice: Any = None,
    ) -> None:
        self.rate, self.device, self.preroll, self.ahead = rate, device, preroll, ahead
        self._sd = sounddevice
        self._stream: Any = None
        self._stream_rate = rate
        self._feed = Feed()
        self._resampler: Any = None
        self._gate = Gate(self._buffered, clock, rtf)
        self._started = False
        self._frames = 0  # of speech, at the device's rate, without preroll
        self._underruns, self._gap, self._in_gap = 0, 0.0, False

    def open(self) -> Speaker:
        """Open the device without starting it; AudioDeviceError when there is none that can play this."""
        if self._sd is None:
            from cosycli.audio.devices import import_sounddevice

            self._sd = import_sounddevice()
        if self._stream is None:
            self._stream, self._stream_rate = self._open_stream()
            if self._stream_rate != self.rate:
                import soxr

                self._resampler = soxr.ResampleStream(self.rate, self._stream_rate, 1, dtype="float32")
        return self

    def __enter__(self) -> Speaker:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._drain()
        except BaseException:
            self.close()
            raise
        if kind is not None:
            self.close()

    def begin(self) -> None:
        """Synthesis starts now (the model is loaded): lets the first chunk tell how fast this machine is."""
        self._gate.begin()

    def write(self, chunk: Chunk) -> None:
        """Queue a chunk; returns when no more than `ahead` seconds wait to be heard."""
        check_rate(chunk, self.rate)
        self._check_alive()
        if self._feed.dry and self._gate.open:
            self._gate.starved()
            self._underruns += 1
            self._in_gap = True
        for ready in self._gate.admit(chunk):
            self._queue(ready)
        self._wait(lambda: self._buffered() <= self.ahead)
        self._gate.begin()

    @property
    def report(self) -> Report:
        """What has been played so far."""
        return Report(
            device=self._device_name(),
            rate=self._stream_rate,
            frames=self._frames,
            played=max(0, self._feed.played - self._preroll_frames()),
            underruns=self._underruns + self._feed.late,
            gap=self._gap,
            waited=self._gate.waited,
            rtf=self._gate.pacer.rtf,
        )

    def _queue(self, chunk: Chunk) -> None:
        samples = chunk.samples
        if self._resampler is not None:
            samples = self._resampler.resample_chunk(samples, last=False)
        self._put(to_int16(samples))

    def _put(self, frames: Frames) -> None:
        if not len(frames):
            return
        self._frames += len(frames)
        if not self._started:
            self._feed.put(np.zeros(self._preroll_frames(), np.int16))
        if self._in_gap:
            self._gap += self._feed.dry / self._stream_rate
            self._in_gap = False
        self._feed.put(frames)
        if not self._started:
            self._started = True
            with self._device_errors("cannot start playing"):
                self._stream.start()

    def _drain(self) -> None:
        for chunk in self._gate.finish():
            self._queue(chunk)
        if self._resampler is not None:
            self._put(to_int16(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True)))
        require_sound(self._frames)
        self._feed.finish(tail=round(max(TAIL, 2 * min(_latency(self._stream), 0.5)) * self._stream_rate))
        self._wait(self._feed.stopped.is_set)
        if self._feed.waiting:
            raise self._died()
        with self._device_errors("the audio device failed"):
            within(CLOSING, self._stream.stop)
            within(CLOSING, self._stream.close)

    def close(self) -> None:
        """Silence at once and let the device go; may be called twice."""
        self._feed.mute()
        if self._stream is not None:
            with contextlib.suppress(Exception):
                within(CLOSING, self._stream.abort)
                within(CLOSING, self._stream.close)

    def _preroll_frames(self) -> int:
        return round(self.preroll * self._stream_rate)

    def _buffered(self) -> float:
        return self._feed.waiting / self._stream_rate

    def _check_alive(self) -> None:
        if self._started and self._feed.stopped.is_set():
            raise self._died()

    def _wait(self, done: Callable[[], bool]) -> None:
        """Wait in slices. Time is counted in slices, so that a suspended process does not find its device dead."""
        idle, calls = 0.0, -1
        while not done():
            if self._feed.stopped.wait(SLICE) and not done():
                raise self._died()
            idle = idle + SLICE if self._feed.calls == calls else 0.0
            calls = self._feed.calls
            if idle >= PATIENCE:
                raise AudioDeviceError(f"{self._device_name()} takes no more sound", WAY_OUT)

    def _died(self) -> AudioDeviceError:
        return AudioDeviceError(f"{self._device_name()} stopped in the middle (unplugged?)", WAY_OUT)

    def _device_name(self) -> str:
        if self.device is None or self._sd is None:
            return "the default audio device"
        try:
            return str(self._sd.query_devices(self.device)["name"])
        except Exception:  # the name is for a message that must come out
            return f"audio device {self.device}"

    @contextlib.contextmanager
    def _device_errors(self, what: str) -> Iterator[None]:
        try:
            with quiet_stderr():
                yield
        except self._sd.PortAudioError as error:
            raise AudioDeviceError(f"{what}: {_reason(error)}", WAY_OUT) from error

    def _open_stream(self) -> tuple[Any, int]:
        """The first combination of rate and channels that the device takes, the voice's own first."""
        refusals: list[Exception] = []
        with quiet_stderr():
            for rate, channels in self._layouts():
                try:
                    return self._try_open(rate, channels), rate
                except (self._sd.PortAudioError, ValueError) as error:
                    refusals.append(error)
        raise AudioDeviceError(f"cannot open {self._device_name()}: {_reason(refusals[0])}", WAY_OUT)

    def _layouts(self) -> list[tuple[int, int]]:
        try:
            own = round(float(self._sd.query_devices(self.device, "output")["default_samplerate"]))
        except (self._sd.PortAudioError, ValueError) as error:
            raise AudioDeviceError("there is no audio output device", WAY_OUT) from error
        rates = dict.fromkeys((self.rate, own, *COMMON_RATES))
        return [(rate, channels) for rate in rates for channels in (1, 2)]

    def _try_open(self, rate: int, channels: int) -> Any:
        return self._sd.OutputStream(
            samplerate=rate,
            channels=channels,
            dtype="int16",
            device=self.device,
            latency=LATENCY,
            callback=self._callback,
            finished_callback=self._feed.stopped.set,
        )

    def _callback(self, out: Frames, frames: int, time: object, status: Any) -> None:
        if not self._feed.fill(out, late=bool(status) and bool(getattr(status, "output_underflow", False))):
            raise self._sd.CallbackStop


class Feed:
    """The queue between the two threads: `put` on one side, the device's `fill` on the other."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.calls = 0  # of fill, to see that the device lives
        self.waiting = 0  # frames queued and not yet taken
        self.played = 0  # frames taken
        self.dry = 0  # frames of silence filled in since the queue last ran empty
        self.late = 0  # times the device itself reported that it ran dry
        self._tail: int | None = None
        self._muted = False
        self._blocks: deque[Frames] = deque()
        self._lock = threading.Lock()

    def put(self, frames: Frames) -> None:
        """Append frames."""
        with self._lock:
            if len(frames):
                self._blocks.append(frames)
                self.waiting += len(frames)
                self.dry = 0

    def finish(self, tail: int) -> None:
        """Nothing more comes: stop when all is taken and `tail` frames of silence after it."""
        with self._lock:
            self._tail = tail

    def mute(self) -> None:
        """Nothing but silence from now on."""
        with self._lock:
            self._muted = True
            self._blocks.clear()

    def fill(self, out: Frames, late: bool = False) -> bool:
        """Fill the device's buffer, all channels alike. False: this was the last."""
        with self._lock:
            self.calls += 1
            self.late += late and self.played > 0 and self.dry == 0  # before the first frame it is only the start
            filled = 0 if self._muted else self._take(out)
            out[filled:] = 0
            return self._account(len(out) - filled)

    def _take(self, out: Frames) -> int:
        filled = 0
        while filled < len(out) and self._blocks:
            block = self._blocks.popleft()
            part = block[: len(out) - filled]
            out[filled : filled + len(part)] = part[:, None]
            filled += len(part)
            if len(part) < len(block):
                self._blocks.appendleft(block[len(part) :])
        self.played += filled
        self.waiting -= filled
        return filled

    def _account(self, silent: int) -> bool:
        if not silent or self._muted:
            return not self._muted
        if self._tail is None:
            self.dry += silent
            return True
        self._tail -= silent
        return self._tail > 0


def _latency(stream: Any) -> float:
    try:
        return float(stream.latency)
    except (AttributeError, TypeError, ValueError):
        return LATENCY


def _reason(error: Exception) -> str:
    """PortAudio's words without its number: `Error opening OutputStream: Invalid sample rate [PaErrorCode -9997]`."""
    text = str(error).split(" [PaError")[0].strip()
    return text.removeprefix("Error opening OutputStream: ") or type(error).__name__
