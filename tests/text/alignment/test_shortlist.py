import numpy as np
import pytest

from t2t_lite.errors import DataError, UserError
from t2t_lite.text.alignment.lexicon import counted_table, make_shortlist
from t2t_lite.text.alignment.pharaoh import read_links
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.text_encoder import ByteTextEncoder, TextEncoder


class Words(TextEncoder):
    """Words between spaces."""

    def __init__(self, words):
        self._words = words

    @property
    def vocab_size(self):
        return 2 + len(self._words)

    def encode(self, text):
        return [2 + self._words.index(word) for word in text.split()]

    def decode(self, ids):
        return " ".join(self._words[i - 2] for i in ids)


ENCODERS = {
    "inputs": Words(["the", "old", "house", "7"]),
    "targets": Words(["das", "alte", "haus", "gebäude", "7", "der"]),
}
SOURCE = {"the": 2, "old": 3, "house": 4, "7": 5}
TARGET = {"das": 2, "alte": 3, "haus": 4, "gebäude": 5, "7": 6, "der": 7}


def ids(text, side="inputs"):
    return np.array(ENCODERS[side].encode(text), np.int32)


def make_list(frequent=1, best=2):
    words = [("the", "das")] * 3 + [("the", "der")] + [("house", "haus")] * 2
    words += [("house", "gebäude"), ("old", "alte"), ("house", "alte")]
    table = counted_table((SOURCE[s], TARGET[t]) for s, t in words)
    pairs = [(ids("the house"), ids("das haus", "targets"))] * 2 + [
        (ids("the"), ids("das", "targets"))
    ]
    return make_shortlist(table, pairs, ENCODERS, frequent, best)


def candidates(shortlist, text, prefix=()):
    vocabulary, permitted = shortlist.candidates(
        ids(text)[None], np.array([prefix], np.int32).reshape(1, -1)
    )
    return vocabulary.tolist(), vocabulary[permitted[0]].tolist()


def test_a_sentence_has_the_frequent_words_and_the_best_translations_of_its_own():
    shortlist = make_list()
    assert candidates(shortlist, "old")[1] == [1, TARGET["das"], TARGET["alte"]]
    # Of three translations the likelier two; of two alike, either.
    found = candidates(shortlist, "house")[1]
    assert found[:2] == [1, TARGET["das"]]
    assert TARGET["haus"] in found
    assert len(found) == 4


def test_a_word_that_both_sides_have_may_be_copied():
    assert TARGET["7"] in candidates(make_list(), "7")[1]
    assert TARGET["7"] not in candidates(make_list(), "old house")[1]


def test_a_batch_has_the_candidates_of_all_and_each_sentence_its_own():
    shortlist = make_list()
    sources = np.array([[*ids("old house")], [*ids("7"), 0]])
    vocabulary, permitted = shortlist.candidates(sources, np.zeros([2, 0], np.int32))
    assert vocabulary.tolist() == sorted(vocabulary)
    for text, row in zip(["old house", "7"], permitted, strict=True):
        assert vocabulary[row].tolist() == candidates(shortlist, text)[1]


def test_padding_has_no_translations():
    translations = np.array([[3], [0], [4], [0]])  # the first are those of id 0
    shortlist = Shortlist([], translations, 5)
    vocabulary, permitted = shortlist.candidates(
        np.array([[2, 0], [3, 2]]), np.zeros([2, 0], np.int32)
    )
    assert [vocabulary[row].tolist() for row in permitted] == [[1, 4], [1, 4]]


def test_prefixes_are_in_the_vocabulary_and_not_permitted():
    vocabulary, permitted = candidates(make_list(), "old", [TARGET["der"], 0])
    assert TARGET["der"] in vocabulary
    assert TARGET["der"] not in permitted


def test_excluded_ids_are_no_candidates():
    shortlist = make_list()
    _, permitted = shortlist.candidates(
        ids("old")[None], np.zeros([1, 0], np.int32), [TARGET["alte"]]
    )
    vocabulary, _ = shortlist.candidates(
        ids("old")[None], np.zeros([1, 0], np.int32), [TARGET["alte"]]
    )
    assert vocabulary[permitted[0]].tolist() == [1, TARGET["das"]]


def test_coverage_counts_target_ids_and_candidates():
    pairs = [(ids("old"), ids("alte haus", "targets")), (ids("7"), ids("7 7", "targets"))]
    assert make_list().coverage(pairs) == (0.75, 4.0)


def test_a_written_list_is_read(tmp_path):
    path = str(tmp_path / "list.txt")
    shortlist = make_list()
    shortlist.write(path, ENCODERS)
    read = Shortlist.read(path, ENCODERS)
    assert list(read.lines()) == list(shortlist.lines())
    for text in ("the", "old house", "7"):
        assert candidates(read, text) == candidates(shortlist, text)


def test_lines_may_have_names():
    sources = ["<pad>", "<EOS>", *SOURCE]
    targets = ["<pad>", "<EOS>", *TARGET]
    lines = list(make_list().lines(sources, targets))
    assert lines[0] == "\t<EOS> das"
    assert "the\tdas der" in lines


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda text: "", "line 1: this is not a short list"),
        (lambda text: "{}\n" + text, "line 1: this is not a short list"),
        (lambda text: text.replace("\t1 2", "1 2"), "line 2: expected ids after a tab"),
        (
            lambda text: text.replace("\t1 2", "\t1 8"),
            "line 2: expected an id below 8, got '8'",
        ),
        (lambda text: text + "x\t3\n", "expected an id below 6, got 'x'"),
        (lambda text: text + "3\t-1\n", "expected an id below 8, got '-1'"),
        (lambda text: text + "3\t²\n", "expected an id below 8, got '²'"),
        (lambda text: text + f"3\t{'9' * 5000}\n", "expected an id below 8, got '999"),
    ],
)
def test_damaged_lists_are_refused(tmp_path, change, error):
    path = tmp_path / "list.txt"
    make_list().write(str(path), ENCODERS)
    path.write_text(change(path.read_text()))
    with pytest.raises(DataError, match=error):
        Shortlist.read(str(path), ENCODERS)


def test_lists_of_other_vocabularies_are_refused(tmp_path):
    path = str(tmp_path / "list.txt")
    make_list().write(path, ENCODERS)
    others = {**ENCODERS, "targets": Words([*list(TARGET)[:-1], "die"])}
    with pytest.raises(UserError, match="other vocabularies: make it again with t2t-shortlist"):
        Shortlist.read(path, others)
    with pytest.raises(UserError, match="does not exist"):
        Shortlist.read(path + "x", ENCODERS)


def test_a_list_of_bytes_is_written_and_read(tmp_path):
    path, encoders = (
        str(tmp_path / "list.txt"),
        {"inputs": ByteTextEncoder(), "targets": Words("a")},
    )
    translations = np.zeros([258, 1], np.int32)
    first, second = ByteTextEncoder().encode("·")  # parts of one character
    translations[first] = 2
    Shortlist([], translations, 3).write(path, encoders)
    read = Shortlist.read(path, encoders)
    for id_, expected in [(first, [1, 2]), (second, [1])]:
        vocabulary, permitted = read.candidates(np.array([[id_]]), np.zeros([1, 0], np.int32))
        assert vocabulary[permitted[0]].tolist() == expected
    with pytest.raises(UserError, match="other vocabularies"):
        Shortlist.read(path, encoders | {"targets": Words("b")})


def test_links_are_read(tmp_path):
    path = tmp_path / "links"
    path.write_text("0-0 2-1\n\n1-10\n")
    assert list(read_links(str(path))) == [[(0, 0), (2, 1)], [], [(1, 10)]]
    for bad in ("0-0 1", "1-", "a-1", "0-1-2", "-1-0", "²-1", f"0-{'9' * 5000}"):
        path.write_text(f"0-0\n{bad}\n")
        with pytest.raises(DataError, match="line 2: expected links such as 0-0 1-2"):
            list(read_links(str(path)))
