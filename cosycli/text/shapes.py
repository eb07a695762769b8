"""What numbers, addresses and names with digits look like, whatever the language they are read in.

Every pattern begins with a look-behind that stops it from being tried inside a run it has already refused:
100,000 digits or dots take linear time.
"""

from __future__ import annotations

import re
import string
import unicodedata

from cosycli.text.forms import Form

NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,6}(?![\d,])(?:\.\d+)?|\d+(?:\.\d+)?)"
ALONE = r"(?<![\d.,A-Za-z])(?<!\d[-/:])"  # no number, version or name goes on before

EMAIL = Form("@", r"(?<![\w.+-])([\w.+-]{1,64})@((?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24})(?![\w-])", re.ASCII)
_TLD = (
    "com|cn|org|net|io|ai|dev|edu|gov|co|app|me|uk|us|de|fr|jp|hk|tw|sg|ca|au|eu|ru|in|it|tv|cc|info|biz|xyz|top|vip"
    "|tech|online|site|cloud|shop|wiki|blog|page|so|sh|gg|ly|to|fm|la|im|pro|mobi|asia|int|mil"
)
DOMAIN = Form(
    ".", rf"(?<![\w.@-])(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}\.){{1,5}}(?:{_TLD})(?![A-Za-z0-9-]|\.[A-Za-z0-9])", re.I
)
# A file or a module: README.md, Node.js, numpy.array. Two letters at least on both sides of some dot, so
# that abbreviations (e.g., U.S.) stay, and no capital first on the right, so that "end.Start" stays.
DOTTED = Form(
    ".",
    r"(?<![\w.@-])[A-Za-z_][\w-]{0,40}(?<!\be)(?<!\bi)(?<!\ba)(?<!\bp)(?:\.(?:[a-z][a-z0-9_]{0,20}|[A-Z]{2,5})){1,4}(?![\w-]|\.\w)",
    re.ASCII,
)
IP = Form(".", r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?::(\d{1,5}))?(?:/(\d{1,2}))?(?![\w]|\.\d)", re.ASCII)
VERSION = Form(
    ".vV",
    r"(?<![\w.])([vV]?)(\d{1,6}(?:\.\d{1,6}){2,5}|(?<=[vV])\d{1,6}(?:\.\d{1,6})?)(?![\d]|\.\d)(?:-?(alpha|beta|rc|dev)\.?(\d{0,3}))?",
    re.ASCII,
)
DATE = Form("-/.", r"(?<![\w.])([12]\d{3})([-/.])(\d{1,2})\2(\d{1,2})(?![\d/.-]?\d)(?:[T ](?=\d{1,2}:\d\d))?", re.ASCII)
MONTH = Form("-/", r"(?<![\w./-])((?:19|20)\d\d)([-/])(0[1-9]|1[0-2])(?![\d/.%-])", re.ASCII)
CLOCK = Form(
    ":：",
    r"(?<![\d:.])([01]?\d|2[0-4])[:：]([0-5]\d)(?:[:：]([0-5]\d)(?:\.\d{1,6})?)?(?![\d:%])"
    r"(?:Z(?![A-Za-z]))?(?:\s?([AaPp])(?:\.\s?[Mm]\.|[Mm](?![A-Za-z])))?",
)
HOUR = Form("mM", r"(?<![\w:.])(1[0-2]|0?[1-9])\s?([AaPp])(?:\.\s?[Mm]\.|[Mm](?![A-Za-z]))", re.ASCII)
RATIO = Form(":：", rf"(?<![\d:.,])({NUMBER})\s?[:：]\s?({NUMBER})(?![\d:])")
COMMAS = Form(",", r"(?<![\d.,])\d{1,3}(?:,\d{3}){1,6}(?![\d,])")
NAME = Form(
    string.ascii_letters,
    r"(?<![A-Za-z0-9_])(?:[A-Za-z]{1,30}[-_]?\d|\d{1,20}[-_]?[A-Za-z])[A-Za-z0-9]{0,60}(?:[-_.][A-Za-z0-9]{1,40}){0,6}(?![A-Za-z0-9])",
)
NAME_PARTS = re.compile(r"\d+(?:\.\d+)?|[A-Za-z]+|[^A-Za-z\d]+")
BUSINESS = Form("2", r"(?<![A-Za-z0-9])([BCDGOP])2([BCDGOP])(?![A-Za-z0-9])")  # B2B, P2P, O2O
FRACTION = Form("/", r"(?<![\d/.,A-Za-z-])(\d{1,6})/(\d{1,6})(?![\d/A-Za-z]|\.\d)")
MIXED = Form("/", r"(?<![\d/.,A-Za-z-])(\d{1,6})[ +](\d{1,4})/(\d{1,4})(?![\d/A-Za-z]|\.\d)")

_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8", "⅐": "1/7", "⅑": "1/9", "⅒": "1/10",
}  # fmt: skip
_VULGAR_FORM = re.compile(f"(\\d?)([{''.join(_VULGAR)}])")
_ROMAN = {chr(base + place): str(place + 1) for base in (0x2160, 0x2170) for place in range(12)}
_ROMAN_FORM = re.compile(f"[{''.join(_ROMAN)}]")
_SUPERSCRIPT = str.maketrans("⁰¹⁴⁵⁶⁷⁸⁹⁻⁺", "01456789-+")
_POWER = re.compile(r"(?<=[\w)])[⁻⁺]?[⁰¹⁴⁵⁶⁷⁸⁹²³]*[⁰¹⁴⁵⁶⁷⁸⁹⁻⁺]+[⁰¹⁴⁵⁶⁷⁸⁹²³]*")
_CHARGE = re.compile(r"(?<=[A-Za-z₀-₉)])([²³⁴]?)([⁺⁻])(?![⁰-⁹¹²³])")  # Fe³⁺: an ion's charge, no power
_SUBSCRIPT = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-")


def written_out(text: str) -> str:
    """Signs that stand for several characters as those: ½ → 1/2, Ⅳ → 4, 10⁵ → 10^5, CO₂ → CO2."""
    if text.isascii():
        return text
    text = _VULGAR_FORM.sub(lambda m: (m[1] and m[1] + " ") + _VULGAR[m[2]], text)
    text = _ROMAN_FORM.sub(lambda m: _ROMAN[m[0]], text)
    text = _CHARGE.sub(lambda m: " " + unicodedata.normalize("NFKC", m[1] + m[2]), text)
    text = _POWER.sub(lambda m: "^" + m[0].translate(_SUPERSCRIPT).replace("²", "2").replace("³", "3"), text)
    return text.translate(_SUBSCRIPT).replace("№", "No.").replace("℅", "c/o")


def is_date(month: str, day: str) -> bool:
    """Whether these are a month and a day of it."""
    return 1 <= int(month) <= 12 and 1 <= int(day) <= 31


def scaled(number: str, letter: str) -> str:
    """1.5 and M → 1500000."""
    from decimal import Decimal

    power = {"k": 3, "m": 6, "b": 9, "bn": 9, "t": 12, "w": 4}[letter.lower()]
    value = Decimal(number.replace(",", "")).scaleb(power)
    return f"{value:f}".rstrip("0").rstrip(".") if "." in f"{value:f}" else f"{value:f}"


def trimmed(number: str) -> str:
    """Without the zeros that end its decimals: 1,299.00 → 1,299."""
    return number.rstrip("0").rstrip(".") if "." in number else number
