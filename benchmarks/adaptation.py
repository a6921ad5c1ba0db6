r"""Adapts an imported translator to technical text: what it learns, and what it forgets.

    pip install -e '.[import]'
    python benchmarks/adaptation.py --manythings=deu.txt.gz --split=general
    (train a Marian model on general/train.en and train.de: docs/results-practice.md)
    python benchmarks/adaptation.py --manythings=deu.txt.gz --libreoffice=FOLDER \
        --model_dir=MARIAN --output_dir=adapted

The first command splits the sentences of manythings.org by their English side. The last one imports
the model by t2t-import, trains it further by t2t-trainer on segments of LibreOffice's help, in each
way that `ROWS` lists, and translates two test sets by t2t-decoder: segments of other pages of the
help, and general sentences that no training has seen. A table in Markdown has the BLEU of both.

Segments are plain text: inline tags are left out, and their entities are characters. Steps whose
output exists are skipped, so that a killed command resumes when it is run again.
"""

import argparse
import dataclasses
import gzip
import hashlib
import html
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence

Pair = tuple[str, str]  # English and German

SEGMENTS, DEV_SEGMENTS = 2000, 200
REPEATS = 10  # of each segment in the mix; each general sentence comes once
SEED = 1
WARMUP_STEPS = 100  # of transformer_finetune
_TAG = re.compile(r"<[^<>]*>")
_BUCKETS, _TEST, _DEV = 10000, 75, 113  # buckets of English sides below these


@dataclasses.dataclass(frozen=True)
class Row:
    """A way to train further."""

    name: str
    text: str  # folder of the training text
    steps: int
    hparams: str = ""


_MIXED_STEPS = 4800  # twice through the mix
ROWS = {
    "mixed": Row("mixed with general sentences", "mixed", _MIXED_STEPS),
    "mixed_encoder": Row("mixed, encoder frozen", "mixed", _MIXED_STEPS, "frozen=encoder"),
    "segments": Row("segments alone", "segments", 800),
}
IMPORTED = "imported"


def plain_text(segment: str) -> str:
    """Returns the text of a segment of HTML: no tags, entities as characters, single spaces.

    Examples:
        >>> plain_text('Choose <span class="emph">Tools - SQL</span>,<br>then press &lt;F1&gt;.')
        'Choose Tools - SQL, then press <F1>.'
    """
    return " ".join(html.unescape(_TAG.sub(_space_of, segment)).split())


def _space_of(tag: re.Match[str]) -> str:
    return " " if tag[0].startswith("<br") else ""


def libreoffice(path: pathlib.Path) -> list[Pair]:
    """Returns the distinct pairs of a file of segments; pairs with an empty side are left out."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        columns = next(lines).rstrip("\n").split("\t")
        en, de = columns.index("en"), columns.index("de")
        cells = (line.rstrip("\n").split("\t") for line in lines)
        pairs = [(plain_text(row[en]), plain_text(row[de])) for row in cells]
    return list(dict.fromkeys(pair for pair in pairs if all(pair)))


def manythings(path: pathlib.Path) -> dict[str, list[Pair]]:
    """Returns the pairs of the splits; an English sentence is in one of them.

    Of several translations of a sentence to test, the first is the reference.
    """
    splits: dict[str, list[Pair]] = {"train": [], "dev": [], "test": []}
    seen = set()
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            en, de = (side.strip() for side in line.rstrip("\n").split("\t")[:2])
            digest = hashlib.sha256(en.encode()).hexdigest()
            bucket = int(digest[:8], 16) % _BUCKETS
            split = "test" if bucket < _TEST else "dev" if bucket < _DEV else "train"
            if split == "train" or en not in seen:
                splits[split].append((en, de))
            seen.add(en)
    random.Random(SEED).shuffle(splits["train"])
    return splits


def drawn(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Returns so many pairs drawn at random, always the same."""
    return random.Random(SEED).sample(pairs, count)


def write_pairs(pairs: Iterable[Pair], folder: pathlib.Path, names: tuple[str, str]) -> None:
    """Writes the two sides to files of lines."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in zip(names, zip(*pairs, strict=True), strict=True):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class Adaptation:
    """The steps, each of which is skipped if its output exists.

    Args:
        args: the command's.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.folder: pathlib.Path = args.output_dir
        self.tests = {"help": self.folder / "help", "general": self.folder / "general"}

    def run(self) -> Iterator[str]:
        """Takes all steps; yields the lines of the table."""
        self.write_texts()
        imported = self.folder / IMPORTED
        if not imported.exists():
            command("t2t_import", model_dir=self.args.model_dir, output_dir=imported)
        yield "| training | help pages | general |"
        yield "|---|---|---|"
        yield self.scores("none: the model as imported", imported)
        for name in self.args.rows:
            yield self.scores(ROWS[name].name, self.train(name))

    def write_texts(self) -> None:
        """Writes the training texts and the test sets."""
        if all(test.exists() for test in self.tests.values()):
            return
        segments = {
            split: libreoffice(self.args.libreoffice / f"{split}.tsv.gz")
            for split in ("train", "dev", "test")
        }
        general = manythings(self.args.manythings)
        adapting = drawn(segments["train"], SEGMENTS)
        mix = REPEATS * adapting + general["train"]
        random.Random(SEED).shuffle(mix)
        for text, pairs in (("segments", adapting), ("mixed", mix)):
            folder = self.folder / "text" / text
            write_pairs(pairs, folder, ("inputs.train.txt", "targets.train.txt"))
            dev = drawn(segments["dev"], DEV_SEGMENTS)
            write_pairs(dev, folder, ("inputs.eval.txt", "targets.eval.txt"))
        write_pairs(segments["test"], self.tests["help"], ("test.en", "test.de"))
        write_pairs(general["test"], self.tests["general"], ("test.en", "test.de"))

    def train(self, name: str) -> pathlib.Path:
        """Trains a row; returns its run folder."""
        row, run = ROWS[name], self.folder / name
        if not (run / f"model.ckpt-{row.steps}.index").exists():
            # The rate falls to 0 at the end.
            schedule = (
                "learning_rate_schedule=constant*linear_warmup*single_cycle_cos_decay",
                f"learning_rate_decay_steps={row.steps - WARMUP_STEPS}",
                "learning_rate_constant=5e-4",
            )
            command(
                "t2t_trainer",
                problem="translate_imported",
                model="transformer",
                hparams_set="transformer_finetune",
                hparams=",".join(filter(None, (*schedule, row.hparams))),
                warm_start_from=self.folder / IMPORTED,
                data_dir=self.data(row),
                output_dir=run,
                train_steps=row.steps,
                schedule="train",
                random_seed=SEED,
            )
        return run

    def data(self, row: Row) -> pathlib.Path:
        """Generates the data of a row; returns its folder."""
        data = self.folder / "data" / row.text
        if not data.exists():
            with tempfile.TemporaryDirectory(dir=self.folder) as made:
                for path in (self.folder / IMPORTED).glob("vocab.imported.*"):
                    shutil.copy(path, made)
                text = self.folder / "text" / row.text
                command("t2t_datagen", problem="translate_imported", tmp_dir=text, data_dir=made)
                data.parent.mkdir(exist_ok=True)
                shutil.copytree(made, data)
        return data

    def scores(self, name: str, run: pathlib.Path) -> str:
        """Returns the row of the table for a run."""
        return f"| {name} | {' | '.join(self.bleu(run, test) for test in self.tests.values())} |"

    def bleu(self, run: pathlib.Path, test: pathlib.Path) -> str:
        """Translates a test set; returns sacreBLEU's BLEU."""
        output = run / f"{test.name}.de"
        if not output.exists():
            command(
                "t2t_decoder",
                output_dir=run,
                decode_from_file=test / "test.en",
                decode_to_file=output,
                decode_hparams=self.args.decode_hparams,
            )
        return bleu(output, test / "test.de")


def bleu(translation: pathlib.Path, reference: pathlib.Path) -> str:
    """Returns sacreBLEU's BLEU of a file of lines."""
    printed = command("t2t_bleu", translation=translation, reference=reference)
    found = re.search(r"BLEU_cased = +([\d.]+)", printed)
    assert found, printed
    return found[1]


def command(module: str, **flags: object) -> str:
    """Runs one of t2t_lite's commands; returns what it prints."""
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    print(f"{module.replace('_', '-')} {' '.join(arguments)}", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, "-m", f"t2t_lite.bin.{module}", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = pathlib.Path
    parser.add_argument("--manythings", type=path, required=True, help="deu.txt, as .gz")
    parser.add_argument("--split", type=path, help="folder for the splits of --manythings, no more")
    parser.add_argument("--libreoffice", type=path, help="folder of train, dev and test.tsv.gz")
    parser.add_argument("--model_dir", type=path, help="the Marian model")
    parser.add_argument("--output_dir", type=path, help="folder for everything")
    parser.add_argument(
        "--decode_hparams",
        default="beam_size=4,length_penalty=average,alpha=1",
        help="of the translations",
    )
    parser.add_argument(
        "--rows", type=lambda text: text.split(","), default=[*ROWS], help=",".join(ROWS)
    )
    args = parser.parse_args()
    if args.split:
        for split, pairs in manythings(args.manythings).items():
            write_pairs(pairs, args.split, (f"{split}.en", f"{split}.de"))
        return
    for line in Adaptation(args).run():
        print(line, flush=True)


if __name__ == "__main__":
    main()
