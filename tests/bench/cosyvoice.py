"""What CosyVoice costs on this machine: python tests/bench/cosyvoice.py BUNDLE [--rounds 3] [--seconds 30]

BUNDLE is a converted release; one of random weights (tools/random_checkpoint.py) takes as long as a real one. The
language model is kept from ending a sentence, because random weights end it at once.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosycli.backends.cosyvoice import watch as backend_watch
from cosycli.backends.cosyvoice.backend import CosyVoice
from cosycli.backends.cosyvoice.lm import Decoding, Request
from cosycli.engine import Engine

TEXT = "今天的天气非常好，我们一起去公园里散步，看看湖边新开的花，然后在树下喝一杯茶。"


@dataclass(frozen=True)
class Fixed(Request):
    """A request for so many tokens, no more and no fewer."""

    tokens: int = 0

    def shortest(self) -> int:
        return self.tokens

    def longest(self) -> int:
        return self.tokens


def speak(backend: CosyVoice, voice: Any, steps: int, tokens: int) -> tuple[float, list[float]]:
    """Seconds to the first samples, and the times at which each piece was there."""
    prepared = backend.prepare(voice, steps)
    text = backend._tokenizer.encode(TEXT)
    request = Fixed(text, prepared.request.prompt_text, prepared.request.prompt_speech, tokens)
    started = time.perf_counter()
    stream = backend._stream(voice, steps, prepared.solved)
    backend_watch.PACE = 1000  # random tokens are no speech
    watch = backend_watch.Watch(len(text))
    drawn = backend._lm.generate(request, 1, prefix=prepared.prefix, strict=True, watch=watch)
    times = [
        time.perf_counter() - started for pcm in backend._attempt(drawn, watch, stream, 1, 1.0) if len(pcm.samples)
    ]
    return times[0], times


def lm(backend: CosyVoice) -> dict[str, float]:
    """Milliseconds a token from 160 positions on; 4 rows at once."""
    found, random = {}, np.random.default_rng(0)
    hidden = backend._lm.settings["hidden"]
    for rows in (1, 4):
        decoding = Decoding(backend._lm, rows, 256)
        decoding.feed(random.standard_normal((rows, 160, hidden), dtype=np.float32) * 0.5)
        times = []
        for _ in range(50):
            embeds = backend._lm.speech([1] * rows)[:, None]
            started = time.perf_counter()
            decoding.feed(embeds)
            times.append(time.perf_counter() - started)
        found[f"lm_ms_per_token_{rows}"] = 1000 * statistics.median(times) / rows
    return found


def parts(backend: CosyVoice, voice: Any, steps: int, chunks: int = 8) -> dict[str, float]:
    """Seconds of flow and of vocoder for a second of audio, in chunks of 25 tokens, the prompt solved."""
    stream, speech = backend._stream(voice, steps, backend.prepare(voice, steps).solved), backend._vocoder.stream()
    random = np.random.default_rng(0)
    stream.feed(random.integers(0, 6000, stream.wanted))
    flow, vocoder = [], []
    for _ in range(chunks):
        tokens = random.integers(0, 6000, 25)
        started = time.perf_counter()
        mel = stream.feed(tokens)
        middle = time.perf_counter()
        speech.feed(mel)
        flow.append(middle - started)
        vocoder.append(time.perf_counter() - middle)
    return {"flow_s_per_s": statistics.median(flow), "vocoder_s_per_s": statistics.median(vocoder[1:])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10, help="of audio, for real-time factors")
    parser.add_argument("--long", type=int, default=0, help="seconds of one long sentence, for memory and growth")
    asked = parser.parse_args()
    engine = Engine(asked.bundle, provider="cpu")
    backend: Any = engine.open()
    voice = engine.voice()
    rounds: list[dict[str, float]] = []
    for steps in (10, 6):
        speak(backend, voice, steps, 40)  # warm
    for _ in range(asked.rounds):
        found = {**lm(backend), **parts(backend, voice, 10)}
        for steps in (10, 6):
            first, times = speak(backend, voice, steps, 25 * asked.seconds)
            found[f"first_audio_{steps}"] = first
            found[f"real_time_factor_{steps}"] = times[-1] / asked.seconds
        rounds.append(found)
    result = {key: round(statistics.median(one[key] for one in rounds), 4) for key in rounds[0]}
    if asked.long:
        _, times = speak(backend, voice, 10, 25 * asked.long)
        costs = np.diff(times)
        result["last_chunk_vs_third"] = round(float(np.median(costs[-4:-1]) / np.median(costs[1:4])), 3)
    result["load_seconds"] = round(engine.timing.load_seconds if engine.timing else 0, 3)
    result["peak_gb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 3)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
