"""Long runs in one process: memory that must not grow, threads that must not disturb each other.

    python tests/soak/soak.py [--sentences 1000] [--threads 8] [--provider cpu]

Prints one line of JSON; exit 1 if memory after the last sentence is more than 5 % above that after the 50th, or if
threads make other samples than one after the other. About 12 minutes on 2 cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cosycli.engine import Engine

ROOT = Path(__file__).resolve().parents[2]
EARLY = 50
ALLOWED = 1.05


def texts(count: int) -> list[str]:
    """Texts of 1 to 90 characters, numbers, English and other voices' scripts among them; the same ones each time."""
    lines = (ROOT / "tests/data/sentences-zh.txt").read_text("utf-8").splitlines()
    joined, chance = "".join(lines), random.Random(7)
    made = []
    for number in range(count):
        at, size = chance.randrange(len(joined) - 90), chance.choice((1, 3, 8, 15, 15, 30, 90))
        extra = chance.choice(("", "", f"，共{chance.randrange(10**6)}个", ", hello world", f" {chance.random():.3f}%"))
        made.append(f"{joined[at : at + size]}{extra}。" if number % 40 else f"{'啊' * (number % 7 + 1)}！")
    return made


def resident_mb() -> float:
    """What the process holds now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1000


def digest(engine: Engine, text: str) -> str:
    """SHA-256 of a text's samples."""
    seen = hashlib.sha256()
    for chunk in engine.stream(text):
        seen.update(chunk.samples.tobytes())
    return seen.hexdigest()


def grown(engine: Engine, count: int) -> tuple[float, float]:
    """Memory after the 50th sentence and after the last."""
    early = 0.0
    for number, text in enumerate(texts(count), 1):
        digest(engine, text)
        if number == EARLY:
            early = resident_mb()
        if number % 100 == 0:
            print(f"{number}: {resident_mb():.0f} MB", file=sys.stderr, flush=True)
    return early, resident_mb()


def main() -> int:
    """Run both, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--provider", default="auto")
    arguments = parser.parse_args()
    engine = Engine(provider=arguments.provider)
    early, late = grown(engine, max(EARLY, arguments.sentences))
    some = texts(EARLY)[:16]
    alone = [digest(engine, text) for text in some]
    with ThreadPoolExecutor(arguments.threads) as pool:
        together = list(pool.map(lambda text: digest(engine, text), some))
    fine = late <= ALLOWED * early and alone == together
    result = {"ok": fine, "after_50_mb": early, "after_last_mb": late, "threads_equal": alone == together}
    print(json.dumps(result))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
