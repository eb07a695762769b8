"""English reading of everything that is not a plain word, as an ordered table of rules.

All of it is ours: wetext's English grammar loses the "one" of 1,200, reads 1990s as seconds and takes
0.13 s to load. Latin text in a language other than English is read by the same rules.
"""

from __future__ import annotations

import re

from cosycli.text import readings_en as say
from cosycli.text import shapes
from cosycli.text.forms import Form, Rule, apply
from cosycli.text.numbers import en_cardinal, en_digits, en_number, en_ordinal, en_year
from cosycli.text.shapes import ALONE, NUMBER
from cosycli.text.units import CURRENCIES, PER, SIGNS, UNITS, pattern

Match = re.Match[str]

_MONTH = (
    r"(?:Jan(?:uary|\.)?|Feb(?:ruary|\.)?|Mar(?:ch|\.)?|Apr(?:il|\.)?|May|June?|July?|Aug(?:ust|\.)?"
    r"|Sept?(?:ember|\.)?|Oct(?:ober|\.)?|Nov(?:ember|\.)?|Dec(?:ember|\.)?)"
)
_MONTH_FIRST = "JFMASOND"
_UNIT = pattern(UNITS)
_DASH = r"\s?(~+|-|—{1,2}|–|--)\s?"
_SIGNED = rf"(?:(?<![\w)])[+-])?{NUMBER}"
_MONEY_FIRST = "".join({key[0] for key in CURRENCIES})
_UNIT_FIRST = "".join({key[0] for key in UNITS})
_SIGN_FIRST = "".join({key[0] for key in SIGNS})
_PER = pattern({key: "" for key in (*PER, *UNITS) if key[0].isalpha()})
_YEAR = r"(?:1\d|20)\d\d"
_YEAR_CUE = (
    r"(?i:in|since|from|until|before|after|during|by|of|year|circa|early|late|mid"
    r"|(?:spring|summer|autumn|fall|winter)(?: of)?)"
)

_ABBREVIATIONS = {
    "Mr.": "Mister", "Mrs.": "Missus", "Ms.": "Miz", "Dr.": "Doctor", "Prof.": "Professor", "e.g.": "for example",
    "i.e.": "that is", "etc.": "et cetera", "vs.": "versus", "vs": "versus", "approx.": "approximately",
    "Fig.": "Figure", "fig.": "figure", "Sec.": "Section", "Vol.": "Volume", "Ch.": "Chapter", "Mt.": "Mount",
    "Inc.": "Incorporated", "Ltd.": "Limited", "Corp.": "Corporation", "Jr.": "Junior", "Sr.": "Senior",
    "Gen.": "General", "Sen.": "Senator", "Gov.": "Governor", "Capt.": "Captain", "dept.": "department",
}  # fmt: skip
_ABBREVIATION = re.compile(rf"(?<![\w.])(?:{pattern(_ABBREVIATIONS)})(?![\w.])")


def _abbreviation(m: Match) -> str:
    """An abbreviation in full; the full stop stays where it also ends the text."""
    return _ABBREVIATIONS[m[0]] + ("." if m[0].endswith(".") and not m.string[m.end() :].strip() else "")


ADDRESSES: tuple[Rule, ...] = (
    (shapes.EMAIL, say.email),
    (shapes.IP, say.ip),
    (shapes.DOMAIN, say.domain),
    (Form(":", r"(?<![A-Za-z])(localhost):(\d{1,5})"), lambda m: f"{m[1]} port {en_digits(m[2])}"),
    (shapes.DATE, say.date),
    (shapes.VERSION, say.version),
    (shapes.DOTTED, say.dotted),
)

_RAISED: tuple[Rule, ...] = ((Form("²", r"(?<=[\w)])²"), " squared"), (Form("³", r"(?<=[\w)])³"), " cubed"))

FIRST: tuple[Rule, ...] = (
    (Form("xX", r"(?<![A-Za-z\d])0[xX][0-9A-Fa-f]+(?![A-Za-z\d])"), say.hexadecimal),
    (Form("eE", r"(?<![\d.])(\d(?:\.\d{1,6})?)[eE]([+-]?\d{1,3})(?![\dA-Za-z.])"), say.scientific),
    (Form("'", r"(?<!\d)(\d{1,2})'(\d{1,2})(?:\"|''|”)"), lambda m: f"{en_cardinal(m[1])} foot {en_cardinal(m[2])}"),
    (Form("~", r"(?<![\w)~%])(?<!bout )~\s?(?=[\d$€£¥])"), "about "),
    (Form(",", r"(?<![\d.,])(\d{1,6}),(\d\d)(?=\s?(?:€|EUR|%|km|kg|°))"), r"\1.\2"),  # a decimal comma
    (Form("/", r"(?<![\d/.-])(\d{1,2})/(\d{1,2})/((?:19|20)\d\d)(?![\d/])"), say.us_date),
    (shapes.MONTH, say.month),
    (
        Form(
            _MONTH_FIRST,
            rf"\b({_MONTH})\s(\d{{1,2}})(?:st|nd|rd|th)?(?:\s?[-–~]\s?(\d{{1,2}})(?:st|nd|rd|th)?)?(?:,?\s({_YEAR}))?(?![\d:.]*\d)",
        ),
        say.month_day,
    ),
    (
        Form(
            _MONTH_FIRST, rf"(?<![\d.,:/-])(\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?({_MONTH})(?:,?\s({_YEAR}))?(?![\w])"
        ),
        say.day_month,
    ),
    (Form(_MONTH_FIRST, rf"\b({_MONTH}),?\s({_YEAR})(?!\d|[.,]\d)"), say.month_year),
    (shapes.CLOCK, say.clock),
    (shapes.HOUR, say.hour),
    (shapes.RATIO, lambda m: f"{en_number(m[1])} to {en_number(m[2])}"),
    (Form("s", r"(?<![\w.])'?((?:1[1-9]|20)?)(\d0)'?s(?![A-Za-z])"), say.decade),
    (Form("-–—~", rf"(?<![\d.-])({_YEAR})\s?[-–—~]\s?({_YEAR})(?![\d-])"), say.years),
    (Form("+", r"(?<![\w+])\+\d{1,3}[- ]?(?:\(\d{1,4}\)[- ]?)?\d{2,4}(?:[- ]?\d{2,4}){1,3}(?![\d.])"), say.phone),
    (Form("-. (", r"(?<![\w-])(?:1-)?(?:\(\d{3}\)\s?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\d.-])"), say.phone),
    (Form("-", r"(?<![\w.-])\d{3}-\d{4}(?![\w-])"), say.phone),
    (Form("-", r"(?<![\d.,-])(?:\d{1,20}(?:-\d{1,20}){3,6}|\d{2,20}(?:-\d{2,20}){2})(?![\d-])"), say.phone),
    (Form("", r"(?<![\w.,])\d{9,}(?![\d.])"), say.long_number),
    (
        Form(
            _MONEY_FIRST,
            rf"(?P<currency>{say.CURRENCY})\s?(?P<low>{NUMBER})\s?[-~—–]\s?(?:{say.CURRENCY})?(?P<high>{NUMBER}){say.SCALE}",
        ),
        say.money_range,
    ),
    (say.MONEY, say.money),
    (
        Form(_MONEY_FIRST, rf"{ALONE}({NUMBER}(?:\s?[kKMB](?![A-Za-z]))?)\s?({say.CURRENCY})(?![A-Za-z\d])"),
        say.money_after,
    ),
    (
        Form("%‰‱", rf"(?<![\d.,A-Za-z])(?:(?P<low>{_SIGNED})[%‰]?{_DASH})?(?P<high>{_SIGNED})\s?(?P<sign>[%‰‱])"),
        say.percent,
    ),
)

SECOND: tuple[Rule, ...] = (
    (
        Form("-", r"((?i:won|lost|beat|lead|led|score|victory|defeat)(?: \w+){0,4}? )(\d{1,3})-(\d{1,3})(?![\d-])"),
        say.score,
    ),
    (Form("-~—–", rf"(?<![\d.,A-Za-z-])({NUMBER}){_DASH}({NUMBER})(?![\d-])(?!\s?-\s?\d)"), say.span),
    (Form("-~–—", rf"(?<=\d)\s?({_UNIT})\s?[-~–—]\s?(?=\d)"), lambda m: f" {m[1]} to "),
    (Form("^", r"\^\s?([+-]?\d{1,6})"), say.power),
    (Form("-", rf"(?<![\w)._])-(?={NUMBER})"), "minus "),
    (
        Form(
            _UNIT_FIRST,
            rf"{ALONE}(?P<number>{NUMBER})[\s-]?(?P<unit>{_UNIT})(?![A-Za-z\d'])(?:/(?P<per>{_PER})(?![A-Za-z\d]))?",
        ),
        say.unit,
    ),
    (Form("/", rf"(?<=[a-z])/({_PER})(?![A-Za-z])"), lambda m: f" per {say.per(m[1])}"),
    (Form("tdTD", r"(?<![\d.A-Za-z])(\d{1,15})(?:st|nd|rd|th)(?![A-Za-z])", re.I), lambda m: en_ordinal(m[1])),
    (Form("N", r"(?<![A-Za-z])(?:Nos?|NO)\.\s?(?=\d)"), "number "),
    (Form("#", r"#\s?(?=\d)"), "number "),
    (shapes.MIXED, say.mixed),
    (shapes.FRACTION, say.fraction),
    (shapes.BUSINESS, lambda m: f"{m[1]} to {m[2]}"),
    (Form("xX", r"(\d)\s?[xX]\s?(?=\d)"), r"\1 by "),
    (Form("xX", r"(?<=\d)[xX](?![A-Za-z\d])"), " times"),
    (Form("K", r"(?<![\w.,])([2-8])K(?![\w])"), lambda m: f"{en_cardinal(m[1])} K"),  # 4K is a resolution
    (Form("kKMB", r"(?<![\w.,])(\d{1,3}(?:\.\d{1,2})?)([kKMB])(?![\w])"), say.scaled_name),
    *_RAISED,  # before names, which would swallow it
    (shapes.NAME, say.name),
    (Form("12", rf"\b({_YEAR_CUE}) ({_YEAR})(?!\d|[.,]\d)(?! [a-z]+s\b)"), lambda m: f"{m[1]} {en_year(m[2])}"),
    (Form("12", r"(?<![\d.,$])(?:19|20)\d\d(?![\d%]|[.,]\d|\s?[a-z]+s\b|\s(?:people|men|women|children))"), say.year),
    (Form("+", r"(\d)\+(?!\s?[\dA-Za-z(])"), r"\1 plus"),
    (Form("", NUMBER), say.plain),
)

_ARROW = Form(">→⇒⟶➝↦", r"\s?(?:-{1,3}>|={1,2}>|→|⇒|⟶|➝|↦)\s?")
_SIGN = Form(_SIGN_FIRST, pattern(SIGNS))
SIGN_RULES: tuple[Rule, ...] = (
    (_ARROW, " to "),
    (Form("<←⇐↔⇔", r"\s?(?:<-{1,3}|<={2}|←|⇐|↔|⇔)\s?"), ", "),
    (Form("↑", "↑"), " up "),
    (Form("↓", "↓"), " down "),
    (_SIGN, lambda m: f" {SIGNS[m[0]][1]} "),
    *_RAISED,
    (Form("&", r"\s?&+\s?"), " and "),
    (Form("#", r"(?<![A-Za-z])([CFJcfj])#(?![A-Za-z\d])"), lambda m: m[1].upper() + " sharp"),
    (Form("+", r"(?<![A-Za-z])([A-Za-z]{1,10})\+\+"), r"\1 plus plus"),
    (Form("*", r"(?<=[\w)])\s?\*{1,2}\s?(?=[\w(])"), " times "),
    (Form("+", r"(?<=[\w)])\s?\+\s?(?=[\w(]|$)|\+\s?(?=\w)"), " plus "),
    (Form("=", r"(?:(?<=[\w)])\s?=\s?|\s?=\s?(?=[\w(]))(?!=)"), " equals "),
    (Form("<", r"(?:(?<=[\w)])\s?<\s?|<\s?(?=\d))(?=[\w(-]|$)"), " less than "),
    (Form(">", r"(?:(?<=[\w)])\s?>\s?|>\s?(?=\d))(?=[\w(-]|$)"), " greater than "),
    (Form("@", r"@\s?(?=\w)"), " at "),
    (Form("/", r"\bw/o\b"), "without"),
    (Form("/", r"\bw/\s?"), "with "),
    (Form("/", r"\band/or\b"), "and or"),
    (Form("/", r"(?<=[a-z])\s?/\s?(?=[a-z])"), " or "),
    (Form("-–|•", r"\s-{1,3}\s|\s?[–|]\s|\s?•\s?"), ", "),
)


def read(text: str) -> str:
    """A sentence or more with every digit and sign in English words."""
    if "." in text or "@" in text or "-" in text or "/" in text or ":" in text:
        text = apply(text, ADDRESSES)
    if re.search(r"\d", text):
        text = apply(apply(text, FIRST), SECOND)
    return apply(_ABBREVIATION.sub(_abbreviation, text), SIGN_RULES)
