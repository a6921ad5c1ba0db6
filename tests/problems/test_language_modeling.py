"""Problems without inputs: their samples, vocabularies and files."""

import pytest
import tensorflow as tf

import t2t_lite
from support.archives import write_archive
from t2t_lite import registry
from t2t_lite.data.generation import inspection
from t2t_lite.data.generation.cleaning import CleaningRules, clean
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.problems import language_modeling


def records(folder, pattern):
    paths = sorted(map(str, folder.glob(pattern)))
    found = [tf.train.Example.FromString(r.numpy()) for r in tf.data.TFRecordDataset(paths)]
    return [{k: list(v.int64_list.value) for k, v in e.features.feature.items()} for e in found]


@pytest.fixture
def ptb(tmp_path):
    """A folder with Mikolov's archive."""
    data = "./simple-examples/data/ptb"
    texts = {
        f"{data}.train.txt": " the cat <unk> the dog \n the end \n",
        f"{data}.valid.txt": " the dog \n",
        f"{data}.test.txt": " a cat \n",
    }
    write_archive(tmp_path / "simple-examples.tgz", texts)
    return tmp_path


def test_records_hold_targets_alone(ptb):
    data = ptb / "data"
    t2t_lite.generate_data("languagemodel_ptb10k", data_dir=str(data), tmp_dir=str(ptb))
    vocabulary = (data / "vocab.lmptb.10000").read_text().split()
    assert vocabulary == ["<pad>", "<EOS>", "<unk>", "the", "cat", "dog", "end"]
    train = records(data, "languagemodel_ptb10k-train-*")
    assert sorted(map(str, train)) == ["{'targets': [3, 4, 2, 3, 5, 1]}", "{'targets': [3, 6, 1]}"]
    assert records(data, "languagemodel_ptb10k-dev-*") == [{"targets": [3, 5, 1]}]
    assert records(data, "languagemodel_ptb10k-test-*") == [{"targets": [2, 4, 1]}]


def test_words_of_equal_counts_are_listed_in_order(tmp_path):
    data = "./simple-examples/data/ptb"
    texts = {f"{data}.{split}.txt": "zebra ant mole\nmole bee\n" for split in ("train", "valid")}
    write_archive(tmp_path / "simple-examples.tgz", texts)
    problem = registry.problem("languagemodel_ptb10k")
    problem.build_vocab(str(tmp_path), str(tmp_path))
    words = (tmp_path / "vocab.lmptb.10000").read_text().split()
    assert words[2:] == ["<unk>", "mole", "ant", "bee", "zebra"]


@pytest.mark.integration
def test_an_inspection_asks_for_no_inputs(ptb):
    data = str(ptb / "data")
    problem = registry.problem("languagemodel_ptb10k")
    t2t_lite.generate_data(problem, data_dir=data, tmp_dir=str(ptb))
    for _, found in inspection.inspect(problem, data):
        assert [*found.sides] == ["targets"]
        assert not found.faults


def test_wikitext_is_read_from_its_archive(tmp_path):
    members = {"wikitext-103/wiki.train.tokens": " \n = Title = \n Some words . \n"}
    write_archive(tmp_path / "wikitext-103-v1.zip", members)
    problem = registry.problem("languagemodel_wikitext103")
    samples = problem.generate_samples("", str(tmp_path), "train")
    assert list(samples) == [{"targets": "= Title ="}, {"targets": "Some words ."}]


def test_lm1b_replaces_words_that_are_not_listed(tmp_path):
    folder = "1-billion-word-language-modeling-benchmark-r13output"
    train = f"{folder}/training-monolingual.tokenized.shuffled/news.en"
    held_out = f"{folder}/heldout-monolingual.tokenized.shuffled/news.en.heldout"
    members = {
        f"{train}-00002-of-00100": "A second one .\n",
        f"{train}-00001-of-00100": "A rare word .\n",
        f"{held_out}-00000-of-00050": "A word .\n",
        f"{held_out}-00001-of-00050": "word .\n",
    }
    write_archive(tmp_path / f"{folder}.tar.gz", members)
    (tmp_path / "vocab-2016-09-10.txt").write_text("A\nword\nsecond\none\n.\n")
    problem = registry.problem("languagemodel_lm1b32k")

    def samples(split):
        return [s["targets"] for s in problem.generate_samples("", str(tmp_path), split)]

    assert samples("train") == ["A second one .", "A UNK word ."]
    assert samples("eval") == ["A word ."]
    assert problem.vocab_filename == "vocab.languagemodel_lm1b32k.32768.subwords"


def test_your_own_text(tmp_path):
    problem = registry.problem("text2self_tmpdir")
    with pytest.raises(UserError, match=r"targets\.train\.txt is missing; it should contain"):
        problem.generate_samples("", str(tmp_path), "train")
    (tmp_path / "targets.train.txt").write_text("one\n \n two \n")
    (tmp_path / "targets.eval.txt").write_text("three\n")
    samples = list(problem.generate_samples("", str(tmp_path), "train"))
    assert samples == [{"targets": "one"}, {"targets": "two"}]
    (tmp_path / "targets.eval.txt").write_text("\n")
    with pytest.raises(DataError, match="no line has text"):
        list(problem.generate_samples("", str(tmp_path), "eval"))
    assert [entry["split"] for entry in problem.splits_to_generate(str(tmp_path))] == [
        "train",
        "eval",
    ]


@pytest.mark.parametrize("unseen", ["\u200b", "\u200e", "\ufeff", "\u2800"])
@pytest.mark.parametrize(
    ("name", "side"), [("text2self_tmpdir", "targets"), ("plain_text_tmpdir", "text")]
)
def test_lines_that_nobody_sees_are_no_text(tmp_path, unseen, name, side):
    path = tmp_path / f"{side}.train.txt"
    path.write_text(f"one\n{unseen}\n {unseen} \ntwo{unseen}\n", encoding="utf-8")
    (tmp_path / "targets.eval.txt").write_text("three\n")
    found = [*registry.problem(name).generate_samples("", str(tmp_path), "train")]
    assert found == [{"targets": "one"}, {"targets": f"two{unseen}"}]


def test_reverse_and_copy_are_refused():
    for suffix in ("_rev", "_copy"):
        with pytest.raises(UsageError, match="has no inputs, so that there is no _rev or _copy"):
            registry.problem(f"languagemodel_ptb10k{suffix}")


def test_perplexity_chooses_the_best_checkpoint():
    assert list(language_modeling.LanguagemodelPtb10k().metrics) == ["perplexity"]


def test_cleaning_looks_at_the_one_text():
    samples = [{"targets": t} for t in ("a b", "", "a b", "a b c d", "Это здесь")]
    rules = "empty,identical,max_length=3,max_ratio=1.5,script=Latn-Latn,duplicates"
    assert list(clean(samples, CleaningRules.parse(rules), "x")) == [{"targets": "a b"}]
