"""A quality model through the commands: scores of outputs, training, confidences, documents."""

import json
import random

import numpy as np
import pytest

import t2t_lite
from support.commands import decoded, printed_by, refusal
from support.small_runs import noisy_run
from t2t_lite.bin import t2t_datagen, t2t_decoder, t2t_trainer
from t2t_lite.decoding.quality import QualityModel
from t2t_lite.metrics.correlation import ranks

pytestmark = pytest.mark.integration

HPARAMS = (
    "batch_size=1024,batch_shuffle_size=4,max_length=64,num_hidden_layers=1,hidden_size=64,"
    "filter_size=128,learning_rate_schedule=constant*linear_warmup*rsqrt_decay,"
    "learning_rate_constant=0.02,learning_rate_warmup_steps=20"
)
WORDS = ["cat", "dog", "bird", "fish", "tree", "house", "river", "stone"]


def output(draw):
    """A source, an output some of whose words are noise, and the share of the others."""
    source = [draw.choice(WORDS) for _ in range(draw.randint(3, 9))]
    bad = draw.random()
    kept = [draw.random() > bad for _ in source]
    words = [word.upper() if own else "?!" for word, own in zip(source, kept, strict=True)]
    return " ".join(source), " ".join(words), sum(kept) / len(kept)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quality")
    draw = random.Random(5)
    rows = (output(draw) for _ in range(2000))
    lines = (
        json.dumps(dict(zip(("source", "output", "chrf"), (*o, 100 * s), strict=True)))
        for *o, s in rows
    )
    (folder / "scores.train.jsonl").write_text("".join(f"{line}\n" for line in lines))
    names = "--problem=quality_tmpdir", f"--data_dir={folder}/data"
    printed_by(t2t_datagen.main, *names, f"--tmp_dir={folder}")
    printed_by(
        t2t_trainer.main,
        *names,
        "--model=transformer_regressor",
        "--hparams_set=transformer_tiny",
        f"--hparams={HPARAMS}",
        f"--output_dir={folder}/run",
        "--train_steps=150",
        "--local_eval_frequency=150",
    )
    return folder


def test_confidence_sorts_outputs_by_their_quality(trained, tmp_path):
    quality = QualityModel(str(trained / "run"))
    draw = random.Random()
    outputs = [output(draw) for _ in range(60)]
    found = [quality.confidences(source, [text])[0] for source, text, _ in outputs]
    assert all(0 <= one <= 1 for one in found)
    scores = [score for *_, score in outputs]
    assert np.corrcoef(ranks(np.array(found)), ranks(np.array(scores)))[0, 1] > 0.8
    source = outputs[0][0]
    together = quality.confidences(source, [text for _, text, _ in outputs[:5]])
    alone = [quality.confidences(source, [text])[0] for _, text, _ in outputs[:5]]
    np.testing.assert_allclose(together, alone, atol=2e-4)
    assert quality.confidences(source, []) == []
    own, long, other = quality.confidences(source, [outputs[0][1], "cat " * 100, "dog"])
    assert long is None, "it has more subwords than the model has learned"
    assert own == pytest.approx(together[0], abs=2e-4)
    assert 0 <= other <= 1
    assert quality.confidences("cat " * 100, ["dog"]) == [None]
    quality.longest = 4096
    assert 0 <= quality.confidences("cat " * 100, ["dog"])[0] <= 1

    folder = tmp_path / "translator"
    noisy_run(folder / "run", hidden_size=16, num_hidden_layers=1)
    flags = f"--quality_run={trained}/run", f"--decode_from_file={folder}/in.txt"
    settings = "--decode_hparams=beam_size=2,extra_length=3"
    lines = decoded(folder, *flags, "--output_format=json", settings, text=["A cat.", ""])
    rows = [json.loads(line)["hypotheses"] for line in lines]
    assert [len(row) > 0 for row in rows] == [True, False]
    run = t2t_lite.open_run(str(folder / "run"))
    translate = run.translator(quality_run=trained / "run", beam_size=2, extra_length=3)
    for own, row in zip(translate("A cat.", n_best=2), rows[0], strict=False):
        assert own.confidence == pytest.approx(row["confidence"], abs=2e-4)
    message = refusal(
        t2t_decoder.main,
        f"--output_dir={folder}/run",
        f"--quality_run={folder}/run",
        *flags[1:],
        "--output_format=json",
        code=1,
    )
    assert "name the run of a quality model (quality_tmpdir)" in message
