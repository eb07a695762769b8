"""Numbers as words, Chinese and English. Takes digit strings; knows no sentence and no unit."""

from __future__ import annotations

DIGITS = "零一二三四五六七八九"
PHONE_DIGITS = "零幺二三四五六七八九"  # 一 and 七 sound alike on a telephone
_SMALL = ("", "十", "百", "千")
_LARGE = ("", "万", "亿", "万亿", "亿亿")
MAX_CARDINAL = 18  # digits; longer ones are read digit by digit, as nobody can follow the place names

_ONES_LIST = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    " seventeen eighteen nineteen"
)
_ONES = _ONES_LIST.split()
_TENS = ("", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_THOUSANDS = ("", " thousand", " million", " billion", " trillion", " quadrillion")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def zh_digits(digits: str, *, phone: bool = False) -> str:
    """Digit by digit; 1 is 幺 in telephone and room numbers."""
    names = PHONE_DIGITS if phone else DIGITS
    return "".join(names[int(digit)] for digit in digits if digit in "0123456789")


def zh_cardinal(digits: str, *, liang: bool = False) -> str:
    """As a count: 300 → 三百, 1250300 → 一百二十五万零三百; with `liang`, a lone 2 is 两."""
    digits = digits.lstrip("0")
    if not digits:
        return "零"
    if len(digits) > MAX_CARDINAL:
        return zh_digits(digits)
    if digits == "2":
        return "两" if liang else "二"
    words = _zh_groups(digits)
    words = words[1:] if words.startswith("一十") else words
    return "两" + words[1:] if words[0] == "二" and words[1:2] in ("百", "千", "万", "亿") else words


def _zh_groups(digits: str) -> str:
    """Four digits at a time; a gap between groups is 零."""
    out = ""
    gap = False
    groups = (len(digits) + 3) // 4
    padded = digits.zfill(groups * 4)
    for index in range(groups):
        group = padded[index * 4 : index * 4 + 4]
        if not int(group):
            gap = bool(out)
            continue
        part = _zh_group(group)
        if out and (gap or group[0] == "0"):
            part = "零" + part
        elif part.startswith("二千"):
            part = "两" + part[1:]
        out += part + _LARGE[groups - 1 - index]
        gap = False
    return out


def _zh_group(group: str) -> str:
    out = ""
    for place, digit in zip((3, 2, 1, 0), group, strict=True):
        if digit != "0":
            out += DIGITS[int(digit)] + _SMALL[place]
        elif out and not out.endswith("零"):
            out += "零"
    return out.rstrip("零")


def zh_number(number: str, *, liang: bool = False) -> str:
    """A number that may have a sign, grouping commas and decimals: -1,250.50 → 负一千二百五十点五零."""
    sign = "负" if number.startswith("-") else "正" if number.startswith("+") else ""
    whole, _, decimals = number.lstrip("+-").replace(",", "").partition(".")
    words = zh_cardinal(whole, liang=liang and not decimals)
    return sign + words + ("点" + zh_digits(decimals) if decimals else "")


def en_digits(digits: str) -> str:
    """Digit by digit."""
    return " ".join(_ONES[int(digit)] for digit in digits if digit in "0123456789")


def en_cardinal(digits: str) -> str:
    """As a count: 1234 → one thousand two hundred thirty-four."""
    digits = digits.lstrip("0")
    if not digits:
        return "zero"
    if len(digits) > MAX_CARDINAL:
        return en_digits(digits)
    groups = f"{int(digits):,}".split(",")
    parts = [
        _en_group(int(group)) + _THOUSANDS[len(groups) - 1 - index] for index, group in enumerate(groups) if int(group)
    ]
    return " ".join(parts)


def _en_group(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    parts = [f"{_ONES[hundreds]} hundred"] if hundreds else []
    if rest >= 20:
        parts.append(_TENS[rest // 10] + (f"-{_ONES[rest % 10]}" if rest % 10 else ""))
    elif rest:
        parts.append(_ONES[rest])
    return " ".join(parts)


def en_number(number: str) -> str:
    """A number that may have a sign, grouping commas and decimals."""
    sign = "minus " if number.startswith("-") else "plus " if number.startswith("+") else ""
    whole, _, decimals = number.lstrip("+-").replace(",", "").partition(".")
    return sign + en_cardinal(whole) + (" point " + en_digits(decimals) if decimals else "")


def en_ordinal(digits: str) -> str:
    """21 → twenty-first."""
    words = en_cardinal(digits)
    cut = max(words.rfind(" "), words.rfind("-")) + 1
    head, last = words[:cut], words[cut:]
    if last in _ORDINALS:
        return head + _ORDINALS[last]
    return head + (last[:-1] + "ieth" if last.endswith("y") else last + "th")


def en_year(digits: str) -> str:
    """1998 → nineteen ninety-eight, 2005 → two thousand five, 1900 → nineteen hundred, 2024 → twenty twenty-four."""
    century, rest = int(digits[:2]), int(digits[2:])
    if century % 10 == 0 and rest < 10:
        return en_cardinal(digits)
    if not rest:
        return f"{en_cardinal(digits[:2])} hundred"
    return f"{en_cardinal(digits[:2])} {'oh ' if rest < 10 else ''}{en_cardinal(digits[2:])}"


def en_clock(hour: str, minute: str) -> str:
    """8, 05 → eight oh five; 7, 00 → seven o'clock."""
    hours = en_cardinal(hour)
    if not int(minute):
        return hours + " o'clock"
    return hours + (" oh " if minute[0] == "0" else " ") + en_cardinal(minute)
