r"""Compares the outputs of both engines, and of single lines and of batches, of a trained model.

    pip install -e '.[ct2]'
    python benchmarks/same_outputs.py --output_dir=runs/base --text=newstest2013.en [--lines=3000] \
        [--single=3000] [--decode_hparams=target_language=de]

prints a table for greedy search and for beam 4: how many lines have the same text, and of the
others, how many have scores so close that rounding decides (ties), or a higher score with one of
the two; TensorFlow scores these. The last column compares the scores that both give to the same
text. The bars are 99.5 % of lines greedily and 98 % with beam 4 for the engines, and 99.9 % for
batches.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from t2t_lite.decoding.config import ENGINES, TENSORFLOW
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.hypotheses import Hypothesis, Source
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_files import read_lines

SEARCHES = {"greedy": "beam_size=1", "beam 4": "beam_size=4"}
CLOSE = 1e-4  # difference of scores of what is the same or a tie
ENGINE_BARS = {"greedy": 0.995, "beam 4": 0.98}
BATCH_BAR = 0.999


class Difference(NamedTuple):
    """Two decoders compared.

    Attributes:
        lines: their number.
        same: how many have the same text.
        ties: how many others have nearly the same score.
        higher: how many have a higher score with the first decoder.
        largest: the largest difference of the two decoders' scores for the same text.
    """

    lines: int
    same: int
    ties: int
    higher: int
    largest: float


def compared(
    judge: Decoder,
    sources: Sequence[Source],
    first: Sequence[Hypothesis],
    second: Sequence[Hypothesis],
) -> Difference:
    """Returns how the outputs of two decoders differ; `judge` scores those that do."""
    pairs = list(zip(sources, first, second, strict=True))
    equal = [(a, b) for _, a, b in pairs if a.ids == b.ids]
    others = [pair for pair in pairs if pair[1].ids != pair[2].ids]
    given = [source for source, *_ in others]
    scores = [
        [found.score for (found,) in judge.score(given, [pair[side].ids for pair in others])]
        for side in (1, 2)
    ]
    gaps = [a - b for a, b in zip(*scores, strict=True)]
    return Difference(
        len(pairs),
        len(equal),
        sum(abs(gap) <= CLOSE for gap in gaps),
        sum(gap > CLOSE for gap in gaps),
        max((abs(a.score - b.score) for a, b in equal), default=0.0),
    )


def opened(run: run_folder.RunFolder, settings: str, engine: str) -> Decoder:
    """Returns the decoder of a run's newest checkpoint."""
    return Decoder.from_run(run, hparams=DecodeHParams.of(run.problem, settings), engine=engine)


def row(name: str, found: Difference, bar: float) -> str:
    """Returns a row of the table."""
    share = found.same / found.lines
    lower = found.lines - found.same - found.ties - found.higher
    return (
        f"| {name} | {found.same} of {found.lines}, {share:.2%} | {bar:.1%} | {found.ties} | "
        f"{found.higher} | {lower} | {found.largest:.1e} |"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output_dir", required=True, help="run folder")
    parser.add_argument("--text", required=True, help="lines to translate")
    parser.add_argument("--lines", type=int, default=3000, help="of them, from the first (3000)")
    parser.add_argument("--single", type=int, default=3000, help="decoded one by one, too (3000)")
    parser.add_argument("--decode_hparams", default="", help="further ones")
    args = parser.parse_args()
    run = run_folder.RunFolder.open(args.output_dir)
    lines = [line.strip() for line in read_lines(args.text) if line.strip()][: args.lines]
    print("| | same text | bar | ties | first higher | second higher | largest difference |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for search, setting in SEARCHES.items():
        settings = ",".join(filter(None, (setting, args.decode_hparams)))
        judge = opened(run, settings, TENSORFLOW)
        sources = [source for source in judge.text.encode(lines) if source.ids]
        batches = {}
        for engine in ENGINES:
            decoder = judge if engine == TENSORFLOW else opened(run, settings, engine)
            batches[engine] = [beams[0] for beams in decoder.decode(sources)]
        found = compared(judge, sources, *batches.values())
        print(row(f"{search}, {' and '.join(ENGINES)}", found, ENGINE_BARS[search]), flush=True)
        for engine in reversed(ENGINES):
            chosen = sources[: args.single]
            decoder = opened(run, f"{settings},batch_size=1", engine)
            single = [beams[0] for beams in decoder.decode(chosen)]
            found = compared(judge, chosen, batches[engine][: args.single], single)
            print(row(f"{search}, {engine}, batches and lines", found, BATCH_BAR), flush=True)


if __name__ == "__main__":
    main()
