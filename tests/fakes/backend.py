"""A scripted voice: a sine a syllable, the same for the same text, at once; as a command, `python -m fakes.backend`.

What it is told to do stands in the text: 失败 fails in the model, 崩溃 is a bug, 无声 makes no sound at all.
COSY_FAKE_DELAY: seconds that each syllable takes.
"""

from __future__ import annotations

import os
import time
import zlib

import numpy as np

from cosycli import engine
from cosycli.backends import Pcm
from cosycli.errors import InferenceError
from cosycli.types import TimedWord

RATE = 24000
SYLLABLE = 0.2  # seconds


class Sines:
    """`loads` counts how often the model was opened, `said` keeps the sentences."""

    rate, precision = RATE, "test"

    def __init__(self, delay: float = 0.0) -> None:
        self.delay, self.loads, self.said = delay, 0, []

    def synthesize(self, sentence, voice, options):
        self.said.append(sentence.text)
        if "失败" in sentence.text:
            raise InferenceError("the graph failed", "try again")
        if "崩溃" in sentence.text:
            raise TypeError("a bug")
        syllables = [] if "无声" in sentence.text else [(w, s) for w in sentence.words for s in w.sounds]
        length = round(SYLLABLE * RATE / (options.speed or 1.0))
        for index, (word, sound) in enumerate(syllables):
            time.sleep(self.delay)
            start = index * length / RATE
            words = (TimedWord(word.text, start, start + length / RATE),) if sound == word.sounds[0] else ()
            yield Pcm(_tone(sound + voice.name, length), words, last=index == len(syllables) - 1)


def _tone(name, length):
    pitch = 100 + zlib.crc32(name.encode()) % 400
    return (0.3 * np.sin(2 * np.pi * pitch * np.arange(length) / RATE)).astype(np.float32)


def install(patch=setattr, delay=0.0):
    """Put the scripted voice in the model's place for every engine made from now on; returns it."""
    sines = Sines(delay)

    def load(self, rebuild):
        sines.loads += 1
        self.timing = engine.Timing(0.0, False)
        return sines

    patch(engine.Engine, "_load", load)
    patch(engine, "_process", None)
    return sines


if __name__ == "__main__":
    from cosycli import cli

    install(delay=float(os.environ.get("COSY_FAKE_DELAY", "0")))
    cli.main()
