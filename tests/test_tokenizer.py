"""Token ids are the official tokenizer's. The vocabulary here holds what the cases can reach of Qwen2's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import checkpoints

from cosycli.backends.cosyvoice.tokenizer import Tokenizer, added
from cosycli.errors import ModelError

FOLDER = checkpoints.DATA / "tokenizer"
CASES = json.loads((FOLDER / "cases.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def tokenizers() -> dict[int, Tokenizer]:
    return {version: Tokenizer(FOLDER, version) for version in (2, 3)}


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_ids_are_the_official_ones(tokenizers: dict[int, Tokenizer], case: Any) -> None:
    for version, tokenizer in tokenizers.items():
        assert tokenizer.encode(case["text"], control=True) == case[f"v{version}"]


def test_added_tokens_follow_the_vocabulary(tokenizers: dict[int, Tokenizer]) -> None:
    assert (len(added(2)), len(added(3))) == (20, 281)
    assert tokenizers[3].encode("<|endofprompt|>[ǜ]", control=True) == [151646, 151923]


def test_without_control_they_are_text(tokenizers: dict[int, Tokenizer]) -> None:
    ids = tokenizers[3].encode("[breath]")
    assert len(ids) > 1
    assert max(ids) < 151643
    assert tokenizers[3].controls("a [breath] b <strong>") == ["[breath]", "<strong>"]


def test_nothing_is_nothing(tokenizers: dict[int, Tokenizer]) -> None:
    assert tokenizers[3].encode("") == tokenizers[3].encode("", control=True) == []


def test_a_damaged_vocabulary_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text("{")
    (tmp_path / "merges.txt").write_text("")
    with pytest.raises(ModelError, match="tokenizer"):
        Tokenizer(tmp_path, 3)
