r"""Compares what Marian and transformers do with a model that is exported for them.

    pip install -e '.[import]'            # and, in an environment of its own: pip install pymarian
    python benchmarks/exports.py --output_dir=runs/exports --marian=MARIAN/bin/pymarian \
        --transformers=PYTHON [--steps=50] [--pairs=500] [--lines=300]

imports the model of tests/fixtures/marian, trains it for `--steps` updates on its own sentences,
and exports it to both forms. For each program that is named (PYTHON has torch and transformers), it
prints the largest difference of the log-probability of a pair, and how many greedy outputs are
those of t2t-decoder. benchmarks/exported_layouts.py compares random models of each layout.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import sentencepiece

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))

from support.transformers_models import ask_transformers
from t2t_lite.api import generate_data, train
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.interop.export import hugging_face, marian
from t2t_lite.interop.imports import open_models
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams

FIXTURE = pathlib.Path(__file__).parents[1] / "tests" / "fixtures" / "marian"


def lines(name: str) -> list[str]:
    """Returns the lines of a file of the fixture."""
    return (FIXTURE / name).read_text(encoding="utf-8").splitlines()


def write(path: pathlib.Path, texts: Sequence[str]) -> pathlib.Path:
    """Writes lines; returns their file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def adapted(folder: pathlib.Path, steps: int) -> RunFolder:
    """Imports the model and trains it further."""
    open_models.import_run(str(FIXTURE), str(folder / "imported"))
    target = sentencepiece.SentencePieceProcessor(str(FIXTURE / "target.spm"))
    write(folder / "text" / "inputs.train.txt", lines("test.en"))
    write(
        folder / "text" / "targets.train.txt",
        [target.decode(line.split()) for line in lines("test.spm.de")],
    )
    (folder / "data").mkdir()
    for path in (folder / "imported").glob("vocab.imported.*"):
        shutil.copy(path, folder / "data")
    problem = {"problem": "translate_imported", "data_dir": str(folder / "data")}
    generate_data(**problem, tmp_dir=str(folder / "text"))
    train(
        **problem,
        model="transformer",
        hparams_set="transformer_finetune",
        output_dir=str(folder / "run"),
        warm_start_from=str(folder / "imported"),
        train_steps=steps,
        hparams={"batch_size": 1024},
    )
    return RunFolder.open(str(folder / "run"))


def log_probs(run: RunFolder, pairs: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    """Returns the log-probability of each pair of ids."""
    model = run.load_model().model
    found: list[float] = []
    for start in range(0, len(pairs), 50):
        some = pairs[start : start + 50]
        inputs, targets = (_padded([pair[side] for pair in some]) for side in (0, 1))
        logits = np.asarray(model({"inputs": inputs, "targets": targets}))
        found += [
            _sum(row[: len(pair[1])], pair[1]) for row, pair in zip(logits, some, strict=True)
        ]
    return found


def _padded(rows: Sequence[Sequence[int]]) -> np.ndarray:
    length = max(map(len, rows))
    return np.array([[*row, *[0] * (length - len(row))] for row in rows])


def _sum(logits: np.ndarray, ids: Sequence[int]) -> float:
    """Returns the log-probability of ids [T], given their logits [T, V]."""
    logits = logits.astype(np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return float(logits[np.arange(len(ids)), ids].sum())


def output_of(*command: object) -> str:
    """Returns what a command prints."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def with_marian(
    program: str, run: RunFolder, folder: pathlib.Path, args: argparse.Namespace
) -> tuple[list[float], list[str]]:
    """Returns Marian's log-probabilities of the pairs, and its greedy outputs."""
    search = DecodeHParams.of(run, "beam_size=1")
    marian.export(run, None, str(folder), search)
    exported = folder / "marian" / "1"
    pieces = [
        write(folder / f"pairs.{side}", lines(f"test.spm.{side}")[: args.pairs])
        for side in ("en", "de")
    ]
    vocabulary = str(exported / "vocab.yml")
    scored = output_of(
        *(program, "score", "-m", exported / "model.npz", "-v", vocabulary, vocabulary),
        *("-t", *pieces, "--cpu-threads", 1, "--quiet"),
    ).split()
    source = write(folder / "source", lines("test.spm.en")[: args.lines])
    decoded = output_of(
        *(program, "decode", "-c", exported / "decoder.yml", "-i", source),
        *("--cpu-threads", 1, "--quiet"),
    )
    target = sentencepiece.SentencePieceProcessor(str(exported / "target.spm"))
    return [*map(float, scored)], [target.decode(line.split()) for line in decoded.splitlines()]


def with_transformers(
    python: str,
    run: RunFolder,
    folder: pathlib.Path,
    pairs: Sequence[tuple[list[int], list[int]]],
    args: argparse.Namespace,
) -> tuple[list[float], list[str]]:
    """Returns transformers' log-probabilities of the pairs, and its greedy outputs."""
    search = DecodeHParams.of(run, "beam_size=1")
    hugging_face.export(run, None, str(folder), search)
    exported = folder / "huggingface" / "1"
    asked = {"lines": [], "pairs": pairs, "limit": 100, "greedy": args.lines}
    ((answers, logits),) = ask_transformers(python, {exported: asked})
    sums = [
        _sum(rows[: len(target)], target) for (_, target), rows in zip(pairs, logits, strict=True)
    ]
    return sums, [run.encoders["targets"].decode(ids) for ids in answers["greedy"]]


def main() -> None:
    """Prints a row for each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_dir", required=True, type=pathlib.Path)
    parser.add_argument("--marian", default="")
    parser.add_argument("--transformers", default="")
    for name, default in (("steps", 50), ("pairs", 500), ("lines", 300)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    run = adapted(args.output_dir, args.steps)
    ids = [
        [run.encoders[side].text_ids for side in ("inputs", "targets")],
        [lines(f"test.spm.{side}")[: args.pairs] for side in ("en", "de")],
    ]
    pairs = [
        tuple(
            [*(known.get(piece, encoder.unknown_id) for piece in line.split()), 1]
            for known, encoder, line in zip(ids[0], run.encoders.values(), both, strict=True)
        )
        for both in zip(*ids[1], strict=True)
    ]
    own = log_probs(run, pairs)
    search = DecodeHParams.of(run, "beam_size=1")
    outputs = Translator(Decoder.from_run(run, hparams=search))(lines("test.en")[: args.lines])
    print("| program | pairs | largest difference | greedy outputs that are equal |")
    print("|---|---:|---:|---:|")
    found = {}
    if args.marian:
        found["Marian"] = with_marian(args.marian, run, args.output_dir / "exports", args)
    if args.transformers:
        found["transformers"] = with_transformers(
            args.transformers, run, args.output_dir / "exports", pairs, args
        )
    for name, (sums, texts) in found.items():
        worst = max(abs(a - b) for a, b in zip(sums, own, strict=True))
        equal = sum(a == b for a, b in zip(texts, outputs, strict=False))  # perhaps more
        print(f"| {name} | {len(own)} | {worst:.1e} | {equal} of {len(outputs)} |", flush=True)


if __name__ == "__main__":
    main()
