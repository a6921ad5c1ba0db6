import gzip

import pytest

from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.errors import UserError
from t2t_lite.problems import multi30k


class SmallVocabulary(multi30k.TranslateEndeMulti30k):
    """The development set as training data, so that a test is quick."""

    base_name = "translate_ende_multi30k"
    approx_vocab_size = 1000

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        split = "eval" if dataset_split == "train" else dataset_split
        return super().generate_samples(data_dir, tmp_dir, split)


@pytest.mark.parametrize(("name", "language"), [("ende", "de"), ("enfr", "fr")])
def test_pairs_are_those_of_the_raw_files(shared_data, name, language):
    problem = registry.problem(f"translate_{name}_multi30k")
    for split, stem, count in (
        ("train", "train", 29_000),
        ("eval", "val", 1014),
        ("test", "test_2016_flickr", 1000),
    ):
        raw = (shared_data / f"multi30k/{stem}.{language}.gz").read_bytes()
        samples = list(problem.generate_samples("", str(shared_data), split))
        assert len(samples) == count
        targets = gzip.decompress(raw).decode().split("\n")
        assert samples[-1]["targets"] == targets[count - 1].strip()


@pytest.mark.integration
def test_generates_encoded_files(shared_data, tmp_path):
    problem = SmallVocabulary()
    generate_data(problem, str(tmp_path), str(shared_data))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "translate_ende_multi30k-dev-00000-of-00001",
        "translate_ende_multi30k-test-00000-of-00001",
        *(f"translate_ende_multi30k-train-{i:05d}-of-00010" for i in range(10)),
        "translate_ende_multi30k.fingerprint.json",
        "vocab.translate_ende_multi30k.1000.bpe.model",
    ]
    encoder = problem.feature_encoders(str(tmp_path))["targets"]
    samples = problem.generate_samples("", str(shared_data), "test")
    examples = records.read_examples(problem.existing_filepaths(str(tmp_path), "test"))
    for sample, example in zip(samples, examples, strict=True):
        assert example["targets"] == [*encoder.encode(sample["targets"]), 1]
        assert example["inputs"] == [*encoder.encode(sample["inputs"]), 1]


@pytest.mark.parametrize("folder", ["", "multi30k"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files_may_lie_in_either_folder_compressed_or_not(tmp_path, folder, suffix):
    (tmp_path / folder).mkdir(exist_ok=True)
    for language in ("en", "de"):
        contents = f"{language} 1\n{language} 2\n".encode()
        path = tmp_path / folder / f"val.{language}{suffix}"
        path.write_bytes(gzip.compress(contents) if suffix else contents)
    samples = registry.problem("translate_ende_multi30k").generate_samples(
        "", str(tmp_path), "eval"
    )
    assert list(samples) == [
        {"inputs": "en 1", "targets": "de 1"},
        {"inputs": "en 2", "targets": "de 2"},
    ]


def test_downloads_what_is_missing_and_checks_it(shared_data, tmp_path, monkeypatch):
    monkeypatch.setattr(multi30k, "_URL", f"{(shared_data / 'multi30k').as_uri()}/")
    problem = registry.problem("translate_enfr_multi30k")
    for split in ("train", "eval", "test"):
        problem.generate_samples("", str(tmp_path), split)
    fetched = tmp_path / "multi30k"
    assert len(list(fetched.iterdir())) == 6
    for path in fetched.iterdir():
        assert path.read_bytes() == (shared_data / "multi30k" / path.name).read_bytes()


def test_without_a_network_an_error_names_address_and_path(tmp_path, monkeypatch):
    monkeypatch.setattr(multi30k, "_URL", f"{tmp_path.as_uri()}/absent/")
    expected = f"cannot download .*/absent/train.en.gz .*put it at {tmp_path}/multi30k/train.en.gz"
    with pytest.raises(UserError, match=expected):
        registry.problem("translate_ende_multi30k").generate_samples("", str(tmp_path), "train")
