r"""Repeats the rows of docs/choosing.md: what a number of pairs gives.

    python benchmarks/choosing.py --text=tatoeba --data=deu.txt.gz --pairs=5000 --output_dir=rows/5k
    python benchmarks/choosing.py --text=multi30k --data=FOLDER --output_dir=rows/30k
    python benchmarks/choosing.py --text=libreoffice --data=FOLDER --output_dir=rows/help

puts English-German pairs into files as people have their own, makes the vocabulary and trains the
model that t2t-datagen names for so many pairs, and translates the test split. A row of a table in
Markdown has BLEU, chrF, and the processor time of the training in core-hours. `--problem`,
`--hparams_set`, `--train_steps` and `--hparams` try another choice, in a folder of its own.

No sentence of manythings.org (Tatoeba) has its English side in two splits. Steps whose output
exists are skipped. A killed command goes on when it is run again, and the training goes on from its
newest checkpoint; core-hours do not count what `kill -9` has interrupted.
"""

import argparse
import pathlib
import re
import resource
import signal
import sys

import machine
from adaptation import SEED, Pair, bleu, command, drawn, libreoffice, manythings, write_pairs

from t2t_lite import files, registry
from t2t_lite.data.generation import choosing
from t2t_lite.data.problem import DatasetSplit

PROBLEM = "text2text_tmpdir_bpe"
TRAIN, DEV, TEST = "train", "eval", "test"  # the splits, as the names of the files have them


def tatoeba(path: pathlib.Path) -> dict[str, list[Pair]]:
    """Returns the pairs of the splits of deu.txt.gz of manythings.org."""
    splits = manythings(path)
    return {TRAIN: splits["train"], DEV: splits["dev"], TEST: splits["test"]}


def multi30k(folder: pathlib.Path) -> dict[str, list[Pair]]:
    """Returns the captions of the splits; files that the folder lacks are downloaded."""
    problem = registry.problem("translate_ende_multi30k")
    names = {TRAIN: DatasetSplit.TRAIN, DEV: DatasetSplit.EVAL, TEST: DatasetSplit.TEST}
    samples = {
        split: problem.generate_samples("", str(folder), name) for split, name in names.items()
    }
    return {
        split: [(sample["inputs"], sample["targets"]) for sample in found]
        for split, found in samples.items()
    }


def help_pages(folder: pathlib.Path) -> dict[str, list[Pair]]:
    """Returns the segments of LibreOffice's help in train, dev and test.tsv.gz, without tags."""
    names = {TRAIN: "train", DEV: "dev", TEST: "test"}
    return {split: libreoffice(folder / f"{name}.tsv.gz") for split, name in names.items()}


TEXTS = {"tatoeba": tatoeba, "multi30k": multi30k, "libreoffice": help_pages}


class Choosing:
    """The steps of a row, each of which is skipped if its output exists.

    Args:
        args: the command's.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.folder: pathlib.Path = args.output_dir
        self.text = self.folder / "text"

    def row(self) -> str:
        """Takes all steps; returns the row of the table."""
        pairs = self.write_text()
        choice = choosing.for_pairs(pairs)
        vocabulary = choosing.other_vocabulary(registry.problem(PROBLEM), choice.subwords)
        problem = self.args.problem or vocabulary
        hparams_set = self.args.hparams_set or choice.hparams_set
        steps = self.args.train_steps or choice.train_steps
        changes = self.args.hparams or ""
        name = "-".join(filter(None, (problem, hparams_set, str(steps), changes.replace(",", "-"))))
        run = self.folder / name
        self.train(problem, hparams_set, steps, changes, run)
        translation = self.translate(run)
        reference = self.text / f"targets.{TEST}.txt"
        cells = (
            f"{pairs:,} pairs, {self.args.text}",
            f"`{hparams_set}`{changes and f', `{changes}`'}",
            f"{registry.problem(problem).approx_vocab_size:,}",
            f"{steps:,}",
            bleu(translation, reference),
            chrf(translation, reference),
            f"{sum(map(float, seconds_file(run).read_text().split())) / 3600:.2f}",
            machine.processor(),
        )
        return f"| {' | '.join(cells)} |"

    def write_text(self) -> int:
        """Writes the files of pairs; returns the number of those for training."""
        done = self.text / "pairs"
        if not done.exists():
            splits = TEXTS[self.args.text](self.args.data)
            if self.args.pairs:
                splits[TRAIN] = drawn(splits[TRAIN], self.args.pairs)
            for split, pairs in splits.items():
                write_pairs(pairs, self.text, (f"inputs.{split}.txt", f"targets.{split}.txt"))
            files.write_text(done, f"{len(splits[TRAIN])}\n")
        return int(done.read_text())

    def train(
        self, problem: str, hparams_set: str, steps: int, changes: str, run: pathlib.Path
    ) -> None:
        """Makes the data and trains a model; notes the processor time beside the run folder."""
        if (run / f"model.ckpt-{steps}.index").exists():
            return
        data = self.folder / "data"
        command("t2t_datagen", problem=problem, tmp_dir=self.text, data_dir=data)
        before = child_seconds()
        try:
            command(
                "t2t_trainer",
                problem=problem,
                data_dir=data,
                output_dir=run,
                model="transformer",
                hparams_set=hparams_set,
                train_steps=steps,
                random_seed=SEED,
                **({"hparams": changes} if changes else {}),
            )
        finally:
            with seconds_file(run).open("a") as file:
                file.write(f"{child_seconds() - before}\n")

    def translate(self, run: pathlib.Path) -> pathlib.Path:
        """Translates the test split; returns the path of the translation."""
        output = run / "test.de"
        if not output.exists():
            source = self.text / f"inputs.{TEST}.txt"
            command("t2t_decoder", output_dir=run, decode_from_file=source, decode_to_file=output)
        return output


def chrf(translation: pathlib.Path, reference: pathlib.Path) -> str:
    """Returns sacreBLEU's chrF of a file of lines."""
    printed = command("t2t_bleu", translation=translation, reference=reference, metrics="chrf")
    found = re.search(r"chrF = +([\d.]+)", printed)
    assert found, printed
    return found[1]


def seconds_file(run: pathlib.Path) -> pathlib.Path:
    """Returns the path of a run's processor time: a line for each time that it was trained."""
    return run.with_name(f"{run.name}.seconds")


def child_seconds() -> float:
    """Returns the processor time of the commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = pathlib.Path
    parser.add_argument("--text", choices=[*TEXTS], required=True, help="what to train on")
    parser.add_argument("--data", type=path, required=True, help="its file or folder")
    parser.add_argument("--pairs", type=int, help="so many, drawn at random (default: all)")
    parser.add_argument("--output_dir", type=path, required=True, help="folder for everything")
    parser.add_argument("--problem", help="a problem that reads inputs.train.txt")
    parser.add_argument("--hparams_set")
    parser.add_argument("--train_steps", type=int)
    parser.add_argument("--hparams", help="overrides hyperparameters, as in t2t-trainer")
    # subprocess.run kills the command that it waits for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(Choosing(parser.parse_args()).row())


if __name__ == "__main__":
    main()
