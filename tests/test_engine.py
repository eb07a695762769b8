"""The engine over a scripted voice: order, times, pauses, pulling, closing, edges and fades, errors, threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fakes.scripted import MARK, RATE, ScriptedBackend, ScriptedEngine, ScriptedFamily
from measures import rms_db

from cosycli import engine as engine_module
from cosycli.bundles import embedded
from cosycli.engine import CLAUSE_TAIL, LEAD, SENTENCE_TAIL, Engine, get_engine, sentences
from cosycli.errors import InferenceError, ModelError, UsageError
from cosycli.types import Options

TEXT = "今天天气很好。我们去公园散步！The cat sat on the mat. 你吃饭了吗？"


def joined(chunks):
    """All samples of a stream."""
    return np.concatenate([chunk.samples for chunk in chunks])


def gaps(samples):
    """Seconds of silence between sounds; a scripted word has none inside."""
    sounding = np.flatnonzero(np.abs(samples) > 0.01)
    steps = np.diff(sounding)
    return [float(step - 1) / RATE for step in steps if step > 200]


def edges_of(samples):
    """Seconds of silence before the first and after the last sound."""
    sounding = np.flatnonzero(np.abs(samples) > 0.01)
    return sounding[0] / RATE, (len(samples) - 1 - sounding[-1]) / RATE


# Order, times, words


def test_sentences_come_in_order_and_none_is_lost():
    """Every sentence once, as it was written, each ending in exactly one chunk marked `last`."""
    chunks = list(ScriptedEngine().stream(TEXT))
    expected = [sentence.text for sentence in sentences(TEXT, Options())]
    assert len(expected) == 4
    assert [chunk.sentence.text for chunk in chunks if chunk.last] == expected
    order = [chunk.sentence.text for chunk in chunks if chunk.sentence]
    assert order == sorted(order, key=expected.index)
    assert all(chunk.samples.dtype == np.float32 and chunk.rate == RATE for chunk in chunks)


def test_every_chunk_knows_its_place():
    """Starts are the sum of the samples before, pauses included, to the sample: nothing drifts over a book."""
    chunks = list(ScriptedEngine(chunk=0.0777).stream(TEXT * 30))
    position = 0
    for chunk in chunks:
        assert chunk.start == position / RATE
        position += len(chunk.samples)
    assert position > RATE * 100


@pytest.mark.parametrize("chunk", [0.01, 0.0333, 0.1, 5.0])
@pytest.mark.parametrize("lead", [0.0, 0.05, 0.7])
def test_words_have_the_times_at_which_they_sound(chunk, lead):
    """Subtitles ran ahead by the silence that was cut off in front; every word must stand where its tone begins."""
    chunks = list(ScriptedEngine(chunk=chunk, lead=lead).stream(TEXT))
    marks = np.flatnonzero(joined(chunks) == MARK)
    words = [word for chunk in chunks for word in chunk.words]
    texts = [word.text for sentence in sentences(TEXT, Options()) for word in sentence.words if word.kind != "punct"]
    assert [word.text for word in words] == texts
    assert [round(word.start * RATE) for word in words] == marks.tolist()
    assert [round((word.end - word.start) * RATE) for word in words] == [round(0.2 * RATE)] * len(words)


def test_words_come_no_later_than_they_sound():
    """A chunk carries the words that start in it, so that whoever follows along is never late."""
    for chunk in ScriptedEngine(chunk=0.05).stream(TEXT):
        for word in chunk.words:
            assert word.start >= chunk.start - 0.011  # 5 ms are held back for the fade
            assert word.start < chunk.start + chunk.seconds + 0.011


def test_the_chunks_sizes_do_not_change_the_sound():
    """Streamed equals whole, bit for bit, whatever the voice's chunks."""
    whole = joined(ScriptedEngine(chunk=1000.0).stream(TEXT))
    for chunk in (0.003, 0.05, 0.31):
        assert np.array_equal(joined(ScriptedEngine(chunk=chunk).stream(TEXT)), whole)


# Pauses and edges


@pytest.mark.parametrize(
    ("text", "pause"),
    [
        ("你好。再见。", SENTENCE_TAIL + LEAD),
        ("Hello there. Good bye.", SENTENCE_TAIL + LEAD),
        ("你好。\n\n再见。", 0.6),
        ("# 你好\n再见。", 0.7),
        ('你好。<break time="500ms"/>再见。', 0.5),
        ('你好，<break time="1.5s"/>再见。', 1.5),
        ('你好。<break time="400ms"/><break time="400ms"/>再见。', 0.8),
        ('你好。<break time="2s"/>\n\n再见。', 2.0),
        ('你好<break time="700ms"/>再见', 0.7),
    ],
)
def test_the_silence_between_two_sentences_is_set(text, pause):
    """Gaps are what the text asks for, not what the voice happens to leave before and after."""
    for lead, tail in ((0.1, 0.25), (0.4, 1.1), (2.0, 0.3)):
        assert gaps(joined(ScriptedEngine(lead=lead, tail=tail).stream(text))) == pytest.approx([pause], abs=2 / RATE)


@pytest.mark.parametrize("pause", [0.5, 0.8, 3.0])
def test_a_break_that_arrives_late_is_as_long_as_one_that_was_there(pause):
    """From a pipe the tag came after its sentence had gone, and the pause was 50 ms too long."""
    tag = f'<break time="{round(pause * 1000)}ms"/>'
    for pieces in (["你好。", tag + "再见。"], ["你好。" + tag, "再见。"], [*f"你好。{tag}再见。"]):
        assert gaps(joined(ScriptedEngine().stream(pieces))) == pytest.approx([pause], abs=2 / RATE)


def test_pauses_are_chunks_of_their_own_without_a_sentence():
    """Silence between sentences belongs to none, so that subtitles end where speech does."""
    chunks = list(ScriptedEngine().stream('你好。<break time="2s"/>再见。'))
    (pause,) = (chunk for chunk in chunks if chunk.sentence is None)
    assert not pause.samples.any()
    assert not pause.words
    assert not pause.last


def test_a_break_that_ends_the_text_is_kept_and_layout_is_not():
    """Silence asked for is given, in front and behind; a heading or paragraph at the end adds none (0.35 s at most)."""
    before, after = edges_of(joined(ScriptedEngine().stream('<break time="1s"/>你好。<break time="2s"/>')))
    assert before == pytest.approx(1.0 + LEAD, abs=2 / RATE)
    assert after == pytest.approx(2.0, abs=0.006)  # the fade's end counts as silence
    for text in ("你好。\n\n", "# 你好\n", "你好\n\n\n"):
        assert edges_of(joined(ScriptedEngine().stream(text)))[1] <= 0.35


def test_silence_at_the_edges_is_trimmed_to_its_measure():
    """At most 0.2 s before the first and 0.35 s after the last syllable, however much the voice leaves."""
    before, after = edges_of(joined(ScriptedEngine(lead=1.0, tail=2.0).stream("你好。")))
    assert before == pytest.approx(LEAD, abs=2 / RATE)
    assert after == pytest.approx(SENTENCE_TAIL, abs=2 / RATE)


def test_a_cut_inside_a_sentence_is_shorter_than_a_sentences_end():
    """A first clause is said alone so as to sound sooner; its cut must not be heard as a stop."""
    text = "今天早上的天气很好，我们大家一起去公园里面散步，然后回家吃饭。"
    chunks = list(ScriptedEngine().stream(text))
    assert sum(chunk.last for chunk in chunks) == 2
    assert gaps(joined(chunks)) == pytest.approx([CLAUSE_TAIL + LEAD], abs=2 / RATE)


# Level, fade, numbers


def test_peaks_stay_under_099_and_the_gain_is_constant():
    """ST-15. The level climbed through a long text until it clipped. Nothing below 0.9 may change, at any time."""
    loud = joined(ScriptedEngine(level=3.0).stream(TEXT))
    assert 0.9 < np.abs(loud).max() < 0.99
    assert not (np.abs(np.round(loud * 32767)) >= 32767).any()
    samples = joined(ScriptedEngine(level=0.5).stream("今天天气很好。" * 143))  # 2,002 characters with the voice's
    tones = np.abs(samples[np.abs(samples) > 0.4])
    assert set(np.unique(tones).tolist()) <= {0.5, float(MARK)}
    quarter = len(samples) // 4
    assert abs(rms_db(samples[-quarter:]) - rms_db(samples[:quarter])) < 0.5


def faded(samples):
    """Whether the last 5 ms fall to nothing."""
    return np.abs(samples[-24:]).max() <= 0.01 and samples[-1] == 0


@pytest.mark.parametrize("tail", [0.0, 0.001, 0.02, 0.5])
@pytest.mark.parametrize("forget_last", [False, True])
def test_every_sentence_fades_out(tail, forget_last):
    """ST-01, ST-04. A token cap cut generation inside a vowel and it popped: the last 5 ms of every sentence fall to 0.

    A voice that stops without marking its last piece, as one that met a cap does, must end in the same way, with all
    of its samples: 5 ms were lost and nothing was faded.
    """
    chunks = list(ScriptedEngine(tail=tail, chunk=0.0333, forget_last=forget_last).stream("你好。再见。"))
    assert [chunk.last for chunk in chunks].count(True) == 2
    for text in ("你好。", "再见。"):
        assert faded(joined([chunk for chunk in chunks if chunk.sentence and chunk.sentence.text == text]))
    assert len(joined(chunks)) == len(joined(ScriptedEngine(tail=tail, chunk=0.0333).stream("你好。再见。")))


def test_all_but_the_last_five_milliseconds_is_untouched():
    """The fade is 5 ms long, not longer: the voice's own samples come out bit for bit."""
    engine = ScriptedEngine(lead=0.05, tail=0.0)
    out = joined(engine.stream("你好。"))
    (sentence,) = sentences("你好。", Options())
    given = engine.backend.sound(sentence)
    assert len(out) == len(given)
    assert np.array_equal(out[:-120], given[:-120])
    assert not np.array_equal(out[-120:], given[-120:])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_no_sound_stop_the_stream(value):
    """OR-10. The vocoder overflowed to NaN, which was written as silence with exit 0."""

    def broken(index, samples):
        samples = samples.copy()
        if index == 5:
            samples[7] = value
        return samples

    engine = ScriptedEngine(change=broken)
    with pytest.raises(InferenceError) as caught:
        list(engine.stream("今天天气很好。"))
    assert caught.value.exit_code == 4
    assert engine.backend.log[-1] == ("closed", "今天天气很好。")


@pytest.mark.parametrize("how", ["empty chunks", "silence", "no chunks"])
def test_a_voice_that_makes_no_sound_is_an_error(how):
    """CL-09. Nothing came out, and the run ended with exit 0 and an empty file."""
    change = {"empty chunks": lambda _, samples: samples[:0], "silence": lambda _, samples: samples * 0}.get(how)
    engine = ScriptedEngine(change=change, **({"lead": 0, "tail": 0, "word": 0} if how == "no chunks" else {}))
    told = []
    with pytest.raises(InferenceError, match="no sound") as caught:
        list(engine.stream(TEXT, notice=told.append))
    assert caught.value.exit_code == 4
    assert caught.value.hint
    assert len(told) == 4
    assert "今天天气很好" in told[0]


def test_one_silent_sentence_among_others_is_told_and_the_rest_is_spoken():
    """A book must not end at one odd line; that it was not heard is said."""
    backend = ScriptedBackend()
    sound = backend.sound
    backend.sound = lambda sentence: sound(sentence) * (sentence.text != "再见。")
    told = []
    chunks = list(ScriptedEngine(backend).stream("你好。再见。谢谢。", notice=told.append))
    assert told == ["the voice made no sound for: 再见。"]
    heard = {chunk.sentence.text for chunk in chunks if chunk.sentence and len(chunk.samples)}
    assert heard == {"你好。", "谢谢。"}


# Pulled, never pushed


def test_nothing_happens_before_the_first_chunk_is_asked_for():
    """Making a stream costs nothing: no text read, no model opened."""

    def text():
        raise AssertionError("read before it was asked for")
        yield

    engine = ScriptedEngine()
    engine.stream(text())
    assert engine.loads == 0
    assert engine.backend.log == []


def test_only_what_is_asked_for_is_made():
    """One chunk pulled, at most one more made than what was given."""
    engine = ScriptedEngine(lead=0.0)
    chunks = engine.stream(TEXT)
    for count in range(1, 6):
        next(chunks)
        assert [event for event, _ in engine.backend.log].count("made") == count


@pytest.mark.parametrize("pulled", [1, 2, 5])
def test_closing_the_stream_stops_the_voice(pulled):
    """Ctrl-C, or a listener who has heard enough: the voice's generator is closed and makes nothing more."""
    engine = ScriptedEngine(lead=0.0)
    chunks = engine.stream(TEXT)
    for _ in range(pulled):
        next(chunks)
    chunks.close()
    made = [event for event, _ in engine.backend.log]
    assert made.count("made") == pulled
    assert made[-1] == "closed"
    assert list(chunks) == []


def test_a_sentence_is_spoken_before_the_input_ends():
    """A model writes into the pipe: the first sentence must sound while the second is still being written."""
    gate, reached = threading.Event(), threading.Event()

    def writing():
        yield "第一句"
        yield "话。"
        reached.set()
        assert gate.wait(60)
        yield "第二句话。"

    chunks = ScriptedEngine().stream(writing())
    heard = []
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, chunks)
        try:
            chunk = first.result(60)  # hangs here if the engine wants more text first
        finally:
            gate.set()
        heard = [chunk, *chunks]
    assert heard[0].sentence.text == "第一句话。"
    assert [chunk.sentence.text for chunk in heard if chunk.last] == ["第一句话。", "第二句话。"]


def test_input_is_read_no_further_than_needed():
    """All chunks of the first sentence come before a further piece is read."""
    read = []

    def pieces():
        for text in ("第一句话。", "第二句话。", "第三句话。"):
            read.append(text)
            yield text

    for chunk in ScriptedEngine().stream(pieces()):
        if chunk.sentence and not chunk.last:
            assert read[-1] == chunk.sentence.text


def test_an_error_of_the_input_reaches_the_caller():
    """A broken pipe or file is the caller's to report; the voice is not left half open."""

    def broken():
        yield "你好。"
        raise OSError("gone")

    engine = ScriptedEngine()
    with pytest.raises(OSError, match="gone"):
        list(engine.stream(broken()))
    assert engine.backend.log[-1][0] == "closed"


def test_an_error_of_the_voice_reaches_the_caller_and_the_engine_goes_on():
    """One failed run must not poison the process: the next text is spoken."""

    def failing(index, samples):
        if index == 3 and not recovered:
            raise InferenceError("inference failed", "again")
        return samples

    recovered = []
    engine = ScriptedEngine(change=failing)
    with pytest.raises(InferenceError):
        list(engine.stream(TEXT))
    assert engine.backend.log[-1][0] == "closed"
    recovered.append(True)
    assert len(joined(engine.stream(TEXT))) > RATE


@pytest.mark.parametrize("text", ["", "   \n", "……！？", "😀", [], ["", "。"]])
def test_nothing_to_say_makes_no_chunk_and_opens_no_model(text):
    """Whether that is an error is the command's to say."""
    engine = ScriptedEngine()
    assert list(engine.stream(text)) == []
    assert engine.loads == 0


# Values, voices, models


@pytest.mark.parametrize("speed", [0.49, 2.01, 0.0, -1.0, float("nan"), float("inf")])
def test_a_speed_out_of_range_is_refused_at_once(speed):
    """ST-12: told with the range, before a model is opened."""
    engine = ScriptedEngine()
    with pytest.raises(UsageError) as caught:
        engine.stream("你好。", options=Options(speed=speed))
    assert caught.value.exit_code == 2
    assert "0.5 to 2" in caught.value.hint
    assert engine.loads == 0


@pytest.mark.parametrize("speed", [None, 0.5, 1.0, 2.0])
def test_options_and_voice_reach_the_voice(speed):
    """ST-12. `speed` was accepted and had no effect."""
    engine = ScriptedEngine()
    list(engine.stream("你好。", voice="other", options=Options(speed=speed)))
    assert engine.backend.options == [Options(speed=speed)]
    assert engine.backend.voices == ["other"]


def test_without_a_name_the_default_voice_speaks():
    """The same one that the list shows as default."""
    engine = ScriptedEngine()
    list(engine.stream("你好。"))
    assert engine.backend.voices == [embedded.default_voice()]


def test_an_unknown_voice_is_refused_at_once():
    """Exit 3 with the way out, before the model is opened; likewise from the embedded voice's own list."""
    engine = ScriptedEngine()
    with pytest.raises(ModelError, match="nobody") as caught:
        engine.stream("你好。", voice="nobody")
    assert caught.value.exit_code == 3
    assert engine.loads == 0
    with pytest.raises(ModelError, match="zf_xiaobey") as caught:
        Engine().stream("你好。", voice="zf_xiaobey")
    assert "zf_xiaobei" in caught.value.hint
    assert "cosy voices" in caught.value.hint


@pytest.fixture
def fresh_process(monkeypatch):
    """As in a process that has no engine yet."""
    monkeypatch.setattr(engine_module, "_process", None)


def test_one_engine_a_process_for_many_threads(fresh_process, monkeypatch):
    """Twenty threads that ask at the same moment get one object."""
    start = threading.Barrier(20)

    class Slow(Engine):
        def __init__(self, *arguments, **options):
            time.sleep(0.05)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(engine_module, "Engine", Slow)

    def ask(_):
        start.wait(60)
        return get_engine()

    with ThreadPoolExecutor(20) as pool:
        engines = list(pool.map(ask, range(20)))
    assert all(engine is engines[0] for engine in engines)
    assert get_engine("kokoro") is engines[0]


def test_another_model_in_the_same_process_is_refused(fresh_process):
    """One model a process: asking for a second is a clear error, not a second gigabyte."""
    engine = get_engine("kokoro")
    with pytest.raises(UsageError, match=r"kokoro.*cosyvoice") as caught:
        get_engine("cosyvoice")
    assert caught.value.hint
    assert get_engine() is engine


def test_the_model_is_opened_once_for_many_threads():
    """OR-19. Eight threads with the same text: one opening, and each hears what one alone hears."""
    engine = ScriptedEngine()
    load = engine.scripted.load
    engine.scripted.load = lambda folder: time.sleep(0.05) or load(folder)
    alone = joined(ScriptedEngine().stream(TEXT))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: joined(engine.stream(TEXT)), range(8)))
    assert all(np.array_equal(result, alone) for result in results)
    assert engine.loads == 1


def test_opening_in_the_background_is_the_same_opening():
    """Reading text and opening graphs overlap; the model is still opened once."""
    engine = ScriptedEngine()
    engine.open_in_background()
    assert len(joined(engine.stream("你好。"))) > 0
    assert engine.loads == 1


def test_a_failure_in_the_background_is_met_by_the_caller():
    """No traceback from a thread; the stream raises the error where it can be told."""
    engine = ScriptedEngine()
    engine.scripted.failures = 2
    engine.open_in_background()
    with pytest.raises(ModelError, match="damaged"):
        list(engine.stream("你好。"))


class Damaged(Engine):
    """The real loading over a family whose graphs do not open at first."""

    def __init__(self, failures, steps):
        super().__init__(progress=steps.append)
        self.scripted = ScriptedFamily(ScriptedBackend(), failures)

    @property
    def family(self):
        return self.scripted


@pytest.mark.parametrize(
    ("failures", "built", "succeeds"), [(0, False, True), (1, False, True), (2, False, False), (1, True, False)]
)
def test_a_cache_that_does_not_open_is_rebuilt_once(monkeypatch, tmp_path, failures, built, succeeds):
    """Sizes were right, the graph inside was garbage, and every run failed until the user deleted the cache by hand.

    Once is enough: a bundle that was just built and does not open is not built again.
    """
    calls, steps = [], []

    def ensure(progress, *, rebuild=False):
        calls.append(rebuild)
        return tmp_path, built or rebuild

    monkeypatch.setattr(embedded, "ensure", ensure)
    engine = Damaged(failures, steps)
    if succeeds:
        assert engine.open() is engine.scripted.backend
        assert engine.timing.built is bool(failures)
        assert engine.timing.load_seconds >= 0
    else:
        with pytest.raises(ModelError):
            engine.open()
    assert calls == [False, True][: 1 + (failures > 0 and not built)]
    assert bool(steps) is (failures > 0 and not built)


def test_what_will_not_be_heard_is_told_once():
    """Russian has no voice here: one line, however many sentences."""
    told = []
    list(ScriptedEngine().stream("你好。Привет, как дела? 再见。Это хорошо. 谢谢。", notice=told.append))
    assert len(told) == len(set(told)) == 1
