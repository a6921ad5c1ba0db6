"""Vocabulary and data generation on Multi30k, compared with tensor2tensor's way (`t2t_way.py`).

    python benchmarks/data_generation.py path/to/multi30k [--golden=path/to/vocab_build]

Contenders take turns, each in separate processes; ratios are computed within a round. The text is
Multi30k's training captions in three language pairs, 87,000 pairs, repeated as needed. Up to that
number no pair repeats, which matters because a token cache never misses in text that it has seen.
The vocabularies are built from the first 29,000 pairs.

- Vocabulary: seconds from files of lines to a file, imports excluded.
- Generation: all contenders write 100 shuffled files. The rate is computed from the difference
  between a large and a small corpus, so that start-up does not count. T2T's way is slow, so one
  worker and all cores are compared on a larger corpus, where several workers are useful.
- Input pipeline: processor seconds, of all threads, for training batches as they are stored and
  with BPE-dropout, from 29,000 pairs. A step of a tiny Transformer takes some 8,000 target subwords
  a second on one core; the pipeline shall supply three times as many.
- Memory: the peak of the summed proportional set sizes of all processes of t2t-datagen.
- The two `.subwords` vocabularies must have the same bytes, and their records must be the same
  multiset. With `--golden`, the reimplementation must also build T2T's own vocabulary.
"""

import argparse
import concurrent.futures
import gzip
import itertools
import json
import multiprocessing
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import machine
import pairing
import report
import t2t_way

from t2t_lite.data import records
from t2t_lite.text import vocabularies
from t2t_lite.text.text_encoder import VocabType

# Distinct pairs: English-German, then German-French, then French-English.
LANGUAGES = {"inputs": ("en", "de", "fr"), "targets": ("de", "fr", "en")}
SHARDS = 100
VOCABULARY = {VocabType.SUBWORD: 2**13, VocabType.SENTENCEPIECE_BPE: 8_000}
PROBLEMS = {
    VocabType.SUBWORD: "text2text_tmpdir",
    VocabType.SENTENCEPIECE_BPE: "text2text_tmpdir_bpe",
}
T2T = "T2T's way"
ONE_WORKER, ALL_CORES = "1 worker", "all cores"

SAMPLED = "bpe_dropout=0.1"
PIPELINE_SUBWORDS = 500_000  # about an epoch of 29,000 pairs

Seconds = dict[str, list[float]]
Result = TypeVar("Result")


class Process:
    """A separate process that runs one function after another."""

    def __init__(self) -> None:
        self._pool = concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        self._pool.submit(time.perf_counter).result()

    def seconds(self, work: Callable[..., None], *arguments: object) -> float:
        """Runs the function there and returns its duration in seconds."""
        return self.result(_timed, work, *arguments)

    def result(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Runs the function there and returns its result."""
        return self._pool.submit(work, *arguments).result()


def _timed(work: Callable[..., None], *arguments: object) -> float:
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def write_corpus(multi30k: pathlib.Path, folder: pathlib.Path, pairs: int) -> pathlib.Path:
    """Writes the files that the problems read: `pairs` for training, 100 for evaluation."""
    folder.mkdir()
    for side, languages in LANGUAGES.items():
        for split, name, count in (("train", "train", pairs), ("eval", "val", 100)):
            files = [gzip.decompress((multi30k / f"{name}.{x}.gz").read_bytes()) for x in languages]
            lines = b"".join(files).splitlines(keepends=True)
            with open(folder / f"{side}.{split}.txt", "wb") as file:
                file.writelines(itertools.islice(itertools.cycle(lines), count))
    return folder


def pairs_of(text: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yields the training pairs of a folder, stripped of surrounding white space."""
    with (
        open(text / "inputs.train.txt", encoding="utf-8", newline="\n") as sources,
        open(text / "targets.train.txt", encoding="utf-8", newline="\n") as targets,
    ):
        for source, target in zip(sources, targets, strict=True):
            yield source.strip(), target.strip()


def build_t2t_vocabulary(text: pathlib.Path, path: pathlib.Path) -> None:
    lines = itertools.chain.from_iterable(pairs_of(text))
    t2t_way.build_vocabulary(lines, VOCABULARY[VocabType.SUBWORD], path)


def build_vocabulary(vocab_type: str, text: pathlib.Path, path: pathlib.Path) -> None:
    lines = itertools.chain.from_iterable(pairs_of(text))
    vocabularies.build(vocab_type, path, lines, VOCABULARY[vocab_type])


def generate_t2t(text: pathlib.Path, data: pathlib.Path, vocabularies: pathlib.Path) -> None:
    data.mkdir()
    paths = [data / f"train-{i:05d}-of-{SHARDS:05d}" for i in range(SHARDS)]
    t2t_way.generate(pairs_of(text), vocabularies / VocabType.SUBWORD, paths)


def start_datagen(
    vocab_type: str,
    text: pathlib.Path,
    data: pathlib.Path,
    vocabularies: pathlib.Path,
    num_workers: int = 0,
) -> subprocess.Popen[bytes]:
    """Starts t2t-datagen in a new session, with an existing vocabulary."""
    from t2t_lite import registry

    data.mkdir()
    name = PROBLEMS[vocab_type]
    # datagen uses any vocabulary with the expected name, whatever its size.
    shutil.copy(vocabularies / vocab_type, data / registry.problem(name).vocab_files()[0])
    command = [sys.executable, "-m", "t2t_lite.bin.t2t_datagen", f"--problem={name}"]
    command += [f"--tmp_dir={text}", f"--data_dir={data}", f"--num_workers={num_workers}"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)


def datagen_seconds(*arguments: object) -> float:
    """Runs t2t-datagen; arguments as in `start_datagen`."""
    start = time.perf_counter()
    finish(start_datagen(*arguments))
    return time.perf_counter() - start


def datagen_memory(*arguments: object) -> float:
    """Returns the peak memory of all processes of a t2t-datagen together, in MiB."""
    process = start_datagen(*arguments)
    most = 0.0
    while process.poll() is None:
        most = max(most, session_memory(process.pid))
        time.sleep(0.05)
    finish(process)
    return most


def finish(process: subprocess.Popen[bytes]) -> None:
    """Waits for a command.

    Raises:
        RuntimeError: the command failed.
    """
    _, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(errors.decode())


def session_memory(session: int) -> float:
    """Returns the proportional set size of all processes of a session, in MiB."""
    total = 0
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            # After the name: state, parent, group, session.
            if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                rollup = (folder / "smaps_rollup").read_text()
                total += int(rollup.partition("\nPss:")[2].split()[0])
        except (FileNotFoundError, ProcessLookupError, IndexError):
            continue  # the process has ended
    return total / 1024


def measure_vocabularies(
    warm_up: pathlib.Path, text: pathlib.Path, folder: pathlib.Path, rounds: int
) -> Seconds:
    """Builds each vocabulary in turn, as files of `folder` named after their types.

    A first turn on other text loads the libraries and is not timed.
    """
    processes = {name: Process() for name in (T2T, *VOCABULARY)}
    seconds: Seconds = {name: [] for name in processes}
    for corpus in (warm_up, *[text] * rounds):
        for name, process in processes.items():
            path = folder / name
            if name == T2T:
                taken = process.seconds(build_t2t_vocabulary, corpus, path)
            else:
                taken = process.seconds(build_vocabulary, name, corpus, path)
            seconds[name].append(taken)
    if (folder / T2T).read_bytes() != (folder / VocabType.SUBWORD).read_bytes():
        raise RuntimeError("the two .subwords vocabularies differ")
    return {name: taken[1:] for name, taken in seconds.items()}


def measure_generation(
    texts: Sequence[pathlib.Path], folder: pathlib.Path, vocabularies: pathlib.Path, rounds: int
) -> Seconds:
    """Returns the difference in seconds between the larger and the smaller text."""
    peer = Process()
    data = folder / "data"
    bpe = VocabType.SENTENCEPIECE_BPE
    contenders: dict[str, Callable[[pathlib.Path], float]] = {
        T2T: lambda text: peer.seconds(generate_t2t, text, data, vocabularies),
        VocabType.SUBWORD: lambda text: datagen_seconds(
            VocabType.SUBWORD, text, data, vocabularies
        ),
        bpe: lambda text: datagen_seconds(bpe, text, data, vocabularies),
    }
    seconds: Seconds = {name: [] for name in contenders}
    found: dict[str, list[tuple[list[int], list[int]]]] = {}
    for _ in range(rounds):
        for name, run in contenders.items():
            short = run(texts[0])
            if name in (T2T, VocabType.SUBWORD) and name not in found:
                found[name] = sorted_examples(data)
            shutil.rmtree(data)
            seconds[name].append(run(texts[1]) - short)
            shutil.rmtree(data)
    if found[T2T] != found[VocabType.SUBWORD]:
        raise RuntimeError("the records differ")
    return seconds


def measure_workers(
    texts: Sequence[pathlib.Path], folder: pathlib.Path, vocabularies: pathlib.Path, rounds: int
) -> Seconds:
    """Returns the difference in seconds between the larger and the smaller text."""
    bpe, data = VocabType.SENTENCEPIECE_BPE, folder / "data"
    seconds: Seconds = {ONE_WORKER: [], ALL_CORES: []}
    for _ in range(rounds):
        for name, num_workers in ((ONE_WORKER, 1), (ALL_CORES, 0)):
            taken = []
            for text in texts:
                taken.append(datagen_seconds(bpe, text, data, vocabularies, num_workers))
                shutil.rmtree(data)
            seconds[name].append(taken[1] - taken[0])
    return seconds


def pipeline_seconds(data: pathlib.Path, bpe_dropout: float, rounds: int) -> list[float]:
    """Returns the processor seconds per `PIPELINE_SUBWORDS` in each round, after a first epoch."""
    from t2t_lite import registry
    from t2t_lite.data.batching import BatchingScheme
    from t2t_lite.data.example_reader import ExampleReader
    from t2t_lite.data.input_pipeline import train_dataset
    from t2t_lite.data.problem import DatasetSplit
    from t2t_lite.data.rewriting import Rewriter

    problem = registry.problem(PROBLEMS[VocabType.SENTENCEPIECE_BPE])
    hparams = registry.hparams("transformer_multi30k_prenorm").copy(bpe_dropout=bpe_dropout)
    reader = ExampleReader.of(problem, hparams)
    dataset = train_dataset(
        problem.existing_filepaths(str(data), DatasetSplit.TRAIN),
        BatchingScheme.from_hparams(hparams, training=True),
        reader,
        parts=1,
        seed=1,
        batch_shuffle_size=hparams.batch_shuffle_size,
        rewriter=Rewriter.of(hparams, reader, problem.get_feature_encoders(str(data)), seed=1),
    )
    batches = iter(dataset)
    taken = []
    for _ in range(1 + rounds):
        start, subwords = time.process_time(), 0
        while subwords < PIPELINE_SUBWORDS:
            subwords += int((next(batches)["targets"].numpy() > 0).sum())
        taken.append((time.process_time() - start) * PIPELINE_SUBWORDS / subwords)
    return taken[1:]


def measure_pipeline(
    text: pathlib.Path, folder: pathlib.Path, vocabularies: pathlib.Path, rounds: int
) -> report.Case:
    """Measures the input pipeline with and without subword sampling."""
    data = folder / "pipeline"
    datagen_seconds(VocabType.SENTENCEPIECE_BPE, text, data, vocabularies)
    found = {
        name: Process().result(pipeline_seconds, data, rate, rounds)
        for name, rate in (("as stored", 0.0), (SAMPLED, 0.1))
    }
    comparison = pairing.Comparison(found, {})
    need = 24_000 / PIPELINE_SUBWORDS * comparison.median(SAMPLED)
    figure = report.Figure(f"24,000 target subwords, {SAMPLED}", need, "s", most=1.0)
    title, unit = "input pipeline, seconds of one core", "target subwords"
    return report.Case(title, comparison, (), (figure,), PIPELINE_SUBWORDS, unit)


def sorted_examples(data: pathlib.Path) -> list[tuple[list[int], list[int]]]:
    """Returns the training examples of a folder, sorted."""
    examples = records.read_examples(data.glob("*train-*"))
    return sorted((example["inputs"], example["targets"]) for example in examples)


def check_golden(folder: pathlib.Path) -> None:
    """Compares T2T's own vocabulary with the one that the reimplementation builds."""
    builds = json.loads((folder / "builds.json").read_text("utf-8"))["builds"]
    (golden,) = (build for build in builds if build["file"] == "vocab.1024.subwords")
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name, "vocab")
        lines = (folder / "corpus.txt").read_text("utf-8").split("\n")
        t2t_way.build_vocabulary(lines, golden["target_size"], path)
        if path.read_bytes() != (folder / golden["file"]).read_bytes():
            raise RuntimeError(f"{golden['file']}: the peer builds another vocabulary than T2T")
    print(f"the peer's vocabulary is T2T's: {golden['file']}")


def measure_memory(
    texts: Sequence[pathlib.Path], folder: pathlib.Path, vocabularies: pathlib.Path
) -> report.Case:
    """Returns the greatest memory of t2t-datagen with each vocabulary and text."""
    figures = []
    for vocab_type in (VocabType.SENTENCEPIECE_BPE, VocabType.SUBWORD):
        for text in texts:
            data = folder / f"{vocab_type}{text.name}"
            memory = datagen_memory(vocab_type, text, data, vocabularies)
            figures.append(report.Figure(f"{vocab_type}: {int(text.name):,} pairs", memory, "MiB"))
    return report.Case("greatest memory of t2t-datagen", figures=tuple(figures))


def main() -> None:
    """Prints seconds, rates, memory, and each ratio with its bar."""
    parser = report.parser(__doc__, rounds=3)
    add = parser.add_argument
    add("multi30k", type=pathlib.Path, help="folder with train.en.gz, val.de.gz, ...")
    add("--golden", type=pathlib.Path, help="folder with vocabularies that T2T built")
    add("--few", type=int, default=20_000, help="pairs of the small corpus")
    add("--many", type=int, default=261_000, help="pairs of the large corpus")
    add("--most", type=int, default=1_000_000, help="the same, for several workers and for memory")
    args = parser.parse_args()
    with report.opened(args) as add_case, tempfile.TemporaryDirectory() as name:
        if args.golden:
            check_golden(args.golden)
        folder = pathlib.Path(name)
        for case in measure(args, folder):
            add_case(case)


def measure(args: argparse.Namespace, folder: pathlib.Path) -> Iterator[report.Case]:
    """Yields the cases as they are measured."""
    bpe, subwords = VocabType.SENTENCEPIECE_BPE, VocabType.SUBWORD
    vocabularies = folder / "vocabularies"
    vocabularies.mkdir()
    once = write_corpus(args.multi30k, folder / "once", 29_000)
    tiny = write_corpus(args.multi30k, folder / "tiny", 100)
    seconds = measure_vocabularies(tiny, once, vocabularies, args.rounds)
    bars = (report.Bar(bpe, T2T, 20), report.Bar(subwords, T2T, 3))
    found = pairing.Comparison(seconds, {})
    yield report.Case("vocabulary from 58,000 lines", found, bars, (), 58_000, "lines")

    yield measure_pipeline(once, folder, vocabularies, args.rounds)

    few, many, most = texts = [
        write_corpus(args.multi30k, folder / f"{n}", n) for n in (args.few, args.many, args.most)
    ]
    seconds = measure_generation((few, many), folder, vocabularies, args.rounds)
    bars = (report.Bar(bpe, T2T, 2.5), report.Bar(subwords, T2T, 2))
    yield generation(args.few, args.many, seconds, bars)
    # More rounds: on all cores, other load on the machine adds noise.
    seconds = measure_workers((few, most), folder, vocabularies, 3 * args.rounds)
    least = 1.6 if len(machine.threads()) > 1 else None
    yield generation(args.few, args.most, seconds, (report.Bar(ALL_CORES, ONE_WORKER, least),))
    yield measure_memory(texts, folder, vocabularies)


def generation(few: int, many: int, seconds: Seconds, bars: tuple[report.Bar, ...]) -> report.Case:
    """Describes the generation of the pairs by which two corpora differ."""
    title = f"generation of {few:,} to {many:,} pairs"
    return report.Case(title, pairing.Comparison(seconds, {}), bars, (), many - few, "pairs")


if __name__ == "__main__":
    main()
