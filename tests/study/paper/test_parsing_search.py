"""Section 6.3's search: every training and decoding once, the best on dev scored on test."""

import dataclasses
import json
import pathlib
import re
import shlex

import pytest

from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.errors import UsageError, UserError
from t2t_lite.study.paper import experiment_queue, parsing_search, table4
from t2t_lite.study.paper.experiment_queue import Folders
from t2t_lite.study.paper.parsing_search import (
    SearchGrid,
    SearchSettings,
    Trial,
    search,
    table,
    trials,
)

SETTINGS = SearchSettings("parsing_tmpdir_16k", "transformer_paper_parsing", 50)
GRID = SearchGrid([0.1, 0.3], [0.05], [4, 21])


class Commands:
    """In place of t2t-trainer and t2t-eval: a model that dropout 0.3 and wide beams are good for.

    EVALB's own F1 says the contrary.
    """

    def __init__(self, data: pathlib.Path) -> None:
        self._data = data
        self.done: list[str] = []
        self.killed = ""  # the experiment at which the process is killed

    def run(self, name: str, flags: list[str], experiment: str, capture: bool = False) -> str:
        if experiment == self.killed:
            raise KeyboardInterrupt
        given = dict(flag.removeprefix("--").split("=", 1) for flag in flags if "=" in flag)
        folder = pathlib.Path(given["output_dir"])
        self.done.append(experiment)
        if name == "t2t-trainer":
            folder.mkdir(parents=True)
            (folder / "hparams").write_text(given["hparams"])
            (folder / "summary.json").write_text('{"train_seconds": 90.0}')
            return ""
        assert (name, capture) == ("t2t-eval", True)
        dropout = float(re.search(r"_dropout=([\d.]+)", (folder / "hparams").read_text())[1])
        beam, rest = re.fullmatch(r"beam_size=(\d+),(.*)", given["decode_hparams"]).groups()
        assert rest == "alpha=0.3,extra_length=300"
        f1 = 100 * dropout + int(beam) + 0.5 * ("--eval_use_test_set" in flags)
        scores = {"bracketing_f1": 99 - f1, "bracketing_f1_of_all": f1}
        return json.dumps({"checkpoints": [{"checkpoint": "c", "step": 50, "values": scores}]})

    def folders(self, output_dir: pathlib.Path) -> Folders:
        return Folders(str(self._data), str(output_dir))


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path_factory) -> Commands:
    data = tmp_path_factory.mktemp("data")
    for path in registry.problem(SETTINGS.problem).filepaths(str(data), DatasetSplit.TEST):
        pathlib.Path(path).touch()
    fake = Commands(data)
    monkeypatch.setattr(experiment_queue, "run_command", fake.run)
    return fake


EVERYTHING = [
    "dropout0.1-rate0.05",
    "dropout0.1-rate0.05-beam4, eval",
    "dropout0.1-rate0.05-beam21, eval",
    "dropout0.3-rate0.05",
    "dropout0.3-rate0.05-beam4, eval",
    "dropout0.3-rate0.05-beam21, eval",
    "dropout0.3-rate0.05-beam21, test",
]


def test_the_best_on_dev_is_chosen_by_f1_of_all_sentences(commands, tmp_path):
    results = search(SETTINGS, GRID, commands.folders(tmp_path))
    assert commands.done == EVERYTHING
    assert parsing_search.chosen(results) == "dropout0.3-rate0.05-beam21"
    assert json.loads((tmp_path / "parsing_search.json").read_text("utf-8")) == results


@pytest.mark.parametrize("killed", EVERYTHING)
def test_a_killed_search_resumes_where_it_stopped(commands, tmp_path, killed):
    commands.killed = killed
    with pytest.raises(KeyboardInterrupt):
        search(SETTINGS, GRID, commands.folders(tmp_path))
    assert commands.done == EVERYTHING[: EVERYTHING.index(killed)]
    commands.killed = ""
    search(SETTINGS, GRID, commands.folders(tmp_path))
    assert commands.done == EVERYTHING


def test_a_wider_grid_adds_to_what_was_tried(commands, tmp_path):
    search(SETTINGS, GRID, commands.folders(tmp_path))
    results = search(SETTINGS, SearchGrid([0.5], [0.05], [1]), commands.folders(tmp_path))
    added = ["dropout0.5-rate0.05", "dropout0.5-rate0.05-beam1, eval"]
    assert commands.done == EVERYTHING + added
    assert [row[:4] for row in table(results).rows] == [
        ["dev", "0.1", "0.05", "4"],
        ["dev", "0.1", "0.05", "21"],
        ["dev", "0.3", "0.05", "4"],
        ["dev, chosen", "0.3", "0.05", "21"],
        ["dev", "0.5", "0.05", "1"],
        ["test", "0.3", "0.05", "21"],
    ]


def test_the_table_ends_with_test_beside_the_published_f1(commands, tmp_path):
    shown = table(search(SETTINGS, GRID, commands.folders(tmp_path)))
    named = [
        dict(zip([column.name for column in shown.columns], row, strict=True)) for row in shown.rows
    ]
    assert named[-1] == {
        "split": "test",
        "dropout": "0.3",
        "learning_rate": "0.05",
        "beam": "21",
        "F1": 91.3,
        "F1 here": 99 - 51.5,
        "of all sentences": 51.5,
        "minutes": 1.5,
    }
    assert [row["F1"] for row in named[:-1]] == [None] * 4


@pytest.mark.parametrize(
    ("problem", "data"),
    [("parsing_craft", ""), (SETTINGS.problem, "of trees without test.trees")],
)
def test_without_a_test_split_the_search_ends_with_dev(commands, tmp_path, problem, data):
    settings = SearchSettings(problem, "transformer_paper_parsing", 50)
    results = search(settings, GRID, Folders(data, str(tmp_path)))
    assert commands.done == EVERYTHING[:-1]
    assert [row[0] for row in table(results).rows] == ["dev"] * 3 + ["dev, chosen"]


def test_the_printed_command_searches_the_same(commands, tmp_path):
    settings = dataclasses.replace(
        SETTINGS, hparams="batch_size=512,learning_rate_schedule=constant * linear_warmup"
    )
    results = search(SETTINGS, GRID, commands.folders(tmp_path))
    results["settings"]["hparams"] = settings.hparams
    printed = shlex.split(table(results).columns[-1].command)
    assert printed[0] == "t2t-paper"
    flags = dict(word.removeprefix("--").split("=", 1) for word in printed[1:])
    assert (flags.pop("table"), flags.pop("data_dir")) == ("parsing-search", "DATA_DIR")
    assert flags.pop("output_dir") == "OUTPUT_DIR"
    assert flags == {
        "problem": SETTINGS.problem,
        "hparams_set": SETTINGS.hparams_set,
        "train_steps": "50",
        "hparams": settings.hparams,
        "dropouts": "0.1,0.3",
        "learning_rates": "0.05",
        "beam_sizes": "4,21",
    }


def test_a_folder_of_other_settings_is_refused(commands, tmp_path):
    search(SETTINGS, GRID, commands.folders(tmp_path))
    other = SearchSettings(SETTINGS.problem, "transformer_paper_parsing_semi", 50)
    with pytest.raises(UsageError, match="made with hparams_set='transformer_paper_parsing', not"):
        search(other, GRID, commands.folders(tmp_path))


def test_a_training_differs_from_its_set_in_what_is_searched(tmp_path):
    flags = parsing_search.trainer_flags(
        Trial(0.3, 0.1),
        SearchSettings("p", "transformer_paper_parsing", 9, "batch_size=512"),
        Folders("data", str(tmp_path), "mine"),
    )
    changes = "layer_prepostprocess_dropout=0.3,attention_dropout=0.3,learning_rate=0.1"
    assert f"--hparams={changes},batch_size=512" in flags
    assert {"--schedule=train", "--random_seed=1", "--train_steps=9"} <= set(flags)
    run_dir = tmp_path / "dropout0.3-rate0.1"
    assert {"--data_dir=data", "--t2t_usr_dir=mine", f"--output_dir={run_dir}"} <= set(flags)


@pytest.mark.parametrize(
    ("changes", "length"),
    [("", 2500), ("learning_rate_warmup_steps=1000", 2000), ("learning_rate_decay_steps=7", 7)],
)
def test_a_rate_that_falls_to_0_gets_there_with_the_training(changes, length, tmp_path):
    settings = SearchSettings("p", "transformer_treebank", 3000, changes)
    flags = parsing_search.trainer_flags(Trial(0.3, 0.1), settings, Folders("d", str(tmp_path)))
    (hparams,) = (flag.partition("=")[2] for flag in flags if flag.startswith("--hparams="))
    found = registry.hparams("transformer_treebank").override(hparams)
    assert found.learning_rate_decay_steps == length


@pytest.mark.parametrize(
    ("hparams_set", "hparam", "rates"),
    [
        ("transformer_paper_parsing", "learning_rate", [0.05, 0.1]),  # the second: EN-DE's base
        ("transformer_treebank", "learning_rate_constant", [0.002, 0.004]),
    ],
)
def test_the_rate_is_the_hparam_that_the_schedule_reads(hparams_set, hparam, rates):
    settings = SearchSettings("parsing_craft", hparams_set, 50)
    assert parsing_search.rate_name(settings) == hparam
    assert trials(settings, SearchGrid([0.2], [], [4])) == [Trial(0.2, rate) for rate in rates]


def test_spaces_in_a_schedule_do_not_matter():
    schedule = "learning_rate_schedule=linear_warmup * constant * rsqrt_decay"
    settings = SearchSettings("parsing_craft", "transformer_treebank", 9, schedule)
    assert parsing_search.rate_name(settings) == "learning_rate_constant"


def test_a_schedule_without_a_rate_is_refused():
    settings = SearchSettings(
        "parsing_craft", "transformer_treebank", 9, "learning_rate_schedule=cosdecay"
    )
    with pytest.raises(UsageError, match="'cosdecay' has no rate to choose"):
        trials(settings, GRID)


@pytest.mark.parametrize(
    ("settings", "beams", "message"),
    [
        (
            SearchSettings("translate_ende_wmt32k", "transformer_base", 9),
            [4],
            "is not a parsing problem: .* bleu",
        ),
        (
            SearchSettings("parsing_craft", "transformer_bas", 9),
            [4],
            "did you mean 'transformer_base",
        ),
        (
            SearchSettings("parsing_craft", "transformer_base", 9, "attention_dropout=0"),
            [4],
            "'attention_dropout' is given twice",
        ),
        (SearchSettings("parsing_craft", "lstm_luong_attention", 9), [4], "unknown hparam"),
        (
            SearchSettings("parsing_craft", "transformer_base", 9),
            [4, 0],
            "beam_size=0: expected a whole number, at least 1 ",
        ),
    ],
)
def test_usage_errors_come_before_any_training(commands, tmp_path, settings, beams, message):
    with pytest.raises(UsageError, match=message):
        search(settings, SearchGrid([0.1], [], beams), commands.folders(tmp_path))
    assert commands.done == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (([0.1, 1.0], [], [4]), r"--dropouts: 1\.0 is not at least 0 and below 1"),
        (([0.1], [0.0], [4]), r"--learning_rates: 0\.0 is not above 0"),
        (([], [], [4]), "at least one value of each"),
    ],
)
def test_grids_that_cannot_be_trained_are_refused(values, message):
    with pytest.raises(UsageError, match=message):
        SearchGrid(*values)


def test_the_published_f1_is_that_of_the_problems_data():
    assert table4.published_parser("parsing_wsj_semi_32k").f1 == 92.7
    assert table4.published_parser("parsing_wsj_16k").f1 == 91.3
    assert table4.published_parser("parsing_treebank_sample").f1 == 91.3


@pytest.mark.integration
def test_a_command_gives_what_it_prints_or_its_failure():
    printed = experiment_queue.run_command("t2t-eval", ["--help"], "cell", capture=True)
    assert printed.startswith("t2t-eval: ")
    with pytest.raises(UserError, match=r"^cell: t2t-eval ended with code 2; .* to resume here$"):
        experiment_queue.run_command("t2t-eval", ["--no_such_flag"], "cell")
