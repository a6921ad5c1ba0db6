import bz2
import gzip
import itertools
import os
import pathlib
import tarfile

import pytest

from support.archives import write_archive
from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.problem import three_splits
from t2t_lite.errors import DataError, UserError
from t2t_lite.problems import treebanks
from t2t_lite.text import linear_trees, trees
from t2t_lite.text.bad_input import BadInput

TREE = "(TOP (S (NP (DT a) (NN dog)) (VP (VBZ runs))))"
RAW = "( (S \n    (NP-SBJ (DT a) (NN {}))\n    (VP (VBZ runs) (NP (-NONE- *)))))\n"
SYMBOLS = "S NP DT NN /NP VP VBZ /VP /S"


class SmallSample(treebanks.ParsingTreebankSample):
    """A vocabulary that is quick to build, and few files."""

    base_name = "parsing_treebank_sample"
    dataset_splits = three_splits(2)
    approx_vocab_size = 500


def write_mrg(folder: pathlib.Path, *numbers: int) -> None:
    for number in numbers:
        path = folder / f"{number // 100:02d}/wsj_{number:04d}.mrg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(RAW.format(number))


def write_craft(folder: pathlib.Path, text: str) -> None:
    """An archive of CRAFT's training trees with one article."""
    write_archive(folder / "craft-treebank-penn-train.tgz", {"a.tree": text})


def samples(name, tmp_dir, split):
    return list(registry.problem(name).generate_samples("", str(tmp_dir), split))


@pytest.fixture(scope="module")
def sample(shared_data):
    """The samples of `parsing_treebank_sample` by split."""
    return {
        split: samples("parsing_treebank_sample", shared_data, split)
        for split in ("train", "eval", "test")
    }


# ---- the Penn Treebank


def test_folders_that_are_linked_to_are_searched_once_each(tmp_path):
    write_mrg(tmp_path / "elsewhere", 1, 2)
    tmp_dir = tmp_path / "raw"
    tmp_dir.mkdir()
    for name in ("a", "b"):
        (tmp_dir / name).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_dir)
    problem = registry.problem("parsing_treebank_sample")
    found = problem.source_files(str(tmp_dir), "train")
    assert [path.name for path in found] == ["wsj_0001.mrg", "wsj_0002.mrg"]


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    write_mrg(tmp_path, 1, 100, 140, 150)

    def scandir(path, original=os.scandir):
        if os.fspath(path).endswith("01"):
            raise PermissionError(13, "Permission denied", path)
        return original(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError, match=r"/01'$"):
        samples("parsing_treebank_sample", tmp_path, "train")


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


def test_phrases_are_added_to_train_alone(tmp_path):
    write_mrg(tmp_path, 1, 100, 140, 150)
    for split in ("train", "eval", "test"):
        plain = samples("parsing_treebank_sample", tmp_path, split)
        more = samples("parsing_treebank_sample_phrases", tmp_path, split)
        assert [sample for sample in more if sample in plain] == plain
        assert (len(more) > len(plain)) == (split == "train")


def test_words_may_share_one_tag(tmp_path):
    write_mrg(tmp_path, 1, 100, 140, 150)
    found = samples("parsing_treebank_sample_phrases_xx", tmp_path, "train")
    assert found[0]["targets"] == "S NP XX XX /NP VP XX /VP /S"
    assert len(found) == len(samples("parsing_treebank_sample_phrases", tmp_path, "train"))


@pytest.mark.slow
def test_phrases_of_the_sample_are_added_to_both_treebanks(shared_data):
    both, phrases, all_of_it = (
        samples(f"parsing_treebank_sample_{name}", shared_data, "train")
        for name in ("craft", "phrases", "phrases_craft")
    )
    assert len(phrases) == 46_336
    assert len(all_of_it) - len(both) == 46_336 - 3_068
    assert all_of_it[: len(both)] == both


def test_a_file_of_the_treebank_that_is_there_twice_is_refused(tmp_path):
    write_mrg(tmp_path / "combined", *range(200, 2400, 100))
    write_mrg(tmp_path / "parsed", 300)
    with pytest.raises(UserError, match=r"combined/03/wsj_0300.mrg and .*the same file twice"):
        samples("parsing_wsj_16k", tmp_path, "train")


def test_missing_sections_are_named(tmp_path):
    write_mrg(tmp_path, *(100 * section for section in range(2, 20)))
    with pytest.raises(UserError, match=r"no files wsj_20NN\.mrg, wsj_21NN\.mrg there or below"):
        samples("parsing_wsj_16k", tmp_path, "train")


@pytest.mark.integration
def test_the_sample_is_split_by_file_number(sample, shared_data, tmp_path):
    counts = {"train": 3068, "eval": 185, "test": 143}
    assert {split: len(found) for split, found in sample.items()} == counts
    archive = next((shared_data / "treebank").glob("*.tgz"))
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    for split in ("eval", "test"):
        for folder in (shared_data / "treebank", tmp_path):
            assert samples("parsing_treebank_sample", folder, split) == sample[split]


@pytest.mark.integration
def test_generates_with_a_vocabulary_for_words_and_one_for_symbols(shared_data, tmp_path):
    problem = SmallSample()
    generate_data(problem, str(tmp_path), str(shared_data / "treebank"))
    assert problem.vocab_files() == [
        "vocab.parsing_treebank_sample.500.bpe.model",
        "vocab.parsing_treebank_sample.symbols.tokens",
        "vocab.parsing_treebank_sample.lexicon.tsv",
    ]
    encoders = problem.get_feature_encoders(str(tmp_path))
    assert encoders["inputs"].vocab_size == 500
    assert encoders["targets"].lexicon["saw"] == ["VBD"]
    assert encoders["targets"].vocab_size == 2 + 45 + 2 * 26  # pad and EOS, tags, phrases
    examples = records.read_examples(problem.existing_filepaths(str(tmp_path), "test"))
    expected = problem.trees(str(shared_data / "treebank"), "test")
    for tree, example in zip(expected, examples, strict=True):
        words = trees.split_words(encoders["inputs"].decode(example["inputs"]))
        symbols = encoders["targets"].decode(example["targets"]).split()
        assert linear_trees.delinearize(words, symbols) == (tree, 0)
        assert len(example["targets"]) == len(symbols) + 1


def test_your_own_treebank_is_taken_as_the_journal_is(tmp_path):
    write_mrg(tmp_path, 200, 201)
    joined = "".join(path.read_text() for path in sorted(tmp_path.rglob("*.mrg")))
    (tmp_path / "train.trees").write_text(joined)
    (tmp_path / "eval.trees.gz").write_bytes(gzip.compress(f"{TREE}\n".encode()))
    (tmp_path / "test.trees").write_text(f"{TREE}\n{TREE[:-1]}\n")
    words = [s["inputs"] for s in samples("parsing_tmpdir_16k", tmp_path, "train")]
    assert words == ["a 200 runs", "a 201 runs"]
    (sample,) = samples("parsing_tmpdir_16k", tmp_path, "eval")
    assert sample == {"inputs": "a dog runs", "targets": SYMBOLS}
    with pytest.raises(DataError, match=r"test\.trees, line 2: closing brackets missing"):
        samples("parsing_tmpdir_16k", tmp_path, "test")


@pytest.mark.parametrize(
    ("name", "stem"), [("parsing_tmpdir_16k", ""), ("wsj_parsing", "wsj")], ids=["tmpdir", "wsj"]
)
def test_trees_to_evaluate_are_needed_and_those_to_test_are_not(tmp_path, name, stem):
    problem, data = registry.problem(name), tmp_path / "data"
    (tmp_path / (f"{stem}Train.trees" if stem else "train.trees")).write_text(f"{TREE}\n")
    with pytest.raises(UserError, match=r"val\.trees is missing; .* move some of those for train"):
        generate_data(problem, str(data), str(tmp_path))
    assert {path.name for path in data.iterdir()} <= {f"{name}.fingerprint.json"}
    (tmp_path / (f"{stem}Eval.trees" if stem else "eval.trees")).write_text(f"{TREE}\n")
    generate_data(problem, str(data), str(tmp_path))
    assert [*data.glob("*-dev-*")]
    assert not [*data.glob("*-test-*")]


@pytest.mark.parametrize(("name", "size"), [("16k", 16_384), ("32k", 32_768)])
def test_your_own_treebank_has_the_papers_vocabularies(name, size):
    problem = registry.problem(f"parsing_tmpdir_{name}")
    assert problem.vocab_files() == [
        f"vocab.parsing_tmpdir_{name}.{size}.bpe.model",
        f"vocab.parsing_tmpdir_{name}.symbols.tokens",
        f"vocab.parsing_tmpdir_{name}.lexicon.tsv",
    ]


# ---- with the 17 M sentences of the paper


@pytest.fixture
def semi(tmp_path):
    """One tree in each section, and extra ones in four files."""
    write_mrg(tmp_path / "combined", *(100 * section for section in range(25)))
    extra = "(TOP (S (NP-SBJ (DT a) (NN {})) (VP (VBZ runs) (NP (-NONE- *)))))\n"
    (tmp_path / "extra.trees").write_text(extra.format("first"))
    packed = bz2.compress(extra.format("third").encode())
    (tmp_path / "extra_more.trees.bz2").write_bytes(packed)
    (tmp_path / "extra.text").write_text("a second runs\n\na third walks\n")
    (tmp_path / "extra.tags.gz").write_bytes(gzip.compress(f"{SYMBOLS}\n\n{SYMBOLS}\n".encode()))
    (tmp_path / "extra.md").write_text("not read")
    return tmp_path


def test_parsing_wsj_semi_32k_adds_extra_files_to_train_alone(semi):
    training = samples("parsing_wsj_semi_32k", semi, "train")
    sections = samples("parsing_wsj_16k", semi, "train")
    assert len(sections) == 20
    assert training[:20] == sections
    assert [sample["inputs"] for sample in training[20:]] == [
        "a second runs",
        "a third walks",
        "a first runs",
        "a third runs",
    ]
    assert {sample["targets"] for sample in training} == {SYMBOLS}  # normalised
    for split in ("eval", "test"):
        own = samples("parsing_wsj_semi_32k", semi, split)
        assert own == samples("parsing_wsj_16k", semi, split)
    problem = registry.problem("parsing_wsj_semi_32k")
    assert problem.approx_vocab_size == 32_768
    assert [path.name for path in problem.source_files(str(semi), "train")[20:]] == [
        "extra.text",
        "extra.tags.gz",
        "extra.trees",
        "extra_more.trees.bz2",
    ]


def test_the_words_vocabulary_is_built_from_a_sample(semi, monkeypatch):
    monkeypatch.setattr(treebanks.ParsingWsjSemi32k, "vocab_characters", 400)
    problem = registry.problem("parsing_wsj_semi_32k")
    every = [sample["inputs"] for sample in samples("parsing_wsj_semi_32k", semi, "train")]
    text = list(problem.generate_text_for_vocab("", str(semi)))
    assert text == every[::4]
    assert 200 < len("".join(text)) + len(text) * len(SYMBOLS) <= 400


def test_words_and_tags_that_do_not_fit_are_named_by_both_files_and_line(semi):
    (semi / "extra.text").write_text("a second runs\n\na third\n")
    names = rf"{semi}/extra\.text and {semi}/extra\.tags\.gz"
    expected = f"^{names}, line 3: 2 words but 3 tags; there must be one tag for each word$"
    with pytest.raises(DataError, match=expected):
        samples("parsing_wsj_semi_32k", semi, "train")
    (semi / "extra.text").write_text("a second runs\n")
    with pytest.raises(DataError, match=f"^{names}: 1 and 3 lines; both must have the same number"):
        samples("parsing_wsj_semi_32k", semi, "train")


def test_text_without_tags_is_named(semi):
    (semi / "extra.tags.gz").unlink()
    with pytest.raises(UserError, match=rf"{semi}/extra\.tags is missing; \.text and \.tags bel"):
        samples("parsing_wsj_semi_32k", semi, "train")


# ---- bad trees skipped


def skipping(name):
    problem = registry.problem(name)
    problem.bad_input = BadInput(skip=True)
    return problem


def test_bad_trees_and_pairs_are_skipped_and_counted(semi, caplog):
    (semi / "extra.text").write_bytes(b"a second runs\n\na third\n\xff\n")
    (semi / "extra.tags.gz").write_bytes(
        gzip.compress(f"{SYMBOLS}\n\n{SYMBOLS}\n{SYMBOLS}\n".encode())
    )
    (semi / "extra.trees").write_text(f"{TREE[:-1]}\n(TOP (-NONE- *))\n{TREE}\n")
    (semi / "combined/05/wsj_0500.mrg").write_text("( (S (A a)\n")
    problem = skipping("parsing_wsj_semi_32k")
    found = list(problem.generate_samples("", str(semi), "train"))
    assert [sample["inputs"] for sample in found[19:]] == [
        "a second runs",
        "a dog runs",
        "a third runs",
    ]
    assert problem.bad_input.skipped == 5
    assert caplog.messages[-1] == "parsing_wsj_semi_32k train: skipped 5 bad lines"


@pytest.mark.integration
def test_the_trees_of_a_cut_archive_are_used_up_to_the_cut(shared_data, tmp_path):
    name = "craft-treebank-penn-dev.tgz"
    whole = (shared_data / "craft" / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    problem = skipping("parsing_craft")
    found = list(problem.generate_samples("", str(tmp_path), "eval"))
    every = registry.problem("parsing_craft").generate_samples("", str(shared_data), "eval")
    assert 600 < len(found) < 1600
    assert found == list(itertools.islice(every, len(found)))
    assert problem.bad_input.cuts >= 1


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("parsing_treebank_sample_craft", 3),
        ("parsing_treebank_sample_phrases", 4),
        ("parsing_treebank_sample_phrases_craft", 5),
    ],
)
def test_bad_trees_are_counted_once_beside_phrases_and_craft(tmp_path, caplog, name, count):
    write_mrg(tmp_path, 1, 100)
    (tmp_path / "00" / "wsj_0002.mrg").write_text("( (S (A a)\n")
    write_craft(tmp_path, f"(\n{TREE}")
    problem = skipping(name)
    assert sum(1 for _ in problem.generate_samples("", str(tmp_path), "train")) == count
    bad = 2 if name.endswith("craft") else 1
    assert problem.bad_input.skipped == bad
    assert caplog.messages[-1] == f"{name} train: skipped {bad} bad lines"


# ---- CRAFT


@pytest.mark.slow
def test_craft(shared_data):
    development = samples("parsing_craft", shared_data / "craft", "eval")
    assert len(development) == 2780
    assert development == samples("parsing_craft", shared_data, "eval")
    training = registry.problem("parsing_craft").generate_samples("", str(shared_data), "train")
    assert next(training)["targets"].split()[0] == "TITLE"
    assert sum(1 for _ in training) == 18_950


@pytest.mark.integration
def test_crafts_training_trees_may_be_added_to_the_sample(sample, shared_data):
    problem = registry.problem("parsing_treebank_sample_craft")
    training = problem.generate_samples("", str(shared_data), "train")
    last, first = itertools.islice(training, 3067, 3069)
    assert last == sample["train"][-1]
    assert first["targets"].split()[0] == "TITLE"  # a label of CRAFT's alone
    for split in ("eval", "test"):
        assert samples("parsing_treebank_sample_craft", shared_data, split) == sample[split]


@pytest.mark.integration
@pytest.mark.parametrize("kept", [0, 20, 50_000, 150_000])
def test_a_cut_archive_is_named(shared_data, tmp_path, kept):
    name = "craft-treebank-penn-dev.tgz"
    (tmp_path / name).write_bytes((shared_data / "craft" / name).read_bytes()[:kept])
    with pytest.raises(DataError, match=rf"{name}.* damaged or truncated"):
        samples("parsing_craft", tmp_path, "eval")
