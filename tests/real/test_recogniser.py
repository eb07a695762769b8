"""What is synthesised is what is heard: an independent recogniser listens to the embedded voice."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import recogniser

from cosycli.bundles.embedded import default_voice
from cosycli.engine import Engine

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(find_spec("ctranslate2") is None, reason="no wheels of CTranslate2 here"),
]
RATE = 24000
CHINESE = (
    "今天早上的风很大，街上的树叶落了一地。",
    "请把窗户关上，外面开始下雨了。",
    "我们下个月去北京出差，顺便看望老朋友。",
    "他说完这句话，转身就走进了人群里。",
    "这家饭馆的红烧肉做得很好吃。",
    "老师让我们把作业写在黑板旁边。",
    "晚上八点开会，请大家不要迟到。",
    "妈妈买了三斤苹果和两斤葡萄。",
)
ENGLISH = (
    "The weather is nice today and we are going to the park.",
    "Please close the door before you leave the room.",
)


@pytest.fixture(scope="module")
def engine(home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSY_HOME", str(home))
        engine = Engine()
        engine.open()
        yield engine


def spoken(engine, text, voice=None):
    return np.concatenate([chunk.samples for chunk in engine.stream(text, voice=voice)])


def rate_of_errors(pairs):
    wrong, total = zip(*pairs, strict=True)
    return sum(wrong) / sum(total)


def test_chinese_is_understood(engine):
    """The target is 3 % over 100 sentences (docs/embedded-voice.md); eight easy ones leave room for one slip in ten."""
    pairs = [recogniser.errors(text, spoken(engine, text), RATE) for text in CHINESE]
    assert rate_of_errors(pairs) <= 0.06, pairs


def test_english_is_understood(engine):
    pairs = [recogniser.errors(text, spoken(engine, text, "af_heart"), RATE, "en") for text in ENGLISH]
    assert rate_of_errors(pairs) <= 0.15, pairs


def test_english_inside_chinese_is_spoken(engine):
    """TN-22. English words were skipped, or spelled letter by letter."""
    heard = recogniser.heard(spoken(engine, "请打开 Windows，然后再看 email。"), RATE).lower()
    assert "win" in heard or "mail" in heard, heard


def test_numbers_are_heard_as_they_are_meant(engine):
    """TN-05, TN-08. The recogniser writes figures again."""
    heard = recogniser.heard(spoken(engine, "会议在3月7日，出席率是42%。"), RATE)
    assert "7" in heard or "七" in heard
    assert "42" in heard or "四十二" in heard, heard


def test_the_last_word_of_a_sentence_is_heard(engine):
    """ST-05. The final character or two were cut."""
    for text, last in (("我们明天再去看看吧。", "吧"), ("这件衣服真不错。", "错"), ("他正向前阔步前行。", "行")):
        heard = recogniser.units(recogniser.heard(spoken(engine, text), RATE), "zh")
        assert heard[-1] == recogniser.units(last, "zh")[0], heard


def test_the_ear_itself_can_fail(engine):
    """Other words, and the same ones cut short, are noticed."""
    samples = spoken(engine, CHINESE[0])
    assert recogniser.errors(CHINESE[1], samples, RATE)[0] > 5
    assert recogniser.errors(CHINESE[0], samples[: len(samples) // 2], RATE)[0] > 3
    assert default_voice()
