"""The language model against the official modules' logits, and its rules of length and sampling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import checkpoints

from cosycli.backends.cosyvoice.lm import Decoding, LanguageModel, Request
from cosycli.convert import qwen2


def made(folder: Path, version: int, precision: str = "float32") -> LanguageModel:
    settings = qwen2.build(folder, checkpoints.tiny(version, "llm"), checkpoints.CONFIG, version, 96, precision)
    return LanguageModel(folder, settings)


@pytest.fixture(scope="module", params=[2, 3])
def version(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module")
def model(version: int, tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return made(tmp_path_factory.mktemp("lm"), version)


def golden(version: int) -> tuple[Request, list[int], Any]:
    known = checkpoints.references(version)
    request = Request(known["llm_text"][0].tolist(), (), known["llm_prompt"][0].tolist())
    return request, known["llm_forced"][0].tolist(), known["llm_logits"]


def log_softmax(logits: Any) -> Any:
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def apart(made: Any, wanted: Any) -> float:
    return float(np.abs(made - wanted).max())


def test_cached_steps_are_the_official_logits(model: LanguageModel, version: int) -> None:
    request, forced, wanted = golden(version)
    decoding = Decoding(model, 1, 128)
    rows = [decoding.feed(model.start(request)[None])]
    rows += [decoding.feed(model.speech([token])[None]) for token in forced]
    assert apart(np.concatenate(rows), wanted) < 1e-3


def test_the_whole_sequence_at_once_is_the_official_logits(model: LanguageModel, version: int) -> None:
    request, forced, wanted = golden(version)
    embeds = np.concatenate([model.start(request), model.speech(forced)])[None]
    assert apart(Decoding(model, 1, 128).feed(embeds)[0], wanted[-1]) < 1e-3


def test_a_prefix_saves_its_part_of_the_prompt(model: LanguageModel, version: int) -> None:
    request, _, wanted = golden(version)
    split = Request(request.text[10:], request.text[:10], request.prompt_speech)
    prefix = model.prefix(split.prompt_text)
    for _ in range(2):  # the first sentence must not change it
        decoding = Decoding(model, 1, 128, prefix)
        assert apart(decoding.feed(model.start(split, prefix)[None])[0], wanted[0]) < 1e-3
        decoding.feed(model.speech([1])[None])
    assert prefix.length == 11


def test_rows_of_a_batch_do_not_see_each_other(model: LanguageModel, version: int) -> None:
    request, forced, wanted = golden(version)
    short = Request(request.text[:5], (), request.prompt_speech[:7])
    starts = [model.start(short), model.start(request)]
    embeds = np.zeros((2, len(starts[1]), starts[1].shape[1]), np.float32)
    for row, start in enumerate(starts):
        embeds[row, : len(start)] = start
    both = Decoding(model, 2, 128)
    alone = Decoding(model, 1, 128)
    logits, first = both.feed(embeds, np.array([len(start) for start in starts])), alone.feed(starts[0][None])
    for place, token in enumerate(forced):
        assert apart(logits[1], wanted[place]) < 1e-3
        assert apart(logits[0], first[0]) < 1e-3
        logits, first = both.feed(model.speech([token, token])[:, None]), alone.feed(model.speech([token])[None])


def test_int8_comes_near(version: int, tmp_path: Path) -> None:
    request, _, wanted = golden(version)
    rounded = made(tmp_path, version, "int8")
    logits = Decoding(rounded, 1, 128).feed(rounded.start(request)[None])[0]
    assert np.corrcoef(logits, wanted[0])[0, 1] > 0.999


def test_a_seed_gives_the_same_tokens(model: LanguageModel) -> None:
    request = Request([5, 6, 7, 8], (), [1, 2])
    first, again, other = (list(model.generate(request, seed, strict=True)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) <= 80


def test_a_batch_draws_what_single_sentences_draw(model: LanguageModel) -> None:
    requests = [Request([5, 6, 7, 8], (), [1, 2]), Request([9, 10]), Request([11, 12, 13], (3,), [4])]
    together = model.generate_together(requests, [1, 2, 3], strict=True)
    alone = [
        list(model.generate(request, seed, strict=True)) for request, seed in zip(requests, [1, 2, 3], strict=True)
    ]
    assert together == alone


def test_strict_keeps_the_shortest_length(model: LanguageModel) -> None:
    request = Request([5, 6, 7, 8])
    for seed in range(20):
        assert 8 <= len(list(model.generate(request, seed, strict=True))) <= 80


def test_a_limit_ends_the_sentence(model: LanguageModel) -> None:
    assert len(list(model.generate(Request([5] * 10), 1, strict=True, limit=6))) == 6
