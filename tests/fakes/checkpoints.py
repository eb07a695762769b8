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
VOCABULARY = 1024  # of the releases that are written: it has room for all added tokens
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


ENCODERS = {"speech_tokenizer": "speech_tokenizer_v{}.onnx", "speaker_encoder": "campplus.onnx"}


def write_encoders(folder: Path, version: int, speech: int) -> None:
    """Small graphs with the official encoders' inputs and outputs: other sounds give other tokens and vectors."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def save(name: str, nodes: list[Any], inputs: list[Any], output: Any, constants: dict[str, Any]) -> None:
        kept = [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]
        graph = helper.make_graph(nodes, "encoder", inputs, [output], kept)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 9
        onnx.save(model, folder / name)

    node, value = helper.make_node, helper.make_tensor_value_info
    save(
        ENCODERS["speech_tokenizer"].format(version),
        [
            node("ReduceMean", ["feats"], ["mean"], axes=[1], keepdims=1),
            node("AveragePool", ["mean"], ["pooled"], kernel_shape=[4], strides=[4], ceil_mode=1),
            node("Mul", ["pooled", "scale"], ["scaled"]),
            node("Abs", ["scaled"], ["positive"]),
            node("Cast", ["positive"], ["whole"], to=TensorProto.INT32),
            node("Mod", ["whole", "size"], ["tokens"]),
        ],
        [value("feats", TensorProto.FLOAT, [1, 128, "t"]), value("feats_length", TensorProto.INT32, [1])],
        value("tokens", TensorProto.INT32, [1, 1, "n"]),
        {"scale": np.float32(200), "size": np.int32(speech)},
    )
    matrix = np.random.default_rng(0).standard_normal((80, 192)).astype(np.float32)
    save(
        ENCODERS["speaker_encoder"],
        [
            node("Abs", ["input"], ["loud"]),
            node("ReduceMean", ["loud"], ["mean"], axes=[1], keepdims=0),
            node("MatMul", ["mean", "matrix"], ["output"]),
        ],
        [value("input", TensorProto.FLOAT, ["b", "t", 80])],
        value("output", TensorProto.FLOAT, ["b", 192]),
        {"matrix": matrix},
    )


def write_tokenizer(folder: Path) -> int:
    """Write a vocabulary of single bytes and two merges; how many ids it has, without the added tokens."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte) for byte in printable] + [chr(256 + place) for place in range(len(others))]
    vocabulary = {letter: place for place, letter in enumerate([*letters, "th", "the"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\nt h\nth e\n", "utf-8")
    return len(vocabulary)


def write_yaml(folder: Path, version: int) -> None:
    """Write the settings, with tags of Python objects in them as in the official file."""
    fmax = 8000 if version == 2 else "null"
    (folder / f"cosyvoice{version}.yaml").write_text(
        f"__set_seed1: !apply:random.seed [1986]\nsample_rate: 24000\nllm: !new:cosyvoice.llm.llm.LM\n  size: 896\n"
        f"feat_extractor: !name:matcha.utils.audio.mel_spectrogram\n  n_fft: 1920\n  fmax: {fmax}\n"
    )


def write_release(folder: Path, version: int = 3, *, encoders: bool = True) -> Path:
    """Write a whole release with tiny models, as the official one is laid out; the folder."""
    from fakes import torchfile

    write_config(folder, {**CONFIG, "vocab_size": VOCABULARY})
    assert write_tokenizer(folder / "CosyVoice-BlankEN") + 281 <= VOCABULARY
    write_yaml(folder, version)
    for part in SEEDS:
        shapes = tiny_shapes(version, part)
        for key, shape in shapes.items():
            if key.endswith(("embed_tokens.weight", "lm_head.weight")):
                shapes[key] = (VOCABULARY, shape[1])
        torchfile.write(folder / f"{part}.pt", weights(part, shapes))
    if encoders:
        write_encoders(folder, version, 96)
    return folder


def write_config(folder: Path, config: Mapping[str, Any] = CONFIG) -> None:
    """Write CosyVoice-BlankEN/config.json."""
    (folder / "CosyVoice-BlankEN").mkdir(parents=True, exist_ok=True)
    (folder / "CosyVoice-BlankEN" / "config.json").write_text(json.dumps(config))
