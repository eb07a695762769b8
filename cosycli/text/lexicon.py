"""The user's own pronunciations: files of `word = how it is said`, and finding them in a text.

# comments
重庆 = chong2 qing4        pinyin with tone digits or accents (chóng qìng)
nginx = engine x           other English words
nginx = /ˈɛnʤən ˈɛks/      the International Phonetic Alphabet
nginx = EH1 N JH AH0 N     ARPABET
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cosycli.errors import UsageError
from cosycli.text.pinyin import is_pinyin, numbered
from cosycli.types import WordKind

_HANZI = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af〇]+")
# ARPABET (as CMUdict writes it) in IPA; a digit after a vowel is its stress.
_ARPABET = {
    "AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "aʊ", "AY": "aɪ", "EH": "ɛ", "ER": "ɜɹ", "EY": "eɪ", "IH": "ɪ",
    "IY": "i", "OW": "oʊ", "OY": "ɔɪ", "UH": "ʊ", "UW": "u", "B": "b", "CH": "ʧ", "D": "d", "DH": "ð", "F": "f",
    "G": "ɡ", "HH": "h", "JH": "ʤ", "K": "k", "L": "l", "M": "m", "N": "n", "NG": "ŋ", "P": "p", "R": "ɹ", "S": "s",
    "SH": "ʃ", "T": "t", "TH": "θ", "V": "v", "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ",
}  # fmt: skip
_REDUCED = {"AH0": "ə", "ER0": "əɹ"}
_STRESS = {"1": "ˈ", "2": "ˌ"}


@dataclass(frozen=True)
class Entry:
    """How a word is said: pinyin syllables for "zh", phonemes for "en"."""

    kind: WordKind
    sounds: tuple[str, ...]


@dataclass(frozen=True)
class Lexicon:
    """Words with their pronunciations; English ones in small letters."""

    entries: Mapping[str, Entry] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, name: str = "lexicon") -> Lexicon:
        """The entries of a text; a line that makes no sense is an error that names it."""
        entries: dict[str, Entry] = {}
        for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
            stripped = re.split(r"(?:^|\s)#", line)[0].strip()
            if stripped:
                word, entry = _entry(stripped, f"{name}:{number}")
                entries[word] = entry
        return cls(entries)

    @classmethod
    def load(cls, path: Path | str) -> Lexicon:
        """The entries of a UTF-8 file."""
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise UsageError(
                f"{path}: cannot read the lexicon: {error.strerror}", "give a file of `word = sounds`"
            ) from None
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise UsageError(f"{path}:{line}: the lexicon is not UTF-8", "save it as UTF-8") from None
        return cls.parse(text, str(path))

    def merged(self, *others: Lexicon) -> Lexicon:
        """These entries and those of the others, which win."""
        entries = dict(self.entries)
        for other in others:
            entries.update(other.entries)
        return Lexicon(entries)

    def matches(self, text: str) -> Iterator[tuple[int, int, Entry]]:
        """Where its words stand in a text, left to right, the longest first; English ones as whole words."""
        if not self.entries:
            return
        by_length = sorted(self.entries, key=len, reverse=True)
        pattern = re.compile("|".join(map(_pattern, by_length)), re.IGNORECASE)
        for match in pattern.finditer(text.replace("’", "'")):
            entry = self.entries.get(match[0]) or self.entries.get(match[0].lower())
            if entry is not None:
                yield match.start(), match.end(), entry


def user_lexicon_path() -> Path:
    """Where the user's own lexicon is looked for; COSY_CONFIG names another folder."""
    folder = os.environ.get("COSY_CONFIG")
    if folder:
        return Path(folder) / "lexicon.txt"
    import platformdirs

    return Path(platformdirs.user_config_dir("cosy")) / "lexicon.txt"


def _pattern(word: str) -> str:
    left = r"(?<![A-Za-z])" if word[0].isascii() else ""
    right = r"(?![A-Za-z])" if word[-1].isascii() else ""
    return f"{left}{re.escape(word)}{right}"


def _entry(line: str, where: str) -> tuple[str, Entry]:
    word, equals, said = (part.strip() for part in line.partition("="))
    if not equals or not word or not said:
        raise UsageError(
            f"{where}: expected `word = pronunciation`, found `{line}`", "for example: 重庆 = chong2 qing4"
        )
    if _HANZI.fullmatch(word):
        return word, Entry("zh", _pinyin(word, said, where))
    if _HANZI.search(word):
        raise UsageError(f"{where}: `{word}` mixes Chinese and other characters", "give each part a line of its own")
    return word.replace("’", "'").lower(), Entry("en", (_phonemes(said, where),))


def _pinyin(word: str, said: str, where: str) -> tuple[str, ...]:
    sounds = tuple(numbered(part) for part in said.split())
    wrong = [part for part, sound in zip(said.split(), sounds, strict=True) if not is_pinyin(sound)]
    if wrong:
        raise UsageError(f"{where}: `{wrong[0]}` is not a pinyin syllable", "write it like chong2 or chóng")
    wanted = len(word) - sum(sound[:-1].endswith("r") and sound[:-1] != "er" for sound in sounds)
    if len(sounds) != wanted:
        raise UsageError(
            f"{where}: `{word}` has {len(word)} characters but {len(sounds)} syllables",
            "write one syllable a character",
        )
    return sounds


def _phonemes(said: str, where: str) -> str:
    """IPA from IPA, ARPABET or other English words."""
    if said.startswith("/"):
        if len(said) < 3 or not said.endswith("/") or not any(c.isalpha() for c in said):
            raise UsageError(f"{where}: `{said}` is not closed by a slash", "write it like /ˈɛnʤən/")
        return said[1:-1].strip()
    parts = said.split()
    if len(parts) > 1 and all(part.rstrip("012") in _ARPABET for part in parts) and re.search("[0-2]", said):
        return "".join(map(_arpabet, parts))
    if not re.fullmatch(r"[A-Za-zÀ-ɏ'’ -]+", said):
        raise UsageError(
            f"{where}: `{said}` is no pronunciation", "write English words, /IPA/ or ARPABET (EH1 N JH AH0 N)"
        )
    from cosycli.text import english

    return " ".join(english.read(parts))


def _arpabet(sound: str) -> str:
    plain = sound.rstrip("012")
    return _STRESS.get(sound[-1], "") + _REDUCED.get(sound, _ARPABET[plain])
