"""Text that arrives in pieces becomes sentences, each as soon as it is complete; long ones are cut.

Owns where a sentence ends, how long the silence after it is, and what is too long to be said in one go.
Knows neither Markdown nor how a number is read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cosycli.text.chars import BREAK, HAN, HEADING, LINE, MARKS
from cosycli.text.clean import Cleaner
from cosycli.text.cut import cost, split
from cosycli.text.normalize import Language, decide, speakable
from cosycli.text.normalize import normalize as _normalize
from cosycli.types import More, Sentence

# Silence in seconds. News readers pause 0.25 to 0.4 s between sentences and about twice that between
# paragraphs; a heading stands a little more apart than a paragraph. A comma is 0.1 to 0.2 s.
SENTENCE_PAUSE = 0.3
PARAGRAPH_PAUSE = 0.6
HEADING_PAUSE = 0.7
CLAUSE_PAUSE = 0.15
MAX_PAUSE = 10.0  # however many pauses are asked for in a row

MAX_COST = 350.0  # phonemes a sentence may have before it is cut: 70 Chinese characters
PART_COST = 300.0  # what it is cut to: 60 Chinese characters, or 55 English words
SHORT_COST = 100.0  # 20 Chinese characters: less is not said alone by a model that joins sentences
HARD_COST = 400.0  # no segment has more; the embedded voice's limit is 510 symbols with marks
MAX_HELD = 1200  # characters without a sentence end that are waited for
MAX_WAIT = 0.15  # seconds for which the rest of a sentence is awaited before its beginning is spoken without it
_LULL = 0.05  # seconds without any text, likewise
_BLOCK = 2048  # characters taken from a piece at a time, so that the first sentence of a book is not late

# A first clause is said alone from four characters on, if at least twelve follow in its sentence: below
# that the whole sentence is as quick.
_FIRST_MIN, _FIRST_REST = 20.0, 60.0
_WIDE_LINE = 150.0  # a Chinese line of 30 characters and more is wrapped text, a shorter one is verse
_SHORT_LINE = 40  # characters; the same for Latin text before a capital

Kind = Literal["text", "heading", "pause"]

_NOT_FIRST = " ，。！？…、；：,.!?;:)）”’》〉」』】]}"  # marks that end something have no place at a beginning
_CLOSERS = "”’\"'）)】》」』〉〕]}"
_EVENT = re.compile(f"{BREAK}[0-9]*{BREAK}?|[{HEADING}{LINE}]|\n[\n ]*|[。！？!?.…]+")
_CLOSING = re.compile(f"[{re.escape(_CLOSERS)}]*")
_GAP = re.compile(f"(?:[ \n{HEADING}{LINE}]|{BREAK}[0-9]*{BREAK})+")
_PAUSE = re.compile(f"{BREAK}([0-9]*){BREAK}")
_CJK = re.compile(f"[{HAN}\u3040-\u30ff\uac00-\ud7af]")
_WIDE = re.compile(f"[{HAN}\u3000-\u30ff\uff00-\uff65“”‘’…—]")
_FIRST_MARK = re.compile(r"(?:[，；：]|——|[,;:](?= ))[”’」』]*")
_LAST_TOKEN = re.compile(r"[\w.&'-]{1,24}$")
_NUMERAL = re.compile(r"[(\[]?\d{1,3}$")
# Never the end of a sentence; and the end of one only before a capital.
_NEVER_LIST = (
    "mr mrs ms dr prof st vs no nos fig figs eq sec vol ch pp ed eds gen sen rep gov capt lt col sgt cmdr rev hon mt ft"
    " e.g i.e eg ie cf viz approx"
    " ca al dept est jan feb mar apr jun jul aug sep sept oct nov dec mme mlle sr. resp"
)
_NEVER_LAST = frozenset(_NEVER_LIST.split())
_SOMETIMES_LAST = frozenset(
    ("etc", "inc", "ltd", "co", "corp", "jr", "sr", "a.m", "p.m", "u.s", "u.k", "u.n", "ph.d", "b.c", "a.d", "d.c")
)
_ZONE = re.compile(r"(?:E[SD]?T|P[SD]?T|C[SD]?T|M[SD]?T|GMT|UTC|BST|CET|Eastern|Pacific|Central)\b")
_INITIAL = re.compile(r"(?:^|[^\w.])(?:[A-Z]\.)*[A-HJ-Z]$")


@dataclass(frozen=True)
class Piece:
    """A sentence or a part of one as written, with the silence after it; a "pause" has no text."""

    text: str
    pause: float
    group: int
    kind: Kind = "text"


class Segmenter:
    """Cuts cleaned text into sentences; a sentence comes out of the `feed` that completes it."""

    def __init__(self, *, first_clause: bool = True) -> None:
        self._buffer = ""
        self._first_clause = first_clause
        self._begun = False  # a piece has come out
        self._group = 0
        self._given = 0.0  # silence that the last piece brought with it
        self._asked = 0.0  # silence that the text has asked for since: the longest of its kinds,
        self._breaks = 0.0  # but tags one after the other add up
        self._lines = 0

    def feed(self, text: str) -> list[Piece]:
        """Take cleaned text; return the pieces it completes."""
        pieces: list[Piece] = []
        for start in range(0, len(text), _BLOCK):
            self._buffer += text[start : start + _BLOCK]
            pieces.extend(self._take_all(final=False))
        return pieces

    def finish(self) -> list[Piece]:
        """Return what was held back."""
        return [*self._take_all(final=True), *(self._silence() if self._breaks else ())]

    def hold(self, text: str) -> None:
        """Take cleaned text that belongs to a sentence which was begun, or comes after it."""
        self._buffer += text

    def begin(self) -> list[Piece]:
        """Take the clauses that are there of an incomplete sentence, as the last piece; `go_on` takes the rest."""
        self._skip_gap()
        end = self._clauses()
        if not end or cost(self._buffer[:end]) < _FIRST_MIN:
            return []
        return list(self._take(end, SENTENCE_PAUSE, whole=False))

    def go_on(self, said: float, *, final: bool) -> tuple[str, bool]:
        """More of the sentence that was begun, and whether this is its end. `said`: what it has cost so far."""
        self._skip_gap()
        end, pause = self._sentence_end(final=final)
        if not end and final:
            end, pause = len(self._buffer), SENTENCE_PAUSE
        over = bool(end) or final
        end = end or self._clauses()
        if said and said + cost(self._buffer[:end]) > PART_COST:  # what follows is a sentence of its own
            return "", True
        text, self._buffer = _joined(self._buffer[:end]), self._buffer[end:]
        if over:
            self._group += 1
            self._asked, self._breaks, self._lines = pause, 0.0, 0
        return text, over

    def _clauses(self) -> int:
        """Where the last complete clause ends of what may still be one sentence; 0 if there is none."""
        event = _EVENT.search(self._buffer)
        marks = list(_FIRST_MARK.finditer(self._buffer, 0, event.start() if event else len(self._buffer)))
        return marks[-1].end() if marks else 0

    def take(self) -> list[Piece]:
        """Return the pieces that are complete."""
        return list(self._take_all(final=False))

    def _take_all(self, *, final: bool) -> Iterator[Piece]:
        while True:
            self._skip_gap()
            end, pause = self._sentence_end(final=final)
            clause = self._early_clause(end or len(self._buffer))
            if clause:
                yield from self._take(clause, CLAUSE_PAUSE, whole=False)
            elif 0 < end <= MAX_HELD:
                yield from self._take(end, pause)
            elif len(self._buffer) > MAX_HELD:
                part = split(self._buffer[:MAX_HELD], PART_COST)[0]
                yield from self._take(len(part), _cut_pause(part), whole=False)
            elif final and self._buffer:
                yield from self._take(len(self._buffer), SENTENCE_PAUSE)
            else:
                return

    def _take(self, end: int, pause: float, *, whole: bool = True) -> Iterator[Piece]:
        """The buffer up to `end` as a piece with the silence after it, preceded by silence that is still owed."""
        text, self._buffer = _joined(self._buffer[:end]), self._buffer[end:]
        group = self._group
        self._group += whole
        if not speakable(text):
            return
        yield from self._silence()
        self._begun = True
        self._asked, self._breaks, self._lines = pause, 0.0, 0
        kind = self._skip_gap()
        self._given = self._wanted()
        yield Piece(text, self._given, group, kind)

    def _wanted(self) -> float:
        return min(max(self._asked if self._begun else 0.0, self._breaks), MAX_PAUSE)

    def _silence(self) -> Iterator[Piece]:
        """The silence that the text asked for after the last piece had gone."""
        owed = round(self._wanted() - self._given, 3)
        if owed > 0:
            self._given += owed
            yield Piece("", owed, self._group, "pause")

    def _skip_gap(self) -> Kind:
        """Take spaces, line ends and marks off the beginning of the buffer; note the silence they ask for."""
        found = _GAP.match(self._buffer)
        if not found:
            return "text"
        gap, self._buffer = found[0], self._buffer[found.end() :]
        self._breaks += sum(int(mark[1] or 0) for mark in _PAUSE.finditer(gap)) / 1000
        self._lines += gap.count("\n")
        if self._lines > 1:
            self._asked = max(self._asked, PARAGRAPH_PAUSE)
        if HEADING not in gap:
            return "text"
        self._asked = max(self._asked, HEADING_PAUSE)
        return "heading"

    def _early_clause(self, limit: int) -> int:
        """The end of a first clause that may be said alone, so that sound comes sooner; 0 if there is none."""
        if self._begun or not self._first_clause:
            return 0
        for mark in _FIRST_MARK.finditer(self._buffer, 0, min(limit, MAX_HELD)):
            before = cost(self._buffer[: mark.start()])
            if before > PART_COST:
                return 0
            if before >= _FIRST_MIN and cost(self._buffer[mark.end() : min(limit, mark.end() + 200)]) >= _FIRST_REST:
                return mark.end()
        return 0

    def _sentence_end(self, *, final: bool) -> tuple[int, float]:
        """Where the first complete sentence of the buffer ends and the silence after it; 0 if none is complete."""
        for event in _EVENT.finditer(self._buffer):
            end = self._event_end(event, final=final)
            if end is None:
                return 0, 0.0
            if end:
                return end, 0.0 if event[0][0] == BREAK else SENTENCE_PAUSE
        return 0, 0.0

    def _event_end(self, event: re.Match[str], *, final: bool) -> int | None:
        """Where the sentence ends if this mark ends it, 0 if it does not, None if only what follows will tell."""
        if event[0][0] in (HEADING, LINE, BREAK):
            return event.start()
        if event[0][0] == "\n":
            return self._line_end(event, final=final)
        return self._mark_end(event, final=final)

    def _line_end(self, event: re.Match[str], *, final: bool) -> int | None:
        """A line end: of a sentence, of a paragraph, or only of a line."""
        if event[0].count("\n") > 1 or final:
            return event.start()
        before = self._buffer[: event.start()].rstrip()
        line = before[before.rfind("\n") + 1 :]
        following = self._buffer[event.end() : event.end() + 1]
        verdict = _line_breaks(line, following)
        return None if verdict is None else event.start() if verdict else 0

    def _mark_end(self, event: re.Match[str], *, final: bool) -> int | None:
        """A full stop, question or exclamation mark, or dots, with the quotes and brackets it closes."""
        buffer, mark = self._buffer, event[0]
        closing = _CLOSING.match(buffer, event.end())
        end = closing.end() if closing else event.end()
        if re.search("[。！？]", mark):
            return end
        if end == len(buffer):
            at_once = final or (mark[-1] in "!?" and bool(_CJK.search(buffer[event.start() - 1 : event.start()])))
            return end if at_once else None
        if buffer[end] in "\n" + HEADING + LINE + BREAK:
            return 0 if "…" in mark or _is_abbreviation(buffer[: event.start()], mark, "\n") else end
        following = buffer[end : end + 16].lstrip(" ")
        if buffer[end] == " " and not following:
            return end if final else None
        return end if _ends(buffer[: event.start()], mark, buffer[event.end() : end], buffer[end], following) else 0


def _ends(before: str, mark: str, closers: str, at: str, following: str) -> bool:
    """Whether an ASCII mark ends the sentence, given what stands around it."""
    if "…" in mark:
        return at == " " and following[:1].isupper()
    if at != " ":
        return bool(_WIDE.match(at)) and not (mark == "." and before[-1:].isdigit())
    if mark[0] in "!?":
        return not (closers and following[:1].islower())
    return not following[:1].islower() and not _is_abbreviation(before, mark, following)


def _is_abbreviation(before: str, mark: str, following: str) -> bool:
    """Whether the full stop belongs to the word before it: Mr., e.g., J. R. R., or a list's number."""
    if mark != ".":
        return False
    if _NUMERAL.fullmatch(before.strip()):
        return True
    token = _LAST_TOKEN.search(before)
    word = token[0].lower().strip("&'-") if token else ""
    if word in _NEVER_LAST:
        return True
    if word in _SOMETIMES_LAST:
        begins = following[:1].isupper() or following in "\n" or bool(_WIDE.match(following))
        return not begins or bool(_ZONE.match(following))
    return bool(_INITIAL.search(before[-12:])) and following != "\n"


def _line_breaks(line: str, following: str) -> bool | None:
    """Whether a sentence ends with this line; None if the next character must be known."""
    last = line[-1:]
    if last in ":：":
        return True
    if last in ",，、;；—-(（":
        return False
    if _CJK.search(line):
        if last not in "”’」』）)" and cost(line) >= _WIDE_LINE:
            return None if not following else not (_CJK.match(following) or following.isalnum())
        return True
    if not following:
        return None
    if _CJK.match(following):
        return True
    return len(line) < _SHORT_LINE and not following.islower()


def _joined(text: str) -> str:
    """A sentence that ran over several lines, on one."""
    text = MARKS.sub(" ", text)
    text = re.sub(rf"(?<={_WIDE.pattern}) ?\n[\n ]*|\n[\n ]*(?={_WIDE.pattern})", "", text)
    return re.sub(r"[\n ]+", " ", text).strip()


def _cut_pause(part: str) -> float:
    """The silence where a sentence was cut: at a mark one is heard anyway, elsewhere there must be none."""
    return CLAUSE_PAUSE if re.search(r"[，；：、…—,;:][”’\"'）)】》」』]*\s*$", part) else 0.0


def segments(
    pieces: str | Iterable[str],
    *,
    normalize: bool = True,
    markup: bool = True,
    first_clause: bool = True,
    language: Language | None = None,
    official: bool = False,
) -> Iterator[Sentence]:
    """All of the text's way from what was written to what is said, one sentence at a time, as it arrives.

    A `Sentence` without text is silence. Nothing is pulled from `pieces` before the sentences that are
    complete have been taken. `official`: for CosyVoice, which streams sentences of any length. Short ones are joined as
    it joins them; and where `pieces` can tell that nothing is there (`ready(seconds)`), one is given as soon as it has
    a clause, with `more` to come: what is not taken of that is given as other sentences.
    """
    cleaner, segmenter = Cleaner(markup=markup), Segmenter(first_clause=first_clause and not official)
    reader = _Reader(normalize, language, HARD_COST if official else MAX_COST)
    blocks = _Blocks(pieces)
    joiner = _Joiner() if official else None

    def read(pieces: Iterable[Piece]) -> Iterator[Sentence]:
        for piece in pieces:
            blocks.waited = 0.0
            for sentence in reader.sentences(piece):
                yield from joiner.add(sentence) if joiner else (sentence,)

    for block in blocks:
        yield from read(segmenter.feed(cleaner.feed(block)))
        if joiner and blocks.unknown:
            yield from joiner.flush()
        while joiner and not blocks.soon():
            yield from joiner.flush()
            if not (begun := segmenter.begin()):
                break
            yield from _begun(begun, segmenter, reader, cleaner, blocks)
            yield from read(segmenter.take())
    yield from read([*segmenter.feed(cleaner.finish()), *segmenter.finish()])
    yield from joiner.flush() if joiner else ()


class _Joiner:
    """Joins sentences of a paragraph as CosyVoice's `split_paragraph` does, which counts characters where this counts
    phonemes, five for each: a new segment begins at over 80 if there are 60 already, and the last has no fewer than 20.
    How long the first is makes no difference to when it is heard: 13 speech tokens after its text has been read.
    """

    def __init__(self) -> None:
        self._held: list[Sentence] = []  # complete, but for a short one that may follow; and what is being joined

    def add(self, sentence: Sentence) -> Iterator[Sentence]:
        """Take a sentence; yield those to which nothing can be joined any more."""
        if not sentence.text or (self._held and self._held[-1].pause > SENTENCE_PAUSE):
            yield from self.flush()
        if not sentence.text:
            yield sentence
        elif self._held and not self._is_full(sentence):
            self._held[-1] = _together(self._held[-1], sentence)
        else:
            self._held.append(sentence)
            if len(self._held) > 2:
                yield self._held.pop(0)

    def flush(self) -> Iterator[Sentence]:
        """Yield what is held."""
        held, self._held = self._held, []
        if len(held) > 1 and cost(held[-1].text) < SHORT_COST:
            held[-2:] = [_together(*held[-2:])]
        yield from held

    def _is_full(self, sentence: Sentence) -> bool:
        length = cost(self._held[-1].text)
        return length > PART_COST and length + cost(sentence.text) > HARD_COST


def _together(first: Sentence, second: Sentence) -> Sentence:
    gap = _gap(first.source)
    text, source = first.text + gap + second.text, first.source + gap + second.source
    return replace(first, text=text, source=source, pause=second.pause)


def _gap(before: str) -> str:
    """What stands between two parts of a text."""
    return " " if before[-1:].isascii() else ""


def _begun(
    pieces: Sequence[Piece], segmenter: Segmenter, reader: _Reader, cleaner: Cleaner, blocks: _Blocks
) -> Iterator[Sentence]:
    """A sentence whose end has not arrived, after the silence before it."""

    def rest(written: str, said: str) -> Iterator[tuple[str, str]]:
        over = final = False
        while not over:
            source, over = segmenter.go_on(cost(written), final=final)
            if source:
                gap = _gap(written)
                written += gap + source
                whole = reader.said(written)  # how a number is read depends on what stands before it
                text = whole.removeprefix(said) if whole.startswith(said) else gap + reader.said(source)
                said += text
                yield text, gap + source
            elif not over:
                block = next(blocks, None)
                final = block is None
                segmenter.hold(cleaner.finish() if block is None else cleaner.feed(block))

    for piece in pieces[:-1]:
        yield from reader.sentences(piece)
    (first, *others) = reader.sentences(pieces[-1])
    yield first if others else replace(first, more=More(rest(pieces[-1].text, first.text)))
    yield from others


class _Blocks(Iterator[str]):
    """Text in blocks as they arrive, and whether more is there."""

    def __init__(self, pieces: str | Iterable[str]) -> None:
        self._source = (pieces,) if isinstance(pieces, str) else pieces
        self._pieces = iter(self._source)
        self._held: list[str] = []
        self.waited = 0.0  # seconds, for the sentence that is incomplete

    def __next__(self) -> str:
        while not self._held:
            piece = next(self._pieces)
            self._held = [piece[start : start + _BLOCK] for start in range(0, len(piece), _BLOCK)][::-1]
        return self._held.pop()

    @property
    def unknown(self) -> bool:
        """Whether nothing tells how long the next text takes: a complete sentence should not wait for it."""
        return not (self._held or isinstance(self._source, str | list | tuple) or hasattr(self._source, "ready"))

    def soon(self) -> bool:
        """Whether more text is there, or its end, or is worth waiting for."""
        ready = getattr(self._source, "ready", None)
        if self._held or not ready or ready(0.0):
            return True
        if self.waited >= MAX_WAIT:
            return False
        started = time.monotonic()
        came: bool = ready(_LULL)
        self.waited += time.monotonic() - started
        return came


class _Reader:
    """Turns pieces into sentences; remembers the language, for lines that have none of their own."""

    def __init__(self, normalize: bool, language: Language | None, longest: float = MAX_COST) -> None:
        self._longest = longest
        self._normalize = normalize
        self._fixed = language
        self._language: Language = language or "zh"

    def sentences(self, piece: Piece) -> Iterator[Sentence]:
        """The piece as it is said, in parts if it is too long."""
        if not piece.text:
            yield Sentence("", "", pause=piece.pause, group=piece.group)
            return
        self._language = self._fixed or decide(piece.text, self._language)
        parts = [part for part in self._fitting(piece.text, self._longest) if speakable(part[0])]
        for index, (text, source) in enumerate(parts):
            pause = piece.pause if index == len(parts) - 1 else _cut_pause(source)
            yield Sentence(text, source.strip(), pause=pause, group=piece.group)

    def _fitting(self, source: str, budget: float) -> Iterator[tuple[str, str]]:
        """The source with its reading, cut until every reading is short enough."""
        text = self.said(source)
        length = cost(text)
        if length <= budget or len(source) < 2:
            yield text, source
            return
        written = cost(source)
        parts = split(source, min(PART_COST * min(1.0, written / length), written * 0.7))
        for part in parts:
            yield from self._fitting(part, HARD_COST)

    def said(self, source: str) -> str:
        """How it is read, in the language of the piece that came last."""
        text = _normalize(source, language=self._language) if self._normalize else source
        return text.lstrip(_NOT_FIRST)
