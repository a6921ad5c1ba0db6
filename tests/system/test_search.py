"""A killed search goes on with the trial that ran; T2T's ranges and names work unchanged."""

import signal
import time

import pytest

from support.commands import printed_by
from support.small_runs import records_of
from support.usr_dirs import TOP, write_usr_dir
from t2t_lite.bin import t2t_datagen, t2t_trainer
from t2t_lite.runs.search_folder import SearchFolder, State

pytestmark = pytest.mark.integration

USR_DIR = f"""{TOP}
from tensor2tensor.models import transformer


@registry.register_problem
class UsrLetters(Base):
  vocab_type = text_problems.VocabType.CHARACTER

  def eval_metrics(self):
    return [metrics.Metrics.NEG_LOG_PERPLEXITY]


@registry.register_hparams
def usr_letters_tiny():
  hparams = transformer.transformer_tiny()
  hparams.hidden_size = 16
  hparams.num_hidden_layers = 1
  hparams.num_heads = 2
  hparams.batch_size = 256
  hparams.layer_prepostprocess_dropout = 0.0
  hparams.attention_dropout = 0.0
  hparams.relu_dropout = 0.0
  return hparams


@registry.register_ranged_hparams
def usr_letters_range(rhp):
  rhp.set_float("learning_rate_constant", 1e-3, 1.0, scale=rhp.LOG_SCALE)
  rhp.set_categorical("num_heads", [2, 3])
  rhp.set_float("weight_noise", 0.0, 0.1)
"""


def test_a_search_in_a_t2t_user_directory_survives_a_kill(start, tmp_path):
    usr_dir = write_usr_dir(tmp_path / "usr", USR_DIR)
    shared = [f"--t2t_usr_dir={usr_dir}", "--problem=usr_letters", f"--data_dir={tmp_path}/data"]
    printed_by(t2t_datagen.main, *shared, f"--tmp_dir={tmp_path}/tmp")
    flags = [
        *shared,
        *("--model=transformer", "--hparams_set=usr_letters_tiny", "--random_seed=1"),
        *("--train_steps=6", "--local_eval_frequency=2", "--log_step_count_steps=2"),
        "--decode_hparams=beam_size=1,extra_length=2",
        *("--hparams_range=usr_letters_range", "--autotune_max_trials=2"),
        "--autotune_objective=metrics-usr_letters/neg_log_perplexity",
        f"--output_dir={tmp_path}/search",
    ]
    killed = start("t2t-trainer", *flags)
    while not list(tmp_path.glob("search/trial-*/model.ckpt-2.index")):
        assert killed.poll() is None, killed.stdout.read()
        time.sleep(0.1)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    printed = printed_by(t2t_trainer.main, *flags)
    trained, failed = SearchFolder.open(tmp_path / "search").trials()
    assert [*trained.hparams] == [*failed.hparams] == ["learning_rate_constant", "num_heads"]
    assert trained.state is State.COMPLETE
    steps = [record["step"] for record in records_of(trained.folder, "eval")]
    assert steps == [2, 4, 6], "it went on from its checkpoint"
    assert (failed.state, failed.hparams["num_heads"]) == (State.FAILED, "3")
    assert "cannot be split over 3 heads" in failed.reason
    assert "best: trial 0, neg_log_perplexity" in printed
    assert "def usr_letters_tiny_tuned():" in printed
