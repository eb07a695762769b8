"""Calls into drivers that may never return, with a limit to how long we care."""

from __future__ import annotations

import threading
from collections.abc import Callable


def within(seconds: float, action: Callable[[], object]) -> bool:
    """Do `action`, waiting at most `seconds`; False if it is still at it. What it raises is raised here.

    It runs in a daemon thread, so that one that hangs holds up neither Ctrl-C nor the end of the process.
    """
    failure: list[BaseException] = []

    def attempt() -> None:
        try:
            action()
        except BaseException as error:
            failure.append(error)

    worker = threading.Thread(target=attempt, daemon=True)
    worker.start()
    worker.join(seconds)
    if failure:
        raise failure[0]
    return not worker.is_alive()
