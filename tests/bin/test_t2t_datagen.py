"""t2t-datagen: which problems are chosen, and what is called for each."""

import pathlib
import random
from collections.abc import Iterator

import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.bin import t2t_datagen
from t2t_lite.data.problem import Problem
from t2t_lite.data.text_encoder import TextEncoder

_CALLS: list[tuple[str, str, str, int, float, float]] = []


class Recorder(Problem):
    """Notes the calls instead of making data."""

    def generate_data(self, data_dir: str, tmp_dir: str, seed: int = 0) -> None:
        assert pathlib.Path(data_dir).is_dir()
        assert pathlib.Path(tmp_dir).is_dir()
        _CALLS.append((self.name, data_dir, tmp_dir, seed, random.random(), np.random.rand()))

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        return {}


@pytest.fixture(autouse=True)
def _problems() -> Iterator[None]:
    registry.list_problems()
    before = dict(registry._problems._entries)
    for name in ("zoo_ape", "zoo_bee", "zoo_cat_big"):
        registry.register_problem(name)(type(name, (Recorder,), {}))
    _CALLS.clear()
    yield
    registry._problems._entries.clear()
    registry._problems._entries.update(before)


def run(*argv: str) -> int:
    with pytest.raises(SystemExit) as end:
        t2t_datagen.main(argv)
    return end.value.code


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["--problem=zoo_bee"], ["zoo_bee"]),
        (["--problem=zoo_bee,zoo_ape"], ["zoo_bee", "zoo_ape"]),
        (["--problem=zoo_*"], ["zoo_ape", "zoo_bee", "zoo_cat_big"]),
        (["--problem=zoo_*", "--exclude_problems=ape,big"], ["zoo_bee"]),
        (["--problem=zoo_ape_rev"], ["zoo_ape"]),
        (["--problem=zoo_ape_rev,zoo_ape,zoo_ape_copy"], ["zoo_ape"]),
    ],
)
def test_only_list(argv: list[str], names: list[str], capsys: pytest.CaptureFixture[str]):
    assert run("--only_list", *argv) == 0
    assert capsys.readouterr().out.split() == names
    assert _CALLS == []


def test_a_reversed_name_is_explained(capsys: pytest.CaptureFixture[str]):
    assert run("--only_list", "--problem=zoo_ape_rev") == 0
    assert "zoo_ape_rev is read from the files of zoo_ape" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "--problem is missing"),
        (["--problem=zoo_ape"], "--data_dir is missing"),
        (["--problem=zoo_aep"], "unknown problem 'zoo_aep'; did you mean 'zoo_ape'"),
        (["--problem=zoo_ape,zoo_dog"], "unknown problem 'zoo_dog'"),
        (["--problem=no_such_*"], "chooses no problem"),
        (["--problem=zoo_ape", "--exclude_problems=ape"], "chooses no problem"),
    ],
)
def test_bad_choices(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert run(*argv) == 2
    assert message in capsys.readouterr().err
    assert _CALLS == []


def test_each_problem_is_generated_from_the_same_seed(tmp_path: pathlib.Path):
    data, raw = str(tmp_path / "data"), str(tmp_path / "raw" / "deep")
    assert run("--problem=zoo_*", f"--data_dir={data}", f"--tmp_dir={raw}", "--random_seed=7") == 0
    assert [call[:4] for call in _CALLS] == [
        (name, data, raw, 7) for name in ("zoo_ape", "zoo_bee", "zoo_cat_big")
    ]
    assert len({call[4:] for call in _CALLS}) == 1


def test_a_folder_that_cannot_be_made_is_one_line(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").touch()
    assert run("--problem=zoo_ape", f"--data_dir={tmp_path}/file/data") == 1
    assert f"{tmp_path}/file/data: Not a directory" in capsys.readouterr().err


def test_a_usr_dir_problem_is_found(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "usr_datagen_problem"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from t2t_lite import registry\n"
        "from t2t_lite.data import text_problems\n\n\n"
        "@registry.register_problem\n"
        "class UsrPairs(text_problems.Text2TextProblem):\n"
        "    def generate_samples(self, data_dir, tmp_dir, dataset_split):\n"
        "        return []\n"
    )
    assert run(f"--t2t_usr_dir={folder}", "--only_list", "--problem=usr_pairs_rev") == 0
    assert capsys.readouterr().out == "usr_pairs\n"
