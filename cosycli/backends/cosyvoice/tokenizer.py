"""Text → token ids: Qwen2's byte-level BPE with the tokens that CosyVoice adds."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from cosycli.errors import ModelError

# How Qwen2 cuts text before it merges bytes (Qwen2's tokenizer_config, Apache-2.0).
CUTS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
COUNTS = {2: 20, 3: 281}  # of added tokens
END_OF_PROMPT = "<|endofprompt|>"
VOCABULARY, MERGES = "vocab.json", "merges.txt"


@functools.cache
def added(version: int) -> tuple[str, ...]:
    """The tokens that a version adds to the vocabulary, in the order of their ids."""
    lines = (resources.files("cosycli") / "data" / "cosyvoice-tokens.txt").read_text("utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))[: COUNTS[version]]


class Tokenizer:
    """The tokenizer of a bundle: `vocab.json` and `merges.txt` in its folder. May be used by many threads.

    Raises ModelError where they are missing or damaged.
    """

    def __init__(self, folder: Path, version: int) -> None:
        from tokenizers import Regex, models, normalizers, pre_tokenizers
        from tokenizers import Tokenizer as Library

        try:
            model = models.BPE.from_file(str(folder / VOCABULARY), str(folder / MERGES))
            known = json.loads((folder / VOCABULARY).read_text("utf-8"))
            first = max(number for token, number in known.items() if token not in added(version)) + 1
        except Exception as error:  # the library raises plain Exception
            raise ModelError(f"the tokenizer in {folder} is damaged: {error}", "convert the model again") from error
        self._library: Any = Library(model)
        self._library.normalizer = normalizers.NFC()
        self._library.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(CUTS), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self._added = {token: first + place for place, token in enumerate(added(version))}
        longest_first = sorted(self._added, key=len, reverse=True)
        self._marks = re.compile("|".join(map(re.escape, longest_first)))

    def encode(self, text: str, *, control: bool = False) -> list[int]:
        """Token ids. With `control`, added tokens in the text are what they are; without, they are plain text."""
        if not control:
            return self._plain(text)
        ids, start = [], 0
        for found in self._marks.finditer(text):
            ids += [*self._plain(text[start : found.start()]), self._added[found.group()]]
            start = found.end()
        return ids + self._plain(text[start:])

    def controls(self, text: str) -> Sequence[str]:
        """The added tokens in a text."""
        return self._marks.findall(text)

    def _plain(self, text: str) -> list[int]:
        return list(self._library.encode(text, add_special_tokens=False).ids) if text else []
