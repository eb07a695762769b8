"""The vocoder against the official modules' samples, and its chunks against the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import checkpoints

from cosycli.backends.cosyvoice import noise
from cosycli.backends.cosyvoice.vocoder import Vocoder, _Overlapping
from cosycli.convert import hift


def made(folder: Path, version: int, weights: Any = None) -> Vocoder:
    settings = hift.build(folder, weights or checkpoints.tiny(version, "hift"), version)
    return Vocoder(folder, settings, noise_start=checkpoints.SINE_NOISE_3)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Vocoder:
    return made(tmp_path_factory.mktemp("vocoder"), 2)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Vocoder:
    return made(tmp_path_factory.mktemp("vocoder"), 3)


def mel(version: int) -> Any:
    return checkpoints.references(version)["hift_mel"][0].T


def apart(made: Any, wanted: Any) -> float:
    assert made.shape == wanted.shape
    return float(np.abs(made - wanted).max())


def in_chunks(vocoder: Vocoder, frames: Any, size: int) -> list[Any]:
    stream = vocoder.stream()
    starts = range(0, len(frames), size)
    return [stream.feed(frames[at : at + size], last=at + size >= len(frames)) for at in starts]


@pytest.mark.parametrize("version", [2, 3])
def test_the_pitch_is_the_official_one(version: int, two: Vocoder, three: Vocoder) -> None:
    vocoder = two if version == 2 else three
    given = np.pad(mel(version), ((0, vocoder.settings["f0_ahead"]), (0, 0))).T[None]
    tails = {} if version == 2 else zero_tails(vocoder)
    (f0,) = vocoder.sessions["f0"].run({"mel": given, **tails}, ["f0"])
    assert apart(f0, checkpoints.references(version)["hift_f0"][0]) < 1e-2  # of 180 Hz


def zero_tails(vocoder: Vocoder) -> dict[str, Any]:
    with vocoder.sessions["f0"].locked() as raw:
        return {i.name: np.zeros(i.shape, np.float32) for i in raw.get_inputs() if i.name.startswith("tail.")}


def test_version_3_is_the_official_speech(three: Vocoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The official phases are float32 and not within one cycle: they lose digits, which ours do not."""

    def rounded(self: Any, f0: Any) -> Any:
        turns = np.mod(f0[:, None] * np.arange(1, 10, dtype=np.float32) / 24000, 1).astype(np.float64)
        radians = np.cumsum(turns, axis=0).astype(np.float32) * np.float32(2 * np.pi) * np.float32(480)
        return radians.astype(np.float64) / (2 * np.pi)

    official = checkpoints.references(3)["hift_wav"][0]
    assert apart(three.stream().feed(mel(3), last=True), official) < 2e-3
    monkeypatch.setattr("cosycli.backends.cosyvoice.vocoder._Phase.follow", rounded)
    assert apart(three.stream().feed(mel(3), last=True), official) < 5e-4


def test_what_version_3_gives_early_is_the_official_speech(three: Vocoder) -> None:
    official = checkpoints.references(3)["hift_wav_prefix"][0]
    early = three.stream().feed(mel(3)[:30])
    assert len(early) >= len(official) == 480 * 22
    assert apart(early[: len(official)], official) < 1e-3


@pytest.mark.parametrize("size", [1, 3, 7, 25, 50])
def test_version_3_in_chunks_is_the_whole(three: Vocoder, size: int) -> None:
    frames = np.tile(mel(3), (3, 1))
    whole = three.stream().feed(frames, last=True)
    chunks = in_chunks(three, frames, size)
    assert len(whole) == 480 * len(frames)
    assert sum(len(chunk) > 0 for chunk in chunks) >= 4
    assert apart(np.concatenate(chunks), whole) < 1e-4


def test_an_end_without_frames_gives_the_rest(three: Vocoder) -> None:
    stream = three.stream()
    parts = [stream.feed(mel(3)), stream.feed(mel(3)[:0], last=True)]
    assert apart(np.concatenate(parts), checkpoints.references(3)["hift_wav"][0]) < 2e-3


def test_version_2_is_the_official_speech(two: Vocoder) -> None:
    known = checkpoints.references(2)
    stream = two.stream()
    assert isinstance(stream, _Overlapping)
    assert apart(stream.whole(mel(2), known["hift_source"][0, 0]), known["hift_wav"][0]) < 1e-3


def test_version_2s_source_is_the_official_one_but_for_the_noise(two: Vocoder) -> None:
    known = checkpoints.references(2)
    stream = two.stream(source_noise=lambda n: np.zeros((n, 9), np.float32))
    assert isinstance(stream, _Overlapping)
    assert np.sqrt(np.mean((stream._sourced(mel(2)) - known["hift_source"][0, 0]) ** 2)) < 0.01


def test_version_2_in_chunks_is_nearly_the_whole(two: Vocoder) -> None:
    frames = np.tile(mel(2), (3, 1))
    whole = two.stream(seed=1).feed(frames, last=True)
    spoken = np.concatenate(in_chunks(two, frames, 50))
    assert len(spoken) == len(whole) == 480 * len(frames)
    steps = np.abs(np.diff(spoken)).max() / np.abs(np.diff(whole)).max()
    assert steps < 1.5  # no click at a joint


def test_a_seed_gives_version_2_the_same_noise(two: Vocoder) -> None:
    first, again, other = (two.stream(seed=seed).feed(mel(2), last=True) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_noise_is_pytorchs() -> None:
    first = [-1.1258398, -1.1523602, -0.25057858, -0.43387884, 0.84871036]  # torch.manual_seed(0); torch.randn(16)
    assert np.allclose(noise.normal(1000)[:5], first, atol=1e-6)
    assert np.array_equal(noise.Uniform(100, 1000).take(50), checkpoints.uniform(100, 50))


def test_noise_begins_again_after_its_period() -> None:
    draws = noise.Uniform(7, 10)
    assert np.array_equal(draws.take(25), np.tile(checkpoints.uniform(7, 10), 3)[:25])
    assert np.array_equal(draws.take(5), checkpoints.uniform(7, 10)[5:])
