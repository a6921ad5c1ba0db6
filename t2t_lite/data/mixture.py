"""Problems made of problems: one model of many languages, domains or origins of its text.

    t2t-datagen --problem=translate_ende_x+translate_enfr_x+translate_enfr_x_rev ...

Any names joined by "+" are a mixture, with weights if all have one: `a:0.7+b:0.3`; weights may
change in training: `a:0.9..0.5+b:0.1..0.5`. A class gives a mixture a name and settings of its own:

    @registry.register_problem
    class TranslateManyX(MultilingualProblem):
        directions = ("translate_ende_x", Direction("translate_enfr_crawl", tag="crawl"))

A member without sources is plain text beside the pairs, `a+plain_text_tmpdir`, or text to mend,
`a+plain_text_tmpdir_denoise`: see `data.mixture_member`.

All members share a vocabulary. If they have several target languages, or tags, each source begins
with the token of its translation's language (Johnson et al. 2017); a tag adds a token for a domain
or an origin, such as back-translation (Caswell et al. 2019).
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import pathlib
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, ClassVar

from t2t_lite import files
from t2t_lite.data.mixture_member import Direction, Member
from t2t_lite.data.problem import SPLIT_FILE_NAMES, Output
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import UsageError, warn_once
from t2t_lite.names import ProblemName
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import TextEncoder, VocabType

__all__ = ["Direction", "Member", "MultilingualProblem", "NamedMixture", "of_name"]

_JOIN, _WEIGHT, _TO = "+", ":", ".."
_SENTENCEPIECE = (VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM)
# What converts text; it must be the same for all members, since outputs do not tell their member.
_CONVERSIONS = ("source", "postprocess", "reference")


class MultilingualProblem(Text2TextProblem):
    """Base class: several problems, called members, with one vocabulary.

    Attributes:
        directions: the members, or the names of their problems.
        vocab_temperature: the vocabulary is built from lines of a member of n pairs in proportion
            to n to the power of 1 / vocab_temperature: 1 is by size, infinity equal for all.

    Raises:
        UsageError: a member is unknown or cannot be one, its language is unknown though there are
            several or tags, or a weight or tag is not what it should be.
    """

    directions: Sequence[str | Direction] = ()
    vocab_temperature: ClassVar[float] = 5.0

    vocab_type = VocabType.SENTENCEPIECE_BPE
    approx_vocab_size = 16_000
    max_samples_for_vocab = 5_000_000

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        super().__init__(was_reversed, was_copy)
        if was_reversed or was_copy:
            raise UsageError(
                f"problem {self.name!r}: a mixture has no other forms; give its members _rev or "
                f"_copy: {_JOIN.join(f'{d.problem}_rev' for d in map(_direction, self.directions))}"
            )
        if self.vocab_type not in _SENTENCEPIECE:
            raise UsageError(
                f"problem {self.name!r}: vocab_type is {self.vocab_type!r}: the vocabulary of a "
                f"mixture is one of {', '.join(_SENTENCEPIECE)}"
            )
        self._check_members()

    # ---- members

    @functools.cached_property
    def members(self) -> tuple[Member, ...]:
        """The members, in their order: each is a problem with files and encoders of its own."""
        return tuple(
            Member.of_direction(self, direction) for direction in map(_direction, self.directions)
        )

    @functools.cached_property
    def _pairs(self) -> tuple[Member, ...]:
        """The members that are not plain text, which alone are evaluated."""
        return tuple(member for member in self.members if member.reads_pairs)

    def _check_members(self) -> None:
        members = self.members
        if not members:
            raise UsageError(f"problem {self.name!r}: directions is empty: name its members")
        if not self._pairs:
            raise UsageError(
                f"problem {self.name!r}: {members[0].name!r} is plain text, and so are all others: "
                "name a problem with sources as well"
            )
        ((name, count), *_) = Counter(member.name for member in members).most_common(1)
        if count > 1:
            raise UsageError(f"problem {self.name!r} names {name!r} twice")
        for kind in ("weight", "final_weight"):
            without = [m.name for m in members if getattr(m, kind) is None]
            if 0 < len(without) < len(members):
                raise UsageError(
                    f"problem {self.name!r}: {without[0]!r} has no {kind}: give one to every "
                    "member or to none"
                )
        if self.has_language_tokens:
            for member in members:
                if not member.target_language:
                    raise UsageError(
                        f"problem {self.name!r}: the language of the targets of {member.name!r} is "
                        "unknown: name it, Direction(problem=..., target_language=...) in a class "
                        "derived from MultilingualProblem, or as the member's data_languages"
                    )
        unknown = {m.of.base_name: m.name for m in self._pairs if not m.target_language}
        if len(unknown) > 1:
            warn_once(
                f"problem {self.name!r}: the languages of the targets of "
                f"{' and '.join(map(repr, unknown.values()))} are unknown, and taken to be one: "
                "if they are several, name them as data_languages in the class of each problem, so "
                "that sources tell which one to write"
            )
        kinds = {m.name: [getattr(type(m.of), n) for n in _CONVERSIONS] for m in self._pairs}
        first = self._pairs[0].name
        for name, conversions in kinds.items():
            if conversions != kinds[first]:
                raise UsageError(
                    f"problem {self.name!r}: {first!r} and {name!r} convert text in different ways "
                    f"({', '.join(_CONVERSIONS)}): they cannot be members of one mixture"
                )

    @property
    def has_language_tokens(self) -> bool:
        """Whether sources begin with a language: if there are several of targets, or tags."""
        members = self.members
        several = len({member.target_language for member in members}) > 1
        return several or any(member.tag for member in members)

    def rates(self, sizes: Sequence[int], temperature: float) -> Sequence[float]:
        """Returns the members' shares: by their weights, or else by their sizes."""
        weights = [member.weight for member in self.members if member.weight is not None]
        return shares(weights, 1) if weights else shares(sizes, temperature)

    @property
    def final_rates(self) -> Sequence[float]:
        """The members' shares by their final weights; none if they have none."""
        weights = [m.final_weight for m in self.members if m.final_weight is not None]
        return shares(weights, 1) if weights else []

    @property
    def data_languages(self) -> tuple[str, str]:
        """The languages of all members but plain text; "": there are several."""
        sources, targets = zip(*(member.data_languages for member in self._pairs), strict=True)
        return _common(sources, ""), _common(targets, "")

    @property
    def licence(self) -> str:
        """The licence of all members, or that of each."""
        licences = {member.name: member.licence for member in self.members}
        if len({*licences.values()}) == 1:
            return self.members[0].licence
        return "; ".join(f"{name}: {text or 'not stated'}" for name, text in licences.items())

    # ---- data

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """The splits that a member has, and the number of their files."""
        entries = [entry for member in self.members for entry in member.dataset_splits]
        shards = dict.fromkeys(SPLIT_FILE_NAMES, 0)
        for entry in entries:
            shards[entry["split"]] += entry["shards"]
        return [{"split": split, "shards": count} for split, count in shards.items() if count]

    def filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of a split of those members that have it."""
        having = [member for member in self.members if member.has_split(split)]
        paths = [path for member in having for path in member.filepaths(data_dir, split)]
        return paths or super().filepaths(data_dir, split)  # which names the splits

    def existing_filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of those members that have a split; see the base class."""
        having = [member for member in self.members if member.has_split(split)]
        having = [member for member in having if member.has_split(split, data_dir)] or having
        paths = [path for one in having for path in one.existing_filepaths(data_dir, split)]
        return paths or super().existing_filepaths(data_dir, split)  # which names the splits

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the existing files of all members."""
        found = (member.source_files(tmp_dir, dataset_split) for member in self.members)
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Downloads the missing files of all members, and returns all files."""
        found = (member.fetch_sources(tmp_dir, dataset_split) for member in self.members)
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the pairs of one member after the other."""
        for member in self._pairs:
            member.bad_input = self.bad_input
            if member.has_split(dataset_split):
                yield from member.text_samples(data_dir, tmp_dir, dataset_split)

    def change_of_examples(self, hparams: Any, split: str | None) -> None:
        """Refuses members whose examples are changed when they are read: records tell no member.

        Args:
            hparams: of the model.
            split: what the examples are read for; None: for decoding.

        Raises:
            UsageError: a member changes them.
        """
        for member in self.members:
            changes = getattr(member.of, "change_of_examples", None)
            if changes and changes(hparams, split) is not None:
                raise UsageError(
                    f"problem {self.name!r}: {member.name!r} changes its examples when they are "
                    "read (preprocess_example), which a mixture does not: leave it out"
                )

    # ---- vocabulary

    @property
    def additional_reserved_tokens(self) -> Sequence[str]:
        """The tokens of the target languages, if sources have them, and of the tags."""
        from t2t_lite.text.multilingual_encoder import language_symbol, tag_symbol

        targets = {member.target_language for member in self.members}
        languages = sorted(targets) if self.has_language_tokens else []
        tags = sorted({member.tag for member in self.members} - {""})
        return [*map(language_symbol, languages), *map(tag_symbol, tags)]

    @property
    def vocab_settings(self) -> dict[str, Any]:
        """What changes the vocabulary: the members, too."""
        temperature = {"vocab_temperature": self.vocab_temperature}
        return super().vocab_settings | temperature | {"members": self._definition()}

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the text that the vocabulary is built from, by `vocab_temperature`.

        Of a large member, every n-th pair or so is taken, of a small one each pair several times.
        Meanwhile a temporary file has the text of all, since the sizes must be known first.
        """
        members = sorted(self.members, key=lambda member: member.name)
        with (
            files.errors_of(tempfile.gettempdir()),
            tempfile.TemporaryFile("w+", encoding="ascii") as file,
        ):
            sizes = []
            for member in members:
                member.bad_input = self.bad_input
                samples = member.kept_samples(data_dir, tmp_dir)
                if member.reads_pairs:
                    samples = self.with_read_sources(samples)
                sizes.append(_written(samples, file))
            file.seek(0)
            total = min(sum(sizes), self.max_samples_for_vocab or sum(sizes))
            rates = shares(sizes, self.vocab_temperature) if total else sizes
            for size, rate in zip(sizes, rates, strict=True):
                wanted = round(total * rate)
                for number, line in enumerate(itertools.islice(file, size)):
                    times = (number + 1) * wanted // size - number * wanted // size
                    yield from json.loads(line) * times

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns the encoder of sources, which knows the languages, and that of targets."""
        from t2t_lite.text.multilingual_encoder import MultilingualEncoder

        targets = self.load_vocab(data_dir)
        inputs = MultilingualEncoder(pathlib.Path(data_dir) / self.vocab_filename)
        return {"inputs": inputs, "targets": targets}

    def _definition(self) -> list[list[str]]:
        """Returns what the vocabulary and the data files depend on."""
        return sorted([m.name, *m.data_languages, m.tag] for m in self.members)

    # ---- decoding and evaluation

    @property
    def decode_hparams(self) -> str:
        """Those of the members, if all have the same."""
        return _common((member.decode_hparams for member in self._pairs), "")

    @property
    def metrics(self) -> Sequence[str]:
        """Those of the members, or else chrF, which does not depend on what a word is."""
        own = _common((tuple(member.metrics) for member in self._pairs), ())
        return own or ("chrf",)

    @property
    def is_plain_text(self) -> bool:
        """Whether it is for the members."""
        return self._pairs[0].is_plain_text

    @property
    def allows_source_form(self) -> bool:
        """Whether those of all members may."""
        return all(member.allows_source_form for member in self._pairs)

    @property
    def can_split_sources(self) -> bool:
        """Whether the sources of all members may be split."""
        return all(member.can_split_sources for member in self._pairs)

    def source(self, line: str) -> str:
        """Converts a raw line as all members do."""
        return self._pairs[0].source(line)

    def postprocess(self, source: str, target: str) -> Output:
        """Converts a target as all members do."""
        return self._pairs[0].postprocess(source, target)

    def reference(self, source: str, line: str) -> str:
        """Converts a reference as all members do."""
        return self._pairs[0].reference(source, line)


class NamedMixture(MultilingualProblem):
    """A mixture given by a name such as `a:0.7+b:0.3`.

    Args:
        directions: the members.
    """

    directions: Sequence[Direction]

    def __init__(self, directions: Sequence[Direction]) -> None:
        self.directions = directions
        super().__init__()

    @property
    def base_name(self) -> str:
        """The names of the problems, with their weights."""
        return _JOIN.join(d.problem + _weights(d) for d in self.directions)

    def dataset_filename(self) -> str:
        """Returns a short name: that of the files continues with the member's.

        It depends neither on the order nor on the weights, so that rates may change without
        generating the data again.
        """
        contents = json.dumps(self._definition()).encode()
        return f"mixture_{hashlib.sha256(contents).hexdigest()[:8]}"


def of_name(name: str) -> NamedMixture:
    """Returns the mixture with a name such as `translate_ende_x:0.7+translate_enfr_x:0.3`.

    Raises:
        UsageError: a name is unknown, or a weight is not a positive number.
    """
    directions = [_parsed(part, name) for part in name.split(_JOIN)]
    if all(one.final_weight == one.weight for one in directions):  # weights that do not change
        directions = [dataclasses.replace(one, final_weight=None) for one in directions]
    return NamedMixture(directions)


def _weights(direction: Direction) -> str:
    """Returns the weights of a member as its name gives them; "" if it has none."""
    weights = [w for w in (direction.weight, direction.final_weight) if w is not None]
    return _WEIGHT * bool(weights) + _TO.join(map(_number, weights))


def _number(weight: float) -> str:
    """Returns a weight as text, without the + of exponents."""
    return f"{weight:.12g}".replace("e+", "e")


def _parsed(part: str, name: str) -> Direction:
    problem, colon, text = map(str.strip, part.partition(_WEIGHT))
    if not problem:
        raise UsageError(f"problem {name!r}: expected a name before and after each {_JOIN}")
    problem = str(ProblemName.parse(problem))
    if not colon:
        return Direction(problem)
    try:
        weights = [float(weight) for weight in text.split(_TO, 1)]
    except ValueError:
        raise UsageError(
            f"problem {name!r}: the weight of {problem!r} is {text!r}: expected a number, as in "
            f"{problem}{_WEIGHT}0.5, or two, as in {problem}{_WEIGHT}0.5{_TO}0.1"
        ) from None
    final_weight = weights[1] if len(weights) > 1 else None
    return Direction(problem, weights[0], final_weight=final_weight)


def _direction(member: str | Direction) -> Direction:
    return Direction(member) if isinstance(member, str) else member


def _written(samples: Iterable[Sample], file: IO[str]) -> int:
    """Writes the texts of each sample to a line; returns the number of samples."""
    count = 0
    for sample in samples:
        file.write(json.dumps([sample[side] for side in ("inputs", "targets") if side in sample]))
        file.write("\n")
        count += 1
    return count


def shares(sizes: Sequence[float], temperature: float) -> list[float]:
    """Returns sizes to the power of 1 / temperature, divided by their sum."""
    largest = max(sizes)
    powers = [(size / largest) ** (1 / temperature) for size in sizes]
    return [power / sum(powers) for power in powers]


def _common(values: Iterable[Any], default: Any) -> Any:
    """Returns the only value; the default if there are several."""
    different = set(values)
    return different.pop() if len(different) == 1 else default
