r"""Makes a student ten times as fast as its teacher: speed, BLEU and size of each step on the way.

    pip install -e '.[ct2]' 'fxtranslate>=0.5'
    python benchmarks/students.py --manythings=deu.txt.gz --libreoffice=FOLDER --output_dir=students

trains a teacher on English-German sentences of manythings.org and segments of LibreOffice's help,
translates the sources of training with it (t2t-distill: the hypothesis nearest to the reference),
makes a short list of the pairs (t2t-shortlist), and trains students with decoders of half as many
layers: on the human pairs, without and with the teacher's weights to begin with; and, beginning
with them too, on the human and the teacher's pairs. Each translates the test sets of both texts,
text to text, in a process on one core, as with `taskset`. A table in Markdown has the updates of
each training, words of the sources a second, BLEU of both tests, and the megabytes of what the
engine reads. Each row from the fourth on changes one thing in the row before.

The last rows are of a student for Bergamot's engine, with a recurrent decoder: its layers are
post-norm, so that it does not begin with the teacher's weights, and has a lower rate. Like the
student in the third row, it learns from the human pairs alone, for as many minutes, and again for
as many updates. Their updates in equal minutes tell the speed of training.

The teacher of an hour is weak, so its pairs stand beside the human ones.

Training is limited by time; the figures in docs/ took 50 minutes for the teacher and 12 minutes for
each student, on two cores, and 70 minutes on one core where no teacher is. Steps whose output
exists are skipped, so that a killed command resumes when it is run again. `--rows=3,10` makes only
these rows, and trains only what they need.
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
from collections.abc import Callable, Iterable, Iterator

from adaptation import SEED, bleu, command, drawn, libreoffice, manythings, write_pairs

from t2t_lite import files
from t2t_lite.api import open_run
from t2t_lite.runs.checkpoint_files import checkpoints, step_of
from t2t_lite.text.text_files import read_lines

PROBLEM = "text2text_tmpdir_unigram"  # Bergamot's engine reads no other vocabulary
DEV = 200  # pairs of each text
TESTS = ("help", "general")
HUMAN, DISTILLED, BOTH = "human", "distilled", "both"  # training texts
PENALTY = {"length_penalty": "average", "alpha": 1.0}
TEACHER_SEARCH = "beam_size=4,length_penalty=average,alpha=1"  # its n best are selected from
# For trainings of an hour and less. The average of the weights stands for a rate that falls to 0.
SHORT = "batch_size=2048,batch_shuffle_size=64,ema_decay=0.998"
ROUNDS = 3


Translate = Callable[[list[str]], Iterable[object]]


@dataclasses.dataclass(frozen=True)
class Model:
    """A model to train."""

    data: str  # the folder of its text: HUMAN or BOTH
    hparams_set: str
    hparams: str
    from_teacher: bool = False  # its first weights
    updates_of: str = ""  # the model with as many updates; "": as many minutes as all have

    @property
    def is_recurrent(self) -> bool:
        """Whether Bergamot's engine runs it, and CTranslate2 does not."""
        return self.hparams_set.endswith("ssru")


# The encoder is the same in all, so that a student can begin with the teacher's; 4 decoder layers
# make a teacher of 11 million parameters.
_SIZES = "filter_size=1024,num_heads=4"
_TEACHER = "learning_rate_constant=0.5,learning_rate_warmup_steps=1000"
# A student that begins with random weights has a quarter of the teacher's time.
_SCRATCH = "learning_rate_constant=0.8,learning_rate_warmup_steps=250"
# Post-norm encoders lose their tokens at a rate that rises as fast as `_SCRATCH` (docs/results.md).
_POST_NORM = "learning_rate_constant=0.5,learning_rate_warmup_steps=500"
_FURTHER = "learning_rate_constant=0.15,learning_rate_warmup_steps=200"
_STUDENT = f"{_SIZES},label_smoothing=0.1"
MODELS = {
    "teacher": Model(
        HUMAN,
        "transformer_small",
        f"num_encoder_layers=6,num_decoder_layers=4,{_SIZES},{_TEACHER}",
    ),
    "scratch": Model(HUMAN, "transformer_student_tiny_e6d2", f"{_STUDENT},{_SCRATCH}"),
    "shallow": Model(
        HUMAN, "transformer_student_tiny_e6d2", f"{_STUDENT},{_FURTHER}", from_teacher=True
    ),
    "student": Model(
        BOTH, "transformer_student_tiny_e6d2", f"{_STUDENT},{_FURTHER}", from_teacher=True
    ),
    "ssru": Model(HUMAN, "transformer_student_tiny_ssru", f"{_STUDENT},{_POST_NORM}"),
    "ssru, equal updates": Model(
        HUMAN, "transformer_student_tiny_ssru", f"{_STUDENT},{_POST_NORM}", updates_of="scratch"
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


FXTRANSLATE = "fxtranslate"
STUDENTS = (
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
BERGAMOTS = (
    Row("recurrent decoder, human pairs, TensorFlow", "ssru", "tensorflow"),
    Row("as many updates as in row 3", "ssru, equal updates", "tensorflow"),
    Row("greedy search, fxtranslate", "ssru, equal updates", FXTRANSLATE, beam_size=1),
    Row("8 bits", "ssru, equal updates", FXTRANSLATE, compute_type="int8", beam_size=1),
    Row("short list", "ssru, equal updates", FXTRANSLATE, True, "int8", 1),
)
ROWS = (*STUDENTS, *BERGAMOTS)


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
        rows = [ROWS[number - 1] for number in self.args.rows]
        for name in dict.fromkeys(row.model for row in rows):  # before anything is measured
            self.train(name)
        yield "| | updates | words/s | times the first row | BLEU help | BLEU general | MB |"
        yield "|---|---:|---:|---:|---:|---:|---:|"
        first = self.translate(rows[0])
        for row in rows:
            speed = self.translate(row)
            scores = (self.score(row, test) for test in TESTS)
            read = (path for path in self.read_by(row) if path.suffix == ".bin")
            size = sum(path.stat().st_size for path in read) / 1e6
            yield (
                f"| {row.name} | {self.updates(row.model):,} | {speed:,.0f} "
                f"| {speed / first:.1f} | {' | '.join(scores)} | {size:.1f} |"
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
            if model.updates_of:
                length = {"train_steps": self.updates(model.updates_of)}
            else:
                length = {"train_minutes": self.minutes(name)}
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
                **length,
                random_seed=SEED,
            )
            trained.touch()
        return run

    def minutes(self, name: str) -> float:
        """Returns how long a model is trained."""
        return self.args.teacher_minutes if name == "teacher" else self.args.student_minutes

    def updates(self, name: str) -> int:
        """Returns how many updates the training of a model made."""
        return step_of(checkpoints(self.train(name))[-1])

    def shortlist(self, name: str) -> pathlib.Path:
        """Makes the short list of the pairs that a model learned from; returns its path."""
        text = MODELS[name].data
        path = self.folder / f"shortlist.{text}.txt"
        if not path.exists():
            command(
                "t2t_shortlist",
                output_dir=self.train(name),
                tmp_dir=self.folder / "text" / text,
                shortlist=path,
            )
        return path

    def read_by(self, row: Row) -> list[pathlib.Path]:
        """Exports the model of a row; returns the files of the export that the row is about."""
        if not MODELS[row.model].is_recurrent:
            kind = row.compute_type
            folder = self.export(row.model, "ctranslate2", kind, quantization=kind)
            return sorted(folder.glob("*.bin"))
        shortlist = f"shortlist={self.shortlist(row.model)}"
        options = {"from_code": "en", "to_code": "de", "decode_hparams": shortlist}
        folder = self.export(row.model, "firefox", "firefox", **options)
        model = "intgemm.alphas" if row.compute_type == "int8" else "float32"
        names = [f"model.ende.{model}.bin", *["vocab.ende.spm"] * 2]
        names += ["lex.50.50.ende.s2t.bin"] if row.has_shortlist else []
        return [folder / name for name in names]

    def export(self, model: str, kind: str, name: str, **options: str) -> pathlib.Path:
        """Exports a model; returns the folder of the export."""
        folder = self.folder / "exports" / f"{model}-{name}"
        version = folder / kind / "1"
        if not version.exists():
            run = self.train(model)
            command("t2t_exporter", output_dir=run, export_dir=folder, format=kind, **options)
        return version

    def output(self, row: Row, name: str) -> pathlib.Path:
        """Returns the path of what a row writes."""
        return self.folder / "outputs" / f"row{ROWS.index(row) + 1}.{name}"

    def translate(self, row: Row) -> float:
        """Translates the tests on one core; returns the words of the sources per second."""
        path = self.output(row, "json")
        if not path.exists():
            lines = {test: read_lines(self.folder / "test" / test / "test.en") for test in TESTS}
            if row.engine == FXTRANSLATE:
                engine: Engine = FxTranslate(self.read_by(row))
            else:
                shortlist = str(self.shortlist(row.model)) if row.has_shortlist else ""
                engine = Ours(row, self.train(row.model), shortlist)
            with multiprocessing.get_context("spawn").Pool(1) as pool:  # threads of its own
                work = (engine, lines, self.args.core)
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


@dataclasses.dataclass(frozen=True)
class Ours:
    """t2t_lite, on the engine of a row."""

    row: Row
    run: pathlib.Path
    shortlist: str

    def load(self) -> Translate:
        """Returns what translates lines."""
        return open_run(self.run).translator(
            engine=self.row.engine,
            compute_type=self.row.compute_type,
            beam_size=self.row.beam_size,
            shortlist=self.shortlist,
            **(PENALTY if self.row.beam_size > 1 else {}),
        )


@dataclasses.dataclass(frozen=True)
class FxTranslate:
    """Bergamot's engine."""

    files: list[pathlib.Path]

    def load(self) -> Translate:
        """Returns what translates lines, one after another: the engine has no batches."""
        import fxtranslate

        engine = fxtranslate.Translator(*(path.read_bytes() for path in self.files))
        return lambda lines: [engine.translate(line) for line in lines]


Engine = Ours | FxTranslate


def translated(
    engine: Engine, lines: dict[str, list[str]], core: int
) -> tuple[dict[str, list[str]], float]:
    """Translates lines on one core, in a process of its own.

    Returns:
        The translations; the seconds for all lines, text to text, the median of `ROUNDS`.
    """
    os.sched_setaffinity(0, {core})
    translate = engine.load()
    translate([texts[0] for texts in lines.values()])  # compiles
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        outputs = {test: [str(one) for one in translate(texts)] for test, texts in lines.items()}
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
    parser.add_argument(
        "--rows",
        type=lambda text: [int(number) for number in text.split(",")],
        default=range(1, len(ROWS) + 1),
        help="of the table, separated by commas (all)",
    )
    for line in Students(parser.parse_args()).run():
        print(line, flush=True)


if __name__ == "__main__":
    main()
