"""Builds the voice's five streaming graphs from its weights: encoder, style, source, body, generator.

The decoder's adaptive instance norms become y = x · scale + shift with the statistics frozen outside, so that
body and generator are plain convolution stacks and any window with enough context gives the samples of the whole.
Rates: frames are 40 a second (600 samples each); half-frames 80 a second (300 samples each).

Source of the architecture: StyleTTS 2's iSTFTNet decoder (Li et al. 2023) as published in Kokoro-82M.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cosycli.backends.kokoro.weights import DECODER, Checkpoint

Array = NDArray[Any]

FEATURES = "/encoder/MatMul_1_output_0"
F0 = "/encoder/Reshape_output_0"
ENERGY = "/encoder/Reshape_1_output_0"
DURATIONS = "/encoder/Round_output_0"
HARMONICS = 9

# sin²(πw) for w in [0, 1] as a polynomial in q = w − w², without constant term (least squares at Chebyshev nodes).
# Cos and Sin run on one thread in ONNX Runtime's CPU provider and took 1.2 ms where these 10 or 14 cheap
# elementwise steps take 0.5 ms. Largest error: degree 5, 4.4e-7; degree 3, 8.2e-4, a hundredth of an int8 step.
SIN2_EXACT = (7.92760947e-05, 9.86519552, 19.8189973, 16.2509565, 10.4989688)
SIN2_INT8 = (6.35463400e-02, 8.38420446, 29.3943434)

BODY_BLOCKS = ("encode", "decode.0", "decode.1", "decode.2", "decode.3")
BODY_NORMS = tuple(f"{block}/norm{k}" for block in BODY_BLOCKS for k in (1, 2))


def _res_block_norms(block: str) -> list[str]:
    return [f"generator/{block}/adain{half}.{layer}" for layer in range(3) for half in (1, 2)]


GENERATOR_NORMS = tuple(
    norm
    for stage in (0, 1)
    for block in (f"noise_res.{stage}", *(f"resblocks.{3 * stage + i}" for i in range(3)))
    for norm in _res_block_norms(block)
)


@dataclass(frozen=True)
class ConvRange:
    """How one convolution of a residual block is quantised: measured on speech by tools/calibrate.py.

    `low`, `high`: range of its input; `mean`, `std` [out]: its output a channel, by which int8 outputs are
    equalised; `out_low`, `out_high`: range of the equalised output.
    """

    low: float
    high: float
    mean: Array
    std: Array
    out_low: float
    out_high: float


Ranges = Mapping[str, ConvRange]


def _uint8(low: float, high: float) -> tuple[np.float32, np.uint8]:
    """Scale and zero point that map [low, high] (stretched to hold 0) onto 0…255."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / 255
    return np.float32(scale), np.uint8(np.clip(round(-low / scale), 0, 255))


class _Builder:
    """Collects nodes and constants; every method returns the name of the tensor it makes."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.norms: list[str] = []

    def constant(self, name: str, value: Any, dtype: Any = None) -> str:
        self.constants[name] = np.asarray(value, dtype)
        return name

    def scalar(self, value: float) -> str:
        return self.constant(f"scalar:{value!r}", np.float32(value))

    def op(self, kind: str, inputs: Sequence[str], name: str = "", **attributes: Any) -> str:
        name = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def conv(self, x: str, path: str, input_scale: Array | None = None) -> str:
        weight, bias, attributes = self.checkpoint.conv(path)
        if input_scale is not None:
            weight = (weight * input_scale.reshape(1, -1, 1)).astype(np.float32)
        inputs = [x, self.constant(f"{path}.weight", weight)]
        if bias is not None:
            inputs.append(self.constant(f"{path}.bias", bias))
        keep = ("kernel_shape", "pads", "dilations", "strides")
        return self.op("Conv", inputs, path, **{k: attributes[k] for k in keep})

    def conv_transpose(self, x: str, path: str) -> str:
        weight, bias, attributes = self.checkpoint.conv_transpose(path)
        keep = ("kernel_shape", "pads", "dilations", "strides", "group", "output_padding")
        inputs = [x, self.constant(f"{path}.weight", weight), self.constant(f"{path}.bias", bias)]
        return self.op("ConvTranspose", inputs, path, **{k: attributes[k] for k in keep if k in attributes})

    def affine(self, path: str) -> tuple[str, str]:
        """The names of a norm's scale and shift [1, C, 1], in the order in which norms are met."""
        self.norms.append(path)
        return f"scale/{path}", f"shift/{path}"

    def norm(self, x: str, path: str) -> str:
        scale, shift = self.affine(path)
        return self.op("Add", [self.op("Mul", [x, scale]), shift], path)

    def axes(self, *values: int) -> str:
        return self.constant(f"axes:{values}", values, np.int64)

    def model(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The finished graph, with the packed `scale` and `shift` split among the norms."""
        sizes = [self.checkpoint.channels(path) for path in self.norms]
        extra = []
        if sizes:
            self.constant("norm_sizes", sizes, np.int64)
            for kind in ("scale", "shift"):
                names = [f"{kind}/{path}" for path in self.norms]
                self.nodes.insert(
                    0, helper.make_node("Split", [kind, "norm_sizes"], names, name=f"split_{kind}", axis=1)
                )
                extra.append(_value(kind, [1, sum(sizes), 1]))
        return _model(self.nodes, [*inputs, *extra], outputs, self.constants)


def _value(name: str, shape: Sequence[Any] | None, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def _model(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], constants: Mapping[str, Array]) -> Any:
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), initializers)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 9  # what onnxruntime 1.20 reads
    return model


def encoder(checkpoint: Checkpoint) -> Any:
    """tokens int64 [1, n], style [1, 256], speed [1] → features [1, 512, T], f0 and energy [1, 1, 2T], durations [n].

    The published int8 graph up to its features, unchanged: 28 MB, and as fast as float32 or faster.
    """
    wanted = {FEATURES: "features", F0: "f0", ENERGY: "energy", DURATIONS: "durations"}
    inputs = [
        _value("tokens", [1, "n"], TensorProto.INT64),
        _value("style", [1, 256]),
        _value("speed", [1]),
    ]
    nodes, constants = _reaching(checkpoint, wanted, {"tokens", "style", "speed"})
    nodes.append(helper.make_node("Identity", [FEATURES], ["features"]))
    nodes.append(helper.make_node("Unsqueeze", [F0, "axis_1"], ["f0"]))
    nodes.append(helper.make_node("Unsqueeze", [ENERGY, "axis_1"], ["energy"]))
    nodes.append(helper.make_node("Reshape", [DURATIONS, "flat"], ["durations"]))
    constants |= {"axis_1": np.array([1], np.int64), "flat": np.array([-1], np.int64)}
    outputs = [
        _value("features", [1, 512, "frames"]),
        _value("f0", [1, 1, "half_frames"]),
        _value("energy", [1, 1, "half_frames"]),
        _value("durations", ["n"]),
    ]
    return _model(nodes, inputs, outputs, constants)


def _reaching(
    checkpoint: Checkpoint, targets: Mapping[str, str], inputs: set[str]
) -> tuple[list[Any], dict[str, Array]]:
    """The nodes, in order, and the constants that the target tensors depend on."""
    needed: set[str] = set()
    stack = list(targets)
    while stack:
        name = stack.pop()
        if name and name not in needed and name not in inputs:
            needed.add(name)
            stack += checkpoint.producer[name].input if name in checkpoint.producer else []
    nodes = [node for node in checkpoint.graph.node if needed.intersection(node.output)]
    constants = {name: value for name, value in checkpoint.tensors.items() if name in needed}
    return nodes, constants


def style(checkpoint: Checkpoint) -> Any:
    """style [1, 128] → affine [1, 2·18698]: each norm's gain (1 + γ), then each norm's bias β, in norm order."""
    layers = [checkpoint.linear(f"{path}/fc") for path in (*BODY_NORMS, *GENERATOR_NORMS)]
    sizes = [bias.size // 2 for _, bias in layers]
    weight = np.concatenate(
        [w[:, :c] for (w, _), c in zip(layers, sizes, strict=True)]
        + [w[:, c:] for (w, _), c in zip(layers, sizes, strict=True)],
        axis=1,
    )
    bias = np.concatenate(
        [1 + b[:c] for (_, b), c in zip(layers, sizes, strict=True)]
        + [b[c:] for (_, b), c in zip(layers, sizes, strict=True)]
    )
    node = helper.make_node("Gemm", ["style", "weight", "bias"], ["affine"])
    constants = {"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)}
    return _model([node], [_value("style", [1, 128])], [_value("affine", [1, bias.size])], constants)


def snake_gain(checkpoint: Checkpoint) -> Array:
    """What each generator norm's scale and shift are multiplied by: α/π, so that the snake's sine has period 1."""
    gains = []
    for path in GENERATOR_NORMS:
        block, name = path.rsplit("/", 1)
        half, layer = int(name[5]), int(name[7])
        gains.append(checkpoint.alpha(block, half, layer) / np.pi)
    return np.concatenate(gains).astype(np.float32)


def body(checkpoint: Checkpoint, ranges: Ranges | None = None) -> Any:
    """features [1, 512, t], f0 and energy [1, 1, 2t], scale, shift → body [1, 512, 2t].

    With `ranges` its 10 large convolutions run in int8: a small window spends its time on reading weights.
    """
    b = _Builder(checkpoint)
    pitch, loudness = b.conv("f0", "F0_conv"), b.conv("energy", "N_conv")
    side = b.conv("features", "asr_res/asr_res.0")
    x = _body_block(b, b.op("Concat", ["features", pitch, loudness], axis=1), "encode", ranges)
    for block in BODY_BLOCKS[1:]:
        joined = b.op("Concat", [x, side, pitch, loudness], axis=1)
        x = _body_block(b, joined, block, ranges, upsample=block == "decode.3")
    b.op("Identity", [x], "body")
    inputs = [_value("features", [1, 512, "t"]), _value("f0", [1, 1, "t2"]), _value("energy", [1, 1, "t2"])]
    return b.model(inputs, [_value("body", [1, 512, "t2"])])


def _body_block(b: _Builder, x: str, path: str, ranges: Ranges | None, upsample: bool = False) -> str:
    """Adaptive residual block: (shortcut + conv(act(norm(conv(act(norm(x))))))) / √2."""
    short = x
    if upsample:
        twice = b.constant("twice", [1, 1, 2], np.float32)
        short = b.op(
            "Resize", [x, "", twice], mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
        )
    short = b.conv(short, f"{path}/conv1x1")
    y = b.op("LeakyRelu", [b.norm(x, f"{path}/norm1")], alpha=0.2)
    if upsample:
        y = b.conv_transpose(y, f"{path}/pool")
    first, second = f"{path}/conv1", f"{path}/conv2"
    if ranges is None:
        y = b.op("LeakyRelu", [b.norm(b.conv(y, first), f"{path}/norm2")], alpha=0.2)
        y = b.conv(y, second)
    else:
        scale, shift = b.affine(f"{path}/norm2")
        y = _dequantize(b, _int8_conv(b, y, first, ranges[first]), first, ranges[first], scale, shift)
        y = _int8_conv(b, b.op("LeakyRelu", [y], alpha=0.2), second, ranges[second])
        y = _dequantize(b, y, second, ranges[second])
    return b.op("Mul", [b.op("Add", [y, short]), b.scalar(float(1 / np.sqrt(2)))])


def source(checkpoint: Checkpoint) -> Any:
    """phase [1, 9, n+2] in cycles, voiced [1, 1, n+2] → harmonics [1, 22, 60·n + 1]: 11 magnitudes, 11 phases.

    The harmonic source: 9 sines → linear → tanh → short-time Fourier transform (20 samples, hop 5). Both inputs carry
    one more half-frame at each side, so that interpolation needs no padding.
    """
    b = _Builder(checkpoint)
    up = b.constant("upsample_300", [1, 1, 300], np.float32)
    phase = b.op("Resize", ["phase", "", up], mode="linear", coordinate_transformation_mode="half_pixel")
    voiced = b.op(
        "Resize", ["voiced", "", up], mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
    )
    sines = b.op("Mul", [b.op("Sin", [b.op("Mul", [phase, b.scalar(float(2 * np.pi))])]), voiced])
    amplitude = checkpoint.constant(f"{DECODER}generator/m_source/l_sin_gen/Constant_10_output_0")
    weight = checkpoint.constant("onnx::MatMul_6993").reshape(1, HARMONICS, 1) * amplitude
    bias = checkpoint.constant("decoder.decoder.generator.m_source.l_linear.bias")
    linear = [sines, b.constant("source.weight", weight, np.float32), b.constant("source.bias", bias, np.float32)]
    wave = b.op("Tanh", [b.op("Conv", linear)])
    # The two outer half-frames served interpolation; the transform looks 10 samples to either side.
    _stft(b, b.op("Slice", [wave, b.axes(290), b.axes(-290), b.axes(2)]))
    inputs = [_value("phase", [1, HARMONICS, "wide"]), _value("voiced", [1, 1, "wide"])]
    return b.model(inputs, [_value("harmonics", [1, 22, "columns"])])


def _stft(b: _Builder, wave: str) -> str:
    """Magnitudes and phases as one strided convolution a part: cheaper than the STFT operator by 10 ms a second.

    Bins 0 and 10 of a real signal are real: their imaginary part is exactly 0 here, so that their phase is 0 or π
    and does not jump with rounding. Where a bin holds next to nothing (unvoiced frames have a constant source) its
    phase would be noise from rounding; it is 0 there.
    """
    window = b.checkpoint.constant(f"{DECODER}generator/Constant_17_output_0")
    bins, samples = np.arange(11)[:, None], np.arange(20)
    cosine = window * np.cos(2 * np.pi * bins * samples / 20)
    sine = -window * np.sin(2 * np.pi * bins * samples / 20)
    sine[[0, 10]] = 0.0
    real = b.op("Conv", [wave, b.constant("stft_real", cosine[:, None], np.float32)], strides=[5])
    imag = b.op("Conv", [wave, b.constant("stft_imag", sine[:, None], np.float32)], strides=[5])
    magnitude = b.op("Sqrt", [b.op("Add", [b.op("Mul", [real, real]), b.op("Mul", [imag, imag])])])
    zero, pi = b.scalar(0.0), b.scalar(float(np.pi))
    angle = b.op("Atan", [b.op("Div", [imag, real])])
    turned = b.op("Where", [b.op("Less", [imag, zero]), b.op("Sub", [angle, pi]), b.op("Add", [angle, pi])])
    phase = b.op("Where", [b.op("Less", [real, zero]), turned, angle])
    phase = b.op("Where", [b.op("Less", [magnitude, b.scalar(1e-4)]), zero, phase])
    return b.op("Concat", [magnitude, phase], "harmonics", axis=1)


def generator(checkpoint: Checkpoint, ranges: Ranges | None = None) -> Any:
    """body [1, 512, n], harmonics [1, 22, 60·n + 1], scale, shift → audio [300·n].

    With `ranges` the 48 convolutions of the residual blocks run in int8: 4 times faster on a CPU with VNNI.
    """
    b = _Builder(checkpoint)
    x = "body"
    for stage in (0, 1):
        x = b.op("LeakyRelu", [x], alpha=0.1)
        noise = b.conv("harmonics", f"generator/noise_convs.{stage}")
        noise = _res_block(b, noise, f"generator/noise_res.{stage}", ranges)
        x = b.conv_transpose(x, f"generator/ups.{stage}")
        if stage == 1:  # the source's transform has one frame more than the upsampled body
            x = b.op("Pad", [x, b.constant("one_left", [0, 0, 1, 0, 0, 0], np.int64)], mode="reflect")
        x = b.op("Add", [x, noise])
        first, second, third = (_res_block(b, x, f"generator/resblocks.{3 * stage + i}", ranges) for i in range(3))
        x = b.op("Mul", [b.op("Add", [b.op("Add", [first, second]), third]), b.scalar(1 / 3)])
    _inverse_spectrum(b, b.op("LeakyRelu", [x], alpha=0.01))
    inputs = [_value("body", [1, 512, "n"]), _value("harmonics", [1, 22, "columns"])]
    return b.model(inputs, [_value("audio", ["samples"])])


def _inverse_spectrum(b: _Builder, x: str) -> None:
    """conv_post → log magnitude and phase [11 each] → inverse STFT as one transposed convolution."""
    (post,) = (node for node in b.checkpoint.graph.node if node.op_type == "Conv")
    weight = b.constant("conv_post.weight", b.checkpoint.tensors[post.input[1]])
    bias = b.constant("conv_post.bias", b.checkpoint.tensors[post.input[2]])
    x = b.op("Conv", [x, weight, bias], "istft/conv_post", kernel_shape=[7], pads=[3, 3])
    log_magnitude = b.op("Slice", [x, b.axes(0), b.axes(11), b.axes(1)], "istft/log_magnitude")
    phase = b.op("Sin", [b.op("Slice", [x, b.axes(11), b.axes(22), b.axes(1)], "istft/turns")], "istft/phase")
    magnitude = b.op("Exp", [log_magnitude], "istft/magnitude")
    real = b.op("Mul", [magnitude, b.op("Cos", [phase], "istft/cos")], "istft/real")
    imag = b.op("Mul", [magnitude, b.op("Sin", [phase], "istft/sin")], "istft/imag")
    basis = b.checkpoint.constant("decoder.decoder.generator.stft.istft.stft.inverse_basis")
    gain = b.checkpoint.constant(f"{DECODER}generator/istft/stft/Constant_19_output_0")
    kernel = b.constant("inverse_basis", basis * gain, np.float32)
    spectrum = b.op("Concat", [real, imag], "istft/spectrum", axis=1)
    audio = b.op(
        "ConvTranspose", [spectrum, kernel], "istft/overlap_add", kernel_shape=[20], strides=[5], pads=[10, 10]
    )
    b.op("Squeeze", [audio, b.axes(0, 1)], "audio")


def _res_block(b: _Builder, x: str, path: str, ranges: Ranges | None) -> str:
    """Three pairs of norm → snake → convolution, each pair added to its input."""
    for layer in range(3):
        if ranges is None:
            y = _snake_conv(b, b.norm(x, f"{path}/adain1.{layer}"), path, 1, layer)
            y = _snake_conv(b, b.norm(y, f"{path}/adain2.{layer}"), path, 2, layer)
            x = b.op("Add", [y, x])
        else:
            x = _int8_pair(b, x, path, layer, ranges)
    return x


def _snake(b: _Builder, w: str, coefficients: Sequence[float]) -> str:
    """w + sin²(πw)/π: the snake activation in units of its own period."""
    r = b.op("Sub", [w, b.op("Floor", [w])])
    q = b.op("Sub", [r, b.op("Mul", [r, r])])
    terms = [b.scalar(c / float(np.pi)) for c in coefficients]
    y = b.op("Mul", [q, terms[-1]])
    for term in reversed(terms[:-1]):
        y = b.op("Mul", [b.op("Add", [y, term]), q])
    return b.op("Add", [w, y])


def _snake_conv(b: _Builder, w: str, path: str, half: int, layer: int) -> str:
    alpha = b.checkpoint.alpha(path, half, layer)
    return b.conv(_snake(b, w, SIN2_EXACT), f"{path}/convs{half}.{layer}", input_scale=np.pi / alpha)


def _int8_pair(b: _Builder, x: str, path: str, layer: int, ranges: Ranges) -> str:
    """One pair in int8. Each convolution's output is centred and scaled a channel before it is rounded."""
    first, second = f"{path}/convs1.{layer}", f"{path}/convs2.{layer}"
    y = _int8_conv(b, _snake_int8(b, b.norm(x, f"{path}/adain1.{layer}"), path, 1, layer), first, ranges[first])
    scale, shift = b.affine(f"{path}/adain2.{layer}")
    if path in TABLED:
        y = _qlinear_conv(b, _looked_up(b, y, path, layer, ranges, scale, shift), second, ranges[second])
    else:
        y = _dequantize(b, y, first, ranges[first], scale, shift)
        y = _int8_conv(b, _snake_int8(b, y, path, 2, layer), second, ranges[second])
    y = _dequantize(b, y, second, ranges[second])
    return b.op("Add", [y, x])


# Between two int8 convolutions norm and snake map 256 values of each channel to 256 values: a table does that in two
# steps for 15. Each window makes its tables, so they pay where it has far more columns: in the last stage, 60 a
# half-frame.
TABLED = ("generator/noise_res.1", *(f"generator/resblocks.{i}" for i in (3, 4, 5)))


def _looked_up(b: _Builder, q: str, path: str, layer: int, ranges: Ranges, scale: str, shift: str) -> str:
    """uint8 of the first convolution → uint8 for the second, by a table [1, C, 256]."""
    first, second = f"{path}/convs1.{layer}", f"{path}/convs2.{layer}"
    every = b.constant("every_value", np.arange(256, dtype=np.uint8).reshape(1, 1, -1))
    values = _snake_int8(b, _dequantize(b, every, first, ranges[first], scale, shift), path, 2, layer)
    table = _quantize(b, values, second, ranges[second])
    index = b.op("Cast", [q], to=TensorProto.INT32)
    return b.op("GatherElements", [table, index], axis=2)


def _snake_int8(b: _Builder, w: str, path: str, half: int, layer: int) -> str:
    """The snake, coarse enough for int8, turned from periods into its own units.

    Scales a channel in QuantizeLinear would do that for nothing, but ONNX Runtime moves that operator behind its
    transposition, where it took 12 ms in place of 0.2.
    """
    period = (np.pi / b.checkpoint.alpha(path, half, layer)).reshape(1, -1, 1)
    return b.op("Mul", [_snake(b, w, SIN2_INT8), b.constant(f"{path}.{half}.{layer}.period", period, np.float32)])


def _int8_conv(b: _Builder, y: str, name: str, r: ConvRange) -> str:
    """float → uint8 → QLinearConv → uint8."""
    return _qlinear_conv(b, _quantize(b, y, name, r), name, r)


def _quantize(b: _Builder, y: str, name: str, r: ConvRange) -> str:
    """float → uint8, as a convolution's input."""
    scale, zero = _uint8(r.low, r.high)
    return b.op("QuantizeLinear", [y, b.constant(f"{name}.in_scale", scale), b.constant(f"{name}.in_zero", zero)])


def _qlinear_conv(b: _Builder, q: str, name: str, r: ConvRange) -> str:
    """uint8 → uint8. The weights are the checkpoint's own integers."""
    scale, zero = _uint8(r.low, r.high)
    out_scale, out_zero = _uint8(r.out_low, r.out_high)
    weight, weight_scale = b.checkpoint.conv_int8(name)
    _, bias, attributes = b.checkpoint.conv(name)
    assert bias is not None
    inputs = [
        q,
        b.constant(f"{name}.in_scale", scale),
        b.constant(f"{name}.in_zero", zero),
        b.constant(f"{name}.weight", weight),
        b.constant(f"{name}.weight_scale", weight_scale / r.std, np.float32),
        b.constant(f"{name}.weight_zero", np.zeros(len(weight), np.int8)),
        b.constant(f"{name}.out_scale", out_scale),
        b.constant(f"{name}.out_zero", out_zero),
        b.constant(f"{name}.bias", np.round((bias - r.mean) / (scale * weight_scale)), np.int32),
    ]
    keep = ("kernel_shape", "pads", "dilations")
    return b.op("QLinearConv", inputs, name, **{k: attributes[k] for k in keep})


def _dequantize(b: _Builder, q: str, name: str, r: ConvRange, scale: str = "", shift: str = "") -> str:
    """uint8 → float, undoing the equalisation; with a norm's scale and shift, applying those in the same step."""
    out_scale, out_zero = _uint8(r.out_low, r.out_high)
    step = b.constant(f"{name}.step", r.std.reshape(1, -1, 1), np.float32)
    mean = b.constant(f"{name}.mean", r.mean.reshape(1, -1, 1), np.float32)
    if scale:
        step = b.op("Mul", [scale, step])
        mean = b.op("Add", [b.op("Mul", [scale, mean]), shift])
    y = b.op(
        "DequantizeLinear", [q, b.constant(f"{name}.out_scale", out_scale), b.constant(f"{name}.out_zero", out_zero)]
    )
    return b.op("Add", [b.op("Mul", [y, step]), mean])


def save(model: Any, path: str) -> None:
    """Write a model; it must be valid ONNX."""
    onnx.save(model, path)
