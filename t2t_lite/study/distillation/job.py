"""The job of `t2t-distill`: translate, select, drop, write the text of a student's problem.

Beside the folder to write, `{folder}.part` holds the text to translate and the decoder's journal of
finished batches, from which a killed run goes on. It exists until the folder is complete. A
complete folder is kept if its `origin.json` says that it was made from the same (kept_work.py): the
text is written anew each time, and compared.

Several workers (`decode_shards`) write a folder each, with the training pairs of a part of the
sources. What is not translated, the other splits and, with `back`, the problem's own pairs, is in
the first one: each file is what one process writes, cut into parts.
"""

import contextlib
import dataclasses
import itertools
import logging
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from t2t_lite import files, kept_work, registry
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.loading import find_models
from t2t_lite.decoding.shards import name_of_part, part_of
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import DataError, UsageError
from t2t_lite.kept_work import Fingerprint
from t2t_lite.lock import locked
from t2t_lite.metrics.bleu import Bleu, SentenceBleu
from t2t_lite.metrics.by_name import find_metric
from t2t_lite.problems.text2text_tmpdir import text_files
from t2t_lite.progress import progress
from t2t_lite.runs.checkpoint_names import checkpoints_of_runs
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.settings import settings_of
from t2t_lite.study.distillation.config import ALL, BEST, NEAREST, DistillConfig
from t2t_lite.study.distillation.filters import LengthRatios, PairFilter
from t2t_lite.study.distillation.hypotheses import read_hypotheses
from t2t_lite.study.distillation.text import (
    Pair,
    PairWriter,
    check_direction,
    check_problem,
    one_line,
    pairs_of,
    write_lines,
    write_splits,
)
from t2t_lite.text.text_files import iterate_lines
from t2t_lite.version import __version__

log = logging.getLogger(__name__)

# The tag of back-translated sources (Caswell et al. 2019).
TAG = "<BT>"

ORIGIN = "origin.json"
_PART, _LOCK = ".part", ".part.lock"
_SOURCES, _TRANSLATIONS = "sources.txt", "translations.txt"
_OURS = ("return_beams", "write_beam_scores")  # decode hparams that --select decides about


def run(config: DistillConfig, search: DecoderConfig) -> None:
    """Writes the text of a problem whose training targets (or sources) a teacher wrote.

    Args:
        config: what to translate, and with what.
        search: how the teacher decodes; its files and models are set here.

    Raises:
        UserError: the settings, a teacher or a file are invalid, or the output exists and was made
            with other settings.
    """
    folder = pathlib.Path(os.path.abspath(config.output_problem_dir))  # "." has no name
    if search.decode_shards > 1:
        folder = pathlib.Path(name_of_part(str(folder), search.worker_id))
    problem = check_problem(
        registry.problem(config.problem),
        f"--problem={config.problem}",
        "--decode_hparams=target_language=CODE",
    )
    if config.teacher:
        search = _with_teacher(config, search)
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(folder.name + _PART)
    for name, path in {"translations": config.translations, "sources": config.sources}.items():
        if path and part.resolve() in pathlib.Path(path).resolve().parents:
            raise UsageError(
                f"--{name}={path} is in {part}, which holds unfinished work and is removed at the "
                "end: move the file elsewhere"
            )
    with locked(folder.with_name(folder.name + _LOCK), "t2t-distill", f"is writing {folder}"):
        _Distillation(config, search, problem, part).write(folder)
        shutil.rmtree(part, ignore_errors=True)


class _Distillation:
    """One distillation.

    Args:
        config: what to translate, and with what.
        search: how the teacher decodes; its checkpoints are named.
        problem: the problem of `config`.
        part: folder of the unfinished work.
    """

    def __init__(
        self,
        config: DistillConfig,
        search: DecoderConfig,
        problem: Text2TextProblem,
        part: pathlib.Path,
    ) -> None:
        self._config = config
        self._search = search
        self._problem = problem
        self._part = part

    def write(self, folder: pathlib.Path) -> None:
        """Translates, and writes the folder, unless it has been made from the same."""
        found = kept_work.read_record(folder, folder / ORIGIN)
        trained = self._trained()
        config = self._config
        self._part.mkdir(exist_ok=True)
        counts = write_splits(self._problem, config.data_dir, config.tmp_dir, self._part)
        total = write_lines(self._part / _SOURCES, self._sources())
        texts = [path for split in counts for path in text_files(self._part, split)]
        texts.append(self._part / _SOURCES)
        origin, read = self._origin(texts, trained)
        if found:
            shutil.rmtree(self._part)
            kept_work.refuse_another(folder, found, origin)
            log.info("%s is complete, and made from the same: it is kept", folder)
            return
        with self._hypotheses(trained, total) as hypotheses, files.whole_folder(folder) as made:
            ratios = self._ratios()
            pairs = PairFilter(ratios, config.back)
            written = self._write_training(hypotheses, pairs, made, total)
            for split in counts.keys() - {DatasetSplit.TRAIN} if self._is_first else ():
                for path in text_files(self._part, split):
                    shutil.copy(path, made)
            read.require_unchanged()
            kept_work.write_record(
                made / ORIGIN,
                origin,
                release=__version__,
                settings=_settings(config, self._search),
                length_ratios=[round(ratio, 4) for ratio in ratios],
                outputs={"kept": pairs.kept, "dropped": dict(pairs.dropped)},
                pairs=dict(counts) | {DatasetSplit.TRAIN: written},
            )
        print(pairs)
        log.info("wrote %s: %s training pairs", folder, f"{written:,}")

    def _origin(
        self, texts: Sequence[pathlib.Path], trained: Sequence[TrainedModel]
    ) -> tuple[dict[str, Any], Fingerprint]:
        """Returns what determines the folder's contents, by names for messages; and the files."""
        config, search = self._config, self._search
        hparams = search.search_settings(trained[0].run).to_dict() if trained else {}
        shortlist = hparams.pop("shortlist", "")
        read = Fingerprint([*texts, *filter(None, (config.translations, shortlist))])
        origin = {
            "problem": self._problem.name,
            "text": {path.name: read.digest(path) for path in texts},
            "translations": read.digest(config.translations) if config.translations else "",
            "teacher": [one.origin() for one in trained],
            "decode_hparams": hparams,
            "shortlist": read.digest(shortlist) if shortlist else "",
            "engine": [search.engine, search.compute_type] if trained else [],
            "select": config.select,
            "back": config.back,
        }
        if search.decode_shards > 1:
            origin["part"] = [search.worker_id, search.decode_shards]
        return origin, read

    def _trained(self) -> list[TrainedModel]:
        """Returns the models of the teacher, none if its translations are given."""
        if not self._config.teacher:
            return []
        trained = find_models(self._search)
        run, back = trained[0].run, self._config.back
        flags = f"--problem={self._problem.name}{' --back' if back else ''}"
        check_direction(run, self._problem, back, flags)
        beams = DecodeHParams.of(run, self._search.decode_hparams).beam_size
        if self._config.select != BEST and beams == 1:
            raise UsageError(
                f"--select={self._config.select} reads the hypotheses of a beam: raise beam_size "
                "in --decode_hparams above 1"
            )
        return trained

    def _sources(self) -> Iterator[str]:
        """Yields the lines to translate."""
        if not self._config.back:
            yield from (source for source, _ in self._human_pairs())
        if self._config.sources:
            yield from iterate_lines(self._config.sources)

    def _human_pairs(self) -> Iterator[Pair]:
        return pairs_of(self._part, DatasetSplit.TRAIN)

    def _ratios(self) -> tuple[float, float]:
        ratios = LengthRatios()
        for pair in self._human_pairs():
            ratios.add(*pair)
        return ratios.middle()

    @contextlib.contextmanager
    def _hypotheses(
        self, trained: Sequence[TrainedModel], total: int
    ) -> Iterator[Iterable[Sequence[str]]]:
        """Yields the hypotheses of all sources, once a teacher has translated them."""
        path = self._config.translations
        if path:
            yield self._paired(read_hypotheses(path), path, total)
            return
        search = dataclasses.replace(
            self._search,
            decode_from_file=str(self._part / _SOURCES),
            decode_to_file=str(self._part / _TRANSLATIONS),
        )
        with jobs.decoded(search, trained) as journal:
            yield (line.text.split("\t") for line in journal.lines())

    def _paired(
        self, found: Iterable[Sequence[str]], path: str, total: int
    ) -> Iterator[Sequence[str]]:
        """Yields the hypotheses of a file, after checking that there are as many as sources."""
        count = 0
        for count, hypotheses in enumerate(found, 1):
            if count <= total:
                yield hypotheses
        if count != total:
            raise DataError(
                f"{path} has translations of {count:,} sources, but there are {total:,}: "
                f"translate {self._part / _SOURCES}, line by line, into a file outside that folder"
            )

    def _write_training(
        self,
        found: Iterable[Sequence[str]],
        pairs: PairFilter,
        folder: pathlib.Path,
        total: int,
    ) -> int:
        """Writes the training pairs; returns their number."""
        config, written = self._config, 0
        with (
            PairWriter(folder, DatasetSplit.TRAIN) as writer,
            progress("selecting", len(self._part_of(total)), "sources") as advance,
        ):
            if config.back and self._is_first:
                for pair in self._human_pairs():
                    writer.write(*pair)
                    written += 1
            for line, outputs in self._selected(found, self._part_of(total)):
                for output in outputs:
                    source, target = (output, line) if config.back else (line, output)
                    if pairs.keeps(source, target):
                        writer.write(f"{TAG} {source}" if config.back else source, target)
                advance(1)
        if not pairs.kept and self._search.decode_shards == 1:
            raise DataError(f"{config.output_problem_dir}: nothing is left to train on: {pairs}")
        return written + pairs.kept

    @property
    def _is_first(self) -> bool:
        """Whether what is not translated is in this folder."""
        return self._search.worker_id == 0

    def _part_of(self, total: int) -> range:
        """Returns which of the sources are translated."""
        return part_of(total, self._search.decode_shards, self._search.worker_id)

    def _selected(
        self, found: Iterable[Sequence[str]], part: range
    ) -> Iterator[tuple[str, Sequence[str]]]:
        """Yields each line that was translated, and the hypotheses to keep; "" if there is none."""
        references: Iterable[str] = ()
        if self._config.select == NEAREST:
            references = (target for _, target in self._human_pairs())
        bleu = SentenceBleu(_tokenizer(self._problem))
        lines = itertools.islice(iterate_lines(self._part / _SOURCES), part.start, part.stop)
        each = itertools.islice(itertools.chain(references, itertools.repeat("")), part.start, None)
        # The hypotheses first: their last `next` checks that there are as many as lines.
        for hypotheses, line, reference in zip(found, lines, each, strict=False):
            texts = list(dict.fromkeys(map(one_line, hypotheses))) or [""]
            if reference and len(texts) > 1:
                texts = [bleu.nearest(texts, reference)]
            yield line, texts if self._config.select == ALL else texts[:1]


def _with_teacher(config: DistillConfig, search: DecoderConfig) -> DecoderConfig:
    """Returns the settings of the decoder with the teacher's checkpoints."""
    given = {name.partition("=")[0].strip() for name in search.decode_hparams.split(",")}
    if refused := given & set(_OURS):
        raise UsageError(f"--decode_hparams: leave out {min(refused)}, which --select decides")
    returns_beams = str(config.select != BEST).lower()
    return dataclasses.replace(
        search,
        checkpoint_path=checkpoints_of_runs(config.teacher),
        decode_hparams=",".join(
            filter(
                None,
                [search.decode_hparams, f"return_beams={returns_beams}", "write_beam_scores=false"],
            )
        ),
    )


def _settings(config: DistillConfig, search: DecoderConfig) -> dict[str, Any]:
    """Returns what was asked for, for `origin.json`: not where, nor on which devices."""
    asked = dataclasses.asdict(config)
    del asked["output_problem_dir"]
    if config.teacher:
        chosen = {
            name: getattr(search, name)
            for name, setting in settings_of(DecoderConfig).items()
            if getattr(search, name) != setting.default
        }
        asked["teacher"] = list(chosen.pop("checkpoint_path"))
        chosen.pop("worker_gpu", None)
        asked |= chosen
    return asked


def _tokenizer(problem: Text2TextProblem) -> str:
    """Returns sacreBLEU's tokenizer for the problem's targets: that of its BLEU."""
    metrics = map(find_metric, problem.metrics)
    return next((metric.tokenize for metric in metrics if isinstance(metric, Bleu)), Bleu.tokenize)
