"""Members of a mixture are evaluated side by side: in training, by t2t-eval and t2t-decoder."""

import contextlib
import itertools
import json
import logging
import random
import types
from typing import ClassVar

import pytest
import tensorflow as tf
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from support.registries import restored
from support.rounding import assert_close
from support.small_runs import make_config, records_of
from t2t_lite import registry
from t2t_lite.bin import t2t_eval
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.mixture import NamedMixture
from t2t_lite.data.problem import three_splits
from t2t_lite.data.text_problems import TranslateProblem
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import CTRANSLATE2, FLOAT32, DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.request import TextOptions
from t2t_lite.errors import UsageError
from t2t_lite.metrics.base import OutputMetric
from t2t_lite.metrics.by_name import score_outputs
from t2t_lite.runs.checkpoint_names import named_checkpoint
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.study.reports.report import write_report
from t2t_lite.training import checkpoint_evaluation, devices, trainer
from t2t_lite.training.cluster.workers import Workers
from t2t_lite.training.evaluation import Evaluator
from t2t_lite.training.run_log import MetricsWriter

pytestmark = pytest.mark.integration

GERMAN, CHINESE, CZECH = (f"translate_en{code}_parts" for code in ("de", "zh", "cs"))
MIXTURE = f"{GERMAN}+{CHINESE}+{CZECH}"
TRAIN, DEV, TEST = three_splits(1)


class Parts(TranslateProblem):
    """Words of few letters, and in the targets the same in capitals."""

    metrics = ("bleu",)
    dataset_splits = (TRAIN, DEV, TEST)
    pairs: ClassVar = {"train": 60, "eval": 20, "test": 4}

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        draw = random.Random(f"{self.base_name} {dataset_split}")
        for _ in range(self.pairs[dataset_split]):
            words = ["".join(draw.choices("ab", k=2)) for _ in range(draw.randrange(1, 5))]
            yield {"inputs": " ".join(words), "targets": " ".join(words).upper()}


class OfCharacters(Parts):
    metrics = ("bleu_zh",)
    pairs: ClassVar = Parts.pairs | {"eval": 25}


class WithoutDev(Parts):
    dataset_splits = (TRAIN, TEST)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The data of the mixture."""
    folder = tmp_path_factory.mktemp("data")
    with restored(), pytest.MonkeyPatch.context() as patch:
        for name, kind in ((GERMAN, Parts), (CHINESE, OfCharacters), (CZECH, WithoutDev)):
            registry.register_problem(name)(type(name, (kind,), {}))
        patch.setattr(NamedMixture, "approx_vocab_size", 280)
        generate_data(registry.problem(MIXTURE), str(folder), "")
        yield folder


def assert_same(one, other):
    """Compares two evaluations; devices and limits change rounding."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        if isinstance(value, float):
            assert_close(value, other[name], 1000)
        else:
            assert value == other[name], name


def train(data, output_dir, **changes):
    settings = {"problem": MIXTURE, "train_steps": 60, "local_eval_frequency": 30}
    rate = "learning_rate_schedule=constant,learning_rate_constant=0.005"
    trainer.run(make_config(data, output_dir, rate, **(settings | changes)))
    return output_dir


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """A run of 60 steps, evaluated twice; and its log."""
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


SEARCH = "beam_size=1,extra_length=1"
ORIGIN = {"search_signature": SEARCH, "eval_steps_signature": "100"}
NUMBERS = (
    *("loss", "neg_log_perplexity", "perplexity", "accuracy", "accuracy_per_sequence"),
    *("accuracy_top5", "prefix_accuracy", "bits_per_char"),
)


def test_records_have_means_and_the_values_of_members(run):
    for record in records_of(run[0], "eval"):
        assert record.keys() == {
            *("kind", "step", "target_tokens", "chrf", "chrf_signature", *NUMBERS),
            *("bleu_signature", "bleu_zh_signature", "bleu__de", "bleu_zh__zh"),
            *ORIGIN,
            *(f"{n}__{c}" for n in (*NUMBERS, "target_tokens", "chrf") for c in ("de", "zh")),
        }
        for name in (*NUMBERS, "chrf"):
            assert_close(record[name], (record[f"{name}__de"] + record[f"{name}__zh"]) / 2, 3)
        assert record["target_tokens"] == record["target_tokens__de"] + record["target_tokens__zh"]
        assert record["loss__de"] != record["loss__zh"]
    assert 0 < record["chrf__de"] != record["chrf__zh"] > 0


def test_each_member_is_read_and_translated_as_its_own(run, data):
    """The scores of a file that is translated into the member's language."""
    opened = RunFolder.open(str(run[0]))
    (*_, record) = records_of(run[0], "eval")
    decoder = Decoder.from_run(opened, hparams=DecodeHParams.of(opened, SEARCH))
    for code, name, metric in (("de", GERMAN, "bleu"), ("zh", CHINESE, "bleu_zh")):
        pairs = list(registry.problem(name).generate_samples("", "", "eval"))
        lines, references = ([pair[side] for pair in pairs] for side in ("inputs", "targets"))
        sources = decoder.text.encode(lines, TextOptions(target_language=code))
        outputs = [beams[0].output for beams in decoder.decode(sources)]
        for one in (metric, "chrf"):
            score = score_outputs(one, outputs, references).values[one]
            assert record[f"{one}__{code}"] == score


def test_the_log_has_a_line_for_each_member_and_one_for_the_mean(run):
    shown = [line for line in run[1] if line.startswith("step 60, eval split")]
    assert [line.partition(": ")[0] for line in shown] == [
        *("step 60, eval split, de", "step 60, eval split, zh", "step 60, eval split, mean of 2"),
    ]
    (*_, record) = records_of(run[0], "eval")
    for line, label in zip(shown, ("__de", "__zh", ""), strict=True):
        assert f"loss {record[f'loss{label}']:.4f}" in line
        assert f"chrF {record[f'chrf{label}']:.2f}" in line
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


def evaluation(run, data, folder, count=1, limit=100):
    """Returns the record of another evaluation of the last checkpoint, on so many devices."""
    opened = RunFolder.open(str(run[0]))
    strategy = tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(count)])
    with strategy.scope():
        model = opened.build_model()
    evaluate = Evaluator(
        *(opened, model, strategy, DecodeHParams.of(opened, SEARCH), str(data), "eval", limit),
        stop=types.SimpleNamespace(at_once=contextlib.nullcontext),
        workers=Workers(),
    )
    evaluate(opened.restore_weights(model), MetricsWriter(folder))
    (record,) = records_of(folder)
    return record


def test_devices_change_no_value(run, data, tmp_path):
    (*_, trained) = records_of(run[0], "eval")
    assert_same(evaluation(run, data, tmp_path, count=2), trained)


def test_a_limit_is_for_each_member_and_is_recorded_and_logged(run, data, tmp_path, caplog):
    (*_, whole) = records_of(run[0], "eval")
    with caplog.at_level(logging.INFO):
        part = evaluation(run, data, tmp_path, limit=1)
    assert part["first_batches"] == 1
    assert "first_batches" not in whole
    shown = [line for line in caplog.messages if line.startswith("step 60, eval split")]
    assert [line.count("  (first 1 batches)  chrF") for line in shown] == [1, 1, 1]
    assert not any("(first" in line for line in run[1])
    for name in ("target_tokens__de", "target_tokens__zh"):
        assert 0 < part[name] <= 64 < whole[name], "a batch of 64 subwords"
    assert part["chrf"] == whole["chrf"], "all is decoded"


def test_a_member_that_is_not_there_is_refused(data, tmp_path):
    for flag in ("best_metric", "eval_early_stopping_metric"):
        with pytest.raises(UsageError, match="unknown metric 'loss_zh'; did you mean 'loss__zh'"):
            train(data, tmp_path / flag, eval_early_stopping_steps=1, **{flag: "loss_zh"})


@pytest.fixture(scope="module")
def segments_file(tmp_path_factory):
    return tmp_path_factory.mktemp("segments") / "new folder" / "scores.jsonl"


@pytest.fixture(scope="module")
def scored(run, segments_file):
    """Both checkpoints, scored on dev."""
    paths = [named_checkpoint(name, str(run[0])) for name in ("30", "60")]
    strategy = devices.make_strategy(0)
    return checkpoint_evaluation.score_checkpoints(
        paths, strategy, "eval", "", SEARCH, segments_file=str(segments_file)
    )


def test_checkpoints_are_scored_by_member(run, scored):
    for one, record in zip(scored, records_of(run[0], "eval"), strict=True):
        assert_same(one.values | {"kind": "eval", "step": one.step, **ORIGIN}, record)
        assert one.resampled is None
        assert [*one.other_resampled] == ["chrf__de", "bleu__de", "chrf__zh", "bleu_zh__zh"]
        for name, result in one.other_resampled.items():
            assert result.score == one.values[name]
            assert (result.p_value is None) == (one is scored[0])


def test_every_output_has_a_line_with_its_own_scores(scored, segments_file):
    found = [json.loads(line) for line in segments_file.read_text("utf-8").splitlines()]
    assert [*dict.fromkeys(one["checkpoint"] for one in found)] == [s.checkpoint for s in scored]
    half = len(found) // 2
    for name in ("source", "reference"):
        assert [one[name] for one in found[:half]] == [one[name] for one in found[half:]]
    for one in found:
        texts = one["output"], [one["reference"]]
        assert one["chrf"] == pytest.approx(CHRF().sentence_score(*texts).score)
        assert one["ter"] == pytest.approx(TER().sentence_score(*texts).score)


def test_the_table_has_a_block_for_each_member(scored):
    lines = t2t_eval._table(scored).splitlines()
    names = [line.split("  ")[0] for line in lines]
    ends = [place for place, name in enumerate(names) if not name]
    mean, german, chinese = (names[a + 1 : b] for a, b in itertools.pairwise([*ends, len(names)]))
    own = [*NUMBERS, "target_tokens", "chrf"]
    assert sorted(mean) == sorted(["step", *own])
    what = "bootstrap mean", "bootstrap p-value"
    assert german[-4:] == [f"{name} {one}" for name in ("chrf__de", "bleu__de") for one in what]
    assert sorted(german[:-4]) == sorted([*(f"{name}__de" for name in own), "bleu__de"])
    notes = [name for name in chinese if "ignature" in name]
    assert [note.partition(":")[0] for note in notes] == [
        *("chrf_signature", "bleu_signature", "bleu_zh_signature"),
        *(f"{name} bootstrap signature" for name in ("chrf", "bleu", "bleu_zh")),
    ]
    assert sorted(chinese[: -len(notes) - 4]) == sorted(
        [*(f"{name}__zh" for name in own), "bleu_zh__zh"]
    )


def test_any_metric_and_split_may_be_named(run, caplog):
    path = named_checkpoint("60", str(run[0]))
    strategy = devices.make_strategy(0)
    with caplog.at_level(logging.INFO):
        (one,) = checkpoint_evaluation.score_checkpoints(
            [path], strategy, "test", "", SEARCH, ["exact_match"]
        )
    assert {name for name in one.values if "match" in name} == {
        *("exact_match", "exact_match__de", "exact_match__zh", "exact_match__cs")
    }
    assert one.values["target_tokens__cs"] > 0
    assert not any(name.startswith(("chrf", "bleu")) for name in one.values)
    assert "is left out" not in caplog.text


def test_ctranslate2_scores_members_alike(run, scored):
    pytest.importorskip("ctranslate2")
    (other,) = checkpoint_evaluation.score_checkpoints(
        [scored[-1].checkpoint],
        *(devices.make_strategy(0), "eval", "", SEARCH),
        engine=(CTRANSLATE2, FLOAT32),
    )
    assert_same(other.values, scored[-1].values)


def test_a_metric_knows_the_language_of_each_member(run, data, tmp_path, capsys, caplog):
    class InLanguage(OutputMetric):
        def statistics(self, segments):
            return [(segment.language == "zh", 1) for segment in segments]

    with restored():
        registry.register_metric("in_chinese")(InLanguage)
        jobs.run(
            DecoderConfig(
                output_dir=str(run[0]), decode_hparams=SEARCH, metrics="in_chinese", worker_gpu=0
            )
        )
        paths = [named_checkpoint("60", str(run[0]))]
        with caplog.at_level(logging.INFO):
            (one,) = checkpoint_evaluation.score_checkpoints(
                paths, devices.make_strategy(0), "eval", "", SEARCH, ["in_chinese"]
            )
    assert f"{CZECH} has no eval split and is left out" in caplog.text
    assert capsys.readouterr().out.splitlines() == [
        *("de: in chinese =   0.00", "zh: in chinese = 100.00", "mean of 2: in chinese 50.00")
    ]
    found = {name: v for name, v in one.values.items() if "chinese" in name}
    assert found == {"in_chinese": 50.0, "in_chinese__de": 0.0, "in_chinese__zh": 100.0}


def test_a_decoded_split_is_scored_by_member(run, data, scored, tmp_path, capsys):
    prefix = str(tmp_path / "out")
    config = DecoderConfig(
        output_dir=str(run[0]), decode_hparams=SEARCH, decode_to_file=prefix, worker_gpu=0
    )
    jobs.run(config)
    lines = capsys.readouterr().out.splitlines()
    values = scored[-1].values
    for name, shown in (
        *(("chrf__de", "de: chrF"), ("bleu__de", "de: BLEU_cased")),
        *(("chrf__zh", "zh: chrF"), ("bleu_zh__zh", "zh: BLEU_zh_cased")),
    ):
        (line,) = (line for line in lines if line.startswith(f"{shown} ="))
        assert line == f"{shown} = {values[name]:6.2f}"
    assert lines[-1] == f"mean of 2: chrF {values['chrf']:.2f}"
    (targets,) = tmp_path.glob("*.targets")
    expected = [
        pair["targets"]
        for name in (GERMAN, CHINESE)
        for pair in registry.problem(name).generate_samples("", "", "eval")
    ]
    assert targets.read_text().splitlines() == expected
