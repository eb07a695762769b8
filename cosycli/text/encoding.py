"""Bytes to text: byte-order marks, UTF-8, UTF-16, GB18030, or whatever fits; never a replacement character.

Knows no files. A stream is decoded as it arrives; a whole text may also be guessed at.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from cosycli.errors import UsageError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 65536  # bytes that a guess looks at


def check_encoding(name: str | None) -> None:
    """Raise UsageError for an encoding that Python does not know."""
    if name is not None:
        try:
            codecs.lookup(name)
        except LookupError:
            raise UsageError(f"unknown encoding {name!r}", "use one such as utf-8, gb18030, big5 or utf-16") from None


def decode(data: bytes, encoding: str | None = None, name: str = "the input") -> str:
    """The text of a whole file. Raises UsageError where the bytes are no text, or not in the encoding given."""
    for mark, found in _MARKS:
        if data.startswith(mark):
            data, encoding = data[len(mark) :], encoding if encoding and _wider(encoding) else found
            break
    encoding = encoding or _encoding_of(data, name)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise _undecodable(name, encoding, error.start) from error


def _wider(encoding: str) -> bool:
    return codecs.lookup(encoding).name.startswith("utf-16-") or codecs.lookup(encoding).name.startswith("utf-32-")


def _encoding_of(data: bytes, name: str) -> str:
    if b"\0" in data[:_SAMPLE]:
        return _utf16(data[:_SAMPLE], name)
    for candidate in ("utf-8", "gb18030"):
        try:
            text = data.decode(candidate)
        except UnicodeDecodeError:
            continue
        if candidate == "utf-8" or _is_chinese(text):
            return candidate
    return _guess(data[:_SAMPLE], name)


def _utf16(data: bytes, name: str) -> str:
    """UTF-16 without a mark: ASCII's zero bytes stand at even or odd places only."""
    even, odd = data[0::2].count(0), data[1::2].count(0)
    if even != odd and max(even, odd) > 20 * min(even, odd) and len(data) % 2 == 0:
        return "utf-16-be" if even > odd else "utf-16-le"
    raise UsageError(f"{name} is not text (it contains NUL bytes)", "give a text file; --encoding names its encoding")


def _is_chinese(text: str) -> bool:
    """Whether what was decoded reads like Chinese: most of what is not ASCII is a common character or mark."""
    beyond = [c for c in text[:_SAMPLE] if c > "\x7f"]
    common = sum("\u4e00" <= c <= "\u9fff" or "\u3000" <= c <= "\u303f" or "\uff00" <= c <= "\uffef" or c in "“”‘’—…·"
                 for c in beyond)  # fmt: skip
    return common >= 0.8 * len(beyond) and not any("\ue000" <= c <= "\uf8ff" for c in beyond)


def _guess(data: bytes, name: str) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    if best is None or _looks_binary(data):
        raise UsageError(f"{name} is not text in any known encoding", "give a text file; --encoding names its encoding")
    return best.encoding


def _looks_binary(data: bytes) -> bool:
    controls = sum(byte < 32 and byte not in b"\t\n\v\f\r\x1b" for byte in data)
    return controls > len(data) // 100


def decoded(blocks: Iterable[bytes], encoding: str | None = None, name: str = "standard input") -> Iterator[str]:
    """Text as it arrives: what is complete of each block of bytes at once.

    Taken for UTF-8 until a byte says otherwise, then for GB18030 if nothing but ASCII has gone by.
    Raises UsageError at bytes that are neither.
    """
    decoder: codecs.IncrementalDecoder | None = None
    head, ascii_only, position = b"", True, 0
    for block in blocks:
        if decoder is None:
            head += block
            if len(head) < 4 and not head.isascii():
                continue  # a mark may be under way
            block, found = _unmarked(head, encoding)
            decoder = codecs.getincrementaldecoder(found or encoding or "utf-8")("strict")
            ascii_only = found is None and encoding is None
        text, decoder, ascii_only = _step(decoder, block, ascii_only, False, name, position)
        position += len(block)
        if text:
            yield text
    if decoder is None:
        if head:
            yield decode(head, encoding, name)
        return
    text, _, _ = _step(decoder, b"", ascii_only, True, name, position)
    if text:
        yield text


def _unmarked(head: bytes, encoding: str | None) -> tuple[bytes, str | None]:
    for mark, found in _MARKS:
        if head.startswith(mark):
            return head[len(mark) :], found
    if encoding is None and b"\0" in head:
        return head, _utf16(head[: len(head) // 2 * 2], "standard input")
    return head, None


def _step(
    decoder: codecs.IncrementalDecoder, block: bytes, ascii_only: bool, final: bool, name: str, position: int
) -> tuple[str, codecs.IncrementalDecoder, bool]:
    pending = decoder.getstate()[0]
    try:
        text = decoder.decode(block, final)
    except UnicodeDecodeError as error:
        if not ascii_only:
            raise _undecodable(name, error.encoding, position + error.start) from error
        other = codecs.getincrementaldecoder("gb18030")("strict")
        try:
            text = other.decode(pending + block, final)
        except UnicodeDecodeError as second:
            raise _undecodable(name, "utf-8 or gb18030", position + second.start) from second
        if not _is_chinese(text):
            raise _undecodable(name, "utf-8", position + error.start) from error
        return text, other, False
    return text, decoder, ascii_only and text.isascii()


def _undecodable(name: str, encoding: str, position: int) -> UsageError:
    return UsageError(
        f"{name} cannot be read as {encoding} (byte {position})", "name its encoding with --encoding, such as big5"
    )
