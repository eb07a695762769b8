"""How far one signal is from another: signal-to-noise ratio, log-spectral distance, divergence of distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

WINDOW, HOP = 1024, 256  # samples, about 43 and 11 ms at 24 kHz
FLOOR_DB = 80.0  # below the loudest bin nothing is heard, and logarithms of silence would decide
BINS = 64  # a quarter of an 8-bit activation's levels: with more, empty bins between levels would decide


def snr(reference: Array, other: Array) -> float:
    """10·log10 of the reference's energy over the difference's, in decibels; inf for equal signals."""
    a, b = np.asarray(reference, np.float64).ravel(), np.asarray(other, np.float64).ravel()
    noise = float(np.sum((a - b) ** 2))
    energy = float(np.sum(a**2))
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(energy / noise)) if energy else float("-inf")


def log_spectral_distance(reference: Array, other: Array) -> float:
    """Root mean square over bins of the difference of power spectra in decibels, mean over frames (Gray and Markel
    1976). Bins more than 80 dB under the reference's loudest count as that. 0 for equal signals.
    """
    a, b = _power(reference), _power(other)
    floor = float(a.max()) * 10 ** (-FLOOR_DB / 10) or 1e-20
    difference = 10 * np.log10(np.maximum(a, floor) / np.maximum(b, floor))
    return float(np.mean(np.sqrt(np.mean(difference**2, axis=1))))


def _power(samples: Array) -> Array:
    """Power spectra [frames, bins] of overlapping Hann windows."""
    padded = np.pad(np.asarray(samples, np.float64).ravel(), (0, WINDOW))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    spectra: Array = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), axis=1)) ** 2
    return spectra


def divergence(reference: Array, other: Array) -> float:
    """Kullback-Leibler divergence D(P‖Q) in nats of two sets of values, as histograms of 64 bins over both."""
    low = float(min(reference.min(), other.min()))
    high = float(max(reference.max(), other.max()))
    if low == high:
        return 0.0
    p, _ = np.histogram(reference, BINS, (low, high))
    q, _ = np.histogram(other, BINS, (low, high))
    return kl(p, q)


def kl(p: Array, q: Array) -> float:
    """D(P‖Q) in nats of two histograms; half a count is added to each bin, so that an empty one does not decide."""
    a, b = p + 0.5, q + 0.5
    a, b = a / a.sum(), b / b.sum()
    return float(np.sum(a * np.log(a / b)))
