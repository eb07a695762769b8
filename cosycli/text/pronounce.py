"""From a sentence to its words and how each is said: Chinese, English, digits, symbols and marks, mixed.

Finds what each stretch of a sentence is and asks `chinese`, `english` or `foreign`; what nobody can
say keeps its place as a word without sounds. Knows no voice.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from cosycli.text import foreign
from cosycli.text.lexicon import Entry, Lexicon
from cosycli.types import Word

_HANZI = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af〇々"
_LATIN = "A-Za-zÀ-ÖØ-öø-ɏ\u1e00-\u1eff"
_PIECE = re.compile(
    f"(?P<zh>[{_HANZI}]+)"
    r"|(?P<dotted>(?<![A-Za-z])(?:(?:[A-Za-z]\.)+[A-Za-z](?:\.(?=\s+[a-z]))?(?![A-Za-z])|(?:Dr|Mrs?|Ms|Prof|vs)\.(?=\s)))"
    f"|(?P<en>[{_LATIN}\u0300-\u036f]+(?:['’ʼ-][{_LATIN}]+)*)"
    r"|(?P<digits>\d+(?:\.\d+)*)"
    rf"|(?P<foreign>{foreign.KANA_OR_HANGUL.pattern})"
    r"|(?P<greek>[\u0370-\u03ff])"
    rf"|(?P<letters>(?:(?![{_HANZI}{_LATIN}\u0370-\u03ff\u3041-\u30ff\uac00-\ud7a3])[^\W\d_])+)"
    r"|(?P<space>\s+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
# What a symbol is called where normalisation has left it, in Chinese and in English.
_SYMBOLS = {
    "+": ("加", "plus"), "×": ("乘", "times"), "÷": ("除以", "divided by"), "=": ("等于", "equals"),
    "%": ("百分号", "percent"),
    "‰": ("千分号", "per mille"), "&": ("和", "and"), "@": ("艾特", "at"), "#": ("井号", "hash"),
    "<": ("小于", "less than"),
    ">": ("大于", "greater than"), "≤": ("小于等于", "at most"), "≥": ("大于等于", "at least"),
    "≠": ("不等于", "is not"),
    "≈": ("约等于", "about"), "±": ("正负", "plus minus"), "°": ("度", "degrees"), "℃": ("摄氏度", "degrees Celsius"),
    "℉": ("华氏度", "degrees Fahrenheit"), "$": ("美元", "dollars"), "€": ("欧元", "euros"), "£": ("英镑", "pounds"),
    "¥": ("元", "yuan"), "√": ("根号", "root of"), "∞": ("无穷", "infinity"), "→": ("到", "to"), "№": ("号", "number"),
    "²": ("平方", "squared"), "³": ("立方", "cubed"), "½": ("二分之一", "one half"), "©": ("版权", "copyright"),
}  # fmt: skip
_DIGITS = (
    tuple("零一二三四五六七八九"),
    ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
)
_WIDE = {code: code - 0xFEE0 for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))}


@dataclass(frozen=True)
class _Piece:
    kind: str
    text: str
    start: int
    end: int
    entry: Entry | None = None


def pronounce(text: str, lexicon: Lexicon | None = None) -> tuple[Word, ...]:
    """The words and marks of a sentence in order, each with its sounds; the lexicon's entries win.

    Never raises. What cannot be said is a word without sounds (see `unsaid`); only white space is left out.
    """
    chinese_around = re.search(f"[{_HANZI}]", text) is not None
    words: list[Word] = []
    english_run: list[_Piece] = []
    for piece in [*_pieces(text, lexicon or Lexicon()), _Piece("end", "", len(text), len(text))]:
        if piece.kind == "space":
            continue
        if piece.kind == "en" and piece.entry is None:
            english_run.append(piece)
            continue
        words += _english(english_run)
        english_run = []
        words += _said(piece, text, lexicon, chinese_around)
    return tuple(words)


def unsaid(words: tuple[Word, ...]) -> tuple[str, ...]:
    """The words that have no sounds, for a warning: rare characters, scripts without a reading."""
    return tuple(word.text for word in words if word.kind != "punct" and not word.sounds)


def _pieces(text: str, lexicon: Lexicon) -> Iterator[_Piece]:
    """Stretches of one kind; those of the lexicon's English words are cut out first."""
    plain = text.translate(_WIDE)
    at = 0
    for start, end, entry in (m for m in lexicon.matches(plain) if m[2].kind == "en"):
        yield from _scan(plain, text, at, start)
        yield _Piece("en", text[start:end], start, end, entry)
        at = end
    yield from _scan(plain, text, at, len(text))


def _scan(plain: str, text: str, start: int, end: int) -> Iterator[_Piece]:
    for match in _PIECE.finditer(plain, start, end):
        kind = {"dotted": "en", None: "other"}.get(match.lastgroup, match.lastgroup or "")
        yield _Piece(kind, text[match.start() : match.end()], match.start(), match.end())


def _said(piece: _Piece, text: str, lexicon: Lexicon | None, chinese_around: bool) -> list[Word]:
    """The words of a piece that is not plain English."""
    if piece.entry is not None:
        return [Word(piece.text, "en", piece.entry.sounds)]
    match piece.kind:
        case "zh":
            return _hanzi(piece.text, lexicon)
        case "digits":
            return [_digits(piece.text, chinese_around)]
        case "foreign":
            return [Word(piece.text, "en", _some(foreign.sounds(piece.text)))]
        case "letters":
            return [Word(piece.text, "en")]
        case "greek":
            return [_named(piece.text, foreign.greek(piece.text), False)]
        case "other":
            return [_other(piece, text, chinese_around)]
    return []


def _some(sounds: str) -> tuple[str, ...]:
    return (sounds,) if sounds else ()


def _hanzi(run: str, lexicon: Lexicon | None) -> list[Word]:
    from cosycli.text import chinese

    plain = re.sub("(.)々", r"\1\1", run)
    pinned = {}
    if lexicon is not None and lexicon.entries:
        simple = chinese.simplified(plain)
        found = [*lexicon.matches(plain)] or [*lexicon.matches(simple)]
        pinned = {(start, end): entry.sounds for start, end, entry in found if entry.kind == "zh"}
    words = chinese.read(plain, pinned)
    return words if plain == run else _with_text(words, run)


def _with_text(words: list[Word], text: str) -> list[Word]:
    """The same words with the letters that were written."""
    at = 0
    written = []
    for word in words:
        written.append(Word(text[at : at + len(word.text)], word.kind, word.sounds))
        at += len(word.text)
    return written


def _english(pieces: list[_Piece]) -> list[Word]:
    if not pieces:
        return []
    from cosycli.text import english

    said = english.read([piece.text for piece in pieces])
    return [Word(piece.text, "en", _some(sounds)) for piece, sounds in zip(pieces, said, strict=True)]


def _digits(text: str, in_chinese: bool) -> Word:
    names = _DIGITS[0] if in_chinese else _DIGITS[1]
    point = "点" if in_chinese else "point"
    parts = [point if c == "." else names[unicodedata.digit(c)] for c in text]
    return _named(text, ("" if in_chinese else " ").join(parts), in_chinese)


def _named(text: str, name: str, in_chinese: bool) -> Word:
    """A word that is said by a name of its own."""
    if not name:
        return Word(text, "en")
    if not in_chinese:
        from cosycli.text import english

        return Word(text, "en", (" ".join(english.read(name.split())),))
    from cosycli.text import chinese

    return Word(text, "zh", tuple(sound for word in chinese.read(name) for sound in word.sounds))


def _other(piece: _Piece, text: str, chinese_around: bool) -> Word:
    """A symbol by its name, a mark as a mark, a letter of an unknown script as a word without sounds."""
    char = unicodedata.normalize("NFKC", piece.text) if piece.text not in _SYMBOLS else piece.text
    if char == "." and text[piece.start - 1 : piece.start].isalnum() and text[piece.end : piece.end + 1].isalnum():
        return _named(piece.text, "点" if chinese_around else "dot", chinese_around)
    if char in _SYMBOLS:
        return _named(piece.text, _SYMBOLS[char][0 if chinese_around else 1], chinese_around)
    if char.isdecimal():  # ①
        return _digits(char, chinese_around)
    if unicodedata.category(piece.text)[0] == "N":
        return Word(piece.text, "en")
    return Word(piece.text, "punct")
