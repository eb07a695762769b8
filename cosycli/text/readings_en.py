"""What each kind of number is called in English: one function a kind, from a match to its words.

Knows not when it is asked; that is the rules' part.
"""

from __future__ import annotations

import re

from cosycli.text import shapes
from cosycli.text.forms import Form
from cosycli.text.numbers import MAX_CARDINAL, en_cardinal, en_clock, en_digits, en_number, en_ordinal, en_year
from cosycli.text.shapes import NUMBER, trimmed
from cosycli.text.units import CURRENCIES, ONE_LETTER_IS_UNIT, PER, UNITS, pattern, plural

Match = re.Match[str]

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_FULL_MONTH = {name[:3]: name for name in MONTHS}
_SCALES = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "t": "trillion"}
CURRENCY = pattern(CURRENCIES)
SCALE = r"(?:\s?(?P<scale>[kKMBT](?![A-Za-z])|bn\b|million|billion|trillion|thousand))?"
MONEY = Form(
    "".join({key[0] for key in CURRENCIES}),
    rf"(?P<sign>(?<![\w)])-)?(?P<currency>{CURRENCY})\s?(?P<number>{NUMBER}){SCALE}",
)


# --- addresses, versions -------------------------------------------------------------------------


def said_address(text: str) -> str:
    text = re.sub(r"\d+", lambda m: f" {en_digits(m[0])} ", text)
    text = text.replace(".", " dot ").replace("_", " underscore ").replace("-", " dash ").replace("+", " plus ")
    return re.sub(" {2,}", " ", text).strip()


def email(m: Match) -> str:
    return f"{said_address(m[1])} at {said_address(m[2])}"


def domain(m: Match) -> str:
    return said_address(m[0])


def dotted(m: Match) -> str:
    return " dot ".join(shapes.NAME.sub(name, part).replace("_", " ") for part in m[0].split("."))


def short(part: str) -> str:
    """A part of an address or version: up to two digits as a number."""
    return en_cardinal(part) if len(part) < 3 else en_digits(part)


def ip(m: Match) -> str:
    port = f" port {en_digits(m[2])}" if m[2] else ""
    return " dot ".join(map(short, m[1].split("."))) + port + (f" slash {en_cardinal(m[3])}" if m[3] else "")


def version(m: Match) -> str:
    stage = f" {m[3]} {en_cardinal(m[4]) if m[4] else ''}" if m[3] else ""
    return ("version " if m[1] else "") + " point ".join(map(short, m[2].split("."))) + stage


# --- dates and times -----------------------------------------------------------------------------


def date(m: Match) -> str:
    if not shapes.is_date(m[3], m[4]):
        return m[0]
    return f"{MONTHS[int(m[3]) - 1]} {en_ordinal(m[4])}, {en_year(m[1])} "


def month(m: Match) -> str:
    return f"{MONTHS[int(m[3]) - 1]} {en_year(m[1])}"


def us_date(m: Match) -> str:
    """3/14/2024; where the first cannot be a month, it is the day."""
    month, day = (m[1], m[2]) if int(m[1]) <= 12 else (m[2], m[1])
    if not shapes.is_date(month, day):
        return m[0]
    return f"{MONTHS[int(month) - 1]} {en_ordinal(day)}, {en_year(m[3])}"


def month_day(m: Match) -> str:
    name = _FULL_MONTH[m[1][:3]]
    until = f" to {en_ordinal(m[3])}" if m[3] else ""
    year = f", {en_year(m[4])}" if m[4] else ""
    return f"{name} {en_ordinal(m[2])}{until}{year}"


def day_month(m: Match) -> str:
    year = f" {en_year(m[3])}" if m[3] else ""
    return f"{en_ordinal(m[1])} of {_FULL_MONTH[m[2][:3]]}{year}"


def month_year(m: Match) -> str:
    return f"{_FULL_MONTH[m[1][:3]]} {en_year(m[2])}"


def clock(m: Match) -> str:
    hour, minute = m[1], m[2]
    half = f" {m[4].upper()} M" if m[4] else ""
    if m[3] and not half:
        return f"{en_clock(hour, minute)} and {counted(str(int(m[3])), 'second')}"
    if half and not int(minute):
        return en_cardinal(hour) + half
    return en_clock(hour, minute) + half


def hour(m: Match) -> str:
    return f"{en_cardinal(m[1])} {m[2].upper()} M"


def decade(m: Match) -> str:
    year = m[1] or ""
    words = en_year(year + m[2]) if year else en_cardinal(m[2])
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def year(m: Match) -> str:
    return en_year(m[0])


def years(m: Match) -> str:
    return f"{en_year(m[1])} to {en_year(m[2])}"


# --- telephone numbers, money, percent -----------------------------------------------------------


def phone(m: Match) -> str:
    sign = "plus " if m[0].startswith("+") else ""
    return sign + ", ".join(en_digits(group) for group in re.findall(r"\d+", m[0]))


def long_number(m: Match) -> str:
    digits = m[0]
    if digits[0] != "0" and digits.endswith("000") and len(digits) <= MAX_CARDINAL:
        return en_cardinal(digits)
    return en_digits(digits)


def counted(number: str, unit: str) -> str:
    """A number and its unit, in the plural but for one."""
    return f"{en_number(number)} {unit if number.lstrip('+-') == '1' else plural(unit)}"


def money(m: Match) -> str:
    sign = "minus " if m["sign"] else ""
    _, major, minor = CURRENCIES[m["currency"]]
    number, scale = m["number"].replace(",", ""), m["scale"] or ""
    if scale:
        return f"{sign}{en_number(trimmed(number))} {_SCALES.get(scale.lower(), scale)} {plural(major)}"
    whole, _, part = number.partition(".")
    if len(part) != 2 or not minor:
        return sign + counted(trimmed(number), major)
    cents = counted(str(int(part)), minor) if int(part) else ""
    if not int(whole) and cents:
        return sign + cents
    return sign + counted(whole, major) + (f" and {cents}" if cents else "")


def money_range(m: Match) -> str:
    high = f"{m['currency']}{m['high']}{m['scale'] or ''}"
    said = MONEY.sub(money, high)
    scale = _SCALES.get((m["scale"] or "").lower(), m["scale"] or "")
    return f"{en_number(trimmed(m['low']))}{' ' + scale if scale else ''} to {said}"


def money_after(m: Match) -> str:
    return MONEY.sub(money, f"{m[2]}{m[1]}")


def percent(m: Match) -> str:
    sign = {"%": "percent", "‰": "per thousand", "‱": "per ten thousand"}[m["sign"]]
    low = f"{en_number(m['low'])} to " if m["low"] else ""
    return f"{low}{en_number(m['high'])} {sign}"


# --- ranges, units, fractions, names -------------------------------------------------------------


def span(m: Match) -> str:
    minus = re.match(r"\s*=", m.string[m.end() :])
    return f"{m[1]} {'minus' if minus else 'to'} {m[3]}"


def score(m: Match) -> str:
    return f"{m[1]}{en_cardinal(m[2])} to {en_cardinal(m[3])}"


def unit(m: Match) -> str:
    unit = m["unit"]
    if len(unit) == 1 and unit.isalpha() and unit.isascii() and unit not in ONE_LETTER_IS_UNIT["en"]:
        return m[0]
    said = counted(m["number"], UNITS[unit][1])
    return said + (f" per {per(m['per'])}" if m["per"] else "")


def per(per: str) -> str:
    return PER[per][1] if per in PER else UNITS[per][1]


def fraction(m: Match) -> str:
    top, bottom = m[1], m[2]
    if (top, bottom) in (("24", "7"), ("9", "11"), ("50", "50")):
        return f"{en_cardinal(top)} {en_cardinal(bottom)}"
    if int(bottom) < 2 or int(top) > int(bottom):
        return f"{en_cardinal(top)} over {en_cardinal(bottom)}"
    return parts(top, bottom)


def parts(top: str, bottom: str) -> str:
    name = {"2": "half", "4": "quarter"}.get(bottom, en_ordinal(bottom))
    if int(top) == 1:
        return f"one {name}"
    return f"{en_cardinal(top)} " + ("halves" if name == "half" else name + "s")


def mixed(m: Match) -> str:
    part = parts(m[2], m[3])
    return f"{en_cardinal(m[1])} and {'a' + part[3:] if part.startswith('one ') else part}"


def name(m: Match) -> str:
    """The digits of a name: two are a number, more are read in pairs or one by one (RTX 4090)."""
    parts = [name_part(part) for part in shapes.NAME_PARTS.findall(m[0])]
    return re.sub(" {2,}", " ", " ".join(parts)).strip()


def name_part(part: str) -> str:
    if not part[0].isdigit():
        return "" if part in "-_" else part
    whole, dot, decimals = part.partition(".")
    short = len(whole) < 3 or (len(whole) == 3 and whole.endswith("00"))
    plain = whole[0] != "0" or whole == "0"
    if len(whole) == 4 and plain and not dot and whole[1:] != "000":
        return en_year(whole) if whole[2] != "0" or whole.endswith("00") else en_digits(whole)
    said = en_cardinal(whole) if short and plain else en_digits(whole)
    return said + (" point " + en_digits(decimals) if dot else "")


def scaled_name(m: Match) -> str:
    """10K, 100M; but 7B and 221B keep their letter: a model's size, a house's door."""
    return f"{en_number(m[1])} {'B' if m[2] == 'B' else _SCALES[m[2].lower()]}"


def plain(m: Match) -> str:
    number = m[0]
    if re.fullmatch(r"0\d+", number):
        return en_digits(number)
    return en_number(number)


def scientific(m: Match) -> str:
    return f"{en_number(m[1])} times ten to the power of {en_number(m[2].lstrip('+'))}"


def hexadecimal(m: Match) -> str:
    """Character by character."""
    return " ".join(en_digits(char) or char.upper() for char in m[0])


def power(m: Match) -> str:
    return {"2": " squared", "3": " cubed"}.get(m[1], f" to the power of {en_number(m[1])}")
