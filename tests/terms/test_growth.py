"""Terms, forms and words cost as much as they are long, wherever they come from."""

import pytest

from support.growth import assert_grows_gently
from t2t_lite.terms.spelling import Speller
from t2t_lite.terms.term_automaton import term_tables
from t2t_lite.terms.term_list import TermList, Wanted, uses
from t2t_lite.terms.word_borders import occurrences
from t2t_lite.text.text_encoder import ByteTextEncoder

ENCODER = ByteTextEncoder()
BORDERS = Speller(ENCODER).borders


def words(n):
    """Text of n characters without a period."""
    return " ".join(f"{(i * 7919) % 9973:04d}" for i in range(n // 5))


def speller():
    new = Speller(ENCODER)
    new.__dict__["borders"] = BORDERS  # a table of the vocabulary, whatever is spelled
    return new


@pytest.mark.integration
def test_spelling_a_long_text():
    assert_grows_gently(words, lambda text: speller().spellings(text), 2000)


@pytest.mark.integration
@pytest.mark.parametrize("form", [words, lambda n: "a " * (n // 2), lambda n: "ab" * (n // 2)])
def test_tables_of_a_long_form(form):
    assert_grows_gently(
        lambda n: [Wanted("x", (form(n).strip(),), 1)],
        lambda wanted: term_tables(wanted, [], speller()),
        1000,
    )


@pytest.mark.integration
def test_tables_of_a_form_in_many_spellings():
    """Each may be read in the middle of others."""
    assert_grows_gently(
        lambda n: [f"{'a ' * 20}{i}" for i in range(n // 40)],
        lambda forbidden: term_tables([], forbidden, speller()),
        1000,
    )


@pytest.mark.integration
@pytest.mark.parametrize(
    ("form", "text"),
    [("a a", "a "), ("a" * 50, "a"), ("ab ab", "ab "), ("aa", "aa"), ("-", "-"), ("a b", "a ")],
)
def test_places_of_a_form(form, text):
    forms = [form, f"{form} {form}", form[:1]]
    assert_grows_gently(lambda n: text * n, lambda output: [*occurrences(forms, output)], 1000)


@pytest.mark.integration
@pytest.mark.parametrize("text", ["a ", "a", "!", "a b "])
def test_terms_of_a_source(text):
    terms = {" ".join(["a"] * n): "x" for n in range(1, 60)} | {"a " * 60 + "b": "y", "!": "z"}
    assert_grows_gently(lambda n: text * n, lambda source: TermList.of(terms).wanted(source), 1000)


@pytest.mark.integration
def test_terms_that_begin_alike():
    assert_grows_gently(
        lambda n: TermList.of({f"a {i}": "x" for i in range(n)}),
        lambda terms: TermList(terms.forms).wanted("a b " * 100),
        500,
    )


@pytest.mark.integration
def test_forbidden_words_that_contain_each_other():
    def found(n):
        return TermList.of(None, ["a" * i for i in range(1, 100)]).found_forbidden("a" * n)

    assert_grows_gently(lambda n: n, found, 1000)


@pytest.mark.integration
def test_uses_of_forms_that_contain_each_other():
    wanted = [Wanted("x", tuple(" ".join("a" * i) for i in range(1, 60)), 1)]
    assert_grows_gently(lambda n: "a " * n, lambda output: uses(wanted, output), 1000)
