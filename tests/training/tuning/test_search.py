"""What would let every trial fail is refused before the first one."""

import pytest

from support.small_runs import make_config
from t2t_lite.errors import UserError, warn_once
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.ranges import Range
from t2t_lite.training.tuning import search
from t2t_lite.training.tuning.config import TuningConfig

RANGE = TuningConfig(hparams_range="transformer_base_range")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": "train"}, "--schedule=train: a search trains and evaluates in turn"),
        ({"worker_hosts": "a:1,b:1", "worker_id": 0}, "a search uses a single machine"),
        ({"hparams": "learning_rate=0.1"}, "--hparams sets learning_rate, which --hparams_range="),
        ({"model": "lstm_seq2seq"}, "needs a LSTMHParams"),
        ({"decode_hparams": "beam_sise=2"}, "unknown decode hparam 'beam_sise'"),
        ({}, "t2t-datagen"),
    ],
)
def test_settings_that_fit_no_trial(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        search.run(make_config(tmp_path, tmp_path / "search", **changes), RANGE)
    assert not (tmp_path / "search").exists()


@pytest.mark.parametrize(
    ("optimizer", "kept"), [("adam", False), ("adafactor", False), ("adam_w", True)]
)
def test_weight_decay_varies_only_with_an_optimizer_that_supports_it(
    optimizer, kept, data_dir, tmp_path, caplog
):
    config = make_config(data_dir, tmp_path, f"optimizer={optimizer}")
    assert ("weight_decay" in search._check(config, RANGE)) == kept
    assert ("weight_decay is left out: only optimizer=adam_w supports it" in caplog.text) != kept


@pytest.mark.parametrize(
    ("optimizers", "kept"), [(("adam", "sgd"), False), (("adam", "adam_w"), True)]
)
def test_weight_decay_varies_beside_an_optimizer_that_supports_it(optimizers, kept):
    ranges = {
        "weight_decay": Range("float", 0.0, 1.0),
        "optimizer": Range("categorical", choices=optimizers),
    }
    search._leave_out_weight_decay("mine", ranges, BasicHParams())
    assert ("weight_decay" in ranges) == kept


def test_a_range_of_weight_decay_alone_needs_an_optimizer_that_supports_it():
    ranges = {"weight_decay": Range("float", 0.0, 1.0)}
    with pytest.raises(
        UserError, match="to vary weight_decay, give --hparams=optimizer=adam_w; no other"
    ):
        search._leave_out_weight_decay("mine", ranges, BasicHParams())


@pytest.mark.parametrize(
    ("hparams", "is_read"), [("clip_grad_norm=0", False), ("learning_rate_schedule=legacy", True)]
)
def test_a_range_that_the_schedule_does_not_read_is_a_warning(
    hparams, is_read, data_dir, tmp_path, caplog
):
    warn_once.cache_clear()
    search._check(make_config(data_dir, tmp_path, hparams), RANGE)
    assert ("hparam learning_rate has no effect: " in caplog.text) != is_read


def test_a_run_folder_becomes_no_search(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "_check", lambda config, tuning: {})
    (tmp_path / "flags.json").write_text("{}")
    with pytest.raises(UserError, match="holds a run: choose another --output_dir"):
        search.run(make_config(tmp_path, tmp_path), RANGE)
    assert [path.name for path in tmp_path.iterdir()] == ["flags.json"]


@pytest.mark.parametrize(
    ("gpus", "visible", "count", "expected"),
    [
        (0, None, 2, ["", ""]),
        (4, None, 1, [""]),
        (4, None, 2, ["0,2", "1,3"]),
        (2, "5,7", 2, ["5", "7"]),
        (2, None, 3, ["0", "1", "0"]),
    ],
)
def test_trials_at_the_same_time_share_the_gpus(monkeypatch, gpus, visible, count, expected):
    monkeypatch.setattr(search.tf.config, "list_physical_devices", lambda kind: [kind] * gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    config = make_config("data", "run")
    assert search._shares_of_gpus(config, count) == expected
    on_cpu = make_config("data", "run", worker_gpu=0)
    assert search._shares_of_gpus(on_cpu, count) == [""] * count
