import shutil

import pytest

from support.texts import decoded_pairs, write_lines
from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.problems.imported import ImportedVocabulary, TranslateImported
from t2t_lite.text import imported_encoder

_WORDS = ["a", "cat", "sleeps", "eine", "Katze", "schläft"]
_PAIRS = [("a cat sleeps", "eine Katze schläft"), ("a cat", "eine Katze")]


class Few(TranslateImported):
    base_name = "translate_imported"
    dataset_splits = ({"split": "train", "shards": 1}, {"split": "eval", "shards": 1})


class English(Few):
    source_language = "en"
    target_language = "de"


class Own(ImportedVocabulary):
    base_name = "own"
    dataset_splits = ({"split": "train", "shards": 1},)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        yield from ({"inputs": inputs, "targets": targets} for inputs, targets in _PAIRS)


@pytest.fixture
def folder(tmp_path):
    """A folder that is both `tmp_dir` and `data_dir`: text, and the vocabulary of a model."""
    for side, lines in zip(("inputs", "targets"), zip(*_PAIRS, strict=True), strict=True):
        for split in ("train", "eval"):
            write_lines(tmp_path / f"{side}.{split}.txt", lines)
    _write_vocabulary(tmp_path)
    return tmp_path


def _write_vocabulary(folder, *languages, **settings):
    for side in ("source", "target"):
        imported_encoder.write_encoder(
            folder / f"vocab.imported.{side}.json",
            ["<pad>", "</s>", "<unk>", *_WORDS, *languages],
            2,
            languages={name: 9 + i for i, name in enumerate(languages)},
            **settings,
        )


def _first_ids(problem, folder):
    (example, *_) = records.read_examples(problem.existing_filepaths(str(folder), "train"))
    return example["inputs"][0], example["targets"][0]


def test_encodes_the_users_files(folder):
    problem = Few()
    generate_data(problem, str(folder), str(folder))
    assert sorted(decoded_pairs(problem, folder, "train")) == sorted(_PAIRS)
    assert decoded_pairs(problem, folder, "eval") == _PAIRS


def test_texts_begin_with_the_default_languages(folder):
    _write_vocabulary(folder, "de", "en", language_of="text", language="de")
    generate_data(Few(), str(folder), str(folder))
    assert _first_ids(Few(), folder) == (9, 9)


def test_texts_begin_with_the_languages_of_the_problem(folder):
    _write_vocabulary(folder, "de", "en", language_of="text")
    generate_data(English(), str(folder), str(folder))
    assert _first_ids(English(), folder) == (10, 9)


def test_languages_that_are_not_given_are_asked_for(folder):
    _write_vocabulary(folder, "de", "en", language_of="text")
    with pytest.raises(DataError, match=r"no default: set source_language and target_language"):
        generate_data(Few(), str(folder), str(folder))


def test_own_problems_use_the_same_vocabulary(folder):
    generate_data(Own(), str(folder), str(folder))
    assert sorted(decoded_pairs(Own(), folder, "train")) == sorted(_PAIRS)
    assert Own().load_vocab(str(folder)).tokens == Few().load_vocab(str(folder)).tokens


@pytest.mark.parametrize("name", Few().vocab_files())
def test_a_missing_vocabulary_is_asked_for(folder, name):
    (folder / name).unlink()
    expected = rf"{name} is missing; .*: cp MODEL_DIR/vocab.imported.\* {folder}$"
    with pytest.raises(UserError, match=expected):
        generate_data(Few(), str(folder), str(folder))
    with pytest.raises(UserError, match=expected):
        Few().get_feature_encoders(str(folder))


def test_another_vocabulary_is_noticed(folder):
    generate_data(Few(), str(folder), str(folder))
    _write_vocabulary(folder, "de", language_of="text", language="de")
    with pytest.raises(UserError, match=r"vocab\.imported\.source\.json"):
        generate_data(Few(), str(folder), str(folder))


@pytest.mark.parametrize(("side", "then", "now"), [("source", "en", "de"), ("target", "de", "en")])
def test_other_languages_are_noticed(folder, monkeypatch, side, then, now):
    _write_vocabulary(folder, "de", "en", language_of="text")
    generate_data(English(), str(folder), str(folder))
    generate_data(English(), str(folder), str(folder))  # the same ones are not
    monkeypatch.setattr(English, f"{side}_language", now)
    with pytest.raises(UserError, match=f"generated from .*{side}_language: '{then}' -> '{now}'"):
        generate_data(English(), str(folder), str(folder))


def test_text_files_are_asked_for(folder):
    shutil.move(folder / "inputs.train.txt", folder / "inputs.txt")
    with pytest.raises(UserError, match=r"inputs\.train\.txt"):
        generate_data(Few(), str(folder), str(folder))


def test_has_few_files():
    assert TranslateImported().dataset_splits[0] == {"split": "train", "shards": 10}


@pytest.mark.parametrize("name", ["translate_imported_rev", "translate_imported_rev_copy"])
def test_has_one_direction(name):
    with pytest.raises(UsageError, match="an imported model has one direction"):
        registry.problem(name)
