"""Units, currencies and signs as words: what is written → (Chinese, English singular). Tables, no rules."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Written form: (Chinese, English). Case matters (m/M, mb/Mb); a form written in lower case only
# where the capital means something else.
_UNITS: dict[str, tuple[str, str]] = {
    # length, area, volume
    "km": ("公里", "kilometer"),
    "KM": ("公里", "kilometer"),
    "Km": ("公里", "kilometer"),
    "m": ("米", "meter"),
    "dm": ("分米", "decimeter"),
    "cm": ("厘米", "centimeter"),
    "CM": ("厘米", "centimeter"),
    "mm": ("毫米", "millimeter"),
    "MM": ("毫米", "millimeter"),
    "μm": ("微米", "micrometer"),
    "µm": ("微米", "micrometer"),
    "um": ("微米", "micrometer"),
    "nm": ("纳米", "nanometer"),
    "ft": ("英尺", "foot"),
    "mi": ("英里", "mile"),
    "mph": ("英里每小时", "mile per hour"),
    "km2": ("平方公里", "square kilometer"),
    "m2": ("平方米", "square meter"),
    "dm2": ("平方分米", "square decimeter"),
    "cm2": ("平方厘米", "square centimeter"),
    "mm2": ("平方毫米", "square millimeter"),
    "m3": ("立方米", "cubic meter"),
    "cm3": ("立方厘米", "cubic centimeter"),
    "mm3": ("立方毫米", "cubic millimeter"),
    "L": ("升", "liter"),
    "l": ("升", "liter"),
    "dL": ("分升", "deciliter"),
    "dl": ("分升", "deciliter"),
    "ml": ("毫升", "milliliter"),
    "mL": ("毫升", "milliliter"),
    "ML": ("毫升", "milliliter"),
    "μL": ("微升", "microliter"),
    "μl": ("微升", "microliter"),
    "cc": ("毫升", "cc"),
    # mass
    "t": ("吨", "ton"),
    "kg": ("千克", "kilogram"),
    "KG": ("千克", "kilogram"),
    "Kg": ("千克", "kilogram"),
    "g": ("克", "gram"),
    "mg": ("毫克", "milligram"),
    "μg": ("微克", "microgram"),
    "µg": ("微克", "microgram"),
    "ug": ("微克", "microgram"),
    "lb": ("磅", "pound"),
    "lbs": ("磅", "pound"),
    "oz": ("盎司", "ounce"),
    # time
    "h": ("小时", "hour"),
    "hr": ("小时", "hour"),
    "hrs": ("小时", "hour"),
    "min": ("分钟", "minute"),
    "mins": ("分钟", "minute"),
    "s": ("秒", "second"),
    "sec": ("秒", "second"),
    "secs": ("秒", "second"),
    "ms": ("毫秒", "millisecond"),
    "μs": ("微秒", "microsecond"),
    "us": ("微秒", "microsecond"),
    "ns": ("纳秒", "nanosecond"),
    # frequency, electricity, energy, pressure
    "Hz": ("赫兹", "hertz"),
    "hz": ("赫兹", "hertz"),
    "kHz": ("千赫", "kilohertz"),
    "KHz": ("千赫", "kilohertz"),
    "khz": ("千赫", "kilohertz"),
    "MHz": ("兆赫", "megahertz"),
    "GHz": ("吉赫", "gigahertz"),
    "V": ("伏", "volt"),
    "kV": ("千伏", "kilovolt"),
    "mV": ("毫伏", "millivolt"),
    "W": ("瓦", "watt"),
    "kW": ("千瓦", "kilowatt"),
    "KW": ("千瓦", "kilowatt"),
    "MW": ("兆瓦", "megawatt"),
    "GW": ("吉瓦", "gigawatt"),
    "Wh": ("瓦时", "watt hour"),
    "kWh": ("千瓦时", "kilowatt hour"),
    "KWh": ("千瓦时", "kilowatt hour"),
    "mAh": ("毫安时", "milliamp hour"),
    "A": ("安", "amp"),
    "mA": ("毫安", "milliamp"),
    "Ω": ("欧姆", "ohm"),
    "kΩ": ("千欧", "kilohm"),
    "J": ("焦耳", "joule"),
    "kJ": ("千焦", "kilojoule"),
    "kcal": ("千卡", "kilocalorie"),
    "cal": ("卡", "calorie"),
    "N": ("牛", "newton"),
    "Pa": ("帕", "pascal"),
    "kPa": ("千帕", "kilopascal"),
    "MPa": ("兆帕", "megapascal"),
    "hPa": ("百帕", "hectopascal"),
    "psi": ("磅每平方英寸", "pound per square inch"),
    "mmHg": ("毫米汞柱", "millimeter of mercury"),
    "mmhg": ("毫米汞柱", "millimeter of mercury"),
    "mol": ("摩尔", "mole"),
    "mmol": ("毫摩尔", "millimole"),
    "μmol": ("微摩尔", "micromole"),
    "IU": ("国际单位", "international unit"),
    "dB": ("分贝", "decibel"),
    "db": ("分贝", "decibel"),
    "rpm": ("转每分", "revolution per minute"),
    "bpm": ("次每分", "beat per minute"),
    "hm2": ("公顷", "hectare"),
    "ha": ("公顷", "hectare"),
    # data
    "KB": ("KB", "kilobyte"),
    "kB": ("KB", "kilobyte"),
    "kb": ("KB", "kilobit"),
    "MB": ("兆", "megabyte"),
    "Mb": ("兆", "megabit"),
    "GB": ("GB", "gigabyte"),
    "Gb": ("GB", "gigabit"),
    "TB": ("TB", "terabyte"),
    "PB": ("PB", "petabyte"),
    "KiB": ("KB", "kibibyte"),
    "MiB": ("兆", "mebibyte"),
    "GiB": ("GB", "gibibyte"),
    "bps": ("比特每秒", "bit per second"),
    "kbps": ("千比特每秒", "kilobit per second"),
    "Kbps": ("千比特每秒", "kilobit per second"),
    "Mbps": ("兆比特每秒", "megabit per second"),
    "Gbps": ("吉比特每秒", "gigabit per second"),
    "fps": ("帧每秒", "frame per second"),
    "px": ("像素", "pixel"),
    "dpi": ("点每英寸", "dot per inch"),
    # angle and temperature
    "℃": ("摄氏度", "degree Celsius"),
    "°C": ("摄氏度", "degree Celsius"),
    "° C": ("摄氏度", "degree Celsius"),
    "℉": ("华氏度", "degree Fahrenheit"),
    "°F": ("华氏度", "degree Fahrenheit"),
    "° F": ("华氏度", "degree Fahrenheit"),
    "°": ("度", "degree"),
    "K": ("K", "K"),
}
_SQUARED = {form.replace("2", "²"): words for form, words in _UNITS.items() if form.endswith("2")}
_CUBED = {form.replace("3", "³"): words for form, words in _UNITS.items() if form.endswith("3")}
UNITS: dict[str, tuple[str, str]] = {**_UNITS, **_SQUARED, **_CUBED}
del UNITS["K"]  # 4K, 10K: a letter

# Letters that after a number are more often a letter than a unit ("第3A", "5G", "3D", "B2B").
ONE_LETTER_IS_UNIT = {"zh": "mLlgWVhts°", "en": "mLgVW°"}

# What a rate is measured by, as in 12元/kg, 60km/h, 3次/周.
PER: dict[str, tuple[str, str]] = {
    "h": ("小时", "hour"),
    "s": ("秒", "second"),
    "min": ("分钟", "minute"),
    "d": ("天", "day"),
    "day": ("天", "day"),
    "mo": ("月", "month"),
    "month": ("月", "month"),
    "yr": ("年", "year"),
    "year": ("年", "year"),
    "week": ("周", "week"),
    "hour": ("小时", "hour"),
}

CURRENCIES: dict[str, tuple[str, str, str]] = {  # Chinese, English, English hundredth
    "¥": ("元", "yuan", ""),
    "RMB": ("元", "yuan", ""),
    "CNY": ("元", "yuan", ""),
    "HK$": ("港元", "Hong Kong dollar", "cent"),
    "HKD": ("港元", "Hong Kong dollar", "cent"),
    "NT$": ("新台币", "New Taiwan dollar", "cent"),
    "US$": ("美元", "dollar", "cent"),
    "USD": ("美元", "dollar", "cent"),
    "A$": ("澳元", "Australian dollar", "cent"),
    "C$": ("加元", "Canadian dollar", "cent"),
    "$": ("美元", "dollar", "cent"),
    "€": ("欧元", "euro", "cent"),
    "EUR": ("欧元", "euro", "cent"),
    "£": ("英镑", "pound", "penny"),
    "GBP": ("英镑", "pound", "penny"),
    "JPY": ("日元", "yen", ""),
    "JP¥": ("日元", "yen", ""),
    "₩": ("韩元", "won", ""),
    "KRW": ("韩元", "won", ""),
    "₹": ("卢比", "rupee", ""),
    "₽": ("卢布", "ruble", ""),
    "฿": ("泰铢", "baht", ""),
    "₿": ("比特币", "bitcoin", ""),
    "¢": ("美分", "cent", ""),
}

# Signs where no rule has taken them, by themselves or between words.
SIGNS: dict[str, tuple[str, str]] = {
    ">=": ("大于等于", "greater than or equal to"),
    "<=": ("小于等于", "less than or equal to"),
    "!=": ("不等于", "not equal to"),
    "==": ("等于", "equals"),
    "≥": ("大于等于", "greater than or equal to"),
    "≧": ("大于等于", "greater than or equal to"),
    "⩾": ("大于等于", "greater than or equal to"),
    "≤": ("小于等于", "less than or equal to"),
    "≦": ("小于等于", "less than or equal to"),
    "⩽": ("小于等于", "less than or equal to"),
    "≠": ("不等于", "not equal to"),
    "≈": ("约等于", "approximately"),
    "≡": ("恒等于", "is equivalent to"),
    "±": ("正负", "plus or minus"),
    "×": ("乘", "times"),
    "÷": ("除以", "divided by"),
    "√": ("根号", "the square root of"),
    "∞": ("无穷大", "infinity"),
    "∑": ("求和", "sum"),
    "Δ": ("德尔塔", "delta"),
    "π": ("派", "pi"),
    "∈": ("属于", "in"),
    "‰": ("千分号", "per mille"),
    "%": ("百分号", "percent"),
    "°": ("度", "degrees"),
    "℃": ("摄氏度", "degrees Celsius"),
    "℉": ("华氏度", "degrees Fahrenheit"),
    "¥": ("元", "yuan"),
    "€": ("欧元", "euros"),
    "£": ("英镑", "pounds"),
    "α": ("阿尔法", "alpha"),
    "β": ("贝塔", "beta"),
    "γ": ("伽马", "gamma"),
    "λ": ("拉姆达", "lambda"),
    "μ": ("缪", "mu"),
    "σ": ("西格玛", "sigma"),
    "θ": ("西塔", "theta"),
    "ω": ("欧米伽", "omega"),
    "Ω": ("欧米伽", "omega"),
}


def pattern(table: Iterable[str]) -> str:
    """The table's keys as alternatives of a regular expression, longest first."""
    return "|".join(re.escape(key) for key in sorted(table, key=lambda key: (-len(key), key)))


def plural(word: str) -> str:
    """The English plural of a unit: feet, miles per hour, inches, millimeters of mercury."""
    for joint in (" per ", " of "):
        head, found, tail = word.partition(joint)
        if found:
            return plural(head) + found + tail
    if word.endswith((" Celsius", " Fahrenheit")):
        return word.replace("degree", "degrees")
    if word == "foot":
        return "feet"
    if word == "penny":
        return "pence"
    if word.endswith(("hertz", "cc", "yuan", "yen", "won", "baht", "dpi")):
        return word
    return word + ("es" if word.endswith(("ch", "x")) else "s")
