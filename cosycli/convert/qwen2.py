"""The language model: a Qwen2 decoder with embeddings for text and for speech tokens, and a head for speech alone.

The official modules are `Qwen2ForCausalLM` and CosyVoice's `Qwen2LM` and `CosyVoice3LM` (@ ace7c47).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cosycli.convert import build as graphs
from cosycli.convert.build import INT32, INT64, Array, Graph, Product
from cosycli.errors import ModelError

BODY = "llm.model.model"
POSITIONS = 16_384  # at most; 25 speech tokens are a second
ROWS = 8192  # of an embedding that are converted at a time
# One row at a time is bound by reading weights, and 4 bits cost more in the prompt than they save afterwards.
PRODUCTS: Mapping[str, Product] = {
    "float32": graphs.plain,
    "int8": graphs.blocks(8, 128),
    "int4": graphs.blocks(4, 64),
}


def build(
    folder: Path,
    weights: Mapping[str, Array],
    config: Mapping[str, Any],
    version: int,
    speech: int,
    precision: str = "float32",
) -> dict[str, Any]:
    """Write `lm.onnx` and the embeddings. `config`: the checkpoint's config.json; `speech`: how many speech tokens.

    Returns the model's settings: its dimensions and the ids that are no speech.
    """
    heads, kv_heads = int(config["num_attention_heads"]), int(config["num_key_value_heads"])
    hidden, layers = int(config["hidden_size"]), int(config["num_hidden_layers"])
    if f"{BODY}.layers.{layers - 1}.mlp.down_proj.weight" not in weights:
        raise ModelError(f"llm.pt has fewer than the {layers} layers of config.json", "download the model again")
    _decoder(Graph(folder, "lm", PRODUCTS[precision]), weights, config)
    kind = np.float32 if precision == "float32" else np.float16
    _embedding(folder / "text-embedding.npy", weights[f"{BODY}.embed_tokens.weight"], kind)
    _embedding(folder / "speech-embedding.npy", weights["speech_embedding.weight"], kind)
    marks = weights["llm_embedding.weight"] if version == 2 else weights["speech_embedding.weight"]
    sos, task = (0, 1) if version == 2 else (speech, speech + 2)
    np.save(folder / "lm-marks.npy", np.stack([marks[sos], marks[task]]).astype(np.float32))
    vocabulary = int(weights["llm_decoder.weight"].shape[0])
    ids = {"eos": speech, "fill": speech + 2} if version == 2 else {"eos": speech + 1, "fill": speech + 3}
    return {
        "version": version,
        "hidden": hidden,
        "layers": layers,
        "kv_heads": kv_heads,
        "head": hidden // heads,
        "positions": min(POSITIONS, int(config.get("max_position_embeddings", POSITIONS))),
        "speech": speech,
        "vocabulary": vocabulary,
        **ids,
        "stop": list(range(speech, vocabulary)),
    }


def _embedding(path: Path, table: Array, kind: Any) -> None:
    """Write a table, a part at a time: the text's is 544 MB."""
    made = np.lib.format.open_memmap(path, "w+", np.dtype(kind), table.shape)
    for start in range(0, len(table), ROWS):
        made[start : start + ROWS] = table[start : start + ROWS]
    made.flush()


def _decoder(graph: Graph, weights: Mapping[str, Array], config: Mapping[str, Any]) -> None:
    """Embeddings [rows, positions, hidden], appended to the caches → logits [rows, vocabulary] at `last`."""
    hidden, layers = int(config["hidden_size"]), int(config["num_hidden_layers"])
    heads, kv_heads = int(config["num_attention_heads"]), int(config["num_key_value_heads"])
    size, epsilon = hidden // heads, float(config.get("rms_norm_eps", 1e-6))
    angles = np.arange(POSITIONS)[:, None] / float(config.get("rope_theta", 1e6)) ** (np.arange(0, size, 2) / size)
    rotary = [graph.constant("cos", np.cos(angles)), graph.constant("sin", np.sin(angles))]
    x = graph.input("embeds", ["rows", "positions", hidden])
    graph.input("seqlens_k", ["rows"], INT32)
    graph.input("total_sequence_length", [], INT32)
    graph.input("last", ["rows", 1], INT64)

    def scale(name: str) -> str:
        return graph.constant(f"{name}.scale", weights[f"{BODY}.{name}.weight"])

    normed = graph.op("SimplifiedLayerNormalization", [x, scale("layers.0.input_layernorm")], epsilon=epsilon, axis=-1)
    for layer in range(layers):
        name, key = f"layers.{layer}", f"{BODY}.layers.{layer}"
        parts = [f"{key}.self_attn.{part}_proj" for part in "qkv"]
        weight = np.concatenate([weights[f"{part}.weight"] for part in parts])
        bias = np.concatenate([weights[f"{part}.bias"] for part in parts])
        qkv = graph.linear(normed, f"{name}.qkv", weight, bias)
        caches = [f"past.{layer}.{kind}" for kind in ("key", "value")]
        for cache in caches:
            graph.input(cache, ["rows", kv_heads, "room", size])
        following = [f"present.{layer}.{kind}" for kind in ("key", "value")]
        mixed, *_ = graph.ops(
            "GroupQueryAttention",
            [qkv, "", "", *caches, "seqlens_k", "total_sequence_length", *rotary],
            [f"{name}.attention", *following],
            f"{name}.attention",
            domain="com.microsoft",
            num_heads=heads,
            kv_num_heads=kv_heads,
            do_rotary=1,
            rotary_interleaved=0,
        )
        for cache in following:
            graph.output(cache, ["rows", kv_heads, "room", size])
        more = graph.linear(mixed, f"{name}.out", weights[f"{key}.self_attn.o_proj.weight"])
        x, normed = _added(graph, x, more, scale(f"{name}.post_attention_layernorm"), epsilon)
        both = np.concatenate([weights[f"{key}.mlp.{part}_proj.weight"] for part in ("gate", "up")])
        wide = graph.linear(normed, f"{name}.up", both)
        gate, up = graph.ops("Split", [wide], 2, axis=2)
        gated = graph.op("Mul", [graph.contrib("QuickGelu", [gate], alpha=1.0), up])  # alpha 1 is SiLU
        more = graph.linear(gated, f"{name}.down", weights[f"{key}.mlp.down_proj.weight"])
        following_norm = f"layers.{layer + 1}.input_layernorm" if layer + 1 < layers else "norm"
        x, normed = _added(graph, x, more, scale(following_norm), epsilon)
    one = graph.op("GatherND", [normed, "last"], batch_dims=1)
    head = graph.linear(one, "head", weights["llm_decoder.weight"], weights.get("llm_decoder.bias"))
    graph.output(head, ["rows", "vocabulary"], "logits")
    graph.save()


def _added(graph: Graph, x: str, more: str, scale: str, epsilon: float) -> tuple[str, str]:
    """x + more, and that normed."""
    name = f"{more}/norm"
    normed, *_, total = graph.ops(
        "SkipSimplifiedLayerNormalization",
        [x, more, scale],
        [name, "", "", f"{name}/sum"],
        name,
        domain="com.microsoft",
        epsilon=epsilon,
    )
    return total, normed
