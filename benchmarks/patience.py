r"""Compares how long CTranslate2's beam search goes on: its `patience`.

    pip install -e '.[ct2]'
    python benchmarks/patience.py --output_dir=runs/base --checkpoints=300,500,700 \
        --text=dev.en --references=dev.de [--lines=500] [--patience=1,1.25,1.5,2] [--rounds=3]

prints a row for each checkpoint and patience, with beam 4: how many outputs differ from those of
TensorFlow's search, how many of these have a lower score and how many have fewer subwords, BLEU,
and the processor time, relative to that of the first patience in the same round (the median of all
rounds, in which each patience has its turn).
"""

import argparse
import os
import statistics
from collections.abc import Sequence

from t2t_lite.decoding import ctranslate2_engine
from t2t_lite.decoding.config import CTRANSLATE2, TENSORFLOW
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.hypotheses import Hypothesis, Source
from t2t_lite.metrics.bleu import corpus_bleu
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_files import read_lines

CLOSE = 1e-4  # difference of scores that rounding explains


def timed(
    decoder: Decoder, sources: Sequence[Source], patience: float
) -> tuple[list[Hypothesis], float]:
    """Returns the outputs of a search, and the seconds of processor time that it took."""
    ctranslate2_engine.PATIENCE = patience
    before = os.times()
    found = [beams[0] for beams in decoder.decode(sources)]
    after = os.times()
    return found, after.user + after.system - before.user - before.system


def bleu(found: Sequence[Hypothesis], references: Sequence[str]) -> float:
    """Returns the BLEU of outputs."""
    return corpus_bleu([best.output.text for best in found], references).score


def compare(run: run_folder.RunFolder, step: str, args: argparse.Namespace) -> None:
    """Prints the rows of a checkpoint."""
    lines, references = ([*read_lines(path)][: args.lines] for path in (args.text, args.references))
    hparams = DecodeHParams.of(run.problem, "beam_size=4")
    judge, decoder = (
        Decoder.from_run(run, f"{run.folder}/model.ckpt-{step}", hparams, engine=engine)
        for engine in (TENSORFLOW, CTRANSLATE2)
    )
    sources = judge.text.encode(lines)
    expected = [beams[0] for beams in judge.decode(sources)]
    print(f"| {step} | TensorFlow | | | | {bleu(expected, references):.2f} | | |", flush=True)
    found: dict[float, list[Hypothesis]] = {}
    seconds: dict[float, list[float]] = {patience: [] for patience in args.patience}
    timed(decoder, sources[:20], args.patience[0])  # what comes first takes longer
    for _ in range(args.rounds):
        for patience in args.patience:
            found[patience], taken = timed(decoder, sources, patience)
            seconds[patience].append(taken)
    for patience, outputs in found.items():
        others = [
            (source, first, second)
            for source, first, second in zip(sources, expected, outputs, strict=True)
            if first.ids != second.ids
        ]
        given = [source for source, *_ in others]
        scores = [best.score for (best,) in judge.score(given, [b.ids for *_, b in others])]
        lower = sum(
            a.score - score > CLOSE for (_, a, _), score in zip(others, scores, strict=True)
        )
        shorter = sum(len(b.ids) < len(a.ids) for _, a, b in others)
        rounds = zip(seconds[patience], seconds[args.patience[0]], strict=True)
        times = statistics.median(taken / first for taken, first in rounds)
        print(
            f"| {step} | {patience:g} | {len(others)} of {len(lines)} | {lower} | {shorter} | "
            f"{bleu(outputs, references):.2f} | {times:.2f} | {min(seconds[patience]):.1f} |",
            flush=True,
        )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output_dir", required=True, help="run folder")
    parser.add_argument("--checkpoints", required=True, help="their steps, with commas between")
    parser.add_argument("--text", required=True, help="lines to translate")
    parser.add_argument("--references", required=True, help="their translations")
    parser.add_argument("--lines", type=int, default=500, help="of them, from the first (500)")
    parser.add_argument(
        "--patience",
        type=lambda text: [float(value) for value in text.split(",")],
        default=[1.0, 1.25, 1.5, 2.0],
        help="values, with commas between (1,1.25,1.5,2)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="of timing (3)")
    args = parser.parse_args()
    run = run_folder.RunFolder.open(args.output_dir)
    print("| checkpoint | patience | differ | lower score | shorter | BLEU | times | seconds |")
    print("|---|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for step in args.checkpoints.split(","):
        compare(run, step, args)


if __name__ == "__main__":
    main()
