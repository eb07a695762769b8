"""Marks inside a line: Markdown emphasis, code and links, HTML tags and entities, addresses, model tokens.

Knows nothing of lines and blocks; every pattern is bounded, so that no text takes more than linear time.
"""

from __future__ import annotations

import re

from cosycli.text.chars import BREAK, HEADING, LINE, fold

MAX_BREAK_MS = 10_000  # what SSML engines commonly allow; a slip of the keyboard must not hang the speaker
_STRENGTHS = {"none": 0, "x-weak": 100, "weak": 250, "medium": 500, "strong": 800, "x-strong": 1200}  # ms
FOREVER = 1 << 60  # the end of a stretch whose end has not been seen
_CODE_MARK = "\ue010"  # stands for a code span while the rest of the line is worked on

_TOKEN = re.compile(r"<\|[^<>|\n]{0,80}\|>")
_TOKEN_EDGE = re.compile(r"<\||\|>")
_BREAK_TAG = re.compile(r"<\s{0,4}break\b([^<>]{0,200})/?>", re.I)
_BREAK_TIME = re.compile(
    r"\btime\s*=\s*[\"']?\s*\+?(\d{1,9}(?:\.\d{0,6})?|\.\d{1,6})\s*(ms|s)\s*[\"']?(?:\s|/|$)", re.I
)
_BREAK_STRENGTH = re.compile(r"\bstrength\s*=\s*[\"']?([a-z-]{1,10})", re.I)
_TAG = re.compile(
    r"</?([A-Za-z][\w:-]{0,40})(?:\s{1,9}[\w:@.-]{1,60}\s{0,4}=\s{0,4}(?:\"[^\"<>]{0,500}\"|'[^'<>]{0,500}'|[^\s\"'<>=]{1,200})"
    r"|\s{1,9}(?:hidden|checked|disabled|open|controls|async|defer))*\s{0,9}/?>"
)
_LINE_TAGS = {"br", "li", "tr", "div", "section", "ul", "ol", "table", "dt", "dd", "summary", "details", "option"}
_PARAGRAPH_TAGS = {"p", "hr", "article", "blockquote", "pre"}
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_CODE = re.compile(r"(?<![`\\])(`{1,3})(?!`)([^`\n]{1,1000})(?<!`)\1(?!`)")
_TARGET = r"\(\s{0,4}(?:<[^<>\n]{0,2000}>|[^\s()]{0,2000}(?:\([^\s()]{0,500}\)[^\s()]{0,500}){0,3})" + (
    r"(?:\s{1,4}(?:\"[^\"\n]{0,500}\"|'[^'\n]{0,500}'))?\s{0,4}\)"
)
_IMAGE = re.compile(r"!\[([^\[\]\n]{0,500})\](?:" + _TARGET + r"|\[[^\[\]\n]{0,100}\])")
_LINK = re.compile(r"\[([^\[\]\n]{1,500})\](?:" + _TARGET + r"|\[[^\[\]\n]{0,100}\])")
_FOOTNOTE = re.compile(r"\[\^[^\[\]\s]{1,64}\]|【\d{1,4}†[^【】\n]{0,80}】")
_AUTOLINK = re.compile(r"<((?:[A-Za-z][A-Za-z0-9+.-]{1,20}:|[\w.+-]{1,64}@)[^\s<>]{1,2000})>")
# A path ends at a space, at Chinese text and at marks that are never part of an address.
_PATH = r"(?:[/?#][^\s<>\"“”‘’«»，。！？；：、…—（）【】《》「」\u3400-\u9fff\ue010]{0,2000})?"
_URL = re.compile(
    r"(?<![A-Za-z0-9])(?:[a-z][a-z0-9+.-]{1,12}://|(?=www\.))(?:[^\s/@<>]{1,64}@)?"
    r"((?:[A-Za-z0-9](?:[\w-]{0,62})\.){0,8}[A-Za-z0-9][\w-]{0,62})(:\d{1,5})?" + _PATH,
    re.I,
)
_HOST_PATH = re.compile(
    r"(?<![\w@./-])((?:[a-z0-9](?:[a-z0-9-]{0,62})\.){1,5}(?:com|cn|org|net|io|ai|dev|edu|gov|co|app|me))(/[\w~%?=&#./+-]{0,2000})",
    re.I,
)
_MAILTO = re.compile(r"\bmailto:(?=\S)", re.I)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_RUN = re.compile(r"\*+|_+|~{2,}|={2,}")


def plain(text: str, *, markup: bool = True) -> str:
    """One line or part of a line without its marks; a heading, line or pause mark may take their place."""
    text = fold(text)
    if "<" in text:
        text = _TOKEN.sub("", _BREAK_TAG.sub(_pause, text))
    if not markup:
        return _settle(_tags(text))
    text, codes = _take_codes(text)
    text = emphasis(text)
    if "[" in text:
        text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", _FOOTNOTE.sub("", text)))
    text = _ESCAPE.sub(r"\1", _entities(_settle(_tags(text))))
    waiting = iter(codes)
    return without_tokens(re.sub(_CODE_MARK, lambda _: next(waiting), text) if codes else text)


def _settle(text: str) -> str:
    return without_tokens(addresses(text))


def _take_codes(text: str) -> tuple[str, list[str]]:
    """Code spans are set aside, since nothing inside them is a mark."""
    codes: list[str] = []
    if "`" not in text:
        return text, codes

    def keep(code: re.Match[str]) -> str:
        codes.append(code[2].strip())
        return _CODE_MARK

    return _CODE.sub(keep, text), codes


def _pause(tag: re.Match[str]) -> str:
    """`<break time="500ms"/>` as an in-band pause; one whose time makes no sense is dropped."""
    attributes = tag[1]
    time, strength = _BREAK_TIME.search(attributes), _BREAK_STRENGTH.search(attributes)
    if time:
        milliseconds = round(float(time[1]) * (1 if time[2].lower() == "ms" else 1000))
    elif strength and strength[1].lower() in _STRENGTHS:
        milliseconds = _STRENGTHS[strength[1].lower()]
    elif "=" in attributes:
        return ""
    else:
        milliseconds = _STRENGTHS["medium"]
    return f"{BREAK}{min(milliseconds, MAX_BREAK_MS)}{BREAK}"


def _tags(text: str) -> str:
    return _TAG.sub(_tag, _AUTOLINK.sub(r"\1", text)) if "<" in text else text


def _tag(tag: re.Match[str]) -> str:
    """What an HTML tag leaves behind: the end of a line, a paragraph, a cell, or nothing."""
    name = tag[1].lower()
    if re.fullmatch("h[1-6]", name):
        return HEADING if tag[0].startswith("</") else "\n\n"
    if name in _PARAGRAPH_TAGS:
        return "\n\n"
    if name in ("td", "th"):
        return "，" if tag[0].startswith("</") else ""
    return LINE if name in _LINE_TAGS else ""


def _entities(text: str) -> str:
    if "&" not in text:
        return text
    from html import unescape  # 2 ms, and few texts need it

    return _ENTITY.sub(lambda m: fold(unescape(m[0])).replace("\n", " "), text)


def without_tokens(text: str) -> str:
    """No text may form a model's control token: what unescaping or nesting has put together goes too."""
    if "<|" not in text and "|>" not in text:
        return text
    return _TOKEN_EDGE.sub(" ", _TOKEN.sub("", text))


def addresses(text: str) -> str:
    """Shorten web addresses to what a person would say of them: the host."""
    if "." in text or "://" in text:
        text = _HOST_PATH.sub(_host_path, _URL.sub(_host, text))
    return _MAILTO.sub("", text) if ":" in text else text


def _host(url: re.Match[str]) -> str:
    host, port = url[1], url[2] or ""
    if host.lower().startswith("www."):
        host = host[4:]
    is_number = host.replace(".", "").isdigit()
    return host + (port if is_number or host == "localhost" else "") + _tail(url[0])


def _host_path(url: re.Match[str]) -> str:
    return url[1] + _tail(url[0])


def _tail(url: str) -> str:
    """Marks at the end of an address belong to the sentence around it."""
    bare = url.rstrip(".,;:!?)]}'*_~")
    tail = url[len(bare) :]
    return tail[1:] if tail.startswith(")") and "(" in bare else tail


class _Run:
    """A run of `*`, `_`, `~~` or `==`: where it is, and how many of its characters are marks."""

    def __init__(self, match: re.Match[str]) -> None:
        self.start, self.left, self.size = match.start(), len(match[0]), len(match[0])
        text, end = match.string, match.end()
        before, after = text[self.start - 1 : self.start] or " ", text[end : end + 1] or " "
        self.opens, self.closes = _flanks(match[0], before, after)
        self.stray = self.size > 1 and match[0][0] == "*" and self.opens


def _flanks(run: str, before: str, after: str) -> tuple[bool, bool]:
    """Whether a run can open and close emphasis; arithmetic and identifiers (2*3, a_b) can do neither."""
    inside = before.isalnum() and after.isalnum()
    ascii_inside = inside and (before + after).isascii()
    if before == "\\" or (run[0] in "~=" and len(run) > 2):
        return False, False
    if run[0] == "_" and inside:
        return False, False
    if ascii_inside and (len(run) == 1 or run[0] == "=" or (before + after).isdigit()):
        return False, False
    return not after.isspace(), not before.isspace()


def _match_runs(text: str) -> tuple[list[_Run], list[tuple[int, int]]]:
    """All runs of a text with what is left of each unpaired, and the stretches that pairs enclose."""
    runs = [_Run(match) for match in _RUN.finditer(text)]
    waiting: dict[str, list[_Run]] = {"*": [], "_": [], "~": [], "=": []}
    spans = []
    for run in runs:
        stack = waiting[text[run.start]]
        while run.closes and run.left and stack:
            taken = min(run.left, stack[-1].left)
            run.left -= taken
            stack[-1].left -= taken
            spans.append((stack[-1].start, run.start + run.size))
            if not stack[-1].left:
                stack.pop()
        if run.opens and run.left:
            stack.append(run)
    return runs, spans + [(run.start, FOREVER) for stack in waiting.values() for run in stack]


def emphasis(text: str) -> str:
    """Remove paired emphasis marks, and stray `**` that never found their partner."""
    if not _RUN.search(text):
        return text
    runs, _ = _match_runs(text)
    pieces, end = [], 0
    for run in runs:
        kept = 0 if run.stray else run.left
        pieces.append(text[end : run.start] + text[run.start] * kept)
        end = run.start + run.size
    return "".join(pieces) + text[end:]


_CLOSED = (
    re.compile(r"<!--.*?(?:-->|$)|<(?:script|style)\b.*?(?:</(?:script|style)>|$)", re.I),
    re.compile(r"<[A-Za-z/!|][^<>]{0,600}(?:>|$)"),
    re.compile(r"&[#\w]{0,32}(?:;|$)"),
    re.compile(r"!?\[[^\[\]\n]{0,500}\](?:\([^()\n]{0,2000}(?:\)|$)|$)?"),
)


def spans(text: str) -> list[tuple[int, int]]:
    """Stretches that must not be cut, in order; one that the end of the text leaves open ends at FOREVER."""
    found = _match_runs(text)[1]
    for pattern in _CLOSED:
        found.extend((m.start(), FOREVER if m.end() == len(text) else m.end()) for m in pattern.finditer(text))
    ticks = [tick.span() for tick in re.finditer(r"`+", text)]
    found.extend((start[0], end[1]) for start, end in zip(ticks[::2], [*ticks[1::2], (0, FOREVER)], strict=False))
    bracket = text.rfind("[")
    if bracket > text.rfind("]"):
        found.append((bracket, FOREVER))
    return sorted(found)
