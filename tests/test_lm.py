"""The language model against the official modules' logits, and its rules of length and sampling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import checkpoints

from cosycli.backends.cosyvoice import sampler
from cosycli.backends.cosyvoice.lm import SILENT, Decoding, LanguageModel, Request
from cosycli.backends.cosyvoice.watch import Watch
from cosycli.convert import qwen2
from cosycli.errors import InferenceError, ModelError


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
    parts, alone = [Decoding(model, 1, 1) for _ in range(2)], Decoding(model, 1, 1)
    logits = np.concatenate(
        [part.feed(model.start(each)[None]) for part, each in zip(parts, (short, request), strict=True)]
    )
    first, both = alone.feed(model.start(short)[None]), Decoding.joined(model, parts)
    for place, token in enumerate(forced):
        assert apart(logits[-1], wanted[place]) < 1e-3
        if place == 12:
            both.keep([1])
        if place < 12:
            assert apart(logits[0], first[0]) < 1e-3
            first = alone.feed(model.speech([token])[None])
        logits = both.feed(model.speech([token] * len(both.lengths))[:, None])


def test_caches_grow_unnoticed(model: LanguageModel) -> None:
    tokens = np.random.default_rng(0).integers(0, 96, 300)
    large, small = Decoding(model, 1, 300), Decoding(model, 1, 1)
    for start in range(0, 300, 50):
        embeds = model.speech(tokens[start : start + 50])[None]
        assert apart(large.feed(embeds), small.feed(embeds)) == 0


def test_more_positions_than_the_model_holds_are_refused(model: LanguageModel) -> None:
    with pytest.raises(InferenceError, match="16385 positions"):
        Decoding(model, 1, 1).feed(np.zeros((1, 16_385, 128), np.float32))


def shapes(version: int, hidden: int, layers: int, kv: int, inner: int, vocabulary: int, speech: int) -> dict[str, Any]:
    head = {2: speech + 3, 3: speech + 200}[version]
    made: dict[str, tuple[int, ...]] = {
        "llm.model.model.embed_tokens.weight": (vocabulary, hidden),
        "llm.model.model.norm.weight": (hidden,),
        "speech_embedding.weight": (head, hidden),
        "llm_decoder.weight": (head, hidden),
    }
    if version == 2:
        made |= {"llm_embedding.weight": (2, hidden), "llm_decoder.bias": (head,)}
    for layer in range(layers):
        key = f"llm.model.model.layers.{layer}"
        for part, rows in {"q": hidden, "k": kv, "v": kv}.items():
            made |= {
                f"{key}.self_attn.{part}_proj.weight": (rows, hidden),
                f"{key}.self_attn.{part}_proj.bias": (rows,),
            }
        made |= {f"{key}.self_attn.o_proj.weight": (hidden, hidden), f"{key}.mlp.down_proj.weight": (hidden, inner)}
        made |= {f"{key}.mlp.{part}_proj.weight": (inner, hidden) for part in ("gate", "up")}
        made |= {f"{key}.{part}_layernorm.weight": (hidden,) for part in ("input", "post_attention")}
    return made


def naive(weights: Any, config: Any, x: Any) -> Any:
    """Qwen2 written down plainly, in float64 and without caches: embeddings [n, hidden] → logits [n, vocabulary]."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    x, size = x.astype(np.float64), config["hidden_size"] // heads
    angles = np.arange(len(x))[:, None] / config["rope_theta"] ** (np.arange(0, size, 2) / size)
    turn = np.exp(1j * angles)[:, None]

    def normed(x: Any, key: str) -> Any:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weights[f"{key}.weight"]

    def rotated(x: Any) -> Any:
        pairs = (x[..., : size // 2] + 1j * x[..., size // 2 :]) * turn
        return np.concatenate([pairs.real, pairs.imag], -1)

    def product(x: Any, key: str) -> Any:
        return x @ weights[f"{key}.weight"].T + weights.get(f"{key}.bias", 0)

    for layer in range(config["num_hidden_layers"]):
        key = f"llm.model.model.layers.{layer}"
        h = normed(x, f"{key}.input_layernorm")
        q, k, v = (product(h, f"{key}.self_attn.{part}_proj").reshape(len(x), -1, size) for part in "qkv")
        q, k = rotated(q), rotated(k)
        k, v = (np.repeat(each, heads // kv_heads, 1) for each in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(size) + np.triu(np.full((len(x), len(x)), -np.inf), 1)
        chances = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("hij,jhd->ihd", chances / chances.sum(-1, keepdims=True), v).reshape(len(x), -1)
        x = x + product(mixed, f"{key}.self_attn.o_proj")
        h = normed(x, f"{key}.post_attention_layernorm")
        gate = product(h, f"{key}.mlp.gate_proj")
        x = x + product(gate / (1 + np.exp(-gate)) * product(h, f"{key}.mlp.up_proj"), f"{key}.mlp.down_proj")
    return product(normed(x, "llm.model.model.norm"), "llm_decoder")


OTHERS = [  # version, hidden, heads, kv heads, layers, inner, speech
    (2, 192, 3, 1, 3, 320, 96),
    (3, 192, 6, 2, 3, 416, 200),
    (3, 256, 4, 4, 1, 192, 64),
]


@pytest.mark.parametrize("other", OTHERS)
def test_other_dimensions(tmp_path: Path, other: tuple[int, ...]) -> None:
    version, hidden, heads, kv_heads, layers, inner, speech = other
    config = {**checkpoints.CONFIG, "hidden_size": hidden, "num_attention_heads": heads, "rope_theta": 1e5}
    config |= {"num_key_value_heads": kv_heads, "num_hidden_layers": layers, "rms_norm_eps": 1e-5}
    sizes = shapes(version, hidden, layers, hidden // heads * kv_heads, inner, 300, speech)
    weights = checkpoints.weights("llm", sizes)
    model = LanguageModel(tmp_path, qwen2.build(tmp_path, weights, config, version, speech))
    request, forced = Request([7, 250, 3, 9, 11], [1, 2], [60, 4, 6]), [5, 60, 63, 0, 1]
    marks = (
        weights["llm_embedding.weight"] if version == 2 else weights["speech_embedding.weight"][[speech, speech + 2]]
    )
    text, said = weights["llm.model.model.embed_tokens.weight"], weights["speech_embedding.weight"]
    whole = [marks[:1], text[[1, 2, 7, 250, 3, 9, 11]], marks[1:], said[[60, 4, 6, *forced]]]
    wanted = naive(weights, config, np.concatenate(whole))[-6:]
    decoding = Decoding(model, 1, 1, model.prefix(request.prompt_text))
    rows = [decoding.feed(model.start(request, model.prefix(request.prompt_text))[None])]
    rows += [decoding.feed(model.speech([token])[None]) for token in forced]
    assert apart(np.concatenate(rows), wanted) < 1e-3
    assert model.settings["head"] == hidden // heads


def test_a_checkpoint_with_fewer_layers_than_it_says_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="fewer than the 5 layers"):
        qwen2.build(tmp_path, checkpoints.tiny(3, "llm"), {**checkpoints.CONFIG, "num_hidden_layers": 5}, 3, 96)


@pytest.mark.parametrize(("precision", "alike"), [("int8", 0.999), ("int4", 0.97)])
def test_rounded_weights_come_near(version: int, tmp_path: Path, precision: str, alike: float) -> None:
    request, _, wanted = golden(version)
    rounded = made(tmp_path, version, precision)
    logits = Decoding(rounded, 1, 128).feed(rounded.start(request)[None])[0]
    assert alike < np.corrcoef(logits, wanted[0])[0, 1] < 0.999999
    assert np.load(tmp_path / "text-embedding.npy", mmap_mode="r").dtype == np.float16


def test_a_seed_gives_the_same_tokens(model: LanguageModel) -> None:
    request = Request([5, 6, 7, 8], (), [1, 2])
    first, again, other = (list(model.generate(request, seed, strict=True)) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) <= 80


def test_a_batch_draws_what_single_sentences_draw(model: LanguageModel) -> None:
    # The first row has the longest beginning and ends first: its caches must not be written on beyond its end.
    requests = [
        Request([5, 6], (3,), list(range(90)) * 2),
        Request([9] * 20, (3,)),
        Request([11, 12, 13], (3,), [4]),
        Request([], (3,)),
    ]
    prefix, seeds = model.prefix([3]), [1, 2, 3, 4]
    together = model.generate_together(requests, seeds, prefix=prefix, strict=True)
    assert together == [
        list(model.generate(request, seed, prefix=prefix, strict=True))
        for request, seed in zip(requests, seeds, strict=True)
    ]
    assert together[3] == []
    assert model.generate_together([], []) == []


def forced_draws(monkeypatch: pytest.MonkeyPatch, tokens: list[int]) -> list[list[float]]:
    """Let the sampler draw these; the logits that it saw."""
    given, saw = iter(tokens), []

    def draw(logits: Any, *_: Any) -> int:
        saw.append(logits.tolist())
        return next(given)

    monkeypatch.setattr(sampler, "draw", draw)
    return saw


def test_of_silence_in_a_row_five_tokens_are_spoken_and_all_are_remembered(
    model: LanguageModel, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence = sorted(token for token in SILENT if token < 96)[:4] * 2
    tokens = [7, *silence, 8, *silence[:2]]
    saw = forced_draws(monkeypatch, [*tokens, model.settings["eos"]])
    said = list(model.generate(Request([5] * 4), 1))
    assert said == ([7, *silence[:5], 8, *silence[:2]] if version == 3 else tokens)
    embeds = np.concatenate([model.start(Request([5] * 4)), model.speech(tokens)])[None]
    assert apart(np.array(saw[-1]), Decoding(model, 1, 1).feed(embeds)[0]) < 1e-4


@pytest.mark.parametrize("together", [False, True])
def test_a_watch_sees_silence_that_is_not_spoken_and_ends_the_sentence(
    model: LanguageModel, version: int, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    forced_draws(monkeypatch, [7, *[1, 2] * 100])
    request, watch = Request([5] * 20), Watch(20)
    if together:
        (said,) = model.generate_together([request], [1], watches=[watch])
    else:
        said = list(model.generate(request, 1, watch=watch))
    assert len(said) == (6 if version == 3 else 74)  # version 2 knows no silent tokens
    assert watch.verdict() == ("it was silent for 4 s" if version == 3 else "it repeated itself")


def test_a_watch_knows_that_a_sentence_was_cut_off(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    forced_draws(monkeypatch, list(range(40)))
    watch = Watch(2)
    assert len(list(model.generate(Request([5, 6]), 1, watch=watch))) > 30
    assert watch.verdict() == "it had not ended after 2 s"


def test_the_official_rule_bans_one_id_until_the_shortest_length(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    bans: list[list[int]] = []

    def draw(logits: Any, recent: Any, random: Any, banned: Any) -> int:
        bans.append(sorted(banned))
        return 7

    monkeypatch.setattr(sampler, "draw", draw)
    assert len(list(model.generate(Request([5, 6]), 1))) == 40
    assert bans == [[96]] * 4 + [[]] * 36
    bans.clear()
    list(model.generate(Request([5, 6]), 1, strict=True))
    assert bans == [model.settings["stop"]] * 4 + [[]] * 36


def test_strict_keeps_the_shortest_length(model: LanguageModel) -> None:
    request = Request([5, 6, 7, 8])
    for seed in range(20):
        assert 8 <= len(list(model.generate(request, seed, strict=True))) <= 80


def test_a_limit_ends_the_sentence(model: LanguageModel) -> None:
    assert len(list(model.generate(Request([5] * 10), 1, strict=True, limit=6))) == 6


class Mixed:
    """Text that is spoken while it arrives, and what the model was fed for each token it drew."""

    def __init__(self, model: LanguageModel, monkeypatch: pytest.MonkeyPatch, tokens: list[int]) -> None:
        self.model, self.saw = model, forced_draws(monkeypatch, tokens)

    def said(self, text: list[list[int]], prompt_text: Sequence[int] = (), speech: Sequence[int] = ()) -> list[int]:
        prefix = self.model.prefix([3])
        return list(self.model.bistream(text, 1, prefix=prefix, prompt_text=prompt_text, prompt_speech=speech))

    def check(self, place: int, *parts: Any) -> None:
        embeds = np.concatenate([self.model.start(Request([], [3]))[:2], *parts])[None]
        assert apart(np.array(self.saw[place]), Decoding(self.model, 1, 1).feed(embeds)[0]) < 1e-4


@pytest.mark.parametrize("sizes", [[1] * 13, [13], [4, 9]])
def test_text_and_speech_alternate(model: LanguageModel, monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    fill, eos, draws = model.settings["fill"], model.settings["eos"], list(range(30, 50))
    # After 18 tokens of the prompt's speech, twelve more end its second group, and there text is asked for unasked.
    mixed = Mixed(model, monkeypatch, [*draws[:12], *draws[12:15], fill, *draws[15:18], eos])
    ids, speech = list(range(100, 113)), list(range(18))
    text = [ids[sum(sizes[:place]) : sum(sizes[: place + 1])] for place in range(len(sizes))]
    assert mixed.said(text, [90, 91], speech) == draws[:18]
    t, s = model.text, model.speech
    begin = [t([90, 91, *ids[:3]]), s(speech[:15]), t(ids[3:8]), s(speech[15:])]
    mixed.check(0, *begin)
    mixed.check(11, *begin, s(draws[:11]))
    mixed.check(12, *begin, s(draws[:12]), t(ids[8:13]))
    # The text is over; official code feeds its last input once more.
    again = [*begin, s(draws[:12]), t(ids[8:13]), s(draws[12:15]), s(draws[14:15]), model.start(Request([]))[-1:]]
    mixed.check(16, *again)
    mixed.check(18, *again, s(draws[15:17]))


def test_without_prompt_speech_text_comes_before_speech(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    fill, eos = model.settings["fill"], model.settings["eos"]
    mixed = Mixed(model, monkeypatch, [7, 8, fill, 9, eos])
    assert mixed.said([[10, 11], [12, 13], [14], [15]]) == [7, 8, 9]
    mixed.check(0, model.text([10, 11, 12, 13, 14]))


def test_fill_is_forced_every_sixteenth_token(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = Mixed(model, monkeypatch, [*range(20, 50), model.settings["eos"]])
    assert mixed.said([[token] for token in range(10, 20)]) == list(range(20, 50))
    mixed.check(15, model.text(range(10, 15)), model.speech(range(20, 35)), model.text(range(15, 20)))


def test_a_text_shorter_than_a_group_is_spoken_at_its_end(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = Mixed(model, monkeypatch, [7, model.settings["eos"]])
    assert mixed.said([[10], [11]]) == [7]
    mixed.check(0, model.text([10, 11]), model.start(Request([]))[-1:])


def test_text_that_arrives_ends_by_itself_or_at_a_limit(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = model.prefix([3])
    monkeypatch.setattr(sampler, "draw", lambda *_: 7)
    assert len(list(model.bistream([[10, 11]], 1, prefix=prefix))) == 40
    for limit in (10, 20):
        assert len(list(model.bistream([[10] * 6], 1, prefix=prefix, limit=limit))) == min(limit, limit - limit // 16)
    assert list(model.bistream([], 1, prefix=prefix)) == []


def test_only_speech_and_fill_are_drawn_while_text_arrives(model: LanguageModel) -> None:
    for seed in range(5):
        text = [[token] for token in range(20)]
        said = list(model.bistream(text, seed, prefix=model.prefix([3]), prompt_text=[4], prompt_speech=[5] * 20))
        assert len(said) > 10
        assert max(said) < 96
