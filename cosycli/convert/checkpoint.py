"""PyTorch's checkpoint files, read without PyTorch and without running anything that is in them.

A file is a ZIP archive of stored entries: a pickle that says which tensors there are, and one entry for each storage.
The pickle may name the few globals that tensors need, and gets our own stand-ins for them; anything else is refused.
Storages stay in the file, mapped into memory, until a tensor is asked for.
"""

from __future__ import annotations

import io
import mmap
import pickle
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosycli.errors import ModelError

Array = NDArray[Any]

LARGEST_PICKLE = 64 << 20  # bytes; a language model's is 60 kB
LOCAL_HEADER = struct.Struct("<4s5H3I2H")  # of an entry, in front of its data
TYPES: Mapping[str, str] = {
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": "bfloat16",
    "DoubleStorage": "<f8",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


@dataclass(frozen=True)
class _Kind:
    """A storage's element type, as the pickle names it."""

    name: str


@dataclass(frozen=True)
class _Storage:
    kind: str
    key: str
    count: int


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int  # in elements
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Dict(dict[Any, Any]):
    """In the place of OrderedDict; what else was kept with it is dropped."""

    def __setstate__(self, state: Any) -> None:
        return None


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, _Storage) or any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("a tensor without a storage, or of a negative size")
    if len(shape) != len(strides):
        raise ValueError("a tensor with other strides than axes")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _parameter(tensor: Any, *_: Any) -> Any:
    return tensor


class _Reader(pickle.Unpickler):
    """Builds dictionaries, lists, numbers, texts and `_Tensor`s, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return _Dict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return _parameter
        if module == "torch" and name in TYPES:
            return _Kind(name)
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is no tensor")

    def persistent_load(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage" or not isinstance(pid[1], _Kind):
            raise pickle.UnpicklingError("it refers to something that is no storage")
        _, kind, key, _, count = pid
        if type(key) is not str or type(count) is not int or count < 0:
            raise pickle.UnpicklingError("a storage without a name or size")
        return _Storage(kind.name, key, count)


class Checkpoint(Mapping[str, Array]):
    """A file's tensors by key, float32. Those that are float32 in the file are views of it, valid until `close`.

    `prefix` is dropped from keys that have it; keys that begin with one of `without` are left out.
    Raises ModelError for a file that is no checkpoint, damaged, or more than data.
    """

    def __init__(self, path: Path, *, prefix: str = "", without: tuple[str, ...] = ()) -> None:
        self.path = path
        self._file = _File(path)
        content = self._file.content
        if not isinstance(content, dict):
            raise _refused(path, "it holds no named tensors")
        named = {key: value for key, value in content.items() if isinstance(value, _Tensor) and isinstance(key, str)}
        self._tensors = {key.removeprefix(prefix): value for key, value in named.items() if not key.startswith(without)}
        if not self._tensors:
            raise _refused(path, "it holds no named tensors")

    def __getitem__(self, key: str) -> Array:
        return self._file.array(self._tensors[key]).astype(np.float32, copy=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, key: object) -> bool:
        return key in self._tensors

    def shape(self, key: str) -> tuple[int, ...]:
        """A tensor's shape, without reading it."""
        return self._tensors[key].shape

    def close(self) -> None:
        """Let the file go; views of it stay valid as long as they live."""
        self._file.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(path: Path) -> Any:
    """All that a small file holds: dictionaries, lists, numbers and texts, arrays for tensors. Raises ModelError."""
    file = _File(path)

    def plain(value: Any, depth: int = 0) -> Any:
        if depth > 20:
            raise _refused(path, "it is nested too deeply")
        if isinstance(value, _Tensor):
            return file.array(value).copy()
        if isinstance(value, dict):
            return {key: plain(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(inner, depth + 1) for inner in value]
        return value if isinstance(value, (str, int, float, bool, type(None))) else None

    try:
        return plain(file.content)
    finally:
        file.close()


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with zipfile.ZipFile(path) as archive:
                self._entries = {info.filename: info for info in archive.infolist()}
                self._root = self._found()
                self.content = self._unpickled(archive)
        except FileNotFoundError as error:
            raise ModelError(f"there is no {path}", "give the folder of a CosyVoice release") from error
        except ModelError:
            raise
        except (zipfile.BadZipFile, NotImplementedError) as error:
            raise _refused(path, "it is no ZIP archive as PyTorch writes since version 1.6") from error
        except (pickle.UnpicklingError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise _refused(path, str(error) or type(error).__name__) from error
        except (EOFError, MemoryError, RecursionError, OverflowError, UnicodeError, struct.error) as error:
            raise _refused(path, type(error).__name__) from error
        except OSError as error:
            raise ModelError(f"cannot read {path}: {error.strerror or error}", "check the file") from error

    def _found(self) -> str:
        roots = [name.removesuffix("data.pkl") for name in self._entries if name.endswith("/data.pkl")]
        if len(roots) != 1:
            raise _refused(self._path, "it has no data.pkl")
        return roots[0]

    def _unpickled(self, archive: zipfile.ZipFile) -> Any:
        info = self._entries[f"{self._root}data.pkl"]
        if info.file_size > LARGEST_PICKLE:
            raise _refused(self._path, "its data.pkl is too large")
        order = self._entries.get(f"{self._root}byteorder")
        if order and archive.read(order) != b"little":
            raise _refused(self._path, "it was written on a big-endian machine")
        return _Reader(io.BytesIO(archive.read(info)), encoding="utf-8").load()

    def array(self, tensor: _Tensor) -> Array:
        """A tensor's values, as a view of the file where its type is NumPy's. Raises ModelError."""
        if hasattr(mmap, "MADV_DONTNEED"):  # pages that were read before count as ours until then
            self._map.madvise(mmap.MADV_DONTNEED)
        kind = TYPES[tensor.storage.kind]
        size = np.dtype("<u2" if kind == "bfloat16" else kind).itemsize
        start, length = self._place(tensor.storage.key)
        if tensor.storage.count * size != length:
            raise _refused(self._path, f"storage {tensor.storage.key} has {length} bytes for {tensor.storage.count}")
        extent = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.strides, strict=True))
        empty = 0 in tensor.shape
        if not empty and tensor.offset + extent >= tensor.storage.count:
            raise _refused(self._path, f"a tensor reaches beyond storage {tensor.storage.key}")
        flat: Array = np.frombuffer(self._map, np.uint8, length, start).view("<u2" if kind == "bfloat16" else kind)
        if empty:
            return np.zeros(tensor.shape, np.float32)
        view = np.lib.stride_tricks.as_strided(
            flat[tensor.offset :], tensor.shape, [stride * size for stride in tensor.strides], writeable=False
        )
        if kind == "bfloat16":  # the upper half of a float32
            view = (view.astype(np.uint32) << 16).view(np.float32)
        return view

    def _place(self, key: str) -> tuple[int, int]:
        """Where an entry's bytes are in the file, and how many."""
        info = self._entries.get(f"{self._root}data/{key}")
        if info is None:
            raise _refused(self._path, f"storage {key} is missing")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise _refused(self._path, f"storage {key} is compressed")
        try:
            header = LOCAL_HEADER.unpack_from(self._map, info.header_offset)
        except struct.error as error:
            raise _refused(self._path, f"storage {key} is cut off") from error
        start = info.header_offset + LOCAL_HEADER.size + header[-2] + header[-1]
        if header[0] != b"PK\x03\x04" or start + info.file_size > len(self._map):
            raise _refused(self._path, f"storage {key} is cut off")
        return start, info.file_size

    def close(self) -> None:
        """Let the mapping go, unless arrays still look into it."""
        try:
            self._map.close()
        except BufferError:
            return


def _refused(path: Path, why: str) -> ModelError:
    return ModelError(f"{path} is no checkpoint that can be read: {why}", "download the model again")
