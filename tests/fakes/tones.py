"""A voice that hums each syllable, for tests of whole commands: pytest fixture `tones` puts it in the model's place."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from cosycli import engine
from cosycli.backends import Pcm
from cosycli.types import TimedWord

RATE = 24000
SYLLABLE = 0.2  # seconds of tone


class Tones:
    """Hums each syllable for 0.2 s. `fault(syllables so far)` may raise; `pulled` counts chunks, `loads` openings."""

    rate, precision = RATE, "test"

    def __init__(self, fault=lambda count: None, level=0.3):
        self.fault, self.level, self.pulled, self.loads = fault, level, 0, 0
        self.sessions = {}

    def synthesize(self, sentence, voice, options):
        said = [(word, sound) for word in sentence.words for sound in word.sounds]
        length = round(SYLLABLE * RATE / (options.speed or 1.0))
        tone = (self.level * np.sin(2 * np.pi * 200 * np.arange(length) / RATE)).astype(np.float32)
        for index, (word, sound) in enumerate(said):
            self.fault(self.pulled)
            self.pulled += 1
            start = index * length / RATE
            words = (TimedWord(word.text, start, start + length / RATE),) if sound == word.sounds[0] else ()
            yield Pcm(tone, words, last=index == len(said) - 1)


@pytest.fixture
def tones(monkeypatch):
    """The humming voice, in place of the model of whatever engine this process makes."""
    voice = Tones()

    def load(self, rebuild):
        voice.loads += 1
        self.timing = engine.Timing(0.0, False)
        return voice

    monkeypatch.setattr(engine.Engine, "_load", load)
    monkeypatch.setattr(engine, "_process", None)
    monkeypatch.setattr(sys, "stdin", None)
    return voice
