"""T2T's base classes of text problems, and its iterators over text files."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from t2t_lite.data import holding_out
from t2t_lite.data.text_problems import TextConcat2ClassProblem as _Concat
from t2t_lite.errors import UserError
from t2t_lite.interop.t2t import generator_utils
from t2t_lite.interop.t2t.adapter import adapted, needs
from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.interop.t2t.metrics import Metrics
from t2t_lite.interop.t2t.modalities import ModalityType
from t2t_lite.interop.t2t.problem import DatasetSplit, SpaceID
from t2t_lite.interop.t2t.text2text_problem import Text2TextProblem
from t2t_lite.interop.t2t.text_adapter import (
    ClassAdapter,
    ConcatAdapter,
    RealAdapter,
    TextAdapter,
)
from t2t_lite.interop.t2t.text_encoder import (
    ClassLabelEncoder,
    RealEncoder,
    TokenTextEncoder,
    to_unicode_ignore_errors,
)
from t2t_lite.interop.t2t.text_iterators import (
    text2class_txt_iterator,
    text2real_txt_iterator,
    text2self_txt_iterator,
    text2text_generate_encoded,
    text2text_txt_iterator,
    text2text_txt_sharded_iterator,
    text2text_txt_tab_iterator,
    txt_and_label_iterator,
    txt_line_iterator,
    txt_line_sharded_iterator,
)
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, VocabType

__all__ = [
    "ChoppedTextProblem",
    "DistributedText2TextProblem",
    "QuestionAndContext2TextProblem",
    "Text2ClassProblem",
    "Text2RealProblem",
    "Text2SelfProblem",
    "Text2TextProblem",
    "Text2TextRemotedir",
    "Text2textTmpdir",
    "Text2textTmpdirTokens",
    "TextConcat2ClassProblem",
    "VocabType",
    "text2class_txt_iterator",
    "text2real_txt_iterator",
    "text2self_txt_iterator",
    "text2text_generate_encoded",
    "text2text_txt_iterator",
    "text2text_txt_sharded_iterator",
    "text2text_txt_tab_iterator",
    "txt_and_label_iterator",
    "txt_line_iterator",
    "txt_line_sharded_iterator",
]


class _Tmpdir(Text2TextProblem):
    """T2T's names of the files of `text2text_tmpdir`, for subclasses.

    Without the files of evaluation, the last pairs of training are held out, as there.
    """

    TRAIN_FILES: ClassVar[Sequence[str]] = ("inputs.train.txt", "targets.train.txt")
    EVAL_FILES: ClassVar[Sequence[str]] = ("inputs.eval.txt", "targets.eval.txt")

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields the pairs of two files in `tmp_dir`."""
        train, dev = (
            [os.path.join(self._tmp_dir_override or tmp_dir, name) for name in names]
            for names in (self.TRAIN_FILES, self.EVAL_FILES)
        )
        is_training = dataset_split == DatasetSplit.TRAIN
        if any(map(os.path.exists, dev)):
            return text2text_txt_iterator(*(train if is_training else dev))
        return holding_out.training_or_held_out(
            lambda: text2text_txt_iterator(*train),
            is_training,
            " and ".join(train),
            " and ".join(dev),
        )

    @property
    def _tmp_dir_override(self) -> str | None:
        """The folder of the files, if it is not `tmp_dir`."""
        return None


class Text2textTmpdir(_Tmpdir):
    """`text2text_tmpdir`, for subclasses; itself it is registered by this package."""


class Text2TextRemotedir(Text2textTmpdir):
    """`text2text_tmpdir` with the files of a folder that a subclass names."""

    SRC_REMOTE_DIR: ClassVar[str | None] = None

    @property
    def _tmp_dir_override(self) -> str:
        if not self.SRC_REMOTE_DIR:
            raise needs(self, "SRC_REMOTE_DIR, the folder of its files")
        return self.SRC_REMOTE_DIR


class Text2textTmpdirTokens(_Tmpdir):
    """`text2text_tmpdir_tokens`, for subclasses; itself it is registered by this package."""

    vocab_type = VocabType.TOKEN
    oov_token = "<UNK>"

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Writes the vocabulary from `vocab.txt` if it is missing; yields the pairs."""
        path = os.path.join(data_dir, self.vocab_filename)
        if not os.path.exists(path):
            tokens = txt_line_iterator(os.path.join(tmp_dir, "vocab.txt"))
            listed = [self.oov_token, *tokens]
            TokenTextEncoder(None, vocab_list=list(dict.fromkeys(listed))).store_to_file(path)
        return super().generate_samples(data_dir, tmp_dir, dataset_split)


class Text2SelfProblem(Text2TextProblem):
    """Language models: samples are `{"targets": text}`."""

    has_inputs = False


class ChoppedTextProblem(Text2SelfProblem):
    """Language models of text that is cut into pieces of equal length.

    Whole files of text are encoded and cut every `sequence_length` ids; examples have no EOS.
    """

    multiprocess_generate = True  # one call of `generate_data` for each file
    # What to do with the ids after the last whole example: "pad" or "drop".
    remainder_policy = "pad"
    max_chars_for_vocab = 10**7  # characters that the vocabulary is built from
    max_dev_chars = 10**7  # characters to evaluate on

    # ---- what a subclass provides

    def train_text_filepaths(self, tmp_dir: str) -> Sequence[str]:
        """Returns the files to train on."""
        raise needs(self, "train_text_filepaths(tmp_dir)")

    def dev_text_filepaths(self, tmp_dir: str) -> Sequence[str]:
        """Returns the files to evaluate on."""
        raise needs(self, "dev_text_filepaths(tmp_dir)")

    @property
    def sequence_length(self) -> int:
        """Number of ids of an example."""
        raise needs(self, "sequence_length")

    # ---- what it may change

    def filepath_to_unicode_strings(self, filepath: str) -> Iterator[str]:
        """Yields the texts of a file; by default, its whole text."""
        with open(filepath, "rb") as file:
            yield to_unicode_ignore_errors(file.read())

    def max_length(self, model_hparams: HParams) -> int:
        """Returns the longest example that T2T trains on."""
        return int(model_hparams.get("split_to_length") or self.sequence_length)

    @property
    def num_train_shards(self) -> int:
        """Number of training files to write; by default as in `dataset_splits`, or 100."""
        return self._shards(DatasetSplit.TRAIN, 100)

    @property
    def num_dev_shards(self) -> int:
        """Number of evaluation files to write; by default as in `dataset_splits`, or 1."""
        return self._shards(DatasetSplit.EVAL, 1)

    def _shards(self, split: str, default: int) -> int:
        """Returns the files of a split in a subclass's own `dataset_splits`."""
        if type(self).dataset_splits is ChoppedTextProblem.dataset_splits:
            return default
        return next(own["shards"] for own in self.dataset_splits if own["split"] == split)

    def eval_metrics(self) -> Sequence[str]:
        """Returns T2T's names of metrics."""
        return [Metrics.ACC, Metrics.NEG_LOG_PERPLEXITY]

    # ---- generation

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """The numbers of files."""
        return [
            {"split": DatasetSplit.TRAIN, "shards": self.num_train_shards},
            {"split": DatasetSplit.EVAL, "shards": self.num_dev_shards},
        ]

    @property
    def num_generate_tasks(self) -> int:
        """Number of files."""
        return self.num_train_shards + self.num_dev_shards

    def prepare_to_generate(self, data_dir: str, tmp_dir: str) -> None:
        """Makes the files of text, and builds the vocabulary."""
        self.get_or_create_vocab(data_dir, tmp_dir)
        self.train_text_filepaths(tmp_dir)
        self.dev_text_filepaths(tmp_dir)

    def generate_data(self, data_dir: str, tmp_dir: str, task_id: Any = -1) -> None:
        """Writes one file."""
        encoder = self.get_or_create_vocab(data_dir, tmp_dir)
        paths = [
            *self.training_filepaths(data_dir, self.num_train_shards, shuffled=False),
            *self.dev_filepaths(data_dir, self.num_dev_shards, shuffled=False),
        ]
        path = paths[task_id]
        generator_utils.generate_files(self.example_generator(encoder, tmp_dir, task_id), [path])
        generator_utils.shuffle_dataset([path])

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the beginning of the training text."""
        del data_dir
        paths = self.train_text_filepaths(tmp_dir)
        return self.file_generator(paths, max_chars_total=self.max_chars_for_vocab)

    def text_filepaths_for_task(self, tmp_dir: str, task_id: int) -> Sequence[str]:
        """Returns the files of text whose examples go into one file."""
        number = task_id - self.num_train_shards
        if number < 0:
            return self.train_text_filepaths(tmp_dir)[task_id :: self.num_train_shards]
        return self.dev_text_filepaths(tmp_dir)[number :: self.num_dev_shards]

    def file_generator(
        self,
        filepaths: Sequence[str],
        max_chars_per_file: int | None = None,
        max_chars_total: int | None = None,
    ) -> Iterator[str]:
        """Yields the texts of files, up to so many characters of each and in all."""
        left = max_chars_total
        for path in filepaths:
            left_here = max_chars_per_file
            for text in self.filepath_to_unicode_strings(path):
                limits = [limit for limit in (left, left_here) if limit is not None]
                text = text[: min(limits, default=len(text))]
                left = left and left - len(text)
                left_here = left_here and left_here - len(text)
                if text:
                    yield text
                if left == 0:
                    return
                if left_here == 0:
                    break

    def example_generator(
        self, encoder: Any, tmp_dir: str, task_id: int
    ) -> Iterator[dict[str, list[int]]]:
        """Yields the examples of one file."""
        if self.remainder_policy not in ("pad", "drop"):
            raise UserError(f"remainder_policy={self.remainder_policy!r}: expected pad or drop")
        paths = self.text_filepaths_for_task(tmp_dir, task_id)
        most = None
        if task_id >= self.num_train_shards and paths:
            most = self.max_dev_chars // (self.num_dev_shards * len(paths))
        size = self.sequence_length
        ids: list[int] = []
        for text in self.file_generator(paths, max_chars_per_file=most):
            ids += encoder.encode(text)
            whole = len(ids) - len(ids) % size
            yield from ({"targets": ids[i : i + size]} for i in range(0, whole, size))
            ids = ids[whole:]
        if ids and self.remainder_policy == "pad":
            yield {"targets": [*ids, *[PAD_ID] * (size - len(ids))]}


class Text2ClassProblem(Text2TextProblem):
    """Classification: samples are `{"inputs": text, "label": number}`."""

    _t2t_lite_adapter: ClassVar[Any] = ClassAdapter

    @property
    def num_classes(self) -> int:
        """Number of labels."""
        raise needs(self, "num_classes")

    def class_labels(self, data_dir: str) -> Sequence[str]:
        """Returns the text of each label, in the order of their numbers."""
        del data_dir
        return [f"ID_{number}" for number in range(self.num_classes)]

    def eval_metrics(self) -> Sequence[str]:
        """Returns T2T's names of metrics."""
        return [Metrics.ACC]

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts of the first samples of training, without their labels."""
        return iter(adapted(self).inputs_for_vocab(data_dir, tmp_dir))

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoder of text, and that of labels."""
        encoder = self.get_or_create_vocab(data_dir, None, force_get=True)
        return {"inputs": encoder, "targets": ClassLabelEncoder(self.class_labels(data_dir))}

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets modalities and vocabulary sizes of the encoders."""
        super().hparams(defaults, model_hparams)
        defaults.modality["targets"] = ModalityType.CLASS_LABEL


class TextConcat2ClassProblem(Text2ClassProblem):
    """Classification of several texts, which tabs separate on a line."""

    _t2t_lite_adapter: ClassVar[Any] = ConcatAdapter
    CONCAT_TOKEN: ClassVar[str | None] = _Concat.CONCAT_TOKEN


class Text2RealProblem(Text2TextProblem):
    """Regression: samples are `{"inputs": text, "targets": [number, ...]}`."""

    _t2t_lite_adapter: ClassVar[Any] = RealAdapter
    ntasks = 1  # how many numbers each text has

    def max_length(self, model_hparams: HParams) -> int:
        """Returns the longest example that T2T trains on."""
        return int(model_hparams.batch_size * self.ntasks)

    def eval_metrics(self) -> Sequence[str]:
        """Returns T2T's names of metrics."""
        return [Metrics.RMSE, *([Metrics.PEARSON] if self.ntasks == 1 else [])]

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts of the first samples of training, without their numbers."""
        return iter(adapted(self).inputs_for_vocab(data_dir, tmp_dir))

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoder of text, and that of numbers."""
        encoder = self.get_or_create_vocab(data_dir, None, force_get=True)
        return {"inputs": encoder, "targets": RealEncoder()}

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets modalities, and the sizes of the vocabulary and of the targets."""
        encoders = self._encoders or {}
        defaults.modality = dict.fromkeys(encoders, ModalityType.SYMBOL)
        defaults.vocab_size = {
            side: self.ntasks if side == "targets" else encoder.vocab_size
            for side, encoder in encoders.items()
        }
        defaults.modality["targets"] = ModalityType.REAL_L2_LOSS
        defaults.target_space_id = SpaceID.REAL
        defaults.add_hparam("regression_targets", True)


class QuestionAndContext2TextProblem(Text2TextProblem):
    """Questions about a text, which samples have as `context`; no model here reads it."""

    QUESTION_SEPARATOR = "<EOQ>"  # for subclasses that put the context into the inputs
    QUESTION_SEPARATOR_ID = 2

    @property
    def additional_reserved_tokens(self) -> Sequence[str]:
        """The separator."""
        return [self.QUESTION_SEPARATOR]

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts of the first samples of training."""
        samples = self.generate_samples(data_dir, tmp_dir, DatasetSplit.TRAIN)
        for sample in itertools.islice(samples, self.max_samples_for_vocab):
            yield from (sample[feature] for feature in ("inputs", "context", "targets"))

    def feature_encoders(self, data_dir: str) -> dict[str, Any]:
        """Returns the encoder of all texts."""
        encoders = super().feature_encoders(data_dir)
        return {**encoders, "context": encoders["inputs"]}

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets modalities and vocabulary sizes, those of the context, too."""
        super().hparams(defaults, model_hparams)
        defaults.modality["context"] = ModalityType.SYMBOL
        if encoder := (self._encoders or {}).get("context"):
            defaults.vocab_size["context"] = encoder.vocab_size

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split as ids, EOS included."""
        self.get_or_create_vocab(data_dir, tmp_dir)
        encoders = self.feature_encoders(data_dir)
        for sample in self.generate_samples(data_dir, tmp_dir, dataset_split):
            yield {
                feature: [*encoder.encode(sample[feature]), EOS_ID]
                for feature, encoder in encoders.items()
            }

    def example_reading_spec(self) -> tuple[Any, Any]:
        """Returns the features of an example: lists of ids."""
        import tensorflow as tf

        fields, decoders = super().example_reading_spec()
        return {**fields, "context": tf.io.VarLenFeature(tf.int64)}, decoders


# ---- problems that this package does not have, whose classes can be defined


def _lacking(missing: str) -> Any:
    """Returns the adapter of problems that need what this package does not have."""
    return type("TextAdapter", (TextAdapter,), {"missing": missing})


class DistributedText2TextProblem(Text2TextProblem):
    """Data sets read in parts."""

    _t2t_lite_adapter = _lacking(
        "generate_samples with input_files: derive from Text2TextProblem; "
        "t2t-datagen --num_workers and --runner generate in parallel"
    )
