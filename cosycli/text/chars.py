"""Characters: what is dropped, what is folded to its plain form, and the marks the stages pass in band.

Knows no Markdown, no language and no sentence.
"""

from __future__ import annotations

import re
import unicodedata

# Marks that clean.py puts into its output for segment.py. They are private-use characters, and those
# are dropped from the user's text first, so nothing a user writes can forge one.
HEADING = "\ue000"  # what precedes, back to the last line end, was a heading
LINE = "\ue001"  # a line that ends here whatever follows (list item, table row, <br>)
BREAK = "\ue002"  # a pause: BREAK digits BREAK, in milliseconds
MARKS = re.compile(f"{BREAK}[0-9]*{BREAK}|[{HEADING}{LINE}{BREAK}]")

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f々〇"

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_KEYCAP = re.compile("[0-9#*]\ufe0f?\u20e3")
# Pictographs: emoji blocks, dingbats, box drawing and shapes, arrows with an emoji form, joiners, tags.
_PICTURE = re.compile(
    "[\u200d\u20e3\u2300-\u23ff\u2500-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\ufe00-\ufe0f"
    "\U0001f000-\U0001faff\U000e0000-\U000e01ef©®™]+"
)
# Controls, format characters, fillers, surrogates, private use, non-characters, U+FFFD.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200c"
    "\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\ue000-\uf8ff"
    "\U000f0000-\U0010ffff]+"
)
# Compatibility forms whose plain form is what one says: full-width letters and digits, squared units,
# circled numbers, radicals, ligatures, mathematical letters. Not ℃, №, ½, Ⅳ: those have rules of their own.
_COMPATIBLE = re.compile(
    "[\u2100-\u2102\u2104-\u2115\u2117-\u2121\u2123-\u2125\u2460-\u249b\u24b6-\u24ff\u2e80-\u2fdf"
    "\u3220-\u3247\u3280-\u33ff\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff65-\uffdc\U0001d400-\U0001d7ff]"
)
_PLAIN = "＂＃＄％＆＇＊＋－．／＜＝＞＠［＼］＾＿｀｛｜｝￠￡￥￦‐‑‒−﹣～〜∼⁄∕｡､﹐﹑﹖﹗﹔﹕∶º˚∗✕✖➔➜′´ʼ″﹪"
_AS_SAID = "\"#$%&’*+-./<=>@[\\]^_`{|}¢£¥₩-----~~~//。、，、？！；：:°°*××→→''’\"%"
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t"
_FOLD = str.maketrans(_PLAIN + _SPACES, _AS_SAID + " " * len(_SPACES))
_APOSTROPHE = re.compile(r"(?<=[A-Za-zÀ-ɏ])[’‘](?=[A-Za-zÀ-ɏ])|’(?=\d0s)|(?<=[a-z]s)’(?=\s+[a-z])")
_MARK_PILE = re.compile("[\u0300-\u036f]{3,}")  # what NFC could not compose: ornament, not spelling
_ITEM_NUMBER = re.compile(r"(?:(?<=[\s；;，。：:、！？…”’」』）】》])|^)([①-⑳⑴-⑽])\s?(?=[^\s、.，])")
_BETWEEN_NUMBERS = re.compile("(?<=[①-⑳⑴-⒇])(?=[①-⑳⑴-⒇])")  # ②③ is two numbers, not twenty-three
_FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
_INLINE_SPACE = re.compile(r" {2,}")


def line_ends(text: str) -> str:
    """Every kind of line end as a newline."""
    return _LINE_ENDS.sub("\n", text)


def visible(text: str) -> str:
    """Drop what can be neither seen nor spoken; looks at one character at a time."""
    return _INVISIBLE.sub("", text)


def fold(text: str) -> str:
    """Fold characters to the form the other stages expect; drop pictographs; compose accents."""
    if text.isascii():
        return _INLINE_SPACE.sub(" ", text.replace("\t", " "))
    text = _KEYCAP.sub("", text).translate(_FOLD)
    text = _ITEM_NUMBER.sub(lambda m: str(unicodedata.numeric(m[1])).removesuffix(".0") + "、", text)
    text = _BETWEEN_NUMBERS.sub("、", text)
    text = _PICTURE.sub(_gap, text)
    text = _COMPATIBLE.sub(lambda m: unicodedata.normalize("NFKC", m[0]), text)
    text = _MARK_PILE.sub("", unicodedata.normalize("NFC", text))
    text = _FOREIGN_DIGIT.sub(lambda m: str(unicodedata.decimal(m[0], "")), text)
    text = _APOSTROPHE.sub("'", text)
    return _INLINE_SPACE.sub(" ", visible(text))


def _gap(picture: re.Match[str]) -> str:
    """What a dropped pictograph leaves: a space where two Latin words would run together."""
    before = picture.string[picture.start() - 1 : picture.start()]
    after = picture.string[picture.end() : picture.end() + 1]
    return " " if (before + after).isascii() and before.isalnum() and after.isalnum() else ""
