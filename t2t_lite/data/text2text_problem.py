"""The base of all problems whose samples are text: pairs of lines."""

import abc
import itertools
import logging
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_lite.data import members
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.errors import DataError, UserError, quoted
from t2t_lite.text.sample import Sample
from t2t_lite.text.source_form import source_form
from t2t_lite.text.text_encoder import TextEncoder, VocabType

log = logging.getLogger(__name__)

# Bytes need no vocabulary, and lists of tokens are the user's.
_NOT_BUILT = (VocabType.CHARACTER, VocabType.TOKEN)
# The types of the vocabularies whose models read sources in `source_form`, if they are built here.
_OF_SOURCE_FORM = (VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM)


class Text2TextProblem(Problem):
    """Pairs of lines.

    Attributes:
        kept: yields those of training's samples that the vocabulary is built from; data generation
            sets it, for `--clean`.
    """

    kept: Callable[[Iterable[Sample]], Iterator[Sample]] = staticmethod(iter)

    # ---- what a subclass provides

    @abc.abstractmethod
    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields `{"inputs": text, "targets": text}` for each pair; without inputs, `targets` only.

        Args:
            data_dir: folder of the results.
            tmp_dir: folder of the raw files and downloads.
            dataset_split: a `DatasetSplit`; only TRAIN if `is_generate_per_split` is false.
        """

    def text_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Yields the samples of `generate_samples`, both sides as text."""
        samples = self.generate_samples(data_dir, tmp_dir, dataset_split)
        return checked_samples(samples, self.base_name, self.sides, self.further_features)

    def samples_by_corpus(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterable[tuple[str, Iterable[Sample]]]:
        """Yields the samples of `text_samples` by named corpus, for `t2t-datagen --report`."""
        yield self.base_name, self.text_samples(data_dir, tmp_dir, dataset_split)

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterable[Mapping[str, Sequence[int]]]:
        """Yields the samples of a split as ids, EOS included, in an encoding of the subclass's own.

        Data generation calls it where a subclass defines it, and then accepts no `--clean`;
        elsewhere it encodes `generate_samples` in parallel, by `feature_encoders`.
        """
        raise NotImplementedError

    @property
    def reads_pairs(self) -> bool:
        """Whether samples have inputs; for others, `prefixed` may make some."""
        return self.has_inputs

    @property
    def sides_without_text(self) -> Sequence[str]:
        """The sides that records have, but `prefixed` leaves empty in every sample."""
        return ()

    @property
    def sides_of_words(self) -> Sequence[str]:
        """The sides whose words `--clean` counts: not labels, numbers or the symbols of trees."""
        return self.sides if self.has_text_targets else ("inputs",)

    @property
    def encodes_samples(self) -> bool:
        """Whether a subclass defines `generate_encoded_samples`."""
        own = type(self).generate_encoded_samples
        return own is not Text2TextProblem.generate_encoded_samples

    @property
    def is_generate_per_split(self) -> bool:
        """Whether `generate_samples` yields each split; else its samples are spread over all."""
        return True

    # ---- what a subclass may change

    @property
    def vocab_type(self) -> str:
        """A `VocabType`."""
        return VocabType.SUBWORD

    @property
    def approx_vocab_size(self) -> int:
        """Size of the vocabulary to build: approximate for SUBWORD, exact for SentencePiece."""
        return 2**15

    @property
    def additional_reserved_tokens(self) -> Sequence[str]:
        """Tokens that get the ids after EOS (SUBWORD); control symbols (SentencePiece)."""
        return []

    @property
    def max_subtoken_length(self) -> int | None:
        """Upper bound, exclusive, on the characters of a subtoken (SUBWORD); None: no limit."""
        return 200

    @property
    def max_samples_for_vocab(self) -> int | None:
        """Number of pairs the vocabulary is built from; None: all."""
        return None

    @property
    def oov_token(self) -> str | None:
        """The token that replaces unknown tokens (TOKEN)."""
        return None

    @property
    def use_vocab_from_other_problem(self) -> "Text2TextProblem | None":
        """Another problem whose vocabulary this problem uses."""
        return None

    @property
    def inputs_prefix(self) -> str:
        """Text prepended to every source."""
        return ""

    @property
    def targets_prefix(self) -> str:
        """Text prepended to every target."""
        return ""

    @property
    def already_shuffled(self) -> bool:
        """Whether training files keep the order of the samples; else they are shuffled."""
        return False

    @property
    def encoding_settings(self) -> dict[str, Any]:
        """What changes the ids of a text, besides the vocabulary; the data's fingerprint has it."""
        return {"inputs_prefix": self.inputs_prefix, "targets_prefix": self.targets_prefix}

    @property
    def vocab_settings(self) -> dict[str, Any]:
        """What changes the vocabulary built from a text; its fingerprint has it."""
        return {
            "additional_reserved_tokens": list(self.additional_reserved_tokens),
            "max_subtoken_length": self.max_subtoken_length,
            "max_samples_for_vocab": self.max_samples_for_vocab,
        }

    # ---- vocabulary

    @property
    def vocab_filename(self) -> str:
        """T2T's name of the vocabulary file, such as `vocab.{problem}.{size}.subwords`."""
        other = self.use_vocab_from_other_problem
        if other is not None:
            return other.vocab_filename
        if self.vocab_type == VocabType.TOKEN:
            return f"vocab.{self.dataset_filename()}.tokens"
        stem = f"vocab.{self.dataset_filename()}.{self.approx_vocab_size}"
        if self.vocab_type in (VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM):
            return f"{stem}.{self.vocab_type}.model"
        return f"{stem}.{VocabType.SUBWORD}"

    def vocab_files(self) -> list[str]:
        """Returns the one vocabulary file; none for bytes."""
        return [] if self.vocab_type == VocabType.CHARACTER else [self.vocab_filename]

    @property
    def vocab_languages(self) -> tuple[str, ...]:
        """The languages of two vocabularies, one of each side: see `TwoVocabularies`."""
        return ()

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns one encoder for both sides; override for two vocabularies."""
        encoder = self.load_vocab(data_dir)
        return dict.fromkeys(self.sides, encoder)

    def load_vocab(self, data_dir: str) -> TextEncoder:
        """Reads the vocabulary."""
        from t2t_lite.text import text_encoder

        if self.vocab_type == VocabType.CHARACTER:
            return text_encoder.ByteTextEncoder()
        return self._read_vocab(pathlib.Path(data_dir) / self.vocab_filename)

    def _read_vocab(self, path: pathlib.Path) -> TextEncoder:
        from t2t_lite.text import vocabularies

        if not path.is_file():
            raise UserError(
                f"no vocabulary for {self.name!r}: {path} is missing; generate it with "
                f"t2t-datagen --problem={self.generated_by} --data_dir={path.parent}, or, if the "
                "data has moved, name its folder with --data_dir"
                if self.vocab_type != VocabType.TOKEN
                else f"no vocabulary for {self.name!r}: put your tokens, one per line, into {path}"
            )
        return vocabularies.load(self.vocab_type, path, oov_token=self.oov_token)

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Writes those `vocab_files` that are missing; here from the text of training."""
        other = self.use_vocab_from_other_problem
        if other is not None:
            other.bad_input = self.bad_input
            other.build_vocab(data_dir, tmp_dir)
        elif self.vocab_files() and self.vocab_type not in _NOT_BUILT:
            path = pathlib.Path(data_dir) / self.vocab_filename
            if not path.is_file():
                self._build_vocab(path, self.generate_text_for_vocab(data_dir, tmp_dir))

    def _build_vocab(self, path: pathlib.Path, lines: Iterable[str]) -> None:
        from t2t_lite.text import vocabularies

        log.info("building the vocabulary %s", path)
        vocabularies.build(
            self.vocab_type,
            path,
            lines,
            self.approx_vocab_size,
            reserved_tokens=self.additional_reserved_tokens,
            max_subtoken_length=self.max_subtoken_length,
            reads_source_form=self.reads_source_form,
        )

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the text that the vocabulary is built from: both sides of these samples."""
        for sample in self.samples_for_vocab(data_dir, tmp_dir):
            yield from (sample[side] for side in self.sides)

    def samples_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[Sample]:
        """Yields the samples that the vocabulary is built from: the first of those kept."""
        samples = self.kept_samples(data_dir, tmp_dir)
        return self.with_read_sources(itertools.islice(samples, self.max_samples_for_vocab))

    def kept_samples(self, data_dir: str, tmp_dir: str) -> Iterator[Sample]:
        """Yields the samples of training that are kept."""
        return self.kept(self.text_samples(data_dir, tmp_dir, DatasetSplit.TRAIN))

    @property
    def allows_source_form(self) -> bool:
        """Whether sources may be read in `source_form`, which changes the words of some."""
        return True

    @property
    def reads_source_form(self) -> bool:
        """Whether the models of a vocabulary that is built here read sources in `source_form`."""
        return self.vocab_type in _OF_SOURCE_FORM and self.allows_source_form

    def with_read_sources(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yields samples with their inputs as models of a vocabulary of this type read them."""
        if not (self.has_inputs and self.reads_source_form):
            return iter(samples)
        return ({**sample, "inputs": _as_source(sample["inputs"])} for sample in samples)

    def vocab_source_files(self, tmp_dir: str) -> Sequence[pathlib.Path]:
        """Returns those files the vocabulary is built from that exist.

        These are the files of the training split; none for TOKEN.
        """
        if self.vocab_type == VocabType.TOKEN:
            return []
        return self.source_files(tmp_dir, DatasetSplit.TRAIN)

    # ---- files

    @property
    def members(self) -> "tuple[Text2TextProblem, ...]":
        """The problems that this one is made of: itself, in general."""
        return (self,)

    def check(self) -> None:
        """Checks the values of the members, before anything is generated."""
        members.check(self)
        other = self.use_vocab_from_other_problem
        if other is None or self.vocab_type == VocabType.CHARACTER:
            return
        kind, languages = other.vocab_type, other.vocab_languages
        expected = f"as for {other.name!r}, whose vocabulary it uses: "
        is_of_kind, own = self.vocab_type == kind, self.vocab_languages
        members.require(self, "vocab_type", self.vocab_type, is_of_kind, f"{expected}{kind!r}")
        has_both = {*own} == {*languages}
        members.require(self, "vocab_languages", own, has_both, f"{expected}{languages}")

    @property
    def writes_files(self) -> bool:
        """Whether a subclass overrides `write_files`."""
        return type(self).write_files is not Problem.write_files

    def splits_to_generate(self, tmp_dir: str) -> Sequence[dict[str, Any]]:
        """Returns the entries of `dataset_splits`, except an optional one without any file."""
        return [
            entry
            for entry in self.dataset_splits
            if not self.optional_files(entry["split"]) or self.source_files(tmp_dir, entry["split"])
        ]

    def split_settings(self, tmp_dir: str) -> dict[str, Any]:
        """What decides which samples a split has, besides its files; the fingerprint has it.

        Of data whose raw files are gone, nothing is known any more: an empty dictionary.
        """
        return {}

    def prefixed(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yields copies of the samples, `inputs_prefix` and `targets_prefix` before the text."""
        inputs, targets = self.inputs_prefix, self.targets_prefix
        if not self.has_inputs:
            return (
                {**sample, "inputs": "", "targets": targets + sample["targets"]}
                for sample in samples
            )
        return (
            {**sample, "inputs": inputs + sample["inputs"], "targets": targets + sample["targets"]}
            for sample in samples
        )


def _as_source(line: str) -> str:
    """Returns a source, or several separated by tabs, as models read it."""
    return "\t".join(map(source_form, line.split("\t")))


def checked_samples(
    samples: Iterable[Any], name: str, sides: Sequence[str], further: Sequence[str] = ()
) -> Iterator[Sample]:
    """Yields the samples of `generate_samples`, each with its sides as text.

    They are copies, since a problem may fill the same dictionary again and again.

    Args:
        samples: what the problem's method returned.
        name: the problem's name, for errors.
        sides: those that a sample has.
        further: what else it may have, of any kind.
    """
    for number, sample in numbered(samples, name):
        try:
            is_text = all(isinstance(sample[side], str) for side in sides)
        except (KeyError, TypeError):
            is_text = False
        if not is_text:
            raise unexpected(name, number, sample, f"text: `{'` and `'.join(sides)}`")
        yield {name: sample[name] for name in (*sides, *further) if name in sample}


def numbered(samples: Any, name: str) -> Iterator[tuple[int, Any]]:
    """Numbers samples from 1; DataError if the problem's method returned no samples at all."""
    if not isinstance(samples, Iterable):
        raise DataError(
            f"{name}: generate_samples returned {quoted(samples)}: expected it to yield "
            "samples, or to return a list of them"
        )
    return enumerate(samples, 1)


def unexpected(name: str, number: int, sample: Any, expected: str) -> DataError:
    """Returns the error for a sample that is something else than expected."""
    return DataError(
        f"{name}: sample {number} of generate_samples: expected a dictionary with {expected}; "
        f"got {quoted(sample)}"
    )
