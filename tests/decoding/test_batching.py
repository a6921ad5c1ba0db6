from t2t_lite.decoding.decoder import BATCH_CELLS, LEAST_LENGTH, batches_by_length


def test_batches_have_the_longest_first_and_leave_out_empty_ones():
    lengths = [3, 0, 40, 7, 40]
    assert list(batches_by_length(lengths, beam_size=4, batch_size=2)) == [[4, 2], [3, 0]]


def test_a_batch_fills_the_budget_and_has_at_least_one_sentence():
    size = BATCH_CELLS // (4 * LEAST_LENGTH)
    sizes = [len(batch) for batch in batches_by_length([5] * (size + 1), beam_size=4)]
    assert sizes == [size, 1]
    assert list(batches_by_length([BATCH_CELLS] * 2, beam_size=4)) == [[1], [0]]
