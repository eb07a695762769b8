"""A stand-in for the sounddevice module: a device that records what it is given and fails as it is told.

Inject an instance (`Speaker(..., sounddevice=FakeSoundDevice())`, or `sys.modules["sounddevice"]`); for another
process put `tests/fakes/nullsink` first on PYTHONPATH.
"""

from __future__ import annotations

import threading
import time

import numpy as np


class PortAudioError(Exception):
    """As sounddevice's."""


class CallbackStop(Exception):
    """As sounddevice's."""


class Status:
    """Truthy when the device reports that it ran dry."""

    def __init__(self, output_underflow):
        self.output_underflow = output_underflow

    def __bool__(self):
        return self.output_underflow


class FakeSoundDevice:
    """One output device with a clock `speed` times real time; with `hold`, it takes a block only at each `turn`,
    until `go` is set: no test of what was heard may depend on the machine's load.

    `events` holds (what, seconds) in order: open, start, first, stop, abort, close; `refused` the layouts not taken.
    """

    PortAudioError, CallbackStop = PortAudioError, CallbackStop

    def __init__(
        self,
        *,
        speed=50.0,
        block=480,
        default_rate=48000,
        refuse_rates=(),
        refuse_channels=(),
        underflow_calls=(),
        devices=1,
        open_error=None,
        start_error=None,
        die_after=None,
        freeze_after=None,
        hang_on_stop=False,
        hold=False,
        latency=0.05,
    ):
        self.speed, self.block, self.default_rate, self.latency = speed, block, default_rate, latency
        self.refuse_rates, self.refuse_channels = set(refuse_rates), set(refuse_channels)
        self.underflow_calls, self.devices = set(underflow_calls), devices
        self.open_error, self.start_error = open_error, start_error
        self.die_after, self.freeze_after, self.hang_on_stop = die_after, freeze_after, hang_on_stop
        self.events, self.refused, self.blocks = [], [], []
        self.samplerate = self.channels = self.dtype = None
        self.on_event = lambda: None
        self.go, self.turns = threading.Event(), threading.Semaphore(0)
        if not hold:
            self.go.set()

    @property
    def frames(self):
        """Everything the device took, one channel."""
        return np.concatenate([block[:, 0] for block in self.blocks]) if self.blocks else np.zeros(0, np.int16)

    @property
    def order(self):
        """The events' names."""
        return [name for name, _ in self.events]

    def turn(self, count=1):
        """Let a held device take that many blocks, and wait until it has."""
        wanted = len(self.blocks) + count
        for _ in range(count):
            self.turns.release()
        while len(self.blocks) < wanted:
            time.sleep(0.0005)

    def log(self, name):
        self.events.append((name, time.monotonic()))
        self.on_event()

    def query_hostapis(self, index=None):
        apis = ({"name": "ALSA", "devices": list(range(self.devices)), "default_output_device": 0},)
        return apis if index is None else apis[index]

    def query_devices(self, device=None, kind=None):
        entries = [self._entry(index) for index in range(self.devices)]
        if device is None and kind is None:
            return entries
        if not entries:
            raise PortAudioError("Error querying device -1")
        return entries[device or 0]

    def _entry(self, index):
        return {
            "name": f"Fake {index}",
            "index": index,
            "hostapi": 0,
            "max_output_channels": 0 if index == 9 else 2,
            "default_samplerate": float(self.default_rate),
        }

    def OutputStream(self, **options):
        if self.open_error:
            raise PortAudioError(self.open_error)
        if options["samplerate"] in self.refuse_rates:
            self.refused.append((options["samplerate"], options["channels"]))
            raise PortAudioError("Error opening OutputStream: Invalid sample rate [PaErrorCode -9997]")
        if options["channels"] in self.refuse_channels:
            self.refused.append((options["samplerate"], options["channels"]))
            raise PortAudioError("Error opening OutputStream: Invalid number of channels [PaErrorCode -9998]")
        self.samplerate, self.channels, self.dtype = options["samplerate"], options["channels"], options["dtype"]
        return FakeStream(self, options["callback"], options["finished_callback"])


class FakeStream:
    """Calls back from a thread of its own, as PortAudio does."""

    def __init__(self, device, callback, finished):
        self.device, self.callback, self.finished = device, callback, finished
        self.latency = device.latency
        self.halt = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        device.log("open")

    def start(self):
        if self.device.start_error:
            raise PortAudioError(self.device.start_error)
        self.device.log("start")
        self.thread.start()

    def stop(self):
        self.device.log("stop")
        if self.device.hang_on_stop:
            time.sleep(3600)
        self._end()

    def abort(self):
        self.device.log("abort")
        self.halt.set()
        self._end()

    def close(self):
        self.device.log("close")

    def _end(self):
        self.halt.set()
        if self.thread.is_alive():
            self.thread.join()

    def _run(self):
        device, due = self.device, time.monotonic()
        while not self.halt.is_set():
            if not device.go.is_set() and not device.turns.acquire(timeout=0.001):
                continue
            out = np.full((device.block, device.channels), 12345, np.int16)
            if device.freeze_after is not None and len(device.blocks) >= device.freeze_after:
                self.halt.wait()
                break
            if device.die_after is not None and len(device.blocks) >= device.die_after:
                break
            more = self._call(out)
            device.blocks.append(out)
            if len(device.blocks) == 1:
                device.log("first")
            if not more:
                break
            due += device.block / device.samplerate / device.speed
            self.halt.wait(max(0.0, due - time.monotonic()))
        self.finished()

    def _call(self, out):
        status = Status(len(self.device.blocks) in self.device.underflow_calls)
        try:
            self.callback(out, len(out), None, status)
        except CallbackStop:
            return False
        return True
