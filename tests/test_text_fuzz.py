"""Random text through everything: nothing raises, nothing hangs, no digit or token comes out."""

from __future__ import annotations

import random
import re

import pytest

from cosycli.text.clean import Cleaner, clean
from cosycli.text.cut import cost
from cosycli.text.normalize import normalize
from cosycli.text.segment import HARD_COST, segments

COUNT = 10_000
SEED = 20261201

ALPHABETS = (
    "你好世界今天天气不错他说第年月日元个", "abcdefgXYZ", "0123456789",
    "#@*/%&+-×÷＋＝=<>|~^_`[](){}!\\$",
    "。！？，、；：…—“”‘’「」《》（）",
    "\x00\x07\u200b\u202e\ufeff\ue000\ue001\ue002\ud83d\udc00\ufffd\u0301\U000f0000",
    "😀👍🏽🇨🇳👨‍👩‍👧❤️", "\n \t\r\u3000\u2028", "éüßñÅабвあいう한국עבעاب٣٤", "¥$€£℃°²½Ⅳ①㎡→↑≥‰",
)  # fmt: skip
TOKENS = (
    "http://a.b/c?d x@y.com <break_time='1s'/> <|endofprompt|> ``` ** 2026-03-07 12:30 1,000.50 -5 50% [a](b) ![i](j)"
    " <b> &amp; |a| --- # - 1. v1.2.3 10.0.0.1 $5.5M 5kg 3-4 1/0 0/0 99999999999999999999999 1:2:3 HELLO <!-- <script>"
).replace("_", " ")
WORDS = [*TOKENS.split(" "), "<break time='1s'/>", "| a | b |\n|---|---|\n", "\n# ", "\n- ", "\n```\n", "\n\n"]


def mixed(chance: random.Random) -> str:
    """A string of scraps of everything."""
    scraps = []
    for _ in range(chance.randint(1, 20)):
        if chance.random() < 0.25:
            scraps.append(chance.choice(WORDS))
        else:
            scraps.append("".join(chance.choices(chance.choice(ALPHABETS), k=chance.randint(1, 4))))
    return "".join(scraps)


def run_of_one(chance: random.Random) -> str:
    """The same character, or two in turn, many times over."""
    return "".join(chance.choices("".join(ALPHABETS), k=chance.randint(1, 2))) * chance.randint(50, 300)


def signed_number(chance: random.Random) -> str:
    """TN-16's kind: a sign, then up to four digits."""
    return chance.choice("#@*/%&+-×÷＋＝") + "".join(chance.choices("0123456789", k=chance.randint(1, 4)))


def quotes_and_ends(chance: random.Random) -> str:
    """SG-08's kind: enders, quotes and spaces around a letter or two."""
    return "".join(chance.choices('。！？”" 你a1', k=chance.randint(1, 6)))


def strings(count: int) -> list[str]:
    """The texts of the test: the same every time."""
    chance = random.Random(SEED)
    kinds = (mixed,) * 11 + (signed_number,) * 4 + (quotes_and_ends,) * 4
    texts = [chance.choice(kinds)(chance) for _ in range(count - count // 100)]
    return texts + [run_of_one(chance) for _ in range(count // 100)]


@pytest.mark.parametrize("part", range(4))
def test_no_text_raises(part: int) -> None:
    """10,000 strings of mixed scripts, symbols and control characters pass through all of text processing."""
    for text in strings(COUNT)[part::4]:
        said = "".join(sentence.text for sentence in segments(text))
        assert not re.search("[0-9<>|\ud800-\udfff\ue000-\uf8ff\ufffd]", said), repr(text)


def test_no_segment_of_random_text_is_too_long() -> None:
    """Whatever the text, what the model is given at a time stays under its limit."""
    chance = random.Random(SEED)
    for text in ["".join(mixed(chance) for _ in range(40)) for _ in range(40)]:
        assert all(cost(sentence.text) <= HARD_COST for sentence in segments(text)), repr(text)


def test_pieces_of_random_text_clean_like_the_whole() -> None:
    """Cleaning does not depend on where the pieces of a text end."""
    chance = random.Random(SEED)
    for text in [mixed(chance) for _ in range(1500)]:
        whole, parts = Cleaner(), Cleaner()
        expected = whole.feed(text) + whole.finish()
        assert "".join(map(parts.feed, text)) + parts.finish() == expected, repr(text)


UNITS = [
    "(", "*", "[", "1", "<", " ", "`", "_", "&", "#", "=", "~", ":", ".", "|", "-", "a.", "1/", "1,", "½", "http://",
    "a@", "![", "](", "\n", "<!--", "**a ", "0 ", "。", "A",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.timeout(60)
def test_runs_of_one_unit_end(unit: str) -> None:
    """100 KB of one character or mark must not send a pattern into backtracking; minutes would be hours."""
    text = unit * (100_000 // len(unit))
    clean(text)
    normalize(text[:5_000])
    normalize(text[:5_000], language="en")
    for _ in segments(text[:5_000]):
        pass
