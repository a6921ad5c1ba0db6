"""Findings: what is wrong with the text of a problem though it can be read.

Sides that are exchanged or copied, test sentences in training, a vocabulary that does not fit,
missing cells of a table: data generation, its report and the trainer name them in one line each.

Of each split, every n-th sample is kept, n growing with the split, and examined at its end: memory
and time hardly depend on the size of the corpus. Held-out samples are looked for among those
training samples whose digests have a number of low bits zero, also growing. If there are findings,
`Findings.write` puts them beside the data as `{problem}.findings.json`, for the trainer.
"""

import json
import logging
import pathlib
import unicodedata
import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from t2t_lite import files, json_files
from t2t_lite.data.generation import text_checks
from t2t_lite.data.generation.chunks import Chunk
from t2t_lite.data.generation.file_groups import FileGroup
from t2t_lite.data.generation.text_checks import Directions, Pair
from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit, Problem
from t2t_lite.data.text_problems import Text2TextProblem, TranslateProblem
from t2t_lite.errors import DataError, UserError, quoted
from t2t_lite.text.text_encoder import TextEncoder, TokenTextEncoder, VocabType
from t2t_lite.text.text_files import open_file, raw_lines

log = logging.getLogger(__name__)

_SIDES = ("inputs", "targets")
_MOST_PAIRS = 4096  # kept of a split; at least half as many, if it has them
_MOST_DIGESTS = 2**20  # kept of training
_FEWEST = 3  # pairs with a fault
# Shares of pairs or words that are a finding.
_EXCHANGED = 0.01
_COPIED = 0.03
_LEAKED = 0.05
_UNKNOWN = 0.2
_OTHER_FORM = 0.01
# From this share of copies on, a task may be to copy.
_ALL_COPIED = 0.95

_ALL = "all"  # the key of what is wrong with the vocabulary
_BESIDE = " beside train"  # ends the keys of findings that rest on the training text, too


class SplitText:
    """What is kept of the text of a split.

    Attributes:
        count: number of samples.
        pairs: every n-th sample.
        missing: samples with a missing cell: the number of each side, and the first.
    """

    def __init__(self) -> None:
        self.count = 0
        self.pairs: list[Pair] = []
        self.missing: dict[str, tuple[int, Pair]] = {}
        self._step = 1
        self._mask = 0
        self._digests: list[np.ndarray] = []  # rows of digest and number

    def add(self, numbers: Sequence[int], inputs: Sequence[str], targets: Sequence[str]) -> None:
        """Adds samples.

        Args:
            numbers: their numbers, from 1, within the text they come from.
            inputs: their inputs.
            targets: their targets.
        """
        start = -self.count % self._step
        self.pairs += map(
            Pair, *(values[start :: self._step] for values in (numbers, inputs, targets))
        )
        self.count += len(numbers)
        while len(self.pairs) > _MOST_PAIRS:
            self._step *= 2
            del self.pairs[1::2]
        for side, texts, others in zip(_SIDES, (inputs, targets), (targets, inputs), strict=True):
            found = [n for n, text in enumerate(texts) if text_checks.missing_cell(text, others[n])]
            if found:
                first = Pair(numbers[found[0]], inputs[found[0]], targets[found[0]])
                count, first = self.missing.get(side, (0, first))
                self.missing[side] = (count + len(found), first)
        self._add_digests(numbers, inputs, targets)

    def _add_digests(
        self, numbers: Sequence[int], inputs: Sequence[str], targets: Sequence[str]
    ) -> None:
        digests = np.fromiter(map(_digest, inputs, targets), np.int64, len(numbers))
        rows = np.stack([digests, np.fromiter(numbers, np.int64, len(numbers))])
        self._digests.append(rows[:, digests & self._mask == 0])
        while sum(rows.shape[1] for rows in self._digests) > _MOST_DIGESTS:
            self._mask = 2 * self._mask + 1
            self._digests = [rows[:, rows[0] & self._mask == 0] for rows in self._digests]

    def occurrences_in(self, other: "SplitText") -> tuple[list[tuple[Pair, int]], int]:
        """Looks for the kept sentences in another split.

        Returns:
            The pairs found, with the number of an occurrence, and how many were looked for.
        """
        numbers = dict(np.concatenate(other._digests, axis=1).T.tolist())
        sought = 0
        pairs = []
        for pair in self.pairs:
            digest = _digest(pair.inputs, pair.targets)
            if digest & other._mask or not text_checks.is_sentence(pair.inputs or pair.targets):
                continue
            sought += 1
            if digest in numbers:
                pairs.append((pair, numbers[digest]))
        return pairs, sought


def _digest(source: str, target: str) -> int:
    crc = zlib.crc32(source.encode("utf-8", "surrogatepass"))
    return (len(source) << 32) + zlib.crc32(target.encode("utf-8", "surrogatepass"), crc)


class Findings:
    """Looks at the text of a problem while it is read.

    Args:
        problem: the problem.
        data_dir: folder of the vocabulary.
        tmp_dir: folder of the raw files.
        encoders: those of the sides of the problem; empty: without a vocabulary.
    """

    def __init__(
        self,
        problem: Problem,
        data_dir: str,
        tmp_dir: str,
        encoders: Mapping[str, TextEncoder],
    ) -> None:
        self._problem = problem
        self._data_dir = data_dir
        self._tmp_dir = tmp_dir
        self._encoders = encoders
        self._prefixes = ("", "")
        if isinstance(problem, Text2TextProblem) and not problem.encodes_samples:
            self._prefixes = (problem.inputs_prefix, problem.targets_prefix)
        self._splits: dict[str, SplitText] = {}
        self._logged: set[str] = set()
        self._sources: dict[str, str] = {}  # the split that `generate_samples` is asked for

    def watched(self, group: FileGroup, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yields the chunks of a group, and looks at them unless they are ids."""
        if isinstance(self._problem, Text2TextProblem) and self._problem.encodes_samples:
            yield from chunks
            return
        for chunk in chunks:
            self.add(group, chunk.first, chunk.inputs, chunk.targets)
            yield chunk

    def add(
        self, group: FileGroup, first: int, inputs: Sequence[str], targets: Sequence[str]
    ) -> None:
        """Looks at consecutive samples of a group.

        Args:
            group: their files.
            first: number of the first one, from 0.
            inputs: their inputs.
            targets: their targets.
        """
        inputs, targets = (
            [text.removeprefix(prefix) for text in texts] if prefix else texts
            for prefix, texts in zip(self._prefixes, (inputs, targets), strict=True)
        )
        splits = list(group.files.values())
        numbers = range(first + 1, first + 1 + len(targets))
        for split in dict.fromkeys(splits):
            here = [n for n in range(len(targets)) if splits[(first + n) % len(splits)] == split]
            if len(here) == len(targets):  # nearly always
                parts: tuple[Sequence, ...] = numbers, inputs, targets
            else:
                parts = tuple([values[n] for n in here] for values in (numbers, inputs, targets))
            self._sources[split] = group.source
            self._splits.setdefault(split, SplitText()).add(*parts)

    # ---- the findings

    def lines(self) -> list[str]:
        """Returns all findings."""
        return [line for found in self._by_split().values() for line in found]

    def write(self) -> None:
        """Writes the findings beside the data, and logs the new ones; other splits keep theirs."""
        if not self._splits:
            return
        path = _path(self._problem, self._data_dir)
        now = self._by_split()
        every = {**_read(path), **now}
        if DatasetSplit.TRAIN in self._splits:  # what others had beside another one is past
            every = {k: lines for k, lines in every.items() if k in now or not k.endswith(_BESIDE)}
        names = [name + end for name in SPLIT_FILE_NAMES.values() for end in ("", _BESIDE)]
        every = {name: every[name] for name in (*names, _ALL) if name in every}
        if any(every.values()):
            files.write_text(path, json.dumps(every, indent=1, ensure_ascii=False) + "\n")
        else:
            path.unlink(missing_ok=True)
        for line in (line for found in now.values() for line in found):
            if line not in self._logged:
                log.warning("%s", line)
                self._logged.add(line)

    def _by_split(self) -> dict[str, list[str]]:
        """Returns the findings by the name of the split, and of what they rest on."""
        found: dict[str, list[str]] = {}
        for split in self._splits:
            found[SPLIT_FILE_NAMES[split]] = [*self._missing(split), *self._unknown(split)]
            found[SPLIT_FILE_NAMES[split] + _BESIDE] = []
        for split, line in (*self._directions(), *self._leaks(), *self._forms()):
            found[SPLIT_FILE_NAMES[split] + _BESIDE].append(f"{SPLIT_FILE_NAMES[split]}: {line}")
        return {**found, _ALL: list(self._vocabulary())}

    def _missing(self, split: str) -> Iterator[str]:
        for side, (count, pair) in self._splits[split].missing.items():
            if self._problem.has_text_targets or side != "targets":
                text = pair.side(side)
                yield (
                    f"{SPLIT_FILE_NAMES[split]}: {count:,} {side} are a missing cell of a table "
                    f"({quoted(text)}), first {self._place(split, pair)}: drop such rows where "
                    "generate_samples reads the table (with pandas: dropna), or fill in the text"
                )

    def _unknown(self, split: str) -> Iterator[str]:
        pairs = self._splits[split].pairs
        for side, encoder in self._encoders.items():
            parts = unknown = 0
            first: tuple[Pair, str] | None = None
            for pair in pairs:
                text = encoder.as_source(pair.inputs) if side == "inputs" else pair.side(side)
                is_tokens = isinstance(encoder, TokenTextEncoder)
                parts += len(text.split() if is_tokens else text)
                here = encoder.unknown(text)
                unknown += len(here)
                if here and first is None:
                    first = pair, here[0]
            if first is None or unknown <= _UNKNOWN * parts:
                continue
            pair, example = first
            unit = "words" if isinstance(encoder, TokenTextEncoder) else "characters"
            yield (
                f"{SPLIT_FILE_NAMES[split]}: {unknown / parts:.0%} of the {unit} of {side} are "
                f"unknown to the vocabulary, first {quoted(example)}, {self._place(split, pair)}: "
                "take the vocabulary of this text, spelled, tokenized and normalised (NFC) alike"
            )

    def _vocabulary(self) -> Iterator[str]:
        problem = self._problem
        kinds = VocabType.TOKEN, VocabType.SUBWORD
        if isinstance(problem, Text2TextProblem) and problem.vocab_type in kinds:
            kept = (pair for split in self._splits.values() for pair in split.pairs)
            text_is_nfc = all(
                unicodedata.is_normalized("NFC", text)
                for pair in kept
                for text in (pair.inputs, pair.targets)
            )
            paths = [pathlib.Path(self._data_dir, name) for name in problem.vocab_files()]
            if problem.vocab_type == VocabType.TOKEN:  # the user's own list, if it is another file
                paths += problem.vocab_source_files(self._tmp_dir)
            for path in paths:
                yield from vocabulary_faults(path, text_is_nfc)

    def _forms(self) -> Iterator[tuple[str, str]]:
        """Yields splits with targets in another form of Unicode than others: outputs have one."""
        are_nfc = {
            split: [(pair, text_checks.is_nfc(pair.targets)) for pair in found.pairs]
            for split, found in self._splits.items()
        }
        if not any(is_nfc for found in are_nfc.values() for _, is_nfc in found):
            return
        for split, found in are_nfc.items():
            others = [pair for pair, is_nfc in found if is_nfc is False]
            accented = sum(is_nfc is not None for _, is_nfc in found)
            if len(others) >= max(1, _OTHER_FORM * accented):
                yield (
                    split,
                    "targets are not in Unicode's form NFC, as others "
                    f"are, in {self._amount(split, len(others), accented)} with accents, first "
                    f"{self._place(split, others[0])} ({quoted(others[0].targets)}): normalise "
                    "them (NFC); outputs that differ in form alone count as wrong",
                )

    def _directions(self) -> Iterator[tuple[str, str]]:
        """Yields splits with what is wrong with the sides of pairs: exchanged, or the same."""
        problem = self._problem
        if not (problem.has_inputs and problem.has_text_targets and self._splits):
            return
        texts = {split: found.pairs for split, found in self._splits.items()}
        every = [pair for pairs in texts.values() for pair in pairs]
        known = Directions(texts.get(DatasetSplit.TRAIN) or every)
        copied = {split: text_checks.copies(pairs) for split, pairs in texts.items()}
        shares = [len(found) / of for found, of in copied.values() if of]
        # Where all is copied, copying may be the task, but not if this holds for one split only.
        are_faults = (
            isinstance(self._problem, TranslateProblem)
            or text_checks.are_translations(every)
            or min(shares, default=0) < _ALL_COPIED <= max(shares, default=0)
        )
        for split, pairs in texts.items():
            exchanged = known.exchanged(pairs)
            if len(exchanged) >= max(_FEWEST, _EXCHANGED * len(pairs)):
                yield (
                    split,
                    "source and target language are exchanged in "
                    f"{self._amount(split, len(exchanged), len(pairs))}, first "
                    f"{self._place(split, exchanged[0])} ({quoted(exchanged[0].inputs)}): exchange "
                    "the two files or columns there",
                )
            found, of = copied[split]
            if are_faults and len(found) >= max(_FEWEST, _COPIED * of):
                yield (
                    split,
                    "source and target are the same in "
                    f"{self._amount(split, len(found), of)} with sentences, first "
                    f"{self._place(split, found[0])} ({quoted(found[0].inputs)}): translate them, "
                    "or drop them (in training: --clean=identical)",
                )

    def _leaks(self) -> Iterator[tuple[str, str]]:
        """Yields splits with pairs of the training data."""
        train = self._splits.get(DatasetSplit.TRAIN)
        for split, held_out in self._splits.items():
            if train is None or split == DatasetSplit.TRAIN:
                continue
            found, of = held_out.occurrences_in(train)
            is_trial = len(found) == of and train.count <= held_out.count
            if is_trial or len(found) < max(_FEWEST, _LEAKED * of):
                continue
            pair, number = found[0]
            again = self._place(DatasetSplit.TRAIN, Pair(number, pair.inputs, pair.targets))
            yield (
                split,
                f"{self._amount(split, len(found), of)} are in the training data, too, first "
                f"{self._place(split, pair)}, in training {again}: "
                "remove them from the training data, or scores mean nothing",
            )

    def _amount(self, split: str, found: int, of: int) -> str:
        """Returns how many pairs of a split are found: exactly, unless some were not looked at."""
        text = self._splits[split]
        if len(text.pairs) == text.count:
            return f"{found:,} of {of:,} pairs"
        return f"about {found / of:.1%} of the pairs"

    def _place(self, split: str, pair: Pair) -> str:
        """Returns where a sample stands: file and line if they are found, or else its number."""
        source = self._sources[split]
        paths = self._problem.source_files(self._tmp_dir, source)
        return text_checks.find_place(paths, pair.inputs, pair.targets) or (
            f"sample {pair.number:,} of {SPLIT_FILE_NAMES[source]}"
        )


def vocabulary_faults(path: pathlib.Path, text_is_nfc: bool) -> Iterator[str]:
    """Yields what is wrong with the lines of a vocabulary of text.

    Args:
        path: the file; nothing is wrong if it is missing.
        text_is_nfc: whether the text to encode is normalised.
    """
    if not path.is_file():
        return
    try:
        lines = [line.removesuffix(b"\n") for line in raw_lines(open_file(path), str(path))]
    except DataError:  # an archive that a list is made of, or damaged, which its reader tells
        return
    kinds = {
        "end in CR": lambda line: line.endswith(b"\r"),
        "begin or end with a tab": lambda line: (
            line.strip(b" \r").strip(b"\t") != line.strip(b" \r")
        ),
        "are not in Unicode's form NFC, as the text is": lambda line: (
            text_is_nfc and not unicodedata.is_normalized("NFC", line.decode("utf-8", "replace"))
        ),
    }
    remedies = ("convert it, for example with dos2unix", "remove them", "normalise it to NFC")
    for (kind, is_fault), remedy in zip(kinds.items(), remedies, strict=True):
        if numbers := [number for number, line in enumerate(lines, 1) if is_fault(line)]:
            yield f"{path}: {len(numbers):,} lines {kind}, first line {numbers[0]:,}: {remedy}"


def of_data(problem: Problem, data_dir: str) -> list[str]:
    """Returns the findings that data generation has left beside the data."""
    members = problem.members
    return [
        f"{member.name}, {line}" if len(members) > 1 else line
        for member in members
        for found in _read(_path(member, data_dir)).values()
        for line in found
    ]


def _path(problem: Problem, data_dir: str) -> pathlib.Path:
    return pathlib.Path(data_dir) / f"{problem.dataset_filename()}.findings.json"


def _read(path: pathlib.Path) -> dict[str, list[str]]:
    if not path.is_file():
        return {}
    try:
        found = json_files.parse_object(path.read_bytes())
    except (ValueError, UserError) as error:
        raise UserError(f"{path}: not a file of findings ({str(error)[:100]}); delete it") from None
    if not all(
        isinstance(lines, list) and set(map(type, lines)) <= {str} for lines in found.values()
    ):
        raise UserError(f"{path}: expected lists of texts; delete it")
    return found
