"""Checkpoints without their files: each tensor is made from its key, by the rule that made the reference outputs in
data/cosyvoice. `references` are what the official PyTorch modules compute with these weights.
"""

from __future__ import annotations

import functools
import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parents[1] / "data" / "cosyvoice"
SEEDS = {"llm": 11, "flow": 12, "hift": 13}
FREE = ("embed_tokens", "speech_embedding", "llm_embedding", "input_embedding")
SINE_NOISE_3 = 1_245_850  # where in NumPy's RandomState(0) the tiny version 3's source noise begins, in 32-bit draws
CONFIG = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "vocab_size": 512,
}


def _values(key: str, shape: tuple[int, ...], seed: int) -> Any:
    random = np.random.RandomState((zlib.crc32(key.encode()) + seed) % 2**32)
    a = random.standard_normal(shape)
    if key.endswith("alpha"):
        return np.abs(1 + 0.3 * a) + 0.1
    if "pos_bias" in key:
        return 0.1 * a
    if any(name in key for name in FREE):
        return 0.5 * a
    if key.endswith("f0_predictor.classifier.bias"):
        return np.full(shape, 180.0)
    if len(shape) > 1:
        return a / math.sqrt(math.prod(shape[1:]))
    return 1 + 0.1 * a if key.endswith(".weight") else 0.1 * a


def weights(part: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The tensors of `part` ("llm", "flow" or "hift") by key, float32."""
    seed = SEEDS[part]
    made = {key: _values(key, shape, seed).astype(np.float32) for key, shape in shapes.items()}
    for key in made:
        if key.endswith("inv_freq"):
            made[key] = (1 / 10000 ** (np.arange(0, 64, 2) / 64)).astype(np.float32)
        if key.endswith("original0"):
            v = made[key.replace("original0", "original1")].astype(np.float64)
            random = np.random.RandomState((zlib.crc32(key.encode()) + seed) % 2**32)
            gain = np.sqrt((v**2).reshape(len(v), -1).sum(1)).reshape(made[key].shape)
            made[key] = (gain * (0.6 + 0.4 * random.uniform(size=made[key].shape))).astype(np.float32)
        if key.endswith("lm_head.weight"):
            made[key] = made[key.replace("lm_head.weight", "model.embed_tokens.weight")]
    return made


def tiny_shapes(version: int, part: str) -> dict[str, tuple[int, ...]]:
    """The keys and shapes of the tiny checkpoint of CosyVoice 2 or 3 that the references were made with."""
    lines = (DATA / f"shapes{version}.txt").read_text().splitlines()
    named = (line.removeprefix(f"{part}.pt:").rsplit(" ", 1) for line in lines if line.startswith(f"{part}.pt:"))
    return {key: tuple(map(int, filter(None, shape.split("x")))) for key, shape in named}


@functools.cache
def tiny(version: int, part: str) -> Mapping[str, Any]:
    """The tensors of that tiny checkpoint."""
    return weights(part, tiny_shapes(version, part))


@functools.cache
def references(version: int) -> Mapping[str, Any]:
    """Inputs and outputs of the official modules with the tiny weights (CosyVoice @ ace7c47, float32)."""
    with np.load(DATA / f"reference{version}.npz") as file:
        return {name: file[name] for name in file.files}


def uniform(start: int, count: int) -> Any:
    """`count` of the numbers in [0, 1) that PyTorch's generator draws after seed 0, from draw `start` on."""
    draws = np.random.RandomState(0).randint(0, 2**32, size=start + count, dtype=np.uint64)[start:]
    return ((draws & 0xFFFFFF) / 2**24).astype(np.float32)


def write_config(folder: Path, config: Mapping[str, Any] = CONFIG) -> None:
    """Write CosyVoice-BlankEN/config.json."""
    (folder / "CosyVoice-BlankEN").mkdir(parents=True, exist_ok=True)
    (folder / "CosyVoice-BlankEN" / "config.json").write_text(json.dumps(config))
