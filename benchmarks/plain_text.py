r"""What text in the target language adds to few pairs: BLEU of several ways to use it.

    python benchmarks/plain_text.py --manythings=deu.txt.gz --output_dir=plain_text

trains a model from English to German on 10,000 pairs of manythings.org (Tatoeba), and then trains
it further, for the same number of updates in each row of a table: on the pairs alone; with 100,000
German sentences that have no pair here as targets of empty sources; with noise as their own
sources; back-translated by a model of the other direction, which the pairs alone train; and both of
the last two. The table, in Markdown, has the BLEU of sentences whose English side is in no training
text.

Steps whose output exists are skipped, so that a killed command resumes when it is run again.
"""

import argparse
import dataclasses
import pathlib
import shutil
from collections.abc import Iterator

import pairs_and_text
from adaptation import SEED, bleu, command, drawn, manythings, write_pairs
from pairs_and_text import PAIRS

from t2t_lite import files
from t2t_lite.decoding.config import CTRANSLATE2

_FILE = "text.train.txt"  # what `plain_text_tmpdir` reads
USR_DIR = pathlib.Path(pairs_and_text.__file__).parent
DEV, TEST = 500, 2000  # pairs
PAIRS_OF_TEXT, SENTENCES, UPDATES = 10_000, 100_000, 1_500
WARMUP_STEPS = 200
HPARAMS = (  # of a model that two cores train in minutes
    "num_hidden_layers=2,hidden_size=128,filter_size=512,num_heads=4,batch_size=2048,max_length=40,"
    "layer_prepostprocess_dropout=0.1,"
    "learning_rate_schedule=constant*linear_warmup*single_cycle_cos_decay,"
    f"learning_rate_constant=3e-3,learning_rate_warmup_steps={WARMUP_STEPS}"
)
ANNEALED = 0.8  # of the updates
REPEATS = 10  # of each pair beside back-translations, which are then about as many as the pairs


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        name: what it shows.
        problem: what is trained.
        is_back: whether the text has the back-translated pairs, too.
    """

    name: str
    problem: str
    is_back: bool = False


ROWS = (
    Row("the pairs alone", PAIRS),
    Row("text as targets of empty sources", "pairs_and_targets"),
    Row("text with noise as its own source", "pairs_and_noise"),
    Row("back-translation", PAIRS, is_back=True),
    Row("back-translation, and text with noise", "pairs_and_noise", is_back=True),
)


class PlainText:
    """The steps, each of which is skipped if its output exists.

    Args:
        args: the command's.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.folder: pathlib.Path = args.output_dir

    def run(self) -> Iterator[str]:
        """Takes all steps; yields the lines of the table."""
        yield "| training | BLEU |"
        yield "|---|---:|"
        for number in self.args.rows:
            row = ROWS[number - 1]
            yield f"| {row.name} | {self.score(row)} |"

    def human(self) -> pathlib.Path:
        """Writes pairs, plain text and the test set; returns the folder of the first two."""
        folder = self.folder / "text" / "human"
        if not folder.exists():
            splits = manythings(self.args.manythings)
            write_pairs(splits["test"][:TEST], self.folder / "test", ("test.en", "test.de"))
            pairs, rest = splits["train"][: self.args.pairs], splits["train"][self.args.pairs :]
            known = {target for _, target in pairs}
            text = dict.fromkeys(target for _, target in rest if target not in known)
            with files.whole_folder(folder) as made:
                write_pairs(pairs, made, ("inputs.train.txt", "targets.train.txt"))
                write_pairs(
                    drawn(splits["dev"], DEV), made, ("inputs.eval.txt", "targets.eval.txt")
                )
                lines = list(text)[: self.args.sentences]
                files.write_text(made / _FILE, "".join(f"{line}\n" for line in lines))
        return folder

    def back(self) -> pathlib.Path:
        """Back-translates the plain text; returns the folder of all pairs and the plain text."""
        folder, human = self.folder / "text" / "back", self.human()
        if not folder.exists():
            translated = folder.with_name("translated")
            command(
                "t2t_distill",
                problem=PAIRS,
                tmp_dir=human,
                back="true",
                sources=human / _FILE,
                teacher=self.train(f"{PAIRS}_rev", human),
                decode_hparams="beam_size=1",
                engine=CTRANSLATE2,
                output_problem_dir=translated,
            )
            with files.whole_folder(folder) as made:
                shutil.copytree(translated, made, dirs_exist_ok=True)
                shutil.copy(human / _FILE, made)
                for name in ("inputs.train.txt", "targets.train.txt"):
                    more = (human / name).read_text(encoding="utf-8") * (REPEATS - 1)
                    with (made / name).open("a", encoding="utf-8") as file:
                        file.write(more)
        return folder

    def train(
        self, problem: str, text: pathlib.Path, start: pathlib.Path | None = None
    ) -> pathlib.Path:
        """Trains a model on a folder of text; returns its run folder.

        Args:
            problem: what to train.
            text: the folder.
            start: the run folder of the model to train further; None: a new one.
        """
        name = f"{problem}-{text.name}"
        run, updates, warm = self.folder / "runs" / name, self.args.updates, {}
        if start:
            run, updates = run.with_name(f"{name}-further"), self.args.further
            warm = {"warm_start_from": start}
        if (run / f"model.ckpt-{updates}.index").exists():
            return run
        common = {
            "t2t_usr_dir": USR_DIR,
            "problem": problem,
            "data_dir": self.folder / "data" / name,
        }
        command("t2t_datagen", **common, tmp_dir=text)
        changes = f"{HPARAMS},learning_rate_decay_steps={updates - WARMUP_STEPS}"
        if problem.startswith("pairs_and"):
            changes += f",mixture_annealing_steps={round(ANNEALED * updates)}"
        command(
            "t2t_trainer",
            **common,
            **warm,
            output_dir=run,
            model="transformer",
            hparams_set="transformer_base",
            hparams=changes,
            schedule="train",
            train_steps=updates,
            random_seed=SEED,
        )
        return run

    def score(self, row: Row) -> str:
        """Returns the BLEU of a row."""
        output = self.folder / "outputs" / f"row{ROWS.index(row) + 1}.de"
        if not output.exists():
            start = self.train(PAIRS, self.human())
            text = self.back() if row.is_back else self.human()
            command(
                "t2t_decoder",
                t2t_usr_dir=USR_DIR,
                output_dir=self.train(row.problem, text, start),
                decode_from_file=self.folder / "test" / "test.en",
                decode_to_file=output,
                engine=CTRANSLATE2,
            )
        return bleu(output, self.folder / "test" / "test.de")


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = pathlib.Path
    parser.add_argument("--manythings", type=path, required=True, help="deu.txt, as .gz")
    parser.add_argument("--output_dir", type=path, required=True, help="folder for everything")
    parser.add_argument("--pairs", type=int, default=PAIRS_OF_TEXT, help="of training")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="of plain text")
    parser.add_argument(
        "--updates", type=int, default=UPDATES, help="of a model of the pairs alone"
    )
    parser.add_argument("--further", type=int, default=1_000, help="updates of each row")
    parser.add_argument(
        "--rows",
        type=lambda text: [*map(int, text.split(","))],
        default=[*range(1, len(ROWS) + 1)],
        help="numbers of the table's rows, in the order in which they are trained",
    )
    for line in PlainText(parser.parse_args()).run():
        print(line, flush=True)


if __name__ == "__main__":
    main()
