"""Subtitles beside the audio: SRT, WebVTT or LRC, in the user's own words, timed by the words as spoken.

A sink like any other: it sees the chunks pass by and writes its file when all is done. Knows nothing of samples.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from types import TracebackType

from cosycli.audio.atomic import write_atomically
from cosycli.audio.formats import check_place, unwritable
from cosycli.errors import UsageError
from cosycli.types import Chunk, Sentence, TimedWord

LINE = 42  # columns: 42 Latin letters, 21 Chinese characters
LINES = 2
CLAUSE_ENDS = "。！？!?；;，,、：:…"
CLOSING = "。！？!?；;，,、：:….”’」』）)]】》〉%％"  # never begin a line
OPENING = "“‘「『（([【《〈"  # never end one
COMPARED = 400_000  # pairs of letters to find what source and speech have in common in; beyond, it takes seconds
TOKEN = re.compile(
    r"[^\W\u3400-\u9fff\u3040-\u30ff]+(?:['’.\-@/_:,][^\W\u3400-\u9fff\u3040-\u30ff]+)*|\s+|.", re.DOTALL
)


@dataclass(frozen=True)
class Cue:
    """One or two lines and when they show."""

    start: float
    end: float
    lines: tuple[str, ...]


@dataclass
class Piece:
    """What was synthesised in one go, and when."""

    sentence: Sentence
    start: float
    end: float
    words: list[TimedWord] = field(default_factory=list)


@dataclass
class Passage:
    """One source sentence: the pieces it was cut into."""

    group: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def end(self) -> float:
        """When its last piece is over."""
        return self.pieces[-1].end

    def timed_text(self) -> tuple[str, list[float]]:
        """The text as the user wrote it, and when each character of it begins to sound."""
        text, times = "", []
        for source, piece in self._sources():
            part = " ".join(source.split())
            joined = _join([text, part]) if part else text
            begins = _character_times(part, piece)
            times += [piece.start] * (len(joined) - len(text) - len(part)) + begins
            text = joined
        return text, times

    def _sources(self) -> list[tuple[str, Piece]]:
        """Pieces carry either their own part of the source or all of it."""
        sources = [piece.sentence.whole().source for piece in self.pieces]
        texts = {piece.sentence.text for piece in self.pieces}
        if len(sources) == 1 or len(set(sources)) > 1 or len(texts) < len(sources):
            return list(zip(sources, self.pieces, strict=True))
        first, words = self.pieces[0], [word for piece in self.pieces for word in piece.words]
        return [(sources[0], Piece(first.sentence, first.start, self.end, words))]


class SubtitleCollector:
    """Gathers passages from the chunks that pass by."""

    def __init__(self) -> None:
        self.passages: list[Passage] = []
        self._new_piece = True

    def add(self, chunk: Chunk) -> None:
        """Look at a chunk."""
        if chunk.sentence is None:
            return
        end = chunk.start + chunk.seconds
        if not self.passages or self.passages[-1].group != chunk.sentence.group:
            self.passages.append(Passage(chunk.sentence.group))
            self._new_piece = True
        pieces = self.passages[-1].pieces
        if self._new_piece or pieces[-1].sentence != chunk.sentence:
            pieces.append(Piece(chunk.sentence, chunk.start, end))
        pieces[-1].words.extend(word for word in chunk.words if word.text.strip())
        pieces[-1].end = end
        self._new_piece = chunk.last

    def cues(self, lines: int = LINES) -> list[Cue]:
        """All cues in order, none overlapping the next."""
        return _apart([cue for passage in self.passages for cue in passage_cues(passage, lines)])


class SubtitleSink(SubtitleCollector):
    """Writes the subtitles of what passed when the `with` block ends well."""

    def __init__(self, path: Path | str) -> None:
        super().__init__()
        self.path = Path(path)
        self._render = FORMATS[subtitle_format(path)]

    def __enter__(self) -> SubtitleSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        try:
            write_atomically(self.path, self._render(self).encode())
        except OSError as failure:
            raise unwritable(self.path, failure) from failure

    def write(self, chunk: Chunk) -> None:
        """Look at a chunk."""
        self.add(chunk)


def subtitle_format(path: Path | str) -> str:
    """srt, vtt or lrc by extension."""
    name = Path(path).suffix.lower().lstrip(".")
    if name not in FORMATS:
        raise UsageError(f"{path}: unknown subtitle format", "end the name in .srt, .vtt or .lrc")
    return name


def check_subtitles(path: Path | str, *, overwrite: bool = True) -> str:
    """Refuse early a subtitle file that could not be written; return its format."""
    name = subtitle_format(path)
    check_place(path, overwrite=overwrite)
    return name


def passage_cues(passage: Passage, lines: int = LINES) -> Iterator[Cue]:
    """A passage's cues: readable pieces of its text, each from its first character's time to the next one's."""
    text, times = passage.timed_text()
    spans = list(_split(text, lines * LINE, lines))
    for index, (begin, end) in enumerate(spans):
        stop = times[spans[index + 1][0]] if index + 1 < len(spans) else passage.end
        shown = text[begin:end].strip()
        if shown:
            yield Cue(times[begin], max(stop, times[begin]), tuple(_wrap(shown, lines)))


def srt(subtitles: SubtitleCollector) -> str:
    """SubRip."""
    blocks = (
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{_srt_text(cue)}\n"
        for number, cue in enumerate(subtitles.cues(), 1)
    )
    return "\n".join(blocks)


def vtt(subtitles: SubtitleCollector) -> str:
    """WebVTT."""
    blocks = (f"\n{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{_vtt_text(cue)}\n" for cue in subtitles.cues())
    return "WEBVTT\n" + "".join(blocks)


def lrc(subtitles: SubtitleCollector) -> str:
    """Lyrics: a start time a line; an empty line ends one before a pause."""
    cues, out = subtitles.cues(lines=1), []
    for index, cue in enumerate(cues):
        out.append(f"[{_lrc_clock(cue.start)}]{_lrc_text(cue)}\n")
        if index + 1 == len(cues) or cues[index + 1].start - cue.end > 1.0:
            out.append(f"[{_lrc_clock(cue.end)}]\n")
    return "".join(out)


FORMATS: dict[str, Callable[[SubtitleCollector], str]] = {"srt": srt, "vtt": vtt, "lrc": lrc}


def _join(parts: list[str]) -> str:
    """Pieces in a row, with a space between those that would otherwise run Latin words together."""
    text = ""
    for part in parts:
        if text and part and not text[-1].isspace() and text[-1].isascii() and part[0].isascii():
            text += " "
        text += part
    return text


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _tokens(text: str) -> list[int]:
    """Where lines may break: the beginnings of words and characters, closing marks kept with what they close."""
    breaks: list[int] = []
    for match in TOKEN.finditer(text):
        begin = match.start()
        sticks = text[begin] in CLOSING or text[begin].isspace() or (begin and text[begin - 1] in OPENING)
        if begin and not sticks:
            breaks.append(begin)
    return [*breaks, len(text)]


def _split(text: str, room: int, lines: int) -> Iterator[tuple[int, int]]:
    """Spans that fit a cue, ended at a clause where there is one in their second half."""
    breaks, begin = _tokens(text), 0
    while begin < len(text):
        end = len(text)
        if len(text) - begin > room or not _fits(text[begin:], lines):
            end = _best_end(text, begin, breaks, room, lines)
        yield begin, end
        begin = end


def _fits(text: str, lines: int) -> bool:
    return len(_greedy_lines(text.strip())) <= lines


def _best_end(text: str, begin: int, breaks: list[int], room: int, lines: int) -> int:
    ends = []
    for end in breaks[bisect_right(breaks, begin) :]:
        if not _fits(text[begin:end], lines):
            break
        ends.append(end)
    if not ends:  # one word longer than a cue
        return min(len(text), begin + room)
    clauses = [end for end in ends if text[:end].rstrip()[-1] in CLAUSE_ENDS]
    if clauses and _columns(text[begin : clauses[-1]]) * 2 >= room // lines:
        return clauses[-1]
    return ends[-1]


def _wrap(text: str, lines: int) -> list[str]:
    """A cue's lines, of about equal length."""
    greedy = _greedy_lines(text)
    if len(greedy) != 2 or lines < 2:
        return greedy
    pairs = [(text[:at].rstrip(), text[at:].lstrip()) for at in _tokens(text)[:-1]]
    fitting = [pair for pair in pairs if max(map(_columns, pair)) <= LINE]
    best = min(fitting, key=_raggedness, default=(greedy[0], greedy[1]))
    return list(best)


def _raggedness(pair: tuple[str, str]) -> int:
    clause = 12 if pair[0][-1] in CLAUSE_ENDS else 0  # a break at a comma is worth 12 columns
    return abs(_columns(pair[0]) - _columns(pair[1])) - clause


def _greedy_lines(text: str) -> list[str]:
    lines, begin, fit = [], 0, 0
    for at in _tokens(text):
        if _columns(text[begin:at].rstrip()) > LINE and fit > begin:
            lines.append(text[begin:fit].strip())
            begin = fit
        fit = at
    lines.append(text[begin:].strip())
    return [part for line in lines for part in _chopped(line)]


def _chopped(line: str) -> Iterator[str]:
    """A line, cut by force only where one word is longer than it may be."""
    while _columns(line) > LINE:
        cut = next(count for count in range(len(line), 0, -1) if _columns(line[:count]) <= LINE)
        yield line[:cut]
        line = line[cut:]
    if line:
        yield line


def _character_times(text: str, piece: Piece) -> list[float]:
    """When each character of the text begins to sound.

    The words are those of the normalised text ("三百" for "300"). What both have in common is found and takes its
    words' times; what lies between is spread evenly.
    """
    if not text:
        return []
    letters = [(at, letter.casefold()) for at, letter in enumerate(text) if letter.isalnum()]
    spoken = _spoken(piece.words)
    points = [(0, piece.words[0].start if piece.words else piece.start)]
    if 0 < len(letters) * len(spoken) <= COMPARED:
        first, second = [[letter for _, letter in pairs] for pairs in (letters, spoken)]
        for at, other, size in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
            points.extend((letters[at + step][0], spoken[other + step][0]) for step in range(size))
    points.append((len(text), piece.words[-1].end if piece.words else piece.end))
    return _interpolate(_rising(points), len(text))


def _spoken(words: list[TimedWord]) -> list[tuple[float, str]]:
    """The letters of the words, each with the time it begins."""
    return [
        (word.start + (word.end - word.start) * index / len(word.text), letter.casefold())
        for word in words
        for index, letter in enumerate(word.text)
        if letter.isalnum()
    ]


def _rising(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Drop what goes back in place or time."""
    kept = points[:1]
    for at, time in points[1:]:
        if at > kept[-1][0] and time >= kept[-1][1]:
            kept.append((at, time))
    return kept


def _interpolate(points: list[tuple[int, float]], count: int) -> list[float]:
    places = [at for at, _ in points]
    times = []
    for index in range(count):
        left = bisect_right(places, index) - 1
        at, time = points[left]
        if left + 1 < len(points):
            next_at, next_time = points[left + 1]
            time += (next_time - time) * (index - at) / (next_at - at)
        times.append(time)
    return times


def _apart(cues: list[Cue]) -> list[Cue]:
    """End each cue before the next begins, in whole milliseconds, and drop none."""
    apart: list[Cue] = []
    floor = 0.0
    for index, cue in enumerate(cues):
        start = max(round(cue.start, 3), floor)
        end = max(round(cue.end, 3), start + 0.001)
        if index + 1 < len(cues):
            end = max(min(end, round(cues[index + 1].start, 3)), start + 0.001)
        apart.append(Cue(start, end, cue.lines))
        floor = end
    return apart


def _clock(seconds: float, point: str) -> str:
    whole, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{milliseconds:03}"


def _lrc_clock(seconds: float) -> str:
    whole, hundredths = divmod(round(seconds * 100), 100)
    return f"{whole // 60:02}:{whole % 60:02}.{hundredths:02}"


def _srt_text(cue: Cue) -> str:
    """SRT knows no escape: an invisible space keeps "<b" and "{\\an8" from being taken for markup."""
    return re.sub(r"([<{])(?=[A-Za-z/\\])", "\\1\u200b", "\n".join(cue.lines)).replace("-->", "→")


def _vtt_text(cue: Cue) -> str:
    return "\n".join(cue.lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _lrc_text(cue: Cue) -> str:
    text = _join(list(cue.lines))
    return f"\u200b{text}" if text.startswith("[") else text  # or it reads as one more time
