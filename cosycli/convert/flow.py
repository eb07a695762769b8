"""The flow, both versions: what the solver needs beside the graphs.

Graphs: `flow-encoder` (tokens → mu; version 2 has its second half in `flow-upsample`), `flow-prepare` (what a chunk's
steps share), `flow-step` (one evaluation of the estimator); and, for each time that a solver may ask for, a row of
`flow-table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cosycli.backends.cosyvoice import noise
from cosycli.convert import conformer, dit, unet
from cosycli.convert.build import Array

# Numbers of solver steps that can be asked for. Their times overlap: 10 contains 5 and 2.
STEPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20)
FRAMES = 15_000  # of noise: 300 s, prompt included, as in the official checkpoint's buffer
AHEAD = 3  # tokens that the encoder looks ahead


def build(
    folder: Path, weights: Mapping[str, Array], version: int, precision: str = "float32", head: int | None = None
) -> dict[str, Any]:
    """Write the flow's graphs and arrays; `precision` is float32 or int8. Returns the flow's settings.

    `head` is the width of version 2's attention heads, where the release tells.
    """
    fractions = sorted({step / count for count in STEPS for step in range(count)})
    times = 1 - np.cos(np.array(fractions) * np.pi / 2)  # the official cosine schedule
    if version == 3:
        settings = dit.build(folder, weights, times, precision)
    else:
        settings = unet.build(folder, weights, times, precision, head)
    np.save(folder / "flow-fractions.npy", np.array(fractions, np.float32))
    table = weights["input_embedding.weight"] if version == 3 else conformer.embedding(weights)
    embedding = np.asarray(table, np.float32)
    np.save(folder / "flow-embedding.npy", embedding)
    np.savez(
        folder / "flow-speaker.npz",
        weight=weights["spk_embed_affine_layer.weight"],
        bias=weights["spk_embed_affine_layer.bias"],
    )
    channels = int(weights["spk_embed_affine_layer.weight"].shape[0])
    drawn = noise.normal(channels * FRAMES).reshape(channels, FRAMES)
    np.save(folder / "flow-noise.npy", np.ascontiguousarray(drawn.T))
    return {"version": version, "ahead": AHEAD, "steps": list(STEPS), "channels": channels, **settings}
