"""The job of `t2t-score-pairs`: scores the training pairs of a problem, for `t2t-datagen --clean`.

A model of each direction computes the cross-entropies of a pair, H(y|x) and H(x|y), as in dual
conditional cross-entropy filtering (Junczys-Dowmunt 2018, https://aclanthology.org/W18-6478/). The
paper's score depends on how hard a sentence is, too: names and rare words make right pairs look
wrong. So each cross-entropy is compared here with that of the same text beside another pair's. The
lesser of the two directions' results counts, so that neither side may say what the other lacks.

Beside the file to write, `{file}.part` holds the text and the decoder's journals, from which a
killed run goes on. It exists until the file is complete. A complete file is kept if its record says
that it was made from the same (kept_work.py).
"""

import dataclasses
import hashlib
import itertools
import logging
import math
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence

import numpy as np

from t2t_lite import files, kept_work, registry
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.loading import find_models
from t2t_lite.decoding.output_formats import written_score
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import DataError
from t2t_lite.kept_work import Fingerprint
from t2t_lite.lock import locked
from t2t_lite.problems.text2text_tmpdir import text_files
from t2t_lite.progress import progress
from t2t_lite.runs.checkpoint_names import checkpoints_of_runs
from t2t_lite.search.decode_hparams import LONGEST
from t2t_lite.study.distillation.scores_config import ScoresConfig
from t2t_lite.study.distillation.text import (
    PairWriter,
    check_direction,
    check_problem,
    pairs_to_clean,
    write_lines,
)
from t2t_lite.text.source_form import has_text
from t2t_lite.text.text_files import iterate_lines
from t2t_lite.version import __version__

log = logging.getLogger(__name__)

_PART, _LOCK = ".part", ".part.lock"
_OTHER = "other."  # before the name of a side's file: in each line, that side of another pair
# The score of a target is then the mean log-probability of its tokens, EOS included.
_MEAN = "alpha=1,length_penalty=average,coverage_penalty=0,well_formed=false"
_SHOWN = (0.01, 0.05, 0.1, 0.2, 0.5)  # quantiles
LEAST = -1.0  # score


def explained(own: np.ndarray, of_other: np.ndarray) -> np.ndarray:
    """Returns the share of each text's cross-entropy that the other side of its pair explains.

    It is 1 - H(y|x) / E. E is expected of a wrong pair: the mean of H(y|x'), and of the mean of
    that over all texts. The first one knows how hard y is. The second one lets no text pass that is
    hard for the model whatever its source, such as one of another language.

    Args:
        own: [N], H(y|x), the cross-entropies of the tokens of texts, each given its source.
        of_other: [N], H(y|x'), the same, given the source of another pair. Infinity: unknown.

    Returns:
        [N], at most 1, and about 0 where the source has nothing to do with the text.

    Examples:
        >>> explained(np.array([2.0, 6.0]), np.array([8.0, 4.0]))
        array([ 0.71428571, -0.2       ])
    """
    known = np.isfinite(of_other)
    mean = of_other[known].mean() if known.any() else 0.0
    expected = (np.where(known, of_other, mean) + mean) / 2
    # A model that is certain of each text tells nothing.
    return 1 - np.divide(own, expected, out=np.ones_like(own), where=expected > 0)


def run(config: ScoresConfig, search: DecoderConfig) -> None:
    """Writes a score for each training pair of a problem.

    Args:
        config: what to score, and with what.
        search: the engine and its devices; files and models are set here.

    Raises:
        UserError: the settings, a model or a file are invalid, or the output exists and was made
            from something else.
    """
    output = pathlib.Path(os.path.abspath(config.pair_scores))
    output.parent.mkdir(parents=True, exist_ok=True)
    with locked(output.with_name(output.name + _LOCK), "t2t-score-pairs", f"is writing {output}"):
        part = output.with_name(output.name + _PART)
        _Scoring(config, search, part).write(output)
        shutil.rmtree(part, ignore_errors=True)


class _Scoring:
    """One scoring.

    Args:
        config: what to score, and with what.
        search: the engine and its devices.
        part: folder of the unfinished work.
    """

    def __init__(self, config: ScoresConfig, search: DecoderConfig, part: pathlib.Path) -> None:
        self._config = config
        self._search = search
        self._part = part
        self._sides = text_files(part, DatasetSplit.TRAIN)
        self._problem = check_problem(
            registry.problem(config.problem),
            f"--problem={config.problem}",
            "--source_language=CODE and --target_language=CODE",
        )

    def write(self, output: pathlib.Path) -> None:
        """Scores, and writes the file, unless it has been made from the same."""
        record = output.with_name(f"{output.name}.origin.json")
        found = kept_work.read_record(output, record)
        forward, backward = self._find_models("forward"), self._find_models("backward")
        self._part.mkdir(exist_ok=True)
        whole = self._write_texts()
        read = Fingerprint(self._sides)
        origin = {
            "text": [read.digest(path) for path in self._sides],
            "empty": hashlib.sha256(whole).hexdigest(),
            "forward": [one.origin() for one in forward],
            "backward": [one.origin() for one in backward],
            "languages": [self._config.source_language, self._config.target_language],
            "engine": [self._search.engine, self._search.compute_type],
        }
        if found:
            shutil.rmtree(self._part)
            kept_work.refuse_another(output, found, origin)
            log.info("%s is complete, and made from the same: it is kept", output)
            return
        of_whole = self._scores(forward, backward)
        scores = [next(of_whole) if is_whole else LEAST for is_whole in whole]
        kept_work.write_record(record, origin, release=__version__)
        files.write_text(output, "".join(f"{score:.5f}\n" for score in scores))
        quantiles = zip(_SHOWN, np.quantile(scores, _SHOWN), strict=True)
        below = ", ".join(f"{share:.0%} below {score:.2f}" for share, score in quantiles)
        print(f"scored {len(scores):,} pairs: {below}")

    def _find_models(self, direction: str) -> list[TrainedModel]:
        """Returns the models of a direction, after checking that it is theirs."""
        names = checkpoints_of_runs(getattr(self._config, direction))
        found = find_models(dataclasses.replace(self._search, checkpoint_path=names))
        flags = f"--problem={self._problem.name} --{direction}"
        check_direction(found[0].run, self._problem, direction == "backward", flags)
        return found

    def _write_texts(self) -> bytearray:
        """Writes both sides of the pairs that have two, and those of other pairs beside them.

        Returns:
            For each pair of the problem whether both of its sides have text that a model can score:
            at most `LONGEST` bytes, since subwords are rarely more than bytes.
        """
        config, whole = self._config, bytearray()
        with (
            PairWriter(self._part, DatasetSplit.TRAIN) as writer,
            progress("reading text", unit="pairs") as advance,
        ):
            for pair in pairs_to_clean(
                self._problem, config.data_dir, config.tmp_dir, config.skip_bad
            ):
                whole.append(all(map(has_text, pair)) and max(map(_bytes_of, pair)) <= LONGEST)
                if whole[-1]:
                    writer.write(*pair)
                advance(1)
        if not whole:
            raise DataError(f"{self._problem.name} has no training pairs in {config.tmp_dir}")
        # Neighbours may be alike. The pair that is half the text away seldom is.
        half = sum(whole) // 2
        for path in self._sides:
            late = itertools.islice(iterate_lines(path), half, None)
            early = itertools.islice(iterate_lines(path), half)
            write_lines(path.with_name(_OTHER + path.name), itertools.chain(late, early))
        return whole

    def _scores(
        self, forward: Sequence[TrainedModel], backward: Sequence[TrainedModel]
    ) -> Iterator[float]:
        """Yields the score of each pair that has two sides: the place that says what it is."""
        languages = self._config.source_language, self._config.target_language
        there = self._explained(forward, self._sides, languages)
        back = self._explained(backward, self._sides[::-1], languages[::-1])
        yield from np.clip(np.minimum(there, back), LEAST, 1).tolist()

    def _explained(
        self,
        models: Sequence[TrainedModel],
        sides: Sequence[pathlib.Path],
        languages: Sequence[str],
    ) -> np.ndarray:
        """Returns what one side of each pair explains of the other; [N]."""
        source, target = sides
        return explained(
            *(
                np.fromiter(self._cross_entropies(models, given, target, languages), np.float64)
                for given in (source, source.with_name(_OTHER + source.name))
            )
        )

    def _cross_entropies(
        self,
        trained: Sequence[TrainedModel],
        source: pathlib.Path,
        target: pathlib.Path,
        languages: Sequence[str],
    ) -> Iterator[float]:
        """Yields the cross-entropy of a token of each target; infinity if its source has no ids."""
        sides = zip(("source", "target"), languages, strict=True)
        known = [f"{side}_language={code}" for side, code in sides if code]
        search = dataclasses.replace(
            self._search,
            decode_from_file=str(source),
            score_file=str(target),
            decode_to_file=str(self._part / f"{source.name}-{target.name}"),
            decode_hparams=",".join([_MEAN, *known]),
        )
        with jobs.decoded(search, trained) as journal:
            for line in journal.lines():
                yield -written_score(line.text) if line.text else math.inf


def _bytes_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
