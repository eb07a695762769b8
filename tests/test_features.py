"""Features against what torchaudio, Whisper and Matcha-TTS compute for the same clip (tests/data/cosyvoice)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes import checkpoints

from cosycli.audio import features


@pytest.fixture(scope="module")
def clip() -> dict[str, Any]:
    with np.load(checkpoints.DATA / "frontend.npz") as file:
        return {name: file[name] for name in file.files}


def apart(made: Any, wanted: Any) -> float:
    assert made.shape == wanted.shape
    return float(np.abs(made - wanted).max())


@pytest.mark.parametrize("wanted", [16000, 24000])
def test_resampling_is_torchaudios(clip: dict[str, Any], wanted: int) -> None:
    assert apart(features.resample(clip["in_22050"], 22050, wanted), clip[f"res_22050_{wanted}"]) < 1e-5


def test_the_same_rate_changes_nothing(clip: dict[str, Any]) -> None:
    assert np.array_equal(features.resample(clip["in_16000"], 16000, 16000), clip["in_16000"])


@pytest.mark.parametrize("rates", [(44100, 24000), (16000, 48000), (8000, 24000), (24000, 16000)])
@pytest.mark.parametrize("length", [1, 7, 479, 24001])
def test_any_length_and_rate_can_be_resampled(rates: tuple[int, int], length: int) -> None:
    old, new = rates
    tone = np.sin(np.arange(length) * 2 * np.pi * 200 / old).astype(np.float32)
    made = features.resample(tone, old, new)
    assert len(made) == -(-length * new // old)
    if length > 20000:
        wanted = np.sin(np.arange(len(made)) * 2 * np.pi * 200 / new)
        assert np.abs(made - wanted)[1000:-1000].max() < 5e-3


def test_log_mel_is_whispers(clip: dict[str, Any]) -> None:
    assert apart(features.whisper_mel(clip["in_16000"]), clip["whisper128"]) < 1e-3


def test_filter_bank_is_kaldis(clip: dict[str, Any]) -> None:
    assert apart(features.kaldi_fbank(clip["in_16000"]), clip["fbank16_cmn"]) < 1e-3


@pytest.mark.parametrize("fmax", [8000, None])
def test_mel_is_the_flows(clip: dict[str, Any], fmax: float | None) -> None:
    assert apart(features.flow_mel(clip["in_24000"], fmax).T, clip[f"mel24_fmax{fmax}"]) < 1e-3
