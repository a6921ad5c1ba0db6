"""benchmarks/generalisation.py: its problems, scores, queue and table."""

import itertools
import json
import pathlib

import pytest

from support.scripts import import_script
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.study.paper import experiment_queue
from t2t_lite.study.paper.experiment_queue import Folders

ROWS, PROBLEMS = ["transformer", "neural_gpu"], ["sort", "addition_binary"]

generalisation = import_script("generalisation")


@pytest.mark.parametrize("row", generalisation.ROWS, ids=lambda row: row.name)
def test_each_set_is_one_of_the_models(row):
    hparams = registry.hparams(row.hparams_set)
    hparams = hparams.override(f"{generalisation.COMMON},{row.hparams}")
    assert isinstance(hparams, registry.model(row.model).hparams_class)
    assert hparams.hidden_size == 64
    rates = {name: value for name, value in hparams.to_dict().items() if "dropout" in name}
    assert set(rates.values()) <= {0}, rates
    # Nothing is cut: not the longest test source, nor its end.
    assert hparams.max_length > 40


@pytest.mark.parametrize("name", generalisation.PROBLEMS)
def test_problems_are_those_of_t2t_with_other_lengths(name: str):
    problem = registry.problem(f"short_{name}")
    lengths = {}
    for split in ("train", "test"):
        samples = list(itertools.islice(problem.generate_samples("", "", split), 2000))
        for sample in samples[:100]:
            source, target = (
                list(map(int, sample[side].split())) for side in ("inputs", "targets")
            )
            assert problem.solve(source) == target
        lengths[split] = [len(sample["inputs"].split()) for sample in samples]
    assert 8 <= max(lengths["train"]) <= 10  # reverse nlp-like has few of the longest
    counts = [
        sum(below < length <= longest for length in lengths["test"])
        for below, longest in ((0, 10), (10, 15), (15, 20), (20, 40))
    ]
    assert sum(counts) == len(lengths["test"]) == 800
    assert min(counts) > 150


def test_an_output_is_right_if_all_of_it_is():
    count = generalisation.count_right(
        ["1 2", "3 4", "5 6", "7"], ["1 2", "3", "5 6 6", "7"], ["1 2", "3 4", "5 6", "7"]
    )
    assert count == {"1": (1, 1), "2": (1, 3)}
    with pytest.raises(Exception, match="expected 2 outputs, got 1"):
        generalisation.count_right(["1", "2"], ["1"], ["1", "2"])


def test_shares_are_of_all_outputs_in_a_range():
    by_length = {"1": (1, 1), "10": (2, 4), "11": (1, 5), "15": (0, 5), "40": (0, 9)}
    found = generalisation.shares(by_length, [(0, 10), (10, 15), (15, 40)])
    assert found == [60.0, 10.0, 0.0]


class Commands:
    """In place of t2t-trainer and t2t-decoder: sources of up to 15 symbols are solved."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.killed = ""  # the command at which the process is killed

    def run(self, name: str, flags: list[str], experiment: str, capture: bool = False) -> str:
        given = dict(flag.removeprefix("--").split("=", 1) for flag in flags if "=" in flag)
        folder = pathlib.Path(given["output_dir"])
        assert folder.name == experiment
        assert pathlib.Path(given["t2t_usr_dir"], "__init__.py").is_file()
        step = f"{name} {experiment}"
        if name == "t2t-trainer":
            assert given["train_steps"] == "2000"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "summary.json").write_text('{"train_seconds": 120}', "utf-8")
        if step == self.killed:
            raise KeyboardInterrupt
        self.done.append(step)
        if name == "t2t-decoder":
            problem = registry.problem(f"short_{experiment.partition('-')[2]}")
            sources = pathlib.Path(given["decode_from_file"]).read_text("utf-8").splitlines()
            outputs = [
                " ".join(map(str, problem.solve(list(map(int, source.split())))))
                if len(source.split()) <= 15
                else source
                for source in sources
            ]
            pathlib.Path(given["decode_to_file"]).write_text("\n".join(outputs) + "\n", "utf-8")
        return ""


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    fake = Commands()
    monkeypatch.setattr(experiment_queue, "run_command", fake.run)
    return fake


def measure(folder: pathlib.Path, rows=ROWS, problems=PROBLEMS, steps: int = 2000) -> dict:
    folders = Folders("data", str(folder), generalisation.USR_DIR)
    return generalisation.measure(rows, problems, generalisation.Settings(steps), folders)


EVERYTHING = [
    f"{command} {row}-{problem}"
    for problem in PROBLEMS
    for row in ROWS
    for command in ("t2t-trainer", "t2t-decoder")
]


@pytest.mark.parametrize("killed", ["", *EVERYTHING[:3], EVERYTHING[-1]])
def test_a_killed_queue_resumes_where_it_stopped(commands, tmp_path: pathlib.Path, killed: str):
    if killed:
        commands.killed = killed
        with pytest.raises(KeyboardInterrupt):
            measure(tmp_path)
        assert commands.done == EVERYTHING[: EVERYTHING.index(killed)]
        commands.killed = ""
    results = measure(tmp_path)
    # A trainer that has trained all steps does nothing.
    assert list(dict.fromkeys(commands.done)) == EVERYTHING
    assert json.loads((tmp_path / "generalisation.json").read_text("utf-8")) == json.loads(
        json.dumps(results)
    )
    cell = results["cells"]["neural_gpu-addition_binary"]
    assert (cell["row"], cell["problem"]) == ("neural_gpu", "addition_binary")
    assert cell["seconds"] == 120
    assert "--train_steps=2000" in cell["command"]


def test_the_table_has_a_row_per_model_and_leaves_out_what_is_missing(
    commands, tmp_path: pathlib.Path
):
    measure(tmp_path, ["transformer"], ["identity_decimal", "reverse_decimal"])
    results = measure(tmp_path, ["neural_gpu"], ["reverse_decimal"])
    shown = generalisation.table(results)
    assert [column.name for column in shown.columns] == [
        *("model", "identity_decimal", "reverse_decimal")
    ]
    # What is not solved is copied, which is right for `identity`.
    assert shown.rows == [
        ["neural_gpu", None, "100 / 100 / 0 / 0"],
        ["transformer", "100 / 100 / 100 / 100", "100 / 100 / 0 / 0"],
    ]
    assert "up to 1, 1.5, 2 and 4 times as long" in shown.markdown()
    assert "--steps=2000" in shown.markdown()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": ["transformer", "gru"]}, "The table has no row 'gru': its rows are neural_gpu"),
        ({"problems": ["sort", "sorting"]}, "short_sorting"),
        ({"steps": 3000}, "made with steps=2000, not 3000"),
    ],
)
def test_usage_errors_come_before_any_training(
    commands, tmp_path: pathlib.Path, changes: dict, message: str
):
    measure(tmp_path, ROWS[:1], PROBLEMS[:1])
    before = list(commands.done)
    with pytest.raises(UsageError, match=message):
        measure(tmp_path, **changes)
    assert commands.done == before


@pytest.mark.slow
def test_a_miniature_table(tmp_path: pathlib.Path, capfd):
    folder = tmp_path / "out"
    flags = [f"--output_dir={folder}", "--steps=4", "--rows=lstm", "--problems=shift_decimal"]
    generalisation.main(flags)
    (cell,) = json.loads((folder / "generalisation.json").read_text("utf-8"))["cells"].values()
    assert (cell["row"], cell["problem"]) == ("lstm", "shift_decimal")
    assert "--train_steps=4" in cell["command"]
    assert sum(count for _, count in cell["by_length"].values()) == 800
    table = capfd.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in table if " / " in line] == ["| lstm"]
