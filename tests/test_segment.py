"""Sentences: where they end, what is kept, how long ones are cut, the silences, and that nothing waits."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest

from cosycli.text.cut import cost, split
from cosycli.text.segment import (
    CLAUSE_PAUSE,
    HARD_COST,
    HEADING_PAUSE,
    MAX_PAUSE,
    PARAGRAPH_PAUSE,
    SENTENCE_PAUSE,
    Segmenter,
    segments,
)
from cosycli.types import Sentence


def letters(text: str) -> str:
    """Without punctuation and space."""
    return "".join(char for char in text if char.isalnum())


def texts(written: str, **options: bool) -> list[str]:
    found = segments(written, normalize=False, first_clause=options.get("first_clause", True))
    return [sentence.text for sentence in found if sentence.text]


SENTENCES = [
    ("第一句。第二句！真的？好吧", ["第一句。", "第二句！", "真的？", "好吧"]),
    ("苹果、香蕉、橙子和葡萄都买了！真的？好吧", ["苹果、香蕉、橙子和葡萄都买了！", "真的？", "好吧"]),
    ("“今天很好。”他说。“走吧！”", ["“今天很好。”", "他说。", "“走吧！”"]),
    ("（他来了。）我走了。", ["（他来了。）", "我走了。"]),
    ("真的吗？！不会吧。。。好", ["真的吗？！", "不会吧。。。", "好"]),
    ("我……我不知道。等等……", ["我……我不知道。", "等等……"]),
    ("It is 3.14. Use v2.0.1 now! OK? Yes.", ["It is 3.14.", "Use v2.0.1 now!", "OK?", "Yes."]),
    ("Mr. Smith met Dr. J. Lee, e.g. in St. Paul. Bye.", ["Mr. Smith met Dr. J. Lee, e.g. in St. Paul.", "Bye."]),
    ("The U.S. army. Apples, etc. And more.", ["The U.S. army.", "Apples, etc.", "And more."]),
    ("At 9:30 a.m. ET he left. It ended 5 p.m. Bye.", ["At 9:30 a.m. ET he left.", "It ended 5 p.m.", "Bye."]),
    ('"Really?" he asked. "Go!" She went.', ['"Really?" he asked.', '"Go!"', "She went."]),
    ("Wait... what? Wait... What?", ["Wait... what?", "Wait...", "What?"]),
    ("我用Node.js。访问example.com吧", ["我用Node.js。", "访问example.com吧"]),
    ("他说OK.然后走了", ["他说OK.", "然后走了"]),
    ("你好!再见?好", ["你好!", "再见?", "好"]),
    ("！”他说完就走了", ["他说完就走了"]),
    ("今天没有句号", ["今天没有句号"]),
    ("床前明月光\n疑是地上霜", ["床前明月光", "疑是地上霜"]),
    ("Hello world\nhow are you.", ["Hello world how are you."]),
    ("Roses are red\nViolets are blue", ["Roses are red", "Violets are blue"]),
    ("A line of text that was wrapped by one of\nThem.", ["A line of text that was wrapped by one of Them."]),
    ("原料：\n面粉", ["原料：", "面粉"]),
    ("- 一\n- 二\n1. three\n2. four", ["一", "二", "1, three", "2, four"]),
    ("# 标题\n正文", ["标题", "正文"]),
    ("。”", []),
    ("……！？", []),
    ("你好 ", ["你好"]),
    ('"', []),
    ("", []),
]  # fmt: skip


@pytest.mark.parametrize(("written", "expected"), SENTENCES)
def test_sentences(written: str, expected: list[str]) -> None:
    """SG-01, SG-04, SG-06, SG-08: every ender of either script ends a sentence, and only where it is one."""
    assert texts(written) == expected


@pytest.mark.parametrize("written", [row[0] for row in SENTENCES])
@pytest.mark.parametrize("size", [1, 3])
def test_pieces_sound_like_the_whole(written: str, size: int) -> None:
    """However a text arrives, the same is said with the same silences (a quote may come too late to be seen)."""
    pieces = [written[at : at + size] for at in range(0, len(written), size)]
    whole, parts = list(segments(written)), list(segments(pieces))
    assert [letters(s.text) for s in parts if s.text] == [letters(s.text) for s in whole if s.text]
    assert sum(s.pause for s in parts) == pytest.approx(sum(s.pause for s in whole))


LONG = [
    "天" * 700,
    "今天天气很好我们一起去公园散步然后回家吃饭" * 34,
    "word " * 650,
    "一句话，" * 300,
    "苹果、" * 300,
    "“今天很好。”" + "This is a “quoted sentence” that keeps going on " * 10,
    "a" * 3000,
    "3.14 " * 300,
    "1" * 700,
    "甲乙 " * 400,
    "".join(f"第{n}句话在这里结束了。" for n in range(20)),
    "".join(f"这是短句{n}。" for n in range(100)),
]


@pytest.mark.parametrize("written", LONG)
@pytest.mark.parametrize("normalize", [True, False])
def test_everything_is_kept_in_order_and_nothing_is_too_long(written: str, normalize: bool) -> None:
    """SG-03, SG-09, SG-11, SG-12, SG-14: parts went missing, or were too long for the model and lost their end."""
    found = list(segments(written, normalize=normalize))
    assert letters("".join(s.source for s in found)) == letters(written)
    assert max(cost(s.text) for s in found) <= HARD_COST
    if not normalize:
        assert letters("".join(s.text for s in found)) == letters(written)


def test_enough_segments_of_short_sentences() -> None:
    """SG-11: Chinese full stops were not known, and 600 characters stayed in one piece."""
    assert len(texts("今天的天气非常好。" * 67)) == 67


def test_cut_prefers_clauses_then_spaces_then_words() -> None:
    """A cut inside a word is heard; one at a comma is not."""
    clauses = "，".join(["我们今天下午要去公园里面散步"] * 12)
    assert all(part.endswith("，") for part in split(clauses, 300.0)[:-1])
    words = split("公园散步" * 60, 290.0)
    assert all(part.startswith(("公园", "散步")) for part in words)
    assert all(part.endswith(" ") for part in split("some words " * 100, 300.0)[:-1])
    numbers = split("12345 67890 " * 30 + "，" + "abc " * 60, 300.0)
    assert "".join(numbers) == "12345 67890 " * 30 + "，" + "abc " * 60


def test_parts_of_one_sentence_share_its_group_and_have_no_gap() -> None:
    """A silence inside a word or phrase is heard as a stumble."""
    found = list(segments("今天天气很好我们去公园" * 30 + "。第二句。"))
    first = [s for s in found if s.group == found[0].group]
    assert len(first) == len(found) - 1 > 1
    assert all(s.pause == 0 for s in first[:-1])
    assert first[-1].pause == SENTENCE_PAUSE


def pauses(written: str) -> list[tuple[str, float]]:
    return [(s.text, s.pause) for s in segments(written, normalize=False)]


def test_pauses() -> None:
    """Paragraphs and headings stand apart more than sentences do; a break tag says its length itself."""
    assert pauses("一。二。\n\n三。") == [("一。", SENTENCE_PAUSE), ("二。", PARAGRAPH_PAUSE), ("三。", SENTENCE_PAUSE)]
    assert pauses("# 题\n\n文。") == [("题", HEADING_PAUSE), ("文。", SENTENCE_PAUSE)]
    assert pauses('你好<break time="500ms"/>世界。')[0] == ("你好", 0.5)
    assert pauses("一。<break time='2s'/>二")[0] == ("一。", 2.0)
    assert pauses("一。<break time='1s'/><break time='1.5s'/>二")[0] == ("一。", 2.5)
    assert pauses("一。" + "<break time='9s'/>" * 50 + "二")[0] == ("一。", MAX_PAUSE)
    assert pauses("<break time='1s'/>一。")[0] == ("", 1.0)
    assert pauses("一。<break time='100ms'/>二")[0] == ("一。", SENTENCE_PAUSE)


def test_a_pause_that_comes_late_is_made_up_for() -> None:
    """The sentence is spoken at once; when a blank line follows later, the rest of its silence does too."""
    pieces = ["第一句。", "\n", "\n第二句。", "<break time='2s'/>", "三"]
    found = [(s.text, s.pause) for s in segments(pieces, normalize=False)]
    assert found[0] == ("第一句。", SENTENCE_PAUSE)
    assert found[1] == ("", pytest.approx(PARAGRAPH_PAUSE - SENTENCE_PAUSE))
    assert found[3] == ("", pytest.approx(2.0 - SENTENCE_PAUSE))


def test_first_clause_is_taken_alone_only_where_it_helps() -> None:
    """A short first clause sounds sooner; a very short one, or one of a short sentence, stays."""
    long = "今天天气真的很好，我们一起去公园里散步然后吃一顿大餐吧。好的，那我们现在就出发去公园散步吧。"
    clause, rest = ("今天天气真的很好，", CLAUSE_PAUSE), ("我们一起去公园里散步然后吃一顿大餐吧。", SENTENCE_PAUSE)
    assert pauses(long)[:2] == [clause, rest]
    assert len(pauses(long)) == 3
    assert texts(long, first_clause=False)[0].endswith("大餐吧。")
    assert texts("好，我们一起去公园里散步然后吃一顿大餐吧。") == ["好，我们一起去公园里散步然后吃一顿大餐吧。"]
    assert texts("谢谢大家，再见。") == ["谢谢大家，再见。"]
    assert texts("一共1,000,000元可以买到很多很多很多好吃的东西。")[0].startswith("一共1,000,000元可以")


@pytest.mark.parametrize("end", ["。", "！", "？", "！”", ".\n", "!\n", "?\n\n", "\n\n"])
def test_a_complete_sentence_comes_out_at_once(end: str) -> None:
    """CL-24: a pipe's first sentence must be spoken before its second is there."""
    segmenter = Segmenter()
    assert [piece.text for piece in segmenter.feed("Hello 世界" + end)] == [("Hello 世界" + end).strip()]


def test_an_unfinished_number_or_name_is_waited_for() -> None:
    """ "3." may become 3.14, "Dr." may be followed by a name."""
    segmenter = Segmenter()
    assert not segmenter.feed("Pi is 3.")
    assert not segmenter.feed("14 says Dr.")
    assert not segmenter.feed(" ")
    assert [piece.text for piece in segmenter.feed("Lee. Next")] == ["Pi is 3.14 says Dr. Lee."]
    assert [piece.text for piece in segmenter.finish()] == ["Next"]


def test_a_stream_is_pulled_only_as_far_as_needed() -> None:
    """CL-23: the first sentence of a book may not wait for the book."""
    pulled = itertools.count()
    last = 0

    def book() -> Iterator[str]:
        nonlocal last
        while True:
            last = next(pulled)
            yield "这是书里的一句话，写得不长也不短。"

    stream = segments(book())
    next(stream)
    assert last < 3
    for _ in range(50):
        next(stream)
    assert last < 55


def test_a_book_in_one_string_takes_bounded_memory() -> None:
    """CL-23: 3 MB of text, with and without sentence ends, in the memory of a page."""
    for unit in ("这是书里的一句话，写得不长也不短。", "没有句号的文字一直写下去", "no stop here "):
        written = unit * (3_000_000 // len(unit.encode()))
        stream = segments(written)
        next(stream)
        tracemalloc.start()
        for _ in itertools.islice(stream, 400):
            pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2_000_000


def test_time_is_linear_in_a_text_without_any_end() -> None:
    """Ten times the text is about ten times the calls, not a hundred: counted, not timed."""

    def calls(length: int) -> int:
        count = 0

        def tick(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(tick)
        try:
            list(segments("没有句号的文字" * length, normalize=False))
        finally:
            sys.setprofile(None)
        return count

    calls(10)
    assert calls(5000) < 15 * calls(500)


def test_language_carries_over_to_lines_without_one() -> None:
    """In an English text, a line of figures is read in English."""
    said = [s.text for s in segments("The year was long.\n\n1998\n\nIt ended.")]
    assert said[1] == "nineteen ninety-eight"
    assert [s.text for s in segments("年份。\n\n1998")][1] == "一九九八"
    assert [s.text for s in segments("5", language="en")] == ["five"]


def test_source_is_what_the_user_wrote() -> None:
    """Subtitles show 300项, not what the voice says for it."""
    assert list(segments("**新增**300项。")) == [Sentence("新增三百项。", "新增300项。", pause=SENTENCE_PAUSE)]


def test_without_normalizing_digits_stay() -> None:
    """`--no-normalize` hands the text on as it is, cleaned."""
    assert texts("新增300项，**占**5%。") == ["新增300项，占5%。"]


def test_nothing_heavy_is_loaded_for_text_that_says_nothing() -> None:
    """SG-06: punctuation alone costs neither a grammar nor a model."""
    program = (
        "import sys; from cosycli.text.segment import segments; assert not list(segments('……！？。。。———'));"
        "heavy = {'numpy', 'onnxruntime', 'kaldifst', 'wetext', 'rjieba', 'pypinyin'};"
        "assert not heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_numbered_sentence_is_there() -> None:
    """SG-03: of twenty sentences only the last was in the file."""
    written = "".join(f"这是第{n}句话，它说的是今天的天气。" for n in range(1, 21))
    found = list(segments(written, first_clause=False))
    assert [int(re.search(r"\d+", s.source)[0]) for s in found] == list(range(1, 21))  # type: ignore[index]


class Slow:
    """Text that comes in small pieces, and never soon; which of them have been taken."""

    def __init__(self, text: str, size: int = 3) -> None:
        self.pieces = [text[start : start + size] for start in range(0, len(text), size)]
        self.taken = ""

    def __iter__(self) -> Iterator[str]:
        for piece in self.pieces:
            self.taken += piece
            yield piece

    def ready(self, seconds: float) -> bool:
        return False


CALL = "今天天气很好，明天打电话：13800138000，请记住。\n\n第二段在这里，有3.5公里，完了"


def test_a_sentence_is_begun_while_it_arrives() -> None:
    slow = Slow(CALL)
    first, *others = ((sentence, slow.taken, list(sentence.more or ())) for sentence in segments(slow, official=True))
    assert first[0].text == "今天天气很好，"
    assert len(first[1]) < 10
    assert first[0].whole().source == "今天天气很好，明天打电话：13800138000，请记住。"
    whole = [first[0].whole().text, *(sentence.whole().text for sentence, _, _ in others if sentence.text)]
    assert whole == texts_as_read(CALL)  # the number too, which is read by what stands before it
    pauses_after = [(sentence.pause, sentence.group) for sentence, _, _ in (first, *others)]
    assert pauses_after == [
        (SENTENCE_PAUSE, 0),
        (pytest.approx(PARAGRAPH_PAUSE - SENTENCE_PAUSE), 1),
        (SENTENCE_PAUSE, 1),
    ]


def texts_as_read(written: str) -> list[str]:
    return [sentence.text for sentence in segments(written, first_clause=False)]


def test_what_a_begun_sentence_leaves_is_said_after_it() -> None:
    found = list(segments(Slow(CALL), official=True))
    taken = "".join(sentence.whole().text for sentence in found)
    assert taken == "".join(texts_as_read(CALL))
    for sentence in found:
        assert sentence.whole() == sentence


def test_words_of_a_begun_sentence_stay_apart() -> None:
    written = "Hello there my friend, this is number 5, and it goes on. Bye now."
    whole = []
    for sentence in segments(Slow(written), official=True):
        list(sentence.more or ())
        whole.append(sentence.whole())
    assert [sentence.text for sentence in whole] == texts_as_read(written)
    assert whole[0].source == "Hello there my friend, this is number 5, and it goes on."


def test_a_begun_sentence_that_has_no_end_is_cut() -> None:
    begun = []
    for sentence in segments(Slow("这是很长的一句话，" * 60), official=True):
        list(sentence.more or ())
        begun.append(sentence.whole().text)
    assert "".join(begun) == "这是很长的一句话，" * 60
    assert max(map(cost, begun)) <= HARD_COST


def test_text_that_is_there_is_waited_for() -> None:
    class Prompt(Slow):
        def ready(self, seconds: float) -> bool:
            return True

    assert not [sentence for sentence in segments(Prompt(CALL), official=True) if sentence.more]
    assert not [sentence for sentence in segments(iter(CALL), official=True) if sentence.more]


def test_a_steady_trickle_is_not_waited_for_longer_than_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    class Trickle(Slow):
        now = 0.0

        def ready(self, seconds: float) -> bool:
            if seconds:
                Trickle.now += 0.02
            return bool(seconds)

    monkeypatch.setattr("cosycli.text.segment.time.monotonic", lambda: Trickle.now)
    sentence = next(segments(Trickle("今天天气很好，我们去公园散步，去看一看花，然后回家。", 1), official=True))
    assert sentence.more
    assert sentence.text.startswith("今天天气很好，")


def joined(written: str | Iterable[str]) -> list[str]:
    """The segments of a model that joins sentences."""
    return [sentence.text for sentence in segments(written, official=True)]


TEN, SIXTY = "这句话一共有十个字的。", "这是一个很长很长的句子，" * 4 + "它一共有六十多个字，所以后面不再接什么了。"


def test_short_sentences_are_said_in_one_segment() -> None:
    """A model that was trained on whole utterances says three words alone badly, and each costs a prompt."""
    assert joined(TEN * 3) == [TEN * 3]
    assert joined("好的。" + TEN) == ["好的。" + TEN]
    assert [len(text) // len(TEN) for text in joined(TEN * 29)] == [7, 7, 7, 8]
    assert joined(SIXTY + SIXTY) == [SIXTY, SIXTY]


def test_what_is_left_over_is_not_said_alone() -> None:
    assert joined(SIXTY + SIXTY + "好的。") == [SIXTY, SIXTY + "好的。"]
    assert joined(SIXTY + "好的。" + SIXTY) == [SIXTY + "好的。", SIXTY]


def test_paragraphs_and_pauses_are_not_joined() -> None:
    assert joined(f"{TEN}\n\n{TEN}") == [TEN, TEN]
    assert joined(f"{TEN}<break time='1s'/>{TEN}") == [TEN, TEN]
    assert joined(f"<break time='1s'/>{TEN}{TEN}") == ["", TEN * 2]


def test_joined_words_stay_apart() -> None:
    assert joined("How are you? I am fine. Thanks.") == ["How are you? I am fine. Thanks."]
    (only,) = segments("你好。今天很好。", official=True)
    assert only.source == "你好。今天很好。"


def test_a_complete_sentence_does_not_wait_for_one_of_unknown_time() -> None:
    """A generator of another program's words cannot tell when more will come."""
    taken: list[str] = []

    def words() -> Iterator[str]:
        for piece in (TEN, TEN, TEN):
            taken.append(piece)
            yield piece

    found = segments(words(), official=True)
    assert next(found).text == TEN
    assert len(taken) <= 2
