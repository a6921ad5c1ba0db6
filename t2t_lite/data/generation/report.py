"""Statistics of a problem's text before training: the tables of `t2t-datagen --report`.

Reads the raw text as data generation does, and writes nothing. Memory does not grow with the
corpus. Tokens are ids as in training, with EOS.
"""

import collections
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from t2t_lite.data.batching import BatchingScheme, batch_parts
from t2t_lite.data.generation import record_text
from t2t_lite.data.generation.cleaning import Cleaner, CleaningRules
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.file_groups import FileGroup, file_groups
from t2t_lite.data.generation.findings import Findings
from t2t_lite.data.generation.generator import check_cleaning, seed_random
from t2t_lite.data.generation.lengths import SIDES, Lengths, arrays, describe, table
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.hparams.basic import DRAWN_ANEW, BasicHParams
from t2t_lite.progress import progress
from t2t_lite.settings import settings_by_group
from t2t_lite.text.number_encoder import NumberEncoder
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import EOS_ID

if TYPE_CHECKING:
    from t2t_lite.text.text_encoder import TextEncoder

# Pairs encoded at a time.
_BLOCK = 4096
# Distinct unknown characters or tokens to keep; beyond this, the rarer half is dropped.
_MAX_UNKNOWN = 100_000
_NAMED_UNKNOWN = 10
# The columns of vocabulary coverage: least occurrences of an id.
_OCCURRENCES = (1, 10, 100)


def report(
    problem: Problem,
    data_dir: str,
    tmp_dir: str,
    options: DatagenOptions,
    hparams: BasicHParams | None,
) -> Iterator[str]:
    """Yields the report as blocks of text for a terminal: of each split, then the findings.

    Args:
        problem: the problem whose text to read. If it encodes its samples or writes its files
            itself, its data files are read; if there are none, they are generated in a temporary
            folder.
        data_dir: folder of the vocabulary; tables that need it are omitted if it is missing.
        tmp_dir: folder of the raw files and downloads.
        options: how the data would be generated.
        hparams: determine the batches of training; None: omit them.
    """
    for member in problem.members:
        if isinstance(member, Text2TextProblem):
            check_cleaning(member, options)
    if hparams is not None:
        # Raise their errors before the work.
        BatchingScheme.from_hparams(hparams, training=True)
        batch_parts(hparams, replicas=1)
    for member in problem.members:
        yield from _report(member, data_dir, tmp_dir, options, hparams)


def _report(
    problem: Problem,
    data_dir: str,
    tmp_dir: str,
    options: DatagenOptions,
    hparams: BasicHParams | None,
) -> Iterator[str]:
    if record_text.is_needed(problem):
        with record_text.folder(problem, data_dir, tmp_dir, options) as folder:
            yield from _report_on_records(problem, folder, tmp_dir, hparams)
    elif isinstance(problem, Text2TextProblem):
        yield from _report_on_text(problem, data_dir, tmp_dir, options, hparams)


def _report_on_text(
    problem: Text2TextProblem,
    data_dir: str,
    tmp_dir: str,
    options: DatagenOptions,
    hparams: BasicHParams | None,
) -> Iterator[str]:
    files = [pathlib.Path(data_dir, name) for name in problem.vocab_files()]
    missing = [path for path in files if not path.is_file()]
    encoders = {} if missing else problem.feature_encoders(data_dir)
    if missing:
        yield (
            f"{missing[0]} is missing: tokens, unknown characters, vocabulary coverage and batches "
            f"are omitted; run t2t-datagen --problem={problem.generated_by} first\n"
        )
    findings = Findings(problem, data_dir, tmp_dir, encoders)
    groups = file_groups(problem, data_dir, tmp_dir)
    for group in groups:
        problem.fetch_sources(tmp_dir, group.source)
    for group in groups:
        is_training = group.source == DatasetSplit.TRAIN
        scores = options.scores() if is_training else None
        rules = options.cleaning if is_training else CleaningRules()
        cleaner = Cleaner(rules, scores, problem.sides_of_words)
        statistics = TextStatistics(encoders, problem.sides)
        seed_random(options, group.source)
        corpora = problem.samples_by_corpus(data_dir, tmp_dir, group.source)
        with progress(group.title) as advance:
            reader = _Reader(group, statistics, findings, advance)
            counts = _read(problem, corpora, cleaner, reader)
        if scores is not None:
            scores.require_end()
        yield f"== {group.title}\n"
        yield counts
        yield from statistics.blocks(is_training, hparams)
    yield from _describe_findings(findings)


def _report_on_records(
    problem: Problem, data_dir: str, tmp_dir: str, hparams: BasicHParams | None
) -> Iterator[str]:
    encoders = problem.feature_encoders(data_dir)
    findings = Findings(problem, data_dir, tmp_dir, encoders)
    for group in record_text.groups(problem, data_dir):
        statistics = TextStatistics(encoders, problem.sides)
        with progress(group.title) as advance:
            reader = _Reader(group, statistics, findings, advance)
            examples = record_text.samples(problem, encoders, group)
            while block := list(itertools.islice(examples, _BLOCK)):
                reader.add([sample for sample, _ in block], [ids for _, ids in block])
        yield f"== {group.title}\n"
        yield table([["records", f"{reader.count:,}"]])
        yield from statistics.blocks(group.source == DatasetSplit.TRAIN, hparams)
    yield from _describe_findings(findings)


def _describe_findings(findings: Findings) -> Iterator[str]:
    if lines := findings.lines():
        yield "\n".join(["== findings", *lines, ""])


class _Reader:
    """Hands the samples of a group to the statistics and to the findings."""

    def __init__(
        self,
        group: FileGroup,
        statistics: "TextStatistics",
        findings: Findings,
        advance: Callable[[int], None],
    ) -> None:
        self.count = 0
        self._group = group
        self._statistics = statistics
        self._findings = findings
        self._advance = advance

    def add(self, block: Sequence[Sample], ids: Sequence[record_text.Ids] | None = None) -> None:
        """Adds consecutive samples, with their ids if they were encoded before."""
        self._statistics.add(block, ids)
        inputs, targets = ([sample[side] for sample in block] for side in SIDES)
        self._findings.add(self._group, self.count, inputs, targets)
        self.count += len(block)
        self._advance(len(block))


def _read(
    problem: Text2TextProblem,
    corpora: Iterable[tuple[str, Iterable[Sample]]],
    cleaner: Cleaner,
    reader: _Reader,
) -> str:
    """Hands all pairs that `cleaner` keeps to the reader; returns the table of its counts."""
    rows = [["corpus", "pairs", *cleaner.dropped, "kept"]]

    def add_row(name: str, dropped: Mapping[str, int], kept: int) -> None:
        counts = (kept + sum(dropped.values()), *dropped.values(), kept)
        rows.append([name, *(f"{count:,}" for count in counts)])

    for name, samples in corpora:
        dropped, kept = cleaner.dropped.copy(), cleaner.kept
        pairs = problem.prefixed(filter(cleaner.keeps, samples))
        while block := list(itertools.islice(pairs, _BLOCK)):
            reader.add(block)
        here = {rule: count - dropped[rule] for rule, count in cleaner.dropped.items()}
        add_row(name, here, cleaner.kept - kept)
    if len(rows) > 2:
        add_row("total", cleaner.dropped, cleaner.kept)
    return table(rows)


class TextStatistics:
    """Counts over pairs of text.

    Args:
        encoders: the encoder of each side; if empty, only words are counted.
        sides: those that samples have: a language model has no inputs.

    Attributes:
        words: lengths of the pairs in words separated by white space.
        tokens: lengths of the pairs in tokens.
    """

    def __init__(self, encoders: Mapping[str, "TextEncoder"], sides: Sequence[str] = SIDES) -> None:
        self.words: Lengths = collections.Counter()
        self.tokens: Lengths = collections.Counter()
        self._encoders = encoders
        self._ids = {side: np.zeros(e.vocab_size, np.int64) for side, e in encoders.items()}
        self._unknown: collections.Counter[str] = collections.Counter()
        self._unknown_in_all = 0
        self._sides = sides

    def add(self, block: Sequence[Sample], ids: Sequence[record_text.Ids] | None = None) -> None:
        """Counts some pairs.

        Args:
            block: their text.
            ids: their ids, EOS included; None: encode the text.
        """
        sides = {side: [sample[side] for sample in block] for side in SIDES}
        words = [[len(line.split()) for line in lines] for lines in sides.values()]
        self.words.update(zip(*words, strict=True))
        if self._encoders:
            tokens = []
            for side, lines in sides.items():
                encoded = [example.get(side, []) for example in ids] if ids is not None else None
                tokens.append(self._count(side, lines, encoded))
            self.tokens.update(zip(*tokens, strict=True))

    def _count(
        self, side: str, lines: Sequence[str], encoded: Sequence[Sequence[int]] | None
    ) -> list[int]:
        """Counts the ids and unknown parts of some lines; returns the tokens of each line."""
        if side not in self._sides:
            return [0] * len(lines)
        encoder, counts = self._encoders[side], self._ids[side]
        if side == "inputs":
            lines = encoder.as_sources(lines)
        if encoded is None:
            encoded = [[*ids, EOS_ID] for ids in encoder.encode_lines(lines)]
        ids = np.fromiter(itertools.chain.from_iterable(encoded), np.int64)
        if not isinstance(encoder, NumberEncoder):  # whose ids are bits
            counts += np.bincount(ids[ids < len(counts)], minlength=len(counts))
        for line in lines:
            if unknown := encoder.unknown(line):
                self._unknown_in_all += len(unknown)
                self._unknown.update(unknown)
        if len(self._unknown) > _MAX_UNKNOWN:
            self._unknown = collections.Counter(dict(self._unknown.most_common(_MAX_UNKNOWN // 2)))
        return [len(ids) for ids in encoded]

    def blocks(self, is_training: bool, hparams: BasicHParams | None) -> Iterator[str]:
        """Yields all tables; of training, those of the vocabulary and of the batches, too."""
        yield from self.describe()
        if is_training and self._encoders:
            yield self.describe_vocabulary()
            if hparams is not None:
                yield describe_batches(self.tokens, hparams)

    def describe(self) -> Iterator[str]:
        """Yields tables of the lengths, and the characters unknown to the vocabulary."""
        yield from describe({"words": self.words, "tokens": self.tokens}, self._sides)
        if self._encoders:
            most = self._unknown.most_common(_NAMED_UNKNOWN)
            named = ", ".join(f"{_spelled(text)} {count:,}" for text, count in most)
            yield f"unknown to the vocabulary: {self._unknown_in_all:,}{named and f' ({named})'}\n"

    def describe_vocabulary(self) -> str:
        """Returns a table of the share of each vocabulary that occurs in the text."""
        encoders = list(self._encoders.values())
        counted = {
            side: self._ids[side]
            for side in self._sides
            if not isinstance(self._encoders[side], NumberEncoder)
        }
        if len(encoders) == 2 and encoders[0] is encoders[1]:
            counted = {"both sides": self._ids["inputs"] + self._ids["targets"]}
        rows = [["vocabulary", "ids", *(f"seen >= {least}" for least in _OCCURRENCES)]]
        for side, counts in counted.items():
            shares = [(counts >= least).mean() for least in _OCCURRENCES]
            rows.append([side, f"{len(counts):,}", *(f"{share:.1%}" for share in shares)])
        return table(rows)


# ---- batches


def describe_batches(tokens: Lengths, hparams: BasicHParams) -> str:
    """Returns a table of dropped pairs, padding and steps per epoch in training.

    Padding is the expected share in random batches.

    Args:
        tokens: the pairs by their lengths in tokens.
        hparams: determine the batches; one replica is assumed.
    """
    scheme = BatchingScheme.from_hparams(hparams, training=True)
    parts = batch_parts(hparams, replicas=1)
    lengths, pairs = arrays(tokens)
    sources, targets = lengths.T  # [n], views
    if hparams.max_input_seq_length:
        sources.clip(max=hparams.max_input_seq_length, out=sources)
    if hparams.prepends_inputs:
        targets += sources + 1
    if hparams.max_target_seq_length:
        targets.clip(max=hparams.max_target_seq_length, out=targets)
    longer = lengths.max(axis=1)
    too_long, too_short = longer > scheme.max_length, longer < scheme.min_length
    buckets = np.array([scheme.bucket(length) for length in longer])
    buckets[too_long | too_short] = -1
    steps = cells = used = 0.0
    for bucket in np.unique(buckets[buckets >= 0]):
        inside = buckets == bucket
        members = pairs[inside].sum()
        sentences = scheme.batch_sizes[bucket] * parts
        steps += members / sentences
        for side in lengths[inside].T:
            cells += members * _expected_maximum(side, pairs[inside], sentences)
            used += side @ pairs[inside]
    counts = table(
        [
            [f"batches of batch_size={hparams.batch_size}", "one replica"],
            ["pairs in an epoch", f"{pairs[buckets >= 0].sum():,}"],
            [f"dropped: longer than max_length={scheme.max_length}", f"{pairs[too_long].sum():,}"],
            [
                f"dropped: shorter than min_length={scheme.min_length}",
                f"{pairs[too_short].sum():,}",
            ],
            ["padding", f"{1 - used / cells:.1%}" if cells else "-"],
            ["steps per epoch", f"{steps:,.1f}"],
        ]
    )
    changes = [s.name for s in settings_by_group(BasicHParams)[DRAWN_ANEW]]
    given = [f"{name}={value:g}" for name in changes if (value := getattr(hparams, name))]
    note = f"not counted: what {', '.join(given)} changes when the model is trained\n"
    return counts + note if given else counts


def _expected_maximum(values: np.ndarray, weights: np.ndarray, draws: int) -> float:
    """Returns the expected maximum of `draws` draws from a weighted sample."""
    order = values.argsort()
    up_to = weights[order].cumsum() / weights.sum()  # P(one draw <= value)
    return float(values[order] @ np.diff(up_to**draws, prepend=0))


def _spelled(text: str) -> str:
    return f"{text!r} U+{ord(text):04X}" if len(text) == 1 else repr(text)
