"""Texts that look equal have one form, and what changes their look stays."""

import sys
import unicodedata

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from support.growth import assert_grows_gently
from t2t_lite.text.source_form import has_text, is_plain, places, source_form
from t2t_lite.text.text_encoder import ByteTextEncoder, TabEncoder

ANY = st.text(st.characters(exclude_categories=["Cs"]))
# What is composed, reordered, dropped or kept by what stands beside it.
ODD = st.text(
    st.sampled_from(
        "aé e\u0301\u0323\u00a0\u3000\u2028\n\t\u200b\u200c\u200d\u034f\u200e\ufeff\u00ad\x01"
        "\u0628\u0627\u0631\u064b\u0915\u094d\u093f\u093c\u1112\u1161\u11ab\u115f\u09c7\u09be"
        "❤👩🏽♀1\u20e3\ufe0e\ufe0f\U000e0100\u8fbb\ufa19\u1820\u180b\u180e\U0001f3f4\U000e0067\U000e007f"
    ),
    max_size=12,
)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Αθη\u0301να ει\u0301ναι μεγα\u0301λη.", "Αθήνα είναι μεγάλη."),
        ("Tie\u0302\u0301ng Vie\u0323\u0302t", "Tiếng Việt"),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"),
        ("\u212b\u2126\u212a \u037e", "ÅΩK ;"),  # one character stands for another
        ("\ufa19社", "神社"),
        ("a\u00a0b\u3000c\u2009d\u202fe\u1680f\tg\rh", "a b c d e f g h"),
        ("a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg", "a b c d e f g"),
        ("two\nlines", "two\nlines"),
        ("6\u200b km, co\u00adoperate, \u2060word\ufeff", "6 km, cooperate, word"),
        ("\u200f\u202aEnglish\u202c \u2067עברית\u2069\u061c", "English עברית"),
        ("a\x00b\x01c\x7fd\x9fe", "abcde"),
        ("e\u200b\u0301", "é"),  # nothing stands between them any longer
        ("Auf\u200clage e\u200dx", "Auflage ex"),
        ("c\u034fh a\ufe0f \U000e0067", "ch a "),
        ("नमस्ते\u200d सब", "नमस्ते सब"),
        ("با\u200c زار\u200d", "با زار"),
        ("👍\u200d x\u200d👍", "👍 x👍"),
        ("naïve  text ", "naïve  text "),
        ("\ud800 \u00a0", "\ud800  "),
    ],
)
def test_what_looks_equal_is_one_text(text, form):
    assert source_form(text) == form


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم کتاب\u200cها",
        "سنة ١٤٤٥ ه\u200d",
        "क्\u200dष क्\u200cष र्\u200dय",
        "ශ්\u200dරී ලංකා",
        "র\u200d্যাব",
        "ന്\u200dറെ",
        "ಕ\u0ccd\u200c\u200bಷ".replace("\u200b", ""),
        "👩\u200d👩\u200d👧 👩🏽\u200d⚕\ufe0f 🏳\ufe0f\u200d🌈 ❤\ufe0f\u200d🔥",
        "1\ufe0f\u20e3 ☎\ufe0e",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "葛\U000e0100城 神\ufe00",
        "\u182d\u180e\u1820 \u182d\u180b",
        "יְרוּשָׁלַ\u034fִם",
        "\u0600\u0661 \u06dd",  # signs that are formats by category, but can be seen
        "« oui » … “no” – e-mail",
    ],
)
def test_what_can_be_seen_stays(text):
    assert source_form(text) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "\n", "\u00a0\u3000", "\u200b", "\ufeff\ufeff", "\u00ad", "\u2060", "\x00\x01"),
        *("\u200e\u200f", "\u200c\u200d", "\ufe0f", "\u115f\u3164", "\u2800", "\u180e", "\u2029"),
    ],
)
def test_what_nobody_sees_is_no_text(text):
    assert not has_text(text)
    assert source_form(text) == ""


@pytest.mark.parametrize(
    "text", ["a", "\u0301", ".", "\u0600", "\ue000", "\ufffd", "\u200b-", "１"]
)
def test_what_somebody_sees_is_text(text):
    assert has_text(text)
    assert source_form(text)


@given(st.one_of(ANY, ODD))
@example("\u0915\u094d\u093c\u200d\u0937")
@example("\u0628\u200c\u200b\u0628")
def test_the_form_is_final_and_of_all_equivalents_the_same(text):
    form = source_form(text)
    assert source_form(form) == form
    assert source_form(unicodedata.normalize("NFC", text)) == form
    assert source_form(unicodedata.normalize("NFD", text)) == form
    assert form.count("\n") in (text.count("\n"), 0)
    assert has_text(form) == has_text(text)
    assert places(form) == [*range(len(form) + 1)], "no step changes it"


@given(st.one_of(ANY, ODD), st.data())
def test_places_grow_from_the_start_to_the_end(text, data):
    found = places(text)
    assert len(found) == len(text) + 1
    assert found == sorted(found)
    if has_text(text):
        assert found[-1] == len(source_form(text))
    # A place between words is where the form of what stands before it ends.
    place = data.draw(st.integers(0, len(text)))
    joined = f"{text[:place]}x y\n{text[place:]}"
    assert source_form(joined)[places(joined)[place] :].startswith("x y\n")


def test_characters_that_stand_for_something_are_kept():
    assert source_form("e\u0301\x10 \x11", kept="\x10") == "é\x10 "
    assert source_form("\x10", kept="\x10") == "\x10"


def test_no_plain_text_has_what_nobody_sees():
    unseen = regex.compile(r"[\p{Default_Ignorable_Code_Point}\u2800]")
    found = [c for c in map(chr, range(sys.maxunicode + 1)) if unseen.match(c) and is_plain(c)]
    assert found == []


@given(st.lists(st.one_of(ODD, st.sampled_from(["a b", " é ", "", " ", "\u2800"])), max_size=40))
def test_many_texts_are_read_as_each_alone(texts):
    encoder = ByteTextEncoder()
    assert encoder.as_sources(texts) == texts
    encoder.reads_source_form = True
    for one in (encoder, TabEncoder(encoder, "$")):
        assert one.as_sources(texts) == [*map(one.as_source, texts)]


@pytest.mark.integration
@pytest.mark.parametrize(
    "unit",
    ["\u0628\u200c", "👩\u200d", "\u064b\u200d", "\u0301\u0323", "\U000e0067", "\ufe0f"],
    ids=ascii,
)
def test_time_grows_as_the_text_does(unit):
    def work(text):
        source_form(text)
        places(text)

    assert_grows_gently(lambda n: "x" + unit * (n // len(unit)), work, 4000)
