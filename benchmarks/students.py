r"""Makes a student ten times as fast as its teacher: speed, BLEU and size of each step on the way.

    pip install -e '.[ct2]'
    python benchmarks/students.py --manythings=deu.txt.gz --libreoffice=FOLDER --output_dir=students

trains a teacher on English-German sentences of manythings.org and segments of LibreOffice's help,
translates the sources of training with it (t2t-distill: the hypothesis nearest to the reference),
makes a short list of the pairs (t2t-shortlist), and trains students with decoders of half as many
layers: on the human pairs, without and with the teacher's weights to begin with; and, beginning
with them too, on the human and the teacher's pairs. Each translates the test sets of both texts,
text to text, in a process on one core, as with `taskset`. A table in Markdown has words of the
sources a second, BLEU of both tests, and the megabytes of each export for CTranslate2. Each row
from the fourth on changes one thing in the row before.

The teacher of an hour is weak, so its pairs stand beside the human ones.

Training is limited by time; the figures in docs/ took 50 minutes for the teacher and 12 minutes for
each student, on two cores. Steps whose output exists are skipped, so that a killed command resumes
when it is run again.
"""

import argparse
import dataclasses
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import statistics
import time
from collections.abc import Iterator

from adaptation import SEED, bleu, command, drawn, libreoffice, manythings, write_pairs

from t2t_lite import files
from t2t_lite.api import open_run
from t2t_lite.text.text_files import read_lines

PROBLEM = "text2text_tmpdir_bpe"
DEV = 200  # pairs of each text
TESTS = ("help", "general")
HUMAN, DISTILLED, BOTH = "human", "distilled", "both"  # training texts
PENALTY = {"length_penalty": "average", "alpha": 1.0}
TEACHER_SEARCH = "beam_size=4,length_penalty=average,alpha=1"  # its n best are selected from
# For trainings of an hour and less. The average of the weights stands for a rate that falls to 0.
SHORT = "batch_size=2048,batch_shuffle_size=64,ema_decay=0.998"
ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Model:
    """A model to train."""

    data: str  # the folder of its text: HUMAN or BOTH
    hparams_set: str
    hparams: str
    from_teacher: bool = False  # its first weights


# The encoder is the same in all, so that a student can begin with the teacher's; 4 decoder layers
# make a teacher of 11 million parameters.
_SIZES = "filter_size=1024,num_heads=4"
_SCRATCH = "learning_rate_constant=0.5,learning_rate_warmup_steps=1000"
_FURTHER = "learning_rate_constant=0.15,learning_rate_warmup_steps=200"
_STUDENT = f"{_SIZES},label_smoothing=0.1"
MODELS = {
    "teacher": Model(
        HUMAN,
        "transformer_small",
        f"num_encoder_layers=6,num_decoder_layers=4,{_SIZES},{_SCRATCH}",
    ),
    "scratch": Model(HUMAN, "transformer_student_tiny_e6d2", f"{_STUDENT},{_SCRATCH}"),
    "shallow": Model(
        HUMAN, "transformer_student_tiny_e6d2", f"{_STUDENT},{_FURTHER}", from_teacher=True
    ),
    "student": Model(
        BOTH, "transformer_student_tiny_e6d2", f"{_STUDENT},{_FURTHER}", from_teacher=True
    ),
}


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table."""

    name: str
    model: str
    engine: str = "ctranslate2"
    has_shortlist: bool = False
    compute_type: str = "float32"
    beam_size: int = 4


ROWS = (
    Row("teacher, TensorFlow", "teacher", "tensorflow"),
    Row("teacher, CTranslate2", "teacher"),
    Row("2 decoder layers, human pairs", "scratch"),
    Row("begins with the teacher's weights", "shallow"),
    Row("distilled pairs beside the human ones", "student"),
    Row("short list", "student", has_shortlist=True),
    Row("int8", "student", has_shortlist=True, compute_type="int8"),
    Row("beam of 2", "student", has_shortlist=True, compute_type="int8", beam_size=2),
    Row("greedy search", "student", has_shortlist=True, compute_type="int8", beam_size=1),
)


class Students:
    """The steps, each of which is skipped if its output exists.

    Args:
        args: the command's.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.folder: pathlib.Path = args.output_dir

    def run(self) -> Iterator[str]:
        """Takes all steps; yields the lines of the table."""
        self.write_texts()
        for name in MODELS:  # before anything is measured
            self.train(name)
        yield "| | words/s | faster than the teacher | BLEU help | BLEU general | MB |"
        yield "|---|---:|---:|---:|---:|---:|"
        teachers = 0.0
        for row in ROWS:
            export = self.export(row)
            speed = self.translate(row)
            teachers = teachers or speed
            scores = (self.score(row, test) for test in TESTS)
            size = sum(path.stat().st_size for path in export.glob("*.bin")) / 1e6
            yield (
                f"| {row.name} | {speed:,.0f} | {speed / teachers:.1f} | {' | '.join(scores)} "
                f"| {size:.1f} |"
            )

    def write_texts(self) -> None:
        """Writes the human training text and the test sets."""
        human = self.folder / "text" / HUMAN
        if human.exists():
            return
        segments = {
            split: libreoffice(self.args.libreoffice / f"{split}.tsv.gz")
            for split in ("train", "dev", "test")
        }
        general = manythings(self.args.manythings)
        for test, pairs in zip(TESTS, (segments["test"], general["test"]), strict=True):
            limited = pairs[: self.args.sentences or None]
            write_pairs(limited, self.folder / "test" / test, ("test.en", "test.de"))
        pairs = segments["train"] + general["train"]
        random.Random(SEED).shuffle(pairs)
        dev = drawn(segments["dev"], DEV) + drawn(general["dev"], DEV)
        with files.whole_folder(human) as made:
            limited = pairs[: self.args.pairs or None]
            write_pairs(limited, made, ("inputs.train.txt", "targets.train.txt"))
            write_pairs(dev, made, ("inputs.eval.txt", "targets.eval.txt"))

    def data(self, name: str) -> pathlib.Path:
        """Generates the data of a text, distilled first if need be; returns its folder."""
        data = self.folder / "data" / name
        if name == BOTH:
            self.write_both()
            data.mkdir(parents=True, exist_ok=True)
            for vocabulary in self.train("teacher").glob("vocab.*"):
                shutil.copy(vocabulary, data)
        command("t2t_datagen", problem=PROBLEM, tmp_dir=self.folder / "text" / name, data_dir=data)
        return data

    def write_both(self) -> None:
        """Writes the human pairs and the teacher's as one text."""
        human, distilled, both = (self.folder / "text" / n for n in (HUMAN, DISTILLED, BOTH))
        command(
            "t2t_distill",
            problem=PROBLEM,
            tmp_dir=human,
            teacher=self.train("teacher"),
            decode_hparams=TEACHER_SEARCH,
            select="nearest",
            engine="ctranslate2",
            compute_type="int8",
            output_problem_dir=distilled,
        )
        if not both.exists():
            with files.whole_folder(both) as made:
                for path in human.iterdir():
                    texts = [path.read_text(encoding="utf-8")]
                    if ".train." in path.name:
                        texts.append((distilled / path.name).read_text(encoding="utf-8"))
                    files.write_text(made / path.name, "".join(texts))

    def train(self, name: str) -> pathlib.Path:
        """Trains a model; returns its run folder."""
        model, run = MODELS[name], self.folder / "runs" / name
        trained = run / "trained"  # the time of a training that was killed counts anew
        if not trained.exists():
            start = {"warm_start_from": self.train("teacher")} if model.from_teacher else {}
            command(
                "t2t_trainer",
                problem=PROBLEM,
                model="transformer",
                hparams_set=model.hparams_set,
                hparams=f"{SHORT},{model.hparams}",
                data_dir=self.data(model.data),
                **start,
                output_dir=run,
                schedule="train",
                train_minutes=self.minutes(name),
                random_seed=SEED,
            )
            trained.touch()
        return run

    def minutes(self, name: str) -> float:
        """Returns how long a model is trained."""
        return self.args.teacher_minutes if name == "teacher" else self.args.student_minutes

    def shortlist(self) -> pathlib.Path:
        """Makes the short list of the student's pairs; returns its path."""
        path = self.folder / "shortlist.txt"
        if not path.exists():
            command(
                "t2t_shortlist",
                output_dir=self.train("student"),
                tmp_dir=self.folder / "text" / BOTH,
                shortlist=path,
            )
        return path

    def export(self, row: Row) -> pathlib.Path:
        """Exports the model of a row; returns the folder."""
        folder = self.folder / "exports" / f"{row.model}-{row.compute_type}"
        version = folder / "ctranslate2" / "1"
        if not version.exists():
            command(
                "t2t_exporter",
                output_dir=self.train(row.model),
                export_dir=folder,
                format="ctranslate2",
                quantization=row.compute_type,
            )
        return version

    def output(self, row: Row, name: str) -> pathlib.Path:
        """Returns the path of what a row writes."""
        return self.folder / "outputs" / f"row{ROWS.index(row) + 1}.{name}"

    def translate(self, row: Row) -> float:
        """Translates the tests on one core; returns the words of the sources per second."""
        path = self.output(row, "json")
        if not path.exists():
            lines = {test: read_lines(self.folder / "test" / test / "test.en") for test in TESTS}
            shortlist = str(self.shortlist()) if row.has_shortlist else ""
            with multiprocessing.get_context("spawn").Pool(1) as pool:  # threads of its own
                work = (row, self.train(row.model), shortlist, lines, self.args.core)
                translations, seconds = pool.apply(translated, work)
            for test, outputs in translations.items():
                files.write_text(self.output(row, test), "".join(f"{out}\n" for out in outputs))
            words = sum(len(line.split()) for test in TESTS for line in lines[test])
            files.write_text(path, json.dumps({"words": words, "seconds": seconds}))
        found = json.loads(path.read_text())
        return found["words"] / found["seconds"]

    def score(self, row: Row, test: str) -> str:
        """Returns the BLEU of a row on a test."""
        return bleu(self.output(row, test), self.folder / "test" / test / "test.de")


def translated(
    row: Row, run: pathlib.Path, shortlist: str, lines: dict[str, list[str]], core: int
) -> tuple[dict[str, list[str]], float]:
    """Translates lines on one core, in a process of its own.

    Returns:
        The translations; the seconds for all lines, text to text, the median of `ROUNDS`.
    """
    os.sched_setaffinity(0, {core})
    translator = open_run(run).translator(
        engine=row.engine,
        compute_type=row.compute_type,
        beam_size=row.beam_size,
        shortlist=shortlist,
        **(PENALTY if row.beam_size > 1 else {}),
    )
    translator([texts[0] for texts in lines.values()])  # compiles
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        outputs = {test: list(map(str, translator(texts))) for test, texts in lines.items()}
        seconds.append(time.perf_counter() - start)
    return outputs, statistics.median(seconds)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = pathlib.Path
    parser.add_argument("--manythings", type=path, required=True, help="deu.txt, as .gz")
    parser.add_argument(
        "--libreoffice", type=path, required=True, help="folder of train, dev and test.tsv.gz"
    )
    parser.add_argument("--output_dir", type=path, required=True, help="folder for everything")
    parser.add_argument("--teacher_minutes", type=float, default=50, help="of training")
    parser.add_argument("--student_minutes", type=float, default=12, help="of training, each")
    parser.add_argument("--pairs", type=int, default=0, help="of training text (0: all)")
    parser.add_argument("--sentences", type=int, default=0, help="of each test set (0: all)")
    parser.add_argument("--core", type=int, default=0, help="that translates")
    for line in Students(parser.parse_args()).run():
        print(line, flush=True)


if __name__ == "__main__":
    main()
