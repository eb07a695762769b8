"""From words and their sounds to the voice's symbols and their numbers.

The voice learnt Mandarin from IPA with arrows for tones, words apart by spaces, and English from
IPA with one letter a diphthong (misaki's notation). The numbers are the model's own: facts of
Kokoro-82M v1.0's configuration (Apache-2.0). Knows nothing of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cosycli.text.pinyin import split
from cosycli.types import Word

LIMIT = 510  # symbols that the model takes at once, not counting the zeros at both ends

# Runs of consecutive numbers: the first number, then the symbols. A blank within a run is a number without one.
_RUNS = (
    (1, ";:,.!?"),
    (9, '—…"()“” \u0303ʣʥʦʨᵝ\uab67AI'),
    (31, "O"),
    (33, "Q"),
    (35, "ST"),
    (39, "W"),
    (41, "Yᵊabcdef"),
    (50, "hijklmnopqrstuvwxyzɑɐɒæ"),
    (75, "βɔɕç"),
    (80, "ɖðʤə"),
    (85, "ɚɛɜ"),
    (90, "ɟ"),
    (92, "ɡ"),
    (99, "ɥ"),
    (101, "ɨɪʝ"),
    (110, "ɯɰŋɳɲɴø"),
    (118, "ɸθœ"),
    (123, "ɹ"),
    (125, "ɾɻ"),
    (128, "ʁɽʂʃʈʧ"),
    (135, "ʊʋ"),
    (138, "ʌɣɤ"),
    (142, "χʎ"),
    (147, "ʒʔ"),
    (156, "ˈˌː"),
    (162, "ʰ"),
    (164, "ʲ"),
    (169, "↓"),
    (171, "→↗↘"),
    (177, "ᵻ"),
)

_INITIALS = {
    "b": "p", "p": "pʰ", "m": "m", "f": "f", "d": "t", "t": "tʰ", "n": "n", "l": "l", "g": "k", "k": "kʰ", "h": "x",
    "j": "ʨ", "q": "ʨʰ", "x": "ɕ", "zh": "\uab67", "ch": "\uab67ʰ", "sh": "ʂ", "r": "ɻ", "z": "ʦ", "c": "ʦʰ", "s": "s",
    "": "",
}  # fmt: skip
# The tone's arrow takes the place of the digit 0.
_FINALS = {
    "a": "a0", "ai": "ai0", "an": "a0n", "ang": "a0ŋ", "ao": "au0", "e": "ɤ0", "ei": "ei0", "en": "ə0n", "eng": "ə0ŋ",
    "er": "ɚ0", "o": "wo0", "ong": "ʊ0ŋ", "ou": "ou0", "i": "i0", "ia": "ja0", "ian": "jɛ0n", "iang": "ja0ŋ",
    "iao": "jau0", "ie": "je0", "in": "i0n", "ing": "i0ŋ", "iong": "jʊ0ŋ", "iou": "jou0", "io": "jɔ0", "u": "u0",
    "ua": "wa0", "uai": "wai0", "uan": "wa0n", "uang": "wa0ŋ", "uei": "wei0", "uen": "wə0n", "ueng": "wə0ŋ",
    "uo": "wo0", "v": "y0", "ve": "ɥe0", "van": "ɥɛ0n", "vn": "y0n",
    "m": "m0", "n": "n0", "ng": "ŋ0", "hm": "hm0", "hng": "hŋ0",
}  # fmt: skip
_TONES = ("", "→", "↗", "↓", "↘", "")
_BUZZING = frozenset(["zh", "ch", "sh", "r", "z", "c", "s"])  # 知, 资: their i is no [i]
# A merged 儿 follows its syllable whole, an unstressed er as in training: dropping the n or i before it (tja↓ɚ)
# or writing ɻ made the recogniser hear no r at all, or another vowel.
_R = "ɚ"

# A mark of the text, as the voice knew it in training.
_MARKS = {
    "，": ",", "、": ",", "。": ".", "．": ".", "！": "!", "：": ":", "；": ";", "？": "?", "《": "“",
    "》": "”", "〈": "“", "〉": "”", "«": "“", "»": "”", "「": "“", "」": "”", "『": "“", "』": "”",
    "【": "“", "】": "”", "（": "(", "）": ")", "[": "(", "]": ")", "‘": "“", "’": "”", "–": "—",
    "―": "—", "-": "—", "─": "—", "~": "—", "～": "—", "⋯": "…", "·": "",
}  # fmt: skip
_OPENING = frozenset("“(")
_PAUSES = frozenset(",.!?;:…—")
_CLOSING = _PAUSES | frozenset("”)")

# International Phonetic Alphabet for English, as the voice writes it.
_ENGLISH = (
    ("eɪ", "A"), ("aɪ", "I"), ("oʊ", "O"), ("əʊ", "O"), ("aʊ", "W"), ("ɔɪ", "Y"), ("t͡ʃ", "ʧ"), ("d͡ʒ", "ʤ"), ("tʃ", "ʧ"),
    ("dʒ", "ʤ"), ("ɝ", "ɜɹ"), ("g", "ɡ"), ("r", "ɹ"), ("'", "ˈ"), (".", ""),
)  # fmt: skip


@lru_cache(maxsize=1)
def table() -> dict[str, int]:
    """Each symbol's number."""
    return {symbol: first + i for first, run in _RUNS for i, symbol in enumerate(run)}


@lru_cache(maxsize=4096)
def mandarin(pinyin: str) -> str:
    """The voice's symbols for a syllable with its tone digit; "" if it is none."""
    parts = split(pinyin)
    if parts is None:
        return ""
    final = _FINALS[parts.final] if parts.final != "io" else "jɔ0"
    if parts.final == "i" and parts.initial in _BUZZING:
        final = "ɨ0"
    elif parts.final == "o" and not parts.initial:
        final = "ɔ0"
    if parts.merged:
        final += _R
    return _INITIALS[parts.initial] + final.replace("0", _TONES[parts.tone])


def english(ipa: str) -> str:
    """The voice's symbols for the phonemes of an English word."""
    for sound, symbol in _ENGLISH:
        ipa = ipa.replace(sound, symbol)
    return "".join(c for c in ipa if c in table())


def spoken(word: Word) -> str:
    """The voice's symbols for a word; for a mark, the mark it knows."""
    if word.kind == "zh":
        return "".join(mandarin(sound) for sound in word.sounds)
    if word.kind == "en":
        return english(" ".join(word.sounds))
    return "".join(c for c in (_MARKS.get(c, c) for c in word.text) if c in table())[:1]


def tokens(words: Sequence[Word]) -> tuple[list[int], list[tuple[int, int]]]:
    """Numbers of a sentence, without the zeros at its ends, and each word's [start, end) among them."""
    written: list[str] = []
    ranges: list[tuple[int, int]] = []
    for word in words:
        symbols = spoken(word)
        last = written[-1] if written else ""
        if word.kind == "punct" and _needless(symbols, last):
            symbols = ""
        if symbols and written and last not in _OPENING and symbols not in _CLOSING:
            written.append(" ")
        start = len(written)
        written += symbols
        ranges.append((start, len(written)))
    return [table()[symbol] for symbol in written], ranges


def _needless(mark: str, last: str) -> bool:
    """A pause at the very beginning, or after another pause, says nothing."""
    return mark in _PAUSES and (not last or last in _OPENING or last in _PAUSES)
