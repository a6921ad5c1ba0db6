"""Scores of outputs as training data."""

import json

import pytest

from t2t_lite.data.generation import generator
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.records import read_examples
from t2t_lite.data.text_problems import VocabType
from t2t_lite.errors import DataError, UserError
from t2t_lite.problems.quality_tmpdir import QualityTmpdir
from t2t_lite.text.bad_input import BadInput
from t2t_lite.text.text_encoder import EOS_ID


class Bytes(QualityTmpdir):
    """The problem with bytes."""

    base_name = "quality_bytes"
    vocab_type = VocabType.CHARACTER


def write(folder, split, rows):
    lines = (json.dumps({"checkpoint": "x", "reference": "r", "ter": 1.0, **row}) for row in rows)
    (folder / f"scores.{split}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def examples(folder, split):
    options = DatagenOptions(num_workers=1)
    generator.generate_data(Bytes(), str(folder / "data"), str(folder), options)
    paths = Bytes().existing_filepaths(str(folder / "data"), split)
    return sorted(
        (texts_of(one["inputs"][:-1]), *one["targets"])
        for one in read_examples(paths, ("targets",))
    )


def texts_of(ids):
    """Returns the texts, with "|" for the EOS between them."""
    return bytes(ord("|") if id_ == EOS_ID else id_ - 2 for id_ in ids).decode()


def test_a_source_and_its_output_get_the_chrf(tmp_path):
    rows = [{"source": f"s\t{i}", "output": f"o{i}", "chrf": i} for i in range(30)]
    write(tmp_path, "train", [*rows, {"source": "s", "output": "", "chrf": 0.0}])
    write(tmp_path, "eval", [{"source": "a", "output": "b", "chrf": 50.0}])
    assert examples(tmp_path, "eval") == [("a|b", 0.5)]
    found = examples(tmp_path, "train")
    assert len(found) == 30
    assert found[0][0] == "s 0|o0"
    assert dict(found)["s 25|o25"] == 0.25


def test_a_dollar_sign_is_a_character_like_any_other(tmp_path):
    write(tmp_path, "train", [{"source": f"$ {i}", "output": "o", "chrf": i} for i in range(30)])
    write(tmp_path, "eval", [{"source": "a$", "output": "$b", "chrf": 50.0}])
    assert examples(tmp_path, "eval") == [("a$|$b", 0.5)]


def test_without_dev_scores_some_are_held_out(tmp_path):
    rows = [{"source": f"s{i}", "output": f"o{i}", "chrf": i} for i in range(40)]
    write(tmp_path, "train", rows)
    held = examples(tmp_path, "eval")
    assert len(held) == 2
    assert not set(held) & set(examples(tmp_path, "train"))


def test_no_held_out_source_trains_with_another_output(tmp_path):
    """The scores of three checkpoints, one after another."""
    of_one = [{"source": f"s{i}", "chrf": i} for i in range(40)]
    write(tmp_path, "train", [{**row, "output": f"o{n}"} for n in range(3) for row in of_one])
    held, trained = (
        {text.partition("|")[0] for text, _ in examples(tmp_path, split)}
        for split in ("eval", "train")
    )
    assert held == {"s38", "s39"}
    assert trained == {f"s{i}" for i in range(38)}
    assert len(examples(tmp_path, "eval")) == 6


def test_dev_scores_that_come_later_are_refused(tmp_path):
    """The outputs that were held out would be in no split."""
    rows = [{"source": f"s{i}", "output": f"o{i}", "chrf": i} for i in range(40)]
    write(tmp_path, "train", rows)
    examples(tmp_path, "train")
    write(tmp_path, "eval", rows[:1])
    with pytest.raises(UserError, match="dev split: 'held out of training' -> 'a file of its own'"):
        examples(tmp_path, "train")


def test_texts_that_nobody_sees_are_left_out(tmp_path):
    rows = [{"source": f"s{i}", "output": f"o{i}", "chrf": i} for i in range(40)]
    write(tmp_path, "train", [{"source": "\u200b", "output": "o", "chrf": 1.0}, *rows])
    assert len(examples(tmp_path, "train")) == 38


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("x", "not JSON"),
        ("[1]", "expected a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"source": "a", "output": "b"}', "chrf must be a number from 0 to 100"),
        ('{"source": 1, "output": "b", "chrf": 2}', "source and output must be texts"),
        ('{"source": "\\ud800", "output": "b", "chrf": 2}', r"the lone surrogate U\+D800"),
        *(
            (f'{{"source": "a", "output": "b", "chrf": {number}}}', "chrf must be a number")
            for number in ("NaN", "1e400", "-0.1", "100.1", "true", "null")
        ),
    ],
)
def test_another_line_is_named(tmp_path, bad, reason):
    write(tmp_path, "train", [{"source": "s", "output": "o", "chrf": 1.0}] * 30)
    with (tmp_path / "scores.train.jsonl").open("a") as file:
        file.write(f"{bad}\n")
    message = rf"scores\.train\.jsonl, line 31: expected an object .*{reason}"
    with pytest.raises(DataError, match=message):
        examples(tmp_path, "train")


def test_other_lines_can_be_skipped(tmp_path, caplog):
    rows = [{"source": "s", "output": "o", "chrf": score} for score in (1.0, "x", 2.0)]
    write(tmp_path, "train", rows)
    write(tmp_path, "eval", rows)
    problem = Bytes()
    problem.bad_input = BadInput(skip=True)
    found = problem.generate_samples("", str(tmp_path), "train")
    assert [sample["targets"] for sample in found] == ["0.01", "0.02"]
    assert caplog.messages[-1].endswith("scores.train.jsonl: skipped 1 bad lines")
