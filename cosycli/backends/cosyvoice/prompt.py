"""A recording → what a voice is: speech tokens, mel and speaker vector, made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosycli.errors import UsageError

if TYPE_CHECKING:
    from cosycli.runtime import Session

Array = NDArray[Any]

LONGEST, SHORTEST = 30.0, 1.0  # seconds: the speech tokenizer takes no more; less says nothing of a voice
ENOUGH = 3.0  # seconds from which on a voice is recognised
LOWEST_RATE, FULL_RATE = 16_000, 24_000  # Hz
SILENT = 10 ** (-50 / 20)  # peak below which a recording is no speech
CLIPPED = 0.001  # share of samples at full scale
EDGE = 10 ** (-45 / 20)  # of the peak: what is quieter at the ends is cut
MARGIN = 0.1  # seconds of it that stay
SLOWEST, FASTEST = 1.0, 12.0  # syllables a second: beyond, the transcript is of something else
# Of a prompt of 25 k + 15 tokens the last block begins with 15, so that 10 spoken tokens complete it.
BLOCK, EARLY = 25, 15


@dataclass(frozen=True)
class Prompt:
    """What a voice consists of. The flow's prompt may be shorter than the language model's, by its beginning."""

    tokens: Array  # int32 [n], 25 a second: of the whole recording
    flow_tokens: Array  # int32 [m]
    mel: Array  # float32 [2 m, 80]
    speaker: Array  # float32 [192]
    text: str = ""  # what is said in it; empty where nobody knows


def make(
    samples: Array,
    rate: int,
    text: str,
    speech_tokenizer: Session,
    speaker_encoder: Session,
    fmax: float | None,
    tell: Callable[[str], None] = lambda line: None,
) -> Prompt:
    """A prompt of samples [n] or [n, channels] in [−1, 1]. `tell` hears what may harm the voice.

    Raises UsageError for a recording that cannot be used, InferenceError.
    """
    from cosycli.audio import features

    samples = checked(samples, rate, tell)
    if text:
        _compare(text, len(samples) / rate, tell)
    slow, fast = features.resample(samples, rate, LOWEST_RATE), features.resample(samples, rate, FULL_RATE)
    tokens = spoken_tokens(slow, speech_tokenizer)
    speaker = _first(speaker_encoder, [features.kaldi_fbank(slow)[None]]).reshape(-1)
    mel = features.flow_mel(fast, fmax)
    count = min(len(mel) // 2, len(tokens))
    tokens, mel = tokens[:count], mel[: 2 * count]
    start = (count - EARLY) % BLOCK if count >= EARLY else 0
    return Prompt(tokens, tokens[start:], mel[2 * start :], speaker.astype(np.float32), text)


def spoken_tokens(samples: Array, speech_tokenizer: Session) -> Array:
    """The speech tokens int32 [n], 25 a second, of 16 kHz samples."""
    from cosycli.audio import features

    mel = features.whisper_mel(samples)
    made: Array = _first(speech_tokenizer, [mel[None], np.array([mel.shape[1]], np.int32)]).reshape(-1)
    return made.astype(np.int32)


def _first(session: Session, inputs: list[Array]) -> Array:
    """A graph's first output; the inputs in its own order, because their names are nowhere fixed."""
    with session.locked() as raw:
        names = [value.name for value in raw.get_inputs()]
    made: Array = session.run(dict(zip(names, inputs, strict=True)))[0]
    return made


def checked(samples: Array, rate: int, tell: Callable[[str], None]) -> Array:
    """One channel, without silent ends. Raises UsageError for what is too long, too short, silent or of a low rate."""
    samples = np.asarray(samples, np.float32)
    if samples.ndim == 2:
        samples = samples.mean(axis=1)
    if rate < LOWEST_RATE:
        raise UsageError(
            f"the recording has {rate} Hz, and a voice needs 16000", "record it again, at 24000 Hz or more"
        )
    if not np.isfinite(samples).all():
        raise UsageError("the recording holds samples that are not numbers", "convert it to 16-bit WAV")
    peak = float(np.abs(samples).max(initial=0))
    if peak < SILENT:
        raise UsageError("the recording is silent", "give one in which somebody speaks")
    loud = np.flatnonzero(np.abs(samples) > peak * EDGE)
    margin = int(MARGIN * rate)
    samples = samples[max(loud[0] - margin, 0) : loud[-1] + margin]
    seconds = len(samples) / rate
    if seconds > LONGEST:
        raise UsageError(f"the recording is {seconds:.1f} s long, and 30 s is the limit", "cut 3 to 10 s out of it")
    if seconds < SHORTEST:
        raise UsageError(f"the recording holds {seconds:.1f} s of sound, too little", "give 3 to 10 s of speech")
    if seconds < ENOUGH:
        tell(f"{seconds:.1f} s is short: a voice is better recognised from 3 to 10 s")
    if rate < FULL_RATE:
        tell(f"the recording has {rate} Hz: what the voice has above {rate // 2} Hz is missing")
    if np.mean(np.abs(samples) >= 0.999) > CLIPPED:
        tell("the recording is clipped, and the voice will sound so")
    return samples


def _compare(text: str, seconds: float, tell: Callable[[str], None]) -> None:
    syllables = len([c for c in text if "\u3040" <= c <= "\u9fff" or "\uac00" <= c <= "\ud7a3"])
    syllables += sum(max(1, round(len(word) / 3)) for word in text.split() if word.isascii() and word.isalpha())
    pace = syllables / seconds
    if syllables and not SLOWEST <= pace <= FASTEST:
        tell(f"{pace:.1f} syllables a second: is the transcript that of this recording?")
