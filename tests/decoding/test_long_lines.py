import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.growth import assert_grows_gently
from t2t_lite.data.problem import Output
from t2t_lite.decoding.hypotheses import Hypothesis
from t2t_lite.decoding.long_lines import PieceJoiner, join, join_lines, split


def words(limit):
    return lambda text: len(text.split()) <= limit


def characters(limit):
    return lambda text: len(text) <= limit


@pytest.mark.parametrize(
    ("text", "fits", "pieces"),
    [
        ("One two. Three four.", words(4), ["One two. Three four."]),
        ("One two. Three, four.", words(3), ["One two.", "Three, four."]),
        ('He said "no." Then he left.', words(4), ['He said "no."', "Then he left."]),
        ("A b? C d! E f; G h.", words(2), ["A b?", "C d!", "E f;", "G h."]),
        ("Only 3.5 of them, all in all, came", words(4), ["Only 3.5 of them,", "all in all, came"]),
        (
            "So Dr. Smith, of the U.S.A. then, came",
            words(5),
            ["So Dr. Smith,", "of the U.S.A. then, came"],
        ),
        ("Am 3. Mai kam, z. B. er, J. R. Ott", words(6), ["Am 3. Mai kam,", "z. B. er, J. R. Ott"]),
        ("Il dit non !", words(3), ["Il dit", "non !"]),
        ("ཡོད། །མེད། །", characters(6), ["ཡོད། །", "མེད། །"]),
        ("今日は。明日は？昨日は！", characters(4), ["今日は。", "明日は？", "昨日は！"]),
        ("一、二、三", characters(2), ["一、", "二、", "三"]),
        ("一二三四五六。", characters(4), ["一二三", "四五六。"]),
        ("one two three four", words(2), ["one two", "three four"]),
        ("abcdefgh", characters(3), ["ab", "cd", "ef", "gh"]),
        ("x", lambda text: False, ["x"]),
    ],
)
def test_breaks_where_it_hurts_least(text, fits, pieces):
    assert split(text, fits) == pieces


def visible(text: str) -> str:
    return "".join(text.replace("\u200b", " ").split())


@given(st.text().map(str.strip), st.integers(1, 9))
@example("ကျွန်တော်", 3)
@example("a\u0301\u0301\u0301b", 2)
@example("\u200b a \u200b", 1)
def test_every_piece_fits_or_is_one_character_and_nothing_is_lost(text, limit):
    pieces = split(text, characters(limit))
    for piece in pieces:
        assert len(piece) <= limit or len(split(piece, characters(1))) == 1
    assert visible("".join(pieces)) == visible(text)


@given(
    st.lists(
        st.sampled_from(["क", "्", "ि", "ก", "เ", "ี", "ា", "្", "e", "\u0301", " ", "👩", "\u200d"])
    )
    .map("".join)
    .map(str.strip)
)
def test_no_piece_begins_within_a_character(text):
    for piece in split(text, characters(1))[1:]:
        assert unicodedata.category(piece[0])[0] != "M"


@pytest.mark.parametrize(
    "sentences",
    [
        ["बारिश हो रही है।", "हम घर पर हैं।", "आप कब आएंगे?"],
        ["بارش ہو رہی ہے۔", "ہم گھر پر ہیں۔", "آپ کب آئیں گے؟"],
        ["هل وصل القطار؟", "نعم، وصل الآن.", "شكرا!"],
        ["ዝናብ እየዘነበ ነው።", "እኛ ቤት ነን።", "መቼ ትመጣለህ፧"],
        ["မိုးရွာနေသည်။", "ကျွန်တော်တို့အိမ်မှာရှိသည်။"],
        ["Բարեւ ձեզ։", "Ինչպե՞ս եք։"],
        ["ភ្លៀង​កំពុង​ធ្លាក់។", "យើង​នៅ​ផ្ទះ។"],
    ],
)
@pytest.mark.parametrize("between", [" ", ""])
def test_breaks_after_sentences_of_every_script(sentences, between):
    if not between and any(s[-1] in ".!?" for s in sentences):
        between = " "
    longest = max(map(len, sentences))
    assert split(between.join(sentences), characters(longest)) == sentences


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("สวัสดีครับ\u200bผมชื่อ\u200bสมชาย", 11, ["สวัสดีครับ", "ผมชื่อ", "สมชาย"]),
        ("ខ្ញុំ\u200bទៅ\u200bផ្សារ", 8, ["ខ្ញុំ", "ទៅ\u200bផ្សារ"]),
        ("မြန်မာ", 4, ["မြန်", "မာ"]),
        ("แม่น้ำ", 5, ["แม่", "น้ำ"]),
        ("स्त्री", 2, ["स्त्री"]),
        ("ثمنه ١،٥٠٠ دينار، شكرا", 18, ["ثمنه ١،٥٠٠ دينار،", "شكرا"]),
    ],
)
def test_breaks_at_words_and_syllables(text, limit, pieces):
    assert split(text, characters(limit)) == pieces


@pytest.mark.integration
@pytest.mark.parametrize("unit", ["a", "က", ". ", "क्", "\u200b", "\u0301", "("], ids=ascii)
def test_time_grows_as_the_text_does(unit):
    assert_grows_gently(
        lambda n: "x" + unit * (n // len(unit)), lambda text: split(text, characters(40)), 4000
    )


def test_a_very_long_line_without_a_break():
    assert "".join(split("x" * 50_000, characters(40))) == "x" * 50_000


def test_the_only_sentence_end_far_from_the_middle():
    text = "Hm. " + "a b, " * 2000
    assert all(map(words(50), split(text.strip(), words(50))))


@pytest.mark.parametrize(
    ("outputs", "joined"),
    [
        ([], ""),
        (["", ""], ""),
        (["", "One.", "", "Two,", "three", ""], "One. Two, three"),
        (["今日は。", "明日は？", "昨日は"], "今日は。明日は？昨日は"),
        (["一", "二，", "(三)", "four"], "一二，(三) four"),
        (["アｱ", "々", "ー", "𠮷", "「あ」"], "アｱ々ー𠮷「あ」"),
        (
            ["「好。」", "“好！”", "他说……", "好", "“OK.”", "好"],
            "「好。」“好！”他说……好“OK.” 好",
        ),
        (["안녕.", "나는", "간다"], "안녕. 나는 간다"),
        (["ภาษา", "😀", "x"], "ภาษา😀 x"),
        (["ร้านเปิด", "พรุ่งนี้"], "ร้านเปิดพรุ่งนี้"),
        (["ហាងបើក។", "វាធំ។"], "ហាងបើក។វាធំ។"),
        (["ဆိုင်ဖွင့်သည်။", "ကြီးသည်။"], "ဆိုင်ဖွင့်သည်။ကြီးသည်။"),
        (["दुकान खुली है।", "वह बड़ी है।"], "दुकान खुली है। वह बड़ी है।"),
    ],
)
def test_outputs_are_joined_as_their_language_writes(outputs, joined):
    assert join(outputs) == joined


@pytest.mark.integration
def test_the_pieces_of_many_lines_are_joined_in_time_that_grows_as_they_do():
    def join_many(count):
        joiner = PieceJoiner([[1] * count], {}, lambda _, lines: join_lines(lines))
        hypotheses = [Hypothesis(Output("a"), [5, 1], -1.0)]
        results = [joiner.add(n, {n: hypotheses}) for n in range(count)]
        (joined,) = results[-1].sources[0]
        assert joined.output.text == "\n".join("a" * count)

    assert_grows_gently(lambda size: size, join_many, 1000)


def test_what_is_told_of_blocks_is_one_list():
    told = [{"terms": [1, 2]}, {}, {"terms": [3], "name": "x"}]
    blocks = [[Hypothesis(Output("a"), [5], -1.0, fields=fields)] for fields in told]
    (joined,) = join_lines(blocks)
    assert (joined.output.text, joined.score) == ("a\na\na", -3.0)
    assert joined.fields == {"terms": [1, 2, 3], "name": ["x"]}
