"""All that is done with a run, in folders whose names hold what patterns and lists are made of."""

import json
import pathlib

import pytest
import tensorflow as tf

from support.commands import exit_code, printed_by
from t2t_lite.bin import (
    t2t_avg_all,
    t2t_avg_checkpoints,
    t2t_datagen,
    t2t_decoder,
    t2t_eval,
    t2t_exporter,
    t2t_insights,
    t2t_trainer,
)

NAME = "[lr=0.1],{a b}*?\\ü %s#'"
HPARAMS = "num_hidden_layers=1,hidden_size=16,filter_size=16,num_heads=2,batch_size=256"


@pytest.mark.slow
def test_every_command_works_in_folders_of_odd_names(
    eagerly, few_shards, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    text, data, run = (pathlib.Path(NAME, name + NAME) for name in ("text", "data", "run"))
    text.mkdir(parents=True)
    for split, count in (("train", 30), ("eval", 3)):
        for side in ("inputs", "targets"):
            lines = "".join(f"{i} and {i * 7 % 10}\n" for i in range(count))
            (text / f"{side}.{split}.txt").write_text(lines)
    printed_by(
        t2t_datagen.main, "--problem=text2text_tmpdir", f"--tmp_dir={text}", f"--data_dir={data}"
    )
    train = (
        *("--problem=text2text_tmpdir", "--model=transformer", "--hparams_set=transformer_test"),
        *(f"--hparams={HPARAMS}", f"--data_dir={data}", f"--output_dir={run}"),
        *("--local_eval_frequency=1", "--eval_steps=1", "--worker_gpu=0"),
        *("--decode_hparams=beam_size=1,extra_length=2", "--keep_best_max=1"),
    )
    printed_by(t2t_trainer.main, *train, "--train_steps=1")
    printed_by(t2t_trainer.main, *train, "--train_steps=2")
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").open()]
    assert steps == sorted(steps)
    assert max(steps) == 2
    printed_by(t2t_avg_checkpoints.main, f"--output_dir={run}", "--num_last_checkpoints=2")
    averages = pathlib.Path(NAME, "averages")
    assert printed_by(t2t_avg_all.main, f"--model_dir={run}", f"--output_dir={averages}", "--n=2")

    search = "--decode_hparams=beam_size=2,extra_length=2"
    every = f"--checkpoint_path=newest,best,averaged,{averages}/model.ckpt-2"
    scored = printed_by(t2t_eval.main, f"--output_dir={run}", every, search, "--output_format=json")
    assert len(json.loads(scored)["checkpoints"]) >= 3
    out = pathlib.Path(NAME, "out")
    decoding = f"--decode_from_file={text}/inputs.eval.txt", f"--decode_to_file={out}", search
    printed_by(t2t_decoder.main, f"--output_dir={run}", every, *decoding)
    assert out.read_text().count("\n") == 3
    printed_by(
        t2t_insights.main, f"--checkpoint_path={run}/averaged.ckpt-2", "--text=1", "--target=2"
    )

    more = [flag.replace(f"={run}", f"={run}2") for flag in train]
    printed_by(
        t2t_trainer.main, *more, "--train_steps=1", f"--warm_start_from={run}/averaged.ckpt-2"
    )

    tf.config.run_functions_eagerly(False)  # an export is a traced function
    export = (t2t_exporter.main, f"--output_dir={run}")
    printed_by(*export, "--format=keras")
    printed_by(*export, "--format=ctranslate2", "--checkpoint_path=averaged")
    assert sorted(path.name for path in (run / "export").iterdir()) == ["ctranslate2", "keras"]
    assert exit_code(*export, search) == 1
    assert "choose another --export_dir" in capsys.readouterr().err
    assert sorted(path.name for path in (run / "export").iterdir()) == ["ctranslate2", "keras"]
    printed_by(*export, search, "--export_dir=export,{a b}*?")
    assert tf.saved_model.load("export,{a b}*?/ids/1").signatures
