"""How English words are said: dictionary, endings, letters one by one, and in the end by spelling.

The dictionary is misaki's (US English, its own notation; data/english-*.json.gz); `to_ipa` writes it as IPA.
Knows nothing of Chinese, of digits, nor of the voice's numbers.
"""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import TypeAlias

from cosycli.text import spelling

VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻᵊ")
_FLAPPING = frozenset("AIOWYiuæɑəɛɪɹʊʌ")  # a t between one of these and an ending is said as a flap
_IPA = str.maketrans({"A": "eɪ", "I": "aɪ", "O": "oʊ", "W": "aʊ", "Y": "ɔɪ"})
# Words that tell that a verb follows, a noun, or a past participle: enough for most of the 790 words in
# the dictionary that are said by their part of speech (record, live, read).
_BEFORE_VERB = frozenset([
    "to", "will", "would", "can", "could", "should", "must", "may", "might", "shall", "let's", "please", "i",
    "you", "we", "they", "don't", "doesn't", "didn't", "won't", "can't", "cannot", "never", "not", "i'll",
    "you'll", "we'll", "they'll", "who",
])  # fmt: skip
_BEFORE_NOUN = frozenset([
    "the", "a", "an", "this", "that", "these", "those", "my", "your", "his", "her", "its", "our", "their", "of",
    "no", "new", "first",
])  # fmt: skip
_BEFORE_PARTICIPLE = frozenset([
    "have", "has", "had", "having", "is", "are", "was", "were", "been", "be", "being", "i've", "you've",
    "we've", "they've",
])  # fmt: skip
_AFTER_LIVE = frozenset(["in", "at", "on", "with", "near", "here", "there", "alone", "together", "for", "by"])
# Short words that capitals do not make an abbreviation.
_SHOUTED = frozenset([
    "the", "and", "for", "you", "are", "not", "but", "all", "can", "new", "out", "get", "buy", "now", "our",
    "who", "how", "why", "yes", "one", "two", "was", "had", "has", "his", "her", "him", "she", "off", "any",
    "day", "way", "may", "let", "see", "say", "did", "too", "old", "big", "top", "is", "it", "in", "on", "to",
    "of", "or", "be", "by", "we", "he", "me", "my", "no", "so", "up", "do", "go", "at", "as", "if", "an", "am",
    "us",
])  # fmt: skip
_SAID_AS_WORDS = frozenset([
    "nasa", "json", "ram", "rom", "lan", "pin", "sim", "gif", "ascii", "aids", "laser", "captcha", "yaml",
    "cuda", "bert", "lora",
])  # fmt: skip


Entry: TypeAlias = "str | dict[str, str | None]"  # the latter by part of speech


class _Dictionary:
    """One of misaki's JSON files: scanned for the first words asked for, since parsing all of it takes 50 ms."""

    _SCANS = 40  # at 1 ms each at most

    def __init__(self, name: str) -> None:
        packed = resources.files("cosycli").joinpath("data", name).read_bytes()
        self._raw = gzip.decompress(packed)  # 10 ms
        self._left = self._SCANS if self._raw.startswith(b'{\n  "') else 0
        self._parsed: dict[str, Entry] | None = None

    def get(self, word: str) -> Entry | None:
        """What the file has for a word, exactly as it is written."""
        if self._parsed is None and self._left <= 0:
            self._parsed = json.loads(self._raw)
        if self._parsed is not None:
            return self._parsed.get(word)
        self._left -= 1
        key = f"\n  {json.dumps(word, ensure_ascii=False)}: ".encode()
        start = self._raw.find(key)
        if start < 0:
            return None
        end = self._raw.find(b'\n  "', start + len(key))
        value = self._raw[start + len(key) : end if end > 0 else len(self._raw)]
        entry: Entry = json.JSONDecoder().raw_decode(value.decode())[0]
        return entry

    def __contains__(self, word: str) -> bool:
        return self.get(word) is not None

    def __getitem__(self, word: str) -> Entry:
        entry = self.get(word)
        if entry is None:
            raise KeyError(word)
        return entry


@lru_cache(maxsize=1)
def _gold() -> _Dictionary:
    return _Dictionary("english-gold.json.gz")


@lru_cache(maxsize=1)
def _silver() -> _Dictionary:
    return _Dictionary("english-silver.json.gz")


@lru_cache(maxsize=1)
def _brands() -> dict[str, str]:
    """Names that no dictionary has, written by hand: "nginx" -> "engine x" or "/ˈɛnʤən/"."""
    text = resources.files("cosycli").joinpath("data", "english.txt").read_text("utf-8")
    pairs = (line.split(" = ") for line in text.splitlines() if " = " in line and not line.startswith("#"))
    return dict(pairs)


def to_ipa(sounds: str) -> str:
    """IPA for the dictionary's notation; a dot keeps ɔ and ɪ apart where they are two sounds (sawing)."""
    return sounds.replace("ɔɪ", "ɔ.ɪ").translate(_IPA)


def read(words: Sequence[str]) -> list[str]:
    """The IPA of each word of a phrase: what stands before and after a word has its say."""
    plain = [_plain(word) for word in words]
    said: list[str] = []
    following: bool | None = None  # whether the next word begins with a vowel; None before a pause
    for i in range(len(plain) - 1, -1, -1):
        before = plain[i - 1].lower() if i else ""
        after = plain[i + 1] if i + 1 < len(plain) else ""
        sounds = _in_phrase(plain[i], before, after, following)
        said.append(to_ipa(sounds))
        following = next((c in VOWELS for c in sounds if c not in "ˈˌ "), following)
    return said[::-1]


def _plain(word: str) -> str:
    """Straight apostrophes, letters without accents: it’s, café."""
    word = word.replace("’", "'").replace("‘", "'").replace("ʼ", "'").replace("＇", "'").replace("ß", "ss")
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


def _in_phrase(word: str, before: str, after: str, following: bool | None) -> str:
    return _function_word(word, after, following) or _word(word, before, following)


def _function_word(word: str, after: str, following: bool | None) -> str:
    """The weak forms of the commonest words; "" for the others."""
    if word == "a" or (word == "A" and after[:1].islower()):
        return "ɐ" if after else "ˈA"
    if word in ("an", "An"):
        return "ɐn" if after else "ˈæn"
    if word in ("the", "The", "THE"):
        return "ði" if following else "ðə"
    if word in ("to", "To") and following is not None:
        return "tʊ" if following else "tə"
    if word in ("in", "In"):
        return "ˈɪn" if following is None else "ɪn"
    if word == "am" and following is not None:
        return "ɐm"
    if word == "I":
        return "ˌI"
    if word in ("live", "lives") and after in _AFTER_LIVE:
        return "lˈɪvz" if word == "lives" else "lˈɪv"
    return "jˈuzd" if word == "used" and after != "to" else "jˈust" if word == "used" else ""


def _word(word: str, before: str = "", following: bool | None = None) -> str:
    """One word by whatever knows it."""
    if "." in word:  # U.S., Dr.
        return _dotted(word)
    if "-" in word:
        whole = _known(word, before, following)
        return whole or " ".join(_word(part) for part in word.split("-") if part)
    return (
        _brand(word)
        or _abbreviation(word)
        or _known(word, before, following)
        or _ending(word, before, following)
        or _mixed(word)
        or _guessed(word)
    )


def _dotted(word: str) -> str:
    """Letters with dots, or one of the titles that end in one."""
    plain = word.replace(".", "")
    if plain == "vs":
        return _known("versus", "", True)
    return _known(plain, "", True) if "." not in word[:-1] else _letters(plain)


def _brand(word: str) -> str:
    said = _brands().get(word.lower())
    if said is None:
        return _s(_brand(word[:-1])) if word[-1:] == "s" and word[:-1].lower() in _brands() else ""
    if said.startswith("/"):
        return said.strip("/")
    parts = re.sub(r"(?<=\b[A-Z]) (?=[A-Z]\b)", "", said).split()
    return " ".join(_letters(part) if part.isupper() else _word(part) for part in parts)


def _abbreviation(word: str) -> str:
    """GPU letter by letter; NASA, and words in capitals, as words. A plural's s is not a letter: URLs."""
    stem = word[:-1] if re.fullmatch(r"[A-Z]{2,}s", word) else word[:-2] if word.endswith("'s") else word
    if not re.fullmatch("[A-Z]{2,}", stem):
        return ""
    lower = stem.lower()
    if stem in _gold():
        said = _value(_gold()[stem])
    elif lower in _SAID_AS_WORDS | _SHOUTED or (len(stem) > 3 and (_entry(lower) or _ending(lower))):
        said = _in_phrase(lower, "", "", True)
    else:
        said = _letters(stem)
    return _s(said) if stem != word else said


_LETTERS = {
    "A": "ˈA", "B": "bˈi", "C": "sˈi", "D": "dˈi", "E": "ˈi", "F": "ˈɛf", "G": "ʤˈi", "H": "ˈAʧ", "I": "ˈI",
    "J": "ʤˈA", "K": "kˈA", "L": "ˈɛl", "M": "ˈɛm", "N": "ˈɛn", "O": "ˈO", "P": "pˈi", "Q": "kjˈu",
    "R": "ˈɑɹ", "S": "ˈɛs", "T": "tˈi", "U": "jˈu", "V": "vˈi", "W": "dˈʌbᵊlju", "X": "ˈɛks", "Y": "wˈI",
    "Z": "zˈi",
}  # fmt: skip


def _letters(word: str) -> str:
    """Each letter's name, the main stress on the last."""
    names = [_LETTERS[c.upper()] for c in word if c.upper() in _LETTERS]
    return "".join(name.replace("ˈ", "ˌ") for name in names[:-1]) + "".join(names[-1:])


def _stressed(sounds: str, mark: str) -> str:
    """The mark before the first vowel of sounds that have none."""
    at = next((i for i, c in enumerate(sounds) if c in VOWELS), None)
    return sounds if at is None else f"{sounds[:at]}{mark}{sounds[at:]}"


@lru_cache(maxsize=4096)
def _entry(word: str) -> Entry | None:
    """What a dictionary has for the word, however it is capitalised there."""
    forms = [word]
    if word == word.capitalize() or word == word.upper():
        forms.append(word.lower())
    if len(word) > 1:
        forms.append(word.capitalize())
    for source in (_gold, _silver):
        for form in forms:
            if (found := source().get(form)) is not None:
                return found
    return None


def _value(entry: Entry, tag: str = "DEFAULT") -> str:
    if isinstance(entry, str):
        return entry
    return entry.get(tag) or entry["DEFAULT"] or ""


def _known(word: str, before: str, following: bool | None) -> str:
    entry = _entry(word) if len(word) > 1 or word in "aAiIoO" else None
    if entry is None:
        return _letters(word) if len(word) == 1 else ""
    if isinstance(entry, dict):
        return _value(entry, _tag(entry, before, following))
    return entry if word == word.lower() or "ˈ" in entry or "ˌ" in entry else _stressed(entry, "ˌ")


def _tag(entry: dict[str, str | None], before: str, following: bool | None) -> str:
    if following is None and "None" in entry:
        return "None"
    if before in _BEFORE_VERB:
        return "VERB"
    if before in _BEFORE_NOUN:
        return "NOUN"
    return "VBN" if before in _BEFORE_PARTICIPLE else "DEFAULT"


def _ending(word: str, before: str = "", following: bool | None = None) -> str:
    """A known word with -s, 's, -ed, -ing, -er, -ly, -ness, -less or -able."""
    for suffix, said in (("s", _s), ("'", str), ("d", _ed), ("ing", _ing)):
        for stem in _stems(word, suffix):
            sounds = _known(stem, before, following) if len(stem) > 1 else ""
            if sounds:
                return said(sounds)
    for suffix, tail in _SUFFIXES.items():
        stem = word[: -len(suffix)]
        if word.endswith(suffix) and len(stem) > 2 and (sounds := _known(stem, "", None)):
            return sounds + tail
    return ""


_SUFFIXES = {"ness": "nəs", "less": "ləs", "ly": "li", "able": "əbᵊl", "er": "əɹ", "ers": "əɹz", "like": "lˌIk"}


def _stems(word: str, suffix: str) -> list[str]:
    """What a word may be the -s, -d or -ing form of."""
    if not word.endswith(suffix) or len(word) < len(suffix) + 2:
        return []
    stem = word[: -len(suffix)]
    if suffix == "s":
        if stem.endswith("s"):
            return []
        more = [word[:-3] + "y"] if word.endswith("ies") else [word[:-2]] if word.endswith(("es", "'s")) else []
        return [stem, *more]
    if suffix == "d":
        return [stem, word[:-2], word[:-3]] if word.endswith("ed") and not word.endswith("eed") else []
    if suffix == "ing":
        doubled = len(stem) > 2 and stem[-1] == stem[-2]
        return [stem, stem + "e", *([stem[:-1]] if doubled else [])]
    return [stem]


def _s(sounds: str) -> str:
    if sounds[-1] in "ptkfθ":
        return sounds + "s"
    return sounds + ("ᵻz" if sounds[-1] in "szʃʒʧʤ" else "z")


def _ed(sounds: str) -> str:
    if sounds[-1] in "pkfθʃsʧ":
        return sounds + "t"
    if sounds[-1] == "t":
        return sounds[:-1] + "ɾᵻd" if sounds[-2:-1] and sounds[-2] in _FLAPPING else sounds + "ᵻd"
    return sounds + ("ᵻd" if sounds[-1] == "d" else "d")


def _ing(sounds: str) -> str:
    flapped = len(sounds) > 1 and sounds[-1] == "t" and sounds[-2] in _FLAPPING
    return (sounds[:-1] + "ɾ" if flapped else sounds) + "ɪŋ"


_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z']+|[A-Z]+")


def _mixed(word: str) -> str:
    """ChatGPT, iPhone, TensorRT: part by part."""
    parts = _CAMEL.findall(word)
    return " ".join(_word(part) for part in parts) if len(parts) > 1 and len("".join(parts)) == len(word) else ""


def _guessed(word: str) -> str:
    """A word in no dictionary: short ones and those without a vowel by letters, others by spelling."""
    letters = "".join(c for c in word.lower() if "a" <= c <= "z")
    if not letters:
        return ""
    if len(letters) < 3 or not re.search("[aeiouy]", letters):
        return _letters(letters)
    stem, s = (letters[:-1], _s) if word.endswith("'s") else (letters, str)
    return s(_compound(stem) or spelling.said(stem))


def _compound(word: str) -> str:
    """Two known words written as one: smarthome."""
    for cut in range(len(word) - 3, 2, -1):
        head, tail = word[:cut], word[cut:]
        if len(tail) > 3 and cut > 3 and head in _gold() and tail in _gold():
            return _value(_gold()[head]) + _value(_gold()[tail]).replace("ˈ", "ˌ")
    return ""
