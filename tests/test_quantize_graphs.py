"""Quantised graphs on small real models: they load, they are near the original, and what must stay stays."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from fakes.graphs import FLOAT, INT, model, node, noise, two_convs, value
from onnx import TensorProto, helper

from cosycli import runtime
from cosycli.quantize import calibrate, graphs, int4, int8, measures, methods
from cosycli.quantize.methods import Wish, open_model

X = noise(1, 32, 200)


LARGE = np.ones((128, 64), np.float32) - np.abs(noise(128, 64, scale=0.05))


def prepared(made, wish, feeds, keep=None, tmp=None):
    """A model on disk, prepared."""
    path = tmp / "model.onnx"
    onnx.save(made, path)
    return methods.prepare(wish, "g", path, keep or {}, feeds)


def snr(original, changed, feed):
    """How near the changed model's first output is to the original's, in decibels."""
    return measures.snr(open_model(original).run(feed)[0], open_model(changed).run(feed)[0])


def kinds(made):
    """How often each operator occurs."""
    return [n.op_type for n in made.graph.node]


# float16


def fp16_of(made, feeds, tmp_path, keep=None):
    """The float16 model and the preparation it came from."""
    ready = prepared(made, Wish("fp16"), feeds, keep, tmp_path)
    return ready.without(()), ready


def test_fp16_keeps_inputs_outputs_and_sound(tmp_path):
    """Half the size, float32 outside, 55 dB near; the convolutions really compute in float16."""
    original = two_convs()
    changed, ready = fp16_of(original, [{"x": X}], tmp_path)
    assert [i.type.tensor_type.elem_type for i in (*changed.graph.input, *changed.graph.output)] == [FLOAT, FLOAT]
    halves = [t for t in changed.graph.initializer if t.data_type == TensorProto.FLOAT16]
    assert len(halves) == 4
    assert len(changed.SerializeToString()) < 0.6 * len(original.SerializeToString())
    assert kinds(changed) == ["Cast", "Conv", "LeakyRelu", "Conv", "Cast"]
    assert 45 < snr(original, changed, {"x": X}) < 90
    assert [layer.name for layer in ready.layers] == ["first", "second"]


def test_the_twin_rounds_where_the_cpu_would_not(tmp_path):
    """On the CPU float16 nodes were computed in float32 with the casts between them dropped, so a model whose
    intermediate values overflow in float16 sounded fine here and was NaN on a GPU. The twin shows it here.
    """
    big = {"w1": np.full((32, 32, 3), 300, np.float32), "b1": np.zeros(32, np.float32)}
    original = two_convs(**big)
    quiet = {"x": X / 1000}
    ready = prepared(original, Wish("fp16"), [quiet], tmp=tmp_path)
    loud = {"x": np.full((1, 32, 50), 40.0, np.float32)}
    assert np.isfinite(open_model(ready.without(())).run(loud)[0]).all()
    assert not np.isfinite(open_model(ready.listen(())).run(loud)[0]).all()


def test_what_overflows_stays_float32(tmp_path):
    """OR-10. Activations of 1e5 became infinite; what makes and reads them is kept, with why, and the rest converts."""
    original = two_convs(w1=np.full((32, 32, 3), 300, np.float32), w3=noise(32, 32, 1))
    original.graph.node.append(node("Conv", "x w3", "z"))
    original.graph.output.append(value("z", [1, 32, "n"]))
    feed = {"x": np.full((1, 32, 50), 5.0, np.float32)}
    changed, ready = fp16_of(original, [feed], tmp_path)
    assert set(ready.kept) == {"first", "active", "second"}
    assert all("overflows" in reason for reason in ready.kept.values())
    assert all(np.isfinite(y).all() for y in open_model(ready.listen(())).run(feed))
    assert [t.name for t in changed.graph.initializer if t.data_type == TensorProto.FLOAT16] == ["w3/fp16"]


def test_a_weight_beyond_float16_stays(tmp_path):
    """A constant of 1e6 would be infinite."""
    _, ready = fp16_of(two_convs(b2=np.full(32, 1e6, np.float32)), [{"x": X}], tmp_path)
    assert "overflows" in ready.kept["second"]
    assert "first" not in ready.kept


def test_explicit_casts_and_random_nodes_convert(tmp_path):
    """OR-11. A Cast to float and a RandomNormalLike left float32 where float16 was expected: it did not load."""
    nodes = [
        node("Cast", "ids", "floats", to=FLOAT),
        node("MatMul", "floats w", "product"),
        node("RandomNormalLike", "product", "noise", seed=3.0, scale=0.001),
        node("Add", "product noise", "sum"),
        node("Tanh", "sum", "y"),
    ]
    original = model(nodes, [value("ids", [1, 8], INT)], [value("y", [1, 16])], {"w": noise(8, 16, scale=0.1)})
    feed = {"ids": np.arange(8, dtype=np.int64)[None] % 5}
    changed, ready = fp16_of(original, [feed], tmp_path)
    a, b = (open_model(m).run(feed)[0].ravel() for m in (original, changed))
    assert np.corrcoef(a, b)[0, 1] >= 0.99
    assert "explicit cast" in ready.kept["floats"]
    assert "by definition" in ready.kept["noise"]
    assert "w/fp16" in {t.name for t in changed.graph.initializer}


def test_subgraphs_find_what_they_read_from_outside(tmp_path):
    """OR-11. A branch read a tensor of the outer graph, which had become float16: types clashed and it did not load."""
    inner = helper.make_graph(
        [helper.make_node("Mul", ["hidden", "two"], ["doubled"])], "then", [], [value("doubled", None)]
    )
    other = helper.make_graph([helper.make_node("Identity", ["hidden"], ["same"])], "else", [], [value("same", None)])
    nodes = [
        node("MatMul", "x w", "hidden"),
        node("ReduceMax", "x", "peak", keepdims=0),
        node("Greater", "peak two", "loud"),
        node("If", "loud", "chosen", then_branch=inner, else_branch=other),
        node("MatMul", "chosen w2", "y"),
    ]
    constants = {"w": noise(8, 8), "w2": noise(8, 8, seed=2), "two": np.float32(2)}
    original = model(nodes, [value("x", [4, 8])], [value("y", [4, 8])], constants)
    changed, ready = fp16_of(original, [{"x": noise(4, 8)}], tmp_path)
    assert ready.kept["chosen"] == "a subgraph"
    assert "w2/fp16" in {t.name for t in changed.graph.initializer}
    for scale in (0.1, 10):
        assert snr(original, changed, {"x": noise(4, 8, scale=scale)}) > 45


def test_norms_softmax_and_residual_sums_stay(tmp_path):
    """Sums of squares overflow, exponentials too, and a residual loses what is small beside it."""
    nodes = [
        node("LayerNormalization", "x g", "normed"),
        node("MatMul", "normed w", "branch"),
        node("Add", "x branch", "sum"),
        node("Softmax", "sum", "shares"),
        node("MatMul", "shares w", "y"),
    ]
    made = model(nodes, [value("x", [4, 8])], [value("y", [4, 8])], {"g": np.ones(8, np.float32), "w": noise(8, 8)})
    changed, ready = fp16_of(made, [{"x": noise(4, 8)}], tmp_path)
    assert set(ready.kept) == {"normed", "sum", "shares"}
    assert "residual" in ready.kept["sum"]
    assert snr(made, changed, {"x": noise(4, 8)}) > 45


def test_a_family_keeps_by_prefix(tmp_path):
    """What the family names stays, with its reason; the empty prefix is the whole graph."""
    _, ready = fp16_of(two_convs(), [{"x": X}], tmp_path, keep={"fir": "because"})
    assert ready.kept == {"first": "because"}
    assert prepared(two_convs(), Wish("fp16"), [{"x": X}], {"": "all of it"}, tmp_path) is None


def test_layers_put_back_are_float32_again(tmp_path):
    """`without` leaves a layer alone, `only` touches nothing else."""
    ready = prepared(two_convs(), Wish("fp16"), [{"x": X}], tmp=tmp_path)
    assert "w1/fp16" not in {t.name for t in ready.without(["first"]).graph.initializer}
    twin = ready.only(["first"])
    assert {t.name for t in twin.graph.initializer} >= {"w1/fp16", "w2", "b2"}


# int8


@pytest.mark.parametrize(("exact", "most"), [(True, 127), (False, 63)])
def test_weights_have_a_scale_for_each_channel(monkeypatch, exact, most):
    """A loud channel does not take the quiet ones' steps."""
    monkeypatch.setattr(runtime, "has_int8_kernels", lambda: exact)
    weight = noise(4, 8, 3) * np.array([1e-3, 1, 100, 0], np.float32).reshape(-1, 1, 1)
    rounded, scale = int8.quantize_weight(weight, 0)
    assert np.abs(rounded[:3]).max(axis=(1, 2)).tolist() == [most] * 3
    error = np.abs(rounded * scale.reshape(-1, 1, 1) - weight).max(axis=(1, 2))
    assert (error <= scale / 2 + 1e-9).all()
    assert scale[3] == 1


@pytest.mark.parametrize(
    "wish", [Wish("int8", convolutions=True), *(Wish("int8", method) for method in calibrate.METHODS)], ids=str
)
def test_int8_convolutions_are_near(tmp_path, wish):
    """Both layers become integers, and 25 dB remain."""
    ready = prepared(two_convs(), wish, [{"x": X}, {"x": noise(1, 32, 99, seed=5)}], tmp=tmp_path)
    changed = ready.without(())
    assert [t.dims for t in changed.graph.initializer if t.data_type == TensorProto.INT8 and len(t.dims) == 3]
    assert not {"w1", "w2"} & {t.name for t in changed.graph.initializer}
    assert snr(two_convs(), changed, {"x": noise(1, 32, 150, seed=9)}) > 25


def test_channels_of_different_loudness_are_evened(tmp_path):
    """A channel 200 times louder than the others took all steps: 256 of them were shared by one channel, the others
    were rounded to nothing and the layer's output was noise (5 dB in the embedded voice's generator, 18 since).
    """
    loud = np.ones(32, np.float32)
    loud[3] = 200
    x = X * loud.reshape(1, -1, 1)
    weight = noise(32, 32, 3, seed=4) / loud.reshape(1, -1, 1)
    original = two_convs(w1=weight.astype(np.float32))
    layers, _ = int8.candidates(original, int8.KINDS, {})
    tensors = {t: 1 for layer in layers for t in (layer.data, layer.output)}
    values = calibrate.watch(open_model(graphs.with_outputs(original, tensors)), tensors, [{"x": x}])
    near = {}
    for even in (False, True):
        inputs, outputs = calibrate.scalings(layers, values, "minmax", even=even)
        near[even] = snr(original, int8.static(graphs.clone(original), layers, inputs, outputs), {"x": x})
    assert near[True] > 25
    assert near[True] > near[False] + 10


@pytest.mark.parametrize("wish", [Wish("int8"), Wish("int8", "minmax"), Wish("int4", accuracy=1)], ids=str)
@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "Gemm transB"])
def test_products_are_near(tmp_path, wish, kind):
    """Plain products, and those with a bias or a transposed weight."""
    weight, bias = noise(128, 256, scale=0.1), noise(256, seed=3)
    attributes = {"transB": 1} if "transB" in kind else {}
    inputs = "x w b" if kind != "MatMul" else "x w"
    nodes = [node(kind.split()[0], inputs, "y", **attributes)]
    constants = {"w": weight.T.copy() if attributes else weight} | ({"b": bias} if kind != "MatMul" else {})
    original = model(nodes, [value("x", ["n", 128])], [value("y", ["n", 256])], constants)
    ready = prepared(original, wish, [{"x": noise(9, 128)}], tmp=tmp_path)
    changed = ready.without(())
    assert "w" not in {t.name for t in changed.graph.initializer}
    assert snr(original, changed, {"x": noise(7, 128, seed=8)}) > (15 if wish.to == "int4" else 30)


@pytest.mark.parametrize("calibrate", [None, "minmax"])
def test_no_sum_saturates(tmp_path, calibrate):
    """Without VNNI the kernels for products add two of them in 16 bits, and full 8-bit weights overflowed: SNR
    fell from 66 to 17 dB where all were large. The same on any CPU.
    """
    original = model([node("MatMul", "x w", "y")], [value("x", ["n", 128])], [value("y", ["n", 64])], {"w": LARGE})
    ready = prepared(original, Wish("int8", calibrate), [{"x": np.abs(noise(9, 128)) + 3}], tmp=tmp_path)
    assert snr(original, ready.without(()), {"x": np.abs(noise(7, 128, seed=8)) + 3}) > 35


def test_two_layers_that_read_one_tensor_share_its_form(tmp_path):
    """Else the same values were quantised twice."""
    nodes = [node("Conv", "x w1", "a"), node("Conv", "x w2", "b"), node("Add", "a b", "y")]
    constants = {"w1": noise(32, 32, 1), "w2": noise(32, 32, 1, seed=2)}
    original = model(nodes, [value("x", [1, 32, "n"])], [value("y", [1, 32, "n"])], constants)
    ready = prepared(original, Wish("int8", "minmax"), [{"x": X}], tmp=tmp_path)
    assert kinds(ready.without(())).count("QuantizeLinear") == 3  # x once, a, b
    assert snr(original, ready.without(()), {"x": X}) > 25


def test_layers_without_integer_kernels_stay_and_say_why(tmp_path):
    """Transposed convolutions have none on the CPU; tiny weights are not worth it."""
    nodes = [
        node("ConvTranspose", "x w", "up", strides=[2]),
        node("Conv", "up tiny", "one"),
        node("Conv", "up w2", "y"),
    ]
    constants = {"w": noise(32, 32, 2), "tiny": noise(1, 32, 1), "w2": noise(64, 32, 1)}
    original = model(
        nodes, [value("x", [1, 32, "n"])], [value("y", [1, 64, "m"]), value("one", [1, 1, "m"])], constants
    )
    ready = prepared(original, Wish("int8", convolutions=True), [{"x": X}], tmp=tmp_path)
    assert [layer.name for layer in ready.layers] == ["y"]
    assert ready.kept == {"up": "no integer kernel for ConvTranspose", "one": "a weight of 32 numbers"}


def test_a_convolution_of_groups_is_near(tmp_path):
    """Each channel its own filter, channels of different loudness: their weights have no column for an input scale."""
    loud = np.where(np.arange(512) == 5, 100, 1).astype(np.float32).reshape(1, -1, 1)
    weight = noise(512, 1, 5) / loud.reshape(-1, 1, 1)
    nodes = [node("Conv", "x w", "y", group=512, pads=[2, 2])]
    original = model(nodes, [value("x", [1, 512, "n"])], [value("y", [1, 512, "n"])], {"w": weight})
    feed = {"x": noise(1, 512, 60) * loud}
    ready = prepared(original, Wish("int8", "minmax"), [feed], tmp=tmp_path)
    out, rounded = (open_model(m).run(feed)[0] for m in (original, ready.without(())))
    assert measures.snr(out[:, 5], rounded[:, 5]) > 30


def test_a_product_with_a_bias_reads_integers(tmp_path):
    """onnxruntime joined product and bias first and then found no integer operator for both: weights became floats
    again in every run, 10 times slower than before.
    """
    original = model(
        [node("Gemm", "x w b", "y")],
        [value("x", ["n", 128])],
        [value("y", ["n", 256])],
        {"w": noise(128, 256), "b": noise(256)},
    )
    ready = prepared(original, Wish("int8", "minmax"), [{"x": noise(9, 128)}], tmp=tmp_path)
    changed = ready.without(())
    assert "MatMulIntegerToFloat" in kinds(changed)
    assert not [n for n in changed.graph.node if n.op_type == "DequantizeLinear" and "w8" in n.input[0]]


# int4


@pytest.mark.parametrize("block", int4.BLOCKS)
def test_four_bits_are_packed_as_the_operator_reads_them(tmp_path, block):
    """The operator's product is that of the matrix the packed weights stand for; inputs that fill no block too."""
    weight = noise(200, 128, scale=0.1)
    packed, scale = int4.pack(weight, block)
    read = int4.unpack(packed, scale, 200)
    steps = np.repeat(np.abs(scale), block, axis=1)[:, :200].T
    assert (np.abs(read - weight) <= steps * 1.001).all()
    original = model([node("MatMul", "x w", "y")], [value("x", ["n", 200])], [value("y", ["n", 128])], {"w": weight})
    ready = prepared(original, Wish("int4", block=block, accuracy=1), [{"x": noise(3, 200)}], tmp=tmp_path)
    x = noise(5, 200, seed=7)
    np.testing.assert_allclose(open_model(ready.without(())).run({"x": x})[0], x @ read, atol=2e-4)


def test_only_large_products_become_int4(tmp_path):
    """Convolutions and small products have nothing to gain."""
    ready = prepared(two_convs(), Wish("int4"), [{"x": X}], tmp=tmp_path)
    assert list(ready.layers) == []
    assert set(ready.kept) == {"first", "second"}


def test_dynamic_convolutions_are_left_unless_asked_for(tmp_path):
    """OR-13. They are 2.5 to 4 times slower than float32, and nobody wants that from a command that makes it faster."""
    ready = prepared(two_convs(), Wish("int8"), [{"x": X}], tmp=tmp_path)
    assert list(ready.layers) == []
    assert set(ready.kept.values()) == {int8.SLOW}


# files


def test_constants_in_nodes_are_folded_and_nodes_named(tmp_path):
    """Exported graphs hold weights in Constant nodes, and nodes without names, or twice the same."""
    weight = helper.make_tensor("w", FLOAT, [32, 32, 1], noise(32, 32, 1).tobytes(), raw=True)
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weight),
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["y"], name="Conv_0"),
    ]
    onnx.save(model(nodes, [value("x", [1, 32, "n"])], [value("y", [1, 32, "n"])]), tmp_path / "m.onnx")
    loaded = graphs.load(tmp_path / "m.onnx")
    assert [n.op_type for n in loaded.graph.node] == ["Conv", "Conv"]
    assert len({n.name for n in loaded.graph.node}) == 2
    assert [layer.size for layer in graphs.layers(loaded.graph)] == [1024, 1024]


def test_weights_too_large_for_one_file_lie_beside_it(tmp_path, monkeypatch):
    """A protobuf file ends at 2 GB: what is larger could not be saved."""
    monkeypatch.setattr(graphs, "LIMIT", 1000)
    graphs.save(two_convs(), tmp_path / "m.onnx")
    assert (tmp_path / "m.weights").stat().st_size > 20_000
    assert snr(two_convs(), graphs.load(tmp_path / "m.onnx"), {"x": X}) == float("inf")
