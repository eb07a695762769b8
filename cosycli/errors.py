"""The exception tree. Each class owns an exit code; each instance says what is wrong and what to do.

CosyError                1  some work failed, each piece named
├── UsageError           2  wrong use, or nothing to speak
├── ModelError           3  model or voice missing or damaged
├── InferenceError       4  provider or inference
└── AudioDeviceError     5  no way to play sound
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Process exit codes, as documented in the README."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MODEL = 3
    INFERENCE = 4
    DEVICE = 5
    INTERRUPTED = 130


class CosyError(Exception):
    """A failure that is not a bug: `message` says what is wrong, `hint` what mends it (one line each)."""

    exit_code = Exit.FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(CosyError):
    """The request cannot be met as asked: a bad value, a clash, or nothing to speak."""

    exit_code = Exit.USAGE


class ModelError(CosyError):
    """A model or voice is missing, damaged or of the wrong kind."""

    exit_code = Exit.MODEL


class InferenceError(CosyError):
    """An execution provider or a graph failed while running."""

    exit_code = Exit.INFERENCE


class AudioDeviceError(CosyError):
    """No device or player can sound the audio."""

    exit_code = Exit.DEVICE
