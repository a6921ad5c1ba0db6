"""What data was made from: every change is named, and nothing else stands in the way."""

import gzip
import hashlib
import itertools
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from t2t_lite import registry
from t2t_lite.bin import t2t_datagen
from t2t_lite.data import cleaning, corpora, fingerprint, text_encoder
from t2t_lite.data.config import DatagenOptions
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import VocabType
from t2t_lite.errors import UserError
from t2t_lite.problems import text2text_tmpdir


class Words(text2text_tmpdir.Text2textTmpdir):
    """A vocabulary file that tests write, two training files, settings as given."""

    base_name = "words"
    dataset_splits = (
        {"split": DatasetSplit.TRAIN, "shards": 2},
        {"split": DatasetSplit.EVAL, "shards": 1},
    )


def words(**members) -> Words:
    """The same problem with other members."""
    return type("Words", (Words,), {"__module__": __name__, **members})()


class Folders:
    """A folder of raw files and one of data, and what a run of data generation guards there."""

    def __init__(self, folder: pathlib.Path):
        self.raw, self.data = folder / "raw", folder / "data"
        self.raw.mkdir()
        self.data.mkdir()
        for split in ("train", "eval"):
            for side in ("inputs", "targets"):
                (self.raw / f"{side}.{split}.txt").write_text(f"{side} of\n{split}\n")

    def guard(self, problem=None, **options):
        arguments = (problem or Words(), str(self.data), str(self.raw), DatagenOptions(**options))
        fingerprint.guard_vocabulary(*arguments)
        fingerprint.guard_splits(*arguments)

    def make(self, problem=None, **options):
        """Guards, then puts all files there, not asking what generation makes of the text."""
        problem = problem or Words()
        arguments = (problem, str(self.data), str(self.raw), DatagenOptions(**options))
        fingerprint.guard_vocabulary(*arguments)
        (self.data / problem.vocab_filename).write_text("a\nb\n")
        fingerprint.guard_splits(*arguments)
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
    folders.make(seed=7, num_workers=3, cleaning=cleaning.CleaningRules(max_ratio=3.0))
    entries = folders.entries()
    assert list(entries) == ["vocabulary", "train", "dev"]
    text = (folders.raw / "inputs.train.txt").read_bytes()
    assert entries["train"]["sources"]["inputs.train.txt"] == {
        "size": 16,
        "mtime_ns": (folders.raw / "inputs.train.txt").stat().st_mtime_ns,
        "sha256": hashlib.sha256(text).hexdigest(),
    }
    sources = {name: list(entry["sources"]) for name, entry in entries.items()}
    of_train = ["inputs.train.txt", "targets.train.txt"]
    of_dev = ["inputs.eval.txt", "targets.eval.txt"]
    assert sources == {"vocabulary": of_train, "train": of_train, "dev": of_dev}
    options = entries["train"]["options"]
    assert (options["random_seed"], options["clean"]) == (7, "max_ratio=3.0")
    assert entries["dev"]["options"]["clean"] == ""  # training pairs alone are cleaned
    assert entries["train"]["vocabulary"] == {
        "vocab.words.32768.subwords": hashlib.sha256(b"a\nb\n").hexdigest()
    }
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
    (folders.data / "vocab.words.32768.subwords").write_text("a\nc\n")


@pytest.mark.parametrize(
    ("change", "message", "to_delete"),
    [
        (longer, "inputs.train.txt: 16 -> 20 bytes", "vocab.words.32768.subwords, words-*"),
        (equally_long, "targets.eval.txt: other contents", "words-dev-*"),
        (
            another_vocabulary,
            "vocabulary vocab.words.32768.subwords: other contents",
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
        f"{folders.data} holds data of words made from something else (there -> now): {message}. "
        f"Go back to that, or delete {to_delete} there (rm -r) to have them made anew, "
        "or name another --data_dir"
    )
    assert folders.entries() == before


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        (Words(), {"seed": 2}, "random_seed: 1 -> 2"),
        (Words(), {"cleaning": cleaning.CleaningRules(identical=True)}, "clean: '' -> 'identical'"),
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
        (type("Others", (Words,), {})(), {}, "Words' -> '"),
    ],
)
def test_a_changed_option_is_named(folders, problem, options, message):
    settings = {"seed": 1, "skip_bad": True}
    folders.make(**settings)
    folders.guard(**settings, num_workers=5)
    with pytest.raises(UserError) as error:
        folders.guard(problem, **settings | options)
    assert message in str(error.value)


def test_all_changes_are_named_at_once(folders):
    folders.make()
    equally_long(folders)
    another_vocabulary(folders)
    with pytest.raises(UserError) as error:
        folders.guard(words(inputs_prefix="de: "))
    assert (
        "(there -> now): inputs_prefix: '' -> 'de: '; vocabulary vocab.words.32768.subwords: other "
        "contents; targets.eval.txt: other contents. Go back"
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
    path = folders.raw / "inputs.train.txt"
    os.utime(path, ns=(1, 1))
    folders.guard()
    assert folders.entries()["train"]["sources"]["inputs.train.txt"]["mtime_ns"] == 1


def test_a_file_with_the_same_size_and_time_is_not_read_again(folders):
    folders.make()
    path = folders.raw / "inputs.train.txt"
    status = path.stat()
    path.write_bytes(b"x" * status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    folders.guard()
    assert folders.entries()["train"]["sources"]["inputs.train.txt"]["sha256"] != (
        hashlib.sha256(b"x" * status.st_size).hexdigest()
    )


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
    (folders.data / "vocab.words.32768.subwords").unlink()
    folders.make()
    assert folders.entries()["train"]["sources"]["inputs.train.txt"]["size"] == 20
    assert folders.entries()["vocabulary"]["sources"]["inputs.train.txt"]["size"] == 20


def test_data_without_a_fingerprint_is_kept_if_complete(folders, caplog):
    folders.make()
    (folders.data / "words.fingerprint.json").unlink()
    longer(folders)
    with caplog.at_level(logging.INFO):
        folders.guard(seed=9)
    assert "words-train-* in" in caplog.text
    assert "no fingerprint says what they were made from" in caplog.text
    assert not (folders.data / "words.fingerprint.json").exists()
    (folders.data / "words-train-00001-of-00002").unlink()
    with pytest.raises(UserError, match=r"words-train-\* are not all there"):
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
    folders.guard(seed=5)
    assert folders.entries()["train"]["options"]["random_seed"] == 5


def test_other_releases_are_a_warning(folders, caplog):
    folders.make()
    entries = folders.entries()
    entries["train"]["versions"]["sentencepiece"] = "0.1.9"
    folders.write_entries(entries)
    folders.guard()
    assert "words-train-* in" in caplog.text
    assert "made with sentencepiece 0.1.9, this is" in caplog.text
    assert folders.entries() == entries


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"train": 3}', '{"train": {"sources": {"x": {"size": 1}}}}']
)
def test_a_damaged_fingerprint_is_an_error_that_names_it(folders, text):
    folders.make()
    path = folders.data / "words.fingerprint.json"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"^{path}: not a fingerprint .*; delete it if"):
        folders.guard()


def test_samples_dealt_out_over_all_splits_have_one_entry(folders):
    dealt = words(is_generate_per_split=False)
    folders.make(dealt)
    assert list(folders.entries()) == ["vocabulary", "all"]
    assert folders.entries()["all"]["options"]["shards"] == {"train": 2, "dev": 1}
    (folders.data / "words-dev-00000-of-00001").unlink()
    folders.guard(dealt)
    with pytest.raises(UserError, match=r"clean: .*delete words-train-\*, words-dev-\* there "):
        folders.guard(dealt, cleaning=cleaning.CleaningRules(identical=True))


def test_a_vocabulary_of_another_problem_is_noted_with_the_other(folders):
    folders.make(words(base_name="borrowing", use_vocab_from_other_problem=Words()))
    assert list(folders.entries()) == ["vocabulary"]
    borrowed = folders.entries("borrowing")
    assert list(borrowed) == ["train", "dev"]
    assert list(borrowed["train"]["vocabulary"]) == ["vocab.words.32768.subwords"]


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


def test_symbols_of_parsing_are_made_from_every_split(tmp_path):
    for file in ("wsj_0001.mrg", "wsj_0140.mrg", "wsj_0150.mrg"):
        (tmp_path / file).touch()
    problem = registry.problem("parsing_treebank_sample")
    assert len(problem.vocab_source_files(str(tmp_path))) == 3


# ---- through the command's function, whole generations


@pytest.fixture
def corpus(folders) -> Folders:
    """120 pairs to train and as many to watch: more than `text2text_tmpdir` has files."""
    for path in folders.raw.iterdir():
        path.write_text("".join(f"{path.name} {number}\n" for number in range(120)))
    return folders


def generate(folders: Folders, **options):
    t2t_datagen.generate(
        ["text2text_tmpdir"],
        str(folders.data),
        str(folders.raw),
        DatagenOptions(num_workers=1, **options),
    )


def digests(folder: pathlib.Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_nothing_is_made_or_kept_once_a_source_has_changed(corpus):
    generate(corpus)
    finished = digests(corpus.data)
    generate(corpus)
    assert digests(corpus.data) == finished
    targets = corpus.raw / "targets.eval.txt"
    targets.write_text(targets.read_text().upper())
    with pytest.raises(UserError, match=r"now\): targets\.eval\.txt: other contents\. "):
        generate(corpus)
    assert digests(corpus.data) == finished
    (corpus.data / "text2text_tmpdir-dev-00000-of-00001").unlink()
    generate(corpus)
    remade = digests(corpus.data)
    changed = {name for name in finished if remade[name] != finished[name]}
    assert changed == {
        "text2text_tmpdir-dev-00000-of-00001",
        "text2text_tmpdir.fingerprint.json",
    }


_KILLED_RUN = """
import os, pathlib, signal, sys
from t2t_lite.bin import t2t_datagen
from t2t_lite.data.config import DatagenOptions

def replace(self, target, original=pathlib.Path.replace):
    original(self, target)
    if pathlib.Path(target).name == "text2text_tmpdir-train-00041-of-00100":
        os.kill(os.getpid(), signal.SIGKILL)

pathlib.Path.replace = replace
t2t_datagen.generate(["text2text_tmpdir"], *sys.argv[1:], DatagenOptions(num_workers=1))
"""


def test_a_killed_run_is_gone_on_with_from_the_same_inputs_only(corpus, tmp_path):
    arguments = [sys.executable, "-c", _KILLED_RUN, str(corpus.data), str(corpus.raw)]
    assert subprocess.run(arguments).returncode == -signal.SIGKILL
    assert not (corpus.data / "text2text_tmpdir-train-00042-of-00100").exists()
    inputs = corpus.raw / "inputs.train.txt"
    text = inputs.read_text()
    inputs.write_text(text.replace("119", "one hundred and nineteen"))
    with pytest.raises(UserError, match=r"inputs\.train\.txt: \d+ -> \d+ bytes"):
        generate(corpus)
    inputs.write_text(text)
    with pytest.raises(UserError, match="random_seed: 429459 -> 5"):
        generate(corpus, seed=5)
    generate(corpus)

    undisturbed = tmp_path / "undisturbed"
    t2t_datagen.generate(
        ["text2text_tmpdir"], str(undisturbed), str(corpus.raw), DatagenOptions(num_workers=1)
    )
    assert digests(corpus.data) == digests(undisturbed)


def test_changed_splits_are_named_before_a_vocabulary_is_built(corpus, monkeypatch):
    generate(corpus)
    (corpus.data / "text2text_tmpdir-train-00041-of-00100").unlink()
    (corpus.data / "vocab.text2text_tmpdir.32768.subwords").unlink()
    monkeypatch.delattr(text_encoder, "build")
    with pytest.raises(UserError, match="clean: '' -> 'identical'"):
        generate(corpus, cleaning=cleaning.CleaningRules(identical=True))


def test_a_vocabulary_that_is_built_again_is_held_against_the_splits(corpus, monkeypatch):
    generate(corpus)
    finished = digests(corpus.data)
    vocabulary = corpus.data / "vocab.text2text_tmpdir.32768.subwords"
    vocabulary.unlink()
    generate(corpus)
    assert digests(corpus.data) == finished

    def build(kind, path, text, *arguments, original=text_encoder.build, **options):
        original(kind, path, itertools.islice(text, 5), *arguments, **options)

    vocabulary.unlink()
    monkeypatch.setattr(text_encoder, "build", build)
    with pytest.raises(UserError, match=r"vocabulary vocab\.text2text_tm.*: other contents"):
        generate(corpus)


def test_what_is_downloaded_is_noted(tmp_path):
    class Remote(Words):
        def fetch_sources(self, tmp_dir, dataset_split):
            for path in self._text_files(tmp_dir, dataset_split):
                path.write_text("some words\nand others\n")
            return self.source_files(tmp_dir, dataset_split)

    raw = tmp_path / "raw"
    raw.mkdir()
    Remote().generate_data(str(tmp_path), str(raw), DatagenOptions(num_workers=1))
    entries = json.loads((tmp_path / "words.fingerprint.json").read_text())
    assert {name: len(entry["sources"]) for name, entry in entries.items()} == {
        "vocabulary": 2,
        "train": 2,
        "dev": 2,
    }


# ---- the sources of the problems that come with the package


_PARSING = {"sample/wsj_0001.mrg": "train", "sample/wsj_0139.mrg": "train"}
_PARSING |= {"sample/wsj_0141.mrg": "eval", "wsj_0159.mrg": "test", "wsj_0250.mrg": None}
_SAMPLE = "treebank-combined-wsj_0001-0159.tgz"
_CRAFT_TRAIN, _CRAFT_DEV = "craft-treebank-penn-train.tgz", "craft/craft-treebank-penn-dev.tgz"


@pytest.mark.parametrize(
    ("name", "files"),
    [
        (
            "translate_enfr_multi30k",
            {"multi30k/train.en.gz": "train", "train.fr": "train", "val.fr.gz": "eval"},
        ),
        ("translate_enfr_multi30k", {"train.de": None, "multi30k/test_2016_flickr.fr": "test"}),
        (
            "translate_ende_wmt14_bpe37k",
            {
                "training-parallel-europarl-v7.tgz": "train",
                "training-parallel-commoncrawl.tgz": "train",
                "training-parallel-un.tgz": None,
                "dev.tgz": "eval",
                "test-full.tgz": "test",
            },
        ),
        ("wsj_parsing", {"wsjTrain.trees": "train", "wsjEval.trees.gz": "eval"}),
        ("parsing_treebank_sample", _PARSING),
        ("parsing_treebank_sample", dict.fromkeys(_PARSING) | {_SAMPLE: "train"}),
        ("parsing_craft", {_CRAFT_TRAIN: "train", _CRAFT_DEV: "eval"}),
        ("parsing_treebank_sample_craft", _PARSING | {_CRAFT_TRAIN: "train", _CRAFT_DEV: None}),
        ("translate_ende_locale", {}),
        ("algorithmic_reverse_decimal40", {}),
    ],
)
def test_each_problem_names_the_files_that_a_split_is_read_from(tmp_path, name, files):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    problem = registry.problem(name)
    splits = [entry["split"] for entry in problem.dataset_splits]
    for split in splits[:1] if _SAMPLE in files else splits:
        found = problem.source_files(str(tmp_path), split)
        assert sorted(found) == sorted(tmp_path / file for file in files if files[file] == split)


@pytest.mark.parametrize("name", ["translate_enfr_multi30k", "translate_ende_wmt14_bpe37k"])
def test_fetching_gives_all_sources(tmp_path, name, monkeypatch):
    def download(url, path, file_hash=None):
        path.parent.mkdir(exist_ok=True)
        path.touch()

    monkeypatch.setattr(corpora, "download", download)
    problem = registry.problem(name)
    fetched = problem.fetch_sources(str(tmp_path), DatasetSplit.TRAIN)
    assert len(fetched) >= 2
    assert problem.source_files(str(tmp_path), DatasetSplit.TRAIN) == fetched
