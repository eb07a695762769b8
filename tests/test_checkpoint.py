"""Checkpoint files: tensors as they were written, and nothing that a file could make us do."""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import torchfile

from cosycli.convert.checkpoint import Checkpoint, read
from cosycli.errors import ModelError

ARRAYS = {
    "a.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "half": np.linspace(-1, 1, 5).astype(np.float16),
    "double": np.array([[1e-3, 2.0]]),
    "whole": np.array([1, -2, 3]),
}


def test_tensors_are_read_as_float32(tmp_path: Path) -> None:
    torchfile.write(tmp_path / "x.pt", ARRAYS, more={"epoch": 7})
    with Checkpoint(tmp_path / "x.pt") as found:
        assert list(found) == list(ARRAYS)
        for key, wanted in ARRAYS.items():
            assert found[key].dtype == np.float32
            assert found.shape(key) == wanted.shape
            assert np.allclose(found[key], wanted)


def test_float32_is_mapped_and_not_copied(tmp_path: Path) -> None:
    torchfile.write(tmp_path / "x.pt", ARRAYS)
    found = Checkpoint(tmp_path / "x.pt")["a.weight"]
    assert not found.flags.writeable
    assert not found.flags.owndata


def test_tensors_may_share_a_storage_with_offset_and_strides(tmp_path: Path) -> None:
    numbers = np.arange(24, dtype=np.float32)
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("x/data/0", numbers.tobytes())
        storage = torchfile._Storage("FloatStorage", "0", 24)
        content = OrderedDict(
            transposed=torchfile._Tensor(storage, (4, 3), 0, (1, 4)), later=torchfile._Tensor(storage, (2, 2), 20, None)
        )
        torchfile.write_pickle(archive, "x", content)
    found = Checkpoint(tmp_path / "x.pt")
    assert np.array_equal(found["transposed"], numbers[:12].reshape(3, 4).T)
    assert np.array_equal(found["later"], [[20, 21], [22, 23]])


def test_bfloat16_is_widened(tmp_path: Path) -> None:
    wanted = np.array([1.0, -2.5, 3e8], np.float32)
    halves = (wanted.view(np.uint32) >> 16).astype(np.uint16)
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("x/data/0", halves.tobytes())
        storage = torchfile._Storage("BFloat16Storage", "0", 3)
        torchfile.write_pickle(archive, "x", {"a": torchfile._Tensor(storage, (3,), 0, None)})
    expected = (halves.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(Checkpoint(tmp_path / "x.pt")["a"], expected)


def test_a_prefix_and_what_is_not_wanted(tmp_path: Path) -> None:
    torchfile.write(tmp_path / "x.pt", {"generator.a": ARRAYS["half"], "mpd.b": ARRAYS["half"], "c": ARRAYS["half"]})
    assert list(Checkpoint(tmp_path / "x.pt", prefix="generator.", without=("mpd",))) == ["a", "c"]


def test_other_values_are_read_too(tmp_path: Path) -> None:
    torchfile.write(tmp_path / "x.pt", {"a": ARRAYS["half"]}, more={"b": {"text": "你好", "number": [1, 2.5]}})
    found = read(tmp_path / "x.pt")
    assert found["b"] == {"text": "你好", "number": [1, 2.5]}
    assert np.array_equal(found["a"], ARRAYS["half"])


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("executed",))


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_what_would_run_code_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], protocol: int) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps({"a": Evil()}, protocol=protocol))
    with pytest.raises(ModelError, match=r"x\.pt.*names .*print"):
        Checkpoint(tmp_path / "x.pt")
    assert "executed" not in capsys.readouterr().out


def broken(path: Path, tensor: Any, data: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("x/data/0", data)
        torchfile.write_pickle(archive, "x", {"a": tensor})


def test_tensors_that_reach_beyond_their_storage_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    storage = torchfile._Storage("FloatStorage", "0", 4)
    for tensor in (
        torchfile._Tensor(storage, (5,), 0, None),
        torchfile._Tensor(storage, (2,), 3, None),
        torchfile._Tensor(storage, (2,), 0, (4,)),
        torchfile._Tensor(storage, (2,), 0, (-1,)),
        torchfile._Tensor(storage, (2,), -1, None),
        torchfile._Tensor(torchfile._Storage("FloatStorage", "0", 5), (2,), 0, None),
        torchfile._Tensor(torchfile._Storage("FloatStorage", "1", 4), (2,), 0, None),
    ):
        broken(path, tensor, bytes(16))
        with pytest.raises(ModelError, match=r"x\.pt"):
            Checkpoint(path)["a"]


def test_compressed_storages_are_refused(tmp_path: Path) -> None:
    storage = torchfile._Storage("FloatStorage", "0", 1000)
    broken(tmp_path / "x.pt", torchfile._Tensor(storage, (2,), 0, None), bytes(4000), zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelError, match="compressed"):
        Checkpoint(tmp_path / "x.pt")["a"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "x.pt"
    torchfile.write(path, ARRAYS)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(ModelError, match=r"x\.pt"):
        Checkpoint(path)


def test_flipped_bytes_never_raise_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torchfile.write(path, ARRAYS)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    refused = []
    for _ in range(300):
        data = bytearray(whole)
        data[random.integers(len(data))] = random.integers(256)
        path.write_bytes(data)
        try:
            found = Checkpoint(path)
            for key in found:
                found[key].sum()
        except ModelError as error:
            refused.append(error.message)
    assert refused
    assert all("x.pt" in message for message in refused)


def test_a_legacy_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C))
    with pytest.raises(ModelError, match="ZIP archive"):
        Checkpoint(tmp_path / "x.pt")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no"):
        Checkpoint(tmp_path / "x.pt")
