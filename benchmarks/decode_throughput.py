"""Decoding speed compared with CTranslate2 on the same weights, and with bare matrix products.

    pip install -e '.[bench]'
    python benchmarks/decode_throughput.py --text=newstest2013.en --vocab_text=newstest2012.en,...

prints one table. A model with random weights, built so that every output is as long as its source
(see `decoding_contenders.py`), is written as a run folder and exported for CTranslate2 in float32
and int8. t2t-decoder's decoder and CTranslate2 translate a sample of the lines of `--text`, text to
text; the bare matrix products of our decoding run beside them. In each case all take turns in one
run:

- `beam`: beam 4, alpha 0.6; CTranslate2's penalty differs, which does not matter here.
- `greedy`: beam 1.
- `one`: beam 4, one line of median length at a time.

Rates are target tokens per second, including EOS. Ratios compare speeds: the median of the rounds
and their range. Peak memory is that of the whole process, including about 400 MiB of TensorFlow
itself. The time to the first output is the run time of the command `t2t-decoder` for one line.
"""

import argparse
import functools
import gzip
import multiprocessing
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import decoding_contenders as contenders
import numpy as np
import pairing

OURS, FLOAT32, INT8, PRODUCTS = contenders.PREPARE
PROBLEM = "text2text_tmpdir_bpe"
BARS = {FLOAT32: 1.0, PRODUCTS: 0.85}  # reaching one is enough


def read_lines(path: pathlib.Path) -> Iterator[str]:
    """Yields the lines of a text file, which may be gzipped."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        yield from (line.rstrip("\n") for line in file)


def sample(path: pathlib.Path, sentences: int) -> list[str]:
    """Returns that many non-empty lines, chosen at random with a fixed seed."""
    lines = list(filter(None, map(str.strip, read_lines(path))))
    chosen = np.random.default_rng(0).choice(len(lines), sentences, replace=False)
    return [lines[i] for i in chosen]


def make_run(folder: pathlib.Path, hparams_set: str, vocabulary: pathlib.Path) -> pathlib.Path:
    """Writes a run folder with one checkpoint and its exports; returns the run folder."""
    import keras
    import tensorflow as tf

    from t2t_lite import registry
    from t2t_lite.export import ctranslate2
    from t2t_lite.runs import checkpoint_files, run_folder

    flags = {
        "output_dir": str(folder / "run"),
        "problem": PROBLEM,
        "model": "transformer",
        "hparams_set": hparams_set,
    }
    keras.utils.set_random_seed(0)
    hparams = registry.hparams(hparams_set).copy(pos="emb", max_length=512)
    run = run_folder.create_run(flags, hparams, str(vocabulary.parent))
    model = run.build_model()
    contenders.end_with_the_source(model)
    checkpoint = tf.train.Checkpoint(model=model, step=tf.Variable(0, dtype=tf.int64))
    checkpoint.write(str(run.folder / f"{checkpoint_files.CHECKPOINT_NAME}-0"))
    for quantization in ("float32", "int8"):
        ctranslate2.export(run, None, str(folder / quantization), quantization)
    return run.folder


def prepare_folder(folder: pathlib.Path, args: argparse.Namespace) -> contenders.Work:
    """Prepares everything that the contenders read, and chooses the lines."""
    from t2t_lite import registry
    from t2t_lite.text import vocabularies

    problem = registry.problem(PROBLEM)
    vocabulary = folder / "data" / problem.vocab_files()[0]
    text = (line for path in args.vocab_text for line in read_lines(path))
    vocabularies.build("bpe", vocabulary, text, args.vocab_size)
    return contenders.Work(
        run_dir=make_run(folder, args.hparams_set, vocabulary),
        exported=folder,
        vocabulary=vocabulary,
        lines=sample(args.text, args.sentences),
        beam_size=4,
        batch_tokens=args.ct2_batch_tokens,
    )


def cases(work: contenders.Work) -> dict[str, contenders.Work]:
    """The three kinds of work."""
    one = sorted(work.lines, key=len)[len(work.lines) // 2]
    return {
        "beam": work,
        "greedy": work._replace(beam_size=1),
        "one": work._replace(lines=[one]),
    }


def target_tokens(work: contenders.Work) -> int:
    """Counts the subwords and EOS of every line, which every contender writes."""
    import sentencepiece

    spm = sentencepiece.SentencePieceProcessor(str(work.vocabulary))
    return sum(len(ids) + 1 for ids in spm.encode(list(work.lines)))


def rows(name: str, tokens: int, found: pairing.Comparison) -> list[str]:
    """Returns the lines of the table of one case."""
    lines = []
    for contender in found.seconds:
        seconds, ratio = found.median(contender), ""
        if contender != OURS:
            ratio = str(found.ratio(OURS, contender))
            if contender in BARS and name != "one":
                ratio += f" >= {BARS[contender]:.2f}"
        lines.append(
            f"{name:8} {contender:20} {seconds:8.3f} s {tokens / seconds:8.0f} tokens/s "
            f"{found.peak[contender]:8,.0f} MiB   {ratio}"
        )
    return lines


def first_output(work: contenders.Work, rounds: int) -> list[float]:
    """Returns the run times in seconds of the command for one line."""
    source, target = work.run_dir.parent / "one.txt", work.run_dir.parent / "one.out"
    source.write_text("One line.\n", encoding="utf-8")
    command = [sys.executable, "-m", "t2t_lite.bin.t2t_decoder", f"--output_dir={work.run_dir}"]
    command += [f"--decode_from_file={source}", f"--decode_to_file={target}"]
    seconds = []
    for _ in range(rounds):
        target.unlink(missing_ok=True)
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return seconds


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--text", type=pathlib.Path, required=True, help="lines to translate, .gz or not")
    add(
        "--vocab_text",
        type=lambda paths: [pathlib.Path(path) for path in paths.split(",")],
        required=True,
        help="files that the vocabulary is made from, comma-separated",
    )
    add("--vocab_size", type=int, default=32_000, help="subwords (32000)")
    add("--hparams_set", default="transformer_base", help="size of the model (transformer_base)")
    add("--sentences", type=int, default=128, help="lines of the sample (128)")
    add("--ct2_batch_tokens", type=int, default=1024, help="of CTranslate2's batches (1024)")
    add("--only", choices=("beam", "greedy", "one"), help="one case of the three")
    add("--rounds", type=int, default=5, help="turns of each contender (5)")
    add("--seconds", type=float, default=3.0, help="length of a turn (3)")
    return parser.parse_args()


def main() -> None:
    """Prints the table."""
    args = parse()
    with tempfile.TemporaryDirectory() as folder:
        # In a separate process: child processes inherit the peak memory of this one.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            work = pool.apply(prepare_folder, (pathlib.Path(folder), args))
        print(f"{contenders.THREADS} threads, {args.rounds} rounds, {len(work.lines)} lines")
        print("case, contender, seconds a turn, rate, peak memory, our speed to its, bar")
        for name, case in cases(work).items():
            if args.only in (None, name):
                prepare = {
                    contender: functools.partial(prepare, case)
                    for contender, prepare in contenders.PREPARE.items()
                }
                found = pairing.compare(prepare, args.rounds, args.seconds)
                print("\n".join(rows(name, target_tokens(case), found)), flush=True)
        seconds = first_output(work, 3)
        print(f"time to the first output: {statistics.median(seconds):.1f} s <= 10 s")


if __name__ == "__main__":
    main()
