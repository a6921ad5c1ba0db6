from t2t_lite.decoding.decoder import BATCH_CELLS, LEAST_LENGTH, batches_by_length
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.term_beams import length_in_batch
from t2t_lite.terms.term_list import TermList


def test_batches_have_the_longest_first_and_leave_out_empty_ones():
    lengths = [3, 0, 40, 7, 40]
    assert list(batches_by_length(lengths, beam_size=4, batch_size=2)) == [[4, 2], [3, 0]]


def test_a_batch_fills_the_budget_and_has_at_least_one_sentence():
    size = BATCH_CELLS // (4 * LEAST_LENGTH)
    sizes = [len(batch) for batch in batches_by_length([5] * (size + 1), beam_size=4)]
    assert sizes == [size, 1]
    assert list(batches_by_length([BATCH_CELLS] * 2, beam_size=4)) == [[1], [0]]


def test_terms_that_are_many_or_long_make_batches_small():
    """A search with them keeps up to 64 hypotheses, and their outputs are as long as they are."""

    def length(forms: dict[str, str]) -> int:
        source = Source(
            "a cat and a dog", [3] * 8, terms=TermList({t: (f,) for t, f in forms.items()}, ())
        )
        return length_in_batch(source, 8, beam_size=4)

    assert length_in_batch(Source("a cat", [3] * 8), 8, beam_size=4) == 8
    assert length({"fish": "x" * 99}) == 8, "the source does not ask for it"
    assert length({"cat": "Kater"}) == 8 + 5 // 4
    assert length({"cat": "x" * 99}) == (8 + 24) * 4
    assert length({"cat": "x" * 199, "dog": "y" * 199}) == (8 + 99) * 8
