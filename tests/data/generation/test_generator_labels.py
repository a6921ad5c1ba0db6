"""Data of classification: labels become targets."""

import math

import pytest

from support.texts import decoded_pairs
from t2t_lite.data import problem, text_problems
from t2t_lite.data.generation import generator, report
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.records import read_examples
from t2t_lite.errors import DataError, UsageError
from t2t_lite.text.text_encoder import VocabType

OPTIONS = DatagenOptions(num_workers=1)


class Colours(text_problems.Text2ClassProblem):
    """Repeats a few samples."""

    base_name = "colours"
    samples = (("red", 0), ("blue", 2), ("red", 0), ("green", 1))
    num_classes = 3
    vocab_type = VocabType.CHARACTER

    @property
    def dataset_splits(self):
        return [{"split": problem.DatasetSplit.TRAIN, "shards": 1}]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return ({"inputs": text, "label": label} for text, label in self.samples)


class Named(Colours):
    """With labels that have names."""

    def class_labels(self, data_dir):
        return ["r", "g", "b"]


class Pairs(Named, text_problems.TextConcat2ClassProblem):
    """Pairs of texts, one of them with a tab."""

    samples = ((["red", "blue"], 1), (["red\tdark", "red"], 0))


def texts(found, data, options=OPTIONS):
    generator.generate_data(found, str(data), "", options)
    return sorted(decoded_pairs(found, data, "train"))


def test_labels_are_written_as_their_texts(data):
    wanted = [("blue", "b"), ("green", "g"), ("red", "r"), ("red", "r")]
    assert texts(Named(), data) == wanted
    (example, *_) = read_examples(Named().existing_filepaths(str(data), "train"))
    assert len(example["targets"]) == 2
    assert list(Named().generate_text_for_vocab("", "")) == ["red", "blue", "red", "green"]


def test_labels_without_names_have_t2ts(data):
    assert texts(Colours(), data)[0] == ("blue", "ID_2")


def test_texts_are_joined(data):
    assert texts(Pairs(), data) == [("red dark$red", "r"), ("red$blue", "g")]
    assert list(Pairs().generate_text_for_vocab("", ""))[-2:] == ["red dark", "red"]
    assert Pairs().source(" red\t\n") == "red\t"  # the empty text is seen in training, too


def test_cleaning_and_reports_see_the_labels(data):
    cleaned = DatagenOptions(num_workers=1, clean="duplicates")
    assert len(texts(Named(), data, cleaned)) == 3
    table = "".join(report.report(Named(), str(data), "", OPTIONS, None))
    assert "words of targets    1.0" in table


def test_a_label_has_no_length_to_compare(data):
    with pytest.raises(UsageError, match=r"--clean: max_ratio .* 'colours'"):
        texts(Named(), data, DatagenOptions(num_workers=1, clean="max_ratio=3"))
    with pytest.raises(UsageError, match=r"--clean: max_ratio .* 'colours'"):
        list(report.report(Named(), str(data), "", DatagenOptions(clean="max_ratio=3"), None))


_TEXT = r"colours: sample 2 of generate_samples: .* `inputs` \(text\) and `label`; got "
_TEXTS = r"sample 2 .* `inputs` \(a list of texts\) and `label`; "
_RANGE = r"colours: sample 2 .* label .*: expected a number .* 2$"
_LISTS = ["blue", None, b"blue", {"a": "b"}, ["a", None], ["a", b"b"], [1.5]]


@pytest.mark.parametrize(
    ("base", "sample", "message"),
    [
        (Named, {"label": 1}, _TEXT),
        *(
            (Named, {"inputs": x, "label": 1}, _TEXT)
            for x in (math.nan, None, b"blue", ["blue"], 7)
        ),
        *((Named, {"inputs": "blue", "label": x}, _RANGE) for x in (3, -1, "red", None, [1])),
        *((Pairs, {"inputs": x, "label": 1}, _TEXTS) for x in _LISTS),
    ],
)
def test_samples_are_texts_and_labels_in_range(data, base, sample, message):
    first = {"inputs": "red" if base is Named else ["red", "blue"], "label": 0}
    wrong = type("Wrong", (base,), {"generate_samples": lambda *_: [first, sample]})
    with pytest.raises(DataError, match=message):
        texts(wrong(), data)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["r", "g"], "num_classes is 3, but class_labels returns 2 labels"),
        (["r", "g", "b", "y"], "num_classes is 3, but class_labels returns 4 labels"),
        ([0, 1, 2], r"class_labels is \[0, 1, 2\]: expected a list of texts"),
        (["r", "g", "r "], "class_labels: expected different texts, got "),
    ],
)
def test_the_number_of_labels_must_be_right(data, labels, message):
    with pytest.raises(UsageError, match=message):
        texts(type("Wrong", (Named,), {"class_labels": lambda *_: labels})(), data)


def test_labels_are_on_one_side_alone():
    assert Named().has_labels
    assert not Named(was_reversed=True).has_labels
    assert not Named().can_split_sources
    assert Named().metrics == ("exact_match",)
    backwards = Named(was_reversed=True)
    assert backwards.can_split_sources
    assert backwards.metrics == ("bleu",)
    assert backwards.decode_hparams == ""
