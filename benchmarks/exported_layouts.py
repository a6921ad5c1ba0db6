r"""Compares what transformers and Marian compute with random models that are exported for them.

    pip install -e '.[import]'            # and, in environments of their own:
    pip install torch transformers        # PYTHON
    pip install pymarian                  # MARIAN
    python benchmarks/exported_layouts.py --transformers=PYTHON [--marian=MARIAN/bin/pymarian] \
        [--text=FILE] [--models=20] [--pairs=200]

makes so many models of each layout. Their sizes, activations, ties of embeddings, biases and
weights are random. For each layout of transformers it prints the largest difference of a logit, how
many greedy outputs are t2t-decoder's, how many are as likely, but for 1e-4 in a step, and how many
lines of a text (by default, that of the tests) transformers' own tokenizer splits into the same
ids, with the vocabularies of the first models. For Marian, it prints the largest difference of the
log-probability of a pair.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

from support.exported_runs import Made, made_run, random_hparams, sentences
from support.transformers_models import (
    IMPORTED,
    POST,
    PRE,
    TRAINED,
    Compared,
    Exported,
    ask_transformers,
    random_model,
)
from t2t_lite.interop.export import marian
from t2t_lite.search.decode_hparams import DecodeHParams

LIMIT = 1e-4  # of the difference of logits
MARIANS = {"post-norm": POST, "pre-norm": PRE, "recurrent": {**POST, "decoder_self": "ssru"}}
VOCABULARIES = 4  # of a layout, with which the text is split


def compared(
    layout: str, folder: pathlib.Path, lines: list[str], args: argparse.Namespace
) -> list[Compared]:
    """Returns how far transformers agrees with t2t_lite, for each model of a layout."""
    found = []
    for seed in range(args.models):
        place = folder / f"{layout}{seed}"
        place.mkdir()
        found.append(Exported(random_model(layout, place, seed), place / "out"))
    asked = {
        one.folder: one.questions(lines if number < VOCABULARIES else [], args.pairs)
        for number, one in enumerate(found)
    }
    answers = ask_transformers(args.transformers, asked)
    return [one.compared(*answer) for one, answer in zip(found, answers, strict=True)]


def table(folder: pathlib.Path, lines: list[str], args: argparse.Namespace) -> Iterator[str]:
    """Yields the lines of the table of transformers."""
    yield (
        f"| layout | models | logits differ by | by more than {LIMIT:g} "
        "| greedy outputs equal | ties | lines of the same ids |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for layout in (*TRAINED, *IMPORTED):
        models = compared(layout, folder, lines, args)
        logits = [model.logits for model in models]
        yield (
            f"| {layout} | {len(models)} | {max(logits):.1e} "
            f"| {sum(one > LIMIT for one in logits)} models "
            f"| {sum(m.equal for m in models):,} of {sum(m.outputs for m in models):,} "
            f"| {sum(m.ties for m in models)} "
            f"| {sum(m.ids for m in models):,} of {sum(m.lines for m in models):,} |"
        )


def scores(run: Made, sources: list[str], targets: list[str]) -> np.ndarray:
    """Returns our log-probability of each pair."""
    ids = [
        [[*encoder.encode(line), 1] for line in texts]
        for encoder, texts in zip(run.encoders.values(), (sources, targets), strict=True)
    ]
    rows = [
        np.array([[*row, *[0] * (max(map(len, side)) - len(row))] for row in side]) for side in ids
    ]
    logits = np.asarray(run.model(dict(zip(("inputs", "targets"), rows, strict=True))))
    logits = logits.astype(np.float64)
    logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    chosen = np.take_along_axis(logits, rows[1][..., None], axis=-1)[..., 0]
    return np.where(rows[1] > 0, chosen, 0).sum(axis=1)


def marians(folder: pathlib.Path, lines: list[str], args: argparse.Namespace) -> Iterator[str]:
    """Yields the lines of the table of Marian, which scores pairs of lines and their successors."""
    yield "| layout | models | pairs | log-probabilities differ by | of the largest |"
    yield "|---|---:|---:|---:|---:|"
    some = [line for line in lines if line.strip()][: args.pairs]
    pairs = (some, [*some[1:], some[0]])
    for name, steps in MARIANS.items():
        worst, largest = 0.0, 0.0
        for seed in range(args.models):
            place = folder / f"{name}{seed}"
            place.mkdir()
            run = made_run(place, seed=seed, **random_hparams(seed, **steps))
            marian.export(run, None, str(place), DecodeHParams.of(run, "beam_size=1"))
            exported = place / "marian" / "1"
            files = [place / side for side in ("source", "target")]
            for path, texts in zip(files, pairs, strict=True):
                path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
            vocabularies = [exported / "vocab.spm"] * 2
            command = [args.marian, "score", "-m", exported / "model.npz", "-v", *vocabularies]
            command += ["-t", *files, "--cpu-threads", "1", "--quiet"]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            own = scores(run, *pairs)
            theirs = np.array([*map(float, done.stdout.split())])
            worst = max(worst, np.abs(own - theirs).max())
            largest = max(largest, np.abs(own).max())
        yield f"| {name} | {args.models} | {len(some)} each | {worst:.1e} | {largest:.0f} |"


def main() -> None:
    """Prints a table for each program that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transformers", default="", help="a Python with torch and transformers")
    parser.add_argument("--marian", default="", help="the program pymarian")
    parser.add_argument("--text", type=pathlib.Path, help="lines of text for the tokenizers")
    parser.add_argument("--models", type=int, default=20, help="of each layout")
    parser.add_argument("--pairs", type=int, default=200, help="of sentences for each model")
    args = parser.parse_args()
    lines = args.text.read_text(encoding="utf-8").splitlines() if args.text else sentences()
    with tempfile.TemporaryDirectory() as folder:
        tables = [table] * bool(args.transformers) + [marians] * bool(args.marian)
        for one in tables:
            for line in one(pathlib.Path(folder), lines, args):
                print(line, flush=True)


if __name__ == "__main__":
    main()
