"""Written text becomes spoken words: numbers, dates, money, units, signs, in Chinese or English.

Decides the language; the readings themselves are in rules_zh.py and rules_en.py. Knows no sentence.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from cosycli.text.capitals import lowered
from cosycli.text.chars import HAN, fold, visible
from cosycli.text.inline import without_tokens
from cosycli.text.numbers import zh_digits
from cosycli.text.shapes import written_out

Language = Literal["zh", "en"]

# A text longer than this is read in parts, so that the grammar's memory stays small.
_PART = 2000

_HAN = re.compile(f"[{HAN}]")
_CHINESE = re.compile(f"[{HAN}，。！？；：、（）《》]")  # full-width punctuation is Chinese typing
_LATIN_WORD = re.compile(r"(?<![A-Za-z\d.])[A-Za-zÀ-ɏ]{2,}(?![A-Za-z\d]|\.\w)")
# Anything but letters, spaces and common punctuation; or a dot inside a word.
_TO_READ = re.compile(r"[^\w\s，。！？；：、…—“”‘’()（）《》'\",.!?;:]|[\d_²³]|[^\W_]\.[^\W_]")
_SHORTENED = re.compile(r"\b[A-Za-z]{1,6}\.(?=\s*[a-zA-Z])|\b(?:vs|etc|Inc|Ltd|Corp|Jr|Sr)\b")
# What may be handed on, besides letters of all scripts with their marks and spaces: what the ear can tell.
_PUNCTUATION = "，。！？；：、…—,.!?;:'\"“”‘’()（）《》〈〉「」『』【】[]·-"
_SPACES = re.compile(r"[^\S\n]{2,}")
_SPACE_BEFORE = re.compile(r"\s+(?=[,.!?;:，。！？；：、）》”)\]])")
_HAN_SPACE = re.compile(rf"(?<=[{HAN}，。！？；：、])[^\S\n]+(?=[{HAN}，。！？；：、])")
_PHRASES = re.compile(rf"(?<=[{HAN}]{{2}}) +(?=[{HAN}]{{2}})")  # where Chinese is typed with spaces, they are pauses
_COMMAS = re.compile(r"[，,](?:\s*[，,])+")
_FOREIGN_WORDS = {
    "German": "der die das und ist nicht ein eine ich wir sie mit auf für von den dem zu im es sind war auch wird",
    "French": "le la les des une est et pas vous nous je que qui dans pour sur avec sont ce cette être au aux du",
    "Spanish": "el los las una es y no que en por para con del se está son como más pero muy también",
    "Italian": "il gli una è e non che di per con sono della nel questo più anche molto ciao",
    "Portuguese": "o os as uma é e não que em por para com do da são mais também você muito",
}
_FOREIGN = {name: frozenset(words.split()) for name, words in _FOREIGN_WORDS.items()}
_ENGLISH_WORDS = (
    "the a an and is are was were of to in on at for with it this that he she they we"
    " you i not be have has as by or from"
)
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_SCRIPTS = (
    ("Japanese", re.compile("[\u3040-\u30ff]")),
    ("Korean", re.compile("[\u1100-\u11ff\uac00-\ud7af]")),
    ("Cyrillic", re.compile("[\u0400-\u04ff]")),
    ("Arabic", re.compile("[\u0600-\u06ff]")),
    ("Hebrew", re.compile("[\u0590-\u05ff]")),
    ("Greek", re.compile("[\u0370-\u03ff]{3}")),
    ("Thai", re.compile("[\u0e00-\u0e7f]")),
    ("Devanagari", re.compile("[\u0900-\u097f]")),
)


def speakable(text: str) -> bool:
    """Whether there is anything in it that has a sound: a letter, a digit, or a sign with a name between such."""
    return any(char.isalnum() for char in fold(visible(text)))


def decide(text: str, default: Language = "zh") -> Language:
    """The language whose number words fit: Chinese unless Latin words clearly carry the sentence.

    `default` is for text that has neither, such as a line of figures.
    """
    han = len(_CHINESE.findall(text))
    words = _LATIN_WORD.findall(text)
    if not han:
        return "en" if words else default
    grammar = any(word.lower() in _ENGLISH for word in words)  # names alone do not make a sentence English
    return "en" if len(words) > han * (1 if grammar else 2) else "zh"


def foreign(text: str) -> str | None:
    """The name of the language or script of a text that is neither Chinese nor English, else None."""
    for name, script in _SCRIPTS:
        if len(script.findall(text)) > len(_HAN.findall(text)):
            return name
    words = [word.lower() for word in re.findall(r"[^\W\d_]+", text)]
    if not words or _HAN.search(text):
        return None
    english = sum(word in _ENGLISH for word in words)
    accented = sum(not word.isascii() for word in words)
    name, hits = max(
        ((name, sum(w in known for w in words)) for name, known in _FOREIGN.items()), key=lambda pair: pair[1]
    )
    if hits > english and hits + accented > 1 and hits * 5 >= len(words):
        return name
    if accented > english and accented * 4 >= len(words) and len(words) > 2:
        return "German" if re.search("[ßÄÖÜäöü]", text) else "another language"
    return None


def normalize(text: str, *, language: str | None = None) -> str:
    """A sentence or more as it is spoken, without digits and signs. Never raises."""
    text = without_tokens(fold(visible(text)))
    chosen: Language = "en" if language == "en" else "zh" if language == "zh" else decide(text)
    return "".join(_read(part, chosen) for part in _parts(text)).strip()


def _parts(text: str) -> list[str]:
    """The text in parts of bounded length, cut at line ends or spaces where there are any."""
    if len(text) <= _PART:
        return [text]
    parts = []
    start = 0
    while start < len(text):
        end = min(start + _PART, len(text))
        if end < len(text):
            end = (
                max(text.rfind("\n", start, end), text.rfind(" ", start, end), text.rfind("。", start, end)) + 1 or end
            )
            end = end if end > start else start + _PART
        parts.append(text[start:end])
        start = end
    return parts


def _read(text: str, language: Language) -> str:
    text = _PHRASES.sub("，", written_out(text))
    if language == "en" and (_TO_READ.search(text) or _SHORTENED.search(text)):
        from cosycli.text import rules_en  # the rules are loaded when there is something to read

        text = rules_en.read(text)
    elif language == "zh" and _TO_READ.search(text):
        from cosycli.text import rules_zh

        text = rules_zh.read(text)
    return _tidy(lowered(text))


def _tidy(text: str) -> str:
    """Only letters and punctuation with a meaning remain; no digit does."""
    if not text.isascii() or re.search(r"[^A-Za-z ,.!?']", text):
        text = "".join(char if _stays(char) else _instead(char) for char in text)
        text = re.sub(r"(?<![^\W\d_])-+|-+(?![^\W\d_])", " ", text)
        text = _COMMAS.sub(lambda m: m[0][0], text)
    text = _SPACE_BEFORE.sub("", _SPACES.sub(" ", text))
    return _HAN_SPACE.sub("", text)


def _stays(char: str) -> bool:
    return char.isalpha() or char in _PUNCTUATION or char in " \n" or unicodedata.category(char) in ("Mn", "Mc")


def _instead(char: str) -> str:
    """A digit that every rule has missed is said by itself; any other sign is a gap."""
    if char == "〇":
        return "零"
    if char.isdecimal():
        return zh_digits(str(unicodedata.decimal(char)))
    return " "
