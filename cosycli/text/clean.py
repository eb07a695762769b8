"""Text as people write it becomes text to speak: blocks of Markdown and HTML, front matter, code, tables.

Works on lines and parts of lines as they arrive. Knows nothing of sentences, numbers or languages.
"""

from __future__ import annotations

import re

from cosycli.text.chars import HAN, HEADING, LINE, MARKS, line_ends, visible
from cosycli.text.inline import FOREVER, plain, spans

# A line longer than this is worked on in parts even where a mark may be left open: bounded memory
# matters more than one asterisk in a line of 2,000 characters.
MAX_HELD = 2048
_FRONT_LINES = 200  # a longer "front matter" is a document that begins with a rule
_COMMENT_HELD = 4096  # a comment that is not closed by then is text

# After these the line so far may be returned; a break tag belongs to the sentence before it.
_CUT = re.compile(r"[。！？；，、：…]+[”’」』）】》]*(?:\s{0,4}<break\b[^<>]{0,200}>)*|[.!?,;:](?= )", re.I)
_FENCE = re.compile(r"\s{0,8}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$")
_SPOKEN_FENCES = {"", "text", "txt", "plain", "plaintext"}
_MARKDOWN_FENCES = {"md", "markdown"}
_RULE = re.compile(r"\s{0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,}|={3,}\s*)$")
_SEPARATOR = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_DEFINITION = re.compile(r"\s{0,3}\[[^\]^\[]{1,100}\]:\s*\S{1,2000}(?:\s+[\"'(].{0,500})?\s*$")
_NOTE = re.compile(r"\s{0,3}\[\^[^\]\[]{1,64}\]:\s*")
_QUOTE = re.compile(r"\s{0,3}>(?![\d=])\s?")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(?=\S)")
_HEADING_END = re.compile(r"\s+#+\s*$")
_ITEM = re.compile(r"\s*(?:(?:[-*+•●▪◦‣○■□◆·]|(\d{1,3})[.)])\s+(?:\[[ xX]\]\s+)?(?=\S)|(?=[①-⑳⑴-⑽]))")
_UNDECIDED = re.compile(r"\s*(?:[|\[<]|`{3}|~{3}|-{3}|\+{3}|\d{1,3}[.)]?\s*$|#{1,6}\s*$|[-*+>•·]\s*$)")
_HIDDEN = re.compile(r"<!--|<(script|style)\b[^<>]{0,500}>", re.I)
_KEY = re.compile(r"\s*(?:[\w\"'.-]+\s*[:=]|#|-\s|$)")


def clean(text: str, *, markup: bool = True) -> str:
    """The whole text without marks, as it is shown; pauses and block ends become plain line ends."""
    cleaner = Cleaner(markup=markup)
    marked = cleaner.feed(text) + cleaner.finish()
    bare = MARKS.sub(lambda mark: "\n" if mark[0] == LINE else "", marked)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ ]*\n[ ]*", "\n", bare)).strip()


class Cleaner:
    """Cleans text that arrives in pieces; what it returns does not depend on where the pieces end."""

    def __init__(self, *, markup: bool = True) -> None:
        self._markup = markup
        self._buffer = ""  # the part of the current line that has not been returned
        self._carriage = ""  # a trailing \r, which may be half of a line end
        self._inside = False  # the beginning of the current line has been returned
        self._heading = False
        self._first = True  # no line has ended yet
        self._front: list[str] | None = None
        self._fence = ""  # the marks that close the code block, while in one
        self._fence_kind = ""
        self._hidden: tuple[str, list[str]] | None = None  # what closes it, what it hides
        self._table = False

    def feed(self, piece: str) -> str:
        """Take a piece of text; return what is ready."""
        piece = self._carriage + piece
        self._carriage = "\r" if piece.endswith("\r") else ""
        piece = piece[: len(piece) - len(self._carriage)]
        self._buffer += visible(line_ends(piece))
        *lines, rest = self._buffer.split("\n")
        out = [self._end_line(line) for line in lines]
        self._buffer = rest
        if self._ready(piece):
            out.append(self._early())
        return "".join(out)

    def finish(self) -> str:
        """Return what was held back."""
        out = self._end_line(self._buffer) if self._buffer or self._inside else ""
        self._buffer = self._carriage = ""
        if self._front is not None:
            out = self._replay(self._front) + out
        if self._hidden and self._hidden[0] == "-->":
            out += self._replay(self._hidden[1])
        return out

    def _ready(self, piece: str) -> bool:
        return len(self._buffer) > MAX_HELD or bool(
            _CUT.search(self._buffer, max(0, len(self._buffer) - len(piece) - 1))
        )

    def _end_line(self, line: str) -> str:
        """The rest of a line whose end has been seen, line end included."""
        self._buffer = line
        out = self._early() if len(line) > MAX_HELD else ""
        line, self._buffer = self._buffer, ""
        if self._inside:
            body = self._hidden_line(line) if self._hidden else self._plain(line)
        elif self._markup:
            body = self._whole_line(line)
        else:
            body = self._plain(line) + "\n"
        if self._inside:
            body += (HEADING if self._heading else "") + "\n"
        self._inside = self._heading = self._first = False
        return out + body

    def _early(self) -> str:
        """Parts of the current line that nothing to come can change."""
        out = []
        while self._buffer:
            window = self._buffer[:MAX_HELD]
            full = len(self._buffer) > MAX_HELD
            cut = 0 if self._is_held(window) else _last_cut(window)
            if not self._inside and self._markup and cut <= _block_mark(window):
                cut = 0
            if not cut and not full:
                break
            cut = cut or _forced_cut(window)
            out.append(self._part(self._buffer[:cut]))
            self._buffer = self._buffer[cut:]
            if not full:
                break
        return "".join(out)

    def _is_held(self, window: str) -> bool:
        """Whether the current line can only be understood when its end is known."""
        if not self._markup or self._inside:
            return False
        block = self._fence or self._hidden or self._front is not None or self._table
        return bool(block or _UNDECIDED.match(window))

    def _part(self, text: str) -> str:
        if self._fence and not self._inside:
            return self._plain(text) if self._fence_kind in _SPOKEN_FENCES else ""
        if self._inside or not self._markup:
            self._inside = True
            return self._plain(text)
        text, before = self._begin(text)
        self._inside = True
        return before + self._plain(text)

    def _plain(self, text: str) -> str:
        if self._markup and "<" in text:
            text = self._hide(text)
        return plain(text, markup=self._markup)

    def _replay(self, lines: list[str]) -> str:
        """Lines that turned out to be text after all."""
        self._front = self._hidden = None
        return "".join(self._plain(line) + "\n" for line in lines)

    def _whole_line(self, line: str) -> str:
        """A complete line, in whatever block it stands."""
        if self._front is not None or (self._first and line.strip() in ("---", "+++")):
            return self._front_line(line)
        if self._fence:
            return self._fenced(line)
        if self._hidden:
            return self._hidden_line(line)
        fence = _FENCE.match(line)
        if fence:
            self._fence, self._fence_kind = fence[1], fence[2].lower().strip("{}.")
            if self._fence_kind in _MARKDOWN_FENCES:
                self._fence = ""
            return "\n"
        return self._visible_line(line)

    def _front_line(self, line: str) -> str:
        """Front matter: lines of keys between two rules at the very beginning."""
        if self._front is None:
            self._front = []
        elif line.strip() in ("---", "...", "+++"):
            self._front = None
        elif (
            len(self._front) >= _FRONT_LINES
            or not (_KEY.match(line) or line.startswith(" "))
            or (not self._front and not line.strip())
        ):
            return "\n\n" + self._replay([*self._front, line])
        else:
            self._front.append(line)
        return ""

    def _fenced(self, line: str) -> str:
        """A line of a code block: prose is kept, a program is not read out."""
        bare = line.strip()
        if bare.startswith(self._fence) and not bare.strip(self._fence[0]):
            self._fence = ""
            return "\n"
        return LINE + plain(line, markup=False) + "\n" if self._fence_kind in _SPOKEN_FENCES else ""

    def _hidden_line(self, line: str) -> str:
        assert self._hidden is not None
        closing, held = self._hidden
        place = line.lower().find(closing)
        if place >= 0:
            self._hidden = None
            return self._visible_line(line[place + len(closing) :])
        if closing == "-->":
            held.append(line)
            if sum(map(len, held)) > _COMMENT_HELD:
                return self._replay(held)
        return ""

    def _hide(self, line: str) -> str:
        """Take out comments, scripts and styles; remember one that stays open."""
        while opening := _HIDDEN.search(line):
            closing = f"</{opening[1].lower()}>" if opening[1] else "-->"
            end = line.lower().find(closing, opening.end())
            if end < 0:
                self._hidden = closing, [line[opening.end() :]]
                return line[: opening.start()]
            line = line[: opening.start()] + line[end + len(closing) :]
        return line

    def _visible_line(self, line: str) -> str:
        if "<" in line:
            line = self._hide(line)
        if not line.strip():
            self._table = False
            return "\n"
        if _RULE.match(line):
            return "\n\n"
        if _SEPARATOR.match(line) and "|" in line:
            self._table = True
            return ""
        if _DEFINITION.match(line):
            return ""
        if line.lstrip().startswith("|") or (self._table and "|" in line):
            return self._row(line)
        text, before = self._begin(line)
        ending = HEADING if self._heading else ""
        if self._heading:
            text = _HEADING_END.sub("", text)
        return before + self._plain(text) + ending + "\n"

    def _row(self, line: str) -> str:
        """A table row: its cells, one after the other."""
        line = line.replace("\\|", "\ue011")
        cells = [
            self._plain(cell.strip().replace("\ue011", "|")).strip() for cell in line.strip().strip("|").split("|")
        ]
        comma = "，" if re.search(f"[{HAN}]", line) else ", "
        return LINE + comma.join(cell for cell in cells if cell) + LINE + "\n"

    def _begin(self, line: str) -> tuple[str, str]:
        """Take quote, heading and list marks off the beginning of a line; return the rest and what precedes it."""
        before = ""
        while quote := _QUOTE.match(line):
            line = line[quote.end() :]
        if note := _NOTE.match(line):
            return line[note.end() :], LINE
        if heading := _HEADING.match(line):
            self._heading = True
            return line[heading.end() :], "\n"
        if item := _ITEM.match(line):
            line = line[item.end() :]
            before = LINE + (_number(item[1], line) if item[1] else "")
        return line, before


def _number(number: str, rest: str) -> str:
    """An item's number, followed by a comma so that it does not end a sentence."""
    return number + ("、" if re.match(rf"\W*[{HAN}]", rest) else ", ")


def _block_mark(line: str) -> int:
    """How much of a line's beginning says what kind of block it is."""
    end = 0
    for form in (_QUOTE, _HEADING, _ITEM):
        while (found := form.match(line[end:])) and found.end():
            end += found.end()
            if form is not _QUOTE:
                return end
    return end


def _last_cut(window: str) -> int:
    """After which character everything is settled, 0 if nowhere."""
    stretches = iter(spans(window))
    start, end = next(stretches, (len(window), FOREVER))
    cut = 0
    for mark in _CUT.finditer(window):
        while end <= mark.end():
            following, far = next(stretches, (len(window), FOREVER))
            start, end = following, far
        if mark.end() <= start:
            cut = mark.end()
    return cut


def _forced_cut(window: str) -> int:
    """Where to cut a line that never comes to rest: after its last space, else at its end."""
    return window.rfind(" ", MAX_HELD // 2) + 1 or len(window)
