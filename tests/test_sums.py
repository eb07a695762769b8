"""The quick sums of a bundle's files: what they notice, and that a graph with another sum is not opened."""

from __future__ import annotations

import random

import pytest

from cosycli import runtime
from cosycli.bundles import store
from cosycli.bundles.sums import BLOCK, quick_sum
from cosycli.errors import ModelError


@pytest.fixture
def bundle(tmp_path):
    """A bundle of an addition that opens, twice under names of its own, and of a file of three blocks and a bit."""
    (tmp_path / "a.onnx").write_bytes(runtime._addition())
    (tmp_path / "b.onnx").write_bytes(runtime._addition().replace(b"addition", b"additioN"))
    (tmp_path / "large.npy").write_bytes(random.Random(4).randbytes(3 * BLOCK + 5))
    store.write_manifest(tmp_path, store.Manifest("tiny", "fake", "1", "float32", "CC0", 24000))
    return tmp_path


def flip(path, bit):
    """Turn one bit of a file."""
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def test_every_file_has_a_sum_and_is_whole(bundle):
    """What was just written is not damaged; a file that no manifest knows is not judged."""
    assert set(store.read_manifest(bundle).sums) == {"a.onnx", "b.onnx", "large.npy"}
    assert not any(store.damaged(path) for path in bundle.iterdir())
    (bundle / "draft.onnx").write_bytes(b"x")
    assert not store.damaged(bundle / "draft.onnx")


def test_any_flipped_bit_changes_the_sum(bundle):
    """All bits of a small file, and some of each block of a large one, its last five bytes among them."""
    size = (bundle / "a.onnx").stat().st_size
    for bit in range(8 * size):
        flip(bundle / "a.onnx", bit)
        assert store.damaged(bundle / "a.onnx"), bit
        flip(bundle / "a.onnx", bit)
    for bit in (0, 63, 8 * BLOCK - 1, 8 * BLOCK, 12 * BLOCK + 7, 24 * BLOCK, 24 * BLOCK + 39):
        flip(bundle / "large.npy", bit)
        assert store.damaged(bundle / "large.npy"), bit
        flip(bundle / "large.npy", bit)
    assert not store.damaged(bundle / "large.npy")


def test_blocks_in_another_order_change_the_sum(bundle):
    """A copy that put its pieces together wrongly."""
    data = (bundle / "large.npy").read_bytes()
    right = quick_sum(bundle / "large.npy")
    (bundle / "large.npy").write_bytes(data[BLOCK : 2 * BLOCK] + data[:BLOCK] + data[2 * BLOCK :])
    assert quick_sum(bundle / "large.npy") != right


def test_files_that_changed_places_are_not_opened(bundle):
    """Two graphs of one size under each other's names: both open, and neither is what the other should be."""
    a, b = bundle / "a.onnx", bundle / "b.onnx"
    runtime.Session(a)
    a.rename(bundle / "c")
    b.rename(a)
    (bundle / "c").rename(b)
    assert store.intact(bundle, store.read_manifest(bundle))  # the sizes agree
    for path in (a, b):
        with pytest.raises(ModelError, match="is damaged"):
            runtime.Session(path)


def test_a_file_that_is_gone_is_damaged(bundle):
    """Removed after its size was looked at."""
    (bundle / "a.onnx").unlink()
    assert store.damaged(bundle / "a.onnx")
