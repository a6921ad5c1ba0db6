"""The contenders of `decode_throughput.py`, and the model that they decode with.

All have the same weights, translate the same lines from text to text, and write equally many target
tokens. No contender is told the length of an output: the model ends it where the source ends, so
that sentences finish at different steps, as in real use. With plain random weights, outputs would
end at random, or never.
"""

import functools
import math
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pairing

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
THREADS = len(os.sched_getaffinity(0))


class Work(NamedTuple):
    """What to decode, and how."""

    run_dir: pathlib.Path  # run folder
    exported: pathlib.Path  # holds a CTranslate2 folder for each way of storing weights
    vocabulary: pathlib.Path  # SentencePiece model
    lines: Sequence[str]
    beam_size: int
    batch_tokens: int  # size of CTranslate2's batches, in source tokens


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
    model.inputs_position.table.assign(codes)
    model.targets_position.table.assign(codes)

    matrix = np.zeros(model.targets_embedding.matrix.shape, np.float32)
    rows = random.standard_normal((len(matrix), len(free)))
    rows -= rows.mean(axis=1, keepdims=True)
    matrix[:, free] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    matrix[0] = 0.0  # padding is never the best output
    matrix[1, end] = 0.2
    model.targets_embedding.matrix.assign(matrix)

    for layer in [*model.encoder_layers, *model.decoder_layers]:
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

    norm = model.decoder_end.norm
    gamma, beta = np.full(h.hidden_size, 3.0), np.zeros(h.hidden_size)
    gamma[end], beta[end] = 50.0, -50.0 / 3 * math.sqrt(h.hidden_size)
    norm.gamma.assign(gamma)
    norm.beta.assign(beta)


def prepare_ours(work: Work) -> pairing.Step:
    """The decoder of t2t-decoder."""
    decoder = our_decoder(work)
    sources = decoder.text.encode(work.lines)
    found = decoder.search(sources)
    _require_lengths(
        [len(source.ids) for source in sources], [len(beams[0].ids) + 1 for beams in found]
    )
    return lambda: _discard(decoder.translate(work.lines))


def our_decoder(work: Work):
    """Opens the run folder."""
    from t2t_lite.decoding.decoder import Decoder
    from t2t_lite.runs import run_folder
    from t2t_lite.search.decode_hparams import DecodeHParams

    run = run_folder.open_run(str(work.run_dir))
    hparams = DecodeHParams.of(run.problem, f"beam_size={work.beam_size},alpha=0.6")
    return Decoder.from_run(run, hparams=hparams)


def prepare_ctranslate2(quantization: str, work: Work) -> pairing.Step:
    """CTranslate2 with SentencePiece before and after it, as in the README of an export.

    All outputs of a sentence end at the same step, so its length penalty does not matter.
    """
    import ctranslate2
    import sentencepiece

    spm = sentencepiece.SentencePieceProcessor(str(work.vocabulary))
    translator = ctranslate2.Translator(
        str(work.exported / quantization),
        compute_type=quantization,
        inter_threads=1,
        intra_threads=THREADS,
    )

    def search() -> list[list[str]]:
        found = translator.translate_batch(
            spm.encode(list(work.lines), out_type=str),
            beam_size=work.beam_size,
            length_penalty=0.5,
            max_batch_size=work.batch_tokens,
            batch_type="tokens",
            max_decoding_length=512,
            max_input_length=0,
        )
        return [result.hypotheses[0] for result in found]

    lengths = [len(ids) for ids in spm.encode(list(work.lines))]
    _require_lengths(lengths, [len(tokens) for tokens in search()])
    return lambda: _discard(spm.decode(search()))


def prepare_products(work: Work) -> pairing.Step:
    """The matrix products of our decoding, each into a new array: the limit of the machine."""
    import tensorflow as tf

    decoder = our_decoder(work)
    h, vocabulary = decoder.model.hparams, decoder.model.targets_vocab_size
    batches = _batches_of(decoder, work.lines)
    kernels = {
        sizes: tf.random.normal(sizes)
        for d, f in [(h.hidden_size, h.filter_size)]
        for sizes in [(d, d), (d, 2 * d), (d, 3 * d), (d, f), (f, d), (d, vocabulary)]
    }
    return functools.partial(_multiply, batches, kernels, h, vocabulary, work.beam_size)


def _multiply(batches, kernels, h, vocabulary: int, beam_size: int) -> None:
    """Computes the products of every batch: the encoder's once, the decoder's in every step."""
    import tensorflow as tf

    from t2t_lite.search.search_loop import CHUNK

    d, f, heads = h.hidden_size, h.filter_size, h.num_heads

    def dense(rows: int, *sizes: tuple[int, int]) -> None:
        for size in sizes:
            tf.linalg.matmul(_ones(rows, size[0]), kernels[size])

    def attend(groups: int, queries: int, length: int) -> None:
        keys = _ones(groups * heads, length, d // heads)
        queries = _ones(groups * heads, queries, d // heads)
        tf.linalg.matmul(tf.linalg.matmul(queries, keys, transpose_b=True), keys)

    for source, lengths in batches:
        cells = len(lengths) * source
        for _ in range(h.encoder_layers):
            dense(cells, (d, 3 * d), (d, d), (d, f), (f, d))
            attend(len(lengths), source, source)
        for _ in range(h.decoder_layers):
            dense(cells, (d, 2 * d))
        for step in range(max(lengths)):
            before = step - step % CHUNK
            alive = sum(length > before for length in lengths)
            rows = alive * beam_size
            for _ in range(h.decoder_layers):
                dense(rows, (d, 3 * d), (d, d), (d, d), (d, d), (d, f), (f, d))
                attend(rows, 1, before + CHUNK)
                attend(alive, beam_size, source)
            dense(rows, (d, vocabulary))


@functools.cache
def _ones(*shape: int):
    import tensorflow as tf

    return tf.ones(shape)


def _batches_of(decoder, lines: Sequence[str]) -> list[tuple[int, list[int]]]:
    """Returns the padded length and all source lengths of each of the decoder's batches."""
    from t2t_lite.search.beam_search import BeamSearch

    batches = []
    search = BeamSearch.__call__

    def record(self, inputs, *args, **kwargs):
        batches.append((inputs.shape[1], [int(np.count_nonzero(row)) for row in inputs]))
        return search(self, inputs, *args, **kwargs)

    BeamSearch.__call__ = record
    try:
        decoder.translate(lines)
    finally:
        BeamSearch.__call__ = search
    return batches


def _require_lengths(sources: Sequence[int], outputs: Sequence[int]) -> None:
    """Raises RuntimeError if an output is not as long as its source: rates would mislead."""
    wrong = [pair for pair in zip(sources, outputs, strict=True) if pair[0] != pair[1]]
    if wrong:
        raise RuntimeError(f"{len(wrong)} outputs are not as long as their sources: {wrong[:5]}")


def _discard(result: object) -> None:
    """Ignores the result of a call, to make it a step."""


PREPARE: dict[str, Callable[[Work], pairing.Step]] = {
    "t2t_lite": prepare_ours,
    "CTranslate2 float32": functools.partial(prepare_ctranslate2, "float32"),
    "CTranslate2 int8": functools.partial(prepare_ctranslate2, "int8"),
    "matrix products": prepare_products,
}
