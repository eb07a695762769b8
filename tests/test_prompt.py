"""Recordings that become voices, and those that cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import checkpoints

from cosycli.backends.cosyvoice import prompt
from cosycli.errors import UsageError
from cosycli.runtime import Session


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Session]:
    folder = tmp_path_factory.mktemp("encoders")
    checkpoints.write_encoders(folder, 3, 96)
    return Session(folder / "speech_tokenizer_v3.onnx"), Session(folder / "campplus.onnx")


def speech(seconds: float, rate: int = 24000) -> Any:
    """Something that is louder and softer, like syllables."""
    t = np.arange(int(seconds * rate)) / rate
    return (0.3 * np.sin(2 * np.pi * 170 * t) * (1.1 + np.sin(2 * np.pi * 4 * t)) / 2).astype(np.float32)


def made(samples: Any, rate: int, encoders: Any, text: str = "") -> tuple[prompt.Prompt, list[str]]:
    told: list[str] = []
    return prompt.make(samples, rate, text, *encoders, None, told.append), told


def test_tokens_and_mel_belong_together(encoders: Any) -> None:
    found, told = made(speech(4), 24000, encoders)
    assert len(found.tokens) in (99, 100)
    assert len(found.mel) == 2 * len(found.flow_tokens)
    assert found.speaker.shape == (192,)
    assert told == []


def test_the_flows_prompt_ends_as_the_recording_and_lets_speech_begin_early(encoders: Any) -> None:
    found, _ = made(speech(4), 24000, encoders)
    assert len(found.flow_tokens) % 25 == 15
    assert np.array_equal(found.tokens[-len(found.flow_tokens) :], found.flow_tokens)


@pytest.mark.parametrize("rate", [16000, 22050, 44100, 48000])
def test_stereo_and_other_rates_are_taken(encoders: Any, rate: int) -> None:
    mono = speech(3.5, rate)
    found, told = made(np.stack([mono, mono], axis=1), rate, encoders)
    assert abs(len(found.tokens) - 87) <= 2
    assert bool(told) == (rate < 24000)


@pytest.mark.parametrize(
    ("samples", "rate", "reason"),
    [
        (speech(31), 24000, "30 s is the limit"),
        (speech(0.3), 24000, "too little"),
        (np.zeros(72000, np.float32), 24000, "silent"),
        (speech(3, 8000), 8000, "8000 Hz"),
        (speech(3) * np.nan, 24000, "not numbers"),
        (np.zeros(0, np.float32), 24000, "silent"),
    ],
)
def test_what_cannot_be_a_voice_is_refused(encoders: Any, samples: Any, rate: int, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        made(samples, rate, encoders)


def test_silence_around_speech_does_not_count(encoders: Any) -> None:
    quiet = np.zeros(20 * 24000, np.float32)
    found, _ = made(np.concatenate([quiet, speech(4), quiet]), 24000, encoders)
    assert len(found.tokens) < 110


def test_what_may_harm_the_voice_is_told(encoders: Any) -> None:
    assert "short" in made(speech(2), 24000, encoders)[1][0]
    assert "clipped" in made(np.clip(speech(4) * 9, -1, 1), 24000, encoders)[1][0]
    assert "syllables" in made(speech(4), 24000, encoders, "这一段文字实在太长了" * 20)[1][0]
    assert made(speech(4), 24000, encoders, "你好，今天天气很好。")[1] == []


def test_packs_are_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    from cosycli.bundles import voices
    from cosycli.errors import ModelError

    arrays = {
        "tokens": np.arange(5, dtype=np.int32),
        "flow_tokens": np.arange(3, dtype=np.int32),
        "mel": np.zeros((6, 80), np.float32),
        "speaker": np.ones(192, np.float32),
    }
    path = tmp_path / f"me{voices.SUFFIX}"
    voices.write(path, voices.Pack("me", "你好", arrays, {"source": "x.wav"}))
    found = voices.read(path)
    assert (found.name, found.text, found.facts) == ("me", "你好", {"source": "x.wav"})
    assert all(np.array_equal(found.arrays[key], arrays[key]) for key in arrays)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    whole = path.read_bytes()
    for damaged in (b"", whole[:200], whole[:-30], whole.replace(b"mel.npy", b"mal.npy")):
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match="the voice me"):
            voices.read(path)
    voices.write(path, voices.Pack("me", "", {**arrays, "mel": np.zeros((5, 80), np.float32)}, {}))
    with pytest.raises(ModelError, match="fit together"):
        voices.read(path)


def test_a_releases_voices_are_taken_over() -> None:
    from cosycli.bundles import voices

    prompted = {
        "prompt_text": "你好",
        "llm_prompt_speech_token": np.arange(4)[None],
        "flow_prompt_speech_token": np.arange(4)[None],
        "prompt_speech_feat": np.zeros((1, 9, 80)),
        "flow_embedding": np.ones((1, 192)),
    }
    found = voices.of_release({"a": prompted, "b": {"embedding": np.ones((1, 192))}, "c": {}, "d": 3}, 192, 80)
    assert [pack.name for pack in found] == ["a", "b"]
    assert found[0].text == "你好"
    assert found[0].arrays["mel"].shape == (8, 80)
    assert found[1].arrays["tokens"].shape == (0,)
