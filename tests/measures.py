"""Measures of sound that several tests share: clicks at joints, silence at the edges, level."""

from __future__ import annotations

import numpy as np


def seam(x, s, sr, k=0.010):
    """How far the step into sample `s` sticks out of the steps around it; up to 1.0 is not heard.

    Clean speech stays under 0.61 (720 points of 12 clips); a third of raw cuts of 4 to 30 ms exceed 1.0, so that one
    joint proves nothing: measure 20 or more.
    """
    d = np.abs(np.diff(x))
    n, i = int(k * sr), s - 1
    around = np.r_[d[max(0, i - n) : max(0, i - 1)], d[i + 2 : i + n]]
    return d[i] / max(0.02, 3 * np.percentile(around, 95))


def edges(x, sr, th=0.01):
    """Seconds of silence before the first and after the last sound."""
    v = np.flatnonzero(np.abs(x) > th)
    return v[0] / sr, (len(x) - 1 - v[-1]) / sr


def rms_db(x):
    """Level in dB below full scale."""
    return 20 * np.log10(np.sqrt(np.mean(np.square(x))) + 1e-9)


def speech_like(seconds, rate=24000, seed=0):
    """A signal that, like speech, never repeats: gliding harmonics in syllables, with breath noise."""
    noise = np.random.default_rng(seed)
    t = np.arange(round(seconds * rate)) / rate
    pitch = 170 + 50 * np.sin(2 * np.pi * 0.7 * t + seed) + 30 * np.sin(2 * np.pi * 0.23 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(k * phase) / k for k in range(1, 9))
    syllables = 0.55 + 0.45 * np.sin(2 * np.pi * 4.3 * t + 0.5 * np.sin(2 * np.pi * 0.4 * t))
    return (0.25 * voice * syllables + 0.01 * noise.standard_normal(len(t))).astype(np.float32)


def contains(recording, signal, rate=24000, tolerance=0.2):
    """Where in `recording` the whole of `signal` lies without a gap, in samples; AssertionError if it does not.

    Alignment comes from the signal's first half second; then every 20 ms of the rest, the very beginning and end
    included, must be there at the same offset.
    """
    head = signal[: rate // 2]
    at = _best_offset(recording, head)
    assert at + len(signal) <= len(recording), f"recording ends {at + len(signal) - len(recording)} samples early"
    found = recording[at : at + len(signal)]
    frame = rate // 50
    for begin in range(0, len(signal), frame):
        wanted, got = signal[begin : begin + frame], found[begin : begin + frame]
        error = np.sqrt(np.mean(np.square(got - wanted)))
        allowed = tolerance * np.sqrt(np.mean(np.square(wanted))) + 0.002
        assert error <= allowed, (
            f"differs {begin / rate:.2f} s into the signal (error {error:.4f}, allowed {allowed:.4f})"
        )
    return at


def _best_offset(recording, head):
    size = 1 << (len(recording) + len(head)).bit_length()
    product = np.fft.rfft(recording, size) * np.conj(np.fft.rfft(head, size))
    correlation = np.fft.irfft(product, size)[: max(1, len(recording) - len(head) + 1)]
    return int(np.argmax(correlation))
