"""A voice that makes what it is told: for every word a tone that begins with a mark, silence around, in equal chunks.

`log` tells in order what was begun, made and closed; `sound` what a sentence must have sounded like.
"""

from __future__ import annotations

import threading

import numpy as np

from cosycli.backends import Pcm
from cosycli.bundles.embedded import default_voice
from cosycli.engine import Engine
from cosycli.errors import ModelError
from cosycli.types import TimedWord, Voice

RATE = 24000
MARK = np.float32(0.8)  # the first sample of every word


def spoken(sentence):
    """The sentence's words that sound."""
    return [word for word in sentence.words if word.kind != "punct"]


class ScriptedBackend:
    """What a family offers the engine. All lengths in seconds."""

    rate, precision = RATE, "scripted"

    def __init__(self, *, chunk=0.1, lead=0.3, tail=0.5, word=0.2, level=0.3, forget_last=False, change=None):
        self.chunk, self.lead, self.tail, self.word, self.level = chunk, lead, tail, word, level
        self.forget_last = forget_last
        self.change = change or (lambda index, samples: samples)  # called with every chunk before it goes out
        self.log, self.options, self.voices, self.lock = [], [], [], threading.Lock()

    def sound(self, sentence):
        """All samples of a sentence, silence included."""
        count = round(self.word * RATE)
        tone = np.where(np.arange(count) % 40 < 20, self.level, -self.level).astype(np.float32)
        if count:
            tone[0] = MARK
        quiet = [np.zeros(round(part * RATE), np.float32) for part in (self.lead, self.tail)]
        return np.concatenate([quiet[0], *[tone] * len(spoken(sentence)), quiet[1]])

    def words(self, sentence):
        """The words and where they stand in `sound`."""
        starts = [self.lead + index * self.word for index in range(len(spoken(sentence)))]
        return [TimedWord(w.text, s, s + self.word) for w, s in zip(spoken(sentence), starts, strict=True)]

    def note(self, event, sentence):
        with self.lock:
            self.log.append((event, sentence.text))

    def synthesize(self, sentence, voice, options):
        self.options.append(options)
        self.voices.append(voice.name)
        self.note("begun", sentence)
        try:
            samples, size = self.sound(sentence), round(self.chunk * RATE)
            for index, at in enumerate(range(0, len(samples), size)):
                piece = self.change(index, samples[at : at + size])
                inside = [w for w in self.words(sentence) if at <= round(w.start * RATE) < at + size]
                self.note("made", sentence)
                last = at + size >= len(samples) and not self.forget_last
                yield Pcm(piece, tuple(inside), last=last)
        finally:
            self.note("closed", sentence)


class ScriptedFamily:
    """A family with two voices; `failures` loads fail first."""

    def __init__(self, backend, failures=0):
        self.backend, self.failures, self.loads = backend, failures, 0

    def load(self, folder, provider="cpu", precision=None):
        self.loads += 1
        if self.loads <= self.failures:
            raise ModelError("a graph is damaged", "mend it")
        return self.backend

    SOUNDS, OPTIONS = True, frozenset({"seed"})

    def default_voice(self, folder=None):
        return default_voice()

    def voices(self, folder=None):
        return tuple(Voice(name, "zh-CN", "female", "kokoro", "CC0") for name in (default_voice(), "other"))

    def voice(self, folder, name):
        for voice in self.voices():
            if voice.name == name:
                return voice
        raise ModelError(f"there is no voice {name!r}", "`cosy voices` lists them")


class ScriptedEngine(Engine):
    """The real engine over a scripted family; nothing is assembled, `loads` counts how often the model was opened."""

    def __init__(self, backend=None, **script):
        super().__init__()
        self.backend = backend or ScriptedBackend(**script)
        self.scripted = ScriptedFamily(self.backend)
        self.loads = 0

    @property
    def family(self):
        return self.scripted

    def _load(self, rebuild):
        self.loads += 1
        return self.scripted.load(None)
