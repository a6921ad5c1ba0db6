"""T2T's classes of classification: their records, labels and metrics."""

from typing import ClassVar

import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.records import read_examples
from t2t_lite.errors import DataError, UserError
from t2t_lite.interop.t2t import generator_utils, metrics, text_encoder, text_problems
from t2t_lite.interop.t2t.adapter import adapted
from t2t_lite.interop.t2t.modalities import ModalityType
from t2t_lite.text.text_encoder import ClassLabelEncoder


def generate(problem, folder):
    generator.generate_data(problem, str(folder), str(folder), DatagenOptions(num_workers=1))
    return list(read_examples(problem.existing_filepaths(str(folder), "train")))


def test_a_label_is_a_target_of_one_symbol(usr_dir, tmp_path):
    problem = registry.problem("usr_sentiment")
    found = generate(problem, tmp_path)
    encoders = problem.get_feature_encoders(str(tmp_path))
    texts = {encoders["inputs"].decode(example["inputs"]): example for example in found}
    assert len(texts) == 100
    for text, example in texts.items():
        label = int("fine" in text)
        assert example["targets"] == [label + 2, 1]
        assert encoders["targets"].decode(example["targets"]) == ["neg", "pos"][label]
    assert problem.vocab_files() == ["vocab.usr_sentiment.256.subwords"]
    assert problem.metrics == ["exact_match"]
    backwards = registry.problem("usr_sentiment_rev")
    assert backwards.has_labels is False
    assert "exact_match" not in backwards.metrics
    vocabulary = (tmp_path / "vocab.usr_sentiment.256.subwords").read_text()
    assert "neg" not in vocabulary  # labels are not text


def test_several_texts_are_one_line_with_tabs(usr_dir, tmp_path):
    problem = registry.problem("usr_same")
    found = [tuple(example["inputs"]) for example in generate(problem, tmp_path)]
    encoder = problem.get_feature_encoders(str(tmp_path))["inputs"]
    as_in_t2t = [ord(character) + 2 for character in "cat$dog"]
    assert (*as_in_t2t, 1) in found
    assert encoder.encode("cat\tdog") == as_in_t2t
    assert encoder.encode("\t ") == []


class Encoding(text_problems.Text2ClassProblem):
    """As T2T's classes override it: with T2T's ids, by `super()` or by itself."""

    num_classes = 3
    vocab_type = "character"
    dataset_splits: ClassVar = [{"split": "train", "shards": 1}]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return [{"inputs": text, "label": number} for number, text in enumerate("abc")]

    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        for sample in super().generate_encoded_samples(data_dir, tmp_dir, dataset_split):
            if sample["targets"] != [1]:
                yield sample


def test_encoded_samples_have_t2ts_ids(upstream, tmp_path):
    registry.register_problem("usr_encoding")(Encoding)
    found = generate(registry.problem("usr_encoding"), tmp_path)
    ids = sorted((example["inputs"], example["targets"]) for example in found)
    assert ids == [([99, 1], [2, 1]), ([101, 1], [4, 1])]


def test_files_that_a_class_writes_itself_have_the_ids_of_labels(upstream, tmp_path):
    class Writing(Encoding):
        def generate_data(self, data_dir, tmp_dir, task_id=-1):
            generator_utils.generate_dataset_and_shuffle(
                self.generate_encoded_samples(data_dir, tmp_dir, "train"),
                self.training_filepaths(data_dir, 1, shuffled=False),
                self.generate_encoded_samples(data_dir, tmp_dir, "eval"),
                self.dev_filepaths(data_dir, 1, shuffled=False),
            )

    registry.register_problem("usr_writing")(Writing)
    found = generate(registry.problem("usr_writing"), tmp_path)
    ids = sorted((example["inputs"], example["targets"]) for example in found)
    assert ids == [([99, 1], [2, 1]), ([101, 1], [4, 1])]


def test_texts_before_sources_and_targets_are_not_for_labels(upstream, tmp_path):
    """As in T2T, whose classes of labels and numbers do not read these members."""
    own = ("num_classes", "vocab_type", "dataset_splits", "generate_samples")
    members = {name: vars(Encoding)[name] for name in own}
    members |= {"inputs_prefix": "x", "targets_prefix": "y"}
    kind = type("Prefixed", (text_problems.Text2ClassProblem,), members)
    found = generate(adapted(kind()), tmp_path)
    assert ([99, 1], [2, 1]) in [(example["inputs"], example["targets"]) for example in found]


def test_encoded_samples_are_of_text(upstream, tmp_path):
    class Bare(Encoding):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            return [{"inputs": "a", "label": 0}, {"inputs": ["b"], "label": 1}]

    registry.register_problem("usr_bare")(Bare)
    with pytest.raises(DataError, match=r"usr_bare: sample 2 of generate_samples: .*\(text\)"):
        generate(registry.problem("usr_bare"), tmp_path)


class Words(Encoding):
    """Labels that are words of a vocabulary, which has reserved ids."""

    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        yield {"inputs": [99, 1], "targets": self.words.encode("two")}

    def feature_encoders(self, data_dir):
        return {"inputs": text_encoder.ByteTextEncoder(), "targets": self.words}

    @property
    def words(self):
        return text_encoder.TokenTextEncoder(None, vocab_list=["one", "two"])


def test_labels_may_have_reserved_ids(upstream, tmp_path):
    registry.register_problem("usr_words")(Words)
    problem = registry.problem("usr_words")
    (example,) = generate(problem, tmp_path)
    assert example["targets"] == [3, 1]
    assert problem.get_feature_encoders(str(tmp_path))["targets"].decode([3, 1]) == "two"


def test_an_encoder_of_labels_may_be_left_out(upstream, tmp_path):
    class Plain(Encoding):
        def feature_encoders(self, data_dir):
            return {"inputs": text_encoder.ByteTextEncoder()}

        def class_labels(self, data_dir):
            return ["x", "y", "z"]

    problem = adapted(registry.register_problem("usr_plain")(Plain)())
    assert sorted(example["targets"] for example in generate(problem, tmp_path)) == [[2, 1], [4, 1]]
    assert problem.get_feature_encoders(str(tmp_path))["targets"].labels == ["x", "y", "z"]


@pytest.mark.parametrize("own_ids", [True, False])
def test_labels_may_be_in_a_file(upstream, tmp_path, own_ids):
    class Listed(Encoding):
        def feature_encoders(self, data_dir):
            labels = text_encoder.ClassLabelEncoder(class_labels_fname=f"{data_dir}/labels.txt")
            return {"inputs": text_encoder.ByteTextEncoder(), "targets": labels}

    if not own_ids:
        Listed.generate_encoded_samples = text_problems.Text2ClassProblem.generate_encoded_samples
    (tmp_path / "labels.txt").write_text("x\ny\nz\n")
    problem = adapted(registry.register_problem("usr_listed")(Listed)())
    found = sorted(example["targets"] for example in generate(problem, tmp_path))
    assert found == ([[2, 1], [4, 1]] if own_ids else [[2, 1], [3, 1], [4, 1]])
    labels = problem.get_feature_encoders(str(tmp_path))["targets"]
    assert isinstance(labels, ClassLabelEncoder)
    assert (labels.labels, labels.vocab_size) == (["x", "y", "z"], 5)
    assert problem.vocab_files() == ["labels.txt"]


@pytest.mark.parametrize("own_encoders", [True, False])
def test_labels_may_be_numbers(upstream, tmp_path, own_encoders):
    class Rated(Encoding):
        def class_labels(self, data_dir):
            return range(1, 6, 2)

    if own_encoders:

        def feature_encoders(self, data_dir):
            labels = text_encoder.ClassLabelEncoder(self.class_labels(data_dir))
            return {"inputs": text_encoder.ByteTextEncoder(), "targets": labels}

        Rated.feature_encoders = feature_encoders
    problem = adapted(Rated())
    generate(problem, tmp_path)
    assert problem.feature_encoders(str(tmp_path))["targets"].decode([3, 1]) == "3"


def test_the_file_of_labels_may_be_written_with_the_samples(usr_dir, tmp_path):
    class Written(registry.problem("usr_sentiment").upstream_class):
        name = "usr_written"

        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            (tmp_path / "labels.txt").write_text("bad\ngood\n")
            return super().generate_samples(data_dir, tmp_dir, dataset_split)

        def class_labels(self, data_dir):
            return (tmp_path / "labels.txt").read_text().split()

    problem = adapted(Written())
    generate(problem, tmp_path)
    assert problem.get_feature_encoders(str(tmp_path))["targets"].labels == ["bad", "good"]


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"targets": [3]}, r" \[3\]: .* one of 3 labels"),
        ({"targets": [-1]}, r" \[-1\]: .* one of 3 labels"),
        ({"targets": np.array([3])}, r" \[3\]: .* one of 3 labels"),
        ({"targets": 1}, "expected lists of integers"),
        ({"targets": ["1"]}, "expected lists of integers"),
        ({}, "expected lists of integers"),
    ],
)
def test_anything_but_a_label_is_an_error(upstream, tmp_path, sample, message):
    class Wrong(Encoding):
        def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
            yield {"inputs": [99, 1], "targets": [2]}
            yield {"inputs": [99, 1], **sample}

    problem = adapted(registry.register_problem("usr_wrong")(Wrong)())
    with pytest.raises(DataError, match=rf"usr_wrong: sample 2 .*{message}"):
        generate(problem, tmp_path)


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        ([metrics.Metrics.ACC], ["exact_match"]),
        ([metrics.Metrics.APPROX_BLEU, metrics.Metrics.ACC], ["exact_match"]),
        (
            [metrics.Metrics.ACC, metrics.Metrics.NEG_LOG_PERPLEXITY],
            ["exact_match", "neg_log_perplexity"],
        ),
    ],
)
def test_the_accuracy_is_that_of_labels(upstream, named, wanted):
    problem = adapted(registry.register_problem("usr_measured")(Encoding)())
    problem.upstream.eval_metrics = lambda: named
    assert problem.metrics == wanted


class Tagged(Encoding):
    """Says that a text has several labels."""

    modality = ModalityType.MULTI_LABEL
    labels: ClassVar = [[0], [2], [1]]

    def hparams(self, defaults, model_hparams):
        super().hparams(defaults, model_hparams)
        defaults.modality["targets"] = self.modality

    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        return [{"inputs": [99, 1], "targets": labels} for labels in self.labels]


def test_several_labels_are_allowed_where_each_text_has_one(upstream, tmp_path):
    """T2T's loss of several labels is their mean, which is then that of the one."""
    found = generate(adapted(Tagged()), tmp_path)
    assert sorted(example["targets"] for example in found) == [[2, 1], [3, 1], [4, 1]]


def test_several_labels_of_one_text_are_refused(upstream, tmp_path):
    several = type("Several", (Tagged,), {"labels": [[0], [2, 1]]})
    message = (
        r"several: sample 2 of generate_encoded_samples: targets \[2, 1\]: a text has one label "
        r"here \(ModalityType.CLASS_LABEL\): yield a sample for each label of a text"
    )
    with pytest.raises(DataError, match=message):
        generate(adapted(several()), tmp_path)


@pytest.mark.parametrize("modality", ["SIGMOID_CLASS_LABEL", "ONE_HOT_CLASS_LABEL"])
def test_other_modalities_of_labels_are_refused_when_the_problem_is_chosen(
    upstream, tmp_path, modality
):
    other = type("Other", (Tagged,), {"modality": getattr(ModalityType, modality)})
    with pytest.raises(UserError, match=f"'{modality.lower()}'; a text has one label here"):
        adapted(other()).feature_encoders(str(tmp_path))
