"""Help in two languages becomes pairs of paragraphs, aligned by page and id."""

import pytest

from support.growth import assert_grows_gently
from support.packages import write_help
from t2t_lite.data.corpora import libreoffice_help
from t2t_lite.data.corpora.libreoffice_help import HelpPair, help_pairs, paragraphs, plain, tagged
from t2t_lite.errors import DataError, UserError
from t2t_lite.text.bad_input import BadInput

PAGE = "text/swriter/main.html"


def pairs(tmp_path, sources, targets, **options):
    """The pairs of one page whose paragraphs are given by their ids."""
    for language, texts in (("en", sources), ("de", targets)):
        html = "".join(f'<p id="{key}" dir="auto">{text}</p>\n' for key, text in texts.items())
        write_help(tmp_path, language, {PAGE: html})
    found = help_pairs(str(tmp_path), ("en", "de"), **options)
    return [(pair.source, pair.target) for pair in found]


def test_paragraphs_and_headings_with_ids_are_found():
    page = (
        '<p>none</p><h2 class="x" id="hd_1" dir="auto">A <b>b</b></h2><pre id="c">code</pre>'
        '<p id="par_2" class="y">a\n <br> &lt;b&gt;</p><p data-id="z">no</p><p id="par_2">again</p>'
    )
    assert list(paragraphs(page, "page")) == [
        ("hd_1", "A <b>b</b>"),
        ("par_2", "a\n <br> &lt;b&gt;"),
        ("par_2", "again"),
    ]


def test_a_paragraph_without_an_end_is_reported():
    page = '<p id="a">x</p><p id="b">y</h1>'
    with pytest.raises(DataError, match=r"^page: the paragraph 'b' has no end tag </p>"):
        list(paragraphs(page, "page"))
    bad = BadInput(skip=True)
    assert list(paragraphs(page, "page", bad)) == [("a", "x")]
    assert bad.skipped == 1


@pytest.mark.parametrize("unit", ["<p", "<p ", '<p id="a">', "<p <p>", "</p", "<h1 id=", "<", " "])
def test_scanning_takes_linear_time(unit):
    def scan(page):
        return list(paragraphs(page, "page", BadInput(skip=True)))

    assert_grows_gently(lambda n: unit * (n // len(unit)), scan, 2**17)


def test_white_space_is_folded_and_tags_are_kept_or_not():
    text = ' Press\n <span class="emph">A &amp; B</span><br>or\u00a0<img alt="a > b"> &lt;F1&gt;\t'
    assert tagged(text) == (
        'Press <span class="emph">A &amp; B</span><br>or <img alt="a > b"> &lt;F1&gt;'
    )
    assert plain(text) == "Press A & B or <F1>"


def test_pairs_are_those_that_both_sides_have_and_that_are_translated(tmp_path):
    sources = {"b": "Two", "a": "One", "c": "Same", "d": "", "e": "<img>", "f": "Alone", "g": "Two"}
    targets = {"a": "Eins", "b": "Zwei", "c": "Same", "d": "x", "e": "<img alt=1>", "g": "Zwei"}
    assert pairs(tmp_path, sources, targets) == [("One", "Eins"), ("Two", "Zwei")]


def test_a_repetition_belongs_to_the_first_page(tmp_path):
    pages = {"text/b.html": '<p id="a">One</p>', "text/a.html": '<h1 id="x">One</h1>'}
    write_help(tmp_path, "en", pages)
    write_help(tmp_path, "de", {page: html.replace("One", "Eins") for page, html in pages.items()})
    found = list(help_pairs(str(tmp_path), ("en", "de")))
    assert found == [HelpPair("text/a.html", "One", "Eins")]


def test_plain_text_that_differs_in_links_alone_is_untranslated(tmp_path):
    sources = {"a": '<a href="en/x">Help</a>', "b": "A &amp; B"}
    targets = {"a": '<a href="de/x">Help</a>', "b": "A <i>und</i> B"}
    assert pairs(tmp_path, sources, targets, form=plain) == [("A & B", "A und B")]
    assert len(pairs(tmp_path, sources, targets)) == 2


def test_pages_are_aligned_by_path_below_the_folder_of_the_language(tmp_path):
    both = {"text/a/x.html": '<p id="a">one</p>', "text/b/x.html": '<p id="a">two</p>'}
    write_help(tmp_path, "en", both | {"text/only.html": '<p id="a">three</p>'})
    others = {"../xx/text/a/x.html", "media/text/a.html", "text/a/x.txt", "../../../../etc/x.html"}
    target = {"text/b/x.html": '<p id="a">zwei</p>'} | dict.fromkeys(others, '<p id="a">no</p>')
    write_help(tmp_path, "zh", target, compression="gz")
    found = list(help_pairs(str(tmp_path), ("en", "zh")))
    assert found == [HelpPair("text/b/x.html", "two", "zwei")]
    assert all(path.suffix == ".deb" for path in tmp_path.iterdir())


def test_any_two_languages_are_paired_without_what_only_the_original_says(tmp_path):
    texts = {"en": "One Two Same", "de": "Eins Two Same", "fr": "Un Deux Same"}
    for language, words in texts.items():
        html = "".join(f'<p id="{key}">{word}</p>' for key, word in enumerate(words.split()))
        write_help(tmp_path, language, {PAGE: html})
    assert list(help_pairs(str(tmp_path), ("de", "fr"))) == [HelpPair(PAGE, "Eins", "Un")]
    assert len(libreoffice_help.existing_packages(str(tmp_path), ("de", "fr"))) == 3


def test_missing_packages_are_named_with_the_command(tmp_path):
    write_help(tmp_path, "en", {})
    with pytest.raises(UserError) as caught:
        libreoffice_help.require_packages(str(tmp_path), ("en", "zh"))
    assert str(caught.value) == (
        f"{tmp_path} has no libreoffice-help-zh-cn_*.deb; download with: "
        f"cd {tmp_path} && apt-get download libreoffice-help-zh-cn"
    )


def test_packages_must_be_of_one_version(tmp_path):
    write_help(tmp_path, "en", {})
    write_help(tmp_path, "de", {}, version="2")
    with pytest.raises(UserError, match="the packages are of different versions: libreoffice-help"):
        libreoffice_help.require_packages(str(tmp_path), ("en", "de"))
    write_help(tmp_path, "de", {})
    with pytest.raises(UserError, match=r"has 2 versions of libreoffice-help-de: .*; keep one"):
        libreoffice_help.require_packages(str(tmp_path), ("en", "de"))


def test_a_package_without_help_is_refused(tmp_path):
    write_help(tmp_path, "en", {PAGE: '<p id="a">one</p>'})
    path = write_help(tmp_path, "de", {PAGE: "<p>one</p>"})
    with pytest.raises(DataError, match="no page of help under") as caught:
        list(help_pairs(str(tmp_path), ("en", "de")))
    assert str(caught.value).startswith(f"{path}: ")


def test_text_that_is_not_utf8_is_refused_or_skipped(tmp_path):
    write_help(tmp_path, "en", {PAGE: '<p id="a">one</p>\n<p id="b">two</p>'})
    write_help(tmp_path, "de", {PAGE: b'<p id="a">\xff</p>\n<p id="b">zwei</p>'})
    with pytest.raises(DataError, match=r"main\.html, line 1"):
        list(help_pairs(str(tmp_path), ("en", "de")))
    found = list(help_pairs(str(tmp_path), ("en", "de"), bad=BadInput(skip=True)))
    assert found == [HelpPair(PAGE, "two", "zwei")]


def test_huge_pages_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(libreoffice_help, "_PAGE_CHARACTERS", 100)
    write_help(tmp_path, "en", {PAGE: '<p id="a">one</p>\n' + " " * 100})
    write_help(tmp_path, "de", {PAGE: '<p id="a">eins</p>'})
    with pytest.raises(DataError, match=r"main\.html: a page of more than 100 characters"):
        list(help_pairs(str(tmp_path), ("en", "de")))
