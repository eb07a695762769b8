"""Chinese reading of everything that is not a plain word, as an ordered table of rules.

A rule takes a kind of span and writes it in words; what none has taken and still holds a digit goes to
wetext's grammar, which knows measures and counts best.
"""

from __future__ import annotations

import re

from cosycli.text import grammar, shapes
from cosycli.text import readings_zh as say
from cosycli.text.chars import HAN
from cosycli.text.forms import Form, Rule, apply
from cosycli.text.numbers import zh_cardinal, zh_digits, zh_number
from cosycli.text.shapes import ALONE, NUMBER
from cosycli.text.units import CURRENCIES, PER, SIGNS, UNITS, pattern

Match = re.Match[str]

_COUNTED = "个只次人天年周小分位名条件种倍米公千斤块元万百瓶杯碗本张辆家岁"
_SPELLED_BEFORE = (
    "(?:电话|手机号?|座机|传真|热线|客服|拨打|致电|号码|QQ|qq|微信|编号|订单号?|单号|验证码|密码|学号|工号|房间|房号|尾号|邮编|卡号"
    "|账号|帐号|代码|身份证|车牌|航班|口令|序列号|分机|短号|群号)[^\\d\\n，。；！？,;]{0,4}"
)
_SPELLED_FIRST = "电手座传热客拨致号Qq微编订单验密学工房尾邮卡账帐代身车航口序分短群"
_NUMERALS = "零一二三四五六七八九十百千万亿两"
_NOT_A_YEAR = "花共约近有了达到过价付卖买超第满剩差欠赚仅才近"

_CURRENCY = pattern(CURRENCIES)
_UNIT = pattern(UNITS)
_SCALE = r"(?P<scale>万亿|百万|千万|万|亿|千|[kKMB](?![A-Za-z])|bn\b|million|billion|trillion|thousand)?"
_DASH = r"\s?(~+|-|—{1,2}|–|--)\s?"
_SIGNED = rf"[+-]?{NUMBER}"
_MONEY_FIRST = "".join({key[0] for key in CURRENCIES})
_UNIT_FIRST = "".join({key[0] for key in UNITS})
_SIGN_FIRST = "".join({key[0] for key in SIGNS})
_PER = pattern({key: "" for key in (*PER, *UNITS) if key[0].isalpha()})
_WEEKDAY = "(周[一二三四五六日天]|星期[一二三四五六日天]|[一二三四五六七八九十]月|北京|上海)"

ADDRESSES: tuple[Rule, ...] = (
    (shapes.EMAIL, say.email),
    (shapes.IP, say.ip),
    (shapes.DOMAIN, say.domain),
    (Form(":", r"(?<![A-Za-z])(localhost):(\d{1,5})"), lambda m: f"{m[1]} 冒号 {zh_digits(m[2])}"),
    (shapes.DATE, say.date),
    (shapes.VERSION, say.version),
    (shapes.DOTTED, say.dotted),
)

FIRST: tuple[Rule, ...] = (
    (Form("xX", r"(?<![A-Za-z\d])0[xX][0-9A-Fa-f]+(?![A-Za-z\d])"), say.hexadecimal),
    (Form("-", r"(?<=[歼运轰直风征舟娥宫])-(?=\d)"), ""),
    (Form("^", r"\^\s?([A-Za-z])(?![A-Za-z])"), r"的\1次方"),
    (Form(".)", r"(^|[\s，。；：])(\d{1,2})[.)]\s(?=\S)"), r"\1\2、"),
    (Form("·6", r"(?<!\d)(\d{1,2})·(\d{1,2})(?!\d)|(?<!\d)618(?=[大购年活])"), lambda m: zh_digits(m[0])),
    (Form("eE", r"(?<![\d.])(\d(?:\.\d{1,6})?)[eE]([+-]?\d{1,3})(?![\dA-Za-z.])"), say.scientific),
    (Form("'", r"(?<!\d)(\d{1,2})'(\d{1,2})(?:\"|''|”)"), say.primes),
    (Form("~", r"(?<![\w)）~%])~\s?(?=[\d¥$€£])"), "约"),
    (Form("-", r"([(（][^()（）]{1,40})-(?=[^()（）]{1,40}[)）]\s?[×÷*/])"), r"\1减"),
    (shapes.MONTH, say.month),
    (
        Form("-~—–至", r"(?<![\d.-])((?:1[89]|20)\d\d)年?\s?[-~—–至]{1,2}\s?((?:1[89]|20)\d\d)(?=年|[^\d.-]|$)"),
        say.years,
    ),
    (Form("-", r"(?<![\d.-])((?:19|20)\d\d)-(\d\d)(?=\s?(?:赛季|学年|年度|财年))"), say.years),
    (Form("s代", r"(?<![\d.])((?:1[89]|20)\d)0(?:'?s(?![A-Za-z])|年代)"), lambda m: zh_digits(m[1] + "0") + "年代"),
    (Form("年", r"(?<![\d.,])((?:1[5-9]|20)\d\d)(?=年(?![前后多来内间之]))"), lambda m: zh_digits(m[1])),
    (shapes.CLOCK, say.clock),
    (shapes.HOUR, say.hour),
    (Form("-~—–", rf"(?<=[点分])\s?[-~—–]{{1,2}}\s?(?=[{HAN}]{{1,3}}点)"), "到"),
    (shapes.RATIO, lambda m: f"{zh_number(m[1])}比{zh_number(m[2])}"),
    (Form("1", r"(?<![\d.])\+?(?:\(?\+?86\)?[- ]?)?1[3-9]\d(?:[- ]?\d{4}){2}(?![\d.])"), say.phone),
    (Form("0", r"(?<![\d.-])(?:\(0\d{2,3}\)\s?|0\d{2,3}[- ])\d{3,4}[- ]?\d{4}(?:[-转]\d{1,5})?(?![\d.])"), say.phone),
    (Form("0", r"(?<![\d.-])[48]00[- ]\d{3,4}[- ]\d{3,4}(?![\d.])"), say.phone),
    (Form("+", r"(?<![\w+])\+\d{1,3}[- ]?(?:\(\d{1,4}\)[- ]?)?\d{2,4}(?:[- ]?\d{2,4}){1,3}(?![\d.])"), say.phone),
    (Form("", r"(?<!\d)(\d{17}[\dXx])(?!\d)"), lambda m: zh_digits(m[1][:-1]) + (zh_digits(m[1][-1]) or "X")),
    (Form(_SPELLED_FIRST, rf"({_SPELLED_BEFORE})(\d{{3,}}(?:-\d+){{0,4}})(?![\d.,%]|\s?[个元次人位条])"), say.spelled),
    (Form("室房楼路", r"(?<![\d.])()(\d{3,4})(?=室|房间|号房|号楼|路公|路车|房(?![{HAN}]))"), say.spelled),
    (Form("-", r"(?<![\d.,-])(?:\d{1,20}(?:-\d{1,20}){3,6}|\d{2,20}(?:-\d{2,20}){2})(?![\d-])"), say.chain),
    (Form("", r"(?<![\d.,])\d{9,}(?![\d.])"), say.long_number),
    (
        Form(
            "",
            r"([京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼][A-Z])·?([A-Z0-9]{5,6})(?![A-Za-z0-9])",
        ),
        say.plate,
    ),
    (
        Form("元", r"(?<![\d.,])(\d[\d,]{0,20})\.(\d?)0(?=\s?元)"),
        lambda m: m[1] + (f".{m[2]}" if m[2] not in ("", "0") else ""),
    ),
    (
        Form(
            _MONEY_FIRST,
            rf"(?P<currency>{_CURRENCY})\s?(?P<low>{NUMBER})\s?[-~—–]\s?(?:{_CURRENCY})?(?P<high>{NUMBER})\s?{_SCALE}",
        ),
        say.money_range,
    ),
    (
        Form(_MONEY_FIRST, rf"(?P<sign>-(?=\s?\D))?(?P<currency>{_CURRENCY})\s?(?P<number>{NUMBER})\s?{_SCALE}"),
        say.money,
    ),
    (
        Form(_MONEY_FIRST, rf"(?<![\d.,])({NUMBER})\s?(万亿|百万|千万|万|亿|千|[kKMB])?\s?({_CURRENCY})(?![A-Za-z\d])"),
        say.money_after,
    ),
    (
        Form("%‰‱", rf"(?<![\d.,A-Za-z])(?:(?P<low>{_SIGNED})[%‰]?{_DASH})?(?P<high>{_SIGNED})\s?(?P<sign>[%‰‱])"),
        say.percent,
    ),
)


_SPORT = "(?:战胜|击败|获胜|领先|取胜|逆转|险胜|大胜|完胜|落后|负于|不敌|战平|打平|小胜|惜败|力克|横扫)"

SECOND: tuple[Rule, ...] = (
    (Form("-", rf"()(?<![\d.,-])(\d{{1,3}})-(\d{{1,3}})(?=\s?{_SPORT})"), say.score),
    (Form("-", r"((?:比分|以|总分|大比分)[^\d]{0,3})(\d{1,3})-(\d{1,3})(?![\d-])"), say.score),
    (Form("-~—–", rf"(?<![\d.,A-Za-z-])({NUMBER}){_DASH}({NUMBER})(?![\d-])(?!\s?-\s?\d)"), say.span),
    (Form("~", rf"(?<=[\d{HAN}A-Za-z℃°%])\s?[~]\s?(?=[-+¥$]?\d)"), "到"),
    (Form("-—–", rf"(?<=\d)({_UNIT}|[{HAN}]{{1,3}})\s?[-—–]{{1,2}}\s?(?=\d)"), lambda m: m[1] + "到"),
    (Form("到", rf"(?<![\d第.])2到(?=\d{{1,4}}[{_COUNTED}])"), "两到"),
    (Form(" ", rf"(?<=[\d{_NUMERALS}元]) +(?=[\d{_NUMERALS}])"), "，"),
    (Form("2", r"(?<![\d.])2(?=单元|栋|幢|环|号线|路)"), "二"),
    (
        Form(" ", rf"(?<![A-Za-z])([A-Z]{{2,6}}) (\d{{3,4}})(?![\d.,{say.MEASURES}]|\s?[-+*/×])()"),
        lambda m: f"{m[1]} {say.name_part(m[2])}",
    ),
    (
        Form("错状报波空", r"(?<!\d)\d{3}(?=\s?(?:错误|状态码|报错))|(?<=波音)7\d7|(?<=空客)A?3\d\d"),
        lambda m: zh_digits(m[0]),
    ),
    (Form("xX×", r"(?<![A-Za-z\d])(?:×|[xX](?!(?:86|64)(?!\d)))\s?(?=\d)"), "乘"),  # x86 is a name
    (shapes.COMMAS, lambda m: m[0].replace(",", "")),
    (Form("^", r"\^\s?([+-]?\d{1,6})"), say.power),
    (Form("-", rf"(?<![\dA-Za-z)）._])-(?={NUMBER})"), "负"),
    (Form("/", rf"(?<=[元块次个人万点角分天度])/(?={_PER}|[{HAN}])"), "每"),
    (Form("每", rf"每({_PER})(?![A-Za-z])"), lambda m: "每" + say.per(m[1])),
    (
        Form("wW", r"(\d)[wW](?=\+|[^A-Za-z\d]|$)(?=\+|\s?[人粉元块字次条个播点赞阅单]|$|[，。！？])"),
        lambda m: m[1] + "万",
    ),
    (
        Form(
            _UNIT_FIRST,
            rf"{ALONE}(?P<number>{NUMBER})\s?(?P<unit>{_UNIT})(?![A-Za-z\d])(?:/(?P<per>{_PER})(?![A-Za-z\d]))?",
        ),
        say.unit,
    ),
    (Form("/", rf"(?<=[克米升时秒瓦兆B])/(?=[{HAN}])"), "每"),
    (Form("oO", r"(?<![A-Za-z])(?:No|NO|no)\.\s?(\d{1,30})"), say.ordinal),
    (
        Form("第", r"第\s?(\d{1,6})\s?/\s?(\d{1,6})(页|章|节|题|步|集)(?!，?共)"),
        lambda m: f"第{zh_cardinal(m[1])}{m[3]}，共{zh_cardinal(m[2])}{m[3]}",
    ),
    (
        Form(
            "妇劳儿建教国护青",
            r"(?<![\d/])(\d{1,2})/(\d{1,2})(?=(?:国际)?(?:妇女|劳动|儿童|建军|教师|国庆|护士|青年)节)",
        ),
        lambda m: zh_digits(m[1]) + zh_digits(m[2]),
    ),
    (Form("第", r"(第\s?\d{1,6})\s?/\s?\d{1,6}(?=[页章节题步集]，?共)"), r"\1"),
    (Form("第", r"第\s?(\d{1,9})(?![\d.])"), say.ordinal),
    (Form("#", r"#\s?(\d{1,6})(?![\w-])"), lambda m: zh_cardinal(m[1]) + "号"),
    (shapes.MIXED, say.mixed),
    (shapes.FRACTION, say.fraction),
    (shapes.BUSINESS, lambda m: f"{m[1]} to {m[2]}"),
    (Form("xX", r"(\d)\s?[xX]\s?(?=\d)"), r"\1乘"),
    (Form("xX", r"(?<=\d)[xX](?![A-Za-z\d])"), "倍"),
    (
        Form(".", r"(?<![\d.,A-Za-z-])(\d+\.\d+)(?![\d.])\s?([kK](?![A-Za-z]))?"),
        lambda m: zh_number(m[1]) + (m[2] or "").upper(),
    ),
    (shapes.NAME, say.name),
    (Form("2", r"(?<![\d年第])2(?=年(?!级|代|\d)|点(?!\d))"), "两"),
    (Form("2", r"(?<![\d.])2(?=[日号楼]|时(?![候间]))"), "二"),
    (Form("+", r"(?<=\d)([万亿千百])\+"), r"\1多"),
    (Form("+", r"(?<!\d)(\d{1,20})\+(?!\s?\d)"), say.plus),
    (
        Form("05", r"(?<![\d.])(?:0[05]|[5-9][05])(?=后(?![面来退期续排]))|(?<![\d.])0\d+(?![\d.])"),
        lambda m: zh_digits(m[0]),
    ),
    (
        Form("19", rf"(?<![\d.,])(?:11[0249]|12[02]|123[014][56]|10086|10010|9[56]\d{{3}})(?![\d.,{say.MEASURES}])"),
        say.phone,
    ),
    (
        Form("12", rf"(?<![\d.,])(?<![{_NOT_A_YEAR}])((?:19|20)\d[1-9])(?![\d.,万亿{say.MEASURES}])(?!\s?[-+*/×÷=])"),
        lambda m: zh_digits(m[1]),
    ),
)

_ARROW = Form(">→⇒⟶➝↦", r"\s?(?:-{1,3}>|={1,2}>|→|⇒|⟶|➝|↦)\s?")
_OPERAND = rf"[\w)）{HAN}]"
_SIGN = Form(_SIGN_FIRST, pattern(SIGNS))
SIGN_RULES: tuple[Rule, ...] = (
    (Form("-~—–", rf"{_WEEKDAY}\s?[-~—–]{{1,2}}\s?(?={_WEEKDAY})"), lambda m: m[1] + "到"),
    (Form("#", r"(?<![A-Za-z])([CFJcfj])#(?![A-Za-z\d])"), lambda m: m[1].upper() + " sharp"),
    (Form("+", r"(?<![A-Za-z])([A-Za-z]{1,10})\+\+"), lambda m: m[1] + "加加"),
    (Form("²", r"(?<=[\w)）])²"), "的平方"),
    (Form("³", r"(?<=[\w)）])³"), "的立方"),
    (_ARROW, "到"),
    (Form("<←⇐↔⇔", r"\s?(?:<-{1,3}|<={2}|←|⇐|↔|⇔)\s?"), "，"),
    (Form("↑", "↑"), "上升"),
    (Form("↓", "↓"), "下降"),
    (_SIGN, lambda m: SIGNS[m[0]][0]),
    (Form("&", r"(?<=[A-Za-z])&(?=[A-Za-z])"), " and "),
    (Form("&", r"\s?&+\s?"), "和"),
    (Form("*", r"(?<=[\w)）])\s?\*{1,2}\s?(?=[\w(（])"), "乘"),
    (Form("-", rf"(?<=[{_NUMERALS})）\d])\s?[-]\s?(?=[{_NUMERALS}\d(（])"), "减"),
    (Form("+", rf"\s?\+\s?(?={_OPERAND}|[(（])"), "加"),
    (Form("+", rf"(?<={_OPERAND})\+"), "加"),
    (Form("=", rf"(?:(?<={_OPERAND})\s?=\s?|\s?=\s?(?={_OPERAND}))(?!=)"), "等于"),
    (Form("<", r"(?:(?<=[\w)）])\s?<\s?|<\s?(?=\d))(?=[\w(（-]|$)"), "小于"),
    (Form(">", r"(?:(?<=[\w)）])\s?>\s?|>\s?(?=\d))(?=[\w(（-]|$)"), "大于"),
    (Form("@", r"@\s?(?=\w)"), " 艾特 "),
    (Form("/", rf"(?<=[{HAN}])\s?/\s?(?=[{HAN}])"), "、"),
    (Form("-~|", rf"(?<=[{HAN}])\s?[-~|]+\s?(?=[{HAN}A-Za-z])|(?<=[A-Za-z])\s?[~|]+\s?(?=[{HAN}])|\s[-|]+\s"), "，"),
    (Form("•‣", "[•‣]"), "，"),
)

# What the grammar is given: a number with the letters around it that may decide how it is read. It takes
# 0.4 ms a character, and more context than this has never changed a reading.
_CLAUSE = re.compile(rf"[{HAN}A-Za-z]{{0,4}}\d[\d.%:/]{{0,30}}[{HAN}A-Za-z]{{0,6}}")
_DIGITS = re.compile(r"\d+")


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
