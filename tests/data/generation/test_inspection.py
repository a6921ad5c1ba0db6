"""Inspection of a data folder: its report and the faults that it finds."""

import json
import pathlib
import shutil

import pytest

from t2t_lite.data import records
from t2t_lite.data.generation import inspection
from t2t_lite.data.generation.inspection import SplitInspection
from t2t_lite.data.text_problems import SeveralTextsProblem, Text2TextProblem
from t2t_lite.errors import UserError
from t2t_lite.text.text_encoder import ByteTextEncoder, VocabType


class Bytes(Text2TextProblem):
    base_name = "inspected"
    vocab_type = VocabType.CHARACTER
    dataset_splits = ({"split": "train", "shards": 2}, {"split": "eval", "shards": 1})

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return []


def example(source: str, target: str) -> dict[str, list[int]]:
    encode = ByteTextEncoder().encode
    return {"inputs": [*encode(source), 1], "targets": [*encode(target), 1]}


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    files = {
        "train-00000-of-00002": [example("a", "bcd"), example("efghi", "j")],
        "train-00001-of-00002": [example("k" * 99, "l")],
        "dev-00000-of-00001": [example("mn", "opq")],
    }
    for name, examples in files.items():
        records.write_examples(tmp_path / f"inspected-{name}", examples)
    return tmp_path


def splits(data: pathlib.Path, problem: Text2TextProblem) -> dict[str, SplitInspection]:
    return dict(inspection.inspect(problem, str(data)))


def report(data: pathlib.Path, problem: Text2TextProblem) -> str:
    encoders = problem.get_feature_encoders(str(data))
    lines = [
        line
        for split, found in inspection.inspect(problem, str(data))
        for line in inspection.describe(split, found, encoders)
    ]
    return "\n".join(lines)


class TestIntactData:
    def test_counts(self, data):
        found = splits(data, Bytes())
        assert list(found) == ["train", "dev"]
        train = found["train"]
        assert (train.files, train.examples, train.faults) == (2, 3, {})
        assert train.lengths == {(2, 4): 1, (6, 2): 1, (100, 2): 1}
        assert found["dev"].examples == 1

    def test_report(self, data):
        lines = report(data, Bytes()).split("\n")
        assert lines[0] == "train: 2 files, 3 examples"
        assert lines[2].split() == ["tokens", "of", "inputs", "36.0", "6", "100", "100"]
        assert lines[6].split() == ["0-19", "2", "#" * 13, "3", "#" * 20]
        assert lines[-2].split() == ["1", "targets", "opq"]
        assert lines[-1].split() == ["ids", "113", "114", "115", "1"]

    def test_reversed_and_copied_problems_show_what_they_read(self, data):
        assert "1 inputs  bcd" in report(data, Bytes(was_reversed=True))
        assert "1 targets a\n" in report(data, Bytes(was_copy=True))

    def test_what_t2t_made(self, golden, tmp_path):
        class T2T(Text2TextProblem):
            base_name = "text2text_tmpdir"
            approx_vocab_size = 512

            def generate_samples(self, data_dir, tmp_dir, dataset_split):
                return []

        made = json.loads((golden / "datagen_text2text_tmpdir.json").read_text("utf-8"))
        vocabulary = "".join(f"{line}\n" for line in made["vocab"])
        (tmp_path / T2T().vocab_filename).write_text(vocabulary, "utf-8")
        name = "text2text_tmpdir-dev-00000-of-00001"
        shutil.copy(golden / "tfrecord" / name, tmp_path)
        found = splits(tmp_path, T2T())["dev"]
        assert found.faults == {}
        assert found.first == made["dev"][:3]


class TestFaults:
    @pytest.mark.integration
    @pytest.mark.parametrize(
        ("bad", "fault"),
        [
            ({"inputs": [5, 1]}, "targets missing or empty"),
            ({"inputs": [5, 1], "targets": [6, 7]}, "targets without EOS at the end"),
            ({"inputs": [5, 1, 1], "targets": [6, 1]}, "inputs with EOS inside"),
            ({"inputs": [0, 0, 5, 1], "targets": [6, 1]}, "inputs with pad inside"),
            ({"inputs": [5, 258, 1], "targets": [6, 1]}, "inputs with ids outside the vocabulary"),
            ({"inputs": [5, -1, 1], "targets": [6, 1]}, "inputs with ids outside the vocabulary"),
        ],
    )
    def test_are_counted_and_the_first_is_named(self, data, bad, fault):
        path = data / "inspected-train-00001-of-00002"
        records.write_examples(path, [example("a", "b")] * 1100 + [bad, bad])
        found = splits(data, Bytes())["train"]
        assert found.faults == {fault: (2, f"{path.name}, record 1101")}
        assert f"FAULT: {fault}: 2, first {path.name}, record 1101" in report(data, Bytes())

    def test_eos_may_separate_texts(self, data):
        class Several(SeveralTextsProblem):
            base_name = "inspected"
            vocab_type = VocabType.CHARACTER
            dataset_splits = Bytes.dataset_splits
            CONCAT_TOKEN = None

            def generate_samples(self, data_dir, tmp_dir, dataset_split):
                return []

        encode = ByteTextEncoder().encode
        made = {"inputs": [*encode("ab"), 1, *encode("c"), 1], "targets": [*encode("d"), 1, 1]}
        records.write_examples(data / "inspected-dev-00000-of-00001", [made])
        assert [*splits(data, Several())["dev"].faults] == ["targets with EOS inside"]
        assert "1 inputs  ab\tc" in report(data, Several())

    def test_a_side_may_have_several(self, data):
        path = data / "inspected-dev-00000-of-00001"
        records.write_examples(path, [{"inputs": [999, 0], "targets": [1]}])
        assert set(splits(data, Bytes())["dev"].faults) == {
            "inputs without EOS at the end",
            "inputs with pad inside",
            "inputs with ids outside the vocabulary",
        }

    @pytest.mark.parametrize("kept", [-1, 5, 20])
    def test_a_cut_file_is_named_and_the_others_are_read(self, data, kept):
        path = data / "inspected-train-00000-of-00002"
        path.write_bytes(path.read_bytes()[:kept])
        found = splits(data, Bytes())["train"]
        [(fault, (count, where))] = found.faults.items()
        assert (fault, count) == ("files damaged, counted only in part", 1)
        assert f"{path}, record {2 if kept < 0 else 1}: damaged or truncated file" in where
        assert (100, 2) in found.lengths

    def test_a_missing_file(self, data):
        (data / "inspected-train-00000-of-00002").unlink()
        found = splits(data, Bytes())["train"]
        assert found.faults == {"files missing": (1, "inspected-train-00000-of-00002")}
        assert found.files == found.examples == 1

    def test_an_empty_file(self, data):
        (data / "inspected-dev-00000-of-00001").write_bytes(b"")
        assert "dev: 1 files, 0 examples" in report(data, Bytes())

    def test_no_data_at_all(self, tmp_path):
        with pytest.raises(
            UserError, match="inspected-train-00000-of-00002 is missing; generate it"
        ):
            splits(tmp_path, Bytes())
