import gzip
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.commands import exit_code
from support.texts import decoded_pairs, write_lines
from t2t_lite import registry
from t2t_lite.bin import t2t_datagen
from t2t_lite.data import records
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.errors import DataError, UserError
from t2t_lite.problems.language_modeling import Text2selfTmpdir
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdir, Text2textTmpdirTokens

SOURCES = ["a cat sleeps .", "a dog runs .", "the cat runs .", "the dog sleeps .", "cats run ."]
TARGETS = ["eine Katze schläft .", "ein Hund läuft .", "die Katze läuft .", "der Hund schläft ."]


@pytest.fixture
def raw(tmp_path) -> pathlib.Path:
    """A folder of raw text: four training and two evaluation pairs."""
    folder = tmp_path / "raw"
    folder.mkdir()
    write_lines(folder / "inputs.train.txt", SOURCES[:4])
    write_lines(folder / "targets.train.txt", TARGETS)
    write_lines(folder / "inputs.eval.txt", SOURCES[1:3])
    write_lines(folder / "targets.eval.txt", TARGETS[1:3])
    return folder


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    return tmp_path / "data"


class FewFiles(Text2textTmpdir):
    base_name = "text2text_tmpdir"
    approx_vocab_size = 64
    dataset_splits = (
        {"split": "train", "shards": 1},
        {"split": "eval", "shards": 1},
        {"split": "test", "shards": 1},
    )


def test_generates_what_t2t_generates(golden, shared_data, tmp_path, data):
    class Golden(Text2textTmpdir):
        base_name = "text2text_tmpdir"
        approx_vocab_size = 512

    expected = json.loads((golden / "datagen_text2text_tmpdir.json").read_text("utf-8"))
    for side, language in (("inputs", "en"), ("targets", "de")):
        packed = (shared_data / f"multi30k/val.{language}.gz").read_bytes()
        lines = gzip.decompress(packed).decode().split("\n")
        write_lines(tmp_path / f"{side}.train.txt", lines[:300])
        write_lines(tmp_path / f"{side}.eval.txt", lines[300:330])
    problem = Golden()
    generate_data(problem, str(data), str(tmp_path))

    vocab = data / "vocab.text2text_tmpdir.512.subwords"
    files = {path.name for path in data.iterdir()}
    assert files == {*expected["files"], "text2text_tmpdir.fingerprint.json"}
    assert vocab.read_text("utf-8").split("\n")[:-1] == expected["vocab"]
    dev = records.read_examples(problem.filepaths(str(data), "eval"))
    assert list(dev) == expected["dev_encoded_lines"]

    encoder = problem.feature_encoders(str(data))["inputs"]
    shard_of_text = {}
    for number, path in enumerate(problem.filepaths(str(data), "train")):
        for example in records.read_examples([path]):
            shard_of_text[encoder.decode(example["inputs"][:-1])] = number
    train = (tmp_path / "inputs.train.txt").read_text("utf-8").split("\n")[:300]
    assert [shard_of_text[line] for line in train] == expected["shard_of_line"]


@pytest.mark.parametrize(
    ("name", "vocabulary"),
    [
        ("text2text_tmpdir", "vocab.text2text_tmpdir.32768.subwords"),
        ("text2text_tmpdir_bpe", "vocab.text2text_tmpdir_bpe.8000.bpe.model"),
    ],
)
def test_registered_problems_generate_from_the_four_files(raw, data, name, vocabulary):
    generate_data(registry.problem(name), str(data), str(raw))
    assert {path.name for path in data.iterdir()} == {
        *(f"{name}-train-{i:05d}-of-00100" for i in range(100)),
        f"{name}-dev-00000-of-00001",
        f"{name}.fingerprint.json",
        vocabulary,
    }


def test_a_test_split_is_made_if_its_files_are_there(raw, data):
    generate_data(FewFiles(), str(data), str(raw))
    assert not (data / "text2text_tmpdir-test-00000-of-00001").exists()
    with pytest.raises(
        UserError,
        match=r"-test-00000-of-00001 is missing; put inputs\.test\.txt and targets\.test\.txt into "
        "--tmp_dir, and generate it with t2t-datagen",
    ):
        FewFiles().existing_filepaths(str(data), "test")

    write_lines(raw / "inputs.test.txt", SOURCES[:3])
    with pytest.raises(UserError, match=r"targets\.test\.txt is missing"):
        generate_data(FewFiles(), str(data), str(raw))

    write_lines(raw / "targets.test.txt", TARGETS[:3])
    generate_data(FewFiles(), str(data), str(raw))
    assert len(list(records.read_examples(FewFiles().existing_filepaths(str(data), "test")))) == 3


# ---- without dev files


def write_long(folder: pathlib.Path, count: int = 60) -> list[tuple[str, str]]:
    """Writes numbered training pairs, and one empty line and an equal of the last pair among them.

    No dev files remain. Returns the pairs with text.
    """
    for path in folder.glob("*"):
        path.unlink()
    pairs = [(f"cat {n}", f"Katze {n}") for n in range(count)]
    lines = [pairs[-1], *pairs[:10], ("alone", ""), *pairs[10:]]
    for side, texts in zip(("inputs", "targets"), zip(*lines, strict=True), strict=True):
        write_lines(folder / f"{side}.train.txt", texts)
    return pairs


@pytest.mark.parametrize("reverse", [False, True])
def test_without_dev_files_the_last_pairs_are_held_out(raw, data, caplog, reverse):
    pairs = write_long(raw)
    generate_data(FewFiles(was_reversed=reverse), str(data), str(raw))
    assert decoded_pairs(FewFiles(), data, "eval") == pairs[-3:]
    assert sorted(decoded_pairs(FewFiles(), data, "train")) == sorted(pairs[:-3])
    assert "the last 3 of 61 lines of text are held out as dev split" in caplog.text
    assert "dropped 1 lines of training: they equal held-out ones" in caplog.text

    again = data.with_name("again")
    generate_data(FewFiles(was_reversed=reverse), str(again), str(raw))
    for path in data.glob("*-of-*"):
        assert (again / path.name).read_bytes() == path.read_bytes()


def test_the_vocabulary_does_not_see_held_out_pairs(raw, data):
    write_long(raw)
    for side in ("inputs", "targets"):
        with (raw / f"{side}.train.txt").open("a") as file:
            file.write("ΩΩΩ\n")
    problem = FewFiles()
    text = list(problem.generate_text_for_vocab(str(data), str(raw)))
    assert "cat 0" in text
    assert "ΩΩΩ" not in text


class FewLines(Text2selfTmpdir):
    base_name = "text2self_tmpdir"
    approx_vocab_size = 64
    dataset_splits = FewFiles.dataset_splits


def test_a_language_model_holds_out_the_last_lines(raw, data):
    pairs = write_long(raw, 40)
    (raw / "inputs.train.txt").unlink()
    write_lines(raw / "inputs.eval.txt", ["no file of this problem"])
    problem = FewLines()
    generate_data(problem, str(data), str(raw))
    texts = {
        split: [sample["targets"] for sample in problem.text_samples(str(data), str(raw), split)]
        for split in ("train", "eval")
    }
    targets = [target for _, target in pairs]
    assert texts == {"train": targets[:-2], "eval": targets[-2:]}


def test_a_test_split_is_read_from_its_own_files(raw, data):
    write_long(raw)
    write_lines(raw / "inputs.test.txt", SOURCES[:2])
    write_lines(raw / "targets.test.txt", TARGETS[:2])
    samples = FewFiles().text_samples(str(data), str(raw), "test")
    assert [sample["inputs"] for sample in samples] == SOURCES[:2]


def test_a_few_pairs_without_dev_files_are_an_error_before_any_work(raw, data):
    for name in ("inputs.eval.txt", "targets.eval.txt"):
        (raw / name).unlink()
    with pytest.raises(DataError, match=r"no dev files \(.*eval.txt\), and 4 lines .* too few"):
        generate_data(FewFiles(), str(data), str(raw))
    assert not list(data.glob("vocab*"))


def test_dev_files_that_come_later_are_not_passed_over(raw, data):
    write_long(raw)
    generate_data(FewFiles(), str(data), str(raw))
    write_lines(raw / "inputs.eval.txt", SOURCES)
    write_lines(raw / "targets.eval.txt", SOURCES)
    with pytest.raises(
        UserError,
        match=r"dev split: 'held out of training' -> 'files of its own'.*delete "
        r"text2text_tmpdir-train-\*, text2text_tmpdir-dev-\*",
    ):
        generate_data(FewFiles(), str(data), str(raw))
    for path in raw.iterdir():  # nor do files that are gone matter
        path.unlink()
    generate_data(FewFiles(), str(data), str(raw))


@pytest.mark.parametrize("name", ["inputs.train.txt", "targets.eval.txt"])
def test_a_missing_file_is_an_error_that_says_what_to_put_there(raw, data, name):
    (raw / name).unlink()
    with pytest.raises(UserError, match=f"{raw / name} is missing; it should contain"):
        generate_data(FewFiles(), str(data), str(raw))
    assert not list(data.glob("*"))  # it shows before the work on the other files


def test_files_of_unequal_length_are_an_error_with_both_counts(raw, data):
    write_lines(raw / "inputs.train.txt", SOURCES)
    with pytest.raises(DataError, match=r"inputs\.train\.txt and .*targets\.train\.txt: 5 and 4"):
        generate_data(FewFiles(), str(data), str(raw))


def test_an_empty_corpus_is_an_error_that_names_its_files(raw, data):
    for name in ("inputs.eval.txt", "targets.eval.txt"):
        (raw / name).write_text("")
    with pytest.raises(DataError, match=r"inputs\.eval\.txt and .*targets\.eval\.txt: no pair"):
        generate_data(FewFiles(), str(data), str(raw))


# ---- tables


def write_table(path: pathlib.Path, pairs: list[tuple[str, str]]) -> None:
    rows = [{"en": source, "de": target} for source, target in pairs]
    pq.write_table(pa.table({"translation": rows}), path)


@pytest.mark.parametrize("reverse", [False, True])
def test_tables_give_the_data_that_text_files_give(raw, tmp_path, data, reverse):
    generate_data(FewFiles(was_reversed=reverse), str(data), str(raw))
    folder = tmp_path / "tables"
    folder.mkdir()
    pairs = list(zip(SOURCES[:4], TARGETS, strict=True))
    write_table(folder / "train-00000-of-00002.parquet", pairs[:3])
    write_table(folder / "train-00001-of-00002.parquet", pairs[3:])
    write_table(folder / "validation.parquet", pairs[1:3])
    generate_data(FewFiles(was_reversed=reverse), str(tmp_path / "same"), str(folder))
    for path in data.glob("*-of-*"):
        assert (tmp_path / "same" / path.name).read_bytes() == path.read_bytes()


def test_the_last_rows_of_a_table_are_held_out(tmp_path, data, caplog):
    pairs = [(f"cat {n}", f"Katze {n}") for n in range(60)]
    write_table(tmp_path / "train.parquet", pairs)
    generate_data(FewFiles(), str(data), str(tmp_path))
    assert decoded_pairs(FewFiles(), data, "eval") == pairs[-3:]
    assert "no dev files (validation.parquet): the last 3 of 60 lines" in caplog.text


def test_data_of_other_rows_or_columns_is_not_used(tmp_path, data):
    write_table(tmp_path / "train.parquet", [(f"cat {n}", f"Katze {n}") for n in range(60)])
    generate_data(FewFiles(), str(data), str(tmp_path))
    write_lines(tmp_path / "columns.txt", ["translation.de", "translation.en"])
    next(data.glob("*-dev-*")).unlink()
    with pytest.raises(UserError, match=r"columns\.txt: new"):
        generate_data(FewFiles(), str(data), str(tmp_path))
    (tmp_path / "columns.txt").unlink()
    write_table(tmp_path / "train.parquet", [(f"dog {n}", f"Hund {n}") for n in range(60)])
    with pytest.raises(UserError, match=r"train\.parquet: \d+ -> \d+ bytes"):
        generate_data(FewFiles(), str(data), str(tmp_path))


def test_all_splits_have_the_columns_of_training(tmp_path):
    write_table(tmp_path / "train.parquet", [("dog", "Hund")])
    pq.write_table(
        pa.table({"translation": [{"de": "Katze", "en": "cat"}]}), tmp_path / "dev.parquet"
    )
    (sample,) = FewFiles().generate_samples("", str(tmp_path), "eval")
    assert sample == {"inputs": "cat", "targets": "Katze"}
    pq.write_table(pa.table({"source": ["cat"], "target": ["Katze"]}), tmp_path / "test.parquet")
    with pytest.raises(DataError, match=r"test\.parquet.*translation\.en"):
        next(FewFiles().generate_samples("", str(tmp_path), "test"))


def test_text_files_beside_a_table_are_refused(raw, data):
    write_table(raw / "train.parquet", [("a", "b")])
    with pytest.raises(UserError, match=r"inputs\.train\.txt and .*train\.parquet are both of"):
        generate_data(FewFiles(), str(data), str(raw))


def test_a_language_model_reads_no_tables(raw, data):
    write_table(raw / "train.parquet", [("a", "b")])
    generate_data(FewLines(), str(data), str(raw))


def test_undecodable_bytes_are_an_error_that_names_file_and_line(raw, data):
    (raw / "targets.train.txt").write_bytes(b"1\n2\n3 \xe4\n4\n")
    with pytest.raises(DataError, match=f"{raw / 'targets.train.txt'}, line 3"):
        generate_data(FewFiles(), str(data), str(raw))


def test_the_reversed_problem_has_the_same_files(raw, data):
    generate_data(FewFiles(), str(data), str(raw))
    before = sorted(data.iterdir())
    generate_data(FewFiles(was_reversed=True), str(data), str(raw))
    assert sorted(data.iterdir()) == before


class FewTokens(Text2textTmpdirTokens):
    base_name = "text2text_tmpdir_tokens"
    dataset_splits = FewFiles.dataset_splits


def test_tokens_come_from_the_users_list(raw, data):
    write_lines(raw / "vocab.txt", ["a", "cat", "<EOS>", "sleeps", "die"])
    problem = FewTokens()
    generate_data(problem, str(data), str(raw))
    vocab = data / "vocab.text2text_tmpdir_tokens.tokens"
    assert vocab.read_text().split() == ["<pad>", "<EOS>", "<UNK>", "a", "cat", "sleeps", "die"]
    (example, _) = records.read_examples(problem.filepaths(str(data), "eval"))
    assert example == {"inputs": [3, 2, 2, 2, 1], "targets": [2, 2, 2, 2, 1]}


def test_a_missing_token_list_is_an_error_that_says_what_to_put_there(raw, data):
    with pytest.raises(UserError, match=r"vocab\.txt is missing; it should contain your tokens"):
        generate_data(FewTokens(), str(data), str(raw))


def test_a_wrong_token_list_is_an_error_and_leaves_no_vocabulary(raw, data):
    write_lines(raw / "vocab.txt", ["a", "two words"])
    with pytest.raises(DataError, match=f"{raw / 'vocab.txt'}, line 2"):
        generate_data(FewTokens(), str(data), str(raw))
    assert not list(data.glob("vocab*"))


def test_bad_lines_are_named_and_with_skip_bad_left_out(raw, data, capsys):
    latin = "ein Hund läuft .".encode("latin-1")
    lines = [*(line.encode() for line in TARGETS[:1]), latin, *(t.encode() for t in TARGETS[2:])]
    (raw / "targets.train.txt").write_bytes(b"\r\n".join(lines))
    argv = ["--problem=text2text_tmpdir", f"--tmp_dir={raw}", f"--data_dir={data}"]

    def run(*more: str) -> tuple[int, str]:
        return exit_code(t2t_datagen.main, *argv, *more), capsys.readouterr().err

    bad = f"{raw}/targets.train.txt, line 2: byte 0xe4 at column 11 is not UTF-8"
    status, said = run()
    assert status == 1
    assert bad in said.splitlines()[-1]
    status, said = run("--skip_bad")
    assert status == 0
    assert f"skipped: {bad}" in said
    assert "targets.train.txt: skipped 1 bad lines" in said
    found = decoded_pairs(registry.problem("text2text_tmpdir"), data, "train")
    assert sorted(target for _, target in found) == sorted([TARGETS[0], *TARGETS[2:]])
