"""The vocoder: a fundamental-frequency predictor, and a network that shapes a harmonic source into speech (HiFT).

The official modules are `HiFTGenerator` (version 2) and `CausalHiFTGenerator` (version 3) of CosyVoice @ ace7c47.
Version 3 looks back only, but for a few frames: its graphs keep the ends of convolutions' inputs, and go on exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cosycli.convert.build import INT64, Array, Graph

SIZE, HOP = 16, 4  # of the Fourier transform that the network ends in, in samples
BINS = SIZE // 2 + 1
SLOPE, LAST_SLOPE = 0.1, 0.01  # of the leaky activations
LOUDEST = 100.0  # magnitude, at most
STRIDES = (8, 5, 3)
DILATIONS = (1, 3, 5)
PREDICTOR = (0, 2, 4, 6, 8)  # the predictor's convolutions among its layers


def build(folder: Path, weights: Mapping[str, Array], version: int) -> dict[str, Any]:
    """Write `f0` and `vocoder`, both float32: what is rounded in them is heard. Returns the vocoder's settings."""
    causal = version == 3
    f0_ahead = _predictor(folder, weights, causal)
    ahead = _network(folder, weights, causal)
    np.savez(
        folder / "vocoder-source.npz",
        weight=weights["m_source.l_linear.weight"].reshape(-1),
        bias=weights["m_source.l_linear.bias"].reshape(-1),
    )
    bands = int(_folded(weights, "conv_pre").shape[1])
    return {"version": version, "f0_ahead": f0_ahead, "ahead": ahead, "bands": bands}


def _folded(weights: Mapping[str, Array], name: str) -> Array:
    """A convolution's weight: direction and gain joined, where the checkpoint keeps them apart (weight norm)."""
    spellings = ((f"{name}.parametrizations.weight.original0", f"{name}.parametrizations.weight.original1"),)
    for gain, direction in (*spellings, (f"{name}.weight_g", f"{name}.weight_v")):
        if gain in weights:
            v = weights[direction].astype(np.float64)
            norm = np.sqrt((v**2).sum(axis=tuple(range(1, v.ndim)), keepdims=True))
            made: Array = (weights[gain] * v / norm).astype(np.float32)
            return made
    return weights[f"{name}.weight"]


class _Layers:
    """Convolutions of one graph: causal ones, which begin with a tail, or centred ones."""

    def __init__(self, graph: Graph, weights: Mapping[str, Array], causal: bool) -> None:
        self.graph = graph
        self.weights = weights
        self.causal = causal

    def tail(self, x: str, name: str, channels: int, length: int) -> str:
        """x with what the last run left before it; what this one leaves is kept."""
        if not length:
            return x
        graph = self.graph
        graph.input(f"tail.{name}", [1, channels, length])
        joined = graph.op("Concat", [f"tail.{name}", x], axis=2)
        graph.keep(joined, length, 2, f"tail.{name}")
        return joined

    def conv(self, x: str, name: str, dilation: int = 1, read: Array | float = 1.0, gain: Array | float = 1.0) -> str:
        """A convolution that keeps the length, of inputs times `read`, each output times `gain`."""
        weight, bias = _folded(self.weights, name), self.weights[f"{name}.bias"]
        weight = (weight * np.reshape(read, (1, -1, 1)) * np.reshape(gain, (-1, 1, 1))).astype(np.float32)
        bias = (bias * np.reshape(gain, -1)).astype(np.float32)
        reach = (weight.shape[2] - 1) * dilation
        pads = [0, 0] if self.causal else [reach // 2, reach // 2]
        if self.causal:
            x = self.tail(x, name, weight.shape[1], reach)
        return self.graph.conv(x, name, weight, bias, dilations=[dilation], pads=pads)

    def ahead(self, x: str, name: str) -> str:
        """A convolution over what comes, which the caller appends: shorter than its input."""
        weight = _folded(self.weights, name)
        return self.graph.conv(x, name, weight, self.weights[f"{name}.bias"])

    def snake(self, scaled: str) -> str:
        """αx + sin²(αx), of αx: α times the activation x + sin²(αx) / α."""
        graph = self.graph
        wave = graph.op("Sin", [scaled])
        return graph.add(scaled, graph.op("Mul", [wave, wave]))

    def block(self, x: str, name: str) -> str:
        """A residual block: three times two convolutions. Their weights take over the activations' factors."""
        graph = self.graph
        for place, dilation in enumerate(DILATIONS):
            before, between = (
                self.weights[f"{name}.activations{half}.{place}.alpha"].astype(np.float64) for half in (1, 2)
            )
            scaled = graph.op("Mul", [x, graph.constant(f"{name}.alpha.{place}", before.reshape(1, -1, 1))])
            first = self.conv(self.snake(scaled), f"{name}.convs1.{place}", dilation, 1 / before, between)
            x = graph.add(x, self.conv(self.snake(first), f"{name}.convs2.{place}", 1, 1 / between))
        return x


def _predictor(folder: Path, weights: Mapping[str, Array], causal: bool) -> int:
    """mel [1, bands, frames + ahead] → f0 [frames] in Hz. Returns how many frames it looks ahead."""
    graph = Graph(folder, "f0")
    layers = _Layers(graph, weights, causal)
    first = _folded(weights, "f0_predictor.condnet.0")
    x = graph.input("mel", [1, first.shape[1], "frames"])
    for layer in PREDICTOR:
        name = f"f0_predictor.condnet.{layer}"
        x = layers.ahead(x, name) if causal and layer == 0 else layers.conv(x, name)
        x = graph.op("Elu", [x])
    weight = weights["f0_predictor.classifier.weight"]
    x = graph.conv(x, "f0_predictor.classifier", weight[:, :, None], weights["f0_predictor.classifier.bias"])
    graph.output(graph.op("Reshape", [graph.op("Abs", [x]), graph.axes(-1)]), ["f0_frames"], "f0")
    graph.save()
    return first.shape[2] - 1 if causal else 0


def _network(folder: Path, weights: Mapping[str, Array], causal: bool) -> int:
    """mel [1, bands, frames + ahead] and source samples → overlapping pieces of speech, added up [samples].

    `first` [1] is 1 in an utterance's first run and else 0. Returns how many frames it looks ahead.
    """
    graph = Graph(folder, "vocoder")
    layers = _Layers(graph, weights, causal)
    pre = _folded(weights, "conv_pre")
    mel = graph.input("mel", [1, pre.shape[1], "frames"])
    graph.input("source", [1, 1, "samples"])
    graph.input("first", [1], INT64)
    spectrum = graph.conv("source", "stft", _analysis(), strides=[HOP])
    x = layers.ahead(mel, "conv_pre") if causal else layers.conv(mel, "conv_pre")
    stages = len(STRIDES)
    kernels = (
        len([name for name in weights if name.startswith("resblocks.") and name.endswith(".convs1.0.bias")]) // stages
    )
    for stage, stride in enumerate(STRIDES):
        # The mean over the blocks before is taken here: a leaky activation lets a factor through.
        x = graph.op("LeakyRelu", [x], alpha=SLOPE)
        x = _raised(layers, x, f"ups.{stage}", stride, 1 / kernels if stage else 1.0)
        if stage == stages - 1:  # reflected at the beginning: its second value once more before it
            after = graph.op("Add", [graph.axes(1), "first"])
            x = graph.op("Concat", [graph.op("Slice", [x, graph.axes(1), after, graph.axes(2)]), x], axis=2)
        x = graph.add(x, layers.block(_lowered(layers, spectrum, stage), f"source_resblocks.{stage}"))
        x = graph.op("Sum", [layers.block(x, f"resblocks.{stage * kernels + kernel}") for kernel in range(kernels)])
    x = graph.op("LeakyRelu", [x], alpha=LAST_SLOPE)
    x = layers.conv(x, "conv_post", read=1 / kernels)
    magnitude, phase = graph.ops("Split", [x, graph.axes(BINS, BINS)], 2, axis=1)
    magnitude = graph.op("Min", [graph.op("Exp", [magnitude]), graph.scalar(LOUDEST)])
    phase = graph.op("Sin", [phase])
    parts = [graph.op("Mul", [magnitude, graph.op(kind, [phase])]) for kind in ("Cos", "Sin")]
    spectrum = graph.op("Concat", parts, axis=1)
    weight = graph.constant("istft.weight", _synthesis())
    made = graph.op("ConvTranspose", [spectrum, weight], "istft", strides=[HOP], kernel_shape=[SIZE])
    graph.output(graph.op("Reshape", [made, graph.axes(-1)]), ["speech_samples"], "speech")
    graph.save()
    return pre.shape[2] - 1 if causal else 0


def _raised(layers: _Layers, x: str, name: str, stride: int, gain: float) -> str:
    """A longer x. Version 3 repeats each value and convolves, which is a shorter convolution with more channels."""
    graph = layers.graph
    weight, bias = _folded(layers.weights, name) * np.float32(gain), layers.weights[f"{name}.bias"]
    if not layers.causal:
        pad = (weight.shape[2] - stride) // 2
        inputs = [x, graph.constant(f"{name}.weight", weight), graph.constant(f"{name}.bias", bias)]
        size = [weight.shape[2]]
        return graph.op("ConvTranspose", inputs, name, strides=[stride], pads=[pad, pad], kernel_shape=size)
    out, channels, taps = weight.shape
    back = -((1 - taps) // stride)  # of the values that were repeated, a tap reaches so far back
    phases = np.zeros((out, stride, channels, back + 1), np.float32)
    for phase in range(stride):
        for tap in range(taps):
            phases[:, phase, :, back + (phase - taps + 1 + tap) // stride] += weight[:, :, tap]
    x = layers.tail(x, name, channels, back)
    x = graph.conv(x, name, phases.reshape(out * stride, channels, back + 1), np.repeat(bias, stride))
    x = graph.op("Transpose", [graph.op("Reshape", [x, graph.axes(1, out, stride, -1)])], perm=[0, 1, 3, 2])
    return graph.op("Reshape", [x, graph.axes(1, out, -1)])


def _lowered(layers: _Layers, spectrum: str, stage: int) -> str:
    """The source's spectrum at a stage's rate."""
    graph, name = layers.graph, f"source_downs.{stage}"
    weight, bias = layers.weights[f"{name}.weight"], layers.weights[f"{name}.bias"]
    stride = int(np.prod(STRIDES[stage + 1 :]))
    if not layers.causal:
        pad = stride // 2
        return graph.conv(spectrum, name, weight, bias, strides=[stride], pads=[pad, pad])
    if stride > 1:
        # Before the first value there are stride − 1 zeros; later runs begin one value further on.
        joined = layers.tail(spectrum, name, weight.shape[1], stride)
        last = graph.axes(np.iinfo(np.int64).max)
        spectrum = graph.op("Slice", [joined, "first", last, graph.axes(2)])
    return graph.conv(spectrum, name, weight, bias, strides=[stride])


def _window() -> Array:
    window: Array = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(SIZE) / SIZE)
    return window


def _angles() -> Array:
    angles: Array = 2 * np.pi * np.arange(BINS)[:, None] * np.arange(SIZE) / SIZE
    return angles


def _analysis() -> Array:
    """A Fourier transform as a convolution [2 · bins, 1, size]: real parts, then imaginary ones."""
    waves = np.concatenate([np.cos(_angles()), -np.sin(_angles())]) * _window()
    return waves[:, None].astype(np.float32)


def _synthesis() -> Array:
    """Its inverse [2 · bins, 1, size], windowed; divided by what overlapping windows add up to, away from the edges."""
    share = np.where(np.isin(np.arange(BINS), (0, SIZE // 2)), 1.0, 2.0)[:, None] / SIZE
    waves = np.concatenate([share * np.cos(_angles()), -share * np.sin(_angles())]) * _window()
    waves[[BINS, 2 * BINS - 1]] = 0  # imaginary parts that a real signal has not
    overlap = (_window() ** 2).reshape(-1, HOP).sum(axis=0)
    made: Array = (waves / np.tile(overlap, SIZE // HOP))[:, None].astype(np.float32)
    return made
