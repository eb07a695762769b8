"""Norm statistics for the sentence at hand, predicted from what the encoder says before anything is decoded.

The decoder's norms were made to average over the whole sentence. Frozen to a voice's averages they let it stream,
but the voice's style changes with the number of tokens, and the statistics with it: two characters frozen to the
averages of long sentences were silent. A curve per voice along its style and a small linear map shared by the
voices (fitted by `tools/calibrate.py`) recover most of the difference. It knows no graph, runtime or text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import IO, TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

EPSILON = 1e-5  # the norms' own, inside their square root
VOICED = 10.0  # Hz; the model's threshold between a pitch and none
SCALARS = 9  # numbers in a description before the averages of the text features
# Bounds outside of which a prediction is not believed. Calibration sentences, from 5 to 334 tokens and at
# speeds from 0.5 to 2, stay inside; the text of a user need not.
# A question whose last mark was held seven deviations longer than usual once came out as noise.
MOST_UNUSUAL = 2.5  # standard deviations of an input
MOST_SCORE = 2.0  # standard deviations of a component
MOST_SHIFT = 1.5  # standard deviations of a channel
LEAST_RATIO, MOST_RATIO = 0.3, 3.0  # of a channel's variance to the voice's average


@dataclass(frozen=True)
class Predictor:
    """The linear map the voices share: description → components → deviations of every channel."""

    spread: Floats  # [described], each input's standard deviation about its voice's centre
    weights: Floats  # [described, components]
    scores: Floats  # [components], each one's standard deviation
    basis: NDArray[np.int8]  # [components, 2, channels]
    step: Floats  # [components, 2], value of one unit of `basis`


@cache
def shared() -> Predictor:
    """The package's predictor, read once."""
    with resources.files("cosycli").joinpath("data", "predictor.npz").open("rb") as file:
        return load(file)


def load(file: IO[bytes]) -> Predictor:
    """Read what `tools/calibrate.py` wrote."""
    with np.load(file) as data:
        return Predictor(*(data[field.name] for field in fields(Predictor)))


def describe(features: Floats, f0: Floats, energy: Floats, frames: Floats, speed: float = 1.0) -> Floats:
    """What the prediction looks at: `features` [512, T], `f0` and `energy` [2T], `frames` of each token [n + 2]."""
    total = features.shape[1]
    lead, tail = int(frames[0]), int(frames[-1])
    voiced = f0 > VOICED
    pitch = np.log(f0[voiced]) if voiced.any() else np.zeros(1, np.float32)
    spoken = energy[2 * lead : len(energy) - 2 * tail]
    scalars = [
        1.0 / (total * speed),  # as long as it would be at the voice's own speed
        (lead + tail) / total,
        voiced.mean(),
        pitch.mean() * voiced.mean(),
        pitch.std(),
        energy.mean(),
        np.square(energy).mean(),
        spoken.mean() if len(spoken) else energy.mean(),
        (len(frames) - 2) / total,
    ]
    return np.concatenate([np.asarray(scalars, np.float32), features.mean(axis=1, dtype=np.float32)])


def statistics(
    voice: Mapping[str, Any],
    features: Floats,
    f0: Floats,
    energy: Floats,
    durations: Floats | None = None,
    speed: float = 1.0,
) -> tuple[Floats, Floats]:
    """Mean and variance [18698] of every norm's channels for one sentence, from the encoder's outputs.

    Without `durations` nothing can be said about the sentence, and the voice's averages are used.
    """
    if durations is None:
        return voice["mean"], voice["var"]
    described = describe(features[0], f0.reshape(-1), energy.reshape(-1), durations.reshape(-1), speed)
    mean, var = predict(voice, shared(), described, durations.size - 2)
    # The first norm's first channels are the text features themselves: no need to guess.
    count = features.shape[1]
    mean[:count] = features[0].mean(axis=1)
    var[:count] = features[0].var(axis=1)
    return mean, var


def predict(voice: Mapping[str, Any], predictor: Predictor, described: Floats, tokens: int) -> tuple[Floats, Floats]:
    """The voice's own averages, moved by what is particular about the sentence and no further than the bounds."""
    moved = along(voice, tokens) + _particular(voice, predictor, described)
    shift = np.clip(moved[0], -MOST_SHIFT, MOST_SHIFT)
    spread = voice["var"] + np.float32(EPSILON)
    # Relative variance, not its logarithm: a sentence's average in the logarithm is lower than the variance that
    # its frames have together, and all channels err in the same direction, which is heard.
    ratio = np.clip(1.0 + moved[1], LEAST_RATIO, MOST_RATIO)
    var = np.maximum(spread * ratio - np.float32(EPSILON), 0.0)
    return voice["mean"] + shift * np.sqrt(spread), var.astype(np.float32)


def along(voice: Mapping[str, Any], tokens: int) -> Floats:
    """Deviations [2, channels] that a style row brings: `path` [rows, 2] places it on a parabola."""
    place = voice["path"][min(tokens, len(voice["path"]) - 1)]
    deviations: Floats = np.tensordot(place, voice["curve"].astype(np.float32), 1)
    return deviations


def _particular(voice: Mapping[str, Any], predictor: Predictor, described: Floats) -> Floats:
    """Deviations [2, channels] by what the sentence says: components of its distance from the voice's average one."""
    usual = MOST_UNUSUAL * predictor.spread
    scores = np.clip(described - voice["centre"], -usual, usual) @ predictor.weights
    scores = np.clip(scores, -MOST_SCORE * predictor.scores, MOST_SCORE * predictor.scores)
    halves = [(scores * predictor.step[:, half]) @ predictor.basis[:, half].astype(np.float32) for half in (0, 1)]
    return np.stack(halves)
