"""The voice's symbols: the table, syllables, spaces and marks, and where each word stands."""

from __future__ import annotations

import itertools

import pytest

from cosycli.backends.kokoro import symbols
from cosycli.text.pronounce import pronounce


def written(text: str) -> str:
    names = {number: symbol for symbol, number in symbols.table().items()}
    return "".join(names[i] for i in symbols.tokens(pronounce(text))[0])


def test_table() -> None:
    """114 symbols; a few of the model's numbers, far apart."""
    table = symbols.table()
    assert len(table) == 114 == len(set(table.values()))
    assert [table[s] for s in (";", " ", "\uab67", "A", "Y", "ɡ", "ɨ", "ˈ", "↓", "↘", "ᵻ")] == [
        1, 16, 23, 24, 41, 92, 101, 156, 169, 173, 177,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pinyin", "wanted"),
    [
        ("zhuang4", "\uab67wa↘ŋ"),
        ("chi1", "\uab67ʰɨ→"),
        ("si3", "sɨ↓"),
        ("xi2", "ɕi↗"),
        ("yuan2", "ɥɛ↗n"),
        ("jun1", "ʨy→n"),
        ("lv4", "ly↘"),
        ("gui4", "kwei↘"),
        ("bo1", "pwo→"),
        ("o4", "ɔ↘"),
        ("er2", "ɚ↗"),
        ("de5", "tɤ"),
        ("huar1", "xwa→ɚ"),
        ("hair2", "xai↗ɚ"),
        ("wanr2", "wa↗nɚ"),
        ("shir4", "ʂɨ↘ɚ"),
        ("wo3", "wo↓"),
        ("xiong2", "ɕjʊ↗ŋ"),
        ("nonsense", ""),
    ],
)
def test_syllable(pinyin: str, wanted: str) -> None:
    """Pinyin as the voice learnt it."""
    assert symbols.mandarin(pinyin) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("你好，世界！", "ni↗xau↓, ʂɨ↘ʨje↘!"),
        ("他说：“好的。”", "tʰa→ ʂwo→: “xau↓ tɤ.”"),
        ("好！！！", "xau↓!"),
        ("，好……", "xau↓…"),
        ("He (too) went.", "hˌi (tˈu) wˈɛnt."),
        ("I say", "ˌI sˈA"),
    ],
)
def test_marks_and_spaces(text: str, wanted: str) -> None:
    """Words apart by spaces, marks after their word, repeated pauses once."""
    assert written(text) == wanted


def test_ranges_point_at_the_words() -> None:
    """Each word's range holds its own symbols, so that subtitles show when it is spoken."""
    words = pronounce("我用GPU，Привет很快。")
    ids, ranges = symbols.tokens(words)
    names = {number: symbol for symbol, number in symbols.table().items()}
    assert len(ranges) == len(words)
    for word, (start, end) in zip(words, ranges, strict=True):
        if word.kind != "punct":
            assert "".join(names[i] for i in ids[start:end]) == symbols.spoken(word)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ranges))


def test_every_english_sound_is_known() -> None:
    """No phoneme of ordinary English is lost on the way to the voice."""
    text = "the joy of thinking measures how judges choose young boys near old houses by the azure sea"
    for word in pronounce(text):
        plain = "".join(word.sounds)
        shorter = sum(plain.count(d) for d in ("eɪ", "aɪ", "oʊ", "aʊ", "ɔɪ"))
        assert len(symbols.spoken(word)) == len(plain) - shorter - plain.count(".")


def test_sawing_keeps_two_vowels() -> None:
    """ "sawing" lost its second syllable: ɔ and ɪ side by side were taken for the diphthong of "boy"."""
    assert symbols.english("sˈɔ.ɪŋ") == "sˈɔɪŋ"
    assert symbols.english("bˈɔɪ") == "bˈY"
