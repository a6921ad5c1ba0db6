"""The report reads problems that encode their samples or write their files themselves."""

import pathlib

import pytest

from t2t_lite.data import records
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.generation.report import report
from t2t_lite.data.problem import DatasetSplit, Problem, three_splits
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.interop.t2t import generator_utils, text_encoder, text_problems
from t2t_lite.interop.t2t.adapter import adapted
from t2t_lite.text.text_encoder import ByteTextEncoder, VocabType

LINES = [(f"the bee number {n} is here", f"die Biene Nummer {n} ist hier") for n in range(40)]


def encoded(encoder, pair) -> dict[str, list[int]]:
    return {
        side: [*encoder.encode(text), 1]
        for side, text in zip(("inputs", "targets"), pair, strict=True)
    }


class Encodes(Text2TextProblem):
    """Encodes its samples itself."""

    vocab_type = VocabType.CHARACTER
    dataset_splits = three_splits(1)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        raise NotImplementedError

    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        for pair in LINES:
            pair = pair[::-1] if dataset_split == DatasetSplit.EVAL else pair
            yield encoded(ByteTextEncoder(), pair)


class Writes(Problem):
    """Writes its files itself, and has no text."""

    dataset_splits = three_splits(1)

    def write_files(self, data_dir, tmp_dir, options):
        for split in ("train", "eval", "test"):
            pairs = [pair[::-1] if split == "eval" else pair for pair in LINES]
            examples = [encoded(ByteTextEncoder(), pair) for pair in pairs]
            records.write_examples(self.filepaths(data_dir, split)[0], examples)

    def feature_encoders(self, data_dir):
        return dict.fromkeys(self.sides, ByteTextEncoder())


class WritesText(Writes, Text2TextProblem):
    """The same by a problem that could have text."""

    vocab_type = VocabType.CHARACTER

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        raise NotImplementedError


class WritesAsInT2T(text_problems.Text2TextProblem):
    """T2T's contract."""

    dataset_splits = three_splits(1)
    vocab_type = VocabType.CHARACTER

    def generate_data(self, data_dir, tmp_dir, task_id=-1):
        for split in ("train", "eval", "test"):
            pairs = [pair[::-1] if split == "eval" else pair for pair in LINES]
            samples = (encoded(text_encoder.ByteTextEncoder(), pair) for pair in pairs)
            paths = self.data_filepaths(split, data_dir, 1, shuffled=True)
            generator_utils.generate_files(samples, paths)


KINDS = [Encodes, Writes, WritesText, WritesAsInT2T]


def full_report(problem, data_dir, tmp_dir, hparams=None) -> str:
    options = DatagenOptions(num_workers=1)
    return "\n".join(report(problem, str(data_dir), str(tmp_dir), options, hparams))


@pytest.mark.parametrize("kind", KINDS)
def test_without_data_the_folder_stays_empty(kind, tmp_path: pathlib.Path):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    text = full_report(adapted(kind()), data_dir, tmp_path, BasicHParams())
    assert list(data_dir.iterdir()) == []
    for title in ("train", "eval", "test"):
        assert f"== {adapted(kind()).base_name} {title}\n" in text
    rows = [line.split() for line in text.splitlines()]
    assert rows.count(["records", "40"]) == 3
    # The source is 25 letters and EOS; or 26, if its number has two digits.
    assert ["tokens", "of", "inputs", "25.8", "26", "26", "26"] in rows
    assert ["pairs", "in", "an", "epoch", "40"] in rows
    assert "dev: source and target language are exchanged in 40 of 40 pairs" in text


@pytest.mark.parametrize("kind", KINDS)
def test_data_that_exists_is_read(kind, tmp_path: pathlib.Path, monkeypatch):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    generate_data(adapted(kind()), str(data_dir), str(tmp_path), DatagenOptions(num_workers=1))
    monkeypatch.setattr("t2t_lite.data.generation.record_text.generate_data", None)
    assert "exchanged in 40 of 40 pairs" in full_report(adapted(kind()), data_dir, tmp_path)


def test_files_that_are_never_written(tmp_path: pathlib.Path):
    class Nothing(Writes):
        def write_files(self, data_dir, tmp_dir, options):
            pass

    with pytest.raises(UserError, match="nothing wrote none of the files"):
        full_report(Nothing(), tmp_path, tmp_path)
