"""t2t-trainer's flags and their way into the configuration."""

import dataclasses
import os

import pytest

from support.commands import refusal
from t2t_lite.bin.t2t_trainer import COMMAND, configure, configure_search, main
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.tuning.config import TuningConfig

_PROBLEM = "text2text_tmpdir"
_NEEDED = (
    f"--problem={_PROBLEM}_rev",
    "--model=transformer",
    "--hparams_set=transformer_tiny",
    "--data_dir=~/data",
    "--output_dir=runs/x",
)


def test_needed_flags_alone():
    assert configure(COMMAND.parse(_NEEDED)) == TrainerConfig(
        data_dir=os.path.expanduser("~/data"),
        output_dir="runs/x",
        problem=f"{_PROBLEM}_rev",
        model="transformer",
        hparams_set="transformer_tiny",
    )


def test_every_flag_arrives():
    given = {
        "hparams": "batch_size=64",
        "train_steps": 10,
        "train_minutes": 1.5,
        "eval_steps": 2,
        "local_eval_frequency": 5,
        "keep_checkpoint_max": 3,
        "save_checkpoints_secs": 60,
        "random_seed": 1,
        "schedule": "evaluate",
        "worker_gpu": 2,
        "simulate_devices": 4,
        "log_step_count_steps": 7,
        "eval_use_test_set": True,
        "decode_hparams": "beam_size=2",
    }
    words = [f"--{name}={value}" for name, value in given.items()]
    config = configure(COMMAND.parse([*_NEEDED, *words]))
    assert dataclasses.asdict(config).items() >= given.items()


@pytest.mark.parametrize("missing", range(len(_NEEDED)))
def test_needed_flags(missing):
    error = refusal(main, *_NEEDED[:missing], *_NEEDED[missing + 1 :])
    assert f"error: {_NEEDED[missing].partition('=')[0]} is missing: " in error


_SEED, _WHOLE = f"--random_seed={2**32}", "expected a whole number"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--problem=text2text_tmpdri", "unknown problem 'text2text_tmpdri'; did you mean"),
        ("--model=transfomer", "unknown model 'transfomer'; did you mean 'transformer'?"),
        ("--hparams_set=transformer_tyni", "did you mean 'transformer_tiny'?"),
        ("--hparams=hiden_size=8", "unknown hparam 'hiden_size'; did you mean 'hidden_size'?"),
        ("--hparams=hidden_size=8.5", "hparam hidden_size='8.5': expected a whole number"),
        ("--decode_hparams=beem_size=2", "unknown decode hparam 'beem_size'; did you mean"),
        ("--decode_hparams=beam_size=0", f"decode hparam beam_size=0: {_WHOLE}, at least 1"),
        *(
            (f"--decode_hparams={name}=1", f"decode hparam {name}=true: evaluations read the best")
            for name in ("return_beams", "write_beam_scores")
        ),
        (
            "--schedule=trian",
            "continuous_train_and_eval, train, evaluate, continuous_eval, ",
        ),
        ("--schedule=train_and_evaluate", "=train_and_evaluate: give continuous_train_and_eval"),
        ("--schedule=continuous_decode_from_file", "t2t-translate-all --wait_minutes=N decodes"),
        (
            "--schedule=evaluate_on_train_data",
            "continuous_eval_on_train_data and --eval_timeout_mins=0",
        ),
        ("--schedule=run_std_server", "--worker_hosts trains on several machines"),
        ("--train_step=5", "unknown flag --train_step; did you mean 'train_steps'?"),
        ("--train_steps=0", "--train_steps=0: expected a whole number, at least 1"),
        ("--best_metric=belu", "unknown metric 'belu'; did you mean 'bleu'"),
        ("--eval_early_stopping_metric=f1 --eval_early_stopping_steps=1", "unknown metric 'f1'"),
        ("--eval_early_stopping_metric=bleu", "_metric needs --eval_early_stopping_steps: give"),
        ("--eval_early_stopping_metric_delta=1", "_delta needs --eval_early_stopping_steps"),
        ("--noeval_early_stopping_metric_minimize", "_minimize needs --eval_early_stopping_steps"),
        ("--worker_gpu=-1", "--worker_gpu=-1: expected a whole number, at least 0"),
        ("--random_seed=-1", "--random_seed=-1: expected a whole number, at least 0"),
        (_SEED, f"{_SEED}: {_WHOLE}, at least 0 and at most {2**32 - 1}"),
    ],
)
def test_usage_errors_are_found_before_anything_starts(words, message):
    error = refusal(main, *_NEEDED, *words.split())
    assert message in error
    assert error.startswith("t2t-trainer: error: ")


def test_raw_files_are_read_only_to_generate_data(tmp_path, capsys):
    folders = [f"--{name}={tmp_path}/{name}" for name in ("data_dir", "output_dir", "tmp_dir")]
    for count, is_said in ((2, False), (3, True)):
        refusal(main, *_NEEDED[:3], *folders[:count], code=1)
        message = "--tmp_dir has no effect without --generate_data"
        assert (message in capsys.readouterr().err) == is_said


_SEARCHED = ("--hparams_range=transformer_base_range",)
_TAG = f"--autotune_objective=metrics-{_PROBLEM}_rev"


def test_flags_of_t2ts_search_arrive_with_this_packages_name_of_the_value():
    words = (f"{_TAG}/approx_bleu_score", "--autotune_maximize", "--autotune_max_trials=100")
    args = COMMAND.parse([*_NEEDED, *_SEARCHED, *words, "--autotune_parallel_trials=3"])
    assert configure_search(args) == TuningConfig(
        hparams_range="transformer_base_range",
        autotune_objective="bleu",
        autotune_maximize=True,
        autotune_max_trials=100,
        autotune_parallel_trials=3,
    )


@pytest.mark.parametrize(
    ("objective", "name"),
    [
        ("", ""),
        ("bleu", "bleu"),
        ("loss", "loss"),
        (f"metrics-{_PROBLEM}_rev/neg_log_perplexity", "neg_log_perplexity"),
        (f"metrics-{_PROBLEM}_rev/targets/accuracy_per_sequence", "accuracy_per_sequence"),
        (f"metrics-{_PROBLEM}_rev/loss", "loss"),
    ],
)
def test_objectives_have_t2ts_tags_or_names_of_values(objective, name):
    args = COMMAND.parse([*_NEEDED, *_SEARCHED, f"--autotune_objective={objective}"])
    assert configure_search(args).autotune_objective == name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--hparams_range=transformer_base_rnge",), "did you mean 'transformer_base_range'"),
        ((*_SEARCHED, "--autotune_objective=blue"), "unknown metric 'blue'; did you mean 'bleu'"),
        ((*_SEARCHED, f"{_TAG}/rouge_x"), "unknown metric 'rouge_x'"),
        (
            (*_SEARCHED, "--autotune_objective=metrics-other/accuracy"),
            f"the values are those of other, but the problem is {_PROBLEM}_rev",
        ),
        ((*_SEARCHED, "--autotune_max_trials=0"), "at least 1"),
        ((*_SEARCHED, "--dry_run"), "--dry_run is for one training: omit it, or --hparams_range"),
        (("--autotune_max_trials=5",), "--autotune_max_trials needs --hparams_range: give both"),
        (("--noautotune_prune",), "--autotune_prune needs --hparams_range"),
    ],
)
def test_what_no_search_can_do_is_refused(words, message):
    assert message in refusal(main, *_NEEDED, *words)
