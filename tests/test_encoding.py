"""Texts in every encoding people have: read as written, or refused; never a wrong character that would be spoken."""

from __future__ import annotations

import io
import random

import pytest

from cosycli.errors import UsageError
from cosycli.text.encoding import check_encoding, decode, decoded

SIMPLIFIED = "今天没有句号，我们去公园散步。\n第二行说：“一加一等于二”……还有很多文字可以说。\n"
TRADITIONAL = "今天沒有句號，我們去公園散步。\n第二行說：一加一等於二，還有很多文字可以說。\n"
ENGLISH = "It was the best of times, it was the worst of times.\n"
MIXED = "请打开 Windows 的“记事本”，另存为 Unicode。\r\n然后 click OK。\r\n"


def in_pieces(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("text", [SIMPLIFIED, TRADITIONAL, ENGLISH, MIXED, "好"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030"])
def test_what_was_written_is_what_is_read(text, encoding):
    """CL-20, CL-21. A BOM became a character, "Unicode" files became NUL soup, GBK from a console was lost."""
    data = text.encode(encoding)
    assert decode(data) == text
    for size in (1, 2, 3, 5, 1000):
        assert "".join(decoded(in_pieces(data, size))) == text


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf16_of_either_order_with_a_mark(mark):
    """CL-20. Notepad's "Unicode" and "Unicode big endian"."""
    data = mark + SIMPLIFIED.encode("utf-16-le" if mark == b"\xff\xfe" else "utf-16-be")
    assert decode(data) == SIMPLIFIED
    assert "".join(decoded(in_pieces(data, 3))) == SIMPLIFIED


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    [
        SIMPLIFIED,
        TRADITIONAL,
        ENGLISH,
        MIXED,
        "一二三\n一二三\n一一一一一",
        "今天没有句号",
        "今天没有句号，我们去公园散步，然后回家吃饭。" * 9,
    ],
)
def test_utf16_without_a_mark(text, encoding):
    """CL-20. 一 is 4E00: its zero byte stands where ASCII's does not, and counting zeros took the wrong order.

    Text without one ASCII character has no zero byte at all; it was read as GB18030, which decodes nearly anything.
    """
    data = text.encode(encoding)
    assert decode(data) == text
    assert "".join(decoded([data])) == text


@pytest.mark.parametrize("text", [TRADITIONAL, "中文 and English", "你好"])
def test_big5(text):
    """CL-18's cousin: 中文 in Big5 is いゅ in GB18030, and was about to be spoken as that."""
    data = text.encode("big5")
    assert decode(data) == text
    assert "".join(decoded([data])) == text
    assert decode(data, "big5") == text


@pytest.mark.parametrize("text", ["It’s a “test” of déjà vu.", "Ärger im Büro", "naïve"])
def test_english_from_old_windows(text):
    """A curly quote in an English text made it a Chinese one: 0x92 with the letter after it is a hanzi in GB18030."""
    data = text.encode("cp1252")
    assert decode(data) == text
    assert "".join(decoded(in_pieces(data, 1))) == text


def test_a_guess_for_other_languages():
    """What is neither Chinese nor Western is guessed at from the whole."""
    assert decode("Привет, как дела? Мы идём в парк.".encode("cp1251")) == "Привет, как дела? Мы идём в парк."


def test_rare_characters_beyond_gbk():
    """GB18030 has four bytes for some names; GBK would refuse them."""
    text = "𠮷野家的㑇先生在这里吃饭，我们也去。"
    data = text.encode("gb18030")
    assert decode(data) == text
    assert "".join(decoded(in_pieces(data, 1))) == text


@pytest.mark.parametrize("size", [20, 200, 5000, 100_000])
def test_junk_is_refused(size):
    """CL-15. Random bytes are not text; GB18030 and UTF-16 decode many of them all the same."""
    source = random.Random(size)
    refused = 0
    for _ in range(100):
        data = source.randbytes(size)
        for read in (decode, lambda data: "".join(decoded([data]))):
            try:
                assert "\ufffd" not in read(data)
            except UsageError:
                refused += 1
    assert refused >= (200 if size > 20 else 180)


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01\0\0\0\0\0" * 40,
        b"RIFF\x24\x08\0\0WAVEfmt \x10\0\0\0" + bytes(range(256)) * 9,
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(200, 256)) * 20,
        b"plain words\0then a NUL",
        b"\xff\xfe\x00",  # half a character
    ],
)
def test_binary_files_are_refused(data):
    """CL-15. A program or a picture that was named .txt."""
    with pytest.raises(UsageError) as caught:
        decode(data, None, "a.txt")
    assert caught.value.message.startswith("a.txt ")
    assert caught.value.hint
    with pytest.raises(UsageError):
        "".join(decoded([data]))


def test_control_characters_are_no_text():
    """CL-15. Valid UTF-8, and still not something to speak."""
    with pytest.raises(UsageError, match="control characters"):
        decode(b"\x01\x02\x03\x04\x05\x06" * 50)


def test_broken_utf8_is_refused_and_the_place_named():
    """Never U+FFFD: a text that breaks off inside a character is told, with where."""
    data = SIMPLIFIED.encode() + b"\xe4\xbb"
    with pytest.raises(UsageError) as caught:
        decode(data, "utf-8")
    assert f"byte {len(data) - 2}" in caught.value.message
    with pytest.raises(UsageError) as caught:
        "".join(decoded(in_pieces(data, 7)))
    assert f"byte {len(data) - 2}" in caught.value.message


def test_no_change_of_mind_after_chinese_has_gone_by():
    """A stream that began as UTF-8 and goes on in GBK is refused; what came before the break has been given."""
    blocks = [SIMPLIFIED.encode(), "然后是国标码。\n".encode("gb18030")]
    stream = decoded(blocks)
    assert next(stream) == SIMPLIFIED
    with pytest.raises(UsageError):
        next(stream)


def test_ascii_first_then_gbk():
    """CL-21. A console prints English for a while, then the first Chinese."""
    blocks = [b"Starting up.\nOK.\n", "开始工作，请稍等。\n".encode("gbk"), b"done\n"]
    assert "".join(decoded(blocks)) == "Starting up.\nOK.\n开始工作，请稍等。\ndone\n"


def test_text_comes_as_soon_as_it_is_there():
    """A line of an LLM's output is given on before the next one comes, in GBK too."""
    for encoding in ("utf-8", "gb18030"):
        pulled = []

        def blocks(encoding=encoding, pulled=pulled):
            for line in ("你好，世界。\n", "再见。\n"):
                pulled.append(line)
                yield line.encode(encoding)

        assert next(decoded(blocks())) == "你好，世界。\n"
        assert len(pulled) == 1


def test_the_name_given_wins_but_a_mark_is_no_character():
    """CL-20. `--encoding utf-8` with a BOM must not speak U+FEFF; utf-16-le given with its mark neither."""
    assert decode(b"\xef\xbb\xbf" + SIMPLIFIED.encode(), "utf-8") == SIMPLIFIED
    assert decode(b"\xff\xfe" + SIMPLIFIED.encode("utf-16-le"), "utf-16-le") == SIMPLIFIED
    assert "".join(decoded([b"\xff\xfe" + SIMPLIFIED.encode("utf-16-le")], "utf-16-le")) == SIMPLIFIED
    assert decode(SIMPLIFIED.encode("utf-16-be"), "utf-16-be") == SIMPLIFIED
    with pytest.raises(UsageError):
        decode(SIMPLIFIED.encode("gb18030"), "utf-8")


@pytest.mark.parametrize("name", ["hex", "base64", "rot13", "zlib", "nonsense", "", "a\0b"])
def test_what_is_no_encoding_of_text(name):
    """`--encoding hex` passed the check, as Python knows such a codec, and ended in a traceback."""
    with pytest.raises(UsageError, match="unknown encoding"):
        check_encoding(name)


def test_encodings_that_are_known():
    """The check itself."""
    for name in (None, "utf-8", "GB18030", "gbk", "big5", "utf-16", "latin-1", "shift_jis"):
        check_encoding(name)


@pytest.mark.parametrize("data", [b"", b"a", b"\xef\xbb\xbf", b"hi"])
def test_tiny_inputs(data):
    """Shorter than a mark or than what is waited for."""
    file = io.BytesIO(data)
    assert "".join(decoded(iter(lambda: file.read(1), b""))) == decode(data)
