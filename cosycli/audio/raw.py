"""Audio to a pipe: a WAV stream or bare s16le samples, flushed a chunk at a time.

When the reader goes away the stream ends quietly. Knows nothing of files that must be whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
from types import TracebackType
from typing import BinaryIO

from cosycli.audio.sinks import check_rate, require_sound
from cosycli.errors import CosyError, UsageError
from cosycli.types import Chunk

UNKNOWN = 0xFFFFFFFF  # "as long as it goes on": what ffmpeg writes to a pipe, and players and `wave` accept


class ListenerGone(Exception):
    """The reader closed the pipe. Raised by `write`, swallowed by the sink's own `with` block."""


def stdout() -> BinaryIO:
    """Standard output for bytes; refused on a terminal, which would show them as garbage."""
    if sys.stdout is None:
        raise CosyError("standard output is closed", "write to a file with -o FILE")
    if sys.stdout.isatty():
        raise UsageError("audio is not written to a terminal", "redirect (> FILE), pipe (| aplay ...) or use -o FILE")
    return sys.stdout.buffer


class RawStream:
    """Samples as signed 16-bit little-endian, mono, without a header."""

    def __init__(self, file: BinaryIO, rate: int, name: str = "standard output") -> None:
        self.rate, self.frames, self.gone = rate, 0, False
        self._file, self._name = file, name

    def __enter__(self) -> RawStream:
        if self._file.isatty():
            raise UsageError("audio is not written to a terminal", "redirect it, pipe it to a player or use -o FILE")
        with contextlib.suppress(OSError, AttributeError, ValueError):
            os.set_blocking(self._file.fileno(), True)  # a parent such as node hands over non-blocking pipes
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, ListenerGone):
            return self.gone
        self._end()
        if kind is None:
            require_sound(self.frames)
        return False

    def write(self, chunk: Chunk) -> None:
        """Send a chunk; raises ListenerGone when nobody reads any more."""
        from cosycli.audio.join import to_int16

        check_rate(chunk, self.rate)
        samples = to_int16(chunk.samples)
        if not len(samples):
            return
        self._send((b"" if self.frames else self._head()) + samples.astype("<i2").tobytes())
        self.frames += len(samples)

    def _head(self) -> bytes:
        return b""

    def _end(self) -> None:
        pass

    def _send(self, content: bytes) -> None:
        try:
            view = memoryview(content)
            while view:  # an unbuffered file may take a part
                view = view[self._file.write(view) or 0 :]
            self._file.flush()
        except OSError as error:
            self._mute()
            if _is_hangup(error):
                self.gone = True
                raise ListenerGone from None
            raise CosyError(f"cannot write to {self._name}: {error.strerror}", "write to another place") from error

    def _mute(self) -> None:
        """Point the descriptor at nothing, or Python's last flush at exit fails once more, aloud."""
        with contextlib.suppress(OSError, AttributeError, ValueError):
            target = self._file.fileno()
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, target)
            os.close(nothing)


class WavStream(RawStream):
    """The same samples behind a WAV header.

    Its sizes say "unknown" (the largest number) on a pipe; on a regular file they are made exact at the end.
    """

    def __enter__(self) -> WavStream:
        super().__enter__()
        self._begin = self._file.tell() if _can_patch(self._file) else None
        return self

    def _head(self) -> bytes:
        return wav_header(self.rate)

    def _end(self) -> None:
        if self._begin is None or not self.frames:
            return
        with contextlib.suppress(OSError):
            self._file.seek(self._begin)
            self._file.write(wav_header(self.rate, self.frames))
            self._file.seek(0, os.SEEK_END)
            self._file.flush()


def wav_header(rate: int, frames: int | None = None) -> bytes:
    """44 bytes: 16-bit mono PCM, of unknown length unless `frames` is given."""
    size = UNKNOWN if frames is None or frames * 2 + 36 > UNKNOWN else frames * 2
    whole = UNKNOWN if size == UNKNOWN else size + 36
    layout = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    return b"RIFF" + struct.pack("<I", whole) + b"WAVEfmt " + struct.pack("<I", 16) + layout + b"data" + _u32(size)


def _u32(number: int) -> bytes:
    return struct.pack("<I", number)


def _can_patch(file: BinaryIO) -> bool:
    """True for what can be written at its beginning again: seekable, and not opened to append (`>>`)."""
    try:
        if not file.seekable():
            return False
        if sys.platform == "win32":
            return True
        import fcntl

        return not fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & os.O_APPEND
    except (OSError, ValueError):  # no descriptor: an object in memory
        return file.seekable()


def _is_hangup(error: OSError) -> bool:
    return error.errno == errno.EPIPE or (sys.platform == "win32" and error.errno == errno.EINVAL)
