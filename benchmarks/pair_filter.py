r"""Which wrong pairs the two directions' cross-entropy finds, and what right pairs it costs.

    python benchmarks/pair_filter.py --manythings=deu.txt.gz --other=fra.txt.gz \
        --output_dir=plain_text

trains a model from English to German and one from German to English on 10,000 pairs of
manythings.org (Tatoeba), the models of plain_text.py. They score 10,000 further pairs by
t2t-score-pairs, 20 % of which are wrong in one of the ways of `KINDS`. A table in Markdown has the
share of wrong pairs that two rules of --clean drop, with the share of right pairs that they lose;
and that of the wrong pairs with less than the score that 5 % and 1 % of the right pairs have.

Steps whose output exists are skipped, so that a killed command resumes when it is run again.
"""

import argparse
import functools
import pathlib
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from adaptation import SEED, Pair, command, manythings, write_pairs
from pairs_and_text import PAIRS
from plain_text import PAIRS_OF_TEXT, SENTENCES, UPDATES, PlainText

from t2t_lite.decoding.config import CTRANSLATE2
from t2t_lite.text.text_files import read_lines

TEXT, WRONG = 10_000, 2_000  # pairs, and how many of them are wrong
RULES = (("best_share", 0.8), ("min_score", 0.15))
LOST = (0.05, 0.01)  # of the right pairs


def _shuffled(pairs: Sequence[Pair], others: Sequence[Pair]) -> list[Pair]:
    """Gives each source the target of the next pair."""
    return [(pairs[i - 1][0], target) for i, (_, target) in enumerate(pairs)]


def _truncated(pairs: Sequence[Pair], others: Sequence[Pair]) -> list[Pair]:
    """Leaves the first half of each target's words."""
    words = [(source, target.split()) for source, target in pairs]
    return [(source, " ".join(target[: (len(target) + 1) // 2])) for source, target in words]


def _copied(pairs: Sequence[Pair], others: Sequence[Pair]) -> list[Pair]:
    return [(source, source) for source, _ in pairs]


def _foreign(pairs: Sequence[Pair], others: Sequence[Pair]) -> list[Pair]:
    return list(others[: len(pairs)])


KINDS: dict[str, Callable[[Sequence[Pair], Sequence[Pair]], list[Pair]]] = {
    "the target of another pair": _shuffled,
    "half of the target": _truncated,
    "the source as target": _copied,
    "a translation into French": _foreign,
}


class PairFilter(PlainText):
    """The steps, each of which is skipped if its output exists."""

    def run(self) -> Iterator[str]:
        """Takes all steps; yields the lines of the table."""
        columns = [
            *(f"found by {rule}={value} | lost" for rule, value in RULES),
            *(f"found at {lost:.0%} lost" for lost in LOST),
        ]
        yield f"| wrong pairs have | {' | '.join(columns)} |"
        yield f"|---|{'---:|' * (2 * len(RULES) + len(LOST))}"
        for number, kind in enumerate(KINDS, 1):
            scores = self.scores(kind, f"noisy{number}")
            wrong, right = scores[:WRONG], scores[WRONG:]
            shares = []
            for rule, value in RULES:
                least = value if rule == "min_score" else np.quantile(scores, 1 - value)
                shares += [np.mean(wrong < least), np.mean(right < least)]
            shares += [np.mean(wrong < np.quantile(right, lost)) for lost in LOST]
            yield f"| {kind} | {' | '.join(f'{share:.1%}' for share in shares)} |"

    def scores(self, kind: str, name: str) -> np.ndarray:
        """Returns the scores of a noisy text, the wrong pairs first."""
        output = self.folder / "scores" / f"{name}.txt"
        if not output.exists():
            command(
                "t2t_score_pairs",
                problem=PAIRS,
                tmp_dir=self.noisy(kind, name),
                pair_scores=output,
                engine=CTRANSLATE2,
                **self.models,
            )
        return np.array([float(line) for line in read_lines(output)])

    @functools.cached_property
    def models(self) -> dict[str, pathlib.Path]:
        """Trains both directions; returns the run folders by the flags that name them."""
        human = self.human()
        return {
            "forward": self.train(PAIRS, human),
            "backward": self.train(f"{PAIRS}_rev", human),
        }

    def noisy(self, kind: str, name: str) -> pathlib.Path:
        """Writes a text of wrong pairs, then right ones; returns its folder."""
        splits = manythings(self.args.manythings)
        pairs = splits["train"][self.args.pairs :][:TEXT]
        others = manythings(self.args.other)["train"]
        random.Random(SEED).shuffle(others)
        folder = self.folder / "text" / name
        noisy = KINDS[kind](pairs[:WRONG], others) + pairs[WRONG:]
        write_pairs(noisy, folder, ("inputs.train.txt", "targets.train.txt"))
        write_pairs(splits["dev"][:1], folder, ("inputs.eval.txt", "targets.eval.txt"))
        return folder


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = pathlib.Path
    parser.add_argument("--manythings", type=path, required=True, help="deu.txt, as .gz")
    parser.add_argument("--other", type=path, required=True, help="fra.txt, as .gz")
    parser.add_argument("--output_dir", type=path, required=True, help="folder for everything")
    # As plain_text.py has them, whose models these are.
    parser.set_defaults(pairs=PAIRS_OF_TEXT, sentences=SENTENCES, updates=UPDATES)
    for line in PairFilter(parser.parse_args()).run():
        print(line, flush=True)


if __name__ == "__main__":
    main()
