"""A metric of one's own is one file; all commands then have it, in this process."""

import json
import pathlib
import textwrap
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest

from support.commands import printed_by
from support.rounding import assert_close
from support.small_runs import generate_pairs
from support.usr_dirs import forgotten
from t2t_lite import usr_dirs
from t2t_lite.bin import t2t_decoder, t2t_eval, t2t_report, t2t_trainer

pytestmark = pytest.mark.integration

SHORT = "--decode_hparams=beam_size=1,extra_length=1"  # each step of a search takes long eagerly
# Chooses by a metric in which lower is better, so that the direction shows.
OWN = """
    import t2t_lite as t2t
    from t2t_lite.problems.text2text_tmpdir import Text2textTmpdir


    @t2t.register_metric
    class LengthGap(t2t.OutputMetric):
        title = "length gap (%)"
        lower_is_better = True

        def statistics(self, segments):
            lengths = [(len(s.output.split()), len(s.reference.split())) for s in segments]
            return [(abs(output - reference), reference) for output, reference in lengths]


    @t2t.register_problem
    class OwnPairs(Text2textTmpdir):
        metrics = ("length_gap", "chrf", "command:PROGRAM")
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Iterator[tuple[str, str]]:
    """The user's folder, and the name of the command that its problem is scored by."""
    folder = tmp_path_factory.mktemp("own") / "usr_own_metric"
    folder.mkdir()
    program = folder / "lengths.sh"
    program.write_text('#!/bin/sh\nwhile read -r line; do echo "${#line}"; done < "$2"\n')
    program.chmod(0o755)
    (folder / "__init__.py").write_text(textwrap.dedent(OWN).replace("PROGRAM", str(program)))
    with forgotten():
        yield str(folder), f"command:{program}"


@pytest.fixture
def finish(own):
    """Returns a function that runs a command to its end and returns its standard output."""
    return lambda command, *flags: printed_by(command.main, f"--t2t_usr_dir={own[0]}", *flags)


def test_one_file_is_enough(finish, own, eagerly, few_shards, tmp_path):
    usr_dirs.import_usr_dir(own[0])
    data, run = generate_pairs(tmp_path / "made", "own_pairs", 60), tmp_path / "run"
    names = ["length_gap", "chrf", own[1]]
    finish(
        t2t_trainer,
        "--problem=own_pairs",
        "--model=transformer",
        "--hparams_set=transformer_test",
        "--hparams=batch_size=64,batch_shuffle_size=0,max_length=16,num_hidden_layers=1",
        f"--data_dir={data}",
        f"--output_dir={run}",
        "--train_steps=20",
        "--local_eval_frequency=2",
        SHORT,
        "--eval_early_stopping_steps=2",
        "--eval_early_stopping_metric=length_gap",
        "--eval_early_stopping_metric_delta=1e6",
        "--random_seed=5",
    )
    records = [json.loads(line) for line in (run / "metrics.jsonl").open(encoding="utf-8")]
    found = {record["step"]: record for record in records if record["kind"] == "eval"}
    assert list(found) == [2, 4], "stopped early by it"
    assert all(isinstance(found[4][name], float) for name in names)
    best = min(found, key=lambda step: (found[step]["length_gap"], -step))
    assert [path.stem for path in run.glob("best.ckpt-*.index")] == [f"best.ckpt-{best}"]

    _evaluates(finish, run, names, found)
    _decodes(finish, run, tmp_path)
    _reports(finish, run, own[1], found[best]["length_gap"])


def _evaluates(finish, run: pathlib.Path, names: list[str], found: dict) -> None:
    flags = [f"--output_dir={run}", "--checkpoint_path=2,4", SHORT]
    scored = json.loads(finish(t2t_eval, *flags, "--output_format=json"))["checkpoints"]
    for checkpoint in scored:
        assert checkpoint["values"].keys() >= {"loss", "chrf_signature", *names}
        worth = [checkpoint["resampled"], *checkpoint["other_resampled"].values()]
        scores = [checkpoint["values"][name] for name in names]
        # Sums over the six sentences.
        assert_close([one["score"] for one in worth], scores, terms=6, dtype="float64")
    assert list(scored[1]["other_resampled"]) == names[1:]
    assert 0 < scored[1]["resampled"]["p_value"] <= 1
    table = finish(t2t_eval, *flags, "--metrics=exact_match,length_gap").splitlines()
    first = [line.split("  ")[0] for line in table]
    assert first[-8:-2] == [
        "exact_match",
        "length_gap",
        "exact_match bootstrap mean",
        "exact_match bootstrap p-value",
        "length_gap bootstrap mean",
        "length_gap bootstrap p-value",
    ]


def _decodes(finish, run: pathlib.Path, folder: pathlib.Path) -> None:
    for name in ("in", "right"):
        (folder / name).write_text("1 and 7\n2 and 4\n")
    flags = [f"--output_dir={run}", f"--decode_from_file={folder / 'in'}"]
    flags += [f"--decode_reference={folder / 'right'}", SHORT]
    printed = finish(t2t_decoder, *flags).splitlines()
    starts = [line.partition(" =")[0].partition(":")[0] for line in printed]
    assert starts == ["length gap (%)", "chrF", "chrF signature", "command"]
    (line,) = finish(t2t_decoder, *flags, "--metrics=token_accuracy").splitlines()
    assert line.startswith("token accuracy (% of words) =")


def _reports(finish, run: pathlib.Path, command: str, best: float) -> None:
    page = pathlib.Path(finish(t2t_report, f"--output_dir={run}").strip()).read_text(
        encoding="utf-8"
    )
    root = ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))
    titles = {svg.attrib["aria-label"] for svg in root.iter("{http://www.w3.org/2000/svg}svg")}
    assert titles >= {"length gap (%)", "chrF", command, "evaluation loss"}
    (cell,) = [row[1].text for row in root.iter("tr") if row[0].text == "best length gap (%)"]
    assert cell.startswith(f"{best:.4g} (step ")
