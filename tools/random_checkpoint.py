"""Write a release of CosyVoice 3 of the real size with random weights: 3.4 GB, for measuring.

    python tools/random_checkpoint.py FOLDER [--tokenizer FOLDER_OF_VOCAB_AND_MERGES]

What it says is noise, but it takes as long as speech. Needs neither PyTorch nor much memory.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fakes import checkpoints, torchfile

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, TEXT, SPEECH = 896, 4864, 24, 14, 2, 151_936, 6561
DIM, BLOCKS = 1024, 22
BASE = 512  # channels of the vocoder

Shapes = dict[str, tuple[int, ...]]


def lm() -> Shapes:
    """The language model's tensors."""
    shapes: Shapes = {"llm.model.model.embed_tokens.weight": (TEXT, HIDDEN)}
    narrow = HIDDEN // HEADS * KV_HEADS
    for layer in range(LAYERS):
        key = f"llm.model.model.layers.{layer}"
        for part, size in (("q", HIDDEN), ("k", narrow), ("v", narrow)):
            shapes[f"{key}.self_attn.{part}_proj.weight"] = (size, HIDDEN)
            shapes[f"{key}.self_attn.{part}_proj.bias"] = (size,)
        shapes[f"{key}.self_attn.o_proj.weight"] = (HIDDEN, HIDDEN)
        shapes |= {f"{key}.mlp.{part}_proj.weight": (INNER, HIDDEN) for part in ("gate", "up")}
        shapes[f"{key}.mlp.down_proj.weight"] = (HIDDEN, INNER)
        shapes |= {f"{key}.{norm}_layernorm.weight": (HIDDEN,) for norm in ("input", "post_attention")}
    shapes["llm.model.model.norm.weight"] = (HIDDEN,)
    shapes |= {f"{name}.weight": (SPEECH + 200, HIDDEN) for name in ("llm_decoder", "speech_embedding")}
    return shapes


def flow() -> Shapes:
    """The flow's tensors: those of the tiny checkpoint, wider and deeper."""
    tiny = checkpoints.tiny_shapes(3, "flow")
    narrow = tiny["decoder.estimator.proj_out.weight"][1]
    hidden = tiny["pre_lookahead_layer.conv1.weight"][0]
    groups = narrow // tiny["decoder.estimator.input_embed.conv_pos_embed.conv1.0.weight"][1]
    sizes = {narrow * part: DIM * part for part in (1, 2, 6)} | {
        hidden: DIM,
        narrow // groups: DIM // 16,
    }
    shapes: Shapes = {}
    for key, shape in tiny.items():
        if "inv_freq" in key:
            continue
        kept = {80, 192, 256} if "time_mlp.0" in key else {80, 192}
        wide = tuple(size if size in kept or axis == 2 else sizes.get(size, size) for axis, size in enumerate(shape))
        if "transformer_blocks.0." in key:
            shapes |= {key.replace("blocks.0.", f"blocks.{block}."): wide for block in range(BLOCKS)}
        elif "transformer_blocks." not in key:
            shapes[key] = (SPEECH, shape[1]) if key.startswith("input_embedding") else wide
    return shapes


def hift() -> Shapes:
    """The vocoder's tensors: those of the tiny checkpoint, wider."""
    tiny = checkpoints.tiny_shapes(3, "hift")
    factor = BASE // tiny["conv_pre.bias"][0]
    predictor = tiny["f0_predictor.classifier.weight"][1]
    shapes: Shapes = {}
    for key, shape in tiny.items():
        if key.startswith("f0_predictor"):
            shapes[key] = tuple(BASE if size == predictor and axis < 2 else size for axis, size in enumerate(shape))
        elif key.startswith("m_source"):
            shapes[key] = shape
        else:
            kept = {1, 18, 80}
            shapes[key] = tuple(size if size in kept or axis == 2 else size * factor for axis, size in enumerate(shape))
    return shapes


def tensors(shapes: Shapes) -> Iterator[tuple[str, Any]]:
    """Random tensors, one at a time, of a size that keeps activations as they are."""
    for key, shape in shapes.items():
        random = np.random.default_rng(zlib.crc32(key.encode()))
        values = random.standard_normal(shape, dtype=np.float32)
        if key.endswith("alpha"):
            values = np.abs(1 + 0.3 * values) + 0.1
        elif key.endswith("classifier.bias"):
            values = np.full(shape, 180, np.float32)
        elif key.endswith("original0"):
            values = 1 + 0.1 * values
        elif "embed" in key and len(shape) == 2 and "proj" not in key and "time" not in key:
            values *= 0.5
        elif len(shape) > 1:
            values /= math.sqrt(math.prod(shape[1:]))
        else:
            values = 0.1 * values + key.endswith(".weight")
        yield key, values.astype(np.float32, copy=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="a folder with vocab.json and merges.txt")
    asked = parser.parse_args()
    folder: Path = asked.folder
    blank = folder / "CosyVoice-BlankEN"
    config = {
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "vocab_size": TEXT,
    }
    checkpoints.write_config(folder, {**checkpoints.CONFIG, **config})
    if asked.tokenizer:
        for name in ("vocab.json", "merges.txt"):
            shutil.copyfile(asked.tokenizer / name, blank / name)
    else:
        checkpoints.write_tokenizer(blank)
    checkpoints.write_yaml(folder, 3)
    checkpoints.write_encoders(folder, 3, SPEECH)
    for name, shapes in (("llm", lm()), ("flow", flow()), ("hift", hift())):
        count = sum(math.prod(shape) for shape in shapes.values())
        print(f"{name}.pt: {len(shapes)} tensors, {count / 1e6:.1f} million numbers", flush=True)
        torchfile.write(folder / f"{name}.pt", tensors(shapes))


if __name__ == "__main__":
    main()
