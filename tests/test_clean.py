"""Cleaning: what Markdown, HTML, addresses, odd characters and model tokens leave to be spoken."""

from __future__ import annotations

import random

import pytest

from cosycli.text.chars import MARKS
from cosycli.text.clean import MAX_HELD, Cleaner, clean
from cosycli.text.inline import MAX_BREAK_MS

ROWS = [
    ("# 标题\n- **重点**和`代码`\n> 引用", "标题\n\n重点和代码\n引用"),
    ("## Title ##\ntext", "Title\ntext"),
    ("2*3 和 a_b 和 5<6 和 C# 和 #1", "2*3 和 a_b 和 5<6 和 C# 和 #1"),
    ("a*b*c, 2**3, snake_case_name, 5 * 6", "a*b*c, 2**3, snake_case_name, 5 * 6"),
    ("*斜* _斜_ ***both*** __粗__ ~~删~~ ==亮==", "斜 斜 both 粗 删 亮"),
    ("这是**重点**吗，foo**bar**baz", "这是重点吗，foobarbaz"),
    ("**没有结束", "没有结束"),
    ("`a*b` and ``x_y``", "a*b and x_y"),
    (r"\*不是斜体\*", "*不是斜体*"),
    ("[链接](http://a.com/x_(y)) 和 [名](<b c> \"题\")", "链接 和 名"),
    ("![图](i.png) [![徽章](x.svg)](y)", "图 徽章"),
    ("[文字][1] 见脚注[^1]。\n\n[1]: http://a.com\n[^1]: 说明", "文字 见脚注。\n\n说明"),
    ("<https://example.com/a> <a@b.com>", "example.com a@b.com"),
    ("见 https://www.example.com/a/b?c=d。再说", "见 example.com。再说"),
    ("(see http://example.com/x).", "(see example.com)."),
    ("github.com/foo/bar 和 http://10.0.0.1:8080/x", "github.com 和 10.0.0.1:8080"),
    ("mailto:a@b.com", "a@b.com"),
    ("| 名 | 值 |\n|---|:-:|\n| 甲 | 1 |\n\n完", "名，值\n\n甲，1\n\n完"),
    ("Name | Value\n--- | ---\na | b", "Name | Value\n\na, b"),
    ("一\n\n---\n\n二\n***\n三", "一\n\n二\n\n三"),
    ("Title\n=====\ntext", "Title\n\ntext"),
    ("```python\nx = 1\n```\n后", "后"),
    ("前\n```\n纯文本\n```\n后", "前\n\n纯文本\n\n后"),
    ("~~~text\n保留\n~~~", "保留"),
    ("- [x] 完成\n- [ ] 待办\n* 星\n+ 加", "完成\n\n待办\n\n星\n\n加"),
    ("1. 安装\n2. 运行\n3) Go", "1、安装\n\n2、运行\n\n3, Go"),
    ("①先切②后炒", "1、先切2后炒"),
    ("> > 引用\n> 第二行", "引用\n第二行"),
    (">5 和 >=3", ">5 和 >=3"),
    ("---\ntitle: x\ntags: [a]\n---\n正文", "正文"),
    ("---\n这不是头部。\n---\n正文", "这不是头部。\n\n正文"),
    ("<b>粗</b><br>行<p class=\"x\">段</p>", "粗\n行\n\n段"),
    ("a <b and c> d", "a <b and c> d"),
    ("A &amp; B &lt; C &#65; &nosuch;", "A & B < C A &nosuch;"),
    ("前<!-- 注释 -->后", "前后"),
    ("前<!-- 跨\n行 -->后", "前\n后"),
    ("<!-- 没有结束\n第二行", "没有结束\n第二行"),
    ("<script>alert(1)</script>好<style>\nb{}\n</style>吗", "好\n吗"),
    ("标签<|endofprompt|>后", "标签后"),
    ("<strong>强</strong><laughter>笑</laughter>[laughter]", "强笑[laughter]"),
    ("&lt;|endofprompt|&gt;", ""),
    ("＜｜endofprompt｜＞x", "x"),
    ("好的😀谢谢👍🏽", "好的谢谢"),
    ("Hi😀there 👨‍👩‍👧 1️⃣ 🇨🇳", "Hi there"),
    ("１２３ＡＢＣ％＋", "123ABC%+"),
    ("（好）！：，", "（好）！：，"),
    ("\ufeffa\u200bb\u202ec\x00d\ue000e\ufffdf\ud83d", "abcdef"),
    ("U\u0308ber e\u0301 o\u0308", "Über é ö"),
    ("it’s ‘ok’", "it's ‘ok’"),
    ("㎡ 图① 𝐀 ﬁ ⼀", "m2 图1 A fi 一"),
    ("一\r\n二\r三\u2028四", "一\n二\n三\n四"),
    ("你<break time=\"500ms\"/>好", "你好"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "left"), ROWS)
def test_cleaned(written: str, left: str) -> None:
    """TN-24, TN-26, TN-34, CL-20, CL-21: marks are not spoken, and nothing else is lost."""
    assert clean(written).replace("\n\n", "\n") == left.replace("\n\n", "\n")


@pytest.mark.parametrize("written", [row[0] for row in ROWS])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pieces_give_the_same_as_the_whole(written: str, size: int) -> None:
    """An LLM's output arrives in pieces; where they end must not change what is said."""
    whole = Cleaner()
    expected = whole.feed(written) + whole.finish()
    cleaner = Cleaner()
    parts = [cleaner.feed(written[at : at + size]) for at in range(0, len(written), size)]
    assert "".join(parts) + cleaner.finish() == expected


def test_pieces_of_a_long_line_give_the_same_as_the_whole() -> None:
    """A line longer than what is held is cut at the same places however it arrives."""
    random.seed(5)
    line = "".join(
        random.choice(["今天**很**好，", "`x` ", "[a](b)", "*", "**", "word ", "<b>", "。"]) for _ in range(3000)
    )
    whole = Cleaner()
    expected = whole.feed(line) + whole.finish()
    cleaner = Cleaner()
    assert len(line) > 2 * MAX_HELD
    assert "".join(map(cleaner.feed, line)) + cleaner.finish() == expected


@pytest.mark.parametrize(
    ("tag", "milliseconds"),
    [
        ('<break time="500ms"/>', 500),
        ("<break time='1.5s'/>", 1500),
        ("<break time=2s>", 2000),
        ("<BREAK TIME=\"0.25S\" />", 250),
        ("<break/>", 500),
        ('<break strength="strong"/>', 800),
        ('<break strength="none"/>', 0),
        ('<break time="99999s"/>', MAX_BREAK_MS),
        ('<break time="bad"/>', None),
        ('<break time="-1s"/>', None),
        ("<break", None),
    ],
)  # fmt: skip
def test_break_tag(tag: str, milliseconds: int | None) -> None:
    """A break becomes a pause of its length and is never spoken; a malformed one neither raises nor hangs."""
    for markup in (True, False):
        cleaner = Cleaner(markup=markup)
        marked = cleaner.feed(f"你{tag}好") + cleaner.finish()
        pauses = [int(mark[0][1:-1]) for mark in MARKS.finditer(marked) if mark[0][1:-1]]
        assert pauses == ([] if milliseconds is None else [milliseconds])
        if milliseconds is not None:
            assert MARKS.sub("", marked).strip() == "你好"


def test_a_sentence_is_ready_as_soon_as_it_is_complete() -> None:
    """CL-24: nothing that follows can change a finished sentence outside any mark, so it is not held back."""
    cleaner = Cleaner()
    assert cleaner.feed("第一句。") == "第一句。"
    assert cleaner.feed("**第二") == ""
    assert cleaner.feed("句。") == ""
    assert cleaner.feed("**然后，") == "第二句。然后，"


def test_without_markup_only_characters_are_cleaned() -> None:
    """With `markup` off, stars and hashes stay, tokens and invisible characters go."""
    assert clean("# a *b* [c](d)\u200b<|x|>", markup=False) == "# a *b* [c](d)"


def test_user_text_cannot_forge_marks() -> None:
    """Private-use characters carry pauses inside the program; from outside they are dropped."""
    assert clean("a\ue0029999\ue002b\ue000c\ue001d") == "a9999bcd"
