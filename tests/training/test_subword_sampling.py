"""Training with BPE-dropout: on several devices, and with another vocabulary."""

import functools

import pytest

from t2t_lite.errors import UsageError
from t2t_lite.runs.metrics_file import read_metrics
from t2t_lite.training import trainer

HPARAMS = "batch_shuffle_size=2,bpe_dropout=0.3"


@pytest.fixture(scope="module")
def config(small_runs, generate_pairs):
    """Returns a function that makes the configuration of a training of six steps."""
    return functools.partial(
        small_runs.make_config,
        generate_pairs("text2text_tmpdir_bpe", 60),
        problem="text2text_tmpdir_bpe",
        hparams=HPARAMS,
        train_steps=6,
        schedule="train",
    )


@pytest.mark.integration
def test_two_devices_train_like_two_micro_batches(config, tmp_path, strategy_over, monkeypatch):
    micro_batches = f"{HPARAMS},optimizer_multistep_accumulate_steps=2"
    trainer.run(config(tmp_path / "one", hparams=micro_batches))
    monkeypatch.setattr(trainer.devices, "make_strategy", lambda *args: strategy_over(2))
    trainer.run(config(tmp_path / "two"))
    one, two = ([r for _, r in read_metrics(tmp_path / name)] for name in ("one", "two"))
    assert len(one) == len(two) == 3
    for record, other in zip(one, two, strict=True):
        for name in ("source_tokens", "target_tokens", "padding_share"):
            assert record[name] == other[name]
        assert record["loss"] == pytest.approx(other["loss"], rel=1e-4)


def test_a_vocabulary_of_another_kind_is_refused(data_dir, tmp_path, small_runs):
    config = small_runs.make_config(data_dir, tmp_path, hparams="bpe_dropout=0.1", train_steps=1)
    with pytest.raises(UsageError, match="inputs is of the type SubwordTextEncoder"):
        trainer.run(config)
