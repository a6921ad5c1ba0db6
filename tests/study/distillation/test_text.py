"""The text of a problem in files is what data generation would encode."""

import pytest

from support.copying import HOSTILE
from support.texts import decoded_pairs
from t2t_lite import registry
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.text_problems import Text2TextProblem, VocabType
from t2t_lite.errors import UsageError, UserError
from t2t_lite.problems.text2text_tmpdir import text_files
from t2t_lite.study.distillation.text import check_problem, pairs_of, write_splits


@registry.register_problem("distill_test_pairs")
class Pairs(Text2TextProblem):
    vocab_type = VocabType.CHARACTER
    inputs_prefix = "> "
    dataset_splits = (
        {"split": "train", "shards": 3},
        {"split": "eval", "shards": 1},
        {"split": "test", "shards": 1},
    )

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in range(17):
            yield {"inputs": f"{dataset_split} {number}", "targets": f"{number * 3} t"}


@registry.register_problem("distill_test_dealt")
class Dealt(Pairs):
    is_generate_per_split = False


@pytest.mark.parametrize("name", ["distill_test_pairs", "distill_test_dealt"])
def test_every_split_has_its_pairs(name, tmp_path):
    problem = registry.problem(name)
    counts = write_splits(problem, "", str(tmp_path), tmp_path)
    generate_data(problem, str(tmp_path / "data"), str(tmp_path))
    for split in ("train", "eval", "test"):
        pairs = list(pairs_of(tmp_path, split))
        encoded = decoded_pairs(problem, tmp_path / "data", split)
        assert sorted(pairs) == sorted(encoded)
        assert counts[split] == len(pairs)


def test_a_reversed_problem_has_its_sides_exchanged(tmp_path):
    write_splits(registry.problem("distill_test_pairs_rev"), "", str(tmp_path), tmp_path)
    assert next(pairs_of(tmp_path, "train")) == ("0 t", "> train 0")


def test_line_ends_within_a_text_are_spaces(tmp_path):
    class Lines(Pairs):
        base_name = "distill_test_lines"

        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            yield {"inputs": "a\nb", "targets": " c\r\nd\u2028e "}

    write_splits(Lines(), "", str(tmp_path), tmp_path)
    assert list(pairs_of(tmp_path, "train")) == [("> a b", "c  d\u2028e")]


def test_a_missing_file_of_text_is_named(tmp_path):
    with pytest.raises(UserError, match=r"inputs\.train\.txt"):
        write_splits(registry.problem("text2text_tmpdir"), "", str(tmp_path), tmp_path)


@pytest.mark.parametrize("name", ["text2self_tmpdir", "sentiment_imdb", "distill_test_pairs_copy"])
def test_other_problems_than_pairs_are_refused(name):
    problem = registry.problem(name)
    with pytest.raises(UsageError, match=f"--problem={name}: only pairs of text"):
        check_problem(problem, name)


def test_a_mixture_is_refused_with_the_name_of_a_member():
    problem = registry.problem("translate_many_libreoffice")
    message = r"is a mixture: .*--problem=translate_ende_libreoffice.*target_language=CODE"
    with pytest.raises(UsageError, match=message):
        check_problem(problem, problem.name)


@registry.register_problem("distill_test_hostile")
class Hostile(Pairs):
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for text in HOSTILE:
            yield {"inputs": text, "targets": text}


def test_odd_lines_stay_paired(tmp_path):
    problem = registry.problem("distill_test_hostile")
    write_splits(problem, "", str(tmp_path), tmp_path)
    pairs = list(pairs_of(tmp_path, "train"))
    lines = [text.translate({ord("\n"): " ", ord("\r"): " "}) for text in HOSTILE]
    assert pairs == [(f"> {line}".strip(), line.strip()) for line in lines]
    for path in text_files(tmp_path, "train"):
        assert path.read_bytes().count(b"\n") == len(HOSTILE)
