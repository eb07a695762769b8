"""Spectral features of speech in NumPy, as the prompt's encoders were trained on them.

Each follows one implementation to the digit: Whisper's log-mel, Kaldi's filter bank by way of torchaudio, and the mel
of HiFi-GAN's family (Matcha-TTS).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

WIDTH, ROLLOFF = 6, 0.99  # of torchaudio's default resampling filter


def resample(samples: Array, rate: int, wanted: int) -> Array:
    """Samples [n] at another rate, ⌈n · wanted / rate⌉ of them, by torchaudio's default windowed sinc."""
    if rate == wanted:
        return samples.astype(np.float32)
    step = math.gcd(rate, wanted)
    old, new = rate // step, wanted // step
    kernels, reach = _kernels(old, new)
    length = -(-new * len(samples) // old)
    padded = np.pad(samples.astype(np.float32), (reach, reach + old))
    count = -(-length // new)
    padded = np.pad(padded, (0, max(0, (count - 1) * old + kernels.shape[1] - len(padded))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernels.shape[1])[::old][:count]
    made: Array = (windows @ kernels.T).reshape(-1)[:length].astype(np.float32)
    return made


@functools.lru_cache(8)
def _kernels(old: int, new: int) -> tuple[Array, int]:
    """A filter [new, taps] for each phase, and how many samples it reaches back."""
    cutoff = min(old, new) * ROLLOFF
    reach = math.ceil(WIDTH * old / cutoff)
    place = np.arange(-reach, reach + old)[None] / old
    t = np.clip((-np.arange(new)[:, None] / new + place) * cutoff, -WIDTH, WIDTH)
    window = np.cos(t * np.pi / WIDTH / 2) ** 2
    made: Array = (np.sinc(t) * window * cutoff / old).astype(np.float32)
    return made, reach


def _spectra(samples: Array, size: int, hop: int) -> Array:
    """Fourier transforms [frames, size / 2 + 1] of windowed frames (periodic Hann), without padding."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    frames = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), size)[::hop]
    made: Array = np.fft.rfft(frames * window)
    return made


def _slaney(hertz: Array) -> Array:
    """Hz → mel: linear up to 1 kHz, logarithmic above (Slaney's Auditory Toolbox)."""
    step = math.log(6.4) / 27
    made: Array = np.where(hertz < 1000, hertz * 3 / 200, 15 + np.log(np.maximum(hertz, 1e-9) / 1000) / step)
    return made


def _slaney_inverse(mel: Array) -> Array:
    made: Array = np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * math.log(6.4) / 27))
    return made


@functools.lru_cache(8)
def _triangles(rate: int, size: int, bands: int, high: float) -> Array:
    """Mel filters [bands, size / 2 + 1] of equal area, from 0 Hz to `high` (Slaney's scale and norm)."""
    frequencies = np.fft.rfftfreq(size, 1 / rate)
    edges = _slaney_inverse(np.linspace(0, float(_slaney(np.array(high))), bands + 2))
    rising = (frequencies[None] - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - frequencies[None]) / np.diff(edges)[1:, None]
    made: Array = np.maximum(0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None]
    return made


def whisper_mel(samples: Array) -> Array:
    """16 kHz samples [n] → log-mel [128, n / 160], as Whisper's encoder and the speech tokenizer read it."""
    padded = np.pad(samples, 200, mode="reflect")
    power = np.abs(_spectra(padded, 400, 160)[:-1]) ** 2
    mel = np.log10(np.maximum(power @ _triangles(16_000, 400, 128, 8000.0).T, 1e-10))
    made: Array = ((np.maximum(mel, mel.max() - 8) + 4) / 4).T.astype(np.float32)
    return made


def flow_mel(samples: Array, fmax: float | None) -> Array:
    """24 kHz samples [n] → log-mel [n / 480, 80], as the flow makes it; `fmax` in Hz, None is half the rate."""
    padded = np.pad(samples, 720, mode="reflect")
    magnitude = np.sqrt(np.abs(_spectra(padded, 1920, 480)) ** 2 + 1e-9)
    mel = magnitude @ _triangles(24_000, 1920, 80, 12_000.0 if fmax is None else fmax).T
    made: Array = np.log(np.maximum(mel, 1e-5)).astype(np.float32)
    return made


@functools.lru_cache(1)
def _kaldi_triangles() -> Array:
    """Filters [80, 257] that are triangles in mel (HTK's scale), from 20 Hz to 8 kHz."""

    def mel(hertz: Array) -> Array:
        made: Array = 1127 * np.log1p(hertz / 700)
        return made

    edges = np.linspace(float(mel(np.array(20.0))), float(mel(np.array(8000.0))), 82)
    step = edges[1] - edges[0]
    bins = mel(np.arange(257) * 16_000 / 512)
    filters: Array = np.maximum(0, 1 - np.abs(bins[None] - edges[1:-1, None]) / step)
    filters[:, -1] = 0  # Kaldi leaves the last bin out
    return filters


def kaldi_fbank(samples: Array) -> Array:
    """16 kHz samples [n] in [−1, 1] → log filter bank [frames, 80] less its mean over time, for the speaker encoder.
    Frames of 25 ms every 10 ms that lie within the samples.
    """
    frames = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), 400)[::160]
    frames = frames - frames.mean(axis=1, keepdims=True)
    before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85  # Kaldi's own, "povey"
    power = np.abs(np.fft.rfft((frames - 0.97 * before) * window, 512)) ** 2
    bank = np.log(np.maximum(power @ _kaldi_triangles().T, np.finfo(np.float32).eps))
    made: Array = (bank - bank.mean(axis=0)).astype(np.float32)
    return made
