"""English words: dictionary, endings, abbreviations, mixed capitals, and guesses by spelling."""

from __future__ import annotations

import re

import pytest

from cosycli.text import english, spelling
from cosycli.text.pronounce import pronounce


def said(text: str) -> str:
    return " ".join(s for word in pronounce(text) for s in word.sounds)


@pytest.mark.parametrize("word", ["it’s", "don’t", "they’re", "we’ll", "I’ve", "can’t", "Tom’s"])
def test_typographic_apostrophe(word: str) -> None:
    """TN-21: a curly apostrophe changed how contractions are said."""
    assert said(word) == said(word.replace("’", "'")) != ""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("hello", "həlˈoʊ"),
        ("GPU", "ʤˌipˌijˈu"),
        ("api", "ˌeɪpˌiˈaɪ"),
        ("ABX", "ˌeɪbˌiˈɛks"),
        ("URLs", "jˌuˌɑɹˈɛlz"),
        ("NASA", "nˈæsə"),
        ("OPEN", "ˈoʊpᵊn"),
        ("ChatGPT", "ʧˈæt ʤˌipˌitˈi"),
        ("GitHub", "ɡˈɪt hˈʌb"),
        ("iPhone", "ˈaɪfˌoʊn"),
        ("OpenAI", "ˈoʊpᵊn ˌeɪˈaɪ"),
        ("TensorRT", "tˈɛnsəɹ ˌɑɹtˈi"),
        ("SmartHome", "smˈɑɹt hˈoʊm"),
        ("boss's", "bˈɔsᵻz"),
        ("streaming", "stɹˈimɪŋ"),
        ("planned", "plˈænd"),
        ("Wi-Fi", "wˈaɪfˌaɪ"),
        ("café", "kæfˈeɪ"),
        ("ＡＩ", "ˈeɪˌaɪ"),
        ("x", "ˈɛks"),
        ("kg", "kˌeɪʤˈi"),
        ("sawing", "sˈɔ.ɪŋ"),
    ],
)
def test_word(text: str, wanted: str) -> None:
    assert said(text) == wanted


@pytest.mark.parametrize(
    ("stem", "form", "tail"),
    [("bot", "bots", "s"), ("api", "apis", "z"), ("webhook", "webhooks", "s"), ("zap", "zapping", "ɪŋ")],
)
def test_endings(stem: str, form: str, tail: str) -> None:
    """A known stem with an ending that no dictionary lists."""
    assert said(form).startswith(said(stem)[:2])
    assert said(form).endswith(tail)


def test_dots_that_end_no_sentence() -> None:
    """The dots of U.S. and Dr. were pauses, and said as "dot"."""
    words = pronounce("Dr. Smith lives in the U.S. and works.")
    assert [w.text for w in words if w.kind == "punct"] == ["."]
    assert words[0].sounds == ("dˈɑktəɹ",)
    assert words[2].sounds == ("lˈɪvz",)
    assert words[5].sounds == ("jˌuˈɛs",)


def test_weak_forms() -> None:
    """a, the and to depend on what follows."""
    assert said("the apple") == "ði ˈæpᵊl"
    assert said("the dog").startswith("ðə ")
    assert said("a dog").startswith("ɐ ")
    assert said("to eat").startswith("tʊ ")
    assert said("to go").startswith("tə ")


def test_parts_of_speech() -> None:
    """Words that are said by what they are: record, live, read."""
    words = pronounce("I have read the record to record a live show where they live")
    by_place = [word.sounds[0] for word in words]
    assert by_place[2] == "ɹˈɛd"
    assert by_place[4] == "ɹˈɛkəɹd"
    assert by_place[6] == "ɹəkˈɔɹd"
    assert by_place[8] == "lˈaɪv"
    assert by_place[12] == "lˈɪv"


@pytest.mark.parametrize("word", ["blorfing", "zantrix", "quonderly", "Vexonium", "glimmertop"])
def test_unknown_words_are_spelt_out_into_sounds(word: str) -> None:
    """A word in no dictionary has one main stress and a vowel."""
    sounds = said(word)
    assert sounds.count("ˈ") == 1
    assert re.search("[aeiouæɑɔəɛɜɪʊʌ]", sounds)


def test_words_without_vowels_are_letters() -> None:
    assert said("xkcd") == "ˌɛkskˌeɪsˌidˈi"
    assert said("pq") == "pˌikjˈu"


def test_spelling_guesses_like_the_dictionary() -> None:
    """The learnt rules give back ordinary words without looking them up."""
    bare = str.maketrans("", "", "ˈˌ")
    words = ["table", "market", "lining", "stone", "happen", "button", "planet", "window", "fishing", "garden"]
    right = [
        w for w in words if spelling.said(w).translate(bare) == english._value(english._entry(w) or "").translate(bare)
    ]
    assert len(right) >= 8, right


def test_scanning_equals_parsing() -> None:
    """The first words are found by scanning the file, later ones in the parsed file: the same either way."""
    words = ["hello", "record", "zzzz", "Linux", "don't"]
    scanned = english._Dictionary("english-gold.json.gz")
    parsed = english._Dictionary("english-gold.json.gz")
    parsed._left = 0
    assert [scanned.get(w) for w in words] == [parsed.get(w) for w in words]
    assert scanned._parsed is None
    assert parsed._parsed is not None


def test_english_inside_chinese() -> None:
    words = pronounce("请看GitHub上的GPU代码")
    assert [w.kind for w in words if w.text in ("GitHub", "GPU")] == ["en", "en"]
    assert all(w.sounds for w in words)
