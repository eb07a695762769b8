"""Audio files: written whole or not at all, with a comment in their metadata that can be read back.

Knows formats and soundfile; knows nothing of what the comment means.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from cosycli.audio.atomic import Draft
from cosycli.audio.formats import FORMATS, format_of, is_special, unwritable
from cosycli.audio.raw import WavStream
from cosycli.audio.sinks import Sink, check_rate, require_sound
from cosycli.errors import CosyError
from cosycli.types import Chunk

ATTRIBUTE = "user.cosy.comment"  # WAV only, see _mark
BLOCK = 1 << 16  # frames a call: libvorbis keeps a call's frames on the stack and overflows it on minutes of audio
WAV_LIMIT = 0xFFFFFFFF - 4096  # bytes of samples that its 32-bit sizes can name


def open_output(path: Path | str, rate: int, format: str | None = None, comment: str = "") -> Sink:
    """The sink for `-o PATH`: a file that appears when complete; devices and pipes are streamed to in place."""
    if is_special(path):
        return SpecialFile(path, rate)
    return FileSink(path, rate, format, comment)


class FileSink:
    """One audio file. `with FileSink(...) as sink: sink.write(chunk)`."""

    def __init__(self, path: Path | str, rate: int, format: str | None = None, comment: str = "") -> None:
        self.path, self.rate, self.comment = Path(path), rate, comment
        self.format = format_of(path, format)
        self.frames = 0
        self._draft: Draft | None = None
        self._file: Any = None
        self._late_comment = False

    def __enter__(self) -> FileSink:
        try:
            self._draft = Draft(self.path)
        except OSError as error:
            raise unwritable(self.path, error) from error
        try:
            self._open(self._draft)
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            self._commit()
        except BaseException:
            self._discard()
            raise

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        from cosycli.audio.join import to_int16

        check_rate(chunk, self.rate)
        samples = to_int16(chunk.samples)
        self.frames += len(samples)
        if self.format.name == "wav" and self.frames * 2 > WAV_LIMIT:
            raise CosyError(f"{self.path}: a WAV file cannot be longer than 4 GiB", "write .flac, .ogg or .mp3")
        with self._foreign_errors():
            for begin in range(0, len(samples), BLOCK):
                self._file.write(samples[begin : begin + BLOCK])

    def _open(self, draft: Draft) -> None:
        import soundfile

        self._late_comment = bool(self.comment) and self.format.name == "wav" and not _mark(draft.path, self.comment)
        kind = self.format
        with self._foreign_errors():
            self._file = soundfile.SoundFile(
                draft.fd, "w", self.rate, 1, format=kind.container, subtype=kind.subtype, closefd=False
            )
            if self.comment and kind.name != "wav":
                self._file.comment = self.comment

    def _commit(self) -> None:
        require_sound(self.frames)
        assert self._draft is not None
        with self._foreign_errors():
            if self._late_comment:
                self._file.comment = self.comment  # set after the samples, it is stored after them
            self._file.close()
            self._verify(self._draft)
            self._draft.commit()

    def _verify(self, draft: Draft) -> None:
        """A full disk may show only in the encoder's last words, which nobody reports."""
        import soundfile

        if soundfile.info(os.fspath(draft.path)).frames < self.frames:
            raise OSError(28, os.strerror(28))

    def _discard(self) -> None:
        if self._file is not None:
            with contextlib.suppress(Exception):
                self._file.close()
        if self._draft is not None:
            self._draft.discard()

    @contextlib.contextmanager
    def _foreign_errors(self) -> Any:
        import soundfile

        try:
            yield
        except OSError as error:
            raise unwritable(self.path, error) from error
        except (soundfile.LibsndfileError, AssertionError) as error:  # it asserts that all frames were written
            reason = str(getattr(error, "error_string", "") or "the disk took only a part").strip().rstrip(".")
            if reason == "System error":  # all that the library says of a full disk
                reason = "the disk took only a part"
            raise CosyError(f"cannot write {self.path}: {reason}", "free some space or choose another place") from error


class SpecialFile:
    """A device or named pipe: gets a WAV stream in place."""

    def __init__(self, path: Path | str, rate: int) -> None:
        self.path, self.rate = Path(path), rate
        self._stack = contextlib.ExitStack()
        self._stream: WavStream | None = None

    def __enter__(self) -> SpecialFile:
        with contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(open(self.path, "wb", buffering=0))
            except OSError as error:
                raise unwritable(self.path, error) from error
            self._stream = stack.enter_context(WavStream(file, self.rate, str(self.path)))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return bool(self._stack.__exit__(kind, error, trace))

    def write(self, chunk: Chunk) -> None:
        """Send a chunk."""
        assert self._stream is not None
        self._stream.write(chunk)


def read_comment(path: Path | str) -> str | None:
    """The comment a file was written with; None if it has none or is no readable audio."""
    import soundfile

    if Path(path).suffix.lower().lstrip(".") not in FORMATS or not Path(path).is_file():
        return None
    marked = _marked(Path(path))
    if marked:
        return marked
    try:
        with soundfile.SoundFile(os.fspath(path)) as file:
            return str(file.comment) or None
    except (soundfile.LibsndfileError, OSError, RuntimeError):
        return None


def _mark(path: Path, comment: str) -> bool:
    """Attach a WAV's comment as an extended attribute of the file; False where there is no such thing.

    Many readers expect 44 bytes of header and nothing but samples after them, and play a LIST chunk as a click;
    so it is the second choice, stored behind the samples.
    """
    try:
        os.setxattr(path, ATTRIBUTE, comment.encode())
    except (AttributeError, OSError):  # not Linux; or a file system without attributes
        return False
    return True


def _marked(path: Path) -> str | None:
    try:
        return os.getxattr(path, ATTRIBUTE).decode()
    except (AttributeError, OSError, UnicodeDecodeError):
        return None
