"""How many syllables an independent recogniser hears wrong: 100 sentences, streamed.

    python tests/bench/recognition.py [--voice NAME] [--untouched] [--sentences N]

Pinyin without tones, by the tests' own ear (Whisper base). `--untouched` speaks with the published graph run whole.
About five minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import recogniser  # noqa: E402

from cosycli.backends.kokoro import symbols  # noqa: E402
from cosycli.backends.kokoro.weights import read_parts  # noqa: E402
from cosycli.engine import Engine, sentences  # noqa: E402
from cosycli.types import Options  # noqa: E402

RATE = 24_000


def untouched(voice: str | None):
    """A speaker that runs the published graph whole."""
    import onnxruntime as ort

    session = ort.InferenceSession(read_parts(), providers=["CPUExecutionProvider"])
    style = Engine().voice(voice).arrays["style"]

    def speak(text: str):
        words = [word for sentence in sentences(text, Options()) for word in sentence.words]
        ids, _ = symbols.tokens(words)
        feeds = {"tokens": np.array([[0, *ids, 0]]), "style": style[len(ids)][None], "speed": np.ones(1, np.float32)}
        return session.run(None, feeds)[0].reshape(-1)

    return speak


def streamed(voice: str | None):
    """A speaker that streams, as `cosy` does."""
    engine = Engine()
    return lambda text: np.concatenate([chunk.samples for chunk in engine.stream(text, voice=voice)])


def main() -> None:
    """Print each sentence with errors, and the rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice")
    parser.add_argument("--untouched", action="store_true")
    parser.add_argument("--sentences", type=int, default=100)
    arguments = parser.parse_args()
    lines = (ROOT / "tests/data/sentences-zh.txt").read_text("utf-8").splitlines()[: arguments.sentences]
    speak = (untouched if arguments.untouched else streamed)(arguments.voice)
    wrong = total = 0
    for line in lines:
        errors, units = recogniser.errors(line, speak(line), RATE)
        wrong, total = wrong + errors, total + units
        if errors:
            print(f"{errors} of {units}: {line}", flush=True)
    print(f"{wrong} of {total} syllables, {wrong / total:.2%}")


if __name__ == "__main__":
    main()
