"""Subtitles: the user's own words, readable cues, right times, valid files."""

from __future__ import annotations

import itertools
import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosycli.audio.subtitles import SubtitleCollector, SubtitleSink, check_subtitles, lrc, srt, vtt
from cosycli.errors import CosyError, UsageError
from cosycli.types import Chunk, Sentence, TimedWord

RATE = 1000


def say(pieces, pause=0.3, per_letter=0.2, timed=True, group_of=None):
    """Chunks of sentences given as (source, spoken words): each letter of a word takes `per_letter` seconds."""
    now, out = 0.0, []
    for number, (source, words) in enumerate(pieces):
        sentence = Sentence("".join(words), source, group=group_of[number] if group_of else number)
        times, begun = [], now
        for word in words:
            times.append(TimedWord(word, now, now + per_letter * len(word)))
            now += per_letter * len(word)
        half = begun + (now - begun) / 2
        for start, end, last in ((begun, half, False), (half, now, True)):
            inside = tuple(word for word in times if start <= word.start < end) if timed else ()
            samples = np.zeros(round((end - start) * RATE), np.float32)
            out.append(Chunk(samples, RATE, start, sentence, inside, last))
        out.append(Chunk(np.zeros(round(pause * RATE), np.float32), RATE, now))
        now += pause
    return out


def collect(chunks):
    collector = SubtitleCollector()
    for chunk in chunks:
        collector.add(chunk)
    return collector


def shown(cue):
    return "".join(cue.lines)


def test_srt_shows_the_source_at_the_time_it_is_spoken():
    """Not the normalised text: "300" stays "300"."""
    subtitles = collect(say([("共300项。", ["共", "三百", "项"]), ("好！", ["好"])]))
    assert srt(subtitles) == ("1\n00:00:00,000 --> 00:00:00,800\n共300项。\n\n2\n00:00:01,100 --> 00:00:01,300\n好！\n")


def test_vtt_is_escaped():
    """ "<", ">" and "&" would be markup, "-->" a time line."""
    text = vtt(collect(say([("若 a<b && b --> c，则<i>真</i>。", ["若", "真"])])))
    assert text.startswith("WEBVTT\n\n00:00:00.000 --> ")
    body = text.split("\n", 3)[3]
    assert "-->" not in body
    assert body.strip() == "若 a&lt;b &amp;&amp; b --&gt; c，则&lt;i&gt;真&lt;/i&gt;。"


def test_srt_markup_is_shown_not_obeyed():
    """SRT has no escape; a player must still show what was written, and no line may look like a time."""
    text = srt(collect(say([("写<b>和{\\an8} --> 完", ["写", "和", "完"])])))
    assert "<b>" not in text
    assert "{\\an8}" not in text
    assert text.count("-->") == 1
    assert text.replace("\u200b", "").endswith("写<b>和{\\an8} → 完\n")


def test_lrc_has_a_line_a_cue_and_clears_in_pauses():
    """Hundredths, minutes beyond 99, and a bracket that is text."""
    subtitles = collect(say([("[一]二三。", list("一二三")), ("四。", list("四"))], pause=1.5))
    assert lrc(subtitles) == "[00:00.00]\u200b[一]二三。\n[00:00.60]\n[00:02.10]四。\n[00:02.30]\n"
    assert "[100:00.00]" in lrc(collect(say([("一。", ["一"]), ("二。", ["二"])], pause=5999.8)))


def test_long_sentences_are_cut_to_readable_cues_at_their_words_times():
    """At most two lines of 42 columns; each cue begins when its first word is spoken."""
    source = (
        "春天来了，公园里的花一朵接一朵地开了，红的像火，白的像雪，孩子们在草地上奔跑，老人们坐在长椅上聊天晒太阳。" * 2
    )
    words = re.findall(r"\w\w?", source)
    subtitles = collect(say([(source, words)]))
    cues = subtitles.cues()
    assert len(cues) >= 3
    assert "".join(map(shown, cues)) == source
    starts, at = {}, 0.0
    for match in re.finditer(r"\w\w?", source):
        starts[match.start()] = at
        at += 0.2 * len(match.group())
    position = 0
    for cue in cues:
        assert len(cue.lines) <= 2
        assert all(len(line) <= 21 for line in cue.lines)
        assert cue.start == pytest.approx(starts[position], abs=0.002)
        position += len(shown(cue))
        assert shown(cue)[-1] in "，。"


def test_english_is_wrapped_at_words():
    """42 letters a line, no word cut, two lines of about the same length."""
    source = (
        "The quick brown fox jumps over the lazy dog, and then it runs away into the deep dark forest behind the hill."
    )
    cues = collect(say([(source, source.split())], per_letter=0.06)).cues()
    assert " ".join(line for cue in cues for line in cue.lines) == source
    assert all(len(line) <= 42 for cue in cues for line in cue.lines)
    assert len(cues) == 2


def test_pieces_of_one_sentence_are_one_passage():
    """Cut for speed, shown whole, whether each piece carries its part of the source or all of it."""
    parts = [("好，", ["好"]), ("我们走吧。", ["我们", "走", "吧"])]
    whole = [("好，我们走吧。", ["好"]), ("好，我们走吧。", ["我们", "走", "吧"])]
    for pieces in (parts, whole):
        cues = collect(say(pieces, group_of=[4, 4])).cues()
        assert [shown(cue) for cue in cues] == ["好，我们走吧。"]
        assert (cues[0].start, cues[0].end) == (0.0, pytest.approx(1.3))
    again = collect(say([("好。", ["好"]), ("好。", ["好"])], group_of=[1, 2])).cues()
    assert [shown(cue) for cue in again] == ["好。", "好。"]
    english = collect(say([("Well,", ["Well"]), ("go on.", ["go", "on"])], group_of=[1, 1])).cues()
    assert shown(english[0]) == "Well, go on."


def test_without_word_times_cues_are_spread_over_the_sentence():
    """A backend that knows no words still gets usable subtitles."""
    source = "一二三四五六七八九十，" * 8
    cues = collect(say([(source, list(source))], timed=False)).cues()
    assert len(cues) >= 2
    assert cues[0].start == 0
    assert cues[-1].end == pytest.approx(0.2 * len(source))
    assert cues[1].start == pytest.approx(0.2 * len(shown(cues[0])), abs=0.01)


def test_line_breaks_in_the_source_do_not_break_the_file():
    """An empty line ends an SRT cue."""
    text = srt(collect(say([("第一行\n\n第二行", ["第一行", "第二行"])])))
    assert text.count("\n\n") == 0
    assert "第一行 第二行" in text


texts = st.lists(st.text(min_size=1, max_size=150), min_size=1, max_size=5)


@settings(max_examples=150, deadline=None)
@given(texts)
def test_any_text_gives_ordered_cues_that_hold_all_of_it(sources):
    """No text raises; cues never overlap; nothing is lost; each line fits."""
    cues = collect(say([(source, [source[:3], source[-2:]]) for source in sources])).cues()
    for cue, following in itertools.pairwise(cues):
        assert cue.start < cue.end <= following.start + 1e-9
    letters = "".join("".join(source.split()) for source in sources)
    assert "".join("".join(shown(cue).split()) for cue in cues) == letters
    assert all(len(line) <= 42 for cue in cues for line in cue.lines)
    for render in (srt, vtt, lrc):
        render(collect(say([(source, [source]) for source in sources])))


def test_ten_minutes_in_one_sentence_are_not_slow():
    """A text without any punctuation of 5000 characters."""
    source = "没有标点" * 1250
    assert len(collect(say([(source, list(source))])).cues()) >= 5000 // 42


@pytest.mark.parametrize("extension", ["srt", "vtt", "lrc", "SRT"])
def test_the_file_appears_when_all_is_done(tmp_path, extension):
    """Atomically, in UTF-8; not after an error."""
    path = tmp_path / f"字幕.{extension}"
    with SubtitleSink(path) as sink:
        for chunk in say([("你好。", ["你好"])]):
            sink.write(chunk)
        assert os.listdir(tmp_path) == []
    assert "你好。" in path.read_text(encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(KeyboardInterrupt), SubtitleSink(path):
        raise KeyboardInterrupt
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_bad_subtitle_names_are_refused_early(tmp_path):
    """Exit 2 for the extension, 1 for the place."""
    assert check_subtitles(tmp_path / "a.vtt") == "vtt"
    with pytest.raises(UsageError, match="subtitle"):
        check_subtitles(tmp_path / "a.ass")
    with pytest.raises(CosyError) as failure:
        check_subtitles("/nonexistent/a.srt")
    assert failure.value.exit_code == 1
    with pytest.raises(UsageError):
        SubtitleSink("a")
