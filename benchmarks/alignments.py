r"""Alignments of a guided head, beside those of its teacher and of the built-in aligner.

    pip install bible-alignments
    pip install eflomal
    python benchmarks/alignments.py --data=FOLDER --output_dir=aligned [--eflomal=eflomal-align]

FOLDER is `data` of the package bible-alignments (CC BY 4.0), beside its code: the Greek New
Testament and an English one, verse by verse, with alignments that people made. eflomal, which
t2t_lite does not need, aligns the verses. A model learns to translate them, and its first head to
align as eflomal does, by t2t-datagen --alignments and guided_alignment_weight. It then aligns the
verses, by t2t-decoder --score_file --output_format=alignments, and t2t-bleu --metrics=aer compares
each with people's alignments. So does the aligner of t2t-datagen --alignments=auto, of words here.

The verses to align are those of training: none of the aligners sees people's alignments. Steps
whose output exists are skipped, so that a killed command resumes when it is run again.
"""

import argparse
import collections
import csv
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator

import numpy as np
from adaptation import command

from t2t_lite import files
from t2t_lite.text.alignment.diagonal_aligner import DiagonalAligner

PROBLEM = "text2text_tmpdir_bpe"
HPARAMS = (
    "num_hidden_layers=2,hidden_size=128,filter_size=512,num_heads=4,batch_size=4096,"
    "guided_alignment_weight=2,learning_rate_constant=1,learning_rate_warmup_steps=500"
)
EVALUATED = 200  # verses that the trainer evaluates on, which are in training, too


class Verses:
    """The verses and people's alignments, as files of lines.

    Args:
        data: the package's folder.
        folder: where the files are written.
    """

    def __init__(self, data: pathlib.Path, folder: pathlib.Path) -> None:
        self.folder = folder
        self.sources, self.targets = folder / "inputs.train.txt", folder / "targets.train.txt"
        self.people = folder / "people.txt"
        if self.people.exists():
            return
        lines = list(_verses(data))
        sources, targets, people = (list(column) for column in zip(*lines, strict=True))
        for side, texts in (("inputs", sources), ("targets", targets)):
            for split, count in (("train", None), ("eval", EVALUATED)):
                _write(folder / f"{side}.{split}.txt", texts[:count])
        _write(self.people, people)


def _verses(data: pathlib.Path) -> Iterator[tuple[str, str, str]]:
    """Yields Greek words, English words and people's links of each verse that has all."""
    greek, english = collections.defaultdict(list), collections.defaultdict(list)
    for row in _rows(data / "sources" / "SBLGNT.tsv"):
        greek[row["id"][1:9]].append((row["id"], row["text"].lower()))
    for row in _rows(data / "eng" / "targets" / "BSB" / "nt_BSB.tsv"):
        english[row["source_verse"]].append((row["id"], row["text"].lower()))
    path = data / "eng" / "alignments" / "BSB" / "SBLGNT-BSB-manual.json"
    linked = collections.defaultdict(list)
    for record in json.loads(path.read_text(encoding="utf-8"))["records"]:
        for source in record["source"]:
            linked[source[1:9]] += [(source, target) for target in record["target"]]
    for verse, words in greek.items():
        places = [{id_: i for i, (id_, _) in enumerate(side)} for side in (words, english[verse])]
        links = [
            f"{places[0][source]}-{places[1][target]}"
            for source, target in linked[verse]
            if source in places[0] and target in places[1]
        ]
        if links:
            texts = [" ".join(text for _, text in side) for side in (words, english[verse])]
            yield texts[0], texts[1], " ".join(links)


def _rows(path: pathlib.Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        # A token with a space would be two words.
        yield from ({**row, "text": row["text"].strip().replace(" ", "_")} for row in rows)


def _write(path: pathlib.Path, lines: Iterable[str]) -> None:
    files.write_text(path, "".join(f"{line}\n" for line in lines))


def by_eflomal(verses: Verses, program: str) -> dict[str, pathlib.Path]:
    """Returns the files of eflomal's links in both directions."""
    found = {name: verses.folder / f"eflomal.{name}.txt" for name in ("forward", "reverse")}
    if not all(path.exists() for path in found.values()):
        outputs = ["-f", found["forward"], "-r", found["reverse"], "--overwrite"]
        subprocess.run(
            [program, "-s", verses.sources, "-t", verses.targets, *outputs],
            check=True,
        )
    return found


def by_aligner(verses: Verses) -> pathlib.Path:
    """Returns the file of the built-in aligner's links between words."""
    path = verses.folder / "built_in.txt"
    if not path.exists():
        sides = []
        for side in (verses.sources, verses.targets):
            ids: dict[str, int] = {}
            lines = side.read_text(encoding="utf-8").splitlines()
            sides.append(
                [np.array([ids.setdefault(word, len(ids)) for word in x.split()]) for x in lines]
            )
        pairs = list(zip(*sides, strict=True))
        found = DiagonalAligner.train(pairs).align(pairs)
        links = (" ".join(f"{i}-{j}" for j, i in enumerate(row) if i >= 0) for row in found)
        _write(path, links)
    return path


def by_model(
    verses: Verses, teacher: pathlib.Path, folder: pathlib.Path, steps: int
) -> pathlib.Path:
    """Returns the file of the links of a model that learns the teacher's."""
    data, run, path = folder / "data", folder / "run", verses.folder / "model.txt"
    if not path.exists():
        command(
            "t2t_datagen",
            problem=PROBLEM,
            tmp_dir=verses.folder,
            data_dir=data,
            alignments=teacher,
        )
        command(
            "t2t_trainer",
            problem=PROBLEM,
            data_dir=data,
            model="transformer",
            hparams_set="transformer_small",
            hparams=HPARAMS,
            output_dir=run,
            train_steps=steps,
            local_eval_frequency=steps,
        )
        command(
            "t2t_decoder",
            output_dir=run,
            decode_from_file=verses.sources,
            score_file=verses.targets,
            decode_to_file=path,
            output_format="alignments",
        )
    return path


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    path = pathlib.Path
    parser.add_argument("--data", type=path, required=True, help="the package's folder of data")
    parser.add_argument("--output_dir", type=path, required=True, help="folder of all files")
    parser.add_argument("--eflomal", default="eflomal-align", help="the program (eflomal-align)")
    parser.add_argument("--steps", type=int, default=8000, help="of training (8000)")
    args = parser.parse_args()
    verses = Verses(args.data, args.output_dir / "text")
    found = by_eflomal(verses, args.eflomal)
    rows = {f"eflomal, {name}": links for name, links in found.items()}
    rows["IBM 1 with a diagonal prior, built in"] = by_aligner(verses)
    rows["guided head, taught by eflomal, forward"] = by_model(
        verses, found["forward"], args.output_dir, args.steps
    )
    print("| | AER, % |\n|---|---:|")
    for name, links in rows.items():
        report = command("t2t_bleu", translation=links, reference=verses.people, metrics="aer")
        print(f"| {name} | {report.partition('=')[2].strip()} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
