"""Table 2 trained small: same time, same operations, a queue that survives kills."""

import dataclasses
import json
import pathlib
import xml.etree.ElementTree as ET

import pytest

from support.rounding import relative_bound
from t2t_lite import registry
from t2t_lite.errors import UsageError, UserError
from t2t_lite.study.paper import experiment_queue, table2_training
from t2t_lite.study.paper.experiment_queue import Folders, Queue
from t2t_lite.study.paper.published import TABLE_2
from t2t_lite.study.paper.seeds import Cell
from t2t_lite.study.paper.table2_training import (
    RESULTS,
    SYSTEMS,
    Table2Settings,
    chart,
    operations_at,
    table,
    train,
    trainer_flags,
)

TINY = Table2Settings("algorithmic_reverse_decimal40", "tiny", train_minutes=20.0)
BOTH = ["transformer", "transformer_prenorm"]
SLOW = "learning_rate_schedule=constant*linear_warmup*rsqrt_normalized_decay"
OWN = "learning_rate_decay_steps=7"
BATCH = "batch_size=5"


def but_for_rounding(value):
    """What equals a value of a few operations in float64."""
    return pytest.approx(value, rel=relative_bound(4, "float64"))


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_each_set_is_one_of_the_models(system):
    hparams = registry.hparams(system.hparams_set)
    assert isinstance(hparams, registry.model(system.model).hparams_class)
    assert system.published in ("", *(row.name for row in TABLE_2))
    assert [other.name for other in SYSTEMS].count(system.name) == 1


class Commands:
    """In place of trainings and t2t-eval.

    A checkpoint every 100 updates, 8 in all; an update of `transformer` has 10¹⁰ operations, one of
    `transformer_prenorm` half as many, and 10¹² operations bring 2 or 10 points of BLEU.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.killed = ""  # the experiment at which the process is killed
        self.first: dict | None = {"metric": "chrf", "half_width": 0.1}  # before BLEU

    def train(self, cell: Cell, settings, queue) -> dict:
        self._begin(cell.name)
        an_update = 1e10 if cell.row == "transformer" else 0.5e10
        return {
            **dataclasses.asdict(cell),
            "parameters": 1000,
            "updates": 800,
            "target_tokens": 240_000,
            "operations": 800 * an_update,
            "checkpoints": {str(step): step * an_update for step in range(100, 900, 100)},
            "seconds": 1200.0,
            "command": "t2t-trainer",
        }

    def run(self, name: str, flags: list[str], experiment: str, capture: bool = False) -> str:
        self._begin(experiment)
        assert (name, capture) == ("t2t-eval", True)
        given = dict(flag.removeprefix("--").split("=", 1) for flag in flags)
        assert given["decode_hparams"] == "beam_size=4,alpha=0.6,extra_length=50"
        row, _, seed = pathlib.Path(given["output_dir"]).name.partition("-seed")
        scored = []
        for step in map(int, given["checkpoint_path"].split(",")):
            self.done.append(f"{step}")
            bleu = step / 100 * (2 if row == "transformer" else 5) + int(seed) - 1
            values = {"bleu": bleu, "perplexity": 5.0}
            intervals = {
                "resampled": self.first,
                "other_resampled": {"bleu": {"metric": "bleu", "half_width": 0.5}},
            }
            scored.append({"step": step, "values": values, **intervals})
        return json.dumps({"checkpoints": scored})

    def _begin(self, experiment: str) -> None:
        if experiment == self.killed:
            raise KeyboardInterrupt
        self.done.append(experiment)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    fake = Commands()
    monkeypatch.setattr(experiment_queue, "run_command", fake.run)
    monkeypatch.setattr(table2_training, "_train_one", fake.train)
    return fake


EVERYTHING = [
    *("transformer-seed1", "transformer_prenorm-seed1"),
    *("transformer-seed1, dev", "100", "200", "400", "800"),
    *("transformer_prenorm-seed1, dev", "100", "200", "400", "800"),
]


def test_all_systems_train_before_the_checkpoints_are_chosen(commands, tmp_path):
    results = train(BOTH, 1, TINY, Folders("data", str(tmp_path)))
    assert commands.done == EVERYTHING
    assert json.loads((tmp_path / "table2.json").read_text("utf-8")) == results
    ET.parse(tmp_path / "table2.svg")


@pytest.mark.parametrize("killed", [name for name in EVERYTHING if "seed" in name])
def test_a_killed_queue_resumes_where_it_stopped(commands, tmp_path, killed):
    commands.killed = killed
    with pytest.raises(KeyboardInterrupt):
        train(BOTH, 1, TINY, Folders("data", str(tmp_path)))
    assert commands.done == EVERYTHING[: EVERYTHING.index(killed)]
    commands.killed = ""
    train(BOTH, 1, TINY, Folders("data", str(tmp_path)))
    assert commands.done == EVERYTHING


def test_a_cheaper_system_added_later_moves_the_comparison(commands, tmp_path):
    folders = Folders("data", str(tmp_path))
    before = table(train(["transformer"], 1, TINY, folders))
    after = table(train(["transformer_prenorm"], 1, TINY, folders))
    assert len(commands.done) == len(EVERYTHING)  # 400 was scored for the curve anyway
    (one,), (other, _) = before.rows, after.rows
    assert [one[-5], one[-4]] == [8e12, 16.0]
    assert [other[-5], other[-4]] == [4e12, 8.0]


def test_the_table_compares_by_time_and_by_operations(commands, tmp_path):
    shown = table(train(BOTH, 2, TINY, Folders("data", str(tmp_path))))
    post, pre = (
        dict(zip([column.name for column in shown.columns], row, strict=True)) for row in shown.rows
    )
    assert post == {
        "system": "transformer",
        "BLEU EN-DE": 27.3,
        "parameters": 1000,
        "target tokens/s": 200.0,
        "minutes": 20.0,
        "updates": 800.0,
        "FLOPs an update": 1e10,
        "FLOPs": 8e12,
        "BLEU at the end": 16.5,
        "± sentences": 0.5,
        "± seeds": but_for_rounding(12.706 * 0.5),
        "FLOPs there": 4e12,
        "BLEU near 4.0e+12 FLOPs": 8.5,
        "± sentences there": 0.5,
        "± seeds there": but_for_rounding(12.706 * 0.5),
        "seeds": 2,
    }
    assert pre["BLEU at the end"] == pre["BLEU near 4.0e+12 FLOPs"] == 40.5
    assert "--train_minutes=20.0" in shown.text()


def test_an_interval_is_that_of_bleu_whatever_comes_before_it(commands, tmp_path):
    commands.first = None  # a metric with one value for all outputs
    results = train(["transformer"], 1, TINY, Folders("data", str(tmp_path)))
    assert {scored["half_width"] for scored in results["scores"].values()} == {0.5}


def test_the_chart_has_a_curve_for_each_system(commands, tmp_path):
    results = train(BOTH, 2, TINY, Folders("data", str(tmp_path)))
    texts = [element.text for element in ET.fromstring(chart(results)).iter() if element.text]
    assert set(BOTH) <= set(texts)
    assert any(text.startswith("transformer, 10¹² counted operations 4: ") for text in texts)


def test_the_operations_of_a_checkpoint_lie_between_log_lines():
    records = [
        {"kind": "train", "step": 100, "flops": 5.0},
        {"kind": "eval", "step": 100},
        {"kind": "train", "step": 200, "flops": 7.0},
    ]
    cost = {"steps": 210, "flops_by_count": 13.0}
    counted = operations_at([50, 100, 180, 210], records, cost)
    assert counted == but_for_rounding([2.5, 5.0, 5.0 + 0.8 * 7.0, 13.0])
    assert operations_at([1, 2], [], {"steps": 2, "flops_by_count": 4.0}) == [2.0, 4.0]


def test_every_training_has_the_same_length_and_30_checkpoints(tmp_path):
    folders, cell = Folders("data", str(tmp_path), "mine"), Cell("transformer_prenorm", 3)
    flags = trainer_flags(cell, TINY, folders)
    assert {"--train_minutes=20.0", "--save_checkpoints_secs=40", "--random_seed=3"} <= set(flags)
    assert "--train_minutes=12.5" in trainer_flags(cell, TINY, folders, done=7.5)
    assert {"--keep_checkpoint_max=60", "--keep_best_max=0"} <= set(flags)
    assert {
        "--model=transformer",
        "--hparams_set=transformer_multi30k_prenorm",
        "--schedule=train",
        f"--output_dir={tmp_path / cell.name}",
        "--t2t_usr_dir=mine",
    } <= set(flags)
    by_steps = Table2Settings(TINY.problem, "tiny", train_steps=3001, hparams="batch_size=512")
    flags = trainer_flags(cell, by_steps, folders)
    assert {"--train_steps=3001", "--local_eval_frequency=101"} <= set(flags)
    assert not any("minutes" in flag or "secs" in flag for flag in flags)


@pytest.mark.parametrize(
    ("row", "length", "hparams", "fitted"),
    [
        ("transformer", {"train_steps": 300}, "", "learning_rate_decay_steps=1"),  # all is warm-up
        ("transformer_moe", {"train_steps": 3000}, BATCH, "learning_rate_decay_steps=2000"),
        ("transformer_prenorm", {"train_minutes": 9.0}, BATCH, SLOW),
        ("transformer", {"train_minutes": 9.0}, OWN, ""),
        ("transformer", {"train_steps": 3000}, OWN, ""),
        ("gnmt", {"train_minutes": 9.0}, BATCH, ""),
        ("gnmt", {"train_steps": 3000}, "", ""),
    ],
)
def test_no_rate_falls_to_0_before_the_training_ends(row, length, hparams, fitted, tmp_path):
    """It would compare systems that learn with those that learn no more."""
    settings = Table2Settings(TINY.problem, "tiny", **length, hparams=hparams)
    flags = trainer_flags(Cell(row, 1), settings, Folders("data", str(tmp_path)))
    (found,) = (flag for flag in flags if flag.startswith("--hparams="))
    assert found == f"--hparams={','.join(filter(None, [fitted, hparams]))}"


@pytest.mark.parametrize(("done", "left"), [(20.0, []), (12.5, ["--train_minutes=7.5"])])
def test_a_training_resumes_for_the_remaining_minutes(tmp_path, monkeypatch, done, left):
    begun: list[str] = []
    monkeypatch.setattr(
        experiment_queue, "run_command", lambda name, flags, experiment: begun.extend(flags)
    )
    cell, folders = Cell("transformer", 1), Folders("data", str(tmp_path))
    (tmp_path / cell.name).mkdir()
    summary = json.dumps({"train_seconds": 60 * done})
    (tmp_path / cell.name / "summary.json").write_text(summary)
    with pytest.raises(UserError, match="is not a run folder"):  # it holds nothing else
        table2_training._train_one(cell, TINY, Queue(RESULTS, TINY, folders, ["cells"]))
    assert [flag for flag in begun if flag.startswith("--train_minutes")] == left


@pytest.mark.parametrize(
    ("settings", "rows", "message"),
    [
        (TINY, ["transformer", "gru"], "Table 2 has no row 'gru': its rows are transformer, tran"),
        (dataclasses.replace(TINY, hparams="num_heeds=2"), BOTH, "did you mean 'num_heads'"),
        (dataclasses.replace(TINY, problem="parsing_wsj_16k"), BOTH, "not scored by BLEU, as Tab"),
        (
            dataclasses.replace(TINY, problem=f"{TINY.problem}+{TINY.problem}_rev"),
            BOTH,
            "is a mixture, whose BLEU is a mean .* name one of them",
        ),
    ],
)
def test_usage_errors_come_before_any_training(commands, tmp_path, settings, rows, message):
    with pytest.raises(UsageError, match=message):
        train(rows, 1, settings, Folders("data", str(tmp_path)))
    assert commands.done == []
    assert not list(tmp_path.iterdir())


def test_a_folder_of_another_length_is_refused(commands, tmp_path):
    train(BOTH, 1, TINY, Folders("data", str(tmp_path)))
    other = dataclasses.replace(TINY, train_minutes=30.0)
    with pytest.raises(UsageError, match=r"made with train_minutes=20\.0, not 30\.0"):
        train(BOTH, 1, other, Folders("data", str(tmp_path)))


@pytest.mark.parametrize("length", [{}, {"train_minutes": 1.0, "train_steps": 9}])
def test_a_length_is_needed_and_one_only(length):
    with pytest.raises(UsageError, match="Give either --train_minutes or --train_steps"):
        Table2Settings(TINY.problem, "tiny", **length)
