"""English reading of everything that is not a plain word, as an ordered table of rules.

All of it is ours: wetext's English grammar loses the "one" of 1,200, reads 1990s as seconds and takes
0.13 s to load. Latin text in a language other than English is read by the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cosycli.text import shapes
from cosycli.text.numbers import MAX_CARDINAL, en_cardinal, en_clock, en_digits, en_number, en_ordinal, en_year
from cosycli.text.shapes import ALONE, NUMBER, scaled, trimmed
from cosycli.text.units import CURRENCIES, ONE_LETTER_IS_UNIT, PER, SIGNS, UNITS, pattern, plural

Match = re.Match[str]
Rule = tuple[re.Pattern[str], str | Callable[[Match], str]]

_MONTHS = "January February March April May June July August September October November December".split()
_MONTH = r"(?:Jan(?:uary|\.)?|Feb(?:ruary|\.)?|Mar(?:ch|\.)?|Apr(?:il|\.)?|May|June?|July?|Aug(?:ust|\.)?|Sept?(?:ember|\.)?|Oct(?:ober|\.)?|Nov(?:ember|\.)?|Dec(?:ember|\.)?)"
_FULL_MONTH = {name[:3]: name for name in _MONTHS}
_SCALES = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "t": "trillion"}


# --- addresses, versions -------------------------------------------------------------------------


def _said_address(text: str) -> str:
    text = re.sub(r"\d+", lambda m: f" {en_digits(m[0])} ", text)
    text = text.replace(".", " dot ").replace("_", " underscore ").replace("-", " dash ").replace("+", " plus ")
    return re.sub(" {2,}", " ", text).strip()


def _email(m: Match) -> str:
    return f"{_said_address(m[1])} at {_said_address(m[2])}"


def _domain(m: Match) -> str:
    return _said_address(m[0])


def _dotted(m: Match) -> str:
    return " dot ".join(shapes.NAME.sub(_name, part).replace("_", " ") for part in m[0].split("."))


def _short(part: str) -> str:
    """A part of an address or version: up to two digits as a number."""
    return en_cardinal(part) if len(part) < 3 else en_digits(part)


def _ip(m: Match) -> str:
    port = f" port {en_digits(m[2])}" if m[2] else ""
    return " dot ".join(map(_short, m[1].split("."))) + port + (f" slash {en_cardinal(m[3])}" if m[3] else "")


def _version(m: Match) -> str:
    stage = f" {m[3]} {en_cardinal(m[4]) if m[4] else ''}" if m[3] else ""
    return ("version " if m[1] else "") + " point ".join(map(_short, m[2].split("."))) + stage


# --- dates and times -----------------------------------------------------------------------------


def _date(m: Match) -> str:
    if not shapes.is_date(m[3], m[4]):
        return m[0]
    return f"{_MONTHS[int(m[3]) - 1]} {en_ordinal(m[4])}, {en_year(m[1])} "


def _month(m: Match) -> str:
    return f"{_MONTHS[int(m[3]) - 1]} {en_year(m[1])}"


def _us_date(m: Match) -> str:
    """3/14/2024; where the first cannot be a month, it is the day."""
    month, day = (m[1], m[2]) if int(m[1]) <= 12 else (m[2], m[1])
    if not shapes.is_date(month, day):
        return m[0]
    return f"{_MONTHS[int(month) - 1]} {en_ordinal(day)}, {en_year(m[3])}"


def _month_day(m: Match) -> str:
    name = _FULL_MONTH[m[1][:3]]
    until = f" to {en_ordinal(m[3])}" if m[3] else ""
    year = f", {en_year(m[4])}" if m[4] else ""
    return f"{name} {en_ordinal(m[2])}{until}{year}"


def _day_month(m: Match) -> str:
    year = f" {en_year(m[3])}" if m[3] else ""
    return f"{en_ordinal(m[1])} of {_FULL_MONTH[m[2][:3]]}{year}"


def _month_year(m: Match) -> str:
    return f"{_FULL_MONTH[m[1][:3]]} {en_year(m[2])}"


def _clock(m: Match) -> str:
    hour, minute = m[1], m[2]
    half = f" {m[4].upper()} M" if m[4] else ""
    if m[3] and not half:
        return f"{en_clock(hour, minute)} and {_counted(str(int(m[3])), 'second')}"
    if half and not int(minute):
        return en_cardinal(hour) + half
    return en_clock(hour, minute) + half


def _hour(m: Match) -> str:
    return f"{en_cardinal(m[1])} {m[2].upper()} M"


def _decade(m: Match) -> str:
    year = m[1] or ""
    words = en_year(year + m[2]) if year else en_cardinal(m[2])
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def _year(m: Match) -> str:
    return en_year(m[0])


def _years(m: Match) -> str:
    return f"{en_year(m[1])} to {en_year(m[2])}"


# --- telephone numbers, money, percent -----------------------------------------------------------


def _phone(m: Match) -> str:
    sign = "plus " if m[0].startswith("+") else ""
    return sign + ", ".join(en_digits(group) for group in re.findall(r"\d+", m[0]))


def _long(m: Match) -> str:
    digits = m[0]
    if digits[0] != "0" and digits.endswith("000") and len(digits) <= MAX_CARDINAL:
        return en_cardinal(digits)
    return en_digits(digits)


def _counted(number: str, unit: str) -> str:
    """A number and its unit, in the plural but for one."""
    return f"{en_number(number)} {unit if number.lstrip('+-') == '1' else plural(unit)}"


def _money(m: Match) -> str:
    sign = "minus " if m["sign"] else ""
    _, major, minor = CURRENCIES[m["currency"]]
    number, scale = m["number"].replace(",", ""), m["scale"] or ""
    if scale:
        return f"{sign}{en_number(trimmed(number))} {_SCALES.get(scale.lower(), scale)} {plural(major)}"
    whole, _, part = number.partition(".")
    if len(part) != 2 or not minor:
        return sign + _counted(trimmed(number), major)
    cents = _counted(str(int(part)), minor) if int(part) else ""
    if not int(whole) and cents:
        return sign + cents
    return sign + _counted(whole, major) + (f" and {cents}" if cents else "")


def _money_range(m: Match) -> str:
    high = f"{m['currency']}{m['high']}{m['scale'] or ''}"
    said = apply(high, ((_MONEY, _money),))
    scale = _SCALES.get((m["scale"] or "").lower(), m["scale"] or "")
    return f"{en_number(trimmed(m['low']))}{' ' + scale if scale else ''} to {said}"


def _money_after(m: Match) -> str:
    return apply(f"{m[2]}{m[1]}", ((_MONEY, _money),))


def _percent(m: Match) -> str:
    sign = {"%": "percent", "‰": "per thousand", "‱": "per ten thousand"}[m["sign"]]
    low = f"{en_number(m['low'])} to " if m["low"] else ""
    return f"{low}{en_number(m['high'])} {sign}"


# --- ranges, units, fractions, names -------------------------------------------------------------


def _range(m: Match) -> str:
    low, dash, high = m[1], m[2], m[3]
    if re.match(r"\s*=", m.string[m.end() :]):
        return f"{low} minus {high}"
    return f"{low} to {high}"


def _score(m: Match) -> str:
    return f"{m[1]}{en_cardinal(m[2])} to {en_cardinal(m[3])}"


def _unit(m: Match) -> str:
    unit = m["unit"]
    if len(unit) == 1 and unit.isalpha() and unit.isascii() and unit not in ONE_LETTER_IS_UNIT["en"]:
        return m[0]
    said = _counted(m["number"], UNITS[unit][1])
    return said + (f" per {_per(m['per'])}" if m["per"] else "")


def _per(per: str) -> str:
    return PER[per][1] if per in PER else UNITS[per][1]


def _fraction(m: Match) -> str:
    top, bottom = m[1], m[2]
    if (top, bottom) in (("24", "7"), ("9", "11"), ("50", "50")) or int(bottom) < 2 or int(top) > int(bottom):
        return f"{en_cardinal(top)} {'slash ' if int(bottom) < 2 else '' if top in ('24', '9', '50') else 'over '}{en_cardinal(bottom)}"
    return _parts(top, bottom)


def _parts(top: str, bottom: str) -> str:
    name = {"2": "half", "4": "quarter"}.get(bottom, en_ordinal(bottom))
    if int(top) == 1:
        return f"one {name}"
    return f"{en_cardinal(top)} " + ("halves" if name == "half" else name + "s")


def _mixed(m: Match) -> str:
    part = _parts(m[2], m[3])
    return f"{en_cardinal(m[1])} and {'a' + part[3:] if part.startswith('one ') else part}"


def _name(m: Match) -> str:
    """The digits of a name: two are a number, more are read in pairs or one by one (RTX 4090)."""
    parts = [_name_part(part) for part in shapes.NAME_PARTS.findall(m[0])]
    return re.sub(" {2,}", " ", " ".join(parts)).strip()


def _name_part(part: str) -> str:
    if not part[0].isdigit():
        return "" if part in "-_" else part
    whole, dot, decimals = part.partition(".")
    short = len(whole) < 3 or (len(whole) == 3 and whole.endswith("00"))
    plain = whole[0] != "0" or whole == "0"
    if len(whole) == 4 and plain and not dot and whole[1:] != "000":
        return en_year(whole) if whole[2] != "0" or whole.endswith("00") else en_digits(whole)
    said = en_cardinal(whole) if short and plain else en_digits(whole)
    return said + (" point " + en_digits(decimals) if dot else "")


def _scaled_name(m: Match) -> str:
    return f"{en_number(m[1])} {_SCALES[m[2].lower()]}"


def _plain(m: Match) -> str:
    number = m[0]
    if re.fullmatch(r"0\d+", number):
        return en_digits(number)
    return en_number(number)


def _power(m: Match) -> str:
    return {"2": " squared", "3": " cubed"}.get(m[1], f" to the power of {en_number(m[1])}")


_CURRENCY = pattern(CURRENCIES)
_UNIT = pattern(UNITS)
_SCALE = r"(?:\s?(?P<scale>[kKMBT](?![A-Za-z])|bn\b|million|billion|trillion|thousand))?"
_DASH = r"\s?(~+|-|—{1,2}|–|--)\s?"
_SIGNED = rf"(?:(?<![\w)])[+-])?{NUMBER}"
_PER = pattern({key: "" for key in (*PER, *UNITS) if key[0].isalpha()})
_MONEY = re.compile(rf"(?P<sign>(?<![\w)])-)?(?P<currency>{_CURRENCY})\s?(?P<number>{NUMBER}){_SCALE}")
_YEAR = r"(?:1[1-9]|20)\d\d"
_YEAR_CUE = r"(?:[Ii]n|[Ss]ince|[Ff]rom|[Uu]ntil|[Bb]efore|[Aa]fter|[Dd]uring|[Bb]y|[Oo]f|[Yy]ear|[Cc]irca|[Ee]arly|[Ll]ate|[Mm]id|(?:[Ss]pring|[Ss]ummer|[Aa]utumn|[Ff]all|[Ww]inter)(?: of)?)"

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
    (shapes.EMAIL, _email),
    (shapes.IP, _ip),
    (shapes.DOMAIN, _domain),
    (re.compile(r"(?<![A-Za-z])(localhost):(\d{1,5})"), lambda m: f"{m[1]} port {en_digits(m[2])}"),
    (shapes.DATE, _date),
    (shapes.VERSION, _version),
    (shapes.DOTTED, _dotted),
)

FIRST: tuple[Rule, ...] = (
    (re.compile(r"(?<![\d/.-])(\d{1,2})/(\d{1,2})/((?:19|20)\d\d)(?![\d/])"), _us_date),
    (shapes.MONTH, _month),
    (re.compile(rf"\b({_MONTH})\s(\d{{1,2}})(?:st|nd|rd|th)?(?:\s?[-–~]\s?(\d{{1,2}})(?:st|nd|rd|th)?)?(?:,?\s({_YEAR}))?(?![\d:.]*\d)"), _month_day),
    (re.compile(rf"(?<![\d.,:/-])(\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?({_MONTH})(?:,?\s({_YEAR}))?(?![\w])"), _day_month),
    (re.compile(rf"\b({_MONTH}),?\s({_YEAR})(?!\d|[.,]\d)"), _month_year),
    (shapes.CLOCK, _clock),
    (shapes.HOUR, _hour),
    (shapes.RATIO, lambda m: f"{en_number(m[1])} to {en_number(m[2])}"),
    (re.compile(r"(?<![\w.])'?((?:1[1-9]|20)?)(\d0)'?s(?![A-Za-z])"), _decade),
    (re.compile(rf"(?<![\d.-])({_YEAR})\s?[-–—~]\s?({_YEAR})(?![\d-])"), _years),
    (re.compile(r"(?<![\w+])\+\d{1,3}[- ]?(?:\(\d{1,4}\)[- ]?)?\d{2,4}(?:[- ]?\d{2,4}){1,3}(?![\d.])"), _phone),
    (re.compile(r"(?<![\w-])(?:1-)?(?:\(\d{3}\)\s?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\d.-])"), _phone),
    (re.compile(r"(?<![\w.-])\d{3}-\d{4}(?![\w-])"), _phone),
    (re.compile(r"(?<![\d.,-])\d{2,}(?:-\d{2,}){2,6}(?![\d-])"), _phone),
    (re.compile(r"(?<![\w.,])\d{9,}(?![\d.])"), _long),
    (re.compile(rf"(?P<currency>{_CURRENCY})\s?(?P<low>{NUMBER})\s?[-~—–]\s?(?:{_CURRENCY})?(?P<high>{NUMBER}){_SCALE}"), _money_range),
    (_MONEY, _money),
    (re.compile(rf"{ALONE}({NUMBER}(?:\s?[kKMB](?![A-Za-z]))?)\s?({_CURRENCY})(?![A-Za-z\d])"), _money_after),
    (re.compile(rf"(?<![\d.,A-Za-z])(?:(?P<low>{_SIGNED})[%‰]?{_DASH})?(?P<high>{_SIGNED})\s?(?P<sign>[%‰‱])"), _percent),
)

SECOND: tuple[Rule, ...] = (
    (re.compile(r"((?:[Ww]on|[Ll]ost|[Bb]eat|[Ll]ead|[Ll]ed|[Ss]core|[Vv]ictory|[Dd]efeat)(?: \w+){0,4}? )(\d{1,3})-(\d{1,3})(?![\d-])"), _score),
    (re.compile(rf"(?<![\d.,A-Za-z-])({NUMBER}){_DASH}({NUMBER})(?![\d-])(?!\s?-\s?\d)"), _range),
    (re.compile(rf"(?<=\d)\s?({_UNIT})\s?[-~–—]\s?(?=\d)"), lambda m: f" {m[1]} to "),
    (re.compile(r"(?<![\w)])~\s?(?=[\d$€£])"), "about "),
    (re.compile(r"\^\s?([+-]?\d{1,6})"), _power),
    (re.compile(rf"(?<![\w)._])-(?={NUMBER})"), "minus "),
    (re.compile(rf"{ALONE}(?P<number>{NUMBER})[\s-]?(?P<unit>{_UNIT})(?![A-Za-z\d'])(?:/(?P<per>{_PER})(?![A-Za-z\d]))?"), _unit),
    (re.compile(rf"(?<=[a-z])/({_PER})(?![A-Za-z])"), lambda m: f" per {_per(m[1])}"),
    (re.compile(r"(?<![\d.A-Za-z])(\d{1,15})(?:st|nd|rd|th)(?![A-Za-z])", re.I), lambda m: en_ordinal(m[1])),
    (re.compile(r"(?<![A-Za-z])(?:Nos?|NO)\.\s?(?=\d)"), "number "),
    (re.compile(r"#\s?(?=\d)"), "number "),
    (shapes.MIXED, _mixed),
    (shapes.FRACTION, _fraction),
    (shapes.BUSINESS, lambda m: f"{m[1]} to {m[2]}"),
    (re.compile(r"(\d)\s?[xX]\s?(?=\d)"), r"\1 by "),
    (re.compile(r"(?<=\d)[xX](?![A-Za-z\d])"), " times"),
    (re.compile(r"(?<![\w.,])([2-8])K(?![\w])"), lambda m: f"{en_cardinal(m[1])} K"),  # 4K is a resolution
    (re.compile(r"(?<![\w.,])(\d{1,3}(?:\.\d{1,2})?)([kKMB])(?![\w])"), _scaled_name),
    (shapes.NAME, _name),
    (re.compile(r"(?<=[\w)])²"), " squared"),
    (re.compile(r"(?<=[\w)])³"), " cubed"),
    (re.compile(rf"\b({_YEAR_CUE}) ({_YEAR})(?!\d|[.,]\d)(?! [a-z]+s\b)"), lambda m: f"{m[1]} {en_year(m[2])}"),
    (re.compile(r"(?<![\d.,$])(?:19|20)\d\d(?![\d%]|[.,]\d|\s?[a-z]+s\b|\s(?:people|men|women|children))"), _year),
    (re.compile(r"(\d)\+(?!\s?[\dA-Za-z(])"), r"\1 plus"),
    (re.compile(NUMBER), _plain),
)

_ARROW = re.compile(r"\s?(?:-{1,3}>|={1,2}>|→|⇒|⟶|➝|↦)\s?")
_SIGN = re.compile(pattern(SIGNS))
SIGN_RULES: tuple[Rule, ...] = (
    (_ARROW, " to "),
    (re.compile(r"\s?(?:<-{1,3}|<={2}|←|⇐|↔|⇔)\s?"), ", "),
    (re.compile("↑"), " up "),
    (re.compile("↓"), " down "),
    (_SIGN, lambda m: f" {SIGNS[m[0]][1]} "),
    (re.compile(r"\s?&\s?"), " and "),
    (re.compile(r"(?<![A-Za-z])([CFJcfj])#(?![A-Za-z\d])"), lambda m: m[1].upper() + " sharp"),
    (re.compile(r"(?<![A-Za-z])([A-Za-z]{1,10})\+\+"), r"\1 plus plus"),
    (re.compile(r"(?<=[\w)])\s?\*\s?(?=[\w(])"), " times "),
    (re.compile(r"(?<=[\w)])\s?\+\s?(?=[\w(]|$)|\+\s?(?=\w)"), " plus "),
    (re.compile(r"(?:(?<=[\w)])\s?=\s?|\s?=\s?(?=[\w(]))(?!=)"), " equals "),
    (re.compile(r"(?:(?<=[\w)])\s?<\s?|<\s?(?=\d))(?=[\w(-]|$)"), " less than "),
    (re.compile(r"(?:(?<=[\w)])\s?>\s?|>\s?(?=\d))(?=[\w(-]|$)"), " greater than "),
    (re.compile(r"@\s?(?=\w)"), " at "),
    (re.compile(r"\bw/o\b"), "without"),
    (re.compile(r"\bw/\s?"), "with "),
    (re.compile(r"\band/or\b"), "and or"),
    (re.compile(r"(?<=[a-z])\s?/\s?(?=[a-z])"), " or "),
    (re.compile(r"\s-{1,3}\s|\s?[–|]\s|\s?•\s?"), ", "),
)


def apply(text: str, rules: tuple[Rule, ...]) -> str:
    """Apply rules in their order."""
    for form, reading in rules:
        text = form.sub(reading, text)
    return text


def read(text: str) -> str:
    """A sentence or more with every digit and sign in English words."""
    if "." in text or "@" in text or "-" in text or "/" in text or ":" in text:
        text = apply(text, ADDRESSES)
    if re.search(r"\d", text):
        text = apply(apply(text, FIRST), SECOND)
    return apply(_ABBREVIATION.sub(_abbreviation, text), SIGN_RULES)
