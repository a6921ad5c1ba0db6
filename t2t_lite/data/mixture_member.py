"""The members of a mixture: problems as the mixture sees them.

A problem without sources is plain text, which a mixture reads in two ways. Its name alone stands
for targets of empty sources; with `_denoise`, sources are the targets with noise
(text/denoising.py). Plain text is for training alone.
"""

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit, Output
from t2t_lite.data.text_problems import SeveralTextsProblem, Text2TextProblem
from t2t_lite.errors import UsageError, quoted
from t2t_lite.text.bad_input import BadInput
from t2t_lite.text.denoising import with_noise
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import TextEncoder

_DENOISE = "_denoise"  # the end of a name


@dataclasses.dataclass(frozen=True)
class Direction:
    """A member of a mixture.

    Attributes:
        problem: its name, which may end in `_rev`; without sources, in `_denoise`.
        weight: its share of the training examples, relative to the others'; None: by its size and
            the hparam `mixture_temperature`. All members have one, or none has.
        source_language: the code of the language of its sources; "": as its problem says.
        target_language: that of its targets, likewise.
        tag: the name of a token that its sources begin with, for a domain or an origin; "": none.
        final_weight: what the weight has become after the first `mixture_annealing_steps` (hparam)
            updates; None: the same. All members have one, or none has.
    """

    problem: str
    weight: float | None = None
    source_language: str = ""
    target_language: str = ""
    tag: str = ""
    final_weight: float | None = None


class Member(Text2TextProblem):
    """A problem in a mixture: its own text, in files of the mixture's vocabulary.

    The files have the sides as the model sees them: a `_rev` member's are exchanged already.

    Args:
        mixture: the mixture.
        of: the problem.
        direction: how the mixture sees it.

    Attributes:
        of: the problem.
        weight: its share of the training examples, relative to the others'; None: by its size.
        final_weight: what the weight becomes; None: the same.
        tag: the name of a token that its sources begin with; "": none.
    """

    def __init__(
        self, mixture: Text2TextProblem, of: Text2TextProblem, direction: Direction
    ) -> None:
        self.of = of
        self._mixture = mixture
        self._direction = direction
        self._is_denoised = direction.problem.endswith(_DENOISE)
        self.weight = direction.weight
        self.final_weight = direction.final_weight
        self.tag = direction.tag
        super().__init__()

    @classmethod
    def of_direction(cls, mixture: Text2TextProblem, direction: Direction) -> "Member":
        """Returns a member after checking it.

        Raises:
            UsageError: the problem is unknown, or cannot be one of a mixture.
        """
        if "+" in direction.problem:
            raise UsageError(
                f"problem {mixture.name!r}: {direction.problem!r} is a mixture: name its members"
            )
        problem = registry.problem(direction.problem.removesuffix(_DENOISE))
        reason = _unfit(problem)
        if not reason and problem.has_inputs and direction.problem.endswith(_DENOISE):
            reason = f"has sources, so that there is no {_DENOISE} of it"
        if reason:
            raise UsageError(f"problem {mixture.name!r}: {direction.problem!r} {reason}")
        assert isinstance(problem, Text2TextProblem)
        member = cls(mixture, problem, direction)
        member._check_direction()
        return member

    def _check_direction(self) -> None:
        from t2t_lite.text.multilingual_encoder import CODE, TAG

        where = f"problem {self._mixture.name!r}: {self.name!r}"
        for weight in (self.weight, self.final_weight):
            if weight is not None and not 0 < weight < math.inf:
                raise UsageError(f"{where}: weight {weight!r}: expected a number above 0")
        _, language = self._own_languages
        if language and not CODE.fullmatch(language):
            raise UsageError(
                f"{where}: target_language {language!r}: expected a code of letters, "
                "digits, - and _, such as 'de' or 'zh_Hant'"
            )
        if self.tag and not TAG.fullmatch(self.tag):
            raise UsageError(
                f"{where}: tag {quoted(self.tag)}: expected letters, digits, - and _, the first "
                "not 2, such as 'bt'"
            )

    # ---- names

    @property
    def base_name(self) -> str:
        """The name of the problem, with `_rev` and `_copy`, or `_denoise`."""
        return self.of.name + _DENOISE * self._is_denoised

    @property
    def generated_by(self) -> str:
        """The mixture."""
        return self._mixture.base_name

    @property
    def data_languages(self) -> tuple[str, str]:
        """The languages that the mixture gives, or else the problem's.

        Plain text of an unknown language is in that of the pairs' targets, if they have one.
        """
        source, target = self._own_languages
        if self.reads_pairs:
            return source, target
        target = target or self._mixture.target_language
        return target if self._is_denoised else "", target

    @property
    def _own_languages(self) -> tuple[str, str]:
        given = self._direction
        return (
            given.source_language or self.of.source_language,
            given.target_language or self.of.target_language,
        )

    @property
    def licence(self) -> str:
        """The problem's."""
        return self.of.licence

    # ---- data

    def dataset_filename(self) -> str:
        """Returns the mixture's, and the name of the problem."""
        return f"{self._mixture.dataset_filename()}-{self.base_name}"

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """The problem's; of plain text, training alone."""
        return self._splits(self.of.dataset_splits)

    def _splits(self, entries: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        if self.reads_pairs:
            return entries
        return [entry for entry in entries if entry["split"] == DatasetSplit.TRAIN]

    def optional_files(self, split: str) -> Sequence[str]:
        """Returns the problem's."""
        return self.of.optional_files(split)

    @property
    def reads_pairs(self) -> bool:
        """Whether the problem has sources."""
        return self.of.has_inputs

    @property
    def sides_of_words(self) -> Sequence[str]:
        """Those of the problem, as the model sees them."""
        if not self.reads_pairs:
            return self.sides
        seen = zip(self.sides, self._sides, strict=True)
        return [side for side, of_problem in seen if of_problem in self.of.sides_of_words]

    @property
    def sides_without_text(self) -> Sequence[str]:
        """The sources of plain text, unless they are its targets with noise."""
        return () if self.reads_pairs or self._is_denoised else ("inputs",)

    @property
    def is_generate_per_split(self) -> bool:
        """As for the problem."""
        return self.of.is_generate_per_split

    def splits_to_generate(self, tmp_dir: str) -> Sequence[dict[str, Any]]:
        """Returns the problem's; of plain text, training alone."""
        return self._splits(self.of.splits_to_generate(tmp_dir))

    def split_settings(self, tmp_dir: str) -> dict[str, Any]:
        """Returns the problem's."""
        return self.of.split_settings(tmp_dir)

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the problem's."""
        return self.of.source_files(tmp_dir, dataset_split)

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the problem's."""
        return self.of.fetch_sources(tmp_dir, dataset_split)

    @property
    def bad_input(self) -> BadInput:
        """The problem's."""
        return self.of.bad_input

    @bad_input.setter
    def bad_input(self, value: BadInput) -> None:
        self.of.bad_input = value

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the problem's, with the sides that the model sees; of plain text, targets."""
        return self._turned(self.of.text_samples(data_dir, tmp_dir, dataset_split))

    def text_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the same, whose sides the problem has checked."""
        return self.generate_samples(data_dir, tmp_dir, dataset_split)

    def prefixed(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yields copies of the samples as they are encoded; plain text gets its sources."""
        if self.reads_pairs:
            return super().prefixed(samples)
        prefix = self.targets_prefix
        texts = (sample["targets"] for sample in samples)
        return (
            {"inputs": with_noise(text) if self._is_denoised else "", "targets": prefix + text}
            for text in texts
        )

    def samples_by_corpus(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[tuple[str, Iterable[Sample]]]:
        """Yields the problem's, with the sides that the model sees."""
        for name, samples in self.of.samples_by_corpus(data_dir, tmp_dir, dataset_split):
            yield name, self._turned(samples)

    def _turned(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        if not self.reads_pairs:
            return iter(samples)
        sources, targets = self._sides
        return ({"inputs": sample[sources], "targets": sample[targets]} for sample in samples)

    @property
    def _sides(self) -> tuple[str, str]:
        """The problem's sides that are inputs and targets here."""
        sides = "inputs", "targets"
        reverse, copy = self.of.was_reversed, self.of.was_copy
        return sides[reverse], sides[reverse == copy]

    # ---- vocabulary

    @property
    def use_vocab_from_other_problem(self) -> Text2TextProblem:
        """The mixture."""
        return self._mixture

    @property
    def vocab_type(self) -> str:
        """The mixture's."""
        return self._mixture.vocab_type

    @property
    def approx_vocab_size(self) -> int:
        """The mixture's."""
        return self._mixture.approx_vocab_size

    @property
    def inputs_prefix(self) -> str:
        """That of the problem's side that is the inputs."""
        return str(getattr(self.of, f"{self._sides[0]}_prefix"))

    @property
    def targets_prefix(self) -> str:
        """That of the problem's side that is the targets."""
        return str(getattr(self.of, f"{self._sides[1]}_prefix"))

    @property
    def already_shuffled(self) -> bool:
        """Whether the problem's files keep the order of its samples."""
        return self.of.already_shuffled

    @property
    def encoding_settings(self) -> dict[str, Any]:
        """What changes the ids of a text: the tokens before it, too."""
        from t2t_lite.text.multilingual_encoder import language_symbol

        tokens = list(self._mixture.additional_reserved_tokens)
        language = language_symbol(self.target_language)
        member = {
            "member": type(self.of).__qualname__,
            "language": language if language in tokens else "",
            "tag": self.tag,
        }
        if not self.reads_pairs:
            member["sources"] = "noise" if self._is_denoised else "none"
        return super().encoding_settings | member

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns the mixture's encoders, that of sources for this direction alone."""
        from t2t_lite.text.multilingual_encoder import MultilingualEncoder, with_tag

        encoders = self._mixture.get_feature_encoders(data_dir)
        inputs = encoders["inputs"]
        assert isinstance(inputs, MultilingualEncoder)
        language = with_tag(self.target_language, self.tag)
        takes_nothing = "inputs" in self.sides_without_text
        return {**encoders, "inputs": inputs.of_member(language, takes_nothing)}

    # ---- decoding and evaluation

    @property
    def decode_hparams(self) -> str:
        """The problem's."""
        return self.of.decode_hparams

    @property
    def metrics(self) -> Sequence[str]:
        """The problem's."""
        return self.of.metrics

    @property
    def is_plain_text(self) -> bool:
        """Whether it is for the problem."""
        return self.of.is_plain_text

    @property
    def allows_source_form(self) -> bool:
        """As for the problem."""
        return self.of.allows_source_form

    @property
    def can_split_sources(self) -> bool:
        """As for the problem."""
        return self.of.can_split_sources

    def source(self, line: str) -> str:
        """Converts a raw line as the problem does."""
        return self.of.source(line)

    def postprocess(self, source: str, target: str) -> Output:
        """Converts a target as the problem does."""
        return self.of.postprocess(source, target)

    def reference(self, source: str, line: str) -> str:
        """Converts a reference as the problem does."""
        return self.of.reference(source, line)


def _unfit(problem: Any) -> str:
    """Returns why a problem cannot be in a mixture; "" if it can."""
    if not isinstance(problem, Text2TextProblem):
        return "yields no pairs of text (it is not a Text2TextProblem)"
    if problem.members != (problem,):
        return "is a mixture: name its members"
    if problem.has_numbers:
        return "has numbers as targets, which a mixture's model does not learn"
    if isinstance(problem, SeveralTextsProblem):
        return "has several texts in a source, which a mixture would join: join them yourself"
    if problem.encodes_samples or problem.writes_files:
        return "encodes its samples or writes its files itself, so that its text is not known"
    return ""
