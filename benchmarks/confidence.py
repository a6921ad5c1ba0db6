r"""Does a confidence tell how good a translation is? Correlations with sentence chrF on Multi30k.

    python benchmarks/confidence.py --multi30k=FOLDER --output_dir=confidence

holds pairs of the training split of Multi30k out for the quality model, trains a translator from
English to German on the others for 20 epochs, scores its translations of the pairs held out
(t2t-eval --segment_scores), trains quality models on these scores, and translates
`test_2016_flickr` with confidences. The table, in Markdown, has Spearman's correlation of the
confidence with sacreBLEU's sentence chrF, beside that of the mean log-probability of a
translation's tokens. Neither model has seen these lines.

Files that the folder of Multi30k lacks are downloaded. Steps whose output exists are skipped, so
that a killed command resumes when it is run again; `seconds.txt` has the time that each took.
"""

import argparse
import json
import pathlib
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from adaptation import SEED, Pair, bleu, command, drawn, write_pairs
from choosing import DEV, TEST, TRAIN, multi30k
from sacrebleu.metrics.chrf import CHRF

from t2t_lite import files
from t2t_lite.decoding.config import CTRANSLATE2
from t2t_lite.metrics.correlation import ranks

PROBLEM = "text2text_tmpdir_bpe"
QUALITY = "quality_tmpdir"
VOCABULARY = "vocab.{}.8000.bpe.model"
HELD_OUT = 5_000  # pairs of training for the quality model
UPDATES, WARMUP_STEPS = 2_280, 400  # of the translator: 20 epochs
SEARCH = "beam_size=1"
QUALITY_UPDATES, QUALITY_WARMUP_STEPS = 200, 20
HPARAMS_SET = "transformer_multi30k_prenorm"
HPARAMS = (
    f"learning_rate_warmup_steps={QUALITY_WARMUP_STEPS},"
    f"learning_rate_decay_steps={QUALITY_UPDATES - QUALITY_WARMUP_STEPS}"
)


class Row(NamedTuple):
    """A quality model."""

    name: str
    folder: str
    model: str
    is_warm: bool = True
    hparams: str = "dtype=bfloat16,layer_prepostprocess_dropout=0.1,learning_rate_constant=1e-3"


ROWS = (
    Row(
        "`transformer_estimator`, the translator's weights frozen",
        "frozen",
        "transformer_estimator",
        hparams="frozen=embeddings+encoder+decoder,layer_prepostprocess_dropout=0,"
        "learning_rate_constant=3e-3",
    ),
    Row("`transformer_estimator`", "estimator", "transformer_estimator"),
    Row("`transformer_regressor`", "regressor", "transformer_regressor"),
    Row("`transformer_regressor` without a warm start", "cold", "transformer_regressor", False),
)


class Confidence:
    """The steps, each of which is skipped if its output exists.

    Args:
        args: the command's.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.folder: pathlib.Path = args.output_dir
        self.text, self.data = self.folder / "text", self.folder / "data"
        self.run = self.folder / "translator"
        self.quality_text = self.folder / "quality_text"
        self.test = self.folder / "test"

    def write_text(self) -> None:
        """Writes the pairs.

        The dev split is those held out, and the test split is Multi30k's dev split: what the
        quality model trains on, and its own dev split.
        """
        if self.test.exists():
            return
        splits = multi30k(self.args.multi30k)
        held = drawn(splits[TRAIN], HELD_OUT)
        sources = {source for source, _ in held}
        pairs = [pair for pair in splits[TRAIN] if pair[0] not in sources]
        self._write(TRAIN, pairs)
        self._write(DEV, held)
        self._write(TEST, splits[DEV])
        write_pairs(splits[TEST], self.test, ("test.en", "test.de"))

    def _write(self, split: str, pairs: list[Pair]) -> None:
        write_pairs(pairs, self.text, (f"inputs.{split}.txt", f"targets.{split}.txt"))

    def train_translator(self) -> None:
        """Makes the data and trains the translator."""
        updates = self.args.updates
        if (self.run / f"model.ckpt-{updates}.index").exists():
            return
        self.timed("t2t_datagen", problem=PROBLEM, tmp_dir=self.text, data_dir=self.data)
        self.timed(
            "t2t_trainer",
            problem=PROBLEM,
            data_dir=self.data,
            output_dir=self.run,
            model="transformer",
            hparams_set=HPARAMS_SET,
            hparams=f"dtype=bfloat16,learning_rate_warmup_steps={WARMUP_STEPS},"
            f"learning_rate_decay_steps={updates - WARMUP_STEPS}",
            train_steps=updates,
            schedule="train",
            random_seed=SEED,
        )

    def score_segments(self) -> None:
        """Scores the translator's outputs for the pairs held out, and for the dev split."""
        self.quality_text.mkdir(exist_ok=True)
        for name, split in ((TRAIN, "dev"), (DEV, "test")):
            path = self.quality_text / f"scores.{name}.jsonl"
            if not path.exists():
                self.timed(
                    "t2t_eval",
                    output_dir=self.run,
                    dataset_split=split,
                    segment_scores=path,
                    engine=CTRANSLATE2,
                    decode_hparams=SEARCH,
                )

    def train_quality(self, row: Row) -> pathlib.Path:
        """Trains a quality model; returns its run folder."""
        run = self.folder / "quality" / row.folder
        if (run / f"model.ckpt-{QUALITY_UPDATES}.index").exists():
            return run
        data = self.folder / "quality" / "data"
        if not data.exists():
            # The translator's words: its weights fit as they are.
            with files.whole_folder(data) as made:
                shutil.copy(
                    self.data / VOCABULARY.format(PROBLEM), made / VOCABULARY.format(QUALITY)
                )
                self.timed("t2t_datagen", problem=QUALITY, tmp_dir=self.quality_text, data_dir=made)
        warm = {"warm_start_from": self.run} if row.is_warm else {}
        self.timed(
            "t2t_trainer",
            problem=QUALITY,
            data_dir=data,
            output_dir=run,
            model=row.model,
            hparams_set=HPARAMS_SET,
            hparams=f"{HPARAMS},{row.hparams}",
            train_steps=QUALITY_UPDATES,
            local_eval_frequency=QUALITY_UPDATES // 2,
            random_seed=SEED,
            **warm,
        )
        return run

    def table(self) -> Iterator[str]:
        """Takes all steps; yields the lines of the table."""
        self.write_text()
        self.train_translator()
        self.score_segments()
        yield "| what says how good a translation is | Spearman's r |"
        yield "|---|---:|"
        references = (self.test / "test.de").read_text(encoding="utf-8").splitlines()
        plain = self.translations(self.test / "plain.jsonl")
        chrf = [
            CHRF().sentence_score(output["text"], [reference]).score
            for output, reference in zip(plain, references, strict=True)
        ]
        log_probs = [np.array(output["log_probs"]) for output in plain]
        for kind, means in (
            ("log-probability", [own.mean() for own in log_probs]),
            ("probability", [np.exp(own).mean() for own in log_probs]),
        ):
            yield f"| mean {kind} of its tokens | {spearman(means, chrf):.3f} |"
        for row in ROWS:
            run = self.train_quality(row)
            outputs = self.translations(run / "test.jsonl", quality_run=run)
            confidences = [output["confidence"] for output in outputs]
            yield f"| {row.name} | {spearman(confidences, chrf):.3f} |"
        text = self.test / "translation.de"
        files.write_text(text, "".join(f"{output['text']}\n" for output in plain))
        yield f"\nBLEU of the translations: {bleu(text, self.test / 'test.de')}\n"
        yield (self.folder / "seconds.txt").read_text()

    def translations(self, path: pathlib.Path, **flags: object) -> list[dict[str, Any]]:
        """Returns the translation of each line of the test set, as t2t-decoder tells it in JSON."""
        if not path.exists():
            self.timed(
                "t2t_decoder",
                output_dir=self.run,
                engine=CTRANSLATE2,
                decode_hparams=SEARCH,
                output_format="json",
                decode_from_file=self.test / "test.en",
                decode_to_file=path,
                **flags,
            )
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["hypotheses"][0] for line in lines]

    def timed(self, module: str, **flags: object) -> str:
        """Runs a command; returns what it prints, and notes the seconds that it took."""
        start = time.monotonic()
        printed = command(module, **flags)
        with (self.folder / "seconds.txt").open("a") as file:
            file.write(f"{module} {flags.get('output_dir', '')} {time.monotonic() - start:.0f}\n")
        return printed


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns Spearman's correlation."""
    both = [ranks(np.array(numbers)) for numbers in (one, other)]
    return float(np.corrcoef(*both)[0, 1])


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = pathlib.Path
    parser.add_argument("--multi30k", type=path, required=True, help="folder of Multi30k's files")
    parser.add_argument("--output_dir", type=path, required=True, help="folder for everything")
    parser.add_argument("--updates", type=int, default=UPDATES, help="of the translator")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for line in Confidence(parser.parse_args()).table():
        print(line, flush=True)


if __name__ == "__main__":
    main()
