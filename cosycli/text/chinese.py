"""How a run of Chinese characters is said: words, readings in context, tone sandhi, merged 儿.

Knows neither marks nor other scripts (`pronounce` does), nor how a voice writes the sounds.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources

from cosycli.text.pinyin import is_pinyin
from cosycli.types import Word

__all__ = ["Readings", "is_pinyin", "parse_phrases", "read", "readings", "simplified"]

_LONGEST = 8  # characters of the longest word tried inside another; longer ones are looked up whole
_REACH = 12  # characters around one that its reading may depend on


@dataclass
class Readings:
    """Readings of characters and words.

    `inside` overrides a character within a word that nobody knows, `surnames` one that begins a
    name; `soft` words end in an unstressed syllable.
    """

    chars: dict[str, str]
    words: dict[str, str]
    inside: dict[str, str] = field(default_factory=dict)
    surnames: dict[str, str] = field(default_factory=dict)
    soft: set[str] = field(default_factory=set)

    def knows(self, word: str) -> bool:
        """Whether the word has an entry of its own."""
        return word in self.words or word in self.soft

    def of(self, word: str) -> tuple[str, ...]:
        """A syllable for each character; "" for a character that nobody knows."""
        if self.knows(word) or len(word) == 1:
            return tuple(self._entry(word))
        found: list[str] = []
        parts = _parts_of(word)
        while len(found) < len(word):
            start = len(found)
            tails = (word[start : start + n] for n in range(min(_LONGEST, len(word) - start), 1, -1))
            part = next((t for t in tails if self.knows(t) or t in parts), word[start])
            found += self.of(part) if len(part) > 1 else self._entry(part, within=True)
        return tuple(found)

    def _entry(self, part: str, within: bool = False) -> list[str]:
        if part in self.words:
            sounds = self.words[part].split()
        elif len(part) == 1 and not within:
            sounds = [self.chars.get(part, "")]
        else:
            sounds = [self.inside.get(c) or self.chars.get(c, "") for c in part]
        if part in self.soft and len(part) > 1:
            sounds[-1] = sounds[-1][:-1] + "5"
        return sounds


def _parts_of(word: str) -> set[str]:
    """The shorter words within a word of three characters or more."""
    import rjieba

    return set(rjieba.cut_for_search(word)) - {word} if len(word) > 2 else set()


def parse_phrases(text: str) -> Readings:
    """The hand-written file: its form is told at its top."""
    found = Readings({}, {})
    for line in text.splitlines():
        head, _, rest = line.partition(" ")
        if head == "5:":
            found.soft.update(rest.split())
        elif head in ("+", "S:"):
            into, items = (found.inside if head == "+" else found.surnames), rest.split()
            into.update(zip(items[::2], items[1::2], strict=True))
        elif rest and head != "#":
            (found.chars if len(head) == 1 else found.words)[head] = rest
    return found


def _data(name: str) -> str:
    return resources.files("cosycli").joinpath("data", name).read_text("utf-8")


@lru_cache(maxsize=1)
def hand() -> Readings:
    """The hand-written readings alone."""
    return parse_phrases(_data("phrases.txt"))


@lru_cache(maxsize=1)
def readings() -> Readings:
    """All readings: hand-written ones over generated ones."""
    by_hand = hand()
    chars = {c: s for s, _, group in (line.partition(" ") for line in _data("hanzi.txt").splitlines()) for c in group}
    words = {w: s for w, _, s in (line.partition(" ") for line in _data("words.txt").splitlines())}
    return Readings(
        {**chars, **by_hand.chars}, {**words, **by_hand.words}, by_hand.inside, by_hand.surnames, by_hand.soft
    )


@lru_cache(maxsize=1)
def _contexts() -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for line in _data("contexts.txt").splitlines():
        if line and not line.startswith("#"):
            char, sound, left, right = line.split("\t")
            found.setdefault(char, []).append((sound, left, right))
    return found


# In traditional text 著 is the particle 着 too: 看著. Not where it is "write" or "famous".
_WRITTEN_ZHU = re.compile(r"(?<=[^显顯卓名原论論编編专專巨土昭译譯合遗遺拙所新旧舊])著(?![名作称稱述者书書有录錄])")


@lru_cache(maxsize=1)
def _converter() -> object:
    import opencc

    return opencc.OpenCC("t2s")


def simplified(text: str) -> str:
    """Simplified characters for traditional ones, one for one."""
    text = _WRITTEN_ZHU.sub("着", text)
    converted: str = _converter().convert(text)  # type: ignore[attr-defined]
    if len(converted) != len(text):  # a phrase of another length: character by character instead
        converted = "".join(_converter().convert(c)[:1] or c for c in text)  # type: ignore[attr-defined]
    return converted


@dataclass
class _Syllable:
    text: str
    simple: str
    sound: str
    fixed: bool = False  # the user's lexicon said so

    @property
    def tone(self) -> str:
        return self.sound[-1:]

    def retone(self, tone: str) -> None:
        if not self.fixed and self.sound:
            self.sound = self.sound[:-1] + tone


@dataclass
class _Unit:
    """A word on its way: its part of speech and its syllables."""

    text: str
    simple: str
    tag: str
    syllables: list[_Syllable]
    fixed: bool = False


# A guessed word with one of these is none: 他露, 请系.
_TELLING = frozenset("我你他她它咱谁这那哪的地得着了过在里上下请把被让给和与就都也还又再很太更最不没一个是有")

Pinned = Mapping[tuple[int, int], Sequence[str]]  # (start, end) within the run -> syllables


def read(run: str, pinned: Pinned | None = None) -> list[Word]:
    """The words of a run of characters; `pinned` stretches are said as the lexicon says."""
    pinned = pinned or {}
    simple = simplified(run)
    units = [_unit(run, simple, start, end, tag, pinned) for start, end, tag in _cut(simple, pinned)]
    _phrases(units)
    _in_context(units)
    _particles(units)
    units = _merge_er(units)
    _repeated(units)
    _yi_bu(units)
    _third_tones(units)
    return [Word(u.text, "zh", tuple(s.sound for s in u.syllables if s.sound)) for u in units]


def _cut(simple: str, pinned: Pinned) -> list[tuple[int, int, str]]:
    """Word boundaries with parts of speech; a pinned stretch is a word, whatever it cuts through."""
    import rjieba

    edges = {0, len(simple)} | {edge for span in pinned for edge in span}
    inside = {i for start, end in pinned for i in range(start + 1, end)}
    tags = _starts(rjieba.tag(simple, False))  # words of the dictionary only
    guessed = _starts(rjieba.tag(simple, True))  # and the model's guesses at names: 王小明, but also 里种
    bounds = [*guessed, len(simple)]
    for start, end in itertools.pairwise(bounds):
        if guessed[start][:1] == "n" and not _TELLING.intersection(simple[start:end]):
            inside.update(range(start + 1, end))
    starts = sorted((edges | set(tags)) - (inside - edges))
    return [(a, b, tags.get(a, "n")) for a, b in itertools.pairwise(starts)]


def _starts(tagged: Iterable[tuple[str, str]]) -> dict[int, str]:
    """Where each word starts, and its part of speech."""
    found: dict[int, str] = {}
    at = 0
    for word, tag in tagged:
        found[at] = tag
        at += len(word)
    return found


def _unit(run: str, simple: str, start: int, end: int, tag: str, pinned: Pinned) -> _Unit:
    text, plain = run[start:end], simple[start:end]
    given = pinned.get((start, end))
    if given is not None:
        syllables = [_Syllable(text, plain, sound, fixed=True) for sound in given]
        return _Unit(text, plain, tag, syllables, fixed=True)
    sounds = list(readings().of(plain))
    if tag == "nr" and 1 < len(plain) < 4 and plain[0] in readings().surnames and not readings().knows(plain):
        sounds[0] = readings().surnames[plain[0]]
    return _Unit(text, plain, tag, [_Syllable(*parts) for parts in zip(text, plain, sounds, strict=True)])


def _phrases(units: list[_Unit]) -> None:
    """Hand-written words that the segmentation cut in two or three."""
    words = hand()
    for i in range(len(units)):
        for size in (3, 2):
            group = units[i : i + size]
            joined = "".join(u.simple for u in group)
            if len(group) == size and words.knows(joined) and not any(u.fixed for u in group):
                for syllable, sound in zip((s for u in group for s in u.syllables), readings().of(joined), strict=True):
                    syllable.sound = sound
                for unit in group:
                    unit.tag = f"={unit.tag}"  # settled: context has no say
                break


def _in_context(units: list[_Unit]) -> None:
    """Characters alone are read by what surrounds them, those of an unknown word by the rest of it."""
    run = "".join(u.simple for u in units)
    at = 0
    for unit in units:
        whole = len(unit.simple) == 1
        if not unit.fixed and unit.tag[:1] != "=" and (whole or not readings().knows(unit.simple)):
            for i, syllable in enumerate(unit.syllables):
                left, right = (run[:at], run[at + 1 :]) if whole else (unit.simple[:i], unit.simple[i + 1 :])
                syllable.sound = _contextual(syllable.simple, left, right) or syllable.sound
        at += len(unit.simple)


def _contextual(char: str, left: str, right: str) -> str | None:
    for sound, before, after in _contexts().get(char, ()):
        fits_left = before == "-" or re.search(f"(?:{before.removesuffix('$')})$", left[-_REACH:])
        if fits_left and (after == "-" or re.match(after, right[:_REACH])):
            return sound
    return None


def _particles(units: list[_Unit]) -> None:
    """得 is "must" where no verb stands before it; 地 makes an adverb of what stands before it."""
    for i, unit in enumerate(units):
        if unit.fixed or unit.tag[:1] == "=":
            continue
        before = units[i - 1] if i else None
        after = units[i + 1] if i + 1 < len(units) else None
        if unit.simple == "得" and unit.syllables[0].sound == "de5" and after:
            if before is None or before.tag.lstrip("=")[:1] in set("rdtcnfsmq"):
                unit.syllables[0].sound = "dei3"
        elif unit.simple == "地" and before and after and _adverbial(before, after):
            unit.syllables[0].sound = "de5"


def _adverbial(before: _Unit, after: _Unit) -> bool:
    tag, following = before.tag.lstrip("="), after.tag.lstrip("=")
    if len(before.simple) < 2 or following[:1] in "uf":
        return False
    noun = tag[:1] == "n" and tag not in ("nr", "nrt", "ns", "nt")
    return tag[:1] in "dazilobv" or (noun and following[:1] == "v")


# 儿 is a syllable of its own: a child, not a suffix.
_CHILD = re.compile(
    r"(?:女|婴|幼|少|健|孤|胎|宠|弃|患|男|^孩|妻|育|产|生|血|运|潮|能|形|侄|小|乳|寄|我|你|他|她|吾|爱|弱|病|托|娇)$"
)


def _merge_er(units: list[_Unit]) -> list[_Unit]:
    """花儿 is one syllable, huar1; 女儿 is two."""
    joined: list[_Unit] = []
    for unit in units:
        if unit.simple == "儿" and not unit.fixed and joined and _suffix(joined[-1]):
            last = joined.pop()
            syllables = [*last.syllables, *unit.syllables]
            unit = _Unit(last.text + unit.text, last.simple + unit.simple, last.tag, syllables)
        joined.append(unit)
    for unit in joined:
        if not unit.fixed:
            unit.syllables = _merged(unit)
    return joined


def _suffix(before: _Unit) -> bool:
    return not before.fixed and not _CHILD.search(before.simple) and bool(before.syllables[-1].sound)


def _merged(unit: _Unit) -> list[_Syllable]:
    kept: list[_Syllable] = []
    for i, syllable in enumerate(unit.syllables):
        before = kept[-1] if kept else None
        if syllable.simple == "儿" and before and before.sound and not _CHILD.search(unit.simple[:i]):
            suffix = "" if before.sound[:-1].endswith("r") else "r"
            sound = f"{before.sound[:-1]}{suffix}{before.sound[-1]}"
            kept[-1] = _Syllable(before.text + syllable.text, before.simple, sound)
        else:
            kept.append(syllable)
    return kept


def _repeated(units: list[_Unit]) -> None:
    """看看: a verb said twice is unstressed the second time; a third tone before it rises (想想)."""
    for unit in units:
        if len(unit.simple) == 2 and unit.simple[0] == unit.simple[1] and unit.tag.lstrip("=")[:1] == "v":
            first, second = unit.syllables
            if first.tone == "3":
                first.retone("2")
            second.retone("5")


_DIGITS = frozenset("零〇一二三四五六七八九幺两")
_ORDINAL_UNITS = frozenset("月日号楼班等")  # 一月, 一号: January, number one


def _yi_bu(units: list[_Unit]) -> None:
    """一 and 不 change before some tones, not inside numbers, ordinals, or at the end of a word."""
    flat = [(s, j, u) for u in units for j, s in enumerate(u.syllables)]
    for i, (syllable, j, unit) in enumerate(flat):
        before = flat[i - 1][0] if i else None
        after = flat[i + 1][0] if i + 1 < len(flat) else None
        if syllable.simple == "一" and syllable.sound[:2] == "yi":
            ends = j == len(unit.syllables) - 1 and len(unit.syllables) > 1
            syllable.retone(_yi(before, after, ends))
        elif syllable.simple == "不" and after:
            repeated = before is not None and before.simple == after.simple
            syllable.retone("5" if repeated else "2" if after.tone == "4" else "4")


def _yi(before: _Syllable | None, after: _Syllable | None, ends_word: bool) -> str:
    left, right = (before.simple[0] if before else ""), (after.simple[0] if after else "")
    if after is None or (left in _DIGITS | {"十", "第", "百"} and right not in "百千万亿"):
        return "1"
    if before is not None and left == right:  # 看一看
        return "5"
    if (
        right in _DIGITS
        or right in ("十", "一")
        or ends_word
        or (right in _ORDINAL_UNITS and left in ("", "十", "年", "月"))
    ):
        return "1"
    return "2" if after.tone in "45" else "4"


def _third_tones(units: list[_Unit]) -> None:
    """Third tones before third tones rise: within feet of two, and across where a word is one syllable."""
    feet = _feet(units)
    for foot in feet:
        if len(foot) == 2 and foot[0].tone == foot[1].tone == "3":
            foot[0].retone("2")
    lone = {id(u.syllables[0]) for u in units if len(u.syllables) == 1}
    for left, right in itertools.pairwise(feet):
        near = len(left) == 1 or len(right) == 1 or id(left[-1]) in lone or id(right[0]) in lone
        if near and left[-1].tone == right[0].tone == "3":
            left[-1].retone("2")


def _feet(units: list[_Unit]) -> list[list[_Syllable]]:
    """Pairs of third-tone words of one syllable; longer words by their own parts."""
    feet: list[list[_Syllable]] = []
    open_pair = False
    for unit in units:
        lone_third = len(unit.syllables) == 1 and unit.syllables[0].tone == "3"
        if lone_third and open_pair:
            feet[-1].append(unit.syllables[0])
            open_pair = False
        else:
            feet += _parts(unit)
            open_pair = lone_third
    return feet


def _parts(unit: _Unit) -> Iterable[list[_Syllable]]:
    syllables, size = unit.syllables, len(unit.syllables)
    first = 1 if size == 3 and _ends_in_word(unit.simple) else 2
    cuts = [0, *range(first, size, 2), size]
    return [syllables[a:b] for a, b in itertools.pairwise(cuts) if a < b]


def _ends_in_word(word: str) -> bool:
    """纸老虎 is 纸 + 老虎, 展览馆 is 展览 + 馆."""
    parts = _parts_of(word)
    return word[1:] in parts and word[:2] not in parts
