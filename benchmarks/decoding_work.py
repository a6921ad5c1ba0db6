"""The model and the text of `decode_throughput.py` and `serve.py`, and CTranslate2's exports.

The model has random weights, built so that every output is as long as its source.
"""

import argparse
import gzip
import importlib.util
import math
import multiprocessing
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

PROBLEM = "text2text_tmpdir_bpe"


class Work(NamedTuple):
    """What to decode, and how."""

    run_dir: pathlib.Path  # run folder
    exported: pathlib.Path  # holds a CTranslate2 folder for each way of storing weights
    vocabulary: pathlib.Path  # SentencePiece model
    lines: Sequence[str]
    beam_size: int
    batch_tokens: int  # size of CTranslate2's batches, in source tokens
    decode_hparams: str = ""  # further ones of ours


def add_flags(parser: argparse.ArgumentParser, sentences: int) -> None:
    """Adds the flags that say what to decode, by default that many sentences."""
    add = parser.add_argument
    add("--text", type=pathlib.Path, required=True, help="lines to translate, .gz or not")
    add(
        "--vocab_text",
        type=lambda paths: [pathlib.Path(path) for path in paths.split(",")],
        required=True,
        help="files that the vocabulary is made from, comma-separated",
    )
    add("--vocab_size", type=int, default=32_000, help="subwords (32000)")
    add("--sentences", type=int, default=sentences, help=f"lines of the sample ({sentences})")
    add("--ct2_batch_tokens", type=int, default=1024, help="of CTranslate2's batches (1024)")
    add("--decode_hparams", default="", help="further ones of our search, such as xla_compile=true")


def prepare(folder: pathlib.Path, hparams_set: str, args: argparse.Namespace) -> Work:
    """Prepares everything that the contenders read, and chooses the lines.

    Works in a separate process: child processes would inherit the peak memory of this one.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_prepare, (folder, hparams_set, args))


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
    from t2t_lite.interop.export import ctranslate2
    from t2t_lite.runs import checkpoint_files, run_creation
    from t2t_lite.runs.run_settings import RunSettings

    flags = {
        "output_dir": str(folder / "run"),
        "problem": PROBLEM,
        "model": "transformer",
        "hparams_set": hparams_set,
    }
    keras.utils.set_random_seed(0)
    hparams = registry.hparams(hparams_set).copy(pos="emb", max_length=512)
    run = run_creation.create_run(RunSettings.of(flags), hparams, str(vocabulary.parent))
    model = run.build_model()
    end_with_the_source(model)
    checkpoint = tf.train.Checkpoint(model=model, step=tf.Variable(0, dtype=tf.int64))
    checkpoint.write(str(run.folder / f"{checkpoint_files.CHECKPOINT_NAME}-0"))
    if importlib.util.find_spec("ctranslate2"):  # otherwise it does not take part
        for quantization in ("float32", "int8"):
            ctranslate2.export(run, None, str(folder / quantization), quantization)
    return run.folder


def _prepare(folder: pathlib.Path, hparams_set: str, args: argparse.Namespace) -> Work:
    from t2t_lite import registry
    from t2t_lite.text import vocabularies

    problem = registry.problem(PROBLEM)
    vocabulary = folder / "data" / problem.vocab_files()[0]
    text = (line for path in args.vocab_text for line in read_lines(path))
    vocabularies.build("bpe", vocabulary, text, args.vocab_size)
    return Work(
        run_dir=make_run(folder, hparams_set, vocabulary),
        exported=folder,
        vocabulary=vocabulary,
        lines=sample(args.text, args.sentences),
        beam_size=4,
        batch_tokens=args.ct2_batch_tokens,
        decode_hparams=args.decode_hparams,
    )


def end_with_the_source(model) -> None:
    """Changes random weights of a pre-norm Transformer so that outputs are as long as sources.

    Each position is a random code in a few features that no layer uses for anything else. One head
    of the last decoder layer compares the codes, so that target position t attends to source
    position t and reads a feature that only EOS has. The last normalisation raises that feature far
    above all others or, if it is missing, pushes it far below.

    Args:
        model: a Transformer with pos=emb, which is as fast as sinusoids.
    """
    h = model.hparams
    width = h.hidden_size // h.num_heads
    code, nothing, end = [*range(width)], width, width + 1  # features; `nothing` is always 0
    free = np.arange(width + 2, h.hidden_size)
    random = np.random.default_rng(0)
    codes = np.zeros((h.max_length, h.hidden_size), np.float32)
    codes[:, code] = random.choice([-1.0, 1.0], (h.max_length, width))
    model.encoder.position.table.assign(codes)
    model.decoder.position.table.assign(codes)

    matrix = np.zeros(model.targets_embedding.matrix.shape, np.float32)
    rows = random.standard_normal((len(matrix), len(free)))
    rows -= rows.mean(axis=1, keepdims=True)
    matrix[:, free] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    matrix[0] = 0.0  # padding is never the best output
    matrix[1, end] = 0.2
    model.targets_embedding.matrix.assign(matrix)

    for layer in [*model.encoder.stack, *model.decoder.stack]:
        outputs = [layer.attention.output_projection, layer.feed_forward.contract]
        if hasattr(layer, "source_attention"):
            outputs.append(layer.source_attention.output_projection)
        for projection in outputs:
            kernel = np.array(projection.kernel)
            kernel[:, [*code, nothing, end]] = 0.0
            projection.kernel.assign(kernel)

    attention = layer.source_attention  # of the last decoder layer; its first head
    compare = np.zeros((h.hidden_size, width), np.float32)
    compare[code, code] = 30.0
    compare[nothing] = -30.0  # normalisation has subtracted the mean from all features
    query, kv = np.array(attention.query.kernel), np.array(attention.kv.kernel)
    query[:, :width] = kv[:, :width] = compare
    kv[:, h.hidden_size : h.hidden_size + width] = 0.0
    kv[[end, nothing], h.hidden_size] = 1.0, -1.0
    output = np.array(attention.output_projection.kernel)
    output[0] = 0.0
    output[0, end] = 1000.0
    attention.query.kernel.assign(query)
    attention.kv.kernel.assign(kv)
    attention.output_projection.kernel.assign(output)

    norm = model.decoder.end.norm
    gamma, beta = np.full(h.hidden_size, 3.0), np.zeros(h.hidden_size)
    gamma[end], beta[end] = 50.0, -50.0 / 3 * math.sqrt(h.hidden_size)
    norm.gamma.assign(gamma)
    norm.beta.assign(beta)


def target_tokens(work: Work) -> list[int]:
    """Counts the subwords and EOS of every line, which every contender writes."""
    import sentencepiece

    spm = sentencepiece.SentencePieceProcessor(str(work.vocabulary))
    return [len(ids) + 1 for ids in spm.encode(list(work.lines))]
