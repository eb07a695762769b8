"""Edges, peak guard, fade and conversion: right values, and the same ones however the stream is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measures import edges, rms_db, seam, speech_like

from cosycli.audio.join import Edges, FadeOut, SentenceShaper, fade_out, limit, silence, to_int16
from cosycli.errors import InferenceError

RATE = 24000


def clip(lead=0.4, sound=0.8, tail=0.9, seed=0):
    """What a model gives: speech between stretches of near silence."""
    noise = np.random.default_rng(seed).standard_normal
    quiet = [(0.0005 * noise(round(part * RATE))).astype(np.float32) for part in (lead, tail)]
    return np.concatenate((quiet[0], speech_like(sound, RATE, seed), quiet[1]))


def through(stage, samples, cuts):
    """Feed `samples`, cut at `cuts`, through a stage and join what comes out."""
    pieces = [stage.push(piece) for piece in np.split(samples, sorted(cuts))]
    return np.concatenate([*pieces, stage.finish()])


cuts_of = st.lists(st.integers(0, len(clip())), max_size=30)


@settings(max_examples=60, deadline=None)
@given(cuts=cuts_of, gap=st.integers(0, 30000), seed=st.integers(0, 5))
def test_shaping_does_not_depend_on_how_the_stream_is_cut(cuts, gap, seed):
    """Streamed equals whole, bit for bit, a long pause inside the sentence included."""
    whole = np.concatenate((clip(seed=seed), np.zeros(gap, np.float32), clip(seed=seed + 1)))
    whole *= np.float32(1.3)
    for stage in (Edges, FadeOut, SentenceShaper):
        assert np.array_equal(through(stage(RATE), whole, cuts), through(stage(RATE), whole, []))


@settings(max_examples=40, deadline=None)
@given(cuts=cuts_of, lead=st.floats(0, 1), tail=st.floats(0, 1.5))
def test_silence_at_the_edges_is_trimmed(cuts, lead, tail):
    """At most 0.2 s before the first and 0.35 s after the last syllable, with nothing of the speech lost."""
    whole = clip(lead=lead, tail=tail)
    trimmer = Edges(RATE)
    kept = through(trimmer, whole, cuts)
    before, after = edges(kept, RATE)
    assert before <= 0.2
    assert after <= 0.35
    loud = np.flatnonzero(np.abs(whole) > 0.01)
    assert trimmer.skipped <= loud[0]
    assert np.array_equal(kept, whole[trimmer.skipped : trimmer.skipped + len(kept)])
    assert trimmer.skipped + len(kept) > loud[-1]


def test_a_pause_inside_a_sentence_is_kept_whole():
    """Only the ends are trimmed: a second of silence between two words stays a second."""
    word = speech_like(0.3, RATE)
    whole = np.concatenate((word, silence(1.0, RATE), word))
    assert np.array_equal(through(Edges(RATE), whole, [100, 9000, 20000]), whole)


def test_sound_is_let_out_as_soon_as_it_comes():
    """Trimming must not cost latency: what sounds passes in the same call, all of it."""
    trimmer = Edges(RATE)
    voiced = speech_like(0.5, RATE)
    assert len(trimmer.push(voiced)) == len(voiced)
    assert len(trimmer.push(silence(2.0, RATE))) == int(0.25 * RATE)


def test_nothing_but_silence_leaves_nothing():
    """A sentence in which nothing sounds gives no samples (the sink then reports it, CL-09)."""
    shaper = SentenceShaper(RATE)
    assert len(through(shaper, silence(3.0, RATE), [5, 40000])) == 0


def test_shaper_tells_how_far_word_times_move():
    """The seconds cut off in front are known when the first sound comes out."""
    shaper = SentenceShaper(RATE)
    whole = np.concatenate((silence(0.5, RATE), np.full(RATE, 0.5, np.float32)))
    shaper.push(whole)
    assert shaper.skipped == pytest.approx(0.5 - 0.12)


@pytest.mark.parametrize("seed", range(20))
def test_the_end_is_faded_also_when_generation_is_cut(seed):
    """ST-01, ST-04. A token cap ended the audio mid-vowel and it popped; 20 cuts at loud places must not."""
    whole = speech_like(1.0, RATE, seed)
    whole *= 0.98 / np.abs(whole).max()
    loud = np.flatnonzero(np.abs(whole) > 0.5)
    cut = whole[: loud[len(loud) // 2] + seed]
    out = through(FadeOut(RATE), cut, [1000, len(cut) - 30])
    assert len(out) == len(cut)
    assert np.array_equal(out[:-120], cut[:-120])
    assert np.abs(out[-24:]).max() <= 0.01
    assert abs(out[-1]) <= 0.002
    assert seam(np.concatenate((out, np.zeros(2400, np.float32))), len(out), RATE) <= 1.0
    assert seam(out, len(out) - 120, RATE) <= 1.0


def test_twenty_joints_of_faded_pieces_do_not_click():
    """ST-02: faded pieces with set pauses between them, at 24 joints."""
    joints, parts, length = [], [], 0
    for seed in range(24):
        piece = through(SentenceShaper(RATE), clip(seed=seed), [7777])
        parts += [piece, silence(0.2, RATE)]
        length += len(piece)
        joints.append(length)
        length += len(parts[-1])
    sound = np.concatenate(parts)
    assert max(seam(sound, at, RATE) for at in joints) <= 1.0
    assert all(rms_db(part[-1440:]) <= -45 for part in parts[::2])


def test_a_fade_longer_than_the_samples_still_ends_at_zero():
    """Three samples are all there is: the last is zero, none grows."""
    assert fade_out(np.ones(3, np.float32), RATE)[-1] == 0
    assert len(fade_out(np.zeros(0, np.float32), RATE)) == 0


@given(st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=200))
def test_peaks_stay_under_099_and_quiet_sound_is_untouched(values):
    """ST-15: no clipping, constant gain: below 0.9 every bit is as before, above it order is kept."""
    samples = np.array(values, np.float32)
    out = limit(samples)
    assert np.abs(out).max() < 0.99
    quiet = np.abs(samples) <= 0.9
    assert np.array_equal(out[quiet], samples[quiet])
    order = np.argsort(samples, kind="stable")
    assert np.all(np.diff(out[order]) >= 0)


def test_a_loud_passage_does_not_stick_at_full_scale():
    """ST-15: at most three samples in a row at the top, where hard clipping gave whole plateaus."""
    wave = (2.0 * np.sin(np.linspace(0, 300, RATE))).astype(np.float32)
    top = np.abs(to_int16(limit(wave))) >= 32767
    assert not top.any()


@given(st.lists(st.floats(-1.5, 1.5, width=32), max_size=100))
def test_int16_rounds_half_away_and_clips(values):
    """The one conversion: symmetric, nearest, within range."""
    samples = np.array(values, np.float32)
    out = to_int16(samples)
    exact = np.clip(samples.astype(np.float64) * 32767, -32768, 32767)
    assert np.all(np.abs(out - exact) <= 0.5)
    small = np.abs(samples) <= 1
    assert np.array_equal(to_int16(-samples)[small], -out[small])


def test_int16_halves_go_away_from_zero():
    """0.5 of a step becomes 1, -0.5 becomes -1: numpy's own rounding gives 0 for both."""
    half = np.array([0.5, -0.5, 1.5, -2.5]) / 32767
    assert to_int16(half).tolist() == [1, -1, 2, -3]


def test_not_a_number_is_an_error_not_a_click():
    """OR-10: a broken graph's NaN became silence or noise in a file, with exit 0."""
    with pytest.raises(InferenceError):
        to_int16(np.array([0.1, np.nan], np.float32))


@pytest.mark.parametrize(("seconds", "count"), [(0.25, 6000), (0, 0), (-1, 0)])
def test_silence_has_the_asked_length(seconds, count):
    """Pauses are set, not accidental."""
    assert len(silence(seconds, RATE)) == count


@pytest.mark.parametrize("cuts", [[], [100], [500, 900, 2000], list(range(50, 4000, 50))])
def test_too_little_silence_in_front_is_made_up_for(cuts):
    """The pause between two sentences was up to 75 ms shorter than it was set: each brought another silence along."""
    sound = np.full(4000, 0.5, np.float32)
    sound[:1000] = 0
    trimmer = Edges(RATE, 0.1, 0.0, exact=True)
    out = through(trimmer, sound, cuts)
    assert np.flatnonzero(out)[0] == round(0.1 * RATE)
    assert trimmer.skipped == 1000 - round(0.1 * RATE)
