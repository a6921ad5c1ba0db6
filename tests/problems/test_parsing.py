import itertools
import pathlib
import tarfile

import pytest

from t2t_lite import registry
from t2t_lite.data import records, trees
from t2t_lite.errors import DataError, UserError
from t2t_lite.problems import parsing

TREE = "(TOP (S (NP (DT a) (NN dog)) (VP (VBZ runs))))"
RAW = "( (S \n    (NP-SBJ (DT a) (NN {}))\n    (VP (VBZ runs) (NP (-NONE- *)))))\n"
SYMBOLS = "S NP DT NN /NP VP VBZ /VP /S"


class SmallSample(parsing.ParsingTreebankSample):
    """A vocabulary that is built in a moment."""

    base_name = "parsing_treebank_sample"
    approx_vocab_size = 500


def write_mrg(folder: pathlib.Path, *numbers: int) -> None:
    for number in numbers:
        path = folder / f"{number // 100:02d}/wsj_{number:04d}.mrg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(RAW.format(number))


def samples(name, tmp_dir, split):
    return list(registry.problem(name).generate_samples("", str(tmp_dir), split))


# ---- wsj_parsing


def test_wsj_parsing_takes_the_trees_as_they_are(tmp_path):
    (tmp_path / "wsjTrain.trees").write_text(f"{TREE}\n(TOP (NP-SBJ (-NONE- *)))\n")
    (tmp_path / "wsjEval.trees").write_text(f"{TREE}\n")
    assert samples("wsj_parsing", tmp_path, "train") == [
        {"inputs": "a dog runs", "targets": SYMBOLS},
        {"inputs": "*", "targets": "NP-SBJ -NONE- /NP-SBJ"},
    ]
    problem = registry.problem("wsj_parsing")
    data_dir = tmp_path / "data"
    problem.generate_data(str(data_dir), str(tmp_path))
    assert problem.vocab_files() == ["vocab.wsj_parsing.32768.subwords"]
    assert len(list(data_dir.glob("wsj_parsing-train-*-of-00100"))) == 100
    (example,) = records.read_examples(problem.existing_filepaths(str(data_dir), "eval"))
    encoders = problem.get_feature_encoders(str(data_dir))
    assert encoders["inputs"].decode(example["inputs"]) == "a dog runs"
    assert encoders["targets"].decode(example["targets"]) == SYMBOLS


def test_wsj_parsing_builds_its_vocabulary_from_t2ts_first_1000_pairs(tmp_path):
    with (tmp_path / "wsjTrain.trees").open("w") as file:
        file.writelines(f"(TOP (NP (NN w{i})))\n" for i in range(1001))
    problem = registry.problem("wsj_parsing")
    text = list(problem.generate_text_for_vocab("", str(tmp_path)))
    assert text[:2] == ["w0", "NP NN /NP"]
    assert text[-2:] == ["w999", "NP NN /NP"]


def test_a_bad_tree_is_named_by_file_and_line(tmp_path):
    (tmp_path / "wsjEval.trees").write_text(f"{TREE}\n{TREE[:-1]}\n")
    with pytest.raises(DataError, match=r"wsjEval\.trees, line 2: closing brackets missing"):
        samples("wsj_parsing", tmp_path, "eval")


# ---- the Penn Treebank


def test_parsing_wsj_16k_takes_sections_by_file_name(tmp_path):
    write_mrg(tmp_path / "combined", *(100 * section + 3 for section in range(25)))
    (tmp_path / "combined" / "README").write_text("no tree")
    words = {
        split: [
            sample["inputs"].split()[1] for sample in samples("parsing_wsj_16k", tmp_path, split)
        ]
        for split in ("train", "eval", "test")
    }
    assert words["train"] == [str(100 * section + 3) for section in range(2, 22)]
    assert words["eval"] == ["2203"]
    assert words["test"] == ["2303"]
    assert samples("parsing_wsj_16k", tmp_path, "test")[0]["targets"] == SYMBOLS  # normalised
    assert registry.problem("parsing_wsj_16k").approx_vocab_size == 16_384


def test_missing_sections_are_named(tmp_path):
    write_mrg(tmp_path, *(100 * section for section in range(2, 20)))
    with pytest.raises(UserError, match=r"no files wsj_20NN\.mrg, wsj_21NN\.mrg there or below"):
        samples("parsing_wsj_16k", tmp_path, "train")


def test_the_sample_is_split_by_file_number(shared_data, tmp_path):
    counts = {"train": 3068, "eval": 185, "test": 143}
    for split, count in counts.items():
        assert len(samples("parsing_treebank_sample", shared_data / "treebank", split)) == count
    archive = next((shared_data / "treebank").glob("*.tgz"))
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    for split in ("eval", "test"):
        from_archive = samples("parsing_treebank_sample", shared_data, split)
        assert samples("parsing_treebank_sample", tmp_path, split) == from_archive


def test_generates_with_a_vocabulary_for_words_and_one_for_symbols(shared_data, tmp_path):
    problem = SmallSample()
    problem.generate_data(str(tmp_path), str(shared_data / "treebank"))
    assert problem.vocab_files() == [
        "vocab.parsing_treebank_sample.500.bpe.model",
        "vocab.parsing_treebank_sample.symbols.tokens",
    ]
    encoders = problem.get_feature_encoders(str(tmp_path))
    assert encoders["inputs"].vocab_size == 500
    assert encoders["targets"].vocab_size == 2 + 45 + 2 * 26  # pad and EOS, tags, phrases
    examples = records.read_examples(problem.existing_filepaths(str(tmp_path), "test"))
    expected = problem.trees(str(shared_data / "treebank"), "test")
    for tree, example in zip(expected, examples, strict=True):
        words = trees.split_words(encoders["inputs"].decode(example["inputs"]))
        symbols = encoders["targets"].decode(example["targets"]).split()
        assert trees.delinearize(words, symbols) == (tree, 0)
        assert len(example["targets"]) == len(symbols) + 1


# ---- CRAFT


def test_craft(shared_data):
    development = samples("parsing_craft", shared_data / "craft", "eval")
    assert len(development) == 2780
    assert development == samples("parsing_craft", shared_data, "eval")
    training = registry.problem("parsing_craft").generate_samples("", str(shared_data), "train")
    assert next(training)["targets"].split()[0] == "TITLE"
    assert sum(1 for _ in training) == 18_950


def test_crafts_training_trees_may_be_added_to_the_sample(shared_data):
    problem = registry.problem("parsing_treebank_sample_craft")
    training = problem.generate_samples("", str(shared_data), "train")
    last, first = itertools.islice(training, 3067, 3069)
    assert last == samples("parsing_treebank_sample", shared_data, "train")[-1]
    assert first["targets"].split()[0] == "TITLE"  # a label of CRAFT's alone
    for split in ("eval", "test"):
        added = samples("parsing_treebank_sample_craft", shared_data, split)
        assert added == samples("parsing_treebank_sample", shared_data, split)


@pytest.mark.parametrize("kept", [0, 20, 50_000, 150_000])
def test_a_cut_archive_is_named(shared_data, tmp_path, kept):
    name = "craft-treebank-penn-dev.tgz"
    (tmp_path / name).write_bytes((shared_data / "craft" / name).read_bytes()[:kept])
    with pytest.raises(DataError, match=rf"{name}.* damaged or cut"):
        samples("parsing_craft", tmp_path, "eval")


# ---- what is missing


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wsj_parsing", r"wsjTrain\.trees is missing; it should hold bracketed trees"),
        ("parsing_wsj_16k", r"no files wsj_02NN\.mrg, .*; put the Penn Treebank's folder"),
        ("parsing_treebank_sample", r"no files wsj_00NN\.mrg, wsj_01NN\.mrg there"),
        ("parsing_craft", r"craft-treebank-penn-train\.tgz is missing; it should hold"),
    ],
)
def test_missing_files_are_named_before_anything_is_written(tmp_path, name, message):
    with pytest.raises(UserError, match=message):
        registry.problem(name).generate_data(str(tmp_path / "data"), str(tmp_path))
    assert not (tmp_path / "data").exists()
