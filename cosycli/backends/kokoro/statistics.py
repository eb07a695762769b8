"""The norm statistics that a sentence is decoded with: frozen, from the voice's calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cosycli.types import Samples


def statistics(arrays: Mapping[str, Any], features: Samples, f0: Samples, energy: Samples) -> tuple[Samples, Samples]:
    """Mean and variance [18698] of each normalised channel, body's norms first."""
    return np.asarray(arrays["mean"], np.float32), np.asarray(arrays["var"], np.float32)
