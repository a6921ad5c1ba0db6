"""T2T's base class of problems."""

import functools
import os
from collections.abc import Sequence
from typing import Any, ClassVar

from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit, shard_paths
from t2t_lite.interop.t2t import generator_utils, metrics
from t2t_lite.interop.t2t.adapter import ProblemAdapter, adapter_class, default_model_hparams, needs
from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.interop.t2t.text_encoder import TextEncoder
from t2t_lite.names import snake_case

__all__ = [
    "DatasetSplit",
    "Problem",
    "SpaceID",
    "TaskID",
    "default_model_hparams",
    "preprocess_example_common",
]


def _numbered(name: str, first: int, members: str) -> Any:
    """Returns a class of consecutive numbers."""
    return type(name, (), {member: n for n, member in enumerate(members.split(), first)})


# Numbers that T2T gives to languages and tasks.
SpaceID = _numbered(
    "SpaceID",
    0,
    """
    GENERIC IMAGE_LABEL EN_CHR EN_TOK EN_BPE_TOK FR_CHR FR_TOK DE_CHR DE_TOK DE_BPE_TOK DIGIT_0
    DIGIT_1 AUDIO_WAV AUDIO_SPECTRAL PARSE_CHR PARSE_TOK ZH_TOK ICE_CHAR ICE_TOK ICE_PARSE_TOK
    MK_TOK CS_TOK CS_CHR DNA REAL IMAGE PEPTIDE PY_TOK CPP_TOK STROKES PICKLED_PYTHON
    """,
)
TaskID = _numbered(
    "TaskID",
    2,
    "EN_CHR EN_CHR_SENT EN_PR_HYP EN_NLI COLA EN_Q_CONT EN_SIM EN_SENT_PAIR THREE_CL_NLI",
)


def preprocess_example_common(example: dict[str, Any], mode: Any, hparams: Any) -> dict[str, Any]:
    """Cuts the ids of an example to max_input_seq_length and max_target_seq_length, EOS kept."""
    import tensorflow as tf

    if isinstance(hparams, str):  # in older T2T: (example, hparams, mode)
        hparams = mode
    for side, field in zip(
        generator_utils.SIDES, ("max_input_seq_length", "max_target_seq_length"), strict=True
    ):
        limit = getattr(hparams, field)
        if limit and side in example:
            ids = example[side]
            example[side] = tf.concat([ids[: limit - 1], ids[limit - 1 :][-1:]], axis=0)
    return example


class Problem:
    """T2T's problem: all its members are T2T's, so that every other name is free for users.

    Args:
        was_reversed: whether this is the `_rev` form.
        was_copy: whether this is the `_copy` form.
    """

    _t2t_lite_adapter: ClassVar[Any] = ProblemAdapter
    _encoders: Any = None
    _hparams: Any = None
    _was_reversed = False
    _was_copy = False

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        self._was_reversed = was_reversed
        self._was_copy = was_copy

    @classmethod
    def _t2t_lite_adapter_for(cls, name: str) -> Any:
        """Returns what is registered for a class; like T2T, gives the class its name."""
        cls.name = name  # type: ignore[assignment]
        kind: Any = cls
        return adapter_class(kind)

    @functools.cached_property
    def name(self) -> str:
        """The registered name, without `_rev` and `_copy`; registering a class sets it."""
        return snake_case(type(self).__name__)

    @property
    def was_reversed(self) -> bool:
        """Whether sources and targets are exchanged."""
        return self._was_reversed

    @property
    def was_copy(self) -> bool:
        """Whether the targets are the sources."""
        return self._was_copy

    # ---- what a subclass may override

    has_inputs = True  # whether examples have inputs
    # Whether the hparam batch_size counts subwords, as it always does here.
    batch_size_means_tokens = False
    # Number of ids of T2T's packed examples; none are packed here.
    packed_length: int | None = None
    # Whether `generate_data` is called once for each of `num_generate_tasks`.
    multiprocess_generate = False

    @property
    def num_generate_tasks(self) -> int:
        """Number of calls of `generate_data`, for `multiprocess_generate`."""
        raise needs(self, "num_generate_tasks")

    def prepare_to_generate(self, data_dir: str, tmp_dir: str) -> None:
        """Does what comes before the calls of `generate_data`, for `multiprocess_generate`."""
        raise needs(self, "prepare_to_generate(data_dir, tmp_dir)")

    def generate_data(self, data_dir: str, tmp_dir: str, task_id: Any = -1) -> None:
        """Writes the files; a subclass does it with `generator_utils`."""
        raise needs(self, "generate_data(data_dir, tmp_dir, task_id=-1)")

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns encoders of ids written as numbers."""
        del data_dir
        return {side: TextEncoder() for side in generator_utils.SIDES}

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets `modality` and `vocab_size` by feature; by default, the encoders' sizes."""

    def eval_metrics(self) -> Sequence[str]:
        """Returns T2T's names of metrics."""
        return [metrics.Metrics.APPROX_BLEU]

    def example_reading_spec(self) -> tuple[Any, Any]:
        """Returns the features of an example: lists of ids."""
        import tensorflow as tf

        sides = generator_utils.SIDES if self.has_inputs else generator_utils.SIDES[1:]
        return {side: tf.io.VarLenFeature(tf.int64) for side in sides}, None

    def max_length(self, model_hparams: HParams) -> int:
        """Returns the longest example that T2T trains on; here, the hparam max_length says it."""
        limits = (getattr(model_hparams, name, 0) for name in ("max_length", "batch_size"))
        return next((int(limit) for limit in limits if limit), 0)

    def eval_metric_fns(self, model_hparams: HParams) -> dict[str, Any]:
        """Returns no functions of metrics: `eval_metrics` names them."""
        del model_hparams
        return {}

    def eval_hooks(self, features: Any, logits: Any, hparams: Any) -> list[Any]:
        """Returns no hooks."""
        del features, logits, hparams
        return []

    @property
    def decode_hooks(self) -> list[Any]:
        """No hooks."""
        return []

    # ---- examples as mappings of features

    def maybe_reverse_features(self, feature_map: dict[str, Any]) -> None:
        """Exchanges inputs and targets of a `_rev` problem, in place."""
        if self._was_reversed:
            sides = feature_map.get("inputs"), feature_map.get("targets")
            feature_map["targets"], feature_map["inputs"] = sides

    def preprocess_example(self, example: dict[str, Any], mode: str, hparams: Any) -> Any:
        """Returns an example, a list of ids by side, as it is read for training and evaluation."""
        return preprocess_example_common(example, mode, hparams)

    def maybe_copy_features(self, feature_map: dict[str, Any]) -> None:
        """Makes the inputs the targets of a `_copy` problem, in place."""
        if self._was_copy:
            feature_map["targets"] = feature_map["inputs"]

    def maybe_reverse_and_copy(self, example: dict[str, Any]) -> dict[str, Any]:
        """Returns the example, changed as for `_rev` and `_copy`."""
        self.maybe_reverse_features(example)
        self.maybe_copy_features(example)
        return example

    # ---- names of files

    def dataset_filename(self) -> str:
        """Returns the start of the names of the data files: the base name, unless overridden."""
        return str(self.name)

    def filepattern(self, data_dir: str, mode: str, shard: int | None = None) -> str:
        """Returns a pattern of the files of a split."""
        split = SPLIT_FILE_NAMES.get(mode, SPLIT_FILE_NAMES[DatasetSplit.EVAL])
        number = "" if shard is None else f"-{shard:05d}"
        return f"{os.path.join(data_dir, self.dataset_filename())}-{split}{number}*"

    def data_filepaths(
        self, split: str, output_dir: str, num_shards: int, shuffled: bool
    ) -> list[str]:
        """Returns the paths of a split; with "-unshuffled" in them until they are shuffled."""
        name = self.dataset_filename() + ("" if shuffled else generator_utils.UNSHUFFLED_SUFFIX)
        return shard_paths(output_dir, name, split, num_shards)

    def training_filepaths(self, data_dir: str, num_shards: int, shuffled: bool) -> list[str]:
        """Returns the paths of the training split."""
        return self.data_filepaths(DatasetSplit.TRAIN, data_dir, num_shards, shuffled)

    def dev_filepaths(self, data_dir: str, num_shards: int, shuffled: bool) -> list[str]:
        """Returns the paths of the evaluation split."""
        return self.data_filepaths(DatasetSplit.EVAL, data_dir, num_shards, shuffled)

    def test_filepaths(self, data_dir: str, num_shards: int, shuffled: bool) -> list[str]:
        """Returns the paths of the test split."""
        return self.data_filepaths(DatasetSplit.TEST, data_dir, num_shards, shuffled)

    # ---- what a subclass calls

    def get_feature_encoders(self, data_dir: str | None = None) -> dict[str, Any]:
        """Returns the encoders, loaded once."""
        if self._encoders is None:
            self._encoders = self.feature_encoders(data_dir or "")
        found: dict[str, Any] = self._encoders
        return found

    def get_hparams(self, model_hparams: HParams | None = None) -> HParams:
        """Returns what `hparams` sets, with the encoders of `model_hparams.data_dir`, if any."""
        if self._hparams is None:
            given = model_hparams or default_model_hparams()
            if self._encoders is None and (data_dir := given.get("data_dir")):
                self.get_feature_encoders(data_dir)
            defaults = HParams(
                loss_multiplier=1.0,
                batch_size_multiplier=1,
                stop_at_eos=False,
                modality={},
                vocab_size={},
                input_modality={},
                target_modality=None,
                input_space_id=0,
                target_space_id=0,
            )
            self.hparams(defaults, given)
            defaults.vocabulary = self._encoders or {}
            defaults.was_reversed = self._was_reversed
            defaults.was_copy = self._was_copy
            self._hparams = defaults
        found: HParams = self._hparams
        return found
