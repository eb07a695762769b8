"""The process boundary: registers the commands and turns whatever goes wrong into words and an exit code, once.

Importing it loads neither numpy nor any audio or model library: `cosy --help` stays quick.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, Any

import typer

from cosycli import __version__, console
from cosycli.commands import (
    bench,
    convert,
    convert_voice,
    devices,
    doctor,
    file,
    models,
    pull,
    quantize,
    speak,
    voice,
    voices,
    warmup,
)
from cosycli.errors import CosyError, Exit

SAVING, SAVING_TIME = "saving", 10.0  # threads of this name are waited for, so many seconds

app = typer.Typer(
    name="cosy",
    help="Speech synthesis at the command line: CosyVoice without PyTorch, streaming on ONNX Runtime.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,  # plain help: rich would double the time of `cosy --help`
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Try: cosy speak "你好"',
)
app.command("speak")(speak.speak)
app.command("file")(file.file)
app.command("warmup")(warmup.warmup)
app.command("voices")(voices.voices)
app.command("devices")(devices.devices)
app.command("doctor")(doctor.doctor)
app.command("bench")(bench.bench)
app.command("quantize")(quantize.quantize)
app.command("convert")(convert.convert)
app.command("pull")(pull.pull)
app.command("convert-voice")(convert_voice.convert_voice)
app.add_typer(models.app, name="models")
app.add_typer(voice.app, name="voice")


def _version(wanted: bool) -> None:
    if wanted:
        console.out(f"cosy {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


class _Terminated(BaseException):
    """SIGTERM or SIGHUP, raised where the program stands so that drafts are removed and devices closed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> None:
    """Run the command line and end the process with its exit code."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) != signal.SIG_IGN:  # nohup's, which is to be obeyed
            signal.signal(number, _terminate)
    code = program(sys.argv[1:])
    _leave(code)


def program(arguments: Sequence[str]) -> int:
    """Run one command; every foreseen failure is told on stderr and returned as an exit code. Bugs propagate."""
    try:
        return _run(arguments)
    except CosyError as error:
        console.error(error.message, error.hint)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(Exit.INTERRUPTED)
    except _Terminated as ended:
        return 128 + ended.number
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(Exit.DONE)
    except BrokenPipeError:
        return int(Exit.DONE)
    except MemoryError:
        console.error("out of memory", "close other programs, or speak the text in parts")
        return int(Exit.FAILED)
    except OSError as error:
        return _foreign(error)


def _run(arguments: Sequence[str]) -> int:
    try:
        return int(app(list(arguments), prog_name="cosy", standalone_mode=False) or 0)
    except Exception as error:
        # Typer carries its own copy of click, or none: its exceptions are known by their shape.
        if type(error).__name__ == "Abort":
            return int(Exit.INTERRUPTED)
        if type(error).__name__ == "NoArgsIsHelpError":
            console.out(error.format_message())  # type: ignore[attr-defined]
            return int(Exit.USAGE)
        if not hasattr(error, "format_message"):
            raise
        message = " ".join(error.format_message().split())
        console.error(message[:1].lower() + message[1:].rstrip("."), _help_hint(error))
        return int(Exit.USAGE)


def _help_hint(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f"`{context.command_path if context else 'cosy'} --help` shows what can be given"


def _foreign(error: OSError) -> int:
    """An error of the system that nobody turned into words nearer to its cause."""
    where = f"{error.filename}: " if error.filename else ""
    console.error(f"{where}{error.strerror or error}", "check the path, its permissions and the free space")
    return int(Exit.FAILED)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated(number)


def _leave(code: int) -> None:
    """End at once. Runtime threads that are still working must neither delay the exit nor crash in it.

    After success, threads named `SAVING` are waited for: they write what makes the next process quicker.
    """
    for thread in threading.enumerate() if code == Exit.DONE else ():
        if thread.name == SAVING:
            thread.join(SAVING_TIME)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
