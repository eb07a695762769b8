"""What each kind of number is called in Chinese: one function a kind, from a match to its words.

Knows not when it is asked; that is the rules' part.
"""

from __future__ import annotations

import re

from cosycli.text import shapes
from cosycli.text.numbers import MAX_CARDINAL, zh_cardinal, zh_digits, zh_number
from cosycli.text.shapes import scaled, trimmed
from cosycli.text.units import CURRENCIES, ONE_LETTER_IS_UNIT, PER, UNITS

Match = re.Match[str]

MEASURES = (
    "个人元块次米年月日号天周时分秒度倍项名位条件台辆只家户亩套种篇张本点里斤克吨升步字页场首部道款把份级层座岁瓶碗杯片"
    "轮株头匹艘架门幅枚串双对支枝箱袋包盒批组队届期集章节回趟遍顿声口句行列排多余几万亿千百平公毫厘立美欧英日港"
)


# --- addresses, versions -------------------------------------------------------------------------


def said_address(text: str) -> str:
    """Dots, dashes and digits of an address one by one."""
    text = re.sub(r"\d+", lambda m: zh_digits(m[0]), text)
    return text.replace(".", " 点 ").replace("_", " 下划线 ").replace("-", " 杠 ").replace("+", " 加 ").strip()


def email(m: Match) -> str:
    return f" {said_address(m[1])} 艾特 {said_address(m[2])} "


def domain(m: Match) -> str:
    return f" {said_address(m[0])} "


def dotted(m: Match) -> str:
    parts = [shapes.NAME.sub(name, part) for part in m[0].split(".")]
    return " 点 ".join(part.replace("_", " ") for part in parts)


def ip_part(part: str) -> str:
    return zh_cardinal(part) if len(part) < 3 else zh_digits(part)


def ip(m: Match) -> str:
    port = "冒号" + zh_digits(m[2]) if m[2] else ""
    return "点".join(map(ip_part, m[1].split("."))) + port + ("斜杠" + zh_cardinal(m[3]) if m[3] else "")


def version(m: Match) -> str:
    if m[2].count(".") == 1:
        return m[1].upper() + zh_number(m[2])
    numbers = "点".join(zh_cardinal(part) if len(part) < 3 else zh_digits(part) for part in m[2].split("."))
    stage = f" {m[3]} {zh_cardinal(m[4]) if m[4] else ''}" if m[3] else ""
    return m[1].upper() + numbers + stage


# --- dates and times -----------------------------------------------------------------------------


def date(m: Match) -> str:
    if not shapes.is_date(m[3], m[4]):
        return m[0]
    return f"{zh_digits(m[1])}年{zh_cardinal(m[3])}月{zh_cardinal(m[4])}日"


def month(m: Match) -> str:
    return f"{zh_digits(m[1])}年{zh_cardinal(m[3])}月"


def noon(half: str, hour: int) -> str:
    """What Chinese says before the hour instead of a.m. and p.m. after it."""
    if half.lower() == "a":
        return "凌晨" if hour in (12, 1, 2, 3, 4) else "上午"
    return "中午" if hour == 12 else "下午" if hour < 6 else "晚上"


def clock(m: Match) -> str:
    before = m.string[: m.start()].rstrip()
    if before.endswith(("比分", "比例", "比", "比率")) and not m[3] and not m[4]:
        return f"{zh_cardinal(m[1])}比{zh_cardinal(m[2])}"
    said = (noon(m[4], int(m[1])) if m[4] else "") + zh_cardinal(m[1], liang=True) + "点"
    if int(m[2]):
        said += ("零" if m[2][0] == "0" else "") + zh_cardinal(m[2]) + "分"
    elif m[3] and int(m[3]):
        said += "零分"
    return said + (zh_cardinal(m[3], liang=True) + "秒" if m[3] and int(m[3]) else "")


def hour(m: Match) -> str:
    return noon(m[2], int(m[1])) + zh_cardinal(m[1], liang=True) + "点"


def years(m: Match) -> str:
    return f"{zh_digits(m[1])}到{zh_digits(m[2])}"


# --- telephone numbers, codes --------------------------------------------------------------------


def phone(m: Match) -> str:
    sign = "加" if m[0].lstrip().startswith("+") else ""
    return sign + zh_digits(m[0], phone=True)


def spelled(m: Match) -> str:
    return m[1] + zh_digits(m[2], phone=True)


def long_number(m: Match) -> str:
    """Nine digits and more are an identifier unless they are round or something is counted."""
    digits = m[0]
    following = m.string[m.end() : m.end() + 1]
    if digits[0] != "0" and len(digits) <= MAX_CARDINAL and (digits.endswith("0000") or following in tuple(MEASURES)):
        return zh_cardinal(digits)
    return zh_digits(digits)


def chain(m: Match) -> str:
    """Groups of digits joined by hyphens: an identifier."""
    return "，".join(zh_digits(part, phone=True) for part in re.findall(r"\d+", m[0]))


# --- money, percent, ranges ----------------------------------------------------------------------


def amount(number: str, scale: str) -> str:
    if scale and scale.lower() in ("k", "m", "b", "bn"):
        number, scale = scaled(number, scale), ""
    scale = {"million": "百万", "billion": "十亿", "trillion": "万亿", "thousand": "千"}.get(scale.lower(), scale)
    return zh_number(trimmed(number), liang=bool(scale)) + scale


def money(m: Match) -> str:
    sign = "负" if m["sign"] else ""
    return sign + amount(m["number"], m["scale"] or "") + CURRENCIES[m["currency"]][0]


def money_range(m: Match) -> str:
    low, high = amount(m["low"], ""), amount(m["high"], m["scale"] or "")
    return f"{low}到{high}{CURRENCIES[m['currency']][0]}"


def money_after(m: Match) -> str:
    return amount(m[1], m[2] or "") + CURRENCIES[m[3]][0]


_PARTS = {"%": "百分之", "‰": "千分之", "‱": "万分之"}


def percent(m: Match) -> str:
    return "".join(
        part_of(number, m["sign"]) + joint for number, joint in ((m["low"], "到"), (m["high"], "")) if number
    )


def part_of(number: str, sign: str) -> str:
    minus = "负" if number[0] in "-负" else "正" if number[0] == "+" else ""
    number = number.lstrip("+-负")
    return minus + _PARTS[sign] + ("百" if number == "100" and sign == "%" else zh_number(number))


def span(m: Match) -> str:
    """A hyphen between numbers: to, or in a score, or minus."""
    low, dash, high = m[1], m[2], m[3]
    if re.match(r"\s*[=＝]", m.string[m.end() :]):
        return f"{low}减{high}"
    if (
        "-" in dash
        and float(low.replace(",", "")) >= float(high.replace(",", ""))
        and not m.string[: m.start()].endswith("第")
    ):
        return f"{zh_number(low)}比{zh_number(high)}"
    return f"{low}到{high}"


def score(m: Match) -> str:
    return f"{m[1]}{zh_cardinal(m[2])}比{zh_cardinal(m[3])}"


# --- units, fractions, names ---------------------------------------------------------------------


def unit(m: Match) -> str:
    unit = m["unit"]
    if len(unit) == 1 and unit.isalpha() and unit.isascii() and unit not in ONE_LETTER_IS_UNIT["zh"]:
        return m[0]
    liang = unit not in ("°",) and not m.string[: m.start()].endswith(("第", "到"))
    said = zh_number(m["number"], liang=liang) + UNITS[unit][0]
    return said + ("每" + per(m["per"]) if m["per"] else "")


def per(per: str) -> str:
    return PER[per][0] if per in PER else UNITS[per][0]


def fraction(m: Match) -> str:
    top, bottom = m[1], m[2]
    if (top, bottom) == ("24", "7"):
        return "二十四小时"
    if len(top) > 2 < len(bottom):
        return f"{zh_digits(top)}，{zh_digits(bottom)}"
    if int(bottom) < 2 or int(top) > int(bottom):
        return f"{zh_cardinal(top)}比{zh_cardinal(bottom)}"
    return f"{zh_cardinal(bottom)}分之{zh_cardinal(top)}"


def mixed(m: Match) -> str:
    return f"{zh_cardinal(m[1])}又{zh_cardinal(m[3])}分之{zh_cardinal(m[2])}"


def name(m: Match) -> str:
    """The digits of a name: two are a number, more are read one by one (iPhone15, RTX4090)."""
    return "".join(name_part(part) for part in shapes.NAME_PARTS.findall(m[0]))


def name_part(part: str) -> str:
    if not part[0].isdigit():
        return " " if part in "-_" else part
    whole, dot, decimals = part.partition(".")
    short = len(whole) < 3 or (len(whole) == 3 and whole.endswith("00"))
    said = zh_cardinal(whole) if short and (whole[0] != "0" or whole == "0") else zh_digits(whole)
    return said + ("点" + zh_digits(decimals) if dot else "")


def plate(m: Match) -> str:
    return m[1] + re.sub(r"\d", lambda d: zh_digits(d[0]), m[2].replace("·", ""))


def plus(m: Match) -> str:
    """100+ is more than a hundred; 18+ is not."""
    return m[1] + ("多" if m[1].endswith("0") and len(m[1]) > 1 else "加")


def ordinal(m: Match) -> str:
    return "第" + (zh_cardinal(m[1]) if len(m[1]) < 6 and m[1][0] != "0" else zh_digits(m[1]))


def scientific(m: Match) -> str:
    return f"{zh_number(m[1])}乘十的{zh_number(m[2]).replace('正', '')}次方"


def primes(m: Match) -> str:
    """Minutes and seconds, or feet and inches of a height."""
    major, minor = ("英尺", "英寸") if m.string[: m.start()].rstrip("是为约：: ").endswith("高") else ("分", "秒")
    return zh_cardinal(m[1]) + major + zh_cardinal(m[2]) + minor


def hexadecimal(m: Match) -> str:
    """Character by character."""
    return "".join(zh_digits(char) or char.upper() for char in m[0])


def power(m: Match) -> str:
    return {"2": "的平方", "3": "的立方"}.get(m[1], f"的{zh_number(m[1])}次方")
