"""The values that pass between modules: frozen, except for what is still arriving, and free of the runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Samples = NDArray[np.float32]
else:
    Samples = Any  # so that the name can be imported without numpy

WordKind = Literal["zh", "en", "punct"]


@dataclass(frozen=True)
class Word:
    """One word or mark of a sentence and how it is pronounced.

    `sounds` holds, for "zh", one pinyin syllable a character with its tone digit after sandhi
    ("ni2", "hao3"; 5 is neutral; a merged 儿 is "huar1"); for "en", the word's phonemes in one
    string of International Phonetic Alphabet; for "punct", nothing.
    """

    text: str
    kind: WordKind
    sounds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sentence:
    """A piece of text that is synthesised in one go.

    `source` is the text as the user wrote it (cleaned), `text` as it is spoken (normalised);
    `pause` is the silence after it in seconds. Pieces cut from one source sentence share `group`.
    `more`: the rest of it, where it has not arrived yet.
    """

    text: str
    source: str
    words: tuple[Word, ...] = ()
    pause: float = 0.0
    group: int = 0
    more: More | None = field(default=None, compare=False, repr=False)

    def whole(self) -> Sentence:
        """With all that has arrived of it."""
        if self.more is None:
            return self
        return replace(self, text=self.text + self.more.text, source=self.source + self.more.source)


class More(Iterator[str]):
    """The rest of a sentence that is spoken while it arrives: yields what is to be said, and waits for it.

    What has been taken stays readable. `parts`: (text, source) as they arrive.
    """

    def __init__(self, parts: Iterator[tuple[str, str]]) -> None:
        self.text = self.source = ""
        self._parts = parts

    def __next__(self) -> str:
        text, source = next(self._parts)
        self.text += text
        self.source += source
        return text


@dataclass(frozen=True)
class TimedWord:
    """A word as spoken, with its start and end in seconds from the beginning of the audio."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Chunk:
    """A piece of audio: float32 mono samples in [-1, 1], and where it stands in the whole."""

    samples: Samples
    rate: int  # Hz
    start: float  # seconds from the beginning of the stream
    sentence: Sentence | None = None  # None for a pause between sentences
    words: tuple[TimedWord, ...] = ()  # words that start in this chunk
    last: bool = False  # the sentence ends with this chunk

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class Voice:
    """A speaker of a bundle: a name, facts to list, and arrays computed once."""

    name: str
    language: str  # BCP 47, "zh-CN" or "en-US"
    sex: Literal["female", "male", "unknown"]
    model: str
    licence: str
    arrays: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Options:
    """How to speak. `None` means that the bundle decides."""

    speed: float | None = None  # 0.5 to 2.0; 1.0 is the voice's own
    normalize: bool = True
    seed: int | None = None
    instruct: str | None = None  # how to say it, in words: "用四川话说这句话"
    steps: int | None = None  # of the flow's solver
    control: bool = False  # whether marks such as [breath] are followed, and not read
    strict: bool = False  # whether a sentence may not end before its shortest plausible length
