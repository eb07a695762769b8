"""The user's own pronunciations: the file's form, its errors, and that its entries win."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosycli.errors import UsageError
from cosycli.text.lexicon import Lexicon, user_lexicon_path
from cosycli.text.pronounce import pronounce


def said(text: str, lexicon: str = "") -> list[str]:
    return [s for word in pronounce(text, Lexicon.parse(lexicon)) for s in word.sounds]


def test_reading_is_forced() -> None:
    """TN-31: there was no way to force a reading; typed pinyin was spoken as letters."""
    assert said("去重庆玩") == ["qu4", "chong2", "qing4", "wan2"]
    assert said("去重庆玩", "重庆=zhong4 qing4") == ["qu4", "zhong4", "qing4", "wan2"]
    assert said("去重慶玩", "重庆 = zhòng qìng") == ["qu4", "zhong4", "qing4", "wan2"]


def test_across_word_boundaries() -> None:
    """An entry wins also where the segmentation sees other words."""
    assert said("今天天气", "天天=tian2 tian3")[1:3] == ["tian2", "tian3"]


def test_longest_wins() -> None:
    lexicon = "银行=yin3 xing3\n银行长=yin1 xing1 chang1\n行=hang2"
    assert said("银行长", lexicon) == ["yin1", "xing1", "chang1"]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("zorgle = engine x", "ˈɛnʤən ˈɛks"),
        ("zorgle = /ˈɛnʤən ˈɛks/", "ˈɛnʤən ˈɛks"),
        ("zorgle = EH1 N JH AH0 N", "ˈɛnʤən"),
    ],
)
def test_english_forms(line: str, wanted: str) -> None:
    assert said("用Zorgle吧", line)[1] == wanted
    assert said("zorgles", line) != [wanted]


def test_comments_blank_lines_and_bom() -> None:
    lexicon = Lexicon.parse("\ufeff# my words\n\n重庆 = zhong4 qing4  # wrong on purpose\nC# = see sharp\n")
    assert set(lexicon.entries) == {"重庆", "c#"}


def test_merged_er_counts_as_one() -> None:
    assert said("花儿", "花儿 = huar4") == ["huar4"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("重庆 chong2 qing4", "expected `word = pronunciation`"),
        ("ok = fine\n重庆 = chong2", "mine.txt:2: `重庆` has 2 characters but 1 syllables"),
        ("重庆 = chong2 qixg4", "`qixg4` is not a pinyin syllable"),
        ("nginx = /abc", "is not closed by a slash"),
        ("T恤 = ti4 xu4", "mixes Chinese"),
        ("nginx = 恩金", "is no pronunciation"),
    ],
)
def test_errors_name_the_line(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        Lexicon.parse(text, "mine.txt")
    assert part in caught.value.message
    assert caught.value.message.startswith("mine.txt:")
    assert caught.value.hint


def test_files(tmp_path: Path) -> None:
    good = tmp_path / "lexicon.txt"
    good.write_bytes("\ufeff重庆=zhong4 qing4\r\n".encode())
    assert Lexicon.load(good).entries["重庆"].sounds == ("zhong4", "qing4")
    good.write_bytes(b"ok = fine\n\xff\xfe")
    with pytest.raises(UsageError, match=r":2: the lexicon is not UTF-8"):
        Lexicon.load(good)
    with pytest.raises(UsageError, match="cannot read"):
        Lexicon.load(tmp_path / "none.txt")


def test_merged_lexicons_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merged = Lexicon.parse("a1b = one\n行=xing2").merged(Lexicon.parse("行=hang2"))
    assert merged.entries["行"].sounds == ("hang2",)
    monkeypatch.setenv("COSY_CONFIG", str(tmp_path))
    assert user_lexicon_path() == tmp_path / "lexicon.txt"
    monkeypatch.delenv("COSY_CONFIG")
    assert user_lexicon_path().name == "lexicon.txt"
