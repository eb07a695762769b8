"""Where the process starts: `cosy` and `python -m cosycli`. Ctrl-C is taken care of before anything is imported."""

import os
import signal


def main() -> None:
    """Run the command line. Ctrl-C while its modules are still being imported ends it without a traceback."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as under nohup
    if ours:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    from cosycli import cli

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
