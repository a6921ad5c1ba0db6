"""Table 3 trained small: ratios to base, a queue that survives kills, intervals."""

import dataclasses
import json
import math
import xml.etree.ElementTree as ET

import pytest

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.errors import UsageError, UserError
from t2t_lite.study.paper import experiment_queue, table3_training
from t2t_lite.study.paper.experiment_queue import Folders, Queue
from t2t_lite.study.paper.published import TABLE_3
from t2t_lite.study.paper.seeds import Cell, interval
from t2t_lite.study.paper.table3_training import Table3Settings, chart, hparams_flags, table, train

TINY = Table3Settings("algorithmic_reverse_decimal40", "tiny", 50)


def resolved(row: str, settings: Table3Settings = TINY):
    hparams_set, changes = hparams_flags(row, settings)
    return registry.hparams(hparams_set).override(changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"settings": ', r"is damaged: not JSON"),
        ("", r"is damaged: not JSON"),
        ("[1]", r"expected a JSON object, got \[1\]"),
        ('{"settings": 3, "cells": {}}', r"expected an object as 'settings', got 3"),
        ('{"cells": {}}', r"has no field 'settings'"),
        ('{"settings": {}}', r"has no field 'cells'"),
        ('{"settings": {}, "cells": {"base-1": null}}', r"expected an object as 'base-1', got Non"),
        ('{"settings": {}, "cells": []}', r"expected an object as 'cells', got \[\]"),
    ],
)
def test_a_damaged_file_of_results_is_named(tmp_path, text, message):
    (tmp_path / "table3.json").write_text(text)
    with pytest.raises(UserError, match=rf"table3\.json.*{message}"):
        train(["base"], 1, TINY, Folders("data", str(tmp_path)))


def test_a_result_without_a_figure_is_named(tmp_path):
    path = tmp_path / "table3.json"
    done = {"base-seed1": {"row": "base", "seed": 1}}
    path.write_text(json.dumps({"settings": dataclasses.asdict(TINY), "cells": done}))
    with pytest.raises(UserError, match=r"table3\.json has no field 'parameters'"):
        table(train(["base"], 1, TINY, Folders("data", str(tmp_path))))


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({"parameters": "many"}, "a whole number as 'parameters', got 'many'"),
        ({"perplexity": None}, "a number as 'perplexity', got None"),
        ({"bleu": "27.3"}, r"a number as 'bleu', got '27\.3'"),
        ({"seconds": [60.0]}, r"a number as 'seconds', got \[60\.0\]"),
        ({"row": 1}, "text as 'row', got 1"),
        ({"checkpoints": [5]}, r"an object as 'checkpoints', got \[5\]"),
        ({"checkpoints": {"5": True}}, "a number as '5', got True"),
        ({"scores": {"bracketing_f1": "90"}}, "a number as 'bracketing_f1', got '90'"),
    ],
)
def test_a_figure_of_the_wrong_type_is_named(tmp_path, figures, message):
    path = tmp_path / "table3.json"
    done = {"base-seed1": {"row": "base", "seed": 1, **figures}}
    path.write_text(json.dumps({"settings": dataclasses.asdict(TINY), "cells": done}))
    with pytest.raises(UserError, match=rf"table3\.json: expected {message}; restore"):
        train(["base"], 1, TINY, Folders("data", str(tmp_path)))


def test_the_signature_of_a_score_is_text(tmp_path):
    figures = {"bleu": 30.5, "bleu_signature": "nrefs:1|case:mixed"}
    done = {"base-seed1": {"row": "base", "seed": 1, "scores": figures}}
    settings = dataclasses.asdict(TINY)
    (tmp_path / "table3.json").write_text(json.dumps({"settings": settings, "cells": done}))
    queue = Queue("table3.json", TINY, Folders("data", str(tmp_path)), ["cells"])
    assert queue.results["cells"] == done


def test_settings_may_be_spelled_in_another_way(tmp_path):
    mixed = "{0}:0.50+{0}_rev:.5".format("translate_ende_locale")
    spelled = Table3Settings(mixed, "tiny", 50, "max_length=9,relu_dropout=0.10")
    folders = Folders("data", str(tmp_path))
    Queue("table3.json", spelled, folders, ["cells"]).record("cells", {})
    same = mixed.replace("0.50", "5e-1"), " relu_dropout=.1 , max_length=9"
    Queue("table3.json", Table3Settings(same[0], "tiny", 50, same[1]), folders, ["cells"])
    for other in (
        dataclasses.replace(spelled, problem=mixed.replace("0.50", "0.60")),
        dataclasses.replace(spelled, hparams="max_length=9,relu_dropout=0.11"),
        dataclasses.replace(spelled, hparams=""),
    ):
        with pytest.raises(UsageError, match=r"table3\.json was made with (problem|hparams)="):
            Queue("table3.json", other, folders, ["cells"])


@pytest.mark.parametrize("row", [row.name for row in TABLE_3])
def test_tiny_rows_have_the_papers_ratios_to_base(row):
    ours, our_base = resolved(row), resolved("base")
    theirs = registry.hparams(f"transformer_paper_{row}")
    their_base = registry.hparams("transformer_paper_base")
    for name in ("num_hidden_layers", "hidden_size", "filter_size", "num_heads", "key_channels"):
        ratio = getattr(theirs, name) / getattr(their_base, name)
        assert getattr(ours, name) == ratio * getattr(our_base, name), name
    for name in ("layer_prepostprocess_dropout", "label_smoothing", "pos", "ffn_layer"):
        assert getattr(ours, name) == getattr(theirs, name), name


def test_the_rate_of_tiny_rows_ends_with_the_training():
    h = resolved("base")
    assert (h.learning_rate_warmup_steps, h.learning_rate_decay_steps) == (5, 45)
    shorter = resolved("base", dataclasses.replace(TINY, hparams="learning_rate_warmup_steps=20"))
    assert (shorter.learning_rate_warmup_steps, shorter.learning_rate_decay_steps) == (20, 30)


def test_common_changes_overrule_a_rows_own():
    settings = Table3Settings(TINY.problem, "tiny", 50, "num_heads=2,batch_size=512")
    h = resolved("a1", settings)
    assert (h.num_heads, h.batch_size) == (2, 512)


def test_full_rows_are_the_papers_sets():
    settings = Table3Settings(TINY.problem, "full", 50)
    for row in TABLE_3:
        assert resolved(row.name, settings) == registry.hparams(row.hparams_set)


@pytest.fixture
def trainings(monkeypatch):
    """Replaces training; returns the names of the cells trained, and which one gets killed."""
    done: list[str] = []
    killed: set[str] = set()

    def train_one(cell, flags, folder):
        assert {f"--random_seed={cell.seed}", f"--output_dir={folder}"} <= set(flags)
        assert folder.name == cell.name
        if cell.name in killed:
            raise KeyboardInterrupt
        done.append(cell.name)
        return {
            "row": cell.row,
            "seed": cell.seed,
            "parameters": 1000 + len(cell.row),
            "perplexity": 5.0,
            "bleu": 20.0 + cell.seed,
            "seconds": 60.0,
            "command": "t2t-trainer",
        }

    monkeypatch.setattr(table3_training, "_train_one", train_one)
    return done, killed


@pytest.mark.integration
def test_a_killed_queue_resumes_at_the_next_unfinished_cell(trainings, tmp_path):
    done, killed = trainings
    killed.add("base-seed2")
    with pytest.raises(KeyboardInterrupt):
        train(["base", "a1"], 2, TINY, Folders("data", str(tmp_path)))
    assert done == ["base-seed1", "a1-seed1"]
    killed.clear()
    results = train(["base", "a1"], 2, TINY, Folders("data", str(tmp_path)))
    assert done == ["base-seed1", "a1-seed1", "base-seed2", "a1-seed2"]
    assert json.loads((tmp_path / "table3.json").read_text("utf-8")) == results
    ET.parse(tmp_path / "table3.svg")


def test_a_finished_table_is_redrawn(trainings, tmp_path):
    done, _ = trainings
    train(["base"], 1, TINY, Folders("data", str(tmp_path)))
    drawing = (tmp_path / "table3.svg").read_bytes()
    (tmp_path / "table3.svg").write_text("of an older release")
    train(["base"], 1, TINY, Folders("data", str(tmp_path)))
    assert done == ["base-seed1"]
    assert (tmp_path / "table3.svg").read_bytes() == drawing


def test_a_second_process_is_kept_from_the_results(trainings, tmp_path):
    folders = Folders("data", str(tmp_path))
    with experiment_queue.opened("table3.json", TINY, folders, ["cells"]) as queue:
        with pytest.raises(UserError, match=r"another t2t-paper is filling .*table3\.json"):
            train(["base"], 1, TINY, folders)
        queue.record("cells", {})
    train(["base"], 1, TINY, folders)
    assert list(json.loads((tmp_path / "table3.json").read_text("utf-8"))["cells"]) == [
        "base-seed1"
    ]


def test_a_folder_of_other_settings_is_refused(trainings, tmp_path):
    train(["base"], 1, TINY, Folders("data", str(tmp_path)))
    other = Table3Settings(TINY.problem, "tiny", 60)
    with pytest.raises(
        UsageError, match=r"made with train_steps=50, not 60: .*another --output_dir"
    ):
        train(["base"], 1, other, Folders("data", str(tmp_path)))


def test_unknown_rows_and_too_many_seeds_stop_it_before_any_training(trainings, tmp_path):
    done, _ = trainings
    with pytest.raises(UsageError, match="no row 'a5': its rows are base, a1"):
        train(["base", "a5"], 1, TINY, Folders("data", str(tmp_path)))
    with pytest.raises(UsageError, match="--seeds=11: expected 1 to 10"):
        train(["base"], 11, TINY, Folders("data", str(tmp_path)))
    assert done == []


def test_a_problem_without_bleu_is_refused(tmp_path):
    settings = Table3Settings("parsing_wsj_16k", "tiny", 50)
    with pytest.raises(UsageError, match="parsing_wsj_16k is not scored by BLEU"):
        train(["base"], 1, settings, Folders("data", str(tmp_path)))


@pytest.mark.integration
def test_a_failed_training_is_named(tmp_path):
    with pytest.raises(UserError, match="base-seed1: t2t-trainer ended with code 2"):
        table3_training._train_one(Cell("base", 1), ["--no_such_flag"], tmp_path)


def test_intervals_are_students():
    assert interval([3.0]) is None
    # Mean 2, standard deviation 1.
    assert_close(interval([1.0, 2.0, 3.0]), 4.303 / math.sqrt(3), terms=6, dtype="float64")
    assert interval([5.0, 5.0]) == 0


def test_the_table_and_the_chart(trainings, tmp_path):
    results = train(["base", "a1"], 2, TINY, Folders("data", str(tmp_path)))
    shown = table(results)
    row = dict(zip([c.name for c in shown.columns], shown.rows[0], strict=True))
    assert row["variation"] == "base"
    assert (row["PPL"], row["BLEU"]) == (4.92, 25.8)
    assert (row["BLEU here"], row["seeds"], row["minutes"]) == (21.5, 2, 1.0)
    assert_close(row["± BLEU"], 12.706 * 0.5, terms=4, dtype="float64")
    assert len(shown.rows) == 2
    texts = [element.text for element in ET.fromstring(chart(results)).iter() if element.text]
    assert "(A) h=1, d_k=d_v=512" in texts
