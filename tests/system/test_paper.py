"""t2t-paper trains a row of Table 3 and shows it beside the published one."""

import json
import pathlib

import pytest

from t2t_lite import registry


@pytest.mark.slow
def test_a_miniature_row_of_table_3(command, tmp_path: pathlib.Path):
    text, data, out = tmp_path / "text", tmp_path / "data", tmp_path / "out"
    text.mkdir()
    lines = [f"line {i} of some words {i * i}" for i in range(200)]
    for split in ("train", "eval"):
        for side in ("inputs", "targets"):
            path = text / f"{side}.{split}.txt"
            path.write_text("\n".join(lines[:: 1 if split == "train" else 50]) + "\n", "utf-8")
    registry.problem("text2text_tmpdir").generate_data(str(data), str(text))
    flags = [
        "table3",
        "--problem=text2text_tmpdir",
        "--scale=tiny",
        "--steps=2",
        "--hparams=batch_size=256,max_length=32,num_hidden_layers=1",
        f"--data_dir={data}",
        f"--output_dir={out}",
        "--rows=a1",
        "--format=json",
    ]
    table = json.loads(command("t2t-paper", *flags))
    (row,) = table["rows"]
    assert (row["PPL"], row["BLEU"], row["seeds"]) == (5.29, 24.9, 1)
    assert row["PPL here"] > 1
    recorded = json.loads((out / "table3.json").read_text("utf-8"))["cells"]["a1-seed1"]
    assert recorded["parameters"] == row["parameters"] > 100_000
    assert "num_heads=1" in recorded["command"]
    assert (out / "table3.svg").read_text("utf-8").startswith("<svg")
    # Done is done: the table again, without training.
    (out / "a1-seed1" / "hparams.json").unlink()
    assert json.loads(command("t2t-paper", *flags)) == table
