"""Reports of users of tools like this one, each by its id: what was misread, and how it is read here.

Each kind has more examples in test_normalize.py; these are the values that were asked for.
"""

from __future__ import annotations

import re

import pytest

from cosycli.engine import sentences
from cosycli.types import Options


def said(text):
    """The text as it is spoken."""
    return "".join(sentence.text for sentence in sentences(text, Options()))


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        pytest.param(
            "新增了300项功能，速度提高150倍，用了200年", ["三百项", "一百五十倍"], ["三零零", "幺五零"], id="TN-01"
        ),
        pytest.param("客服电话是13800001234对吗", [], ["亿", "万", "百"], id="TN-02"),
        pytest.param("买10.5米电缆和12.5平方电线", ["十点五米", "十二点五平方"], ["月", "日"], id="TN-04"),
        pytest.param("发布日期是2026-03-07", ["二零二六年三月七日"], ["减", "杠"], id="TN-05"),
        pytest.param(
            "合同金额为1,250,300元，占比12.50%；单价¥1,299.00",
            ["一百二十五万零三百元", "百分之十二点五", "一千二百九十九元"],
            ["元,"],
            id="TN-07",
        ),
        pytest.param(
            "约为正常的42%。涨幅-0.5%，浓度5‰",
            ["百分之四十二", "负百分之零点五", "千分之五"],
            ["‰", "%"],
            id="TN-08",
        ),
        pytest.param(
            "每次50ml，血压120mmHg，尿量2L，数值<5且≥3",
            ["五十毫升", "一百二十毫米汞柱", "两升", "小于五", "大于等于三"],
            ["<"],
            id="TN-09",
        ),
        pytest.param(
            "湿度55%，温度18℃，现在是07:05，会议19:17开始",
            ["百分之五十五", "十八摄氏度", "七点零五分", "十九点十七分"],
            [],
            id="TN-11",
        ),
        pytest.param(
            "等待15~20秒，共15-20人，第3-5章，20%~30%，8:00-12:00",
            ["十五到二十秒", "十五到二十人", "章", "百分之二十到百分之三十", "八点到十二点"],
            ["减"],
            id="TN-13",
        ),
        pytest.param(
            "升级到v2.0.1，把地址改成10.0.8.25，访问example.com",
            ["二点零点一", "十点零点八点二", "example 点 com"],
            ["。", "月", "日"],
            id="TN-15",
        ),
    ],
)
def test_chinese_figures_are_read_as_they_are_meant(text, wanted, unwanted):
    """Counts as telephone numbers, telephone numbers as counts, decimals as dates, signs skipped, ranges as sums."""
    spoken = said(text).rstrip("。")
    for part in wanted:
        assert part in spoken, spoken
    for part in unwanted:
        assert part not in spoken, spoken
    assert not re.search(r"[0-9０-９]", spoken), spoken


def test_third_to_fifth_chapter():
    """TN-13. 第3-5章 was 第三减五章."""
    assert re.search("第三到第?五章", said("第3-5章"))


def test_a_version_and_an_address_are_one_sentence():
    """TN-15. Every dot became the end of a sentence. (Its first clause may be synthesised ahead of the rest.)"""
    parts = list(sentences("升级到v2.0.1，把地址改成10.0.8.25，访问example.com", Options()))
    assert len({part.group for part in parts}) == 1
    assert [part.text[-1] for part in parts[:-1]] in ([], ["，"])


def test_a_mobile_number_is_eleven_digits_in_a_row():
    """TN-02. It was read as one hundred and thirty-eight hundred million."""
    assert re.search("[零一二三四五六七八九幺]{11}", said("客服电话是13800001234对吗"))
