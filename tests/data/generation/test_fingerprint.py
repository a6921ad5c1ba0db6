"""Fingerprints: errors name every change of the sources and options, and nothing else."""

import bz2
import gzip
import hashlib
import json
import logging
import os
import pathlib
import re

import pytest

from t2t_lite.data.generation import fingerprint
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.errors import UserError
from t2t_lite.problems import text2text_tmpdir
from t2t_lite.text.text_encoder import VocabType

VOCABULARY = "vocab.words.32768.subwords"


class Words(text2text_tmpdir.Text2textTmpdir):
    """A vocabulary file that tests write, two training files, and configurable settings."""

    base_name = "words"
    dataset_splits = (
        {"split": DatasetSplit.TRAIN, "shards": 2},
        {"split": DatasetSplit.EVAL, "shards": 1},
    )


def words(**members) -> Words:
    """The same problem with other members."""
    return type("Words", (Words,), members)()


class Folders:
    """A folder of raw files and one of data, guarded as by data generation."""

    def __init__(self, folder: pathlib.Path):
        self.raw, self.data = folder / "raw", folder / "data"
        self.raw.mkdir()
        self.data.mkdir()
        for split in ("train", "eval"):
            for side in ("inputs", "targets"):
                (self.raw / f"{side}.{split}.txt").write_text(f"{side} of\n{split}\n")

    def guard(self, problem=None, make_vocabulary=False, **options):
        problem = problem or Words()
        arguments = (problem, str(self.data), str(self.raw), DatagenOptions(**options))
        fingerprint.guard_vocabulary(*arguments)
        if make_vocabulary:
            (self.data / problem.vocab_filename).write_text("a\nb\n")
        fingerprint.guard_splits(*arguments)

    def make(self, problem=None, **options):
        """Guards, then creates all files without generating their contents."""
        problem = problem or Words()
        self.guard(problem, make_vocabulary=True, **options)
        for entry in problem.dataset_splits:
            for path in problem.filepaths(str(self.data), entry["split"]):
                pathlib.Path(path).touch()

    def entries(self, name: str = "words") -> dict:
        return json.loads((self.data / f"{name}.fingerprint.json").read_text())

    def write_entries(self, entries: dict):
        (self.data / "words.fingerprint.json").write_text(json.dumps(entries))


@pytest.fixture
def folders(tmp_path) -> Folders:
    return Folders(tmp_path)


def test_an_entry_says_what_data_is_made_from(folders):
    folders.make(random_seed=7, num_workers=3, clean="max_ratio=3.0")
    entries = folders.entries()
    assert list(entries) == ["vocabulary", "train", "dev"]
    text = (folders.raw / "inputs.train.txt").read_bytes()
    assert entries["train"]["sources"]["inputs.train.txt"] == {
        "size": 16,
        "sha256": hashlib.sha256(text).hexdigest(),
    }
    sources = {name: list(entry["sources"]) for name, entry in entries.items()}
    of_train = ["inputs.train.txt", "targets.train.txt"]
    of_dev = ["inputs.eval.txt", "targets.eval.txt"]
    assert sources == {"vocabulary": of_train, "train": of_train, "dev": of_dev}
    options = entries["train"]["options"]
    assert (options["random_seed"], options["clean"]) == (7, "max_ratio=3.0")
    assert entries["vocabulary"]["options"]["clean"] == "max_ratio=3.0"
    assert entries["dev"]["options"]["clean"] == ""  # training pairs alone are cleaned
    assert entries["train"]["vocabulary"] == {VOCABULARY: hashlib.sha256(b"a\nb\n").hexdigest()}
    assert set(entries["train"]["versions"]) == {"t2t_lite", "sentencepiece"}


def longer(folders):
    (folders.raw / "inputs.train.txt").write_text("inputs of\nthe train\n")


def equally_long(folders):
    (folders.raw / "targets.eval.txt").write_text("TARGETS OF\neval\n")


def compressed(folders):
    path = folders.raw / "inputs.train.txt"
    (folders.raw / "inputs.train.txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def another_vocabulary(folders):
    (folders.data / VOCABULARY).write_text("a\nc\n")


@pytest.mark.parametrize(
    ("change", "message", "to_delete"),
    [
        (longer, "inputs.train.txt: 16 -> 20 bytes", f"{VOCABULARY}, words-*"),
        (equally_long, "targets.eval.txt: other contents", "words-dev-*"),
        (
            another_vocabulary,
            f"vocabulary {VOCABULARY}: other contents",
            "words-train-*, words-dev-*",
        ),
    ],
)
def test_a_changed_file_is_named_with_what_to_delete(folders, change, message, to_delete):
    folders.make()
    before = folders.entries()
    change(folders)
    with pytest.raises(UserError) as error:
        folders.guard()
    assert str(error.value) == (
        f"{folders.data} has data of words generated from something else (there -> now): "
        f"{message}. Restore that, or delete {to_delete} there (rm -r) to regenerate them, "
        "or name another --data_dir"
    )
    assert folders.entries() == before


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        (Words(), {"random_seed": 2}, "random_seed: 1 -> 2"),
        (Words(), {"clean": "identical"}, "clean: '' -> 'identical'"),
        (Words(), {"skip_bad": False}, "skip_bad: True -> False"),
        (
            words(dataset_splits=({"split": DatasetSplit.TRAIN, "shards": 3},)),
            {},
            "shards: {'train': 2} -> {'train': 3}",
        ),
        (words(inputs_prefix="de: "), {}, "inputs_prefix: '' -> 'de: '"),
        (words(max_samples_for_vocab=5), {}, "max_samples_for_vocab: None -> 5"),
        (words(additional_reserved_tokens=("<x>",)), {}, "additional_reserved_tokens: [] -> ['<"),
        (words(approx_vocab_size=5), {}, "approx_vocab_size: 32768 -> 5"),
        (type("Others", (Words,), {})(), {}, "problem: 'Words' -> 'Others'"),
    ],
)
def test_a_changed_option_is_named(folders, problem, options, message):
    settings = {"random_seed": 1, "skip_bad": True}
    folders.make(**settings)
    folders.guard(**settings, num_workers=5)
    with pytest.raises(UserError) as error:
        folders.guard(problem, **settings | options)
    assert message in str(error.value)


def test_the_module_of_a_problem_may_be_renamed(folders):
    folders.make(words(__module__="my_problems"))
    before = folders.entries()
    folders.guard(words(__module__="my_problems.corpora"))
    assert folders.entries() == before


def test_all_changes_are_named_at_once(folders):
    folders.make()
    equally_long(folders)
    another_vocabulary(folders)
    with pytest.raises(UserError) as error:
        folders.guard(words(inputs_prefix="de: "))
    assert (
        "(there -> now): inputs_prefix: '' -> 'de: '; vocabulary vocab.words.32768.subwords: other "
        "contents; targets.eval.txt: other contents. Restore"
    ) in str(error.value)


def test_strictly_read_data_may_be_completed_skipping_what_is_bad(folders):
    folders.make(skip_bad=False)
    folders.guard(skip_bad=True)
    folders.guard(skip_bad=False)
    (folders.data / "words-train-00001-of-00002").unlink()
    folders.guard(skip_bad=True)  # what is made now may lack bad lines
    with pytest.raises(UserError, match="skip_bad: True -> False"):
        folders.guard(skip_bad=False)


def test_a_file_with_another_time_and_the_same_contents_is_unchanged(folders):
    folders.make()
    before = folders.entries()
    os.utime(folders.raw / "inputs.train.txt", ns=(1, 1))
    folders.guard()
    assert folders.entries() == before


def test_a_file_with_other_contents_and_the_same_size_and_time_is_noticed(folders):
    folders.make()
    path = folders.raw / "inputs.train.txt"
    status = path.stat()
    path.write_bytes(b"x" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(UserError, match=r"inputs\.train\.txt: other contents"):
        folders.guard()


def test_what_an_older_release_recorded_of_a_file_is_read(folders):
    folders.make()
    entries = folders.entries()
    for entry in entries.values():
        for source in entry["sources"].values():
            source["mtime_ns"] = 1
    folders.write_entries(entries)
    folders.guard()
    longer(folders)
    with pytest.raises(UserError, match="16 -> 20 bytes"):
        folders.guard()


def test_raw_files_may_be_deleted_when_all_is_made_but_not_before(folders):
    folders.make()
    before = folders.entries()
    contents = {path: path.read_bytes() for path in folders.raw.iterdir()}
    for path in contents:
        path.unlink()
    folders.guard()
    assert folders.entries() == before
    (folders.data / "words-train-00001-of-00002").unlink()
    with pytest.raises(UserError, match=r"inputs\.train\.txt: missing; targets\.train\.txt: miss"):
        folders.guard()
    for path, content in contents.items():
        path.write_bytes(content)
    folders.guard()
    longer(folders)  # and when others are put there
    with pytest.raises(UserError, match=r"inputs\.train\.txt: 16 -> 20 bytes"):
        folders.guard()


def test_raw_files_may_be_compressed_when_all_is_made_but_not_before(folders):
    folders.make()
    before = folders.entries()
    compressed(folders)
    folders.guard()
    assert folders.entries() == before
    (folders.data / "words-train-00001-of-00002").unlink()
    with pytest.raises(UserError, match=r"inputs.train.txt: missing; inputs.train.txt.gz: new\. "):
        folders.guard()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("inputs.train.txt.gz", gzip.compress(b"inputs of\nXrain\n", mtime=0)),
        ("inputs.train.txt.bz2", bz2.compress(b"inputs of\nXrain\n")),
        ("inputs.train.txt.gz", b"damaged"),
    ],
    ids=["gz", "bz2", "damaged"],
)
def test_a_compressed_file_with_another_text_than_the_one_it_replaces_is_named(
    folders, name, content
):
    folders.make()
    (folders.raw / "inputs.train.txt").unlink()
    (folders.raw / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{re.escape(name)}: other contents"):
        folders.guard()


def test_text_in_place_of_a_compressed_file_is_named(folders):
    """Whether it is the same is not known: the fingerprint is that of the compressed bytes."""
    compressed(folders)
    folders.make()
    (folders.raw / "inputs.train.txt.gz").unlink()
    (folders.raw / "inputs.train.txt").write_text("another\ntext\n")
    with pytest.raises(UserError, match=r"inputs\.train\.txt: other contents"):
        folders.guard()


def test_a_new_raw_file_beside_all_the_others_is_named(folders):
    made_from = folders.raw / "more.train.txt"

    class More(Words):
        def source_files(self, tmp_dir, dataset_split):
            files = super().source_files(tmp_dir, dataset_split)
            return [*files, made_from] if made_from.exists() else files

    more = More()
    folders.make(more)
    made_from.touch()
    with pytest.raises(UserError, match=r"more\.train\.txt: new\. "):
        folders.guard(more)


def test_what_has_been_deleted_may_be_made_from_something_else(folders):
    folders.make()
    longer(folders)
    for path in folders.data.glob("words-train-*"):
        path.unlink()
    with pytest.raises(UserError, match="16 -> 20 bytes"):
        folders.guard()  # the vocabulary is still there
    (folders.data / VOCABULARY).unlink()
    folders.make()
    assert folders.entries()["train"]["sources"]["inputs.train.txt"]["size"] == 20
    assert folders.entries()["vocabulary"]["sources"]["inputs.train.txt"]["size"] == 20


def test_data_without_a_fingerprint_is_kept_if_complete(folders, caplog):
    folders.make()
    (folders.data / "words.fingerprint.json").unlink()
    longer(folders)
    with caplog.at_level(logging.INFO):
        folders.guard(random_seed=9)
    assert "words-train-* in" in caplog.text
    assert "no fingerprint records their sources" in caplog.text
    assert not (folders.data / "words.fingerprint.json").exists()
    (folders.data / "words-train-00001-of-00002").unlink()
    with pytest.raises(UserError, match=r"words-train-\* are incomplete"):
        folders.guard()


def test_one_of_two_vocabularies_may_be_the_users(folders):
    (folders.data / "words.model").touch()
    folders.guard(words(vocab_files=lambda self: ["words.model", "symbols.tokens"]))
    assert list(folders.entries()) == ["train", "dev"]


def test_an_option_that_an_older_release_did_not_note_is_taken_as_it_is_now(folders):
    folders.make()
    entries = folders.entries()
    for entry in entries.values():
        del entry["options"]["random_seed"]
    folders.write_entries(entries)
    (folders.data / "words-train-00001-of-00002").unlink()
    folders.guard(random_seed=5)
    assert folders.entries()["train"]["options"]["random_seed"] == 5


def test_other_releases_are_a_warning(folders, caplog):
    folders.make()
    entries = folders.entries()
    entries["train"]["versions"]["sentencepiece"] = "0.1.9"
    folders.write_entries(entries)
    folders.guard()
    assert "words-train-* in" in caplog.text
    assert "generated with sentencepiece 0.1.9, this is" in caplog.text
    assert folders.entries() == entries


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "\0", "[" * 200_000, '{"train": 3}', '{"all": []}'),
        '{"train": {"sources": {"x": {"size": 1}}}}',
        '{"all": {"sources": {}, "options": [], "vocabulary": {}, "versions": {}}}',
        '{"all": {"sources": {}, "' + "x" * 10**6 + '": 1}}',
    ],
)
def test_a_damaged_fingerprint_is_a_short_error_that_names_it(folders, text):
    folders.make()
    path = folders.data / "words.fingerprint.json"
    path.write_text(text)
    with pytest.raises(
        UserError, match=rf"^{path}: not a fingerprint \(.*; delete it to keep"
    ) as error:
        folders.guard()
    assert len(str(error.value)) < 1000


def test_samples_dealt_out_over_all_splits_have_one_entry(folders):
    dealt = words(is_generate_per_split=False)
    folders.make(dealt)
    assert list(folders.entries()) == ["vocabulary", "all"]
    assert folders.entries()["all"]["options"]["shards"] == {"train": 2, "dev": 1}
    (folders.data / "words-dev-00000-of-00001").unlink()
    folders.guard(dealt)
    with pytest.raises(UserError, match=r"max_cases: .*delete words-train-\*, words-dev-\* "):
        folders.guard(dealt, max_cases=5)


def test_a_vocabulary_of_another_problem_is_noted_with_the_other(folders):
    folders.make(words(base_name="borrowing", use_vocab_from_other_problem=Words()))
    assert list(folders.entries()) == ["vocabulary"]
    borrowed = folders.entries("borrowing")
    assert list(borrowed) == ["train", "dev"]
    assert list(borrowed["train"]["vocabulary"]) == [VOCABULARY]


def test_the_vocabulary_of_tokens_is_made_from_their_list_alone(folders):
    tokens = type("Tokens", (text2text_tmpdir.Text2textTmpdirTokens,), {"base_name": "tokens"})()
    (folders.raw / "vocab.txt").write_text("a\nb\n")
    folders.make(tokens)
    assert list(folders.entries("tokens")["vocabulary"]["sources"]) == ["vocab.txt"]
    (folders.raw / "vocab.txt").write_text("a\nb\nc\n")
    with pytest.raises(
        UserError, match=r"vocab\.txt: 4 -> 6 bytes.*delete vocab\.tokens\.tokens, "
    ):
        folders.guard(tokens)


def test_a_list_of_tokens_in_the_data_folder_is_the_users(folders):
    folders.make(words(vocab_type=VocabType.TOKEN))
    assert list(folders.entries()) == ["train", "dev"]
    assert list(folders.entries()["train"]["vocabulary"]) == ["vocab.words.tokens"]


def test_what_is_downloaded_is_noted(tmp_path):
    class Remote(Words):
        def fetch_sources(self, tmp_dir, dataset_split):
            for path in text2text_tmpdir.text_files(tmp_dir, dataset_split):
                path.write_text("some words\nand others\n")
            return self.source_files(tmp_dir, dataset_split)

    raw = tmp_path / "raw"
    raw.mkdir()
    generate_data(Remote(), str(tmp_path), str(raw), DatagenOptions(num_workers=1))
    entries = json.loads((tmp_path / "words.fingerprint.json").read_text())
    sources = {name: len(entry["sources"]) for name, entry in entries.items()}
    assert sources == {"vocabulary": 2, "train": 2, "dev": 2}
