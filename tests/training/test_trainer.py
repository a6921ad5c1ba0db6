"""The whole trainer, in this process: the contents of the run folder, and its errors."""

import dataclasses
import functools
import json
import os
import pathlib
import shutil
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from support import small_runs
from support.small_runs import kinds_and_steps, records_of
from t2t_lite import registry
from t2t_lite.data.records import read_examples
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.runs import checkpoints, opening, run_creation, run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.training import evaluation, pace, resolved_settings, trainer
from t2t_lite.training.callbacks import Callback
from t2t_lite.training.preemption import PreemptionError
from t2t_lite.training.preflight import batch_size
from t2t_lite.training.preflight.batch_size import with_found_batch_size
from t2t_lite.training.preflight.probe import DoesNotFitError

pytestmark = pytest.mark.integration

DRY = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
# Attention to parameters has no ReLU, whose dropout then changes nothing.
DRY_PARAMETERS = (
    "ffn_layer=parameter_attention,layer_prepostprocess_dropout=0,attention_dropout=0,"
    "relu_dropout=0.1"
)


@pytest.fixture(scope="module")
def config():
    """Returns a function that makes the configuration of a training of four steps."""
    return functools.partial(small_runs.make_config, hparams="batch_shuffle_size=0", train_steps=4)


@pytest.fixture(scope="module")
def trained(data_dir, tmp_path_factory, config) -> pathlib.Path:
    """A run folder after four steps."""
    folder = tmp_path_factory.mktemp("run")
    trainer.run(config(data_dir, folder))
    return folder


def test_a_run_folder_is_whole(trained, data_dir):
    assert kinds_and_steps(trained) == [("train", 2), ("eval", 2), ("train", 4), ("eval", 4)]
    records = records_of(trained)
    assert records[0].keys() >= {"loss", "learning_rate", "gradient_norm", "padding_share"}
    assert records[1].keys() >= {"loss", "accuracy", "neg_log_perplexity", "bleu_signature"}
    assert 0 <= records[1]["bleu"] <= 100
    assert records[1]["search_signature"] == "beam_size=1,extra_length=1"
    assert records[1]["eval_steps_signature"] == "100"
    assert list(trained.glob("events.out.tfevents.*"))
    paths = [str(path) for path in data_dir.glob("*-dev-*")]
    tokens = sum(len(example["targets"]) for example in read_examples(paths))
    assert records[1]["target_tokens"] == tokens, "every token of the dev set, once"
    opened = run_folder.RunFolder.open(str(trained))
    decoder = Decoder.from_run(opened, hparams=DecodeHParams(beam_size=2))
    assert Translator(decoder)(["", "1 and 2"])


def test_tensorboard_has_curves_samples_and_attention(trained):
    events = EventAccumulator(str(trained), size_guidance={"tensors": 0}).Reload()
    plugins = {
        tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in events.Tags()["tensors"]
    }
    scalars = {tag for tag, plugin in plugins.items() if plugin == "scalars"}
    assert scalars >= {"train/loss", "train/learning_rate", "train/gradient_norm", "eval/bleu"}
    assert plugins["samples"] == "text"
    assert plugins["attention/decoder_layer_0"] == "images"
    rows = tf.make_ndarray(events.Tensors("samples")[-1].tensor_proto)
    assert rows[1][:2].tolist() == [b"0 and 0", b"0 and 0"], "the first pair of the dev set"
    assert [event.step for event in events.Tensors("attention/decoder_layer_0")] == [2, 4]


def test_the_summary_adds_up_the_records(trained):
    summary = json.loads((trained / "summary.json").read_text(encoding="utf-8"))
    assert summary["steps"] == 4
    for name in ("target_tokens", "source_tokens", "sentences", "flops"):
        total = summary["flops_by_count" if name == "flops" else name]
        assert total == sum(record[name] for record in records_of(trained, "train")) > 0
    # How fast the machine was decides how much that is, beside other work even more than 1.
    assert summary["utilisation"] == summary["flops_by_count"] / summary["flops_by_time"] > 0


@pytest.mark.usefixtures("eagerly")
def test_a_finished_run_started_again_changes_nothing(trained, data_dir, config):
    before = (trained / "metrics.jsonl").read_bytes()
    newest = tf.train.latest_checkpoint(str(trained))
    trainer.run(config(data_dir, trained, random_seed=None))
    assert tf.train.latest_checkpoint(str(trained)) == newest
    assert (trained / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "change", [{"decode_hparams": "beam_size=2,extra_length=1"}, {"eval_steps": 3}]
)
def test_a_run_goes_on_with_evaluations_of_the_same_kind(trained, data_dir, config, change):
    with pytest.raises(UsageError, match=r"already has evaluations with other settings .* a mix"):
        trainer.run(config(data_dir, trained, **change))


@pytest.mark.parametrize(
    ("schedule", "due"), [("train", []), ("continuous_train_and_eval", [2, 4])]
)
def test_checkpoints_by_the_clock_leave_the_evaluations_where_they_are(schedule, due, config):
    settings = config("data", "run", save_checkpoints_secs=1000, schedule=schedule)
    own = pace.Pace(settings, SimpleNamespace(any=lambda *flags: flags), None, None)
    assert [step for step in range(1, 6) if own.checkpoint_due(step)] == due


def test_checkpoints_are_due_when_the_seconds_are_over(config, monkeypatch):
    """Counted from the one before, whatever that was due to."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: clock.now))
    settings = config("data", "run", save_checkpoints_secs=100, local_eval_frequency=5)
    own = pace.Pace(settings, SimpleNamespace(any=lambda *flags: flags), None, None)
    due = []
    for step in range(1, 11):
        clock.now += 40.0
        due += [step] * own.checkpoint_due(step)
    assert due == [3, 5, 8, 10]


@pytest.mark.parametrize(("step", "due"), [(4, False), (5, True), (7, True)])
def test_a_run_that_a_signal_ended_in_its_last_evaluation_makes_up_for_it(step, due, config):
    """Started again, it restores its last step, whatever the frequency of evaluations."""
    evaluated, nothing = [], SimpleNamespace(wait=lambda: None, update=lambda: None)
    resumed = SimpleNamespace(
        config=config("data", "run", train_steps=7, local_eval_frequency=5),
        model=None,
        optimizer=SimpleNamespace(use_ema=False),
        evaluator=lambda step, writer: evaluated.append(step),
        checkpoints=nothing,
        selection=nothing,
        step=step,
        writer=SimpleNamespace(evaluated=[]),
    )
    trainer.Trainer._evaluate_if_due(resumed)
    assert evaluated == [step] * due


def test_without_evaluations_of_its_own_a_trainer_asks_after_an_evaluators(config):
    """After every checkpoint, whatever it is due to; the evaluator keeps the best ones."""
    asked = []
    resumed = SimpleNamespace(
        config=config("data", "run", schedule="train", local_eval_frequency=5),
        selection=SimpleNamespace(stop_if_due=lambda: asked.append(True)),
    )
    trainer.Trainer._evaluate_if_due(resumed)
    assert asked


@pytest.mark.usefixtures("eagerly")
def test_a_finished_run_without_its_last_evaluation_makes_up_for_it(
    trained, data_dir, tmp_path, config, monkeypatch
):
    folder = shutil.copytree(trained, tmp_path / "run")
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    assert kinds_and_steps(folder)[:4] == [("train", 2), ("eval", 2), ("train", 4), ("eval", 4)]
    (folder / "metrics.jsonl").write_text("".join(lines[:3]), encoding="utf-8")
    evaluate = Mock(side_effect=[PreemptionError("stopped by SIGTERM"), None])
    monkeypatch.setattr(trainer.Evaluator, "__call__", evaluate)
    ended = Mock(spec=Callback)
    with pytest.raises(PreemptionError):
        trainer.run(config(data_dir, folder), [ended])
    ended.end.assert_called_once_with(4)
    trainer.run(config(data_dir, folder))
    assert [call.args[0] for call in evaluate.call_args_list] == [4, 4]


@pytest.mark.usefixtures("eagerly")
def test_a_run_ends_when_its_minutes_are_over(data_dir, tmp_path, config, monkeypatch):
    """With a checkpoint, and an evaluation of it."""
    clock = SimpleNamespace(monotonic=iter([0.0, 30.0, 59.9, 60.0]).__next__)
    monkeypatch.setattr(pace, "time", clock)
    settings = config(data_dir, tmp_path, train_minutes=1, local_eval_frequency=100)
    trainer.run(dataclasses.replace(settings, schedule="continuous_train_and_eval"))
    assert kinds_and_steps(tmp_path) == [("train", 2), ("eval", 2)]
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-2")


@pytest.mark.usefixtures("eagerly")
def test_the_minutes_count_the_evaluation_that_a_run_makes_up_for(
    trained, data_dir, tmp_path, config, monkeypatch
):
    folder, clock = shutil.copytree(trained, tmp_path / "run"), SimpleNamespace(now=0.0)
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:3]), encoding="utf-8")

    def evaluate(*given):
        clock.now += 60.0

    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(trainer.Evaluator, "__call__", evaluate)
    trainer.run(config(data_dir, folder, train_steps=6, train_minutes=1))
    assert tf.train.latest_checkpoint(str(folder)).endswith("model.ckpt-4")


def test_a_second_trainer_is_refused_and_changes_nothing(trained, data_dir, config):
    before = {path.name: path.read_bytes() for path in trained.iterdir()}
    with run_creation.exclusive(str(trained)):
        with pytest.raises(UserError, match=f"another t2t-trainer .* process {os.getpid()} on"):
            trainer.run(config(data_dir, trained, train_steps=6))
    assert {path.name: path.read_bytes() for path in trained.iterdir()} == before


def test_evaluate_repeats_the_evaluation_of_training(trained, data_dir, config):
    trainer.run(config(data_dir, trained, schedule="evaluate"))
    records = records_of(trained)
    # The fused loss of one batch shape is reproducible exactly.
    assert records[-1] == {**records[3], "kind": "evaluate"}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"hparams": "batch_shuffle_size=0,hidden_size=8"}, UserError, "hidden_size: 16 != 8"),
        ({"random_seed": 6}, UserError, "was started with --random_seed=5, not 6"),
        ({"model": "lstm_seq2seq_attention"}, UsageError, "needs a LSTMHParams"),
        ({"model": "transformer_encoder"}, UsageError, "'text2text_tmpdir' has no labels"),
        ({"worker_gpu": 3}, UserError, "--worker_gpu=3, but TensorFlow sees 0 GPUs"),
        ({"hparams": f"rdrop_alpha=5,bpe_dropout=0.1,{DRY}"}, UsageError, "relu_dropout are 0: g"),
        ({"hparams": f"rdrop_alpha=5,{DRY_PARAMETERS}"}, UsageError, "attention_dropout are 0: g"),
        ({"hparams": "rdrop_alpha=5,simcut_alpha=3"}, UsageError, "for R-Drop or SimCut, not for"),
        (
            {"hparams": "label_smoothing=1"},
            UsageError,
            "expected a number, at least 0 and below 1 ",
        ),
        ({"hparams_set": "transformer_bas"}, UsageError, "did you mean 'transformer_base'"),
    ],
)
def test_contradictions_are_refused(trained, data_dir, changes, error, message, config):
    with pytest.raises(error, match="") as raised:
        trainer.run(config(data_dir, trained, **changes))
    assert message in str(raised.value)


def test_rdrop_is_refused_where_the_dropout_has_no_effect(data_dir, tmp_path, config):
    changes = {"model": "evolved_transformer", "hparams_set": "evolved_transformer_tiny"}
    small = "hidden_size=16,num_heads=2,num_encoder_layers=1,num_decoder_layers=1"
    changes["hparams"] = f"rdrop_alpha=5,{small},{DRY[:-1]}0.2"
    with pytest.raises(UsageError, match="those of this EvolvedTransformer are the same"):
        trainer.run(config(data_dir, tmp_path / "run", **changes))


@pytest.mark.usefixtures("eagerly")
def test_settings_that_were_refused_do_not_stand_in_the_way(data_dir, tmp_path, config):
    folder = tmp_path / "run"
    with pytest.raises(UsageError, match=r"of the type SubwordTextEncoder: set bpe_dropout=0"):
        trainer.run(config(data_dir, folder, hparams="bpe_dropout=0.1"))
    assert not folder.exists()
    trainer.run(config(data_dir, folder, train_steps=1, random_seed=6, schedule="train"))
    assert run_folder.read_run_settings(str(folder)).random_seed == 6
    with pytest.raises(UserError, match="holds a run with other settings"):
        trainer.run(config(data_dir, folder, hparams="bpe_dropout=0.1", random_seed=6))


def test_a_run_without_a_checkpoint_is_not_resumed(data_dir, tmp_path, config, monkeypatch):
    """Neither its batch size nor its number of parts is kept."""
    folder = tmp_path / "run"
    killed = config(data_dir, folder)
    monkeypatch.setattr(trainer.Trainer, "train", lambda self: None)
    trainer.run(killed)
    settings = run_folder.read_run_settings(str(folder))
    hparams = resolved_settings.resolve_hparams(killed)
    opening.forget_unstarted(settings, hparams)
    assert run_folder.read_run_settings(str(folder)) == settings
    monkeypatch.setattr(batch_size, "measure", Mock(side_effect=DoesNotFitError("too large")))
    with pytest.raises(UserError, match="the model alone does not fit"):  # it was tried
        with_found_batch_size(killed)
    opening.forget_unstarted(dataclasses.replace(settings, parts=2), hparams)
    assert run_folder.read_run_settings(str(folder)) is None


def test_evaluating_another_folder_leaves_it_alone(data_dir, tmp_path, config):
    with pytest.raises(UserError, match="is not a run folder"):
        trainer.run(config(data_dir, tmp_path / "typo", schedule="evaluate"))
    assert not (tmp_path / "typo").exists()


@pytest.mark.usefixtures("eagerly")
def test_what_was_spent_is_counted_although_a_signal_ends_the_evaluation(
    data_dir, tmp_path, config, monkeypatch
):
    stopped = Mock(side_effect=PreemptionError("stopped by SIGTERM"))
    monkeypatch.setattr(evaluation.Evaluator, "__call__", stopped)
    with pytest.raises(PreemptionError):
        trainer.run(config(data_dir, tmp_path, local_eval_frequency=100))
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert summary["steps"] == 4
    assert summary["train_seconds"] > 0


def test_a_resumed_run_keeps_its_batch_size(trained, data_dir, config):
    again = dataclasses.replace(config(data_dir, trained), hparams="batch_size=999,max_length=16")
    assert with_found_batch_size(again).hparams == "max_length=16,batch_size=64"


def test_parts_that_devices_cannot_share_are_refused(trained, data_dir, config):
    hparams = registry.hparams("transformer_test")
    with pytest.raises(
        UserError, match=r"batches of 1 parts .* which cannot be divided evenly among 2 devices"
    ):
        opening.seed_and_parts(str(trained), 5, hparams, 2)
    three = hparams.copy(optimizer_multistep_accumulate_steps=3)
    assert opening.seed_and_parts(str(trained / "none"), 5, three, 2) == (5, 6)
    settings = config(data_dir, trained, simulate_devices=2, schedule="evaluate")
    hparams = resolved_settings.resolve_hparams(settings)
    evaluated = opening.open_for_evaluation(settings.run_settings, hparams)
    assert (evaluated.random_seed, evaluated.parts) == (5, 1)


def test_missing_data_names_the_command(tmp_path, config):
    with pytest.raises(UserError, match=r"t2t-datagen --problem=text2text_tmpdir"):
        trainer.run(config(tmp_path, tmp_path / "run"))


@pytest.mark.usefixtures("eagerly")
def test_a_corrupt_shard_is_named(data_dir, tmp_path, config):
    copy = shutil.copytree(data_dir, tmp_path / "data")
    shard = sorted(copy.glob("*-train-*"))[1]
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.write_bytes(content)
    with pytest.raises(DataError, match=shard.name):
        trainer.run(config(copy, tmp_path / "run"))


def test_a_missing_dev_split_is_named_before_the_first_step(data_dir, tmp_path, config):
    copy = shutil.copytree(data_dir, tmp_path / "data")
    for path in copy.glob("*-dev-*"):
        path.unlink()
    with pytest.raises(
        UserError, match=r"-dev-00000-of-00001 is missing; generate it .* --data_dir"
    ):
        trainer.run(config(copy, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("eagerly")
def test_findings_of_data_generation_come_before_the_first_step(
    data_dir, tmp_path, config, monkeypatch, caplog
):
    folder = shutil.copytree(data_dir, tmp_path / "data")
    name = registry.problem(config(data_dir, tmp_path).problem).dataset_filename()
    found = {"dev": ["dev: 9 of 9 pairs are in the training data"], "all": ["all is copied"]}
    (folder / f"{name}.findings.json").write_text(json.dumps(found))

    stop = Mock(side_effect=UserError("no step"))
    monkeypatch.setattr(trainer, "try_largest_batch", stop)
    with caplog.at_level("WARNING", "t2t_lite"), pytest.raises(UserError, match="no step"):
        trainer.run(config(folder, tmp_path / "run"))
    for line in (*found["dev"], *found["all"]):
        assert f"the data's text: {line}" in caplog.messages


@pytest.mark.usefixtures("eagerly")
def test_a_full_disk_leaves_the_last_good_checkpoint(trained, data_dir, monkeypatch, config):
    no_space = tf.errors.ResourceExhaustedError(None, None, "No space left on device")
    newest = tf.train.latest_checkpoint(str(trained))
    monkeypatch.setattr(checkpoints.Snapshot, "write", Mock(side_effect=no_space))
    evaluate = Mock()
    monkeypatch.setattr(trainer.Evaluator, "__call__", evaluate)
    message = r"step 6 not saved .*model\.ckpt-4\): .*model\.ckpt-6: the disk is full"
    with pytest.raises(UserError, match=message):
        trainer.run(config(data_dir, trained, train_steps=8))
    assert tf.train.latest_checkpoint(str(trained)) == newest
    assert not evaluate.called, "it is reported at once"
