"""The job of `t2t-shortlist`: reads the training pairs, aligns them, writes the short list."""

import collections
import itertools
import logging
import pathlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from t2t_lite import files
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.progress import progress
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.study.distillation.shortlist_config import ShortlistConfig
from t2t_lite.study.distillation.text import (
    check_problem,
    pairs_of,
    source_files,
    write_splits,
)
from t2t_lite.text.alignment.diagonal_aligner import Pair
from t2t_lite.text.alignment.id_links import LINKS_IGNORED, places_in_text
from t2t_lite.text.alignment.lexicon import counted_table, learned_table, make_shortlist
from t2t_lite.text.alignment.pharaoh import links_of_pairs
from t2t_lite.text.text_encoder import TextEncoder

log = logging.getLogger(__name__)


def run(config: ShortlistConfig) -> None:
    """Writes the short list of a run's vocabularies.

    Raises:
        UserError: the run folder or the text cannot be read, or the list would replace a file
            that is read, or one of the run folder.
        DataError: text and alignments do not fit each other.
    """
    opened = RunFolder.open(config.output_dir)
    problem = check_problem(
        opened.problem,
        f"--output_dir={config.output_dir}: {opened.problem.name}",
        "a run of its own",
    )
    texts_read = source_files(problem, config.data_dir, config.tmp_dir)
    alignments = filter(None, [config.alignments])
    files.refuse_overwriting(config.shortlist, [*opened.own_files(), *texts_read, *alignments])
    encoders = opened.encoders
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        counts = write_splits(problem, config.data_dir, config.tmp_dir, folder)
        texts = list(pairs_of(folder, DatasetSplit.TRAIN))
    with progress("encoding", counts[DatasetSplit.TRAIN], "pairs") as advance:
        pairs = []
        for source, target in texts:
            source = encoders["inputs"].as_source(source)
            pairs.append((_ids(encoders["inputs"], source), _ids(encoders["targets"], target)))
            advance(1)
    if config.alignments:
        table = counted_table(_linked_ids(texts, pairs, config.alignments, encoders))
    else:
        table = learned_table(pairs)
    made = make_shortlist(table, pairs, encoders, config.frequent, config.best)
    made.write(config.shortlist, encoders)
    print(_summary(config.shortlist, made.coverage(pairs)))


def _ids(encoder: TextEncoder, text: str) -> np.ndarray:
    """Returns the ids of a text, without those of its language: it is not translated."""
    return np.array([i for i in encoder.encode(text) if i not in encoder.special_ids], np.int32)


def _linked_ids(
    texts: Sequence[tuple[str, str]],
    pairs: Sequence[Pair],
    path: str,
    encoders: Mapping[str, TextEncoder],
) -> Iterator[tuple[int, int]]:
    """Yields the subwords of linked words, each of a source word with each of a target word."""
    ignored = 0
    columns = zip(texts, pairs, links_of_pairs(texts, path), strict=True)
    for (source, target), (source_ids, target_ids), links in columns:
        sources = _ids_of_words(encoders["inputs"], source_ids, source, is_source=True)
        targets = _ids_of_words(encoders["targets"], target_ids, target)
        ignored += bool(links and not (sources and targets))
        for i, j in links:
            yield from itertools.product(sources[i], targets[j])
    if ignored:
        log.warning(LINKS_IGNORED, path, ignored, "t2t-shortlist without --alignments")


def _ids_of_words(
    encoder: TextEncoder, ids: np.ndarray, text: str, is_source: bool = False
) -> collections.defaultdict[int, list[int]]:
    """Returns the ids of each word by its place, if there are any: see `places_in_text`."""
    found = collections.defaultdict(list)
    places = places_in_text(encoder, ids.tolist(), text, is_source)
    for id_, place in zip(ids.tolist(), places, strict=False):
        found[place].append(id_)
    return found


def _summary(path: str, coverage: tuple[float, float]) -> str:
    share, size = coverage
    return (
        f"wrote {path}: {size:,.0f} candidates for a sentence on average, which include "
        f"{share:.2%} of the training targets' subwords"
    )
