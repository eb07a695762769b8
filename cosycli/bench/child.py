"""One setup in a process of its own: only there are load time and peak memory those of this setup alone.

The request comes as JSON on standard input; lines of JSON go back: {"step"}, {"note"}, {"spoken"}, and in the end
{"done"}, {"error"} or {"built"}. One process runs at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cosycli.bench.figures import Spoken, Trial, speak
from cosycli.bench.setups import Setup
from cosycli.errors import CosyError, InferenceError, ModelError, UsageError
from cosycli.tuning import Tuning, trying

COMMAND = (sys.executable, "-m", "cosycli.bench.child")
_ERRORS = {int(kind.exit_code): kind for kind in (CosyError, UsageError, ModelError, InferenceError)}


class Built(Exception):
    """The process had to build the bundle first, which its peak memory would show: 900 MB in place of 440."""


@dataclass(frozen=True)
class Listener:
    """Who hears of a process at work: slow steps and notes for people, and each text that is done."""

    step: Callable[[str], None] = lambda text: None
    note: Callable[[str], None] = lambda text: None
    advance: Callable[[], None] = lambda: None


def measure(
    setup: Setup,
    texts: Sequence[str],
    warm_up: Sequence[str],
    listener: Listener = Listener(),
    command: Sequence[str] = COMMAND,
) -> Trial:
    """Measure a setup in a fresh process, and in another one if the first had to build the bundle.

    However this ends, the process has ended too. Raises what went wrong there, and InferenceError if it died.
    """
    while True:
        with contextlib.suppress(Built):
            return _measured(setup, texts, warm_up, listener, command)


def _measured(
    setup: Setup, texts: Sequence[str], warm_up: Sequence[str], listener: Listener, command: Sequence[str]
) -> Trial:
    with tempfile.TemporaryFile() as request:  # not a pipe, which breaks if it dies before it has read everything
        request.write(json.dumps({"setup": asdict(setup), "texts": list(texts), "warm_up": list(warm_up)}).encode())
        request.seek(0)
        # A session of its own keeps Ctrl-C away from it: it is stopped from here, and prints nothing.
        process = subprocess.Popen(
            command, stdin=request, stdout=subprocess.PIPE, encoding="utf-8", start_new_session=True
        )
    assert process.stdout is not None
    try:
        trial = heard(process.stdout, listener)
        process.wait()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    if trial is None:
        raise InferenceError(
            f"the process that measured {setup} ended with {process.returncode} before it was done",
            "see whether memory ran out; `cosy doctor` checks the rest",
        )
    return trial


def heard(lines: Iterable[str], listener: Listener) -> Trial | None:
    """The trial that a process tells of; None if it stops before the end. Raises the error that it tells, or Built."""
    spoken: list[Spoken] = []
    for line in lines:
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            message, hint, code = told["error"]
            raise _ERRORS.get(code, CosyError)(message, hint)
        if "built" in told:
            raise Built
        if "done" in told:
            return Trial(**told["done"], spoken=tuple(spoken))
        if "spoken" in told:
            listener.advance()
            if told["spoken"] is not None:
                spoken.append(Spoken(**told["spoken"] | {"gaps": tuple(told["spoken"]["gaps"])}))
        elif "step" in told:
            listener.step(told["step"])
        else:
            listener.note(told["note"])
    return None


def serve(request: str, say: Callable[[dict[str, Any]], None]) -> None:
    """The other side: open, warm up, speak, tell."""
    asked = json.loads(request)
    kept = asked["setup"].pop("tuning")
    setup = Setup(**asked["setup"], tuning=Tuning(**kept) if kept else None)
    try:
        with trying(setup.tuning):
            _serve(setup, asked["texts"], asked["warm_up"], say)
    except CosyError as error:
        say({"error": (error.message, error.hint, int(error.exit_code))})


def _serve(setup: Setup, texts: Sequence[str], warm_up: Sequence[str], say: Callable[[dict[str, Any]], None]) -> None:
    from cosycli import runtime
    from cosycli.engine import Engine
    from cosycli.measure import peak_memory_mb

    engine = Engine(
        setup.model,
        provider=setup.provider,
        precision=setup.precision,
        folder=Path(setup.folder) if setup.folder else None,
        progress=lambda text: say({"step": text}),
    )
    engine.open()
    if engine.timing and engine.timing.built:
        say({"built": True})
        return
    for note in engine.notes:
        say({"note": note})
    for text in warm_up:
        speak(engine, text, setup.voice)
    heard_any = False
    for text in texts:
        one = speak(engine, text, setup.voice)
        heard_any = heard_any or one is not None
        say({"spoken": one and asdict(one)})
    if not heard_any:
        raise UsageError("none of the sentences has a sound", "give a text file with one sentence a line")
    backend = engine.open()
    done = {
        "precision": backend.precision,
        "provider": str(getattr(backend, "provider", "cpu")),
        "voice": engine.voice(setup.voice).name,
        "threads": runtime.threads(),
        "load_seconds": engine.timing.load_seconds if engine.timing else 0.0,
        "memory_mb": peak_memory_mb(),
    }
    say({"done": done})


def main() -> None:
    """Serve one request. Whatever a library prints on standard output goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        serve(sys.stdin.buffer.read().decode(), lambda told: print(json.dumps(told), file=answers, flush=True))
    except BrokenPipeError:
        os._exit(1)  # nobody listens any more
    os._exit(0)  # threads of the runtime must not delay the end


if __name__ == "__main__":
    main()
