"""Write cosycli/data/hanzi.txt and words.txt from pypinyin's dictionaries (MIT licence).

hanzi.txt: each reading followed by the characters whose most common reading it is. words.txt: the
words which the program would misread with their characters' readings and the shorter words alone;
the others are left out, which makes the file a fifth of its source and changes no reading.
Run: python tools/build_hanzi.py
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from pypinyin.constants import PHRASES_DICT, PINYIN_DICT
from pypinyin.contrib.tone_convert import to_tone3

from cosycli.text import chinese

DATA = Path(chinese.__file__).parent.parent / "data"
# Their tone is a matter of sandhi, 儿 one of merging: the program's own work.
BASE = {"一": "yi1", "不": "bu4", "儿": "er2"}


def numbered(accented: str) -> str:
    """Pinyin with a tone digit ("nv3", "de5") for pinyin with an accent."""
    return to_tone3(accented, neutral_tone_with_five=True, v_to_u=False).replace("ü", "v").replace("ê", "ei")


def characters() -> dict[str, str]:
    """The first reading that pypinyin gives for each character."""
    found = {chr(code): numbered(readings.split(",")[0]) for code, readings in PINYIN_DICT.items()}
    return {char: sound for char, sound in found.items() if chinese.is_pinyin(sound)}


def words(known: chinese.Readings) -> dict[str, str]:
    """The words that `known` misreads; shorter words come first, so that longer ones can rest on them."""
    kept: dict[str, str] = {}
    for word in sorted(PHRASES_DICT, key=lambda w: (len(w), w)):
        sounds = [BASE.get(c, numbered(r[0])) for c, r in zip(word, PHRASES_DICT[word], strict=False)]
        if len(sounds) != len(word) or len(word) < 2 or not all(map(chinese.is_pinyin, sounds)):
            continue
        if list(known.of(word)) != sounds:
            kept[word] = known.words[word] = " ".join(sounds)
    return kept


def main() -> None:
    """Write both files."""
    hand = chinese.parse_phrases((DATA / "phrases.txt").read_text("utf-8"))
    chars = characters()
    groups: dict[str, list[str]] = defaultdict(list)
    for char, sound in sorted(chars.items()):
        groups[sound].append(char)
    lines = [f"{sound} {''.join(group)}" for sound, group in sorted(groups.items())]
    (DATA / "hanzi.txt").write_text("\n".join(lines) + "\n", "utf-8")
    kept = words(chinese.Readings(chars={**chars, **hand.chars, **BASE}, words={}, inside=hand.inside))
    (DATA / "words.txt").write_text("".join(f"{w} {s}\n" for w, s in sorted(kept.items())), "utf-8")


if __name__ == "__main__":
    main()
