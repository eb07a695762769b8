"""Bytes to text: byte-order marks, UTF-8, UTF-16, GB18030, Big5, or whatever fits; never a replacement character.

Knows no files. A stream is decoded as it arrives; a whole text may also be guessed at.
"""

from __future__ import annotations

import codecs
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from cosycli.errors import UsageError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UTF16 = ("utf-16-le", "utf-16-be")
_CHINESE = ("gb18030", "cp950")  # cp950 is Big5 as Windows writes it
_SAMPLE = 8192  # bytes that a guess looks at
_PLAUSIBLE = 0.6  # of the characters; right guesses have over 0.9, wrong ones under 0.4
_HEAD = 4  # bytes of a stream that are waited for: a mark may be under way
_UNDECIDED = 24  # bytes that are waited for once a stream turned out not to be UTF-8, unless a line ends before
_CONTROLS = frozenset(map(chr, (*range(32), 127))) - frozenset("\t\n\v\f\r\x1a\x1b")
_HINT = "give a text file; --encoding names its encoding"


def check_encoding(name: str | None) -> None:
    """Raise UsageError for what is no encoding of text that Python knows ("hex" is one of bytes)."""
    if name is None:
        return
    try:
        "".encode(name)
        b"".decode(name)
    except (LookupError, ValueError):
        raise UsageError(f"unknown encoding {name!r}", "use one such as utf-8, gb18030, big5 or utf-16") from None


def decode(data: bytes, encoding: str | None = None, name: str = "the input") -> str:
    """The text of a whole file. Raises UsageError where the bytes are no text, or not in the encoding given."""
    data, found = _unmarked(data, encoding)
    encoding = found or encoding or _encoding_of(data, name)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise _undecodable(name, encoding, error.start) from error


def _unmarked(data: bytes, encoding: str | None) -> tuple[bytes, str | None]:
    """The data without its byte-order mark, and the encoding that the mark tells, unless one given fits as well."""
    for mark, found in _MARKS:
        if data.startswith(mark):
            wide = encoding is not None and codecs.lookup(encoding).name in (*_UTF16, "utf-32-le", "utf-32-be")
            return data[len(mark) :], encoding if wide else found
    return data, None


def _encoding_of(data: bytes, name: str) -> str:
    sample = data[:_SAMPLE]
    if b"\0" in sample:
        found = _likeliest(sample, _UTF16)
        if found is None:
            raise _nul(name)
        return found
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _western(sample) or _likeliest(sample, (*_CHINESE, *_UTF16)) or _guess(data[: 8 * _SAMPLE], name)
    if _is_binary(text[:_SAMPLE]):
        raise UsageError(f"{name} is not text (it is full of control characters)", _HINT)
    return "utf-8"


def _likeliest(sample: bytes, candidates: Sequence[str]) -> str | None:
    """The encoding in which the sample reads best, if it reads well in any; of equals the first."""
    best, score = None, _PLAUSIBLE
    for candidate in candidates:
        try:  # the sample's end may lie inside a character
            text = codecs.getincrementaldecoder(candidate)("strict").decode(sample)
        except UnicodeDecodeError:
            continue
        reached = _plausible(text, with_ascii=candidate in _UTF16)
        if reached > score:
            best, score = candidate, reached
    return best


def _plausible(text: str, *, with_ascii: bool) -> float:
    """How much of the text is common characters; ASCII proves nothing where every candidate reads it alike."""
    if _is_binary(text):
        return 0.0
    judged = text if with_ascii else [char for char in text if char > "\x7f"]
    return sum(char in _common() for char in judged) / len(judged) if judged else 0.0


def _is_binary(text: str) -> bool:
    return sum(map(text.count, _CONTROLS)) > len(text) // 50


@functools.cache
def _common() -> frozenset[str]:
    """Characters that texts are made of: ASCII, marks, the 3,755 and 5,401 hanzi that GB 2312 and Big5 have first."""
    marks = (*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x2010, 0x2040), *range(0x3000, 0x3040))
    rows = [("gb2312", range(0xB0, 0xD8), range(0xA1, 0xFF))]
    rows += [("big5", range(0xA4, 0xC7), trail) for trail in (range(0x40, 0x7F), range(0xA1, 0xFF))]
    hanzi = (
        bytes((lead, trail)).decode(name, "ignore")
        for name, leads, trails in rows
        for lead in leads
        for trail in trails
    )
    return (
        frozenset("\t\n\r") | {*map(chr, marks), *map(chr, range(0xFF00, 0xFF66))} | {c for c in hanzi if c > "\u4dff"}
    )


def _western(sample: bytes) -> str | None:
    """English with the odd é or curly quote, as Windows wrote it: lone bytes beyond ASCII, where hanzi are pairs."""
    high = sum(byte > 0x7F for byte in sample)
    if high > 0.3 * len(sample) or re.search(rb"[\x80-\xff]{2}|[\x81\x8d\x8f\x90\x9d]", sample):
        return None
    return None if _is_binary(sample.decode("cp1252")) else "cp1252"


def _guess(data: bytes, name: str) -> str:
    """Another language's old encoding; UTF-16 and binary files have been ruled out, whatever the guesser thinks."""
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    wide = best is None or best.encoding.startswith(("utf_16", "utf_32"))
    if best is None or wide or _is_binary(data.decode("latin-1")) or not _is_words(str(best)):
        raise UsageError(f"{name} is not text in any known encoding", _HINT)
    return best.encoding


def _is_words(text: str) -> bool:
    """Whether most of it is words; random bytes become signs and letters in a jumble of cases."""
    inner = sum(char.isupper() and before.islower() for before, char in itertools.pairwise(text))
    return inner <= len(text) // 20 and sum(char.isalpha() or char in " \r\n,." for char in text) >= 0.8 * len(text)


def decoded(blocks: Iterable[bytes], encoding: str | None = None, name: str = "standard input") -> Iterator[str]:
    """Text as it arrives: what is complete of each block of bytes at once.

    Taken for UTF-8 until a byte says otherwise, then for what it reads best in if nothing but ASCII has gone by.
    Raises UsageError at bytes that fit neither.
    """
    arriving = _Arriving(encoding, name)
    for block in blocks:
        if text := arriving.feed(block):
            yield text
    if text := arriving.feed(b"", final=True):
        yield text


class _Arriving:
    """Decodes a stream; decides on its encoding as late as it must."""

    def __init__(self, encoding: str | None, name: str) -> None:
        self._given, self._name = encoding, name
        self._decoder: codecs.IncrementalDecoder | None = None
        self._sure = encoding is not None
        self._held = b""  # not yet given to the decoder
        self._position = 0  # bytes before those held

    def feed(self, block: bytes, *, final: bool = False) -> str:
        """Take bytes; return the text that is complete."""
        self._held += block
        if self._decoder is None:
            wanted = _UNDECIDED if b"\0" in self._held else _HEAD
            if len(self._held) < wanted and not final:
                return ""
            self._decoder = self._begin()
        pending = self._decoder.getstate()[0]
        try:
            text = self._decoder.decode(self._held, final)
        except UnicodeDecodeError as error:
            return self._decide(pending + self._held, error, final=final)
        if "\0" in text:
            raise _nul(self._name)
        self._position += len(self._held)
        self._held = b""
        self._sure = self._sure or not text.isascii()
        return text

    def _begin(self) -> codecs.IncrementalDecoder:
        before = len(self._held)
        self._held, found = _unmarked(self._held, self._given)
        self._position = before - len(self._held)
        if not found and not self._sure and b"\0" in self._held:
            found = _likeliest(self._held, _UTF16)
            if found is None:
                raise _nul(self._name)
        self._sure = self._sure or found is not None
        return codecs.getincrementaldecoder(found or self._given or "utf-8")("strict")

    def _decide(self, data: bytes, error: UnicodeDecodeError, *, final: bool) -> str:
        """These bytes are not UTF-8: wait for a few more, then see what they are."""
        begin = self._position + len(self._held) - len(data)  # the decoder may have kept part of a character
        if self._sure:
            raise _undecodable(self._name, error.encoding, begin + error.start) from error
        assert self._decoder is not None
        self._decoder.reset()
        self._held, self._position = data, begin
        if not final and len(data) < _UNDECIDED and b"\n" not in data:
            return ""
        found = _western(data) or _likeliest(data, (*_CHINESE, *_UTF16) if begin == 0 else _CHINESE)
        if found is None:
            raise _undecodable(self._name, "utf-8", begin + error.start) from error
        self._decoder, self._sure = codecs.getincrementaldecoder(found)("strict"), True
        return self.feed(b"", final=final)


def _nul(name: str) -> UsageError:
    return UsageError(f"{name} is not text (it contains NUL bytes)", _HINT)


def _undecodable(name: str, encoding: str, position: int) -> UsageError:
    return UsageError(
        f"{name} cannot be read as {encoding} (byte {position})", "name its encoding with --encoding, such as big5"
    )
