"""Chinese reading of everything that is not a plain word, as an ordered table of rules.

A rule takes a kind of span and writes it in words; what none has taken and still holds a digit goes to
wetext's grammar, which knows measures and counts best.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cosycli.text import grammar, shapes
from cosycli.text import readings_zh as say
from cosycli.text.chars import HAN
from cosycli.text.numbers import zh_cardinal, zh_digits, zh_number
from cosycli.text.shapes import ALONE, NUMBER
from cosycli.text.units import CURRENCIES, PER, SIGNS, UNITS, pattern

Match = re.Match[str]
Rule = tuple[re.Pattern[str], str | Callable[[Match], str]]

_COUNTED = "个只次人天年周小分位名条件种倍米公千斤块元万百瓶杯碗本张辆家岁"
_SPELLED_BEFORE = (
    "(?:电话|手机号?|座机|传真|热线|客服|拨打|致电|号码|QQ|qq|微信|编号|订单号?|单号|验证码|密码|学号|工号|房间|房号|尾号|邮编|卡号"
    "|账号|帐号|代码|身份证|车牌|航班|口令|序列号|分机|短号|群号)[^\\d\\n，。；！？,;]{0,4}"
)
_NUMERALS = "零一二三四五六七八九十百千万亿两"
_NOT_A_YEAR = "花共约近有了达到过价付卖买超第满剩差欠赚仅才近"

_CURRENCY = pattern(CURRENCIES)
_UNIT = pattern(UNITS)
_SCALE = r"(?P<scale>万亿|百万|千万|万|亿|千|[kKMB](?![A-Za-z])|bn\b|million|billion|trillion|thousand)?"
_DASH = r"\s?(~+|-|—{1,2}|–|--)\s?"
_SIGNED = rf"[+-]?{NUMBER}"
_PER = pattern({key: "" for key in (*PER, *UNITS) if key[0].isalpha()})
_WEEKDAY = "(周[一二三四五六日天]|星期[一二三四五六日天]|[一二三四五六七八九十]月|北京|上海)"

ADDRESSES: tuple[Rule, ...] = (
    (shapes.EMAIL, say.email),
    (shapes.IP, say.ip),
    (shapes.DOMAIN, say.domain),
    (re.compile(r"(?<![A-Za-z])(localhost):(\d{1,5})"), lambda m: f"{m[1]} 冒号 {zh_digits(m[2])}"),
    (shapes.DATE, say.date),
    (shapes.VERSION, say.version),
    (shapes.DOTTED, say.dotted),
)

FIRST: tuple[Rule, ...] = (
    (re.compile(r"(?<=[歼运轰直风征舟娥宫])-(?=\d)"), ""),
    (re.compile(r"\^\s?([A-Za-z])(?![A-Za-z])"), r"的\1次方"),
    (re.compile(r"(^|[\s，。；：])(\d{1,2})[.)]\s(?=\S)"), r"\1\2、"),
    (re.compile(r"(?<!\d)(\d{1,2})·(\d{1,2})(?!\d)|(?<!\d)618(?=[大购年活])"), lambda m: zh_digits(m[0])),
    (re.compile(r"(?<![\d.])(\d(?:\.\d{1,6})?)[eE]([+-]?\d{1,3})(?![\dA-Za-z.])"), say.scientific),
    (re.compile(r"(?<!\d)(\d{1,2})'(\d{1,2})(?:\"|''|”)"), say.primes),
    (re.compile(r"(?<![\w)）~%])~\s?(?=[\d¥$€£])"), "约"),
    (re.compile(r"([(（][^()（）]{1,40})-(?=[^()（）]{1,40}[)）]\s?[×÷*/])"), r"\1减"),
    (shapes.MONTH, say.month),
    (re.compile(r"(?<![\d.-])((?:1[89]|20)\d\d)年?\s?[-~—–至]{1,2}\s?((?:1[89]|20)\d\d)(?=年|[^\d.-]|$)"), say.years),
    (re.compile(r"(?<![\d.-])((?:19|20)\d\d)-(\d\d)(?=\s?(?:赛季|学年|年度|财年))"), say.years),
    (re.compile(r"(?<![\d.])((?:1[89]|20)\d)0(?:'?s(?![A-Za-z])|年代)"), lambda m: zh_digits(m[1] + "0") + "年代"),
    (re.compile(r"(?<![\d.,])((?:1[5-9]|20)\d\d)(?=年(?![前后多来内间之]))"), lambda m: zh_digits(m[1])),
    (shapes.CLOCK, say.clock),
    (shapes.HOUR, say.hour),
    (re.compile(rf"(?<=[点分])\s?[-~—–]{{1,2}}\s?(?=[{HAN}]{{1,3}}点)"), "到"),
    (shapes.RATIO, lambda m: f"{zh_number(m[1])}比{zh_number(m[2])}"),
    (re.compile(r"(?<![\d.])\+?(?:\(?\+?86\)?[- ]?)?1[3-9]\d(?:[- ]?\d{4}){2}(?![\d.])"), say.phone),
    (re.compile(r"(?<![\d.-])(?:\(0\d{2,3}\)\s?|0\d{2,3}[- ])\d{3,4}[- ]?\d{4}(?:[-转]\d{1,5})?(?![\d.])"), say.phone),
    (re.compile(r"(?<![\d.-])[48]00[- ]\d{3,4}[- ]\d{3,4}(?![\d.])"), say.phone),
    (re.compile(r"(?<![\w+])\+\d{1,3}[- ]?(?:\(\d{1,4}\)[- ]?)?\d{2,4}(?:[- ]?\d{2,4}){1,3}(?![\d.])"), say.phone),
    (re.compile(r"(?<!\d)(\d{17}[\dXx])(?!\d)"), lambda m: zh_digits(m[1][:-1]) + (zh_digits(m[1][-1]) or "X")),
    (re.compile(rf"({_SPELLED_BEFORE})(\d{{3,}}(?:-\d+){{0,4}})(?![\d.,%]|\s?[个元次人位条])"), say.spelled),
    (re.compile(r"(?<![\d.])()(\d{3,4})(?=室|房间|号房|号楼|路公|路车|房(?![{HAN}]))"), say.spelled),
    (re.compile(r"(?<![\d.,-])(?:\d{1,20}(?:-\d{1,20}){3,6}|\d{2,20}(?:-\d{2,20}){2})(?![\d-])"), say.chain),
    (re.compile(r"(?<![\d.,])\d{9,}(?![\d.])"), say.long_number),
    (
        re.compile(
            r"([京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼][A-Z])·?([A-Z0-9]{5,6})(?![A-Za-z0-9])"
        ),
        say.plate,
    ),
    (
        re.compile(r"(?<![\d.,])(\d[\d,]{0,20})\.(\d?)0(?=\s?元)"),
        lambda m: m[1] + (f".{m[2]}" if m[2] not in ("", "0") else ""),
    ),
    (
        re.compile(
            rf"(?P<currency>{_CURRENCY})\s?(?P<low>{NUMBER})\s?[-~—–]\s?(?:{_CURRENCY})?(?P<high>{NUMBER})\s?{_SCALE}"
        ),
        say.money_range,
    ),
    (re.compile(rf"(?P<sign>-(?=\s?\D))?(?P<currency>{_CURRENCY})\s?(?P<number>{NUMBER})\s?{_SCALE}"), say.money),
    (
        re.compile(rf"(?<![\d.,])({NUMBER})\s?(万亿|百万|千万|万|亿|千|[kKMB])?\s?({_CURRENCY})(?![A-Za-z\d])"),
        say.money_after,
    ),
    (
        re.compile(rf"(?<![\d.,A-Za-z])(?:(?P<low>{_SIGNED})[%‰]?{_DASH})?(?P<high>{_SIGNED})\s?(?P<sign>[%‰‱])"),
        say.percent,
    ),
)


_SPORT = "(?:战胜|击败|获胜|领先|取胜|逆转|险胜|大胜|完胜|落后|负于|不敌|战平|打平|小胜|惜败|力克|横扫)"

SECOND: tuple[Rule, ...] = (
    (re.compile(rf"()(?<![\d.,-])(\d{{1,3}})-(\d{{1,3}})(?=\s?{_SPORT})"), say.score),
    (re.compile(r"((?:比分|以|总分|大比分)[^\d]{0,3})(\d{1,3})-(\d{1,3})(?![\d-])"), say.score),
    (re.compile(rf"(?<![\d.,A-Za-z-])({NUMBER}){_DASH}({NUMBER})(?![\d-])(?!\s?-\s?\d)"), say.span),
    (re.compile(rf"(?<=[\d{HAN}A-Za-z℃°%])\s?[~]\s?(?=[-+¥$]?\d)"), "到"),
    (re.compile(rf"(?<=\d)({_UNIT}|[{HAN}]{{1,3}})\s?[-—–]{{1,2}}\s?(?=\d)"), lambda m: m[1] + "到"),
    (re.compile(rf"(?<![\d第.])2到(?=\d{{1,4}}[{_COUNTED}])"), "两到"),
    (re.compile(rf"(?<=[\d{_NUMERALS}元]) +(?=[\d{_NUMERALS}])"), "，"),
    (re.compile(r"(?<![\d.])2(?=单元|栋|幢|环|号线|路)"), "二"),
    (
        re.compile(rf"(?<![A-Za-z])([A-Z]{{2,6}}) (\d{{3,4}})(?![\d.,{say.MEASURES}]|\s?[-+*/×])()"),
        lambda m: f"{m[1]} {say.name_part(m[2])}",
    ),
    (re.compile(r"(?<!\d)\d{3}(?=\s?(?:错误|状态码|报错))|(?<=波音)7\d7|(?<=空客)A?3\d\d"), lambda m: zh_digits(m[0])),
    (re.compile(r"(?<![A-Za-z\d])[xX×]\s?(?=\d)"), "乘"),
    (shapes.COMMAS, lambda m: m[0].replace(",", "")),
    (re.compile(r"\^\s?([+-]?\d{1,6})"), say.power),
    (re.compile(rf"(?<![\dA-Za-z)）._])-(?={NUMBER})"), "负"),
    (re.compile(rf"(?<=[元块次个人万点角分天度])/(?={_PER}|[{HAN}])"), "每"),
    (re.compile(rf"每({_PER})(?![A-Za-z])"), lambda m: "每" + say.per(m[1])),
    (
        re.compile(r"(\d)[wW](?=\+|[^A-Za-z\d]|$)(?=\+|\s?[人粉元块字次条个播点赞阅单]|$|[，。！？])"),
        lambda m: m[1] + "万",
    ),
    (
        re.compile(
            rf"{ALONE}(?P<number>{NUMBER})\s?(?P<unit>{_UNIT})(?![A-Za-z\d])(?:/(?P<per>{_PER})(?![A-Za-z\d]))?"
        ),
        say.unit,
    ),
    (re.compile(rf"(?<=[克米升时秒瓦兆B])/(?=[{HAN}])"), "每"),
    (re.compile(r"(?<![A-Za-z])(?:No|NO|no)\.\s?(\d{1,30})"), say.ordinal),
    (re.compile(r"第\s?(\d{1,9})(?![\d.])"), say.ordinal),
    (re.compile(r"#\s?(\d{1,6})(?![\w-])"), lambda m: zh_cardinal(m[1]) + "号"),
    (shapes.MIXED, say.mixed),
    (shapes.FRACTION, say.fraction),
    (shapes.BUSINESS, lambda m: f"{m[1]} to {m[2]}"),
    (re.compile(r"(\d)\s?[xX]\s?(?=\d)"), r"\1乘"),
    (re.compile(r"(?<=\d)[xX](?![A-Za-z\d])"), "倍"),
    (
        re.compile(r"(?<![\d.,A-Za-z-])(\d+\.\d+)(?![\d.])\s?([kK](?![A-Za-z]))?"),
        lambda m: zh_number(m[1]) + (m[2] or "").upper(),
    ),
    (shapes.NAME, say.name),
    (re.compile(r"(?<![\d年第])2(?=年(?!级|代|\d)|点(?!\d))"), "两"),
    (re.compile(r"(?<![\d.])2(?=[日号楼]|时(?![候间]))"), "二"),
    (re.compile(r"(?<=\d)([万亿千百])\+"), r"\1多"),
    (re.compile(r"(?<!\d)(\d{1,20})\+(?!\s?\d)"), say.plus),
    (
        re.compile(r"(?<![\d.])(?:0[05]|[5-9][05])(?=后(?![面来退期续排]))|(?<![\d.])0\d+(?![\d.])"),
        lambda m: zh_digits(m[0]),
    ),
    (
        re.compile(rf"(?<![\d.,])(?:11[0249]|12[02]|123[014][56]|10086|10010|9[56]\d{{3}})(?![\d.,{say.MEASURES}])"),
        say.phone,
    ),
    (
        re.compile(rf"(?<![\d.,])(?<![{_NOT_A_YEAR}])((?:19|20)\d[1-9])(?![\d.,万亿{say.MEASURES}])(?!\s?[-+*/×÷=])"),
        lambda m: zh_digits(m[1]),
    ),
)

_ARROW = re.compile(r"\s?(?:-{1,3}>|={1,2}>|→|⇒|⟶|➝|↦)\s?")
_OPERAND = rf"[\w)）{HAN}]"
_SIGN = re.compile(pattern(SIGNS))
SIGN_RULES: tuple[Rule, ...] = (
    (re.compile(rf"{_WEEKDAY}\s?[-~—–]{{1,2}}\s?(?={_WEEKDAY})"), lambda m: m[1] + "到"),
    (re.compile(r"(?<![A-Za-z])([CFJcfj])#(?![A-Za-z\d])"), lambda m: m[1].upper() + " sharp"),
    (re.compile(r"(?<![A-Za-z])([A-Za-z]{1,10})\+\+"), lambda m: m[1] + "加加"),
    (re.compile(r"(?<=[\w)）])²"), "的平方"),
    (re.compile(r"(?<=[\w)）])³"), "的立方"),
    (_ARROW, "到"),
    (re.compile(r"\s?(?:<-{1,3}|<={2}|←|⇐|↔|⇔)\s?"), "，"),
    (re.compile("↑"), "上升"),
    (re.compile("↓"), "下降"),
    (_SIGN, lambda m: SIGNS[m[0]][0]),
    (re.compile(r"(?<=[A-Za-z])&(?=[A-Za-z])"), " and "),
    (re.compile(r"\s?&+\s?"), "和"),
    (re.compile(r"(?<=[\w)）])\s?\*\s?(?=[\w(（])"), "乘"),
    (re.compile(rf"(?<=[{_NUMERALS})）\d])\s?[-]\s?(?=[{_NUMERALS}\d(（])"), "减"),
    (re.compile(rf"\s?\+\s?(?={_OPERAND}|[(（])"), "加"),
    (re.compile(rf"(?<={_OPERAND})\+"), "加"),
    (re.compile(rf"(?:(?<={_OPERAND})\s?=\s?|\s?=\s?(?={_OPERAND}))(?!=)"), "等于"),
    (re.compile(r"(?:(?<=[\w)）])\s?<\s?|<\s?(?=\d))(?=[\w(（-]|$)"), "小于"),
    (re.compile(r"(?:(?<=[\w)）])\s?>\s?|>\s?(?=\d))(?=[\w(（-]|$)"), "大于"),
    (re.compile(r"@\s?(?=\w)"), " 艾特 "),
    (re.compile(rf"(?<=[{HAN}])\s?/\s?(?=[{HAN}])"), "、"),
    (re.compile(rf"(?<=[{HAN}])\s?[-~|]+\s?(?=[{HAN}A-Za-z])|(?<=[A-Za-z])\s?[~|]+\s?(?=[{HAN}])|\s[-|]+\s"), "，"),
    (re.compile("[•‣]"), "，"),
)

# What the grammar is given: a number with the letters around it that may decide how it is read. It takes
# 0.4 ms a character, and more context than this has never changed a reading.
_CLAUSE = re.compile(rf"[{HAN}A-Za-z]{{0,4}}\d[\d.%:/]{{0,30}}[{HAN}A-Za-z]{{0,6}}")
_DIGITS = re.compile(r"\d+")


def apply(text: str, rules: tuple[Rule, ...]) -> str:
    """Apply rules in their order."""
    for form, reading in rules:
        text = form.sub(reading, text)
    return text


def read(text: str) -> str:
    """A sentence or more with every digit and sign in Chinese words."""
    if "." in text or "@" in text or "-" in text or "/" in text or ":" in text:
        text = apply(text, ADDRESSES)
    if re.search(r"\d", text):
        text = apply(apply(text, FIRST), SECOND)
        text = _CLAUSE.sub(lambda clause: _counts(clause[0]), text)
    return apply(text, SIGN_RULES)


def _counts(clause: str) -> str:
    """What is left, by wetext's grammar; and what that leaves, digit by digit."""
    if clause.isdecimal() and len(clause) < 9:
        return zh_cardinal(clause)
    try:
        said = grammar.read(clause)
    except Exception:
        said = clause
    return _DIGITS.sub(lambda m: zh_cardinal(m[0]) if len(m[0]) < 3 else zh_digits(m[0]), said)
