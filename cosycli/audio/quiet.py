"""Keeps C libraries' chatter off the terminal while a sound system is probed.

ALSA and PortAudio write to file descriptor 2 themselves, a dozen lines for a machine without sound.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator

_one_at_a_time = threading.Lock()  # descriptor 2 belongs to the process


class Chatter:
    """What was written meanwhile, for those who want to see it."""

    text = ""


@contextlib.contextmanager
def quiet_stderr() -> Iterator[Chatter]:
    """Send what is written to descriptor 2 inside the block to a temporary file, and remember it."""
    chatter = Chatter()
    with _one_at_a_time, contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile())
            kept = os.dup(2)
        except OSError:  # stderr is closed, or nowhere to write: nothing to keep quiet, or no way to
            yield chatter
            return
        stack.callback(os.close, kept)
        _flush()
        os.dup2(file.fileno(), 2)
        try:
            yield chatter
        finally:
            _flush()
            os.dup2(kept, 2)
            file.seek(0)
            chatter.text = file.read().decode(errors="replace")


def _flush() -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
