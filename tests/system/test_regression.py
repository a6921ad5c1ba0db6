"""A regressor through the commands: a toy whose truth is known, learned, decoded and exported."""

import json
import pathlib
import random

import numpy as np
import pytest
import tensorflow as tf

import t2t_lite
from support.commands import decoded, printed_by, refusal
from support.rounding import assert_close
from support.servers import answers_of
from t2t_lite.bin import t2t_datagen, t2t_decoder, t2t_eval, t2t_exporter, t2t_trainer
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.requests import TranslationRequest

pytestmark = pytest.mark.integration

HPARAMS = (
    "batch_size=1024,batch_shuffle_size=4,max_length=64,num_hidden_layers=1,hidden_size=64,"
    "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0,"
    "filter_size=128,learning_rate_schedule=constant*linear_warmup*rsqrt_decay,"
    "learning_rate_constant=0.02,learning_rate_warmup_steps=20"
)
LETTERS, DIGITS = "abcdefgh", "0123456789"


def sample(draw):
    """A text of letters and digits, their number in units of 20, and the share of digits."""
    share, length = draw.random(), draw.randint(1, 20)
    words = [draw.choice(DIGITS if draw.random() < share else LETTERS) for _ in range(length)]
    return " ".join(words), (length / 20, sum(map(str.isdigit, words)) / length)


def write(folder, split, count):
    draw = random.Random(f"9/{split}")
    texts, rows = zip(*(sample(draw) for _ in range(count)), strict=True)
    (folder / f"inputs.{split}.txt").write_text("".join(f"{text}\n" for text in texts))
    lines = ("\t".join(map(repr, row)) for row in rows)
    (folder / f"targets.{split}.txt").write_text("".join(f"{line}\n" for line in lines))
    return texts, rows


@pytest.fixture(scope="module")
def trained(few_shards, tmp_path_factory) -> pathlib.Path:
    """The folder of a regressor of two numbers: its run is in `run`."""
    folder = tmp_path_factory.mktemp("regressor")
    write(folder, "train", 3000)
    write(folder, "eval", 100)
    names = "--problem=text2real_tmpdir", f"--data_dir={folder}/data"
    printed_by(t2t_datagen.main, *names, f"--tmp_dir={folder}")
    printed_by(
        t2t_trainer.main,
        *names,
        "--model=transformer_regressor",
        "--hparams_set=transformer_tiny",
        f"--hparams={HPARAMS}",
        f"--output_dir={folder}/run",
        "--train_steps=300",
        "--local_eval_frequency=300",
    )
    return folder


def test_it_has_learned_both_numbers(trained, capsys):
    rows = [json.loads(row) for row in (trained / "run" / "metrics.jsonl").open()]
    (last,) = (row for row in rows if row["kind"] == "eval")
    assert last["pearson"] >= 0.95
    assert last["spearman"] >= 0.95
    assert last["loss"] == pytest.approx(last["rmse"] ** 2, rel=1e-4)
    assert "accuracy" not in last
    printed_by(t2t_eval.main, f"--output_dir={trained}/run")
    assert "pearson" in capsys.readouterr().out


def test_texts_get_numbers_wherever_they_are_asked_for(trained, tmp_path):
    """Other texts than those of the training, which a fresh seed draws."""
    draw = random.Random()
    texts, rows = zip(*(sample(draw) for _ in range(60)), strict=True)
    lines = [*texts, ""]
    found = decoded(trained, f"--decode_from_file={trained}/in.txt", text=lines)
    assert found[-1] == ""
    numbers = np.array([[*map(float, line.split())] for line in found[:-1]])
    for own, wanted in zip(numbers.T, np.array(rows).T, strict=True):
        assert np.corrcoef(own, wanted)[0, 1] >= 0.95
    translate = t2t_lite.open_run(str(trained / "run")).translator()
    alone = [[*map(float, translate(text).split())] for text in texts[:3]]
    assert_close(np.array(alone), numbers[:3], terms=64)

    serving = pytest.importorskip("t2t_lite.serving.request_translator")
    opened = run_folder.RunFolder.open(str(trained / "run"))
    hparams = DecodeHParams.of(opened.problem)
    limits = ServerConfig(output_dir=str(trained / "run"))
    server = serving.RequestTranslator.load(opened, None, hparams, ServerMetrics(), limits)
    (answer,) = map(
        json.loads, answers_of(server, [TranslationRequest([*texts[:3]], 1, True, False)])
    )
    served = [line["hypotheses"][0]["text"] for line in answer["translations"]]
    served = np.array([[*map(float, text.split())] for text in served])
    assert_close(served, numbers[:3], terms=64)

    printed_by(t2t_exporter.main, f"--output_dir={trained}/run", f"--export_dir={tmp_path}/e")
    ids = tf.saved_model.load(tmp_path / "e" / "ids" / "1").signatures["serving_default"]
    encoder = opened.encoders["inputs"]
    rows_of_ids = tf.ragged.constant([[*encoder.encode(text), 1] for text in texts]).to_tensor()
    exported = ids(inputs=tf.cast(rows_of_ids, tf.int32))["numbers"]
    assert_close(exported, numbers, terms=64)


@pytest.mark.parametrize(
    ("main", "flags", "message", "code"),
    [
        (t2t_decoder.main, "--decode_hparams=beam_size=4", "beam_size=4: numbers are computed", 2),
        (
            t2t_decoder.main,
            "--score_file={folder}/in.txt --decode_to_file={folder}/o",
            "numbers have no probabilities",
            2,
        ),
        (
            t2t_exporter.main,
            "--format=ctranslate2 --export_dir={folder}/e",
            "TransformerRegressor",
            1,
        ),
    ],
)
def test_what_does_not_apply_is_refused(trained, main, flags, message, code):
    (trained / "in.txt").write_text("abc\t1 2\n")
    flags = flags.format(folder=trained).split()
    assert message in refusal(main, f"--output_dir={trained}/run", *flags, code=code)
