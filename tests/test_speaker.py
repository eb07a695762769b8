"""Live playback against a scripted device: all of it is heard, in order, at once, and nothing hangs."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from fakes.sounddevice_fake import FakeSoundDevice
from measures import seam, speech_like

from cosycli.audio import speaker as speaker_module
from cosycli.audio.devices import check, find_device, import_sounddevice, list_devices, open_speaker
from cosycli.audio.join import to_int16
from cosycli.audio.pacing import Gate, Pacer, ends_sentence, expected_seconds
from cosycli.audio.patience import within
from cosycli.audio.quiet import quiet_stderr
from cosycli.audio.speaker import Feed, Speaker
from cosycli.errors import AudioDeviceError, CosyError, UsageError
from cosycli.types import Chunk, Sentence

RATE = 24000


def sentence_chunks(samples, text="一句很普通的话说了三秒。", size=6000, start=0.0):
    """One sentence as a stream of chunks."""
    said = Sentence(text, text)
    starts = range(0, len(samples), size)
    return [
        Chunk(samples[at : at + size], RATE, start + at / RATE, said, last=at + size >= len(samples)) for at in starts
    ]


def play(device, samples, **options):
    """Play it all and give the speaker back."""
    speaker = Speaker(RATE, sounddevice=device, **options)
    with speaker:
        speaker.begin()
        for chunk in sentence_chunks(samples):
            speaker.write(chunk)
        device.go.set()
    return speaker


def trimmed(frames):
    """Without the zeros around."""
    sounding = np.flatnonzero(frames)
    return frames[sounding[0] : sounding[-1] + 1]


@pytest.mark.parametrize("seed", range(20))
def test_everything_is_heard_and_the_stream_is_stopped_not_aborted(seed):
    """AD-04: a stream stopped before its buffer was drained lost the last word. 20 lengths, 20 block sizes."""
    samples = speech_like(0.3 + 0.07 * seed, RATE, seed)
    device = FakeSoundDevice(block=100 + 53 * seed, hold=True)
    speaker = play(device, samples)
    assert speaker.report.frames == speaker.report.played == len(samples)
    assert np.array_equal(trimmed(device.frames), trimmed(to_int16(samples)))
    assert device.order == ["open", "start", "first", "stop", "close"]
    assert len(device.frames) - np.flatnonzero(device.frames)[-1] > device.latency * RATE  # the driver's own buffer


@pytest.mark.parametrize("rate", [24000, 48000])
def test_preroll_is_exact_and_only_at_the_start(rate):
    """AD-03: a Bluetooth device swallowed the first syllable; `--preroll 0.3` is 0.3 s of zeros, once."""
    device = FakeSoundDevice(refuse_rates={24000} - {rate}, default_rate=rate, hold=True)
    samples = np.full(RATE, 0.5, np.float32)
    play(device, samples, preroll=0.3)
    zeros = round(0.3 * rate)
    assert not device.frames[:zeros].any()
    assert device.frames[zeros : zeros + 20].any()
    assert np.count_nonzero(device.frames) == pytest.approx(rate, abs=rate // 100)


def test_without_preroll_the_first_frame_is_sound():
    """The stream starts when there is something to play, not before."""
    device = FakeSoundDevice(hold=True)
    play(device, np.full(6000, 0.5, np.float32))
    assert device.frames[0] == 16384


def test_voice_rate_is_resampled_without_clicks():
    """ST-02, ST-13: a device that refuses 24 kHz gets its own rate, the same length, no joint to be heard."""
    device = FakeSoundDevice(refuse_rates={24000}, default_rate=44100, hold=True)
    samples = speech_like(3.0, RATE)
    speaker = Speaker(RATE, sounddevice=device)
    with speaker:
        for chunk in sentence_chunks(samples, size=2400):
            speaker.write(chunk)
        device.go.set()
    assert device.samplerate == 44100
    assert speaker.report.frames == speaker.report.played == round(3.0 * 44100)
    import soxr

    heard = device.frames[: speaker.report.frames] / 32767
    whole = soxr.resample(samples, RATE, 44100)
    assert np.abs(heard - whole).max() < 1e-3
    joints = [round(at * 44100 / RATE) for at in range(2400, len(samples), 2400)]
    assert len(joints) >= 20
    assert max(seam(heard, at, 44100) for at in joints) <= 1.0


def test_stereo_only_devices_get_both_channels():
    """A device without mono plays the voice on both sides."""
    device = FakeSoundDevice(refuse_channels={1}, hold=True)
    samples = speech_like(0.5, RATE)
    play(device, samples)
    assert device.channels == 2
    both = np.concatenate(device.blocks)
    assert np.array_equal(both[:, 0], both[:, 1])
    assert np.array_equal(both[: len(samples), 0], to_int16(samples))


def test_common_rates_are_tried_when_the_default_is_refused():
    """A driver that names a default rate it does not take."""
    device = FakeSoundDevice(refuse_rates={24000, 96000, 48000}, default_rate=96000)
    play(device, speech_like(0.5, RATE))
    assert device.samplerate == 44100


def test_first_sound_comes_with_the_first_chunk():
    """Nothing is collected on a machine that is fast enough."""
    device = FakeSoundDevice(speed=1.0)
    with Speaker(RATE, sounddevice=device) as speaker:
        speaker.begin()
        speaker.write(sentence_chunks(speech_like(1.0, RATE))[0])
        assert "start" in device.order
        for chunk in sentence_chunks(speech_like(1.0, RATE))[1:]:
            speaker.write(chunk)


def test_synthesis_runs_ahead_and_no_further():
    """ST-10: the next sentence is made while this one plays, up to `ahead` seconds, and there is no gap between."""
    device = FakeSoundDevice(hold=True)
    speaker = Speaker(RATE, sounddevice=device, ahead=2.0)
    signals = [speech_like(1.5, RATE, number) for number in range(3)]
    made = []
    written = threading.Event()

    def produce():
        with speaker:
            for chunk in [chunk for signal_ in signals for chunk in sentence_chunks(signal_)]:
                made.append(chunk)
                speaker.write(chunk)
            written.set()
            device.go.set()

    producer = threading.Thread(target=produce)
    producer.start()
    _until(lambda: len(made) == 9)  # 2 s are queued; the ninth chunk waits for room
    time.sleep(0.1)
    assert len(made) == 9
    assert device.blocks == []  # the second sentence is under way before the first is heard at all
    while not written.is_set():
        if speaker._feed.waiting > 1.8 * RATE:  # never dry, whatever the load
            device.turn()
        time.sleep(0.0002)
    producer.join(30)
    assert np.array_equal(device.frames[: round(4.5 * RATE)], to_int16(np.concatenate(signals)))
    assert speaker.report.underruns == 0


@pytest.mark.parametrize("when", ["write", "full", "drain"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_error_silences_at_once(when, error):
    """CL-13: aborted, not drained: seconds that were queued are not heard."""
    device = FakeSoundDevice(speed=1.0)
    begun = time.monotonic()
    with pytest.raises(error):
        _interrupted(device, when, error)
    assert time.monotonic() - begun < 2.0
    assert device.order[-2:] == ["abort", "close"]
    assert "stop" not in device.order


def _interrupted(device, when, error):
    with Speaker(RATE, sounddevice=device, ahead=1.0) as speaker:
        if when != "write":
            speaker._feed.stopped.wait = lambda _: _raise(error)  # what Ctrl-C does to a wait
        for chunk in sentence_chunks(speech_like(3.0 if when == "full" else 0.5, RATE)):
            speaker.write(chunk)
        if when == "write":
            raise error


def _raise(error):
    raise error


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("seconds", [0.5, 8.0])
def test_a_real_ctrl_c_during_playback_is_prompt(seconds):
    """CL-13: SIGINT while waiting for room or for the end; silent within 0.1 s of wall time plus scheduling."""
    device = FakeSoundDevice(speed=0.5)
    sent = []

    def interrupt():
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        play(device, speech_like(seconds, RATE), ahead=0.5 if seconds > 1 else 10.0)
    aborted = dict(device.events)["abort"]
    assert aborted - sent[0] < 1.0  # 0.02 s on an idle machine
    assert len(device.frames) < 0.6 * seconds * RATE + RATE


def test_a_device_that_dies_is_an_error_and_no_hang():
    """Unplugged in the middle: exit 5 with the way out, whether writing, waiting for room or draining."""
    for ahead, seconds in ((10.0, 1.0), (0.5, 5.0)):
        device = FakeSoundDevice(die_after=20)
        with pytest.raises(AudioDeviceError) as failure:
            play(device, speech_like(seconds, RATE), ahead=ahead)
        assert failure.value.exit_code == 5
        assert "-o FILE" in failure.value.hint
        assert device.order[-2:] == ["abort", "close"]


def test_a_device_that_freezes_is_an_error_and_no_hang(monkeypatch):
    """A driver that stops calling back without a word."""
    monkeypatch.setattr(speaker_module, "PATIENCE", 0.3)
    with pytest.raises(AudioDeviceError, match="takes no more sound"):
        play(FakeSoundDevice(freeze_after=5), speech_like(2.0, RATE))


def test_a_driver_that_never_returns_from_stop_is_left_behind(monkeypatch):
    """The end of the process does not wait for it."""
    monkeypatch.setattr(speaker_module, "CLOSING", 0.2)
    device = FakeSoundDevice(hang_on_stop=True)
    begun = time.monotonic()
    assert play(device, speech_like(0.3, RATE)).report.played == round(0.3 * RATE)
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    "device",
    [
        FakeSoundDevice(open_error="Device unavailable"),
        FakeSoundDevice(start_error="Internal PortAudio error"),
        FakeSoundDevice(devices=0),
        FakeSoundDevice(refuse_rates={24000, 44100, 48000}),
    ],
)
def test_a_device_that_cannot_be_used_is_named(device):
    """AD-01: never PortAudio's bare number."""
    with pytest.raises(AudioDeviceError) as failure:
        play(device, speech_like(0.3, RATE))
    assert "PaError" not in failure.value.message
    assert failure.value.hint


def test_nothing_to_play_is_a_failure():
    """CL-09 for playing; the device never starts."""
    device = FakeSoundDevice()
    with pytest.raises(CosyError, match="no sound"), Speaker(RATE, sounddevice=device):
        pass
    assert "start" not in device.order


def test_underruns_are_counted_told_once_and_not_fatal():
    """The queue ran dry for 2 blocks, and the device itself once later: two underruns, one note, all of the speech.

    That the device says so of its very first block, before it has played anything, does not count.
    """
    device = FakeSoundDevice(hold=True, block=600, underflow_calls={0, 25})
    samples = speech_like(1.0, RATE)
    speaker = Speaker(RATE, sounddevice=device, rtf=0.1)
    with speaker:
        for number, chunk in enumerate(sentence_chunks(samples)):
            if number == 2:
                device.turn(22)
            speaker.write(chunk)
        device.go.set()
    report = speaker.report
    assert report.underruns == 2
    assert report.gap == pytest.approx(2 * 600 / RATE)
    assert report.played == len(samples)
    assert len(report.notes) == 1
    assert "2 times" in report.notes[0]


def _until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_waiting_for_text_between_sentences_is_no_underrun():
    """CL-24: a slow pipe leaves the device idle between sentences; that is not the machine's fault."""
    device = FakeSoundDevice()
    with Speaker(RATE, sounddevice=device) as speaker:
        for number in range(2):
            for chunk in sentence_chunks(speech_like(0.5, RATE, number)):
                speaker.write(chunk)
            _until(lambda: speaker._feed.waiting == 0 and speaker._feed.dry > 1000)
    assert speaker.report.underruns == 0
    assert speaker.report.notes == []


# Slower than real time: the whole of it on a simulated clock


class Simulation:
    """A producer with a real-time factor and a listener, on one clock; gaps are where the listener had nothing."""

    def __init__(self, rtf, one_off=0.0, rtf_known=None):
        self.now, self.rtf, self.one_off = 0.0, rtf, one_off
        self.queue, self.playing_since, self.gaps, self.heard = 0.0, None, [], 0.0
        self.inside = False
        self.gate = Gate(lambda: self.queue, lambda: self.now, rtf_known)

    def pass_time(self, seconds):
        self.now += seconds
        if self.playing_since is None:
            return
        played = min(self.queue, seconds)
        self.queue -= played
        self.heard += played
        if seconds - played > 1e-9:
            if self.gate.open:
                self.gaps.append(("inside", round(self.heard, 6)))
                self.gate.starved()
            else:
                self.gaps.append(("between", round(self.heard, 6)))

    def say(self, text, seconds, sizes, begin=True):
        said, left, first = Sentence(text, text), seconds, True
        sizes = iter(sizes)
        if begin:
            self.gate.begin()
        while left > 1e-9:
            size = min(left, next(sizes))
            left -= size
            self.pass_time(size * self.rtf + (self.one_off if first else 0.0))
            chunk = Chunk(np.zeros(round(size * RATE), np.float32), RATE, 0.0, said, last=left <= 1e-9)
            for ready in self.gate.admit(chunk):
                self.queue += ready.seconds
                self.playing_since = self.now if self.playing_since is None else self.playing_since
            self.gate.begin()
            first = False


def uniform(size):
    while True:
        yield size


def growing(first=0.3, limit=2.0):
    while True:
        yield first
        first = min(limit, first * 2)


TEXT = "这是一个用来测试播放速度的句子，里面有逗号和三十来个字。"


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("sizes", [lambda: uniform(0.4), growing])
@pytest.mark.parametrize("rtf", [1.1, 1.5, 2.0, 3.0, 8.0])
def test_slower_than_real_time_gaps_only_between_sentences(rtf, sizes, known):
    """ST-09: on a slow machine streaming was a stutter. Now each sentence plays in one go."""
    world = Simulation(rtf, one_off=0.2, rtf_known=rtf if known else None)
    for _ in range(3):
        world.say(TEXT, 6.5, sizes())
    assert [gap for gap in world.gaps if gap[0] == "inside"] == []
    assert world.gate.waited
    ends = {6.5, 13.0}
    assert {at for _, at in world.gaps} <= ends


@pytest.mark.parametrize("rtf", [0.05, 0.15, 0.3])
def test_faster_than_real_time_starts_with_the_first_chunk(rtf):
    """The policy for slow machines costs fast ones nothing, one-off work included."""
    world = Simulation(rtf, one_off=0.1)
    world.say(TEXT, 6.5, growing())
    assert world.playing_since == pytest.approx(0.3 * rtf + 0.1)
    assert world.gaps == []
    assert not world.gate.waited


def test_a_slow_start_waits_no_longer_than_it_must():
    """Twice slower: playing starts before the sentence is complete, not after the whole of it."""
    world = Simulation(1.3, rtf_known=1.3)
    world.say(TEXT, 7.5, uniform(0.4))
    assert world.playing_since < 0.85 * 7.5 * 1.3
    assert world.gaps == []


def test_without_begin_the_second_chunk_decides():
    """When the start of work is not known, a model that loads first is not taken for a slow one."""
    world = Simulation(0.2)
    world.now = 100.0
    world.say(TEXT, 6.5, growing(), begin=False)
    assert world.playing_since == pytest.approx(100.0 + 0.9 * 0.2)


def test_after_a_gap_it_gathers_before_going_on():
    """A machine that suddenly slows down makes one gap, not one per chunk."""
    world = Simulation(0.1)
    world.say(TEXT, 6.5, uniform(0.4))
    world.rtf = 2.0
    world.say(TEXT, 6.5, uniform(0.4))
    assert len([gap for gap in world.gaps if gap[0] == "inside"]) <= 1


def test_a_clause_taken_alone_is_not_the_end_of_a_sentence():
    """A slow machine must not pause after "好，"; after a full stop, a line without one, or in a pause it may."""
    samples = np.zeros(10, np.float32)

    def chunk(text, last=True):
        return Chunk(samples, RATE, 0.0, Sentence(text, text), last=last)

    assert not ends_sentence(chunk("好，"))
    assert not ends_sentence(chunk("first,"))
    assert not ends_sentence(chunk("完了。", last=False))
    assert ends_sentence(chunk("完了。"))
    assert ends_sentence(chunk("没有句号"))
    assert ends_sentence(Chunk(samples, RATE, 0.0, None))


def test_pacer_follows_a_changing_load():
    """The recent chunks count most; first chunks only until there are others."""
    pacer = Pacer()
    assert pacer.rtf is None
    assert not pacer.ready(100.0, 1.0, 1.0)
    pacer.made(1.0, 0.8, first=True)
    assert pacer.rtf == pytest.approx(0.4)
    pacer.made(0.0, 5.0, first=False)
    for _ in range(20):
        pacer.made(1.0, 0.5, first=False)
    assert pacer.rtf == pytest.approx(0.5)
    for _ in range(10):
        pacer.made(1.0, 3.0, first=False)
    assert pacer.rtf > 2.5


@pytest.mark.parametrize(
    ("text", "low", "high"), [("今天天气很好。", 1.7, 3.0), ("It is a fine day today.", 1.4, 2.5), ("", 0, 0)]
)
def test_expected_seconds_is_an_upper_estimate(text, low, high):
    """0.29 s a character at most, 15 letters a second."""
    assert low <= expected_seconds(Sentence(text, text)) <= high


def test_feed_fills_zeros_when_dry_and_remembers_how_many():
    """The device's buffer is never left as it was: that would be noise."""
    feed = Feed()
    out = np.full((8, 2), 7, np.int16)
    feed.put(np.arange(1, 6, dtype=np.int16))
    assert feed.fill(out)
    assert out[:, 0].tolist() == out[:, 1].tolist() == [1, 2, 3, 4, 5, 0, 0, 0]
    assert (feed.dry, feed.played, feed.waiting) == (3, 5, 0)
    feed.put(np.ones(8, np.int16))
    feed.finish(tail=4)
    assert feed.fill(out)
    assert not feed.fill(out)
    feed.mute()
    assert not feed.fill(out)
    assert not out.any()


# Choosing a device


@pytest.fixture
def fake(monkeypatch):
    """A fake in the place of the module, with no other players on the machine."""

    def install(**options):
        device = FakeSoundDevice(**options)
        monkeypatch.setitem(sys.modules, "sounddevice", device)
        monkeypatch.setenv("PATH", "/nonexistent")
        return device

    return install


def test_devices_are_listed_and_found(fake):
    """By number and by part of the name, in any case; inputs are not outputs."""
    fake(devices=11)
    devices = list_devices()
    assert [device.index for device in devices] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert [device.index for device in devices if device.is_default] == [0]
    assert (devices[3].name, devices[3].host_api, devices[3].default_rate) == ("Fake 3", "ALSA", 48000)
    assert find_device("3").index == find_device(3).index == find_device("fAKE 3").index == 3
    assert find_device("Fake 1").index == 1  # exact, though "Fake 10" contains it
    assert find_device("alsa").index == 0  # many match: the default one is meant


@pytest.mark.parametrize("spec", ["9", "77", "nothing", "ake 1x"])
def test_unknown_device_lists_the_known(fake, spec):
    """Exit 2 with the candidates."""
    fake(devices=10)
    with pytest.raises(UsageError) as failure:
        find_device(spec)
    assert "3: Fake 3 (ALSA)" in failure.value.hint


def test_ambiguous_device_lists_the_matches(fake):
    """Two match, none is the default."""
    fake(devices=13)
    with pytest.raises(UsageError, match="4 output devices") as failure:
        find_device("ake 1")
    assert "Fake 12" in failure.value.hint
    assert "Fake 3" not in failure.value.hint


def test_open_speaker_uses_the_device_asked_for(fake):
    """The device is open when it returns, before a model is loaded."""
    device = fake(devices=3)
    speaker = open_speaker(RATE, "Fake 2", preroll=0.1)
    assert speaker.device == 2
    assert speaker.preroll == 0.1
    assert device.order == ["open"]
    speaker.close()
    assert "Fake" in check(RATE, 1)


@pytest.mark.parametrize("options", [{"devices": 0}, {"open_error": "Device unavailable"}])
def test_no_device_and_no_player_offers_files_and_raw(fake, options):
    """AD-01: exit 5 in under 3 s, offering -o and --raw."""
    fake(**options)
    begun = time.monotonic()
    with pytest.raises(AudioDeviceError) as failure:
        open_speaker(RATE)
    assert time.monotonic() - begun < 3
    assert "-o FILE" in failure.value.hint
    assert "--raw" in failure.value.hint


def test_missing_portaudio_names_the_package(monkeypatch):
    """AD-01: `import sounddevice` raises OSError; the message says what to install."""
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "path", [os.path.join(os.path.dirname(__file__), "fakes", "nullsink"), *sys.path])
    monkeypatch.setenv("NULLSINK", '{"missing": true}')
    with pytest.raises(AudioDeviceError, match="PortAudio") as failure:
        open_speaker(RATE)
    assert "install" in failure.value.hint
    assert "-o FILE" in failure.value.hint
    assert "--raw" in failure.value.hint


def test_a_sound_system_that_does_not_answer_is_left(monkeypatch):
    """PortAudio asks a dead server while it is imported: 1.5 s, not for ever."""
    monkeypatch.setattr("cosycli.audio.devices.STARTING", 0.1)
    monkeypatch.setattr("importlib.import_module", lambda _: time.sleep(30))
    begun = time.monotonic()
    with pytest.raises(AudioDeviceError, match="does not answer"):
        import_sounddevice()
    assert time.monotonic() - begun < 5


def test_within_passes_errors_on_and_gives_up_in_time():
    """The limit is to how long we wait, what is raised is not lost."""
    assert within(5, lambda: None)
    assert not within(0.05, lambda: time.sleep(10))
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)


def test_chatter_of_c_libraries_is_kept_off_the_terminal(capfd):
    """ALSA's dozen lines go elsewhere; what we say before and after does not."""
    print("before", file=sys.stderr, end="")
    with quiet_stderr() as chatter:
        os.write(2, b"ALSA lib confmisc.c:855: cannot find card\n")
    print("after", file=sys.stderr)
    assert "confmisc" in chatter.text
    assert capfd.readouterr().err == "beforeafter\n"


def test_stderr_comes_back_after_an_error(capfd):
    """Also when the library raises."""
    with pytest.raises(ZeroDivisionError), quiet_stderr():
        1 / 0  # noqa: B018
    os.write(2, b"heard\n")
    assert capfd.readouterr().err == "heard\n"
