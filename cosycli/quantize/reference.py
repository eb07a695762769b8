"""The bundle as it is, in float32: what it says, what each graph is fed meanwhile, and how far a variant is from it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from cosycli.engine import Engine, sentences
from cosycli.errors import InferenceError
from cosycli.quantize import measures
from cosycli.quantize.calibrate import Feed, recorded
from cosycli.quantize.graphs import Array
from cosycli.runtime import Session, check_finite
from cosycli.types import Options

if TYPE_CHECKING:
    from cosycli.backends import Backend

SEED = 20  # of models that draw: both must draw alike
QUIET = 10 ** (-50 / 20)  # RMS under which a sentence counts as silent: -50 dBFS


@dataclass(frozen=True)
class Fidelity:
    """How near a variant is to the reference. `lsd` in dB, None where timing changed and waves cannot be compared;
    then `snr` is that of the graphs' own outputs on what the reference was fed.
    """

    snr: float
    lsd: float | None

    @property
    def timing_changed(self) -> bool:
        """Whether some sentence came out longer or shorter."""
        return self.lsd is None


class Reference:
    """An engine that spoke the calibration texts in float32. Opens the model and speaks when it is made."""

    def __init__(
        self, engine: Engine, calibration: Sequence[str], checks: Sequence[str], advance: Callable[[], None]
    ) -> None:
        self.backend: Backend = engine.open()
        self._voice = engine.voice()
        self._options = Options(seed=SEED)
        self._checks = checks
        with recorded(self.backend.sessions) as recorders:
            self._speak(calibration, advance)
        self.feeds: dict[str, list[Feed]] = {name: list(recorder.feeds) for name, recorder in recorders.items()}
        self.audio = self._speak(checks, advance)

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The float32 graphs by name."""
        return self.backend.sessions

    def _speak(self, texts: Iterable[str], advance: Callable[[], None] = lambda: None) -> list[Array]:
        spoken = []
        for text in texts:
            pieces = [
                piece.samples
                for sentence in sentences(text, self._options)
                if sentence.words
                for piece in self.backend.synthesize(sentence, self._voice, self._options)
            ]
            spoken.append(np.concatenate(pieces) if pieces else np.zeros(0, np.float32))
            advance()
        return spoken

    def heard(self, variants: Mapping[str, Session], texts: Sequence[str] | None = None) -> list[Array]:
        """What the check texts sound like with other graphs in these places. Raises InferenceError for samples that
        are not numbers.
        """
        with contextlib.ExitStack() as stack:
            for name, session in variants.items():
                stack.enter_context(self.sessions[name].played_by(session))
            audio = self._speak(texts or self._checks)
        for samples in audio:
            check_finite(samples, " and ".join(variants) or "the model")
        return audio

    def fidelity(self, variants: Mapping[str, Session], count: int | None = None) -> Fidelity:
        """How near the first `count` check texts, or all, come out with other graphs."""
        return self.compare(self.heard(variants, self._checks[:count]), variants)

    def compare(self, audio: Sequence[Array], variants: Mapping[str, Session]) -> Fidelity:
        """How near these recordings of the check texts are to the reference's."""
        pairs = list(zip(self.audio, audio, strict=False))
        if any(len(a) != len(b) for a, b in pairs):
            return Fidelity(min(self._output_snr(name, session) for name, session in variants.items()), None)
        snr = measures.snr(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
        return Fidelity(snr, float(np.mean([measures.log_spectral_distance(a, b) for a, b in pairs])))

    def _output_snr(self, name: str, session: Session) -> float:
        """Of a graph's outputs of floats, all feeds together."""
        ours, theirs = [], []
        for feed in self.feeds[name]:
            for a, b in zip(self.sessions[name].run(feed), session.run(feed, self.sessions[name].outputs), strict=True):
                if a.dtype.kind == "f" and a.shape == b.shape:
                    ours.append(a.astype(np.float64).ravel())
                    theirs.append(b.astype(np.float64).ravel())
        if not ours:
            return float("-inf")
        return measures.snr(np.concatenate(ours), np.concatenate(theirs))

    def slowdown(self, variants: Mapping[str, Session], rounds: int = 5) -> float:
        """How many times longer the check texts take with these graphs: the median of alternate rounds."""
        took: dict[bool, list[float]] = {False: [], True: []}
        for number in range(2 * rounds):
            changed = number % 4 in (1, 2)  # A B B A: a drift hits both alike
            started = time.perf_counter()
            self.heard(variants if changed else {})
            took[changed].append(time.perf_counter() - started)
        return median(took[True]) / median(took[False])


def check_sound(audio: Sequence[Array], rate: int) -> None:
    """Raise InferenceError where a recording is not numbers, or silent."""
    for samples in audio:
        check_finite(samples, "the quantised model")
        if len(samples) < rate // 20 or float(np.sqrt(np.mean(samples.astype(np.float64) ** 2))) < QUIET:
            raise InferenceError(
                "the quantised model is silent", "keep more layers in float: --keep 20, or a higher --min-snr"
            )
