"""Strings as C writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.text.c_strings import read, written


@given(st.text('\\"\n\t\a\r ab4x\u2028é'))
def test_what_is_written_is_read(text):
    lines = written(text, "\n").split("\n")
    assert all(line[0] == line[-1] == '"' for line in lines)
    assert read("".join(line[1:-1] for line in lines), "utf-8") == text


def test_lines_have_strings_of_their_own():
    assert written("a", "\r\n") == '"a"'
    assert written("a\n", "\r\n") == '"a\\n"'
    assert written("a\n\nb", "\r\n") == '""\r\n"a\\n"\r\n"\\n"\r\n"b"'
    assert written("", "\n") == '""'


@pytest.mark.parametrize(
    ("raw", "text"),
    [(r"\x41\101\x0041", "AAA"), (r"\303\xa4", "ä"), (r"\xff", "\ufffd"), (r"\q\\n", "q\\n")],
)
def test_escapes(raw, text):
    assert read(raw, "utf-8") == text
