"""A .po file is edited in place: messages get the translations that they lack, all else stays."""

import codecs
import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.growth import assert_grows_gently
from t2t_lite.decoding.documents.po_file import PoFile
from t2t_lite.errors import DataError
from t2t_lite.text.tags.kinds import PLACEHOLDERS
from t2t_lite.text.tags.tokens import TokenKind, tokens_of

HEADER = r"""msgid ""
msgstr ""
"Project-Id-Version: app 1\n"
"Last-Translator: A B <a@example.org>\n"
"Language: xx\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"""
PLURALS = r""""Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n<5 ? 1 : 2);\n"
"""

PO = (
    f"# A translator's comment\n{HEADER}{PLURALS}"
    + r"""
#: app.c:10
msgid "Open file"
msgstr "Datei öffnen"

#, c-format
msgid "Two lines:\n%s\tand %d\n"
msgstr ""

msgctxt "menu"
msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

#, fuzzy
msgid "New"
msgstr "Alt"

#~ msgid "gone"
#~ msgstr "weg"
"""
)


def loud(segment):
    """Stands for a model: it shouts what it reads."""
    return "".join(
        token.raw.upper() if token.kind is TokenKind.TEXT else token.raw
        for token in tokens_of(segment, PLACEHOLDERS)
    )


def translated(document, model=loud):
    return document.translated([model(segment) for segment in document.segments])


def shouted(text, fuzzy=False):
    return translated(PoFile(text.encode(), fuzzy)).decode()


def message(text="Open", flags="", translation=""):
    comment = f"#, {flags}\n" if flags else ""
    return f'{comment}msgid "{text}"\nmsgstr "{translation}"\n'


def test_messages_without_a_translation_get_one():
    document = PoFile(PO.encode())
    assert document.segments == ["Two lines:", "%s", "and %d", "%d file", "%d files"]
    expected = PO.replace(
        r"""\tand %d\n"
msgstr ""
""",
        r"""\tand %d\n"
msgstr ""
"TWO LINES:\n"
"%s\tAND %d\n"
""",
    )
    for number, text in enumerate(["%d FILE", "%d FILES", "%d FILES"]):
        expected = expected.replace(f'msgstr[{number}] ""', f'msgstr[{number}] "{text}"')
    assert translated(document).decode() == expected
    assert str(document.report) == "2 translated, 1 kept, 1 left (fuzzy: 1)"
    again = PoFile(expected.encode())
    assert again.segments == []
    assert again.translated([]).decode() == expected
    assert str(again.report) == "0 translated, 3 kept, 1 left (fuzzy: 1)"


def test_flags_above_an_obsolete_message_are_its_own():
    old = '#, c-format, fuzzy\n#~| msgid "o"\n#~ msgid "a"\n#~ msgstr "b"\n'
    new = message("10% of it").replace('""', '"10% OF IT"')
    for space in ("\n", ""):
        found = shouted(f"{HEADER}\n{old}{space}{message('10% of it')}", fuzzy=True)
        assert found == f"{HEADER}\n{old}{space}#, fuzzy\n{new}"
        found = shouted(f"{HEADER}\n{old}{space}{message('Open %s', 'c-format')}")
        assert found.endswith(message("Open %s", "c-format", "OPEN %s"))


STAYS = [
    'msgid "Bell \\a \\x41 \\101 \\v"\nmsgstr "Glocke \\a \\x41 \\101 \\v"\n',
    'msgid ""\n"wrapped "\n"here"\nmsgstr "um"\n"brochen"\n',
    '#. extracted\n#: a.c:1\n# after\n#, c-format\n#| msgid "o"\nmsgid "a"\nmsgstr "b"\n',
    '#: a b.c:3 c.c:4\n#: d.c:5\nmsgid "a" msgstr "b"\n',
    '#~| msgid "o"\n#~ msgid "a"\n#~ msgid_plural "b"\n#~ msgstr[0] ""\n#~ msgstr[1] ""\n',
    "#= sticky\n",
    'msgctxt "c"\nmsgid ""\nmsgstr ""\n',
    'msgid "a\u2028b\x85c"\nmsgstr "A\u2028\x85"\n',
    '#, fuzzy\nmsgid "a"\nmsgstr "b"\n',
    'msgid "a"\n# inside\nmsgstr "b"\n# inside, too\n"c"\n',
    'domain "other"\nmsgid "a"\nmsgstr "b"\n',
    'msgid "a"\nmsgstr "b"',
    "\n\t\n",
]


@st.composite
def files(draw):
    """Draws a file, what it becomes, and its charset."""
    charset = draw(st.sampled_from(["UTF-8", "ISO-8859-1", "SHIFT_JIS", "GB18030"]))
    pieces = st.sampled_from(
        [(piece, piece) for piece in STAYS if piece.isascii() or charset == "UTF-8"]
        + [
            (message(), message(translation="OPEN")),
            ('msgid ""\n"a"\nmsgstr ""\n""\n', 'msgid ""\n"a"\nmsgstr "A"\n'),
            (
                'msgid "\\t\\"\\x61\\n"\nmsgstr ""\n',
                'msgid "\\t\\"\\x61\\n"\nmsgstr "\\t\\"A\\n"\n',
            ),
            ("# \\ \u8868\n", "# \\ \u8868\n") if charset in ("SHIFT_JIS", "UTF-8") else ("", ""),
        ]
    )
    drawn = draw(st.lists(pieces, max_size=6))
    header = HEADER.replace("UTF-8", charset)
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    bom = codecs.BOM_UTF8 if charset == "UTF-8" and draw(st.booleans()) else b""
    old, new = (
        bom + "\n".join([header, *texts]).replace("\n", newline).encode(charset)
        for texts in ([pair[0] for pair in drawn], [pair[1] for pair in drawn])
    )
    return old, new


@given(files())
def test_all_but_translations_stays_byte_for_byte(pair):
    old, new = pair
    assert translated(PoFile(old)) == new
    assert translated(PoFile(new)) == new


def test_a_file_in_utf_16_stays_so():
    old, new = (
        (HEADER.replace("UTF-8", "UTF-16") + message("a", "", target)).encode("utf-16")
        for target in ("", "\xe4")
    )
    assert PoFile(old).translated(["\xe4"]) == new


@given(st.text('msgidtr"\\[]01#,~|fuzzy \r\n\x85\u2028a', max_size=80))
def test_what_is_no_file_is_an_error_and_else_nothing_is_lost(text):
    contents = message(translation="x").encode() + text.encode()
    try:
        document = PoFile(contents)
    except DataError:
        return
    kept = document.translated(document.segments).splitlines()
    assert set(contents.splitlines()) <= {*kept, b'msgstr ""'}


@pytest.mark.parametrize(
    ("formula", "ones"),
    [
        ("nplurals=1; plural=0;", [False]),
        ("nplurals=2; plural=(n != 1);", [True, False]),
        ("nplurals=2; plural=n>1;", [False, False]),  # form 0 serves none, too
        ("nplurals=2; plural=n%10==1 && n%100!=11 ? 0 : 1;", [False, False]),
        ("nplurals=3; plural=n==1 ? 2 : n==2 ? 1 : 0;", [False, False, True]),
        (
            "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 "
            ": n%100>=11 ? 4 : 5);",
            [False, True, False, False, False, False],
        ),
    ],
)
@pytest.mark.parametrize("given", [1, 2, 6])
def test_a_form_is_the_singular_if_it_serves_the_number_one_alone(formula, ones, given):
    """A file has the forms of its language, whatever its template had."""
    header = f'{HEADER}"Plural-Forms: {formula}\\n"\n'
    ids = '\nmsgid "a file"\nmsgid_plural "%d files"\n'
    found = shouted(header + ids + "".join(f'msgstr[{n}] ""\n' for n in range(given)))
    expected = [f'msgstr[{n}] "{"A FILE" if one else "%d FILES"}"\n' for n, one in enumerate(ones)]
    assert found == header + ids + "".join(expected)


def test_wrapped_formulas_are_read():
    field = '"Plural-Forms: nplurals=2; "\n"plural=n == 1;\\n"\n'
    ids = 'msgid "one"\nmsgid_plural "many"\nmsgstr[0] ""\n'
    assert 'msgstr[0] "MANY"\nmsgstr[1] "ONE"' in shouted(HEADER + field + ids)


@pytest.mark.parametrize(
    "formula",
    [
        "nplurals=INTEGER; plural=EXPRESSION;",
        "nplurals=0; plural=0;",
        "nplurals=999999999999; plural=0;",
        "nplurals=²; plural=0;",
        "nplurals=2; plural=EXPRESSION;",
        "nplurals=2; plural=n;",
        "nplurals=2; plural=1/n;",
        "nplurals=2;",
    ],
)
def test_a_header_that_does_not_say_the_plural_forms_is_reported(formula):
    ids = 'msgid "one"\nmsgid_plural "many"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    document = PoFile(f'{HEADER}"Plural-Forms: {formula}\\n"\n{ids}'.encode())
    assert b'msgstr[0] "ONE"\nmsgstr[1] "MANY"\n' in translated(document)
    (note,) = document.report.notes
    assert "Plural-Forms" in note
    assert not PoFile((HEADER + message()).encode()).report.notes


def test_forms_that_a_person_has_translated_stay():
    ids = 'msgid "one"\nmsgid_plural "many"\n'
    text = f'{HEADER}{PLURALS}{ids}msgstr[0] "eins"\nmsgstr[1] ""\nmsgstr[2] "viele"\n'
    assert shouted(text) == text.replace('msgstr[1] ""', 'msgstr[1] "MANY"')


def test_new_translations_are_marked_for_review():
    text = HEADER + "\n".join(
        [
            message("A"),
            message("B", "c-format"),
            message("C", "fuzzy, c-format"),
            message("D", "fuzzy", "d"),
            message("E", "", "e"),
            '#: x.c:1\n#| msgid "f"\nmsgid "F"\nmsgstr ""\n',
            '#: x.c:2\n#, no-wrap\n#| msgid "g"\nmsgctxt "x"\nmsgid "G"\nmsgstr ""\n',
        ]
    )
    expected = HEADER + "\n".join(
        [
            message("A", "fuzzy", "A"),
            message("B", "fuzzy, c-format", "B"),
            message("C", "fuzzy, c-format", "C"),
            message("D", "fuzzy", "d"),
            message("E", "", "e"),
            '#: x.c:1\n#, fuzzy\n#| msgid "f"\nmsgid "F"\nmsgstr "F"\n',
            '#: x.c:2\n#, fuzzy, no-wrap\n#| msgid "g"\nmsgctxt "x"\nmsgid "G"\nmsgstr "G"\n',
        ]
    )
    assert shouted(text, fuzzy=True) == expected
    assert shouted(expected, fuzzy=True) == expected
    assert shouted(message(), fuzzy=True) == message("Open", "fuzzy", "OPEN")


def test_the_charset_of_the_header_is_obeyed():
    text = (HEADER + message("a") + message("b", "", "\xe4")).replace("UTF-8", "ISO-8859-1")
    document = PoFile(text.encode("latin-1"))
    found = document.translated(["\xfc"])
    assert found.decode("latin-1") == text.replace('"a"\nmsgstr ""', '"a"\nmsgstr "\xfc"')
    with pytest.raises(DataError, match=r"ISO8859-1, lacks 'Ж'.* msgconv --to-code=UTF-8"):
        document.translated(["Ж"])
    with pytest.raises(DataError, match=r"not in UTF-8 .*: convert it"):
        PoFile(HEADER.encode() + b'msgid "\xe4"\nmsgstr ""\n')


@pytest.mark.parametrize("name", ["klingon", "UTF-16", "rot13", "hex", "unicode_escape", "cp037"])
def test_charsets_that_no_file_can_have_are_refused(name):
    with pytest.raises(DataError, match=f"charset '{name}': expected one that extends ASCII"):
        PoFile(HEADER.replace("UTF-8", name).encode())


def test_a_template_becomes_utf_8_where_it_must():
    text = HEADER.replace("UTF-8", "CHARSET") + "# CHARSET\n" + message("a")
    for target, charset in (("b", "CHARSET"), ("\xe4", "UTF-8")):
        found = PoFile(text.encode()).translated([target]).decode()
        assert found == HEADER.replace("UTF-8", charset) + "# CHARSET\n" + message("a", "", target)


@pytest.mark.parametrize("end", [r"\t", r"\v", r"\r", "\x85", "\u2028"])
def test_what_ends_lines_elsewhere_stays_where_it_is(end):
    document = PoFile(message(f"a{end}b{end}").encode())
    assert document.segments == ["a", "b"]
    assert translated(document).decode().endswith(f'msgstr "A{end}B{end}"\n')


def test_bytes_may_be_escaped():
    assert PoFile(message(r"\303\274ber \xc3\xa4").encode()).segments == ["über ä"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("../other.po\n", r"line 1: expected a string.*'\.\./other\.po'"),
        ('msgid "a"\nfoo "b"\n', "line 2: .*'foo"),
        ('msgid "a\nmsgstr ""\n', "line 1: .*string in double"),
        ('msgid "a"\nmsgstr "\\"\n', "line 2: "),
        ('msgid "a"\n\n', "line 3: .*the end"),
        ('msgid "a"\nmsgstr', "line 2: .*the end"),
        ('msgstr "a"\n', "line 1: "),
        ('msgid "a"\nmsgid "b"\nmsgstr ""\n', "line 2: "),
        ('msgid "a"\nmsgstr[0] ""\n', "line 2: "),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr ""\n', "line 3: "),
        ('msgid "a"\nmsgid_plural "b"\nmsgstr[9999] ""\n', "line 3: "),
        ('\x85msgid "a"\nmsgstr ""\n', "line 1: "),
        ("\ufeff\ufeff", "line 1: "),
    ],
)
def test_malformed_files_name_the_line(text, message):
    with pytest.raises(DataError, match=message):
        PoFile(text.encode())


FORMATS = [  # flags, source, and what the model's output becomes; None: the message is left
    ("c-format", "Open %s", "OPEN %s"),
    ("c-format", "5%d and %'d of %<PRIu64>", "5%d AND %'d OF %<PRIu64>"),
    ("c-format", "100% of %s", None),  # which C reads as a directive
    ("c-format", "%<PRIuMAX> blocks", "%<PRIuMAX> BLOCKS"),
    ("possible-c-format", "50% off", None),
    ("java-printf-format", "on %1$ty %1$tk", "ON %1$ty %1$tk"),
    ("javascript-format", "%j or %O", "%j OR %O"),
    ("lua-format", "%q of %s", "%q OF %s"),
    ("perl-format", "version %vd", "VERSION %vd"),
    ("go-format", "%v of %+v, %[1]q", "%v OF %+v, %[1]q"),
    ("c++-format", "{:d} of {}", "{:d} OF {}"),
    ("no-c++-format", "{:d} {a b} of", "{:d} {A B} OF"),
    ("ocaml-format", "%d of %Ld", "%d OF %Ld"),
    ("kde-kuit-format", "<b>&Page</b> %1", "<B>&PAGE</B> %1"),
    ("c-format, no-wrap", "%5$s %1$.*2$f", "%5$s %1$.*2$f"),
    ("kde-format", "Page %1 of %2", "PAGE %1 OF %2"),
    ("laravel-format", "x :count個x", "X :count個X"),
    ("laravel-format", "Clé:valeur :count", "CLÉ:VALEUR :count"),
    ("drupal-format", "x @name様x", "X @name様X"),
    ("drupal-format", "écrire josé@example.org", "ÉCRIRE josé@example.org"),
    ("dart-format", "x $name様x", "X $name様X"),
    ("qt-format", "x %n個x %né", "X %n個X %nÉ"),
    ("qt-format, qt-plural-format", "%L1 and %n files", "%L1 AND %n FILES"),
    ("ruby-format", "Total %<total>.2f %{name}", "TOTAL %<total>.2f %{name}"),
    ("python-format", "%(n)s files, %(a b)d%%", "%(n)s FILES, %(a b)d%%"),
    ("python-brace-format", "{count:>{width}} items", "{count:>{width}} ITEMS"),
    ("lisp-format", "~d files in ~a", "~d FILES IN ~a"),
    ("boost-format", "%1% of %|2$5d|", "%1% OF %|2$5d|"),
    ("sh-format", "go to $DIR/${name}", "GO TO $DIR/${name}"),
    ("csharp-format", "{0,5:N2} is {1}", "{0,5:N2} IS {1}"),
    ("object-pascal-format", "%0:s or %1:d", "%0:s OR %1:d"),
    ("no-c-format", "100% of all ~a", "100% OF ALL ~A"),
    ("", "[X0X] $dir ~a", "[X0X] $DIR ~A"),
    ("java-format", "It''s {0} of '{' {1,choice,0#it''s}", "IT''S {0} OF '{' {1,choice,0#it''s}"),
    ("java-format", "{1} of '{0}' and {0}", "{1} OF '{0}' AND {0}"),
    ("java-format", "Can't open {0}", None),  # all is quoted from there on
    ("sh-format", "[X0X] $dir", "[X0X] $dir"),
]


@pytest.mark.parametrize(("flags", "source", "target"), FORMATS)
def test_flags_name_the_placeholders(flags, source, target):
    document = PoFile(message(source, flags).encode())
    assert translated(document).decode() == message(source, flags, target or "")
    assert document.report.left.total() == (target is None)


@pytest.mark.parametrize(
    ("flags", "source", "output", "target"),
    [
        ("c-format", "%s has %d", "%d in %s", "%2$d in %1$s"),
        ("c-format", "%s has %s", "%s and %s", "%s and %s"),
        ("c-format", "%d%% of %s", "%s: %d%%", "%2$s: %1$d%%"),
        ("c-format", "%1$s has %2$d", "%2$d in %1$s", "%2$d in %1$s"),
        ("c-format", "%*d of %s", "%s: %*d", None),
        ("c-format", "%s has it", "it", None),
        ("c-format", "%s has it", "%s %d", None),
        ("c-format", "%s has it", "50 % von %s", None),
        ("python-format", "%s has %d", "%d in %s", None),
        ("python-format", "%(a)s has %(b)d", "%(b)d in %(a)s", "%(b)d in %(a)s"),
        ("python-brace-format", "{a} has {b}", "{b} in {a}", "{b} in {a}"),
        ("python-brace-format", "{a} has", "{a} {", None),
        ("kde-format", "%1 of %2", "50% %2: %1", "50% %2: %1"),
        ("qt-format", "%n of %L1", "%L1: %n", "%L1: %n"),
        ("object-pascal-format", "%0:s of %1:d", "[X1X]: [X0X]", "%1:d: %0:s"),
        ("boost-format", "%|1$d| of %2%", "[X1X]: [X0X]", "%2%: %|1$d|"),
        ("lisp-format", "~a of ~d", "[X1X]: [X0X]", None),
        ("c-format", "%'d of %s", "%s: [X0X]", "%2$s: %1$'d"),
        ("laravel-format", ":min of :max", "[X1X]: [X0X]", ":max: :min"),
        ("laravel-format", "10:30, :min", "10:30, [X0X]", "10:30, :min"),
        ("kde-kuit-format", "<b>Page</b> %1", "%1 <b>x</i>", None),
        ("kde-kuit-format", "<b>Page</b> & %1", "%1 <i>x</i> &", "%1 <i>x</i> &"),
        ("kde-kuit-format", "Page < %1", "%1 < x", "%1 < x"),
        ("kde-format", "<b>Page</b> %1", "%1 <b>x</i>", "%1 <b>x</i>"),
        ("c-format", "%s: %m (%d)", "%m: %d %s", "%m: %2$d %1$s"),
        ("java-printf-format", "%,d of %s", "%s", None),
        ("sh-format", "go to $DIR", "$ $DIR", None),
        ("ycp-format", "%1 of %2 %%", "100% %1 %2", None),
        ("ycp-format", "%1 of %2 %%", "%2: %1 %%", "%2: %1 %%"),
        ("java-format", "Open {0}", "{0} {{", None),
        ("java-format", "Open {0}", "Ouvrir l'{0}", "Ouvrir l''{0}"),
        ("java-format", "'{0}' is {0}", "{0} est [X0X]", "{0} est '{0}'"),
    ],
)
def test_translations_have_the_placeholders_of_their_source(flags, source, output, target):
    document = PoFile(message(source, flags).encode())
    found = document.translated([output])
    assert found.decode() == message(source, flags, target or "")
    assert (document.report.translated, document.report.left.total()) == (
        (1, 0) if target else (0, 1)
    )


def test_icu_messages_are_left_and_counted():
    text = message("{n, plural, one {# file} other {# files}}") + message("{n, number} files")
    document = PoFile(text.encode())
    assert document.segments == ["{n, number} files"]
    assert translated(document).decode() == text[:-3] + '"{n, number} FILES"\n'
    assert str(document.report) == "1 translated, 0 kept, 1 left (ICU messages: 1)"


def test_messages_that_nobody_may_translate_are_left_and_counted():
    text = message("ID", "c-format, read-only") + message("Name")
    document = PoFile(text.encode())
    assert translated(document).decode() == text[:-3] + '"NAME"\n'
    assert str(document.report) == "1 translated, 0 kept, 1 left (read-only: 1)"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("flags", "source", "output"),
    [
        ("lisp-format", "~a ", "[X0X] "),
        ("sh-format", "[X0X]$a ", "[X0X]$a "),
        ("c-format", "%d %s ", "%s %d "),
        ("c-format", "%'d ", "% "),
        ("python-brace-format", "{", "{}"),
    ],
)
def test_formats_cost_as_much_as_they_are_long(flags, source, output):
    def work(pair):
        document = PoFile(pair[0].encode())
        return document.segments, document.translated([pair[1]])

    assert_grows_gently(lambda n: (message(f"a {source * n}", flags), f"a {output * n}"), work, 300)


def test_msgfmt_accepts_what_is_written(tmp_path):
    if not shutil.which("msgfmt"):
        pytest.skip("gettext is not installed")
    texts = [message(f"{i} {source}", flags) for i, (flags, source, _) in enumerate(FORMATS)]
    plural = '#, c-format\nmsgid "One file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    lines = message('\\n\\ta\\\\ \\"b\\"\\n\\n')
    for fuzzy in (False, True):
        file = tmp_path / "a.po"
        file.write_text(shouted("\n".join([HEADER + PLURALS, *texts, plural, lines]), fuzzy))
        assert 'msgstr[2] "%d FILES"' in file.read_text()
        checked = subprocess.run(
            ["msgfmt", "-c", "--use-fuzzy", "-o", "/dev/null", file], capture_output=True
        )
        assert checked.returncode == 0, checked.stderr


@pytest.mark.integration
@pytest.mark.parametrize(
    "piece",
    [
        message(),
        "# x\n",
        '""\n',
        '"\\x41"',
        "#, fuzzy\n",
        '"',
        'msgid "',
        "\\",
        " \n",
        '#~ msgid "a"\n',
    ],
)
def test_files_cost_as_much_as_they_are_long(piece):
    def work(text):
        try:
            translated(PoFile(text.encode()))
        except DataError:
            return

    assert_grows_gently(lambda n: 'msgid "a"\nmsgstr ""\n' + piece * n, work, 300)


@pytest.mark.parametrize(
    ("head", "plural", "text", "segment"),
    [
        (
            "# German translation of Drupal core (10.1)\n",
            "",
            "By !name on @date",
            "By [X0X] on [X1X]",
        ),
        ("", "@count items", "By !name, :url", "By [X0X], [X1X]"),
        ("", "%d items", "By !name: @home", "By !name: @home"),
        ("# Exported from translatewiki.net\n", "", "$1 of $10", "[X0X] of [X1X]"),
        ("", "", "$1 of $10", "$1 of $10"),
    ],
)
def test_a_file_says_of_which_program_it_is(head, plural, text, segment):
    """Such programs write no flags."""
    many = f'msgid "1 item"\nmsgid_plural "{plural}"\nmsgstr[0] "x"\nmsgstr[1] "y"\n'
    start = f"{head}{HEADER}\n{many if plural else ''}"
    document = PoFile(f"{start}{message(text)}".encode())
    assert document.segments == [segment]
    found = document.translated([segment.upper()]).decode()
    expected = text.upper()
    for piece in re.findall(r"[!@:]\w+", text) if "[X" in segment else ():
        expected = expected.replace(piece.upper(), piece)
    assert found == f"{start}{message(text, translation=expected)}"
