"""The text of a problem in files is what data generation would encode."""

import pytest

from support.copying import HOSTILE
from support.texts import decoded_pairs
from t2t_lite import registry
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.text_problems import Text2TextProblem, VocabType
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdir, text_files
from t2t_lite.study.distillation.text import check_problem, pairs_of, pairs_to_clean, write_splits


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
    with pytest.raises(UsageError, match=f"--problem={name}: this command reads only pairs of"):
        check_problem(problem, f"--problem={name}", "its languages")


def test_a_mixture_is_refused_with_the_name_of_a_member():
    problem = registry.problem("translate_many_libreoffice")
    message = (
        r"--problem=p is a mixture: .*such as translate_ende_libreoffice\S*, with its languages"
    )
    with pytest.raises(UsageError, match=message):
        check_problem(problem, "--problem=p", "its languages")


def test_pairs_to_clean_are_those_that_t2t_datagen_reads(tmp_path):
    """With `--skip_bad`, too."""
    lines = [b"line %d" % number for number in range(40)]
    lines[3] = b"caf\xe9"
    for side in ("inputs", "targets"):
        (tmp_path / f"{side}.train.txt").write_bytes(b"\n".join(lines) + b"\n")
        (tmp_path / f"{side}.eval.txt").write_bytes(b"dev\n")

    class Files(Text2textTmpdir):
        base_name = "distill_test_files"
        vocab_type = VocabType.CHARACTER

    def read(skip_bad):
        return list(pairs_to_clean(Files(), "", str(tmp_path), skip_bad))

    with pytest.raises(DataError, match=r"inputs\.train\.txt, line 4: "):
        read(skip_bad=False)
    problem, options = Files(), DatagenOptions(skip_bad=True, num_workers=1)
    generate_data(problem, str(tmp_path / "data"), str(tmp_path), options)
    found = read(skip_bad=True)
    assert sorted(found) == sorted(decoded_pairs(problem, tmp_path / "data", "train"))
    assert len(found) == 39


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
