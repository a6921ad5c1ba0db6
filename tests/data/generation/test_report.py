"""The report agrees with data generation and with the batches of training."""

import itertools
import math
import pathlib
import random
import re
from collections.abc import Iterator

import pytest

from t2t_lite import registry
from t2t_lite.data.generation import report as report_module
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.generation.lengths import Lengths
from t2t_lite.data.generation.report import describe_batches, report
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.data.text_problems import Text2SelfProblem, Text2TextProblem
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType


def pair(source: str, target: str) -> Sample:
    return {"inputs": source, "targets": target}


class Zoo(Text2TextProblem):
    """Four training pairs in two corpora, and one pair in each other split; bytes."""

    vocab_type = VocabType.CHARACTER
    dataset_splits = three_splits(1)

    def samples_by_corpus(self, data_dir, tmp_dir, dataset_split):
        if dataset_split != DatasetSplit.TRAIN:
            yield "held_out", [pair("a b", "a b")]
            return
        yield "apes", [pair("a b", "c d e"), pair("a", "a"), pair("a b", "c d e")]
        yield "bees", [pair("ä", "b"), pair("a b", "c d e")]

    def generate_samples(self, data_dir, tmp_dir, dataset_split) -> Iterator[Sample]:
        for _, samples in self.samples_by_corpus(data_dir, tmp_dir, dataset_split):
            yield from samples


class Tokens(Zoo):
    """The same in whole words, few of which are in the vocabulary."""

    vocab_type = VocabType.TOKEN
    oov_token = "<UNK>"


def full_report(problem, data_dir="", rules="", hparams=None, tmp_dir="") -> str:
    options = DatagenOptions(clean=rules)
    return "\n".join(report(problem, str(data_dir), str(tmp_dir), options, hparams))


def row(text: str, start: str) -> list[str]:
    """The cells of the first line with this beginning."""
    line = next(line for line in text.splitlines() if line.startswith(start))
    return line.removeprefix(start).split()


def test_pairs_per_corpus_and_dropped_per_rule():
    text = full_report(Zoo(), rules="identical,duplicates")
    assert row(text, "corpus") == ["pairs", "identical", "duplicates", "kept"]
    assert row(text, "apes") == ["3", "1", "1", "1"]
    assert row(text, "bees") == ["2", "0", "1", "1"]
    assert row(text, "total") == ["5", "1", "2", "2"]


def test_only_training_pairs_are_cleaned():
    *_, dev, test = full_report(Zoo(), rules="identical").split("== ")
    for held_out in (dev, test):
        assert row(held_out, "corpus") == ["pairs", "kept"]
        assert row(held_out, "held_out") == ["1", "1"]
        assert "total" not in held_out


def test_lengths_count_kept_pairs_and_the_end_of_the_sentence():
    text = full_report(Zoo(), rules="identical,duplicates")  # keeps ("a b", "c d e"), ("ä", "b")
    assert row(text, "words of inputs") == ["1.5", "1", "2", "2"]
    assert row(text, "words of targets") == ["2.0", "1", "3", "3"]
    assert row(text, "tokens of inputs") == ["3.5", "3", "4", "4"]  # bytes, and the end
    assert row(text, "tokens of targets") == ["4.0", "2", "6", "6"]


def test_prefixes_are_part_of_the_text():
    class Prefixed(Zoo):
        inputs_prefix = "to bees "

    assert row(full_report(Prefixed()), "words of inputs")[-1] == "4"


def test_histogram_rows_add_up(monkeypatch: pytest.MonkeyPatch):
    chance = random.Random(1)
    words = [min(int(chance.expovariate(0.05)) + 1, 300) for _ in range(1000)]
    samples = [pair("a " * length, "b") for length in words]
    monkeypatch.setattr(Zoo, "samples_by_corpus", lambda *_: [("zoo", samples)])
    text = full_report(Zoo()).split("words ")[3]
    rows = re.findall(r"^(\d+)(?:-(\d+)|\+) +(\d+)", text, re.MULTILINE)[:10]
    for low, high, count in rows:
        upper = int(high) if high else math.inf
        assert int(count) == sum(int(low) <= length <= upper for length in words)
    assert sum(int(count) for *_, count in rows) == 1000
    assert int(rows[-1][2]) <= 10  # the open bin


def test_problems_of_one_run_have_one_section():
    class Dealt(Zoo):
        is_generate_per_split = False

    text = full_report(Dealt())
    assert re.findall("^== .*", text, re.MULTILINE) == ["== dealt train and eval and test"]
    assert row(text, "total") == ["5", "5"]


# ---- vocabulary


def test_without_a_vocabulary_words_are_still_counted(tmp_path: pathlib.Path):
    text = full_report(Tokens(), tmp_path, hparams=BasicHParams())
    path = tmp_path / "vocab.tokens.tokens"
    assert text.startswith(f"{path} is missing")
    assert "run t2t-datagen --problem=tokens first" in text
    assert "words of inputs" in text
    for absent in ("tokens of", "unknown to the vocabulary", "seen", "batches of"):
        assert absent not in text


def test_unknown_tokens_and_coverage(tmp_path: pathlib.Path):
    (tmp_path / "vocab.tokens.tokens").write_text("<UNK>\na\nb\nc\nnever\n")
    text = full_report(Tokens(), tmp_path)
    # d and e three times each, ä once; seen: EOS, <UNK>, a, b, c of 7 ids; ten times: EOS alone
    assert "unknown to the vocabulary: 7 ('d' U+0064 3, 'e' U+0065 3, 'ä' U+00E4 1)" in text
    assert row(text, "both sides") == ["7", "71.4%", "14.3%", "0.0%"]


def test_bytes_know_everything():
    assert "unknown to the vocabulary: 0\n" in full_report(Zoo())


def test_unknown_tokens_are_forgotten_from_the_rarest(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "vocab.tokens.tokens").write_text("<UNK>\n")
    samples = [pair("often often", f"rare{number}") for number in range(20)]
    monkeypatch.setattr(Tokens, "samples_by_corpus", lambda *_: [("zoo", samples)])
    monkeypatch.setattr(report_module, "_MAX_UNKNOWN", 2)
    assert "unknown to the vocabulary: 60 ('often' 40)" in full_report(Tokens(), tmp_path)


def test_each_vocabulary_has_its_own_coverage():
    class TwoVocabularies(Zoo):
        def feature_encoders(self, data_dir):
            return {"inputs": self.load_vocab(data_dir), "targets": self.load_vocab(data_dir)}

    text = full_report(TwoVocabularies())
    # EOS, a, b, space and the two bytes of ä; EOS, a, b, c, d, e, space
    assert row(text, "inputs  ") == ["258", "2.3%", "0.0%", "0.0%"]
    assert row(text, "targets ") == ["258", "2.7%", "0.0%", "0.0%"]


# ---- batches

PREPENDED = {"prepend_mode": "prepend_inputs_masked_attention"}


@pytest.mark.parametrize(
    ("lengths", "hparams", "rows"),
    [
        # 4 sentences of 8 to 9 subwords
        ({(8, 4): 50, (11, 3): 7}, {"batch_size": 40}, ["50", "7", "0.0%", "12.5"]),
        (
            {(8, 4): 50},
            {"batch_size": 40, "optimizer_multistep_accumulate_steps": 2},
            ["50", "0", "0.0%", "6.2"],
        ),
        (
            {(8, 4): 50},
            {"batch_size": 40, "effective_batch_size": 75},
            ["50", "0", "0.0%", "6.2"],
        ),
        ({(99, 3): 7}, {"max_input_seq_length": 9}, ["7", "0", None, None]),
        # Targets of 4 + 1 + 4 and 6 + 1 + 4 subwords; 2 sentences of up to 10.
        ({(4, 4): 3, (6, 4): 7}, {"batch_size": 20, **PREPENDED}, ["3", "7", "0.0%", "1.5"]),
        ({(99, 3): 7}, {}, ["0", "7", "-", "0.0"]),
    ],
)
def test_batches_of_pairs(lengths, hparams, rows):
    text = describe_batches(Lengths(lengths), TransformerHParams(max_length=10, **hparams))
    names = "pairs in an epoch", "dropped: longer than max_length=10", "padding", "steps per epoch"
    found = [row(text, name)[0] for name in names]
    assert [cell and known for cell, known in zip(found, rows, strict=True)] == rows


def test_what_is_drawn_anew_is_not_counted():
    text = describe_batches(Lengths({(8, 4): 50}), BasicHParams())
    hparams = BasicHParams(bpe_dropout=0.1, source_typo_noise=0.05)
    line = "not counted: what bpe_dropout=0.1, source_typo_noise=0.05 changes when the model"
    assert describe_batches(Lengths({(8, 4): 50}), hparams).startswith(text + line)
    assert "not counted" not in text


@pytest.mark.parametrize(
    ("hparams", "message"),
    [
        ({"min_length": 9, "max_length": 8}, "min_length=9 exceeds max_length=8"),
        ({"effective_batch_size": 9, "optimizer": "multistep_adam"}, "effective_batch_size=9 sets"),
    ],
)
def test_hparams_are_checked_before_anything_is_read(hparams, message):
    blocks = report(Zoo(), "", "", DatagenOptions(), BasicHParams(**hparams))
    with pytest.raises(UsageError, match=message):
        next(blocks)


@pytest.mark.integration
def test_agrees_with_what_training_reads(tmp_path: pathlib.Path, shared_data: pathlib.Path):
    from t2t_lite.data import data_statistics, example_reader, input_pipeline
    from t2t_lite.data.batching import BatchingScheme

    class Captions(registry._problems["translate_ende_multi30k"]):
        vocab_type = VocabType.CHARACTER

        def generate_samples(self, *where):
            return itertools.islice(super().generate_samples(*where), 6000)

    problem = Captions()
    data_dir = str(tmp_path)
    rules = "max_length=30,identical,duplicates"
    options = DatagenOptions(num_workers=1, clean=rules)
    generate_data(problem, data_dir, str(shared_data), options)
    hparams = BasicHParams(batch_size=4096, max_length=100)
    text = full_report(problem, data_dir, rules, hparams, tmp_dir=shared_data)

    paths = problem.filepaths(data_dir, DatasetSplit.TRAIN)
    scheme = BatchingScheme.from_hparams(hparams, training=True)
    reader = example_reader.ExampleReader()
    counted = data_statistics.count_examples(paths, scheme, reader)
    assert row(text, "pairs in an epoch") == [f"{counted.examples:,}"]
    assert row(text, "dropped: longer than max_length=100") == [f"{counted.dropped_long:,}"]
    longest = [int(row(text, f"tokens of {side}")[-1]) for side in ("inputs", "targets")]
    assert max(longest) == counted.longest
    batches = input_pipeline.train_dataset(
        paths, scheme, reader, parts=1, seed=1, batch_shuffle_size=0
    )
    steps = float(row(text, "steps per epoch")[0])
    cells = used = 0
    for features in batches.take(round(steps)):
        for ids in features.values():
            cells += ids.shape.num_elements()
            used += int((ids.numpy() != 0).sum())
    seen = counted.source_tokens + counted.target_tokens
    assert used == pytest.approx(seen, rel=0.02)  # one epoch, but for buckets that are not full
    padding = float(row(text, "padding")[0].rstrip("%")) / 100
    # A tenth of a per cent is shown, and 2 % of the tokens may be missing of what was counted.
    assert padding == pytest.approx(1 - used / cells, abs=0.0005 + 0.02 * padding)


def test_random_text_is_that_of_data_generation(tmp_path, monkeypatch: pytest.MonkeyPatch):
    seen = []

    def draw(self, data_dir, tmp_dir, dataset_split):
        samples = [pair(f"{random.random()}", "a") for _ in range(9)]
        seen.append(samples)
        yield "zoo", samples

    monkeypatch.setattr(Zoo, "samples_by_corpus", draw)
    generate_data(Zoo(), str(tmp_path), "", DatagenOptions(num_workers=1))
    full_report(Zoo())
    assert len(seen) == 6
    assert seen[:3] == seen[3:]


def test_a_split_of_which_cleaning_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Zoo, "samples_by_corpus", lambda *_: [("zoo", [pair("a", "a")])])
    text = full_report(Zoo(), rules="identical", hparams=BasicHParams())
    assert row(text, "zoo") == ["1", "1", "0"]
    assert row(text, "pairs in an epoch") == ["0"]


class Alone(Text2SelfProblem):
    """A language model."""

    vocab_type = VocabType.CHARACTER
    dataset_splits = three_splits(1)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        yield {"targets": "a b"}
        yield {"targets": "ä"}


def test_a_language_model_has_one_side():
    text = full_report(Alone(), hparams=BasicHParams())
    assert row(text, "words of targets") == ["1.5", "1", "2", "2"]
    assert row(text, "tokens of targets") == ["3.5", "3", "4", "4"]
    assert row(text, "targets ") == ["258", "2.3%", "0.0%", "0.0%"]
    assert row(text, "pairs in an epoch") == ["2"]
    assert "of inputs" not in text


def test_without_a_vocabulary_a_language_model_has_one_side(tmp_path: pathlib.Path):
    class Unbuilt(Alone):
        vocab_type = VocabType.SUBWORD

    text = full_report(Unbuilt(), tmp_path)
    assert row(text, "words of targets") == ["1.5", "1", "2", "2"]
    assert "of inputs" not in text
