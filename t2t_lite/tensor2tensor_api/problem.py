"""T2T's base class of problems, and its contracts as this package calls them."""

import glob
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from t2t_lite.data import problem
from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit, Output, shard_paths
from t2t_lite.errors import UserError
from t2t_lite.generation.config import DatagenOptions
from t2t_lite.generation.generator import seed_random
from t2t_lite.tensor2tensor_api import generator_utils, metrics
from t2t_lite.tensor2tensor_api.hparam import HParams, warn_once
from t2t_lite.tensor2tensor_api.modalities import ModalityType
from t2t_lite.tensor2tensor_api.text_encoder import AdaptedEncoder, TextEncoder, noting_files

__all__ = ["DatasetSplit", "Problem", "SpaceID", "TaskID", "default_model_hparams"]

_SIDES = ("inputs", "targets")
# A folder that does not exist, for which encoders are asked which files they read.
_NOWHERE = "/t2t_lite-no-such-folder"
_NOWHERE_PATH = re.compile(re.escape(_NOWHERE) + r"/[^\s'\";:,]+")
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")

# Members of T2T's classes that are never called here, and why not or what to do instead.
_REFUSED: Mapping[str, str] = {
    "preprocess_example": "change the samples when generating them",
    "preprocess": "change the samples when generating them",
    "dataset": "examples are read from the files of t2t-datagen",
    "decode_example": "examples are read from the files of t2t-datagen",
    "input_fn": "examples are read from the files of t2t-datagen",
}
_IGNORED = ("decode_hooks", "eval_hooks", "eval_metric_fns", "max_length", "serving_input_fn")


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


def default_model_hparams() -> HParams:
    """Returns what a problem gets if it does not know the model."""
    return HParams(
        max_input_seq_length=0,
        max_target_seq_length=0,
        prepend_mode="none",
        split_to_length=0,
        data_dir=None,
        multiproblem_vocab_size=-1,
    )


class Problem(problem.Problem):
    """T2T's problem: its members keep their names, arguments and meaning.

    Attributes:
        missing: what this package would need for this kind of problem; empty: nothing.
        modalities: those that its features may have.
    """

    missing: ClassVar[str] = ""
    modalities: ClassVar[tuple[str, ...]] = (ModalityType.SYMBOL,)
    renamed_hooks: ClassVar[Mapping[str, str]] = {}  # T2T's names are free for its users

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        super().__init__(was_reversed, was_copy)
        self._options = DatagenOptions()
        self._encoders: dict[str, Any] | None = None  # T2T's, by the names in the data files
        self._hparams: HParams | None = None
        self._is_generated_here = False  # by `generate_data` of this package

    # ---- T2T's members that a subclass may override

    @property
    def packed_length(self) -> int | None:
        """Number of ids of packed examples, which are not available; None: not packed."""
        return None

    @property
    def multiprocess_generate(self) -> bool:
        """Whether `generate_data` is called once for each of `num_generate_tasks`."""
        return False

    @property
    def num_generate_tasks(self) -> int:
        """Number of calls of `generate_data`, for `multiprocess_generate`."""
        raise self.needs("num_generate_tasks")

    def prepare_to_generate(self, data_dir: str, tmp_dir: str) -> None:
        """Does what comes before the calls of `generate_data`, for `multiprocess_generate`."""
        raise self.needs("prepare_to_generate(data_dir, tmp_dir)")

    def generate_data(self, data_dir: str, tmp_dir: str, task_id: Any = -1) -> None:
        """Writes the files; a subclass does it with `generator_utils`."""
        raise self.needs("generate_data(data_dir, tmp_dir, task_id=-1)")

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns encoders of ids written as numbers."""
        del data_dir
        return {side: TextEncoder() for side in _SIDES}

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets `modality` and `vocab_size` by feature; by default, the encoders' sizes."""

    def eval_metrics(self) -> Sequence[str]:
        """Returns T2T's names of metrics."""
        return [metrics.Metrics.APPROX_BLEU]

    def example_reading_spec(self) -> tuple[Any, Any]:
        """Returns the features of an example: lists of ids."""
        import tensorflow as tf

        return {side: tf.io.VarLenFeature(tf.int64) for side in _SIDES}, None

    # ---- T2T's names of files

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

    # ---- as this package calls it

    @property
    def writes_files(self) -> bool:
        """Whether `generate_data` is the user's, who also chooses the numbers of files."""
        return not (self._is_generated_here or is_ours(type(self).generate_data))

    def filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of a split; those found if `generate_data` is the user's."""
        if not self.writes_files:
            return super().filepaths(data_dir, split)
        stem = os.path.join(data_dir, f"{self.dataset_filename()}-{SPLIT_FILE_NAMES[split]}")
        found = glob.glob(f"{glob.escape(stem)}-?????-of-?????")
        counts = [int(shard[2]) for path in found if (shard := _SHARD.search(path))]
        return self.data_filepaths(split, data_dir, max(counts, default=1), shuffled=True)

    def run_generate_data(self, data_dir: str, tmp_dir: str, options: DatagenOptions) -> None:
        """Calls T2T's `generate_data`, for `multiprocess_generate` task by task.

        Raises:
            UserError: this package lacks something that the problem needs.
        """
        self.require_supported()
        self._options = options
        os.makedirs(data_dir, exist_ok=True)
        os.makedirs(tmp_dir, exist_ok=True)
        seed_random(options, DatasetSplit.TRAIN)
        if not self.multiprocess_generate:
            self.generate_data(data_dir, tmp_dir)
            return
        self.prepare_to_generate(data_dir, tmp_dir)
        for task_id in range(self.num_generate_tasks):
            self.generate_data(data_dir, tmp_dir, task_id)

    def needs(self, member: str) -> UserError:
        """Returns the error for a member that the user's class has to define."""
        return UserError(f"problem {self.base_name!r} ({type(self).__name__}) needs {member}")

    def require_supported(self) -> None:
        """Raises UserError if this package lacks something that the problem needs."""
        lacks = self.missing
        if not lacks and self.packed_length:
            lacks = "packed examples: omit packed_length, since batches are of similar lengths"
        for name, instead in _REFUSED.items():
            if not lacks and hasattr(type(self), name):
                lacks = f"a call of {name}: {instead}"
        if not lacks and not self._has_readable_examples():
            lacks = "examples of another form (example_reading_spec): only lists of ids are read"
        if lacks:
            raise UserError(
                f"problem {self.base_name!r} needs what t2t_lite does not have: {lacks} "
                "(docs/coming-from-t2t.md)"
            )
        if ignored := [name for name in _IGNORED if hasattr(type(self), name)]:
            warn_once(f"problem {self.base_name}: not called here: {', '.join(ignored)}")

    def _has_readable_examples(self) -> bool:
        """Whether `example_reading_spec` is ours, or that of lists of ids."""
        if is_ours(type(self).example_reading_spec):
            return True
        fields, decoders = self.example_reading_spec()
        kinds = {
            getattr(getattr(fields.get(side), "dtype", None), "name", "") for side in self.sides
        }
        return decoders is None and kinds == {"int64"}

    def load_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the user's encoders, adapted, with the vocabulary sizes of `hparams`.

        Raises:
            UserError: this package lacks something that the problem needs.
        """
        self.require_supported()
        self._encoders = encoders = self.feature_encoders(data_dir)
        sizes = self._vocab_sizes(data_dir)
        return {
            side: _adapted(encoders[side], sizes.get(side), f"{self.base_name}: {side}")
            for side in self.sides
        }

    def get_feature_encoders(self, data_dir: str | None = None) -> dict[str, Any]:
        """Returns the encoders; T2T's code asks without a folder once they are loaded."""
        if data_dir is None and self._encoders is not None:
            return self._encoders
        return super().get_feature_encoders(data_dir or "")

    def get_hparams(self, model_hparams: HParams | None = None) -> HParams:
        """Returns what `hparams` sets."""
        if self._hparams is None:
            defaults = HParams(
                loss_multiplier=1.0,
                batch_size_multiplier=1,
                stop_at_eos=False,
                modality={},
                vocab_size={},
                input_space_id=0,
                target_space_id=0,
            )
            self.hparams(defaults, model_hparams or default_model_hparams())
            self._hparams = defaults
        return self._hparams

    @property
    def space_ids(self) -> tuple[int, int]:
        """The `SpaceID`s that `hparams` sets."""
        found = self.get_hparams()
        return found.input_space_id, found.target_space_id

    def _vocab_sizes(self, data_dir: str) -> dict[str, int]:
        """Returns the vocabulary sizes that `hparams` sets.

        Raises:
            UserError: a feature is not a sequence of symbols.
        """
        model_hparams = default_model_hparams()
        model_hparams.data_dir = data_dir
        found = self.get_hparams(model_hparams)
        for side in _SIDES:
            modality = found.modality.get(side, ModalityType.SYMBOL)
            if modality not in self.modalities:
                raise UserError(
                    f"problem {self.base_name!r}: {side} are {modality!r}; only sequences of "
                    "symbols (ModalityType.SYMBOL), and labels of a Text2ClassProblem, are "
                    "available"
                )
        return {side: size for side, size in found.vocab_size.items() if size}

    def vocab_files(self) -> list[str]:
        """Returns the files that `feature_encoders` reads with T2T's encoders."""
        with noting_files() as paths:
            try:
                self.feature_encoders(_NOWHERE)
            except Exception as error:  # an encoder of the user's own opens its file
                paths += _NOWHERE_PATH.findall(str(error))
        inside = [path for path in dict.fromkeys(paths) if path.startswith(_NOWHERE)]
        return [os.path.relpath(path, _NOWHERE) for path in inside]

    @property
    def metrics(self) -> Sequence[str]:
        """The registered metrics for `eval_metrics`."""
        found, without = metrics.registered(self.eval_metrics())
        if without:
            warn_once(
                f"problem {self.base_name}: metrics without counterpart: {', '.join(without)}"
            )
        if not self.has_inputs:
            found = [name for name in found if name != "bleu"]
        return found or super().metrics

    def postprocess(self, source: str, target: str) -> Output:
        """Returns the target as it is."""
        return Output(target)


def is_ours(member: Any) -> bool:
    """Whether a class or function is this package's, not the user's."""
    return str(member.__module__).startswith("t2t_lite.")


def _adapted(encoder: Any, size: int | None, name: str) -> Any:
    """Returns an encoder of this package with a vocabulary size.

    Raises:
        UserError: the size is unknown.
    """
    try:
        own = encoder.vocab_size
    except (AttributeError, NotImplementedError, UserError):
        own = None
    if size is None and own is None:
        raise UserError(
            f"problem {name} have an encoder without vocab_size: define it, or set "
            "p.vocab_size in hparams"
        )
    if is_ours(type(encoder)) and size in (None, own):
        return encoder
    return AdaptedEncoder(encoder, size or own)
