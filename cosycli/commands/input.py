"""Where `speak` and `file` get their text: words on the command line, a file, standard input as it arrives."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cosycli.errors import CosyError, UsageError
from cosycli.text import encoding

if TYPE_CHECKING:
    from cosycli.text.lexicon import Lexicon

BLOCK = 65536  # bytes


def stdin_is_piped() -> bool:
    """Whether something other than a terminal is connected to standard input."""
    try:
        return sys.stdin is not None and not sys.stdin.isatty()
    except ValueError:
        return False


class StdinPieces(Iterable[str]):
    """Text from standard input, piece by piece, as soon as it is there. Iterate over it once."""

    def __init__(self, encoding_name: str | None) -> None:
        self._encoding = encoding_name

    def __iter__(self) -> Iterator[str]:
        return encoding.decoded(_stdin_blocks(), self._encoding)

    def ready(self, seconds: float) -> bool:
        """Whether there is more to read within so many seconds, or the end; true where that cannot be known."""
        if sys.stdin is None or sys.platform == "win32":  # where only sockets can be waited for
            return True
        return bool(select.select([sys.stdin.fileno()], [], [], seconds)[0])


def _stdin_blocks() -> Iterator[bytes]:
    if sys.stdin is None:
        return
    number = sys.stdin.fileno()
    while block := os.read(number, BLOCK):
        yield block


def as_typed(argument: str, encoding_name: str | None) -> str:
    """A command line's words. Where the locale could not decode them (LC_ALL=C), their bytes tell what they are."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return encoding.decode(os.fsencode(argument), encoding_name, "the command line")
    return argument


def file_text(path: Path | str, encoding_name: str | None) -> str:
    """A text file's content. Raises CosyError where it cannot be read, UsageError where it is no text."""
    return encoding.decode(read_bytes(path), encoding_name, str(path))


def read_bytes(path: Path | str) -> bytes:
    """A file's bytes; errors name the path and the reason."""
    path = Path(path)
    try:
        if path.is_dir():
            raise CosyError(f"cannot read {path}: it is a folder", "`cosy file` turns folders into audio")
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}", "check the name; quote it if it has spaces") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CosyError(f"cannot read {path}: {reason}", "check the path and its permissions") from error


def chosen_lexicon(path: str | None) -> Lexicon | None:
    """The user's own lexicon with that of the command line on top; None where there is neither."""
    from cosycli.text.lexicon import Lexicon, user_lexicon_path

    own = user_lexicon_path()
    lexicons = [Lexicon.load(own)] if own.is_file() else []
    if path is not None:
        lexicons.append(Lexicon.load(path))
    return lexicons[0].merged(*lexicons[1:]) if lexicons else None


def own_sentences(path: Path) -> list[str]:
    """The lines of a file that can be spoken. Raises UsageError where there are none."""
    from cosycli.bench.setups import texts_of

    found = texts_of(file_text(path, None))
    if not found:
        raise UsageError(f"{path} has no sentences to speak", "give a text file with one sentence a line")
    return found


def check_place(path: Path) -> None:
    """Raise CosyError where no file can be written under this name."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise CosyError(f"cannot write {path}: it is a folder, or lies in none", "create the folder, name a file in it")
