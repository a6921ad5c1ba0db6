"""A problem of T2T's, as this package calls it.

The user's object and this package's contract share names with different meanings. Hence an adapter
holds the object, and calls only its members of T2T's; all others are the user's own.
"""

import functools
import glob
import inspect
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from t2t_lite import registry
from t2t_lite.data import problem
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import seed_random
from t2t_lite.data.members import is_texts, require
from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit
from t2t_lite.data.records import read_examples
from t2t_lite.errors import UserError, warn_once
from t2t_lite.hparams.transformer import transformer_base
from t2t_lite.interop.t2t import metrics, text_iterators, vocabulary_files
from t2t_lite.interop.t2t.adapted_encoder import adapted_encoder
from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.interop.t2t.modalities import ModalityType, declared
from t2t_lite.metrics.base import OutputMetric
from t2t_lite.text.bad_input import BadInput

_SIDES = ("inputs", "targets")
_PACKED = "targets_segmentation"  # a feature of packed examples
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")
# The method that names the files of each split.
_PATHS = {
    DatasetSplit.TRAIN: "training_filepaths",
    DatasetSplit.EVAL: "dev_filepaths",
    DatasetSplit.TEST: "test_filepaths",
}

# Members of T2T's classes that are never called here, and why not or what to do instead.
REFUSED_MEMBERS: Mapping[str, str] = {
    "preprocess_examples": "write preprocess_example(self, example, mode, hparams)",
    "preprocess": "change the samples when generating them",
    "dataset": "examples are read from the files of t2t-datagen",
    "decode_example": "examples are read from the files of t2t-datagen",
    "input_fn": "examples are read from the files of t2t-datagen",
}
# The modules of T2T's base classes.
_BASES = [
    f"{__package__}.{name}"
    for name in ("problem", "text2text_problem", "text_problems", "translate")
]
IGNORED_MEMBERS = (
    "decode_hooks",
    "eval_hooks",
    "eval_metric_fns",
    "max_length",
    "serving_input_fn",
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


def _model_hparams(data_dir: str) -> HParams:
    """Returns what a user's `hparams` may read of a model: T2T's base Transformer stands for it."""
    known = {**HParams.of(transformer_base()).values(), **default_model_hparams().values()}
    return HParams(**{**known, "data_dir": data_dir})


class ProblemAdapter(problem.Problem):
    """A problem that writes its files itself.

    Args:
        was_reversed: as for `Problem`.
        was_copy: as for `Problem`.
        upstream: the user's object; None: made here.

    Attributes:
        upstream_class: the user's class.
        missing: what this package would need for this kind of problem; empty: nothing.
        modalities: those that its features may have.
        of_modalities: what an error about another one says of them.
    """

    upstream_class: ClassVar[Any]
    missing: ClassVar[str] = ""
    modalities: ClassVar[tuple[str, ...]] = (ModalityType.SYMBOL,)
    of_modalities: ClassVar[str] = (
        "only sequences of symbols (ModalityType.SYMBOL), labels of a Text2ClassProblem and "
        "numbers of a Text2RealProblem are available"
    )

    def __init__(
        self, was_reversed: bool = False, was_copy: bool = False, upstream: Any = None
    ) -> None:
        if upstream is None:
            upstream = _made(self.upstream_class, was_reversed=was_reversed, was_copy=was_copy)
        self.upstream = upstream
        self.options = DatagenOptions()
        vars(upstream)["_t2t_lite_adapted"] = self
        super().__init__(was_reversed, was_copy)

    # ---- data

    def dataset_filename(self) -> str:
        """Returns the user's `dataset_filename`."""
        return str(self.upstream.dataset_filename())

    @property
    def has_inputs(self) -> bool:
        """The user's `has_inputs`."""
        return bool(self.upstream.has_inputs)

    def filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of a split; those found if `generate_data` is the user's.

        A user's `filepattern` says which files are read, not which are generated.
        """
        if overrides(self.upstream, "filepattern"):
            pattern = self.upstream.filepattern(data_dir, split)
            if found := sorted(glob.glob(pattern)):
                return found
        return self._shards(data_dir, split, self._number_of_files(data_dir, split))

    def _shards(self, data_dir: str, split: str, count: int) -> list[str]:
        if split not in _PATHS:
            raise UserError(
                f"problem {self.name!r} has no {SPLIT_FILE_NAMES[split]} split: T2T's problems "
                f"have {', '.join(SPLIT_FILE_NAMES[known] for known in _PATHS)}"
            )
        return list(getattr(self.upstream, _PATHS[split])(data_dir, count, shuffled=True))

    def _number_of_files(self, data_dir: str, split: str) -> int:
        """Returns how many files a split has: as many as exist, at least one."""
        return self._existing_files(data_dir, split) or 1

    def _existing_files(self, data_dir: str, split: str) -> int:
        stem = os.path.join(data_dir, f"{self.dataset_filename()}-{SPLIT_FILE_NAMES[split]}")
        found = glob.glob(f"{glob.escape(stem)}-?????-of-?????")
        return max((int(shard[2]) for path in found if (shard := _SHARD.search(path))), default=0)

    def existing_filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of a split, unless T2T has packed their examples."""
        return self._unpacked(super().existing_filepaths(data_dir, split))

    def _unpacked(self, paths: list[str]) -> list[str]:
        if self.upstream.packed_length and _PACKED in next(read_examples(paths), {}):
            raise UserError(
                f"{paths[0]} has several texts in an example (packed_length), as T2T writes and "
                "nothing here reads them: delete the problem's files and generate them again"
            )
        return paths

    def write_files(self, data_dir: str, tmp_dir: str, options: DatagenOptions) -> None:
        """Calls T2T's `generate_data`, for `multiprocess_generate` task by task."""
        self.require_supported()
        self.options = options
        self.bad_input = BadInput(skip=options.skip_bad)
        text_iterators.receive(self.bad_input)
        os.makedirs(data_dir, exist_ok=True)
        os.makedirs(tmp_dir, exist_ok=True)
        seed_random(options, DatasetSplit.TRAIN)
        upstream = self.upstream
        if not upstream.multiprocess_generate:
            upstream.generate_data(data_dir, tmp_dir, None)
            return
        upstream.prepare_to_generate(data_dir, tmp_dir)
        for task_id in range(upstream.num_generate_tasks):
            upstream.generate_data(data_dir, tmp_dir, task_id)

    def require_supported(self) -> None:
        """Raises UserError if this package lacks something that the problem needs."""
        upstream, lacks = self.upstream, self.missing
        counts = "batch_size_means_tokens"
        if not lacks and overrides(upstream, counts) and not getattr(upstream, counts):
            lacks = (
                f"batches of a number of examples ({counts} is false): remove it, and set the "
                "hparam batch_size to the subwords of a batch: the number of examples times their "
                "length"
            )
        for name, instead in REFUSED_MEMBERS.items():
            if not lacks and overrides(upstream, name):
                lacks = f"a call of {name}: {instead}"
        if not lacks and not self._has_readable_examples():
            lacks = (
                "examples of another form (example_reading_spec): only lists of ids, and of the "
                "numbers of a Text2RealProblem, are read"
            )
        if lacks:
            raise UserError(
                f"problem {self.base_name!r} needs what t2t_lite does not have: {lacks} "
                "(docs/coming-from-t2t.md)"
            )
        if upstream.packed_length:
            warn_once(
                f"problem {self.base_name}: packed_length has no effect here: batches are of "
                "similar lengths"
            )
        if ignored := [name for name in IGNORED_MEMBERS if overrides(upstream, name)]:
            warn_once(f"problem {self.base_name}: not called here: {', '.join(ignored)}")

    def _has_readable_examples(self) -> bool:
        """Whether `example_reading_spec` is ours, or that of lists of ids."""
        if not overrides(self.upstream, "example_reading_spec"):
            return True
        fields, decoders = self.upstream.example_reading_spec()
        kinds = ["float32" if side in self.float_sides else "int64" for side in self.sides]
        return not decoders and [_kind(fields.get(side)) for side in self.sides] == kinds

    @property
    def further_features(self) -> Sequence[str]:
        """What the user's `preprocess_example` gets beside the sides."""
        if not overrides(self.upstream, "preprocess_example"):
            return ()
        fields, _ = self.upstream.example_reading_spec()
        return sorted(name for name in {*fields} - {*self.sides} if _kind(fields[name]) == "int64")

    # ---- text and ids

    def _users_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the user's encoders."""
        self.upstream._encoders = self.upstream._hparams = None  # of another folder
        found = self.upstream.get_feature_encoders(data_dir)
        self._add_encoders(found, data_dir)
        is_complete = isinstance(found, Mapping) and {*self.sides} <= {*found}
        expected = f"a dictionary with an encoder for {' and '.join(self.sides)}"
        require(self, "feature_encoders", found, is_complete, expected)
        return dict(found)

    def _add_encoders(self, found: Any, data_dir: str) -> None:
        """Adds the encoders that T2T does not need from the user's `feature_encoders`: none."""

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the user's encoders, adapted, with the vocabulary sizes of `hparams`."""
        self.require_supported()
        try:
            encoders = self._users_encoders(data_dir)
        except Exception:
            copied = vocabulary_files.copy_missing(self._users_encoders, data_dir)
            if not copied:
                raise
            self._files_read += copied
            encoders = self._users_encoders(data_dir)
        if others := sorted({*encoders} - {*_SIDES, *self.further_features}):
            warn_once(
                f"problem {self.base_name}: no model here reads {', '.join(others)}, as T2T's "
                "Transformer does not: put their text into inputs if it should"
            )
        sizes = self._vocab_sizes(data_dir)
        return {
            side: adapted_encoder(encoders[side], sizes.get(side), f"{self.base_name}: {side}")
            for side in self.sides
        }

    def _problem_hparams(self, data_dir: str) -> HParams:
        """Returns what the user's `hparams` sets."""
        given = _model_hparams(data_dir)
        try:
            found: HParams = self.upstream.get_hparams(given)
        except AttributeError as error:
            if error.obj is not given:
                raise
            raise UserError(
                f"problem {self.base_name!r}: hparams reads {error.name!r} of the model's hparams, "
                "which only some sets have, and is called before a set is chosen: write "
                f"model_hparams.get({error.name!r}, DEFAULT)"
            ) from error
        return found

    @property
    def space_ids(self) -> tuple[int, int]:
        """The `SpaceID`s that `hparams` sets."""
        found = self._problem_hparams("")
        for name in ("input_space_id", "target_space_id"):
            value = found.get(name)
            require(self, name, value, isinstance(value, int), "one of SpaceID")
        return found.input_space_id, found.target_space_id

    def _vocab_sizes(self, data_dir: str) -> dict[str, int]:
        """Returns the vocabulary sizes that `hparams` sets."""
        found = self._problem_hparams(data_dir)
        for name in ("modality", "vocab_size"):
            value = found.get(name)
            require(self, name, value, isinstance(value, Mapping), "a dictionary by feature")
        modalities, sizes = declared(found)
        for side in _SIDES:
            modality = modalities.get(side, ModalityType.SYMBOL)
            if modality not in self.modalities:
                raise UserError(
                    f"problem {self.base_name!r}: {side} are {modality!r}; {self.of_modalities}"
                )
        return {side: size for side, size in sizes.items() if size}

    @functools.cached_property
    def _files_read(self) -> list[str]:
        upstream = self.upstream
        loaded = upstream._encoders, upstream._hparams
        try:
            return vocabulary_files.read_by(self._users_encoders)
        finally:
            upstream._encoders, upstream._hparams = loaded

    def vocab_files(self) -> list[str]:
        """Returns the files that the encoders read."""
        return list(self._files_read)

    def change_of_examples(self, hparams: Any, split: str | None) -> Any:
        """Returns what the user's `preprocess_example` does to the ids of examples.

        Args:
            hparams: of the model.
            split: what the examples are read for, training or evaluation; None: for decoding.
        """
        if split == DatasetSplit.TRAIN:
            self._compare_lengths(hparams)
        if not overrides(self.upstream, "preprocess_example"):
            return None
        from t2t_lite.interop.t2t import preprocessing

        return preprocessing.change_of_examples(self, hparams, split)

    def _compare_lengths(self, hparams: Any) -> None:
        """Warns if T2T would train on longer examples than `hparams` say."""
        if overrides(self.upstream, "max_length"):
            return  # `require_supported` says that it is not called
        theirs = self.upstream.max_length(HParams.of(hparams))
        ours = hparams.max_length or hparams.batch_size
        if theirs > ours:
            warn_once(
                f"problem {self.base_name}: T2T trains on examples of up to {theirs} subwords "
                f"(max_length of {type(self.upstream).__name__}), t2t_lite on those of up to "
                f"{ours} (hparam max_length), and drops longer ones: set "
                f"--hparams=max_length={theirs} to keep them"
            )

    # ---- evaluation

    @property
    def metrics(self) -> Sequence[str]:
        """The registered metrics for `eval_metrics`."""
        names = self.upstream.eval_metrics()
        require(self, "eval_metrics", names, is_texts(names), "a list of names of Metrics")
        found, without = metrics.registered(names, self._can_be_scored_by)
        if without and overrides(self.upstream, "eval_metrics"):
            warn_once(
                f"problem {self.base_name}: metrics without counterpart: {', '.join(without)}"
            )
        return found or super().metrics

    def _can_be_scored_by(self, metric: str) -> bool:
        """Whether a registered metric suits this kind of problem: outputs need inputs."""
        is_of_outputs = issubclass(registry.metrics()[metric], OutputMetric)
        is_of_text = metric != "roc_auc" and metric not in metrics.OF_NUMBERS
        return is_of_text and (self.has_inputs or not is_of_outputs)


# ---- the user's objects and classes


def adapted(upstream: Any) -> Any:
    """Returns a problem of T2T's as this package calls it; others, and None, as they are."""
    if not hasattr(type(upstream), "_t2t_lite_adapter"):
        return upstream
    kind: Any = type(upstream)
    return vars(upstream).get("_t2t_lite_adapted") or adapter_class(kind)(upstream=upstream)


@functools.cache
def adapter_class(upstream_class: Any) -> Any:
    """Returns what this package registers and calls for a class of T2T's problems."""
    names = ("__doc__", "__module__", "__qualname__")
    members = {name: getattr(upstream_class, name) for name in names}
    members["upstream_class"] = upstream_class
    return type(upstream_class.__name__, (upstream_class._t2t_lite_adapter,), members)


def _kind(field: Any) -> str:
    """Returns the name of a feature's type; "": it has none."""
    return str(getattr(getattr(field, "dtype", None), "name", ""))


def _made(upstream_class: Any, **forms: bool) -> Any:
    """Returns a user's object, made with keywords, as T2T makes it."""
    try:
        inspect.signature(upstream_class).bind(**forms)
    except TypeError as error:
        raise UserError(
            f"problem class {upstream_class.__module__}.{upstream_class.__qualname__} cannot be "
            f"made as T2T makes it, with {' and '.join(forms)} alone: {error}; give its __init__ "
            "both, and defaults for all else"
        ) from error
    return upstream_class(**forms)


def needs(upstream: Any, member: str) -> UserError:
    """Returns the error for a member that the user's class has to define."""
    return UserError(f"problem {upstream.name!r} ({type(upstream).__name__}) needs {member}")


def needs_samples(upstream: Any, member: str) -> UserError:
    """Returns the error for samples that nothing yields; T2T 1.2 called `generator` for them."""
    if hasattr(upstream, "generator"):
        member = (
            "generate_samples(data_dir, tmp_dir, dataset_split), which yields texts; generator, "
            "of T2T 1.2, is not called"
        )
    return needs(upstream, member)


def overrides(upstream: Any, name: str) -> bool:
    """Whether a member is not that of a base class: the user's, or that of another data set."""
    return module_of(upstream, name) not in ("", *_BASES)


def module_of(upstream: Any, name: str) -> str:
    """Returns the module whose class, or object, defines a member; "": none does."""
    owners = (owner for owner in (upstream, *type(upstream).__mro__) if name in vars(owner))
    return str(next((owner.__module__ for owner in owners), ""))
