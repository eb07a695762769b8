"""Assembles the embedded voice's bundle: package parts → five streaming graphs in a folder of the user's cache.

The one place that joins weights and graphs; imported only when a bundle has to be built.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np

from cosycli.backends.kokoro import graphs
from cosycli.backends.kokoro.weights import Checkpoint, read_parts
from cosycli.runtime import optimise

Progress = Callable[[str], None]


def assemble(folder: Path, progress: Progress = lambda step: None) -> None:
    """Fill an empty folder with the graphs. Raises ModelError if a package part is missing or altered."""
    progress("checking the voice's packages")
    checkpoint = Checkpoint(read_parts())
    progress("cutting the encoder")
    graphs.save(graphs.encoder(checkpoint), str(folder / "encoder.onnx"))
    optimise(folder / "encoder.onnx")
    graphs.save(graphs.style(checkpoint), str(folder / "style.onnx"))
    graphs.save(graphs.source(checkpoint), str(folder / "source.onnx"))
    progress("freezing the decoder")
    ranges = int8_ranges()
    graphs.save(graphs.body(checkpoint), str(folder / "body.onnx"))
    graphs.save(graphs.body(checkpoint, ranges), str(folder / "body-int8.onnx"))
    progress("building the generator")
    graphs.save(graphs.generator(checkpoint), str(folder / "generator.onnx"))
    graphs.save(graphs.generator(checkpoint, ranges), str(folder / "generator-int8.onnx"))
    np.save(folder / "snake_gain.npy", graphs.snake_gain(checkpoint))


def int8_ranges() -> graphs.Ranges:
    """The measured ranges of the large convolutions, shipped with the package."""
    ranges = {}
    with resources.files("cosycli").joinpath("data", "int8-ranges.npz").open("rb") as file, np.load(file) as data:
        for name in data["names"].tolist():
            low, high, out_low, out_high = data[f"{name}/range"].tolist()
            ranges[name] = graphs.ConvRange(low, high, data[f"{name}/mean"], data[f"{name}/std"], out_low, out_high)
    return ranges
