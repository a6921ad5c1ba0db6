"""Members of a mixture are evaluated side by side: in training, by t2t-eval and t2t-decoder."""

import json
import logging
import random

import pytest
import tensorflow as tf

from support.registries import restored
from support.rounding import assert_close
from support.small_runs import make_config, records_of
from t2t_lite import registry
from t2t_lite.bin import t2t_eval
from t2t_lite.data.mixture import NamedMixture
from t2t_lite.data.problem import three_splits
from t2t_lite.data.text_problems import TranslateProblem
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.errors import UsageError
from t2t_lite.generation.generator import generate_data
from t2t_lite.metrics.by_name import score_outputs
from t2t_lite.reporting.report import write_report
from t2t_lite.runs.checkpoint_names import named_checkpoint
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.text.languages import Languages
from t2t_lite.training import checkpoint_evaluation, devices, trainer

pytestmark = pytest.mark.integration

GERMAN, CHINESE, CZECH = (f"translate_en{code}_parts" for code in ("de", "zh", "cs"))
MIXTURE = f"{GERMAN}+{CHINESE}+{CZECH}"
TRAIN, DEV, TEST = three_splits(1)


class Parts(TranslateProblem):
    """Words of few letters, and in the targets the same in capitals."""

    metrics = ("bleu",)
    dataset_splits = (TRAIN, DEV, TEST)
    pairs = {"train": 60, "eval": 6, "test": 4}

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        draw = random.Random(f"{self.base_name} {dataset_split}")
        for _ in range(self.pairs[dataset_split]):
            words = ["".join(draw.choices("ab", k=2)) for _ in range(draw.randrange(1, 5))]
            yield {"inputs": " ".join(words), "targets": " ".join(words).upper()}


class OfCharacters(Parts):
    metrics = ("bleu_zh",)
    pairs = Parts.pairs | {"eval": 9}


class WithoutDev(Parts):
    dataset_splits = (TRAIN, TEST)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The data of the mixture."""
    folder = tmp_path_factory.mktemp("data")
    with restored(registry._problems), pytest.MonkeyPatch.context() as patch:
        for name, kind in ((GERMAN, Parts), (CHINESE, OfCharacters), (CZECH, WithoutDev)):
            registry.register_problem(name)(type(name, (kind,), {}))
        patch.setattr(NamedMixture, "approx_vocab_size", 60)
        generate_data(registry.problem(MIXTURE), str(folder), "")
        yield folder


def train(data, output_dir, **changes):
    settings = {"problem": MIXTURE, "train_steps": 4, "keep_best_max": 1}
    trainer.run(make_config(data, output_dir, **(settings | changes)))
    return output_dir


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """A run of four steps, evaluated twice; and its log."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("t2t_lite").addHandler(handler)
    level = logging.getLogger("t2t_lite").level
    logging.getLogger("t2t_lite").setLevel(logging.INFO)
    try:
        folder = train(data, tmp_path_factory.mktemp("run"), best_metric="loss__zh")
    finally:
        logging.getLogger("t2t_lite").removeHandler(handler)
        logging.getLogger("t2t_lite").setLevel(level)
    return folder, lines


NUMBERS = ("loss", "neg_log_perplexity", "perplexity", "accuracy", "accuracy_per_sequence")


def test_records_have_means_and_the_values_of_members(run):
    for record in records_of(run[0], "eval"):
        assert record.keys() == {
            *("kind", "step", "target_tokens", "chrf", "chrf_signature", *NUMBERS),
            *("bleu_signature", "bleu_zh_signature", "bleu__de", "bleu_zh__zh"),
            *(f"{n}__{c}" for n in (*NUMBERS, "target_tokens", "chrf") for c in ("de", "zh")),
        }
        for name in (*NUMBERS, "chrf"):
            assert_close(record[name], (record[f"{name}__de"] + record[f"{name}__zh"]) / 2, 3)
        assert record["target_tokens"] == record["target_tokens__de"] + record["target_tokens__zh"]
        assert record["loss__de"] != record["loss__zh"]


def test_each_member_is_read_and_translated_as_its_own(run, data):
    """The scores of a file that is translated into the member's language."""
    opened = RunFolder.open(str(run[0]))
    decoder = Decoder.from_run(opened, hparams=None)
    (*_, record) = records_of(run[0], "eval")
    hparams = decoder.hparams.override("beam_size=1,extra_length=1")
    decoder = Decoder.from_run(opened, hparams=hparams)
    for code, name, metric in (("de", GERMAN, "bleu"), ("zh", CHINESE, "bleu_zh")):
        pairs = list(registry.problem(name).generate_samples("", "", "eval"))
        lines, references = ([pair[side] for pair in pairs] for side in ("inputs", "targets"))
        sources = decoder.text.encode(lines, languages=Languages(target=code))
        outputs = [beams[0].output for beams in decoder.decode(sources)]
        for one in (metric, "chrf"):
            score = score_outputs(one, outputs, references).values[one]
            assert record[f"{one}__{code}"] == score


def test_the_log_has_a_line_for_each_member_and_one_for_the_mean(run):
    shown = [line for line in run[1] if line.startswith("step 4, eval split")]
    assert [line.partition(": ")[0] for line in shown] == [
        *("step 4, eval split, de", "step 4, eval split, zh", "step 4, eval split, mean of 2"),
    ]
    (*_, record) = records_of(run[0], "eval")
    for line, label in zip(shown, ("__de", "__zh", ""), strict=True):
        assert f"loss {record[f'loss{label}']:.4f}" in line
        assert f"chrF2 {record[f'chrf{label}']:.2f}" in line or "chrF" in line
    assert f"{CZECH} has no eval split: evaluations leave it out" in run[1]


def test_the_best_checkpoint_is_that_of_the_named_member(run):
    losses = {record["step"]: record["loss__zh"] for record in records_of(run[0], "eval")}
    best = min(losses, key=lambda step: (losses[step], -step))
    assert (run[0] / f"best.ckpt-{best}.index").is_file()
    assert named_checkpoint("best", str(run[0])).endswith(f"best.ckpt-{best}")


def test_tensorboard_has_the_values_and_samples_of_members(run):
    tags = set()
    for path in run[0].glob("events.out.tfevents.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            tags |= {value.tag for value in event.summary.value}
    assert {"eval/loss", "eval/loss__de", "eval/bleu_zh__zh", "samples/de", "samples/zh"} <= tags
    assert {"attention/de/decoder_layer_0", "attention/zh/decoder_layer_0"} <= tags
    assert "samples" not in tags


def test_a_report_has_a_curve_for_each_member(run, tmp_path):
    write_report([str(run[0])], str(tmp_path / "report.html"))
    text = (tmp_path / "report.html").read_text()
    for title in ("chrF", "de: chrF", "zh: chrF", "de: BLEU", "zh: BLEU (zh)"):
        assert f"best {title}" in text, title
    assert "best BLEU" not in text, "there is no mean of different metrics"


def test_devices_change_no_value(run, data, tmp_path):
    again = train(data, tmp_path, simulate_devices=2, hparams="batch_size=32")
    (*_, one), (*_, other) = (records_of(folder, "eval") for folder in (run[0], again))
    assert one.keys() == other.keys()


def test_a_member_that_is_not_there_is_refused(data, tmp_path):
    for flag in ("best_metric", "eval_early_stopping_metric"):
        with pytest.raises(UsageError, match="unknown metric 'loss_zh'; did you mean 'loss__zh'"):
            train(data, tmp_path / flag, **{flag: "loss_zh"})


def test_checkpoints_are_scored_by_member(run, data, capsys, caplog):
    paths = [named_checkpoint(name, str(run[0])) for name in ("2", "4")]
    strategy = devices.make_strategy(0)
    search = "beam_size=1,extra_length=1"
    scored = checkpoint_evaluation.score_checkpoints(paths, strategy, "eval", "", search)
    for one, record in zip(scored, records_of(run[0], "eval"), strict=True):
        expected = {name: v for name, v in record.items() if name not in ("kind", "step")}
        assert one.values.keys() == expected.keys()
        for name, value in expected.items():
            if isinstance(value, str):
                assert one.values[name] == value
            else:
                assert_close(one.values[name], value, 100)
        assert one.resampled is None
        assert one.other_resampled.keys() == {"bleu__de", "chrf__de", "bleu_zh__zh", "chrf__zh"}
        for name, result in one.other_resampled.items():
            assert result.score == one.values[name]
            assert (result.p_value is None) == (one is scored[0])
