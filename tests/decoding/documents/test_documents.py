"""Documents are translated in place: only their text changes."""

import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.commands import exit_code
from support.imported_runs import imported_run
from support.small_runs import noisy_run
from t2t_lite.bin import t2t_decoder
from t2t_lite.decoding import jobs
from t2t_lite.decoding.documents.html_page import HtmlPage
from t2t_lite.decoding.documents.job import read_document
from t2t_lite.decoding.documents.po_file import PoFile
from t2t_lite.decoding.documents.xliff_file import XliffFile
from t2t_lite.errors import DataError, UserError
from t2t_lite.text.language_tokens import TRANSLATION

PAGE = """<!DOCTYPE html>
<html lang="en">
<head><title>A  title</title><style>p { color: red }</style></head>
<body>
<!-- a comment -->
<h1 id="x">Open
  files</h1>
<p>Click <b>Save</b><br> and <a
  href="x.html">{name}</a>.</p><img src="y.png">
<ul><li>One</li><li>Two &amp; three<ul><li>Four</li></ul></li></ul>
<pre>no  change</pre><div translate="no"><p>nor <div>here</div></p></div>
<p>   </p><p><img src="z.png"></p>
</body></html>
"""
PAGE_SEGMENTS = [
    "A title",
    "Open files",
    'Click <b>Save</b><br> and <a\U0010ff0a  href="x.html">{name}</a>.',
    "One",
    "Two &amp; three",
    "Four",
]


def upper(document):
    return document.translated([segment.upper() for segment in document.segments]).decode()


def test_a_page_changes_in_its_text_alone():
    page = HtmlPage(PAGE.encode())
    assert page.segments == PAGE_SEGMENTS
    assert page.translated(page.segments).decode() == PAGE.replace("A  title", "A title").replace(
        "Open\n  files", "Open files"
    )
    marked = page.translated([f"[{segment}]" for segment in page.segments]).decode()
    assert '<h1 id="x">[Open files]</h1>' in marked
    no_break = "<p>10\u00a0km</p>"
    assert HtmlPage(no_break.encode()).segments == ["10\u00a0km"]
    assert '<a\n  href="x.html">{name}</a>.]</p><img src="y.png">' in marked
    assert "<li>[Two &amp; three]<ul><li>[Four]</li></ul></li>" in marked


UNSEEN = "\u200b\ufeff\u00ad\u2060\x7f"


def test_what_nobody_sees_is_no_segment_and_stays():
    page = f"<p>{UNSEEN}</p><p>Open</p><p>&#8203;<b>\u200e</b></p>"
    assert HtmlPage(page.encode()).segments == ["Open"]
    assert upper(HtmlPage(page.encode())) == page.replace("Open", "OPEN")
    messages = f'msgid "{UNSEEN[:-1]}\\nOpen"\nmsgstr ""\n'
    assert PoFile(messages.encode()).segments == ["Open"]
    assert f'"{UNSEEN[:-1]}\\n"\n"OPEN"' in upper(PoFile(messages.encode()))
    unit = (
        f"<unit id='1'><segment><source>One</source><target>{UNSEEN[:-1]}</target></segment></unit>"
    )
    file = f"<xliff version='2.0'><file id='f'>{unit}</file></xliff>"
    assert XliffFile(file.encode()).segments == ["One"]


@given(st.text("<>/abp =\"'&;!-\n ", max_size=60))
def test_malformed_pages_lose_nothing(text):
    page = HtmlPage(text.encode())
    found = page.translated(page.segments).decode()
    assert found.split() == text.split()
    assert not any("\n" in segment for segment in page.segments)


@pytest.mark.parametrize(
    ("name", "contents", "error", "message"),
    [
        (
            "x.xliff",
            b"<xliff><a></xliff>",
            DataError,
            r"x\.xliff: not well-formed XML: .*line 1",
        ),
        ("x.html", b"\xff", DataError, r"x\.html: not in UTF-8"),
        ("x.po", b'msgid "a"\nfoo "b"\n', DataError, r"x\.po: .*line 2"),
        (
            "x.po",
            b'msgid "a\nmsgstr ""\n',
            DataError,
            r"x\.po: line 1: expected a string in double",
        ),
    ],
)
def test_malformed_files_are_named(tmp_path, name, contents, error, message):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(error, match=message):
        read_document(str(tmp_path / name))


def test_missing_files_are_named(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_document(str(tmp_path / "x.po"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return noisy_run(folder, hidden_size=16, num_hidden_layers=1).folder


@pytest.fixture(scope="module")
def naming(tmp_path_factory):
    """A run of several target languages, which a line may name."""
    return imported_run(tmp_path_factory.mktemp("naming") / "run", "", TRANSLATION).folder


def decode(run, source, target, *flags):
    pytest.importorskip("ctranslate2")
    flags = [
        f"--output_dir={run}",
        f"--decode_from_file={source}",
        f"--decode_to_file={target}",
        "--engine=ctranslate2",
        "--decode_hparams=beam_size=2,extra_length=3,batch_size=2",
        *flags,
    ]
    return exit_code(t2t_decoder.main, *flags)


PO = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"

#, c-format
msgid "Two lines:\\n%s\\tand %d\\n"
msgstr ""

msgid "A cat."
msgstr ""
"""


@pytest.mark.integration
def test_the_command_translates_messages_and_goes_on_after_a_kill(
    run, tmp_path, monkeypatch, capsys
):
    source, target = tmp_path / "app.po", tmp_path / "de.po"
    source.write_text(PO)
    append = jobs.BatchJournal.append

    def killed(self, record):
        append(self, record)
        if record.lines:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(jobs.BatchJournal, "append", killed)
        assert decode(run, source, target, "--fuzzy") == 130
    assert not target.exists()
    assert decode(run, source, target, "--fuzzy") == 0
    assert "de.po: 2 translated, 0 kept, 0 left" in " ".join(capsys.readouterr().err.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.po", "de.po"]
    found = PoFile(target.read_bytes())
    assert str(found.report) == "0 translated, 0 kept, 2 left (fuzzy: 2)"
    if shutil.which("msgfmt"):
        checked = subprocess.run(
            ["msgfmt", "--check-format", "-o", "/dev/null", target], capture_output=True
        )
        assert checked.returncode == 0, checked.stderr


@pytest.mark.integration
def test_the_command_translates_a_page(run, tmp_path):
    source, target = tmp_path / "page.html", tmp_path / "de.html"
    source.write_text(PAGE)
    assert decode(run, source, target) == 0
    found = target.read_text()
    for piece in ("<!-- a comment -->", "<pre>no  change</pre>", 'href="x.html">', "{name}"):
        assert found.count(piece) == 1


def test_flags_that_a_document_does_not_have_are_refused(run, tmp_path, capsys):
    source = tmp_path / "page.html"
    source.write_text(PAGE)
    for flag, remedy in (
        ("--output_format=json", "has no --output_format"),
        (f"--decode_reference={source}", "--decode_from_file is a document"),
        ("--fuzzy", "--fuzzy is for .po files"),
        ("--markup=xml", "is html; leave it out"),
        ("--as_lines --fuzzy", "--fuzzy needs a .po file"),
    ):
        assert decode(run, source, tmp_path / "out.html", *flag.split()) == 2
        assert remedy in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "flag", "code"),
    [("out.html", "--target_language=xx", 2), ("pipe", "--markup=html", 1)],
)
def test_a_refused_command_writes_nothing(run, tmp_path, target, flag, code):
    source = tmp_path / "page.html"
    source.write_text(PAGE)
    own = tmp_path / f"{target}.segments"
    own.write_text("of the user")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.iterdir())
    assert decode(run, source, tmp_path / target, flag) == code
    assert sorted(tmp_path.iterdir()) == before
    assert own.read_text() == "of the user"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "contents", "kept"),
    [
        ("x.html", "<p>w1 w2</p><a>&gt;&gt;Next&lt;&lt;</a>", "<a>"),
        ("x.po", 'msgid ">>More<<"\nmsgstr ""\n', '">>More<<"'),
    ],
)
def test_a_text_in_angle_brackets_names_no_language(naming, tmp_path, name, contents, kept):
    source, target = tmp_path / name, tmp_path / f"new.{name}"
    source.write_text(contents)
    assert decode(naming, source, target, "--target_language=de") == 0
    assert kept in target.read_text()


@pytest.mark.integration
def test_a_known_label_in_a_document_chooses_nothing(naming, tmp_path):
    source, found = tmp_path / "x.html", []
    for contents, code in (("&gt;&gt;fr&lt;&lt; w1 w2", "de"), ("w1 w2", "fr")):
        source.write_text(f"<p>{contents}</p>")
        target = tmp_path / f"{code}.html"
        assert decode(naming, source, target, f"--target_language={code}") == 0
        found.append(target.read_text())
    assert found[0] != found[1], "the label would be read, and chose fr"


@pytest.mark.integration
def test_other_documents_are_lines_only_if_it_is_asked_for(run, tmp_path, capsys):
    source, target = tmp_path / "en.json", tmp_path / "de.json"
    source.write_text('{"open": "Open"}\n')
    assert decode(run, source, target) == 2
    assert "--as_lines" in capsys.readouterr().err
    assert decode(run, source, target, "--as_lines") == 0
    assert target.read_text().count("\n") == 1


@pytest.mark.integration
def test_nothing_to_translate_is_a_warning(run, tmp_path, capsys):
    source, target = tmp_path / "app.po", tmp_path / "de.po"
    source.write_text('msgid "a"\nmsgstr "b"\n')
    assert decode(run, source, target) == 0
    assert target.read_bytes() == source.read_bytes()
    said = " ".join(capsys.readouterr().err.split())
    assert "nothing to translate: 0 translated, 1 kept, 0 left" in said
