"""A user directory written for T2T generates, trains and decodes, through the commands."""

import json
import pathlib

import pytest

from support.commands import printed_by
from support.marks import by_name
from support.usr_archives import write_archives
from t2t_lite.bin import t2t_datagen, t2t_decoder, t2t_trainer

pytestmark = pytest.mark.integration

USR_DIR = pathlib.Path(__file__).parents[2] / "fixtures" / "t2t_usr_dir"


def run(command, *flags: str) -> None:
    printed_by(command.main, f"--t2t_usr_dir={USR_DIR}", *flags)


@pytest.mark.parametrize(
    ("problem", "model", "hparams_set", "line"),
    [
        ("usr_parity", "lstm_seq2seq", "lstm_usr", "abc"),
        ("usr_same", "transformer_encoder", "transformer_usr_tiny", "cat\tcat"),
        *by_name(
            ("usr_counting", "transformer", "transformer_usr", "1 2 3"),
            ("translate_usr_rev", "transformer", "transformer_usr_tiny", "Katze number 3"),
            ("usr_language_model", "transformer", "transformer_usr_tiny", "A first"),
            ("usr_sentiment", "transformer_encoder", "transformer_usr_tiny", "a dull film"),
        ),
    ],
)
def test_it_runs_unchanged(upstream, tmp_path, eagerly, problem, model, hparams_set, line):
    write_archives(tmp_path / "tmp")
    data, out = f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/run"
    run(t2t_datagen, f"--problem={problem.removesuffix('_rev')}", data, f"--tmp_dir={tmp_path}/tmp")
    names = [f"--problem={problem}", f"--model={model}", f"--hparams_set={hparams_set}"]
    steps = ["--train_steps=2", "--local_eval_frequency=2", "--eval_steps=1"]
    steps += ["--hparams=max_length=32,batch_shuffle_size=0,num_hidden_layers=1"]
    search = "--decode_hparams=beam_size=1,extra_length=2"
    run(t2t_trainer, *names, data, out, *steps, search)
    hparams = json.loads((tmp_path / "run" / "hparams.json").read_text())
    assert hparams.get("usr_field", 3) == 3
    (tmp_path / "in.txt").write_text(f"{line}\n")
    files = [f"--decode_from_file={tmp_path}/in.txt", f"--decode_to_file={tmp_path}/out.txt"]
    run(t2t_decoder, out, *files, search)
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 1
