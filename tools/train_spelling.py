"""Write cosycli/data/spelling.txt: how English letters are said, for words in no dictionary.

Learnt from misaki's US dictionaries (Apache-2.0): each word's letters are aligned with its sounds
(Viterbi training: a letter is none, one or two sounds), then each letter's sound is told by as
little of its surroundings as it takes (a decision tree over the letters right and left of it).
Run: python tools/train_spelling.py [--test]; --test holds a twentieth of the words out and scores them.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import sys
from collections import Counter, defaultdict
from importlib import resources
from pathlib import Path

from cosycli.text import english, spelling

TARGET = Path(spelling.__file__).parent.parent / "data" / "spelling.txt"
LEAST = 3  # words that a rule must be learnt from
STRESSES = "ˈˌ"

Pairs = list[tuple[str, list[str]]]


def dictionary() -> Pairs:
    """Plain words and their sounds, a stress mark with its sound."""
    found = []
    for name in ("english-silver.json.gz", "english-gold.json.gz"):
        entries = json.loads(gzip.decompress(resources.files("cosycli").joinpath("data", name).read_bytes()))
        for word, value in entries.items():
            sounds = value if isinstance(value, str) else value["DEFAULT"]
            if re.fullmatch("[a-z]{2,}", word) and sounds:
                found.append((word, stressed_vowels(sounds)))
    return found


def stressed_vowels(sounds: str) -> list[str]:
    """Sounds one by one, the stress mark on its vowel rather than before the consonants."""
    out: list[str] = []
    mark = ""
    for sound in sounds:
        if sound in STRESSES:
            mark = sound
        elif sound in english.VOWELS:
            out.append(mark + sound)
            mark = ""
        else:
            out.append(sound)
    return out


def align(word: str, sounds: list[str], cost: dict[tuple[str, str], float]) -> list[str] | None:
    """The cheapest share of the sounds for each letter."""
    best = {0: (0.0, [])}
    for letter in word:
        after: dict[int, tuple[float, list[str]]] = {}
        for at, (paid, path) in best.items():
            for size in (0, 1, 2):
                if at + size <= len(sounds):
                    share = "".join(sounds[at : at + size])
                    price = paid + cost.get((letter, share), 12.0 + 3 * size)
                    if at + size not in after or price < after[at + size][0]:
                        after[at + size] = (price, [*path, share])
        best = after
    return best[len(sounds)][1] if len(sounds) in best else None


def learn_costs(pairs: Pairs) -> dict[tuple[str, str], float]:
    """How surprising each letter's share is, by aligning and counting in turn."""
    cost: dict[tuple[str, str], float] = {}
    for word, sounds in pairs:
        for letter, sound in zip(word, sounds, strict=False):
            cost[letter, sound] = 6.0
    for _ in range(5):
        counts: Counter[tuple[str, str]] = Counter()
        for word, sounds in pairs:
            counts.update(zip(word, align(word, sounds, cost) or [], strict=False))
        totals: Counter[str] = Counter()
        for (letter, _share), n in counts.items():
            totals[letter] += n
        cost = {key: -math.log(n / totals[key[0]]) for key, n in counts.items() if n > 1}
    return cost


def grow(examples: dict[str, list[tuple[str, int, str]]]) -> dict[str, str]:
    """Rules: surroundings -> share, only where they say something else than their shorter form."""
    rules: dict[str, str] = {}

    def split(items: list[tuple[str, int, str]], depth: int, said: str | None) -> None:
        counts = Counter(share for _, _, share in items)
        share, n = counts.most_common(1)[0]
        if share != said:
            rules[spelling.surroundings(items[0][0], items[0][1], depth)] = share
        if n == len(items) or depth == spelling.DEEPEST:
            return
        groups = defaultdict(list)
        for item in items:
            groups[spelling.surroundings(item[0], item[1], depth + 1)].append(item)
        for group in groups.values():
            if len(group) >= LEAST:
                split(group, depth + 1, share)

    for items in examples.values():
        split(items, 0, None)
    return rules


def train(pairs: Pairs) -> dict[str, str]:
    """The rules for these words."""
    cost = learn_costs(random.Random(1).sample(pairs, min(25_000, len(pairs))))
    examples = defaultdict(list)
    for word, sounds in pairs:
        for i, share in enumerate(align(word, sounds, cost) or []):
            examples[word[i]].append((word, i, share))
    return grow(examples)


def score(rules: dict[str, str], pairs: Pairs) -> None:
    """Words right, with and without stress."""
    right = plain = 0
    bare = str.maketrans("", "", STRESSES)
    for word, sounds in pairs:
        want, got = "".join(sounds), "".join(stressed_vowels(spelling.said(word, rules)))
        right += want == got
        plain += want.translate(bare) == got.translate(bare)
    print(f"{len(pairs)} words held out: {right / len(pairs):.1%} right, {plain / len(pairs):.1%} but for stress")


def main() -> None:
    """Train, score if asked to, and write."""
    pairs = dictionary()
    random.Random(0).shuffle(pairs)
    held = len(pairs) // 20 if "--test" in sys.argv else 0
    rules = train(pairs[held:])
    print(f"{len(rules)} rules from {len(pairs) - held} words")
    if held:
        score(rules, pairs[:held])
    else:
        TARGET.write_text("".join(f"{key}\t{share}\n" for key, share in sorted(rules.items())), "utf-8")


if __name__ == "__main__":
    main()
