"""t2t-datagen on Multi30k's training text: its rate, its memory, and SentencePiece alone beside it.

    python benchmarks/data_generation.py path/to/multi30k

The text is repeated 10 and 40 times, the vocabulary is there already (it is made from at most ten
million lines, however large the corpus). The rate is that of the further 30 × 29,000 pairs, so that
start-up does not count; the limit is the rate at which SentencePiece, with as many
threads, only encodes both sides in memory.
"""

import argparse
import gzip
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

SIDES = {"inputs": "en", "targets": "de"}
PROBLEM = "text2text_tmpdir_bpe"


def write_corpus(raw: pathlib.Path, folder: pathlib.Path, times: int) -> int:
    """Writes what the problem reads; returns the number of training pairs."""
    folder.mkdir()
    for side, language in SIDES.items():
        lines = gzip.decompress((raw / f"train.{language}.gz").read_bytes())
        (folder / f"{side}.train.txt").write_bytes(lines * times)
        evaluation = gzip.decompress((raw / f"val.{language}.gz").read_bytes())
        (folder / f"{side}.eval.txt").write_bytes(evaluation)
    return lines.count(b"\n") * times


def generate(text: pathlib.Path, data: pathlib.Path) -> tuple[float, float]:
    """Runs t2t-datagen; returns its seconds and its greatest resident memory in MiB."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "t2t_lite.bin.t2t_datagen", f"--problem={PROBLEM}"]
    process = subprocess.Popen(
        [*command, f"--tmp_dir={text}", f"--data_dir={data}"], stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"t2t-datagen failed: {status}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def encoding_rate(text: pathlib.Path, data: pathlib.Path) -> float:
    """Pairs/s of SentencePiece encoding lists of lines, and nothing else."""
    import sentencepiece

    (model,) = data.glob("vocab.*.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    sides = [(text / f"{side}.train.txt").read_text("utf-8").split("\n")[:-1] for side in SIDES]
    start = time.perf_counter()
    for lines in sides:
        processor.encode(lines, num_threads=len(os.sched_getaffinity(0)))
    return len(sides[0]) / (time.perf_counter() - start)


def main() -> None:
    """Prints rates, memory and ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "multi30k", type=pathlib.Path, help="folder with train.en.gz, val.de.gz, ..."
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        once, vocabulary = pathlib.Path(name, "once"), pathlib.Path(name, "vocabulary")
        write_corpus(args.multi30k, once, 1)
        generate(once, vocabulary)
        found = []
        for times in (10, 40):
            text, data = pathlib.Path(name, f"text{times}"), pathlib.Path(name, f"data{times}")
            pairs = write_corpus(args.multi30k, text, times)
            data.mkdir()
            for model in vocabulary.glob("vocab.*"):
                shutil.copy(model, data)
            seconds, memory = generate(text, data)
            print(f"{pairs:9,} pairs: {seconds:6.1f} s in all, {memory:6.0f} MiB at most")
            found.append((pairs, seconds))
        (few, short), (many, long) = found
        ours, limit = (many - few) / (long - short), encoding_rate(text, data)
    print(f"t2t-datagen      {ours:9,.0f} pairs/s")
    print(f"encoding alone   {limit:9,.0f} pairs/s")
    print(f"ratio            {ours / limit:9.2f}")


if __name__ == "__main__":
    main()
