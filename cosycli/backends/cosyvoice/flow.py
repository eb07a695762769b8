"""Speech tokens → mel spectrogram, block by block: each block of 50 frames is solved once, on caches of all before it.

Conditional flow matching with classifier-free guidance, as in CosyVoice 2 and 3 (@ ace7c47) with their block mask: a
frame sees its own block and all before it, counted from where the prompt begins. So blocks are exact (spec of the
mask: `static_chunk_size` 50), whatever comes after them. Knows no vocoder and no text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cosycli.backends.cosyvoice import ranges
from cosycli.backends.cosyvoice.state import Stateful
from cosycli.errors import InferenceError, UsageError

if TYPE_CHECKING:
    from cosycli.runtime import Session

Array = NDArray[Any]
Mel = NDArray[np.float32]

BLOCK = 25  # tokens that are solved together
STEPS = 10  # the official number of solver steps
PASSES = 4  # over a prompt at most, to find the ranges of its keys and values
GUIDANCE = 0.7  # the official strength of classifier-free guidance
ENCODER, PREPARE, STEP = "flow-encoder", "flow-prepare", "flow-step"
RANGES = "flow-ranges.npz"
UPSAMPLE = "flow-upsample"  # version 2's encoder works at two rates: what it is at 50 Hz


class Flow:
    """The flow of a bundle. Its streams may be used by many threads, one each."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], provider: str = "cpu") -> None:
        from cosycli.runtime import Session

        self.settings = settings
        self.sessions: dict[str, Session] = {
            name: Session(folder / f"{name}.onnx", provider=provider, mem_reuse=True)
            for name in (ENCODER, PREPARE, STEP, *[UPSAMPLE] * (settings["version"] == 2))
        }
        self.ahead: int = settings["ahead"]  # tokens that the encoder must see beyond a block
        self.rate: int = settings["rate"]  # frames a token
        self._embedding = np.load(folder / "flow-embedding.npy", mmap_mode="r")
        self._noise = np.load(folder / "flow-noise.npy", mmap_mode="r")
        self._table = np.load(folder / "flow-table.npy", mmap_mode="r")
        self._fractions = np.load(folder / "flow-fractions.npy")
        with np.load(folder / "flow-speaker.npz") as file:
            self._speaker = file["weight"], file["bias"]
        self.ranged: dict[str, Array] = {}  # what caches in int8 have their ranges from
        if (folder / RANGES).exists():
            with np.load(folder / RANGES) as file:
                self.ranged = dict(file)

    @property
    def limit(self) -> int:
        """The longest sequence in tokens, prompt included."""
        return len(self._noise) // self.rate

    def check_steps(self, steps: int) -> None:
        """Raise UsageError for a number of solver steps that the bundle has no table for."""
        if steps not in self.settings["steps"]:
            known = ", ".join(map(str, self.settings["steps"]))
            raise UsageError(f"there are no tables for {steps} solver steps", f"choose one of {known}")

    def stream(
        self,
        speaker: Array,
        prompt: Array | None = None,
        mel: Array | None = None,
        *,
        steps: int = STEPS,
        guidance: float = GUIDANCE,
        saved: Mapping[str, Array] | None = None,
        masked: bool = True,
    ) -> Stream:
        """A sequence that begins with a prompt, tokens [n] and mel [2n, 80]; `speaker` is the encoder's vector [192].

        `saved` is what another stream of the same prompt and options saved; `masked=False` solves all in one block,
        which cannot stream. Raises UsageError for a number of steps without a table.
        """
        self.check_steps(steps)
        return Stream(self, _solver_times(steps), guidance, self._spoken_by(speaker), prompt, mel, saved, masked)

    def _spoken_by(self, speaker: Array) -> Array:
        unit = speaker.reshape(-1) / max(float(np.linalg.norm(speaker)), 1e-12)
        weight, bias = self._speaker
        made: Array = (weight @ unit + bias).astype(np.float32)
        return made

    def embedded(self, tokens: Array) -> Array:
        """[n] → [1, n, channels]."""
        made: Array = self._embedding[np.maximum(tokens, 0)][None]
        return made

    def noise(self, start: int, end: int) -> Array:
        """The solver's start for frames of a sequence [1, end − start, channels]: the same for every sequence."""
        if end > len(self._noise):
            raise InferenceError(
                f"a sentence of more than {len(self._noise) // 50} s", "cut the text into shorter sentences"
            )
        made: Array = np.array(self._noise[start:end])[None]
        return made

    def row(self, fraction: float) -> Array:
        """The table's row for a time, given as the share of the solver's way."""
        made: Array = self._table[int(np.abs(self._fractions - fraction).argmin())]
        return made


def _solver_times(steps: int) -> list[tuple[float, float]]:
    """Each step's place on the way, and its length: a cosine schedule, summed in float32 as the official one is."""
    way = np.linspace(0, 1, steps + 1, dtype=np.float32)
    times = (1 - np.cos(way * np.float32(0.5 * np.pi))).astype(np.float32)
    lengths = []
    now, length = times[0], times[1] - times[0]
    for place in range(1, steps + 1):
        lengths.append(float(length))
        now = now + length
        if place < steps:
            length = times[place + 1] - now
    return [(place / steps, length) for place, length in enumerate(lengths)]


class Stream:
    """One sequence: tokens in, mel out. Not for two threads at once."""

    def __init__(
        self,
        flow: Flow,
        times: Sequence[tuple[float, float]],
        guidance: float,
        speaker: Array,
        prompt: Array | None,
        mel: Array | None,
        saved: Mapping[str, Array] | None,
        masked: bool,
    ) -> None:
        self._flow = flow
        self._times = times
        self._guidance = guidance
        rows = 2 if guidance else 1
        self._rows = rows
        self._speaker = np.zeros((rows, 1, len(speaker)), np.float32)
        self._speaker[0] = speaker
        self._masked = masked
        self._tokens = np.asarray(prompt if prompt is not None else [], np.int64).reshape(-1)
        self._prompt = np.zeros((0, len(speaker)), np.float32) if mel is None else np.asarray(mel, np.float32)
        if len(self._prompt) != len(self._tokens) * flow.rate:
            raise ValueError(f"{len(self._prompt)} frames of prompt for {len(self._tokens)} tokens")
        self._begin()
        # How far keys and values reach, at each step: at first what the weights say.
        self._reach: Sequence[Array] = [flow.ranged["reach"]] * len(times) if flow.ranged else []
        if saved is not None:
            self._restore(saved)
        self._ranges = [ranges.vector(flow.ranged, reach) for reach in self._reach]

    def _begin(self) -> None:
        """With nothing solved."""
        sessions, rows = self._flow.sessions, self._rows
        self._solved = 0  # tokens
        self._encoder = Stateful(sessions[ENCODER], 1)
        self._upsample = Stateful(sessions[UPSAMPLE], 1) if UPSAMPLE in sessions else None
        self._prepare = Stateful(sessions[PREPARE], rows)
        self._steps = [Stateful(sessions[STEP], rows) for _ in self._times]

    @property
    def tokens(self) -> int:
        """How many there are so far, prompt included."""
        return len(self._tokens)

    @property
    def wanted(self) -> int:
        """How many more tokens complete the next block that holds frames to be heard, look-ahead included."""
        heard = max(self._solved, len(self._prompt) // self._flow.rate)
        return (heard // BLOCK + 1) * BLOCK + self._flow.ahead - len(self._tokens)

    def feed(self, tokens: Sequence[int] | Array, *, last: bool = False) -> Mel:
        """Take more tokens, and solve what they complete: mel [frames, channels] after the prompt, maybe none.

        Raises InferenceError, also for a sequence longer than the noise.
        """
        self._tokens = np.concatenate([self._tokens, np.asarray(tokens, np.int64).reshape(-1)])
        solved = [np.zeros((0, self._speaker.shape[2]), np.float32)]
        while True:
            known = len(self._tokens) - (0 if last else self._flow.ahead)
            end = min((self._solved // BLOCK + 1) * BLOCK, len(self._tokens)) if self._masked else len(self._tokens)
            complete = end <= known and (last or (self._masked and end % BLOCK == 0))
            if not complete or end == self._solved:
                break
            solved.append(self._block(self._solved, end))
            self._solved = end
        return np.concatenate(solved)

    def _block(self, start: int, end: int) -> Mel:
        flow, rate = self._flow, self._flow.rate
        first, after = start * rate, end * rate
        mu = self._encoded(start, end)
        given = self._prompt[first:after]
        cond = np.zeros((1, after - first, mu.shape[2]), np.float32)
        cond[0, : len(given)] = given
        count = after - first
        speaker = np.repeat(self._speaker, count, axis=1)
        shared = self._prepare.run({"mu": self._both(mu), "cond": self._both(cond), "spk": speaker}, count)
        names = [name for name in flow.sessions[PREPARE].outputs if not name.endswith(".next")]
        inputs: dict[str, Array] = dict(zip(names, shared, strict=True))
        x = flow.noise(first, after)
        for place, ((fraction, length), step) in enumerate(zip(self._times, self._steps, strict=True)):
            own = {"ranges": self._ranges[place]} if self._ranges else {}
            (velocity,) = step.run({**inputs, **own, "x": x, "table": flow.row(fraction)}, count)
            guided = velocity[:1]
            if self._rows == 2:
                guided = (1 + self._guidance) * guided - self._guidance * velocity[1:]
            x = x + np.float32(length) * guided
        if not np.isfinite(x).all():
            raise InferenceError("the flow produced a mel that is not numbers", "convert the model again")
        made: Mel = x[0, max(len(self._prompt) - first, 0) :]
        return made

    def _both(self, conditioned: Array) -> Array:
        """With a second row of zeros, which is what guidance compares with."""
        return np.concatenate([conditioned, np.zeros_like(conditioned)])[: self._rows]

    def _encoded(self, start: int, end: int) -> Array:
        """Tokens → mu [1, frames, channels]. What would be seen beyond the last token is zeros."""
        embedded = self._flow.embedded(self._tokens[start : end + self._flow.ahead])
        missing = end - start + self._flow.ahead - embedded.shape[1]
        embedded = np.pad(embedded, ((0, 0), (0, missing), (0, 0)))
        (made,) = self._encoder.run({"embedded": embedded}, end - start)
        if self._upsample is not None:
            (made,) = self._upsample.run({"hidden": made}, (end - start) * self._flow.rate)
        return made

    def solve_prompt(self) -> None:
        """Solve the blocks that hold nothing but prompt: what `saved` is worth keeping for.

        Where caches have ranges, twice: what the first pass finds is in the ranges that the second, and all that
        follows, is kept in. More often where ranges were much too narrow.
        """
        self.feed([])
        narrow = bool(self._ranges and self._solved)
        for _ in range(PASSES * narrow):
            held = (step.saved() for step in self._steps)
            self._reach, found = zip(*map(ranges.measured, held, self._reach), strict=True)
            self._ranges = [ranges.vector(self._flow.ranged, reach) for reach in self._reach]
            self._begin()
            self.feed([])
            if not any(found):
                return

    def _parts(self) -> dict[str, Stateful]:
        parts = {"encoder": self._encoder, "prepare": self._prepare}
        if self._upsample is not None:
            parts["upsample"] = self._upsample
        return parts | {f"step{place}": step for place, step in enumerate(self._steps)}

    def saved(self) -> dict[str, Array]:
        """The state after the blocks solved so far, by name, to begin other streams of this prompt with."""
        parts = self._parts()
        kept = {f"{part}/{name}": value for part, state in parts.items() for name, value in state.saved().items()}
        reach = {f"reach{place}": value for place, value in enumerate(self._reach)}
        return {**kept, **reach, "solved": np.array(self._solved)}

    def _restore(self, saved: Mapping[str, Array]) -> None:
        self._solved = int(saved["solved"])
        self._reach = [saved[f"reach{place}"] for place in range(len(self._reach))]
        for part, state in self._parts().items():
            prefix = f"{part}/"
            state.restore({name.removeprefix(prefix): saved[name] for name in saved if name.startswith(prefix)})
