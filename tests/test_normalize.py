"""Readings of everything that is not a plain word, Chinese and English, as a table; and how languages are told."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from cosycli.text import grammar, rules_zh
from cosycli.text.normalize import decide, foreign, normalize, speakable

CHINESE = [
    ("错误0x8007AF05", "错误零X八零零七AF零五"),
    ("今天早起 跑步五公里", "今天早起，跑步五公里"),
    ("二〇二四年", "二零二四年"),
    ("本科211/985", "本科二一一，九八五"),
    ("歼-20和J-20", "歼二十和J 二十"),
    ("ISBN号978-7-111-12345-6", "ISBN号九七八，七，幺幺幺，幺二三四五，六"),
    ("50kg/人", "五十千克每人"),
    ("配速5'30\"", "配速五分三十秒"),
    ("女排3:0横扫，局分25-18", "女排三比零横扫，局分二十五比十八"),
    ("内存从1.2k到3.5k", "内存从一点二K到三点五K"),
    ("收据No.20240315001", "收据第二零二四零三一五零零一"),
    ("价值$60k", "价值六万美元"),
    ("8月15-20日", "八月十五到二十日"),
    ("心率60-100次/分", "心率六十到一百次每分"),
    ("北京时间14:00，UTC+8", "北京时间十四点，UTC加八"),
    ("新增了300项功能", "新增了三百项功能"),
    ("速度提高150倍", "速度提高一百五十倍"),
    ("用了200年", "用了两百年"),
    ("买了2000个", "买了两千个"),
    ("一共102人", "一共一百零二人"),
    ("客服电话是13800001234对吗", "客服电话是幺三八零零零零幺二三四对吗"),
    ("手机+86 138-0000-1234", "手机加八六幺三八零零零零幺二三四"),
    ("座机010-12345678", "座机零幺零幺二三四五六七八"),
    ("热线400-810-1234", "热线四零零八幺零幺二三四"),
    ("请拨打110或120", "请拨打幺幺零或幺二零"),
    ("10086客服", "幺零零八六客服"),
    ("验证码是483920", "验证码是四八三九二零"),
    ("订单号20260307123456", "订单号二零二六零三零七幺二三四五六"),
    ("房间302", "房间三零二"),
    ("A座1201室", "A座幺二零幺室"),
    ("身份证11010519491231002X", "身份证一一零一零五一九四九一二三一零零二X"),
    ("买10.5米电缆和12.5平方电线", "买十点五米电缆和十二点五平方电线"),
    ("圆周率3.14", "圆周率三点一四"),
    ("发布日期是2026-03-07", "发布日期是二零二六年三月七日"),
    ("1998.5.6", "一九九八年五月六日"),
    ("2024/5/6", "二零二四年五月六日"),
    ("2024-03", "二零二四年三月"),
    ("2020-2023年", "二零二零到二零二三年"),
    ("2023-2024学年", "二零二三到二零二四学年"),
    ("2024-25赛季", "二零二四到二五赛季"),
    ("1990年代", "一九九零年代"),
    ("90后和95后", "九零后和九五后"),
    ("2008奥运", "二零零八奥运"),
    ("在2012发布", "在二零一二发布"),
    ("3000年前", "三千年前"),
    ("1月1日至3日", "一月一日至三日"),
    ("5月1日-5日", "五月一日到五日"),
    ("周一-周五", "周一到周五"),
    ("合同金额为1,250,300元", "合同金额为一百二十五万零三百元"),
    ("占比12.50%", "占比百分之十二点五零"),
    ("单价¥1,299.00", "单价一千二百九十九元"),
    ("1,000", "一千"),
    ("¥100-200", "一百到两百元"),
    ("$5M", "五百万美元"),
    ("€3.5", "三点五欧元"),
    ("-$5", "负五美元"),
    ("价格是12.00元", "价格是十二元"),
    ("100元/月", "一百元每月"),
    ("12元/kg", "十二元每千克"),
    ("约为正常的42%", "约为正常的百分之四十二"),
    ("涨幅-0.5%", "涨幅负百分之零点五"),
    ("浓度5‰", "浓度千分之五"),
    ("+5%", "正百分之五"),
    ("100%纯棉", "百分之百纯棉"),
    ("20%~30%", "百分之二十到百分之三十"),
    ("10-20%", "百分之十到百分之二十"),
    ("每次50ml", "每次五十毫升"),
    ("血压120mmHg", "血压一百二十毫米汞柱"),
    ("尿量2L", "尿量两升"),
    ("数值<5且≥3", "数值小于五且大于等于三"),
    ("湿度55%", "湿度百分之五十五"),
    ("温度18℃", "温度十八摄氏度"),
    ("-5~3℃", "负五到三摄氏度"),
    ("-10℃~-5℃", "负十摄氏度到负五摄氏度"),
    ("60km/h", "六十公里每小时"),
    ("5.6mmol/L", "五点六毫摩尔每升"),
    ("3次/周", "三次每周"),
    ("5m²", "五平方米"),
    ("25m³", "二十五立方米"),
    ("220V，50Hz", "两百二十伏，五十赫兹"),
    ("16GB内存", "十六GB内存"),
    ("500MB", "五百兆"),
    ("4K视频", "四K视频"),
    ("5000mAh", "五千毫安时"),
    ("24h", "二十四小时"),
    ("10ms", "十毫秒"),
    ("误差±0.5mm", "误差正负零点五毫米"),
    ("现在是07:05", "现在是七点零五分"),
    ("会议19:17开始", "会议十九点十七分开始"),
    ("12:30-14:00", "十二点三十分到十四点"),
    ("8:00-12:00", "八点到十二点"),
    ("2:00", "两点"),
    ("10:05:30", "十点零五分三十秒"),
    ("3pm开会", "下午三点开会"),
    ("8:05 AM到公司", "上午八点零五分到公司"),
    ("等待15~20秒", "等待十五到二十秒"),
    ("共15-20人", "共十五到二十人"),
    ("第3-5章", "第三到五章"),
    ("2-3个", "两到三个"),
    ("5kg-10kg", "五千克到十千克"),
    ("1～3岁", "一到三岁"),
    ("10—20元", "十到二十元"),
    ("升级到v2.0.1", "升级到V二点零点一"),
    ("版本10.15.7", "版本十点十五点七"),
    ("Python3.11很快", "Python三点一一很快"),
    ("把地址改成10.0.8.25", "把地址改成十点零点八点二十五"),
    ("地址127.0.0.1:8080", "地址一二七点零点零点一冒号八零八零"),
    ("访问example.com", "访问example 点 com"),
    ("邮箱 a.b@c.com", "邮箱 a 点 b 艾特 c 点 com"),
    ("见 README.md 和 Node.js", "见 readme 点 md 和 Node 点 js"),
    ("#1", "一号"),
    ("6÷2", "六除以二"),
    ("2×3", "二乘三"),
    ("3＋5＝8", "三加五等于八"),
    ("*3", "三"),
    ("3 - 2 = 1", "三减二等于一"),
    ("10-3=7", "十减三等于七"),
    ("2^10=1024", "二的十次方等于一千零二十四"),
    ("10⁻³", "十的负三次方"),
    ("a<b", "a小于b"),
    ("1e-5", "一乘十的负五次方"),
    ("1/2杯", "二分之一杯"),
    ("3/4时间", "四分之三时间"),
    ("7x24", "七乘二十四"),
    ("24/7", "二十四小时"),
    ("比分3:2", "比分三比二"),
    ("16:9", "十六比九"),
    ("1:500", "一比五百"),
    ("2-1战胜", "二比一战胜"),
    ("比分102-98", "比分一百零二比九十八"),
    ("1-1平", "一比一平"),
    ("第2名", "第二名"),
    ("2楼", "二楼"),
    ("2号去", "二号去"),
    ("2两酒", "二两酒"),
    ("2升", "两升"),
    ("2点钟", "两点钟"),
    ("2年", "两年"),
    ("3号楼2单元", "三号楼二单元"),
    ("No.5", "第五"),
    ("TOP10", "TOP十"),
    ("B2B平台", "B to B平台"),
    ("iPhone15", "iPhone十五"),
    ("5G网络", "五G网络"),
    ("RTX4090", "RTX四零九零"),
    ("H200", "H两百"),
    ("PM2.5", "PM二点五"),
    ("京A12345", "京A一二三四五"),
    ("CA1501航班", "CA一五零一航班"),
    ("G1234次列车", "G一二三四次列车"),
    ("C#和C++", "C sharp和C加加"),
    ("HTTP 502错误", "HTTP 五零二错误"),
    ("10w+粉丝", "十万多粉丝"),
    ("100+项目", "一百多项目"),
    ("18+", "十八加"),
    ("1.5亿", "一点五亿"),
    ("2万5", "两万五"),
    ("0.5x", "零点五倍"),
    ("00123", "零零一二三"),
    ("1984年", "一九八四年"),
    ("3.5折", "三点五折"),
    ("满300减50", "满三百减五十"),
    ("A → B", "A到B"),
    ("苹果&香蕉", "苹果和香蕉"),
    ("R&D部门", "R and D部门"),
    ("～30%左右", "约百分之三十左右"),
    ("2*3和a_b", "二乘三和a b"),
    ("标签<|endofprompt|>后有5个", "标签后有五个"),
    ("请看 OPEN SOURCE GUIDE 这本书，GPU和CPU都支持", "请看 open source guide 这本书，GPU和CPU都支持"),
    ("啊？原来如此。呃，好的。", "啊？原来如此。呃，好的。"),
    ("好的😀谢谢👍🏽", "好的谢谢"),
    ("３个苹果", "三个苹果"),
    ("①番茄", "一、番茄"),
    ("第Ⅳ章", "第四章"),
    ("½杯", "二分之一杯"),
    ("身高5'11\"", "身高五英尺十一英寸"),
    ("9·11事件", "九一一事件"),
    ("-3度", "负三度"),
    ("温度：-5°C", "温度：负五摄氏度"),
    ("QPS 从 1.2k 提升到 3.5k", "QPS 从一点二K 提升到三点五K"),
    ("S02E13", "S零二E十三"),
    ("周一-周五", "周一到周五"),
    ("C#和C++", "C sharp和C加加"),
    ("½杯", "二分之一杯"),
    ("第Ⅳ章", "第四章"),
    ("x²是平方", "x的平方是平方"),
    ("一共500 USD", "一共五百美元"),
    ("HK$20的票", "二十港元的票"),
    ("CO₂排放", "CO二排放"),
    ("用GPT-4写", "用GPT 四写"),
    ("COVID-19疫情", "covid 十九疫情"),
]

ENGLISH = [
    ("error 0x8007AF05", "error zero X eight zero zero seven A F zero five"),
    ("Total: €12.50.", "Total: twelve euros and fifty cents."),
    ("until 12/31/2025", "until December thirty-first, twenty twenty-five"),
    ("(2 × USB-C cable, 1.5 m)", "(two times USB-C cable, one point five meters)"),
    ("up 1.5% to 5,321.41", "up one point five percent to five thousand three hundred twenty-one point four one"),
    ("Der Preis ist 3,50 €.", "Der Preis ist three euros and fifty cents."),
    (
        "It costs $1234.56 at 08:05 AM.",
        "It costs one thousand two hundred thirty-four dollars and fifty-six cents at eight oh five A M.",
    ),
    ("1,200 tokens", "one thousand two hundred tokens"),
    ("It weighs 1,000,000 tons.", "It weighs one million tons."),
    ("On March 3rd, 2024 we had 25% off", "On March third, twenty twenty-four we had twenty-five percent off"),
    ("In the 1990s and '80s", "In the nineteen nineties and eighties"),
    ("from 2020-2023", "from twenty twenty to twenty twenty-three"),
    ("Released 2024-05-06 at 10:30", "Released May sixth, twenty twenty-four at ten thirty"),
    ("Pi is 3.14", "Pi is three point one four"),
    ("5 km and 1 kg", "five kilometers and one kilogram"),
    ("60 mph", "sixty miles per hour"),
    ("1/2 cup", "one half cup"),
    ("2 1/2 cups", "two and a half cups"),
    ("3/4 full", "three quarters full"),
    ("the 21st century", "the twenty-first century"),
    ("the 2nd and 3rd", "the second and third"),
    ("v2.0.1 is out", "version two point zero point one is out"),
    ("Python 3.11", "Python three point one one"),
    ("$5M raised", "five million dollars raised"),
    ("$3.5 billion", "three point five billion dollars"),
    ("It is £3.50", "It is three pounds and fifty pence"),
    ("€20-30 each", "twenty to thirty euros each"),
    ("just $0.99", "just ninety-nine cents"),
    ("only $1", "only one dollar"),
    ("100MB free", "one hundred megabytes free"),
    ("16 GB RAM", "sixteen gigabytes RAM"),
    ("GPT-4 model", "GPT four model"),
    ("iPhone 15", "iPhone fifteen"),
    ("B2B sales", "B to B sales"),
    ("COVID-19 cases", "covid nineteen cases"),
    ("an RTX4090", "an RTX forty ninety"),
    ("cats & dogs", "cats and dogs"),
    ("call 555-123-4567", "call five five five, one two three, four five six seven"),
    ("call +1 (555) 123-4567", "call plus one, five five five, one two three, four five six seven"),
    ("host 192.168.0.1:8080", "host one nine two dot one six eight dot zero dot one port eight zero eight zero"),
    ("net 10.0.0.0/8", "net ten dot zero dot zero dot zero slash eight"),
    ("-5°C outside", "minus five degrees Celsius outside"),
    ("5-10 people", "five to ten people"),
    ("Chapter 3", "Chapter three"),
    ("pages 12-15", "pages twelve to fifteen"),
    ("in 2024", "in twenty twenty-four"),
    ("2000 books", "two thousand books"),
    ("since 1066", "since ten sixty-six"),
    ("We won 3-2", "We won three to two"),
    ("a 16:9 screen", "a sixteen to nine screen"),
    ("Mail a.b-c@example.com", "Mail a dot b dash c at example dot com"),
    ("see README.md", "see readme dot md"),
    ("visit example.com", "visit example dot com"),
    ("#1 fan", "number one fan"),
    ("No. 5", "number five"),
    ("C# and C++", "C sharp and C plus plus"),
    ("at 7:00 PM", "at seven P M"),
    ("at 7pm", "at seven P M"),
    ("at 7:00 sharp", "at seven o'clock sharp"),
    ("at 9:30 a.m. today", "at nine thirty A M today"),
    ("so 2 + 3 = 5", "so two plus three equals five"),
    ("and 10 - 3 = 7", "and ten minus three equals seven"),
    ("x^2 is x squared", "x squared is x squared"),
    ("if n < 0 then", "if n less than zero then"),
    ("10x faster", "ten times faster"),
    ("1920x1080 screen", "nineteen twenty by ten eighty screen"),
    ("100+ items", "one hundred plus items"),
    ("open 24/7", "open twenty-four seven"),
    ("4K video", "four K video"),
    ("10k users", "ten thousand users"),
    ("2.5M views", "two point five million views"),
    ("July 4, 1776", "July fourth, seventeen seventy-six"),
    ("4 July 1776", "fourth of July seventeen seventy-six"),
    ("May 5-7", "May fifth to seventh"),
    ("order 20260307123456", "order two zero two six zero three zero seven one two three four five six"),
    ("agent 007", "agent zero zero seven"),
    ("R&D costs", "R and D costs"),
    ("$100/month", "one hundred dollars per month"),
    ("60 km/h", "sixty kilometers per hour"),
    ("5 mg/dL", "five milligrams per deciliter"),
    ("99.99% uptime", "ninety-nine point nine nine percent uptime"),
    ("UTF-8 text", "UTF eight text"),
    ("Dr. Smith vs. Mr. Jones", "Doctor Smith versus Mister Jones"),
    ("fruit, e.g. apples", "fruit, for example apples"),
    ("OPEN SOURCE GUIDE", "open source guide"),
    ("THIS IS A TEST", "this is a test"),
    ("NASA uses HTTP and USB", "nasa uses HTTP and USB"),
    ("it’s a dog’s life", "it's a dog's life"),
    ("about ~30% more", "about thirty percent more"),
    ("5'11\" tall", "five foot eleven tall"),
    ("1e-5 tolerance", "one times ten to the power of minus five tolerance"),
    ("Über 12 Schüler lernen Französisch, groß.", "Über twelve Schüler lernen Französisch, groß."),
    ("the word 你好 means hello 5 times", "the word 你好 means hello five times"),
]


@pytest.mark.parametrize(("written", "said"), CHINESE)
def test_chinese_reading(written: str, said: str) -> None:
    """TN-01 to TN-34, each kind with several examples: what is written is said like this."""
    assert normalize(written) == said


@pytest.mark.parametrize(("written", "said"), ENGLISH)
def test_english_reading(written: str, said: str) -> None:
    """TN-18, TN-19, TN-21, TN-22 and the English of every other kind."""
    assert normalize(written) == said


@pytest.mark.parametrize("written", [row[0] for row in CHINESE + ENGLISH])
def test_no_digit_or_sign_is_left(written: str) -> None:
    """A digit that reaches the pronouncer is read by guesswork, so none may; in either language."""
    for language in ("zh", "en"):
        assert not re.search(r"[0-9#$%&*+/<=>@\\^_|~€£¥°²³‰≤≥×÷±→]", normalize(written, language=language))


def test_symbol_beside_digits_does_not_raise() -> None:
    """TN-16: a text without Chinese that began with a symbol next to digits ended in an AssertionError."""
    said = [normalize(text) for text in ("#1", "6÷2", "2×3", "3＋5＝8", "+86 13800001234", "*3")]
    assert said == ["一号", "六除以二", "二乘三", "三加五等于八", "加八六幺三八零零零零幺二三四", "三"]


def test_hyphenated_date_keeps_its_hyphens_until_read() -> None:
    """TN-05: a pre-cleaning step turned the hyphens of an ISO date into "minus"."""
    said = normalize("发布日期是2026-03-07，截止2026-12-31。")
    assert said == "发布日期是二零二六年三月七日，截止二零二六年十二月三十一日。"


def test_mobile_number_before_a_measure_word_is_spelled() -> None:
    """TN-02: eleven digits before 对 were read as thirteen billion pairs of something."""
    for number in ("13800001234", "18612345678", "199-0000-1111"):
        said = normalize(f"号码{number}对吗")
        assert re.search("[零幺二三四五六七八九]{11}", said)
        assert not re.search("[亿万百]", said)


def test_typographic_apostrophe_reads_like_the_straight_one() -> None:
    """TN-21: it’s and it's were two different words to the pronouncer."""
    for word in ("it’s", "don’t", "they’re", "we’ll", "I’m", "o’clock"):
        assert normalize(f"{word} here") == normalize(f"{word.replace('’', chr(39))} here")


def test_capitals_that_are_words_are_lowered_and_abbreviations_kept() -> None:
    """TN-22: OPEN SOURCE was spelled letter by letter in Chinese text."""
    said = normalize("请看 OPEN SOURCE GUIDE，用GPU、CPU、HTTP、USB和API，别碰 DANGER ZONE")
    assert "open source guide" in said
    assert "danger zone" in said
    assert all(name in said for name in ("GPU", "CPU", "HTTP", "USB", "API"))


def test_emoji_do_not_change_the_reading() -> None:
    """TN-26: emoji were read out, or made the text empty."""
    assert normalize("好的😀谢谢👍🏽") == normalize("好的谢谢") == "好的谢谢"
    assert normalize("3️⃣个👨‍👩‍👧🇨🇳") == "个"


def test_interjections_stay() -> None:
    """TN-27: 呃, 啊 and 嗯 at the beginning were dropped as noise."""
    assert normalize("啊？原来如此。呃，好的。嗯。") == "啊？原来如此。呃，好的。嗯。"


def test_control_token_does_not_switch_reading_off() -> None:
    """TN-34: text that held a model's control token was passed on unread, token included."""
    for token in ("<|endofprompt|>", "<|im_start|>", "＜｜endofprompt｜＞", "<<|x|>|endofprompt|>"):
        said = normalize(f"标签{token}后有5个")
        assert said.endswith("后有五个")
        assert "<" not in said
        assert "|" not in said


def test_other_language_keeps_its_letters_and_is_named() -> None:
    """TN-18: German lost ä, ö, ü and ß; it keeps them, and the caller can warn."""
    german = "Über 12 Schüler lernen Französisch, groß."
    assert all(letter in normalize(german) for letter in "Üüöß")
    assert foreign(german) == "German"
    assert foreign("Je ne sais pas où vous êtes.") == "French"
    assert foreign("これは日本です") == "Japanese"
    assert foreign("Привет, мир") == "Cyrillic"
    for ours in ("The café near the Zürich station is open.", "今天去café。", "Hello there.", "123"):
        assert foreign(ours) is None


def test_language_is_that_of_the_sentence() -> None:
    """A Chinese sentence with English in it counts in Chinese, and the other way round."""
    assert normalize("我有3个apple和2本Python Cookbook") == "我有三个apple和两本Python Cookbook"
    assert decide("The word 你好 means hello") == "en"
    assert decide("2026-03-07", "en") == "en"
    assert decide("2026-03-07") == "zh"


def test_speakable_needs_a_letter_or_digit() -> None:
    """SG-06: punctuation alone was given to the model."""
    for silent in ("……！？", "。。。", "———", "", " \n", "😀👍🏽", "\ufeff\u200b", "*** --- |", "。”"):
        assert not speakable(silent)
    for said in ("好", "a", "5", "é", "！”他"):
        assert speakable(said)


def test_plain_text_loads_no_grammar() -> None:
    """Importing wetext costs 0.27 s; text without figures must not pay for its grammars, nor the import ever."""
    program = (
        "import sys; from cosycli.text.normalize import normalize, speakable;"
        "speakable('好'); normalize('今天天气很好，我们走吧！C#也行。'); assert 'kaldifst' not in sys.modules;"
        "normalize('新增300项'); assert 'kaldifst' in sys.modules; assert 'wetext' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_failing_grammar_does_not_silence_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong inside the grammar, its figures are read digit by digit."""

    def broken(text: str) -> str:
        raise AssertionError(text)

    monkeypatch.setattr(grammar, "read", broken)
    assert rules_zh.read("新增了300项") == "新增了三零零项"


def test_grammar_reads_what_wetext_reads() -> None:
    """Our way of running wetext's graphs gives what wetext itself gives."""
    import wetext

    reader = wetext.Normalizer(lang="zh", remove_erhua=False)
    for text in ("新增了300项功能", "2026-03-07", "晚上8:30", "1/2杯", "第3章", "共15-20人", "25°C"):
        assert grammar.read(text) == reader.normalize(text)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("第1/3页", "第一页，共三页"),
        ("第1/3页，共3页", "第一页，共三页"),
        ("3/8妇女节快乐", "三八妇女节快乐"),
        ("切成3/8英寸", "切成八分之三英寸"),
        ("x86_64架构", "x八十六六十四架构"),
        ("买苹果x2", "买苹果乘二"),
        ("Fe³⁺离子", "Fe 三加离子"),
        ("①②③", "一、二、三"),
        ("E=mc²", "E equals mc squared"),
        ("the value x² grows", "the value x squared grows"),
        ("221B Baker Street is here", "two hundred twenty-one B Baker Street is here"),
        ("it cost $3B in all", "it cost three billion dollars in all"),
    ],
)
def test_forms_that_look_like_other_ones(written, said):
    """②③ was twenty-three, x86 a multiplication, a holiday a fraction, a house 221 billion, and mc² lost its square."""
    assert normalize(written) == said
