"""Words in capitals: which are words, to be read as such, and which are spelled letter by letter.

Knows no dictionary: length, vowels and two short lists decide.
"""

from __future__ import annotations

import re

# Spelled although they have four letters or more and a vowel.
_SPELLED_LIST = (
    "HTTP HTTPS HTML XHTML HTMX XML YAML JPEG MPEG IEEE ISBN ISSN IBAN ICBM UCLA USAF USDA OECD IATA ICAO IETF IEC"
    " UEFI EULA OLED AMOLED GPIO UART SATA NVME UUID GUID UTC APIS CPUS GPUS URLS CEOS DNSSEC IMAP OAUTH SAML AWS"
    " ESPN NCAA NAACP AARP ASAP AFAIK IMHO IIRC BYOD CCTV CNTV ACGN EBIT EBITDA IPTV IPO ICU ECMA ECDSA EEPROM"
    " UHMWPE MOBA MMORPG RTFM HDMI GGUF ADSL AIGC AIOT ADHD AOSP ISO IDE GUI SEO"
)
# Three letters that are words when they stand among other words in capitals.
_SHORT_LIST = (
    "THE AND FOR NOT YOU ARE ALL NEW NOW WAS BUT OUT TOP WHO HOW WHY YES CAN MAY SEE GET OUR HAS HAD HIS HER SHE HIM"
    " ITS ONE TWO DAY WAY USE ANY OFF OLD BIG BUY SAY TRY LET PUT RUN SET END ADD BAD RED BOX CAR CAT DOG FUN HOT"
    " JOB KEY LAW MAN MEN OWN PAY SUN WIN WAR IN OF TO IS IT ON AT BY OR AS WE HE GO NO SO UP DO MY AN BE IF ME"
)
_SPELLED, _SHORT_WORDS = frozenset(_SPELLED_LIST.split()), frozenset(_SHORT_LIST.split())
_CAPITALS = re.compile(r"(?<![A-Za-z])[A-Z]{2,}(?:'[A-Z]{1,2})?(?![A-Za-z])")
_ARTICLE = re.compile(r"(?<=[a-z] )A(?= [a-z])")
_VOWEL = re.compile("[AEIOUY]")


def is_word(capitals: str) -> bool:
    """Whether capitals are an ordinary word, or a name that is said like one (NASA)."""
    letters = capitals.split("'")[0]
    if len(letters) < 4 or letters in _SPELLED:
        return False
    # Five consonants in a row, or no vowel: nobody can say it.
    return bool(_VOWEL.search(letters)) and not re.search("[^AEIOUY]{5}", letters)


def lowered(text: str) -> str:
    """Ordinary words in capitals in lower case; abbreviations as they are."""
    found = list(_CAPITALS.finditer(text))
    if not found:
        return text
    words = {m.start() for m in found if is_word(m[0])}
    pieces, end = [], 0
    for index, m in enumerate(found):
        short = m[0] in _SHORT_WORDS and _among_words(text, found, index, words)
        pieces.append(text[end : m.start()] + (m[0].lower() if m.start() in words or short else m[0]))
        end = m.end()
    return _ARTICLE.sub("a", "".join(pieces) + text[end:]) if len(words) > 1 else "".join(pieces) + text[end:]


def _among_words(text: str, found: list[re.Match[str]], index: int, words: set[int]) -> bool:
    """Whether a word in capitals is within two words of this one, with nothing else between."""
    for step in (-1, 1):
        here = index
        for _ in range(3):
            there = here + step
            if not 0 <= there < len(found):
                break
            low, high = sorted((here, there))
            if text[found[low].end() : found[high].start()].strip(" ,'-"):
                break
            if found[there].start() in words or (step and found[there][0] in ("THE", "AND", "YOU", "ARE", "NOT")):
                return True
            here = there
    return False
