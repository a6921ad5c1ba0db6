"""Generation with a vocabulary that begins with that of other data."""

import pathlib

import pytest

from support.folders import digests
from support.lines import TEXT
from support.texts import write_lines
from t2t_lite.data import records
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem, TwoVocabularies
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import VocabType

NEW_TEXT = ["Лодки стоят в гавани.", "Мальчики сидят в лодках.", "Гавань мала, и лодка мала."]


class Old(Text2TextProblem):
    base_name = "old"
    vocab_type = VocabType.SENTENCEPIECE_BPE
    approx_vocab_size = 320
    lines = tuple(TEXT)
    dataset_splits = ({"split": DatasetSplit.TRAIN, "shards": 1},)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return [{"inputs": line, "targets": line} for line in self.lines]


class New(Old):
    base_name = "new"
    lines = (*NEW_TEXT, *TEXT)


@pytest.fixture
def old(tmp_path) -> pathlib.Path:
    folder = tmp_path / "old"
    folder.mkdir()
    generate_data(Old(), str(folder), str(tmp_path), DatagenOptions(num_workers=1))
    return folder


def generate(problem, data, **options):
    generate_data(problem, str(data), str(data), DatagenOptions(num_workers=1, **options))


def test_old_ids_stay_and_records_have_the_new_ones(old, data):
    generate(New(), data, extend_vocab=str(old))
    (path,) = old.glob("vocab.*")
    there, here = SentencePieceEncoder(path), New().load_vocab(str(data))
    assert here.tokens[: there.vocab_size] == there.tokens
    assert here.vocab_size > there.vocab_size + 10
    paths = New().existing_filepaths(str(data), DatasetSplit.TRAIN)
    found = sorted(example["inputs"] for example in records.read_examples(paths))
    assert found == sorted([*here.encode(line), 1] for line in New.lines)
    known = [ids for ids in found if max(ids) < there.vocab_size]
    assert sorted([*there.encode(line), 1] for line in TEXT) == known


def test_a_file_serves_as_well_as_its_folder_and_the_fingerprint_knows_it(old, data, tmp_path):
    generate(New(), data, extend_vocab=str(old))
    finished = digests(data)
    (path,) = old.glob("vocab.*")
    generate(New(), data, extend_vocab=str(path))
    assert digests(data) == finished
    with pytest.raises(UserError, match=r"now\): extend_vocab: '\w{64}' -> ''"):
        generate(New(), data)
    other = tmp_path / "other"
    other.mkdir()
    generate(New(), other)
    with pytest.raises(UserError, match=r"now\): extend_vocab: '' -> '\w{64}'"):
        generate(New(), other, extend_vocab=str(old))


class Subwords(New):
    vocab_type = VocabType.SUBWORD


class Bytes(New):
    vocab_type = VocabType.CHARACTER


class Unigram(New):
    vocab_type = VocabType.SENTENCEPIECE_UNIGRAM


class Two(TwoVocabularies, New):
    vocab_languages = ("en", "ru")


class Borrowed(New):
    use_vocab_from_other_problem = Old()


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Subwords, r"bpe or unigram can be extended; that of new is vocab\.new\.320\.subwords"),
        (Bytes, "can be extended; that of new is character"),
        (Unigram, "has the type bpe, but vocab_type of new is unigram: they must be the same"),
        (Two, r"that of new is vocab\.new\.320\.bpe\.model\.en, vocab"),
        (Borrowed, "new has the vocabulary of old: extend that"),
    ],
)
def test_other_vocabularies_are_refused_by_name(problem, message, old, data):
    with pytest.raises(UsageError, match=f"--extend_vocab: .*{message}"):
        generate(problem(), data, extend_vocab=str(old))
    assert not list(data.glob("vocab.*"))


def test_a_folder_or_file_without_a_vocabulary_is_named(old, data):
    (data / "empty").mkdir()
    with pytest.raises(UsageError, match=r"empty has no single SentencePiece .* \(none\): name a"):
        generate(New(), data, extend_vocab=str(data / "empty"))
    with pytest.raises(UserError, match="missing: no such file"):
        generate(New(), data, extend_vocab=str(data / "missing"))
    write_lines(data / "text", TEXT)
    with pytest.raises(DataError, match="text is not a SentencePiece model"):
        generate(New(), data, extend_vocab=str(data / "text"))
