"""Every flag of tensor2tensor 1.15's commands and some of earlier ones, and their treatment here.

One table drives the parser and docs/flags.md, which `python -m t2t_lite.upstream_flags` prints.
"""

import dataclasses
import enum
from collections.abc import Iterator


class Treatment(enum.Enum):
    """What the command does with a flag of T2T."""

    HONOURED = "honoured"
    ACCEPTED = "accepted with a warning"
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True)
class T2TFlag:
    """A flag of T2T.

    Args:
        name: without dashes.
        default: T2T's default.
        treatment: what the command does with it.
        note: why it has no effect, what to write instead, or how it differs from T2T.
    """

    name: str
    default: str | int | float | bool | None
    treatment: Treatment
    note: str = ""


def flags_of(command: str) -> tuple[T2TFlag, ...]:
    """Returns every flag that T2T's command of this name defines; none if T2T lacks it."""
    return _TABLE.get(command, ())


def commands() -> tuple[str, ...]:
    """Returns the names of T2T's commands."""
    return tuple(_TABLE)


def accepted(command: str) -> list[T2TFlag]:
    """Returns T2T's flags that the command takes but ignores."""
    return [flag for flag in flags_of(command) if flag.treatment is Treatment.ACCEPTED]


def refused(command: str) -> dict[str, str]:
    """Returns, by name, what to do instead of using a flag that the command refuses."""
    return {
        flag.name: flag.note for flag in flags_of(command) if flag.treatment is Treatment.REFUSED
    }


def defaults(command: str = "") -> dict[str, str | int | float | bool | None]:
    """Returns T2T's defaults of all flags of its commands, those of a command before others'."""
    tables = (flags_of(command), *_TABLE.values())
    return {flag.name: flag.default for table in reversed(tables) for flag in table}


def markdown() -> str:
    """Returns the text of docs/flags.md."""
    return "\n".join(_markdown_lines()) + "\n"


def _markdown_lines() -> Iterator[str]:
    yield "# The flags of tensor2tensor"
    yield ""
    yield "How each flag of tensor2tensor 1.15's commands, and some of earlier ones, are treated."
    yield "An unknown flag is an error that suggests the closest name. [commands.md](commands.md)"
    yield "and `--help` explain all flags that have an effect, including those that tensor2tensor"
    yield "does not have."
    yield ""
    yield "The code of a user directory finds all of them in `absl.flags.FLAGS`, with the command's"
    yield "value, or with tensor2tensor's default. Flags that the directory defines itself"
    yield "(`flags.DEFINE_string`, ...) are accepted on the command line, and parsed once it is"
    yield 'imported. Unknown flags that its code names, as in `add_argument("--lang")`, are left'
    yield "to it."
    for command, table in _TABLE.items():
        yield f"\n## {command}\n"
        yield "| flag | default in T2T | here | note |"
        yield "|---|---|---|---|"
        for flag in sorted(table, key=lambda flag: flag.name):
            default = "" if flag.default in (None, "") else f"`{flag.default}`"
            yield f"| `--{flag.name}` | {default} | {flag.treatment.value} | {flag.note} |"


_HONOURED, _ACCEPTED, _REFUSED = Treatment.HONOURED, Treatment.ACCEPTED, Treatment.REFUSED

# Notes that several flags share.
_NO_TPU = "there is no TPU support; GPUs are found without a flag"
_NO_SERVERS = "there are no parameter servers; each worker trains on all GPUs of its machine"
_NO_CLOUD = "start the command on the machine that will train"
_NO_TUNING = "start one run for each value, with --hparams=name=value"
_NO_EXPORT = "the trainer does not export; the run folder holds all that decoding needs"
_NO_DEBUGGER = "debug the model in Python: it is a plain keras.Model"
_NO_PROFILE = "run TensorFlow's profiler in Python around the trainer"
_XLA = "write --hparams=xla_compile=true"
_XLA_SEARCH = "write --decode_hparams=xla_compile=true"
_HALF_PRECISION = "write --hparams=dtype=float16, or dtype=bfloat16"
_ALL_GPUS = "default here: all GPUs; T2T's is one"
_ONE_CALL = "one call generates all data of a problem; --num_workers sets the number of processes"
_ONE_PAIR = "call t2t-bleu once for each translation, in a shell loop"
_BY_TRAINING = "only training reads it"

# Of T2T before 1.6, in t2t-trainer and t2t-decoder.
_EARLIER = (
    T2TFlag("problems", None, _REFUSED, "write --problem, which names one problem"),
    T2TFlag("decode_beam_size", 4, _REFUSED, "write --decode_hparams=beam_size=N"),
    T2TFlag("decode_alpha", 0.6, _REFUSED, "write --decode_hparams=alpha=X"),
    T2TFlag("decode_extra_length", 50, _REFUSED, "write --decode_hparams=extra_length=N"),
    T2TFlag("decode_batch_size", 32, _REFUSED, "write --decode_hparams=batch_size=N"),
    T2TFlag("decode_return_beams", False, _REFUSED, "write --decode_hparams=return_beams=true"),
    T2TFlag("decode_max_input_size", -1, _REFUSED, "write --decode_hparams=max_input_size=N"),
)

# Without effect in both t2t-trainer and t2t-decoder.
_SHARED = (
    T2TFlag("tfdbg", False, _REFUSED, _NO_DEBUGGER),
    T2TFlag("export_saved_model", False, _REFUSED, _NO_EXPORT),
    T2TFlag("export_saved_model_api_version", 1, _REFUSED, _NO_EXPORT),
    T2TFlag("use_guarantee_const_getter", False, _REFUSED, _NO_EXPORT),
    T2TFlag("dbgprofile", False, _REFUSED, _NO_PROFILE),
    T2TFlag("profile", False, _REFUSED, _NO_PROFILE),
    T2TFlag("hparams_range", None, _REFUSED, _NO_TUNING),
    T2TFlag("autotune_objective", None, _REFUSED, _NO_TUNING),
    T2TFlag("autotune_maximize", True, _REFUSED, _NO_TUNING),
    T2TFlag("autotune_max_trials", 10, _REFUSED, _NO_TUNING),
    T2TFlag("autotune_parallel_trials", 1, _REFUSED, _NO_TUNING),
    T2TFlag("cloud_mlengine", False, _REFUSED, _NO_CLOUD),
    T2TFlag("cloud_mlengine_master_type", None, _REFUSED, _NO_CLOUD),
    T2TFlag("job-dir", None, _REFUSED, "write --output_dir"),
    T2TFlag("use_tpu", False, _REFUSED, _NO_TPU),
    T2TFlag("use_tpu_estimator", False, _REFUSED, _NO_TPU),
    T2TFlag("tpu_num_shards", 8, _REFUSED, _NO_TPU),
    T2TFlag("tpu_job_name", None, _REFUSED, _NO_TPU),
    T2TFlag("tpu_infeed_sleep_secs", None, _REFUSED, _NO_TPU),
    T2TFlag("cloud_tpu_name", "$USER-tpu", _REFUSED, _NO_TPU),
    T2TFlag("master", "", _REFUSED, _NO_SERVERS),
    T2TFlag("std_server_protocol", "grpc", _REFUSED, _NO_SERVERS),
    T2TFlag("worker_job", "/job:localhost", _REFUSED, _NO_SERVERS),
    T2TFlag("ps_gpu", 0, _REFUSED, _NO_SERVERS),
    T2TFlag("ps_job", "/job:ps", _REFUSED, _NO_SERVERS),
    T2TFlag("ps_replicas", 0, _REFUSED, _NO_SERVERS),
    T2TFlag("sync", False, _ACCEPTED, "training is always synchronous"),
    T2TFlag("gpu_order", "", _ACCEPTED, "weights are not passed from GPU to GPU in a chain"),
    T2TFlag("optionally_use_dist_strat", False, _ACCEPTED, "tf.distribute is always in use"),
    T2TFlag("worker_gpu_memory_fraction", 0.95, _ACCEPTED, "GPU memory is taken as needed"),
    T2TFlag("enable_graph_rewriter", False, _ACCEPTED, "TensorFlow rewrites graphs by default"),
    T2TFlag("log_device_placement", False, _ACCEPTED, "the number of devices is always logged"),
    T2TFlag("eval_timeout_mins", 240, _ACCEPTED, "no process waits for another's checkpoints"),
    T2TFlag("eval_run_autoregressive", False, _ACCEPTED, "T2T itself never reads it"),
    T2TFlag(
        "inter_op_parallelism_threads",
        0,
        _REFUSED,
        "set the environment variable TF_NUM_INTEROP_THREADS",
    ),
    T2TFlag(
        "intra_op_parallelism_threads",
        0,
        _REFUSED,
        "set the environment variable TF_NUM_INTRAOP_THREADS",
    ),
)

# In effect in both.
_COMMON = (
    T2TFlag("registry_help", False, _HONOURED),
    T2TFlag("model", None, _HONOURED),
    T2TFlag("hparams_set", None, _HONOURED),
    T2TFlag("hparams", "", _HONOURED),
    T2TFlag("problem", None, _HONOURED),
    T2TFlag("data_dir", None, _HONOURED),
    T2TFlag("output_dir", "", _HONOURED),
    T2TFlag("t2t_usr_dir", None, _HONOURED),
    T2TFlag("eval_use_test_set", False, _HONOURED),
    T2TFlag("worker_gpu", 1, _HONOURED, _ALL_GPUS),
    T2TFlag("decode_hparams", "", _HONOURED),
)

_TRAINER = (
    T2TFlag("train_steps", 250000, _HONOURED),
    T2TFlag("eval_steps", 100, _HONOURED),
    T2TFlag("local_eval_frequency", 1000, _HONOURED),
    T2TFlag("keep_checkpoint_max", 20, _HONOURED),
    T2TFlag("save_checkpoints_secs", 0, _HONOURED),
    T2TFlag("log_step_count_steps", 100, _HONOURED),
    T2TFlag("random_seed", None, _HONOURED),
    T2TFlag("worker_id", 0, _HONOURED, "goes with --worker_hosts; see docs/cluster.md"),
    T2TFlag("worker_replicas", 1, _REFUSED, "list the workers in --worker_hosts"),
    T2TFlag("generate_data", False, _HONOURED),
    T2TFlag("tmp_dir", "/tmp/t2t_datagen", _HONOURED),
    T2TFlag(
        "schedule",
        "continuous_train_and_eval",
        _HONOURED,
        "continuous_train_and_eval, train or evaluate; decoding is t2t-decoder's",
    ),
    T2TFlag("eval_throttle_seconds", 600, _ACCEPTED, "--local_eval_frequency decides"),
    T2TFlag("iterations_per_loop", 100, _ACCEPTED, "--local_eval_frequency decides"),
    T2TFlag("eval_early_stopping_steps", None, _HONOURED),
    T2TFlag("eval_early_stopping_metric", "loss", _HONOURED),
    T2TFlag("eval_early_stopping_metric_delta", 0.1, _HONOURED),
    T2TFlag(
        "eval_early_stopping_metric_minimize",
        True,
        _HONOURED,
        "default: as registered with the metric, such as true for loss and false for bleu",
    ),
    T2TFlag(
        "keep_checkpoint_every_n_hours",
        10000,
        _REFUSED,
        "raise --keep_checkpoint_max or --keep_best_max",
    ),
    T2TFlag("warm_start_from", None, _HONOURED),
    T2TFlag("xla_compile", False, _REFUSED, _XLA),
    T2TFlag("xla_jit_level", -1, _REFUSED, _XLA),
    T2TFlag("gpu_automatic_mixed_precision", False, _REFUSED, _HALF_PRECISION),
    T2TFlag("decode_from_file", "", _REFUSED, "decode with t2t-decoder"),
    T2TFlag("decode_to_file", "", _REFUSED, "decode with t2t-decoder"),
    T2TFlag("decode_reference", "", _REFUSED, "decode with t2t-decoder"),
)

_DECODER_OWN = (
    T2TFlag("checkpoint_path", None, _HONOURED),
    T2TFlag("decode_from_file", "", _HONOURED),
    T2TFlag("decode_to_file", "", _HONOURED),
    T2TFlag("decode_reference", "", _HONOURED),
    T2TFlag("decode_interactive", False, _HONOURED),
    T2TFlag("keep_timestamp", False, _ACCEPTED, "no command uses the time of an output file"),
    T2TFlag("decode_in_memory", False, _ACCEPTED, "files are decoded window by window"),
    T2TFlag("disable_grappler_optimizations", False, _ACCEPTED, "no tensor format can go wrong"),
    T2TFlag("decode_shards", 1, _REFUSED, "cut the input file into parts and decode each"),
    T2TFlag("score_file", "", _HONOURED),
    T2TFlag("xla_compile", False, _ACCEPTED, _XLA_SEARCH),
    T2TFlag("xla_jit_level", -1, _ACCEPTED, _XLA_SEARCH),
)

# T2T's decoder defines all flags of its trainer and reads few of them.
_DECODER = _DECODER_OWN + tuple(
    T2TFlag(flag.name, flag.default, _ACCEPTED, _BY_TRAINING)
    for flag in _TRAINER
    if flag.name not in {own.name for own in _DECODER_OWN}
)

# T2T's exporter, too, defines all flags of its trainer.
_READ_FROM_RUN = "read from the run folder"
_EXPORTER_OWN = (
    T2TFlag("export_dir", None, _HONOURED),
    T2TFlag("checkpoint_path", None, _HONOURED, "default: the newest in --output_dir"),
    T2TFlag("as_text", True, _ACCEPTED, "the graph is always written in binary"),
    T2TFlag("export_as_tfhub", False, _REFUSED, "write --format=savedmodel or --format=keras"),
    T2TFlag("registry_help", False, _HONOURED),
    T2TFlag("output_dir", "", _HONOURED),
    T2TFlag("t2t_usr_dir", None, _HONOURED),
    T2TFlag("decode_hparams", "", _HONOURED),
    *(
        T2TFlag(name, None, _ACCEPTED, _READ_FROM_RUN)
        for name in ("model", "hparams_set", "problem", "data_dir")
    ),
    T2TFlag("hparams", "", _ACCEPTED, _READ_FROM_RUN),
)
_EXPORTER = _EXPORTER_OWN + tuple(
    T2TFlag(flag.name, flag.default, _ACCEPTED, "no export depends on it")
    for flag in (*_COMMON, *_TRAINER, *_SHARED)
    if flag.name not in {own.name for own in _EXPORTER_OWN}
)

_QUERY_SERVER = (
    T2TFlag("server", None, _HONOURED, "the REST interface (port 8501); T2T uses gRPC"),
    T2TFlag("servable_name", None, _HONOURED),
    T2TFlag("problem", None, _HONOURED, "only for models that take ids"),
    T2TFlag("data_dir", None, _HONOURED, "goes with --problem"),
    T2TFlag("t2t_usr_dir", None, _HONOURED),
    T2TFlag("inputs_once", None, _HONOURED),
    T2TFlag("timeout_secs", 10, _HONOURED),
    T2TFlag("cloud_mlengine_model_name", None, _REFUSED, "write --server and --servable_name"),
    T2TFlag("cloud_mlengine_model_version", None, _REFUSED, "write --server and --servable_name"),
)

_DATAGEN = (
    T2TFlag("problem", "", _HONOURED, "a name ending in _rev or _copy stands for its base"),
    T2TFlag(
        "data_dir",
        "",
        _HONOURED,
        "T2T defaults to the system's temporary folder; here it is required",
    ),
    T2TFlag("tmp_dir", "/tmp/t2t_datagen", _HONOURED),
    T2TFlag("t2t_usr_dir", "", _HONOURED),
    T2TFlag("only_list", False, _HONOURED),
    T2TFlag("exclude_problems", "", _HONOURED),
    T2TFlag("random_seed", 429459, _HONOURED),
    T2TFlag("num_shards", 0, _REFUSED, "set it in the problem's dataset_splits"),
    T2TFlag("max_cases", 0, _REFUSED, "stop early in the problem's generate_samples"),
    T2TFlag("env_problem_max_env_steps", 0, _REFUSED, "there are no environment problems"),
    T2TFlag("env_problem_batch_size", 0, _REFUSED, "there are no environment problems"),
    T2TFlag("task_id", -1, _REFUSED, _ONE_CALL),
    T2TFlag("task_id_start", -1, _REFUSED, _ONE_CALL),
    T2TFlag("task_id_end", -1, _REFUSED, _ONE_CALL),
    T2TFlag("num_concurrent_processes", None, _ACCEPTED, _ONE_CALL),
    T2TFlag("parsing_path", "", _REFUSED, "put the trees into --tmp_dir"),
    T2TFlag("timit_paths", "", _REFUSED, "there are no audio problems"),
)

_BLEU = (
    T2TFlag("translation", None, _HONOURED),
    T2TFlag("reference", None, _HONOURED),
    T2TFlag("source", None, _ACCEPTED, "T2T itself never reads it"),
    T2TFlag("bleu_variant", "both", _ACCEPTED, "both variants are always printed"),
    T2TFlag("translations_dir", None, _REFUSED, _ONE_PAIR),
    T2TFlag("event_dir", None, _REFUSED, _ONE_PAIR),
    T2TFlag("tag_suffix", "", _REFUSED, _ONE_PAIR),
    T2TFlag("min_steps", -1, _REFUSED, _ONE_PAIR),
    T2TFlag("wait_minutes", 0, _REFUSED, _ONE_PAIR),
    T2TFlag("report_zero", None, _REFUSED, _ONE_PAIR),
)

# From utils/avg_checkpoints.py, which T2T does not install as a command.
_AVERAGE = (
    T2TFlag("checkpoints", "", _HONOURED),
    T2TFlag("num_last_checkpoints", 0, _HONOURED),
    T2TFlag("prefix", "", _REFUSED, "write --output_dir=RUN_FOLDER"),
    T2TFlag("output_path", "/tmp/averaged.ckpt", _HONOURED, "default: in the run folder"),
)

_AVERAGE_ALL = (
    T2TFlag("model_dir", "", _HONOURED),
    T2TFlag("output_dir", "avg/", _HONOURED),
    T2TFlag("n", 8, _HONOURED),
    T2TFlag("min_steps", 0, _HONOURED),
    T2TFlag("wait_minutes", 0, _REFUSED, "run it again: existing averages are kept"),
)

_TRANSLATE_ALL = (
    T2TFlag("model_dir", "", _HONOURED),
    T2TFlag("source", None, _HONOURED),
    T2TFlag("translations_dir", "translations", _HONOURED),
    T2TFlag("min_steps", 0, _HONOURED),
    T2TFlag("beam_size", 4, _HONOURED),
    T2TFlag("alpha", 0.6, _HONOURED),
    T2TFlag("t2t_usr_dir", "", _HONOURED),
    *(
        T2TFlag(name, default, _ACCEPTED, _READ_FROM_RUN)
        for name, default in (
            ("model", "transformer"),
            ("hparams_set", "transformer_big_single_gpu"),
            ("problem", None),
            ("data_dir", ""),
        )
    ),
    T2TFlag("decoder_command", "", _REFUSED, "run t2t-decoder once for each checkpoint"),
    T2TFlag("wait_minutes", 0, _REFUSED, "run it again: existing translations are kept"),
)

_TABLE = {
    "t2t-datagen": _DATAGEN,
    "t2t-trainer": _COMMON + _TRAINER + _SHARED + _EARLIER,
    "t2t-decoder": _COMMON + _DECODER + _SHARED + _EARLIER,
    "t2t-exporter": _EXPORTER,
    "t2t-query-server": _QUERY_SERVER,
    "t2t-bleu": _BLEU,
    "t2t-avg-checkpoints": _AVERAGE,
    "t2t-avg-all": _AVERAGE_ALL,
    "t2t-translate-all": _TRANSLATE_ALL,
}


if __name__ == "__main__":
    print(markdown(), end="")
