"""Writes PyTorch's checkpoint format without PyTorch, also wrongly."""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {"float32": "FloatStorage", "float16": "HalfStorage", "float64": "DoubleStorage", "int64": "LongStorage"}
ALIGNMENT = 64


class _Global:
    """Something that is pickled as a name."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class _Storage:
    def __init__(self, kind: str, key: str, count: int) -> None:
        self.kind, self.key, self.count = kind, key, count


class _Tensor:
    def __init__(self, storage: _Storage, shape: tuple[int, ...], offset: int, strides: tuple[int, ...] | None) -> None:
        self.storage, self.shape, self.offset = storage, shape, offset
        steps = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        self.strides = tuple(steps) if strides is None else strides


class _Pickler(pickle._Pickler):  # the one in Python, which lets a class write names of modules that are not there
    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, _Storage):
            return ("storage", _Global("torch", obj.kind), obj.key, "cpu", obj.count)
        return None

    def save(self, obj: Any, save_persistent_id: bool = True) -> Any:
        if isinstance(obj, _Global):
            return self.write(f"c{obj.module}\n{obj.name}\n".encode())
        if isinstance(obj, _Tensor):
            self.save(_Global("torch._utils", "_rebuild_tensor_v2"))
            self.save((obj.storage, obj.offset, obj.shape, obj.strides, False, OrderedDict()))
            return self.write(pickle.REDUCE)
        return super().save(obj, save_persistent_id)


def _entry(archive: zipfile.ZipFile, name: str, size: int) -> zipfile.ZipInfo:
    """An entry whose data begins at a multiple of 64 bytes, as PyTorch's do."""
    info = zipfile.ZipInfo(name)
    assert archive.fp is not None
    start = archive.fp.tell() + 30 + len(name.encode()) + (20 if size >= 1 << 31 else 0)
    padding = -(start + 4) % ALIGNMENT
    info.extra = b"FB" + padding.to_bytes(2, "little") + bytes(padding)
    info.file_size = size
    return info


def write(
    path: Path,
    tensors: Iterable[tuple[str, Any]] | Mapping[str, Any],
    *,
    more: Mapping[str, Any] | None = None,
    prefix: str = "",
) -> None:
    """Write named arrays, one at a time; an array that comes twice is stored once. `more`: other values beside them."""
    content: OrderedDict[str, Any] = OrderedDict()
    known: dict[int, _Storage] = {}
    root = path.stem
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for key, array in tensors.items() if isinstance(tensors, Mapping) else tensors:
            storage = known.get(id(array)) if isinstance(tensors, Mapping) else None
            if storage is None:
                storage = _Storage(KINDS[str(array.dtype)], str(len(content)), array.size)
                known[id(array)] = storage
                info = _entry(archive, f"{root}/data/{storage.key}", array.nbytes)
                with archive.open(info, "w") as file:
                    file.write(memoryview(np.ascontiguousarray(array).reshape(-1)).cast("B"))
            content[prefix + key] = _Tensor(storage, array.shape, 0, None)
        content.update(more or {})
        write_pickle(archive, root, content)


def write_pickle(archive: zipfile.ZipFile, root: str, content: Any) -> None:
    """Write data.pkl and what else is in such an archive."""
    with archive.open(f"{root}/data.pkl", "w") as file:
        _Pickler(file, protocol=2).dump(content)
    archive.writestr(f"{root}/byteorder", "little")
    archive.writestr(f"{root}/version", "3\n")
