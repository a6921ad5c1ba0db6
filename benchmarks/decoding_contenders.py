"""The contenders of `decode_throughput.py` and `serve.py`.

All have the same weights, translate the same lines from text to text, and write equally many target
tokens. No contender is told the length of an output: the model ends it where the source ends, so
that sentences finish at different steps, as in real use. With plain random weights, outputs would
end at random, or never.
"""

import functools
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pairing
from decoding_work import Work

from t2t_lite.decoding import ctranslate2_engine

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
THREADS = len(os.sched_getaffinity(0))


def search_as_ctranslate2(engine: Mapping[str, str]) -> None:
    """Lets the engine, if one is named, search no longer than CTranslate2's own Python API.

    All outputs of a sentence end at the same step: with more patience, the rest of the beam would
    go on to the limit.
    """
    if engine:
        ctranslate2_engine.PATIENCE = 1


def prepare_ours(hparams: str, work: Work, **engine: str) -> pairing.Step:
    """The decoder of t2t-decoder, with further decode hparams, and perhaps another engine."""
    search_as_ctranslate2(engine)
    decoder = our_decoder(work, hparams, **engine)
    sources = decoder.text.encode(work.lines)
    found = decoder.decode(sources)
    _require_lengths(
        [len(source.ids) for source in sources], [len(beams[0].ids) + 1 for beams in found]
    )
    return lambda: _discard(decoder.decode(decoder.text.encode(work.lines)))


def our_hparams(work: Work, *more: str) -> str:
    """Returns our decode hparams as text."""
    given = (f"beam_size={work.beam_size}", "alpha=0.6", work.decode_hparams, *more)
    return ",".join(filter(None, given))


def our_decoder(work: Work, *more: str, **engine: str):
    """Opens the run folder as t2t-decoder does: for a file, or for one line."""
    from t2t_lite.decoding.config import DecoderConfig
    from t2t_lite.decoding.loading import find_models, load_decoder

    config = DecoderConfig(
        output_dir=str(work.run_dir),
        decode_hparams=our_hparams(work, *more),
        decode_interactive=len(work.lines) == 1,
        **engine,
    )
    decoder, _ = load_decoder(config, find_models(config))
    return decoder


class CTranslate2:
    """CTranslate2 with SentencePiece before and after it, as in the README of an export.

    It chooses the library of its products: MKL on Intel's processors, oneDNN on others. All outputs
    of a sentence end at the same step, so its length penalty does not matter.

    Args:
        work: the model, and the settings of the search.
        quantization: how weights are stored and multiplied.
        translators: how many batches it decodes at a time; they share the cores.
    """

    def __init__(self, work: Work, quantization: str, translators: int = 1) -> None:
        import ctranslate2
        import sentencepiece

        self._work = work
        self._spm = sentencepiece.SentencePieceProcessor(str(work.vocabulary))
        self._translator = ctranslate2.Translator(
            str(work.exported / quantization),
            device="auto",
            compute_type=quantization,
            inter_threads=translators,
            intra_threads=THREADS // translators,
        )

    def encode(self, lines: Sequence[str]) -> list[list[str]]:
        """Returns the subwords of each line."""
        return self._spm.encode(list(lines), out_type=str)

    def search(self, sources: Sequence[Sequence[str]]) -> list[list[str]]:
        """Returns the subwords of the best output for each source."""
        found = self._translator.translate_batch(
            sources,
            beam_size=self._work.beam_size,
            length_penalty=0.5,
            max_batch_size=self._work.batch_tokens,
            batch_type="tokens",
            max_decoding_length=512,
            max_input_length=0,
        )
        return [result.hypotheses[0] for result in found]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Returns the best output for each line."""
        return self._spm.decode(self.search(self.encode(lines)))


def prepare_ctranslate2(quantization: str, work: Work) -> pairing.Step:
    """CTranslate2, from text to text; the cores share the batches of a file, which is its best."""
    peer = CTranslate2(work, quantization, min(4, THREADS) if len(work.lines) > 1 else 1)
    sources = peer.encode(work.lines)
    _require_lengths(list(map(len, sources)), list(map(len, peer.search(sources))))
    return lambda: _discard(peer.translate(work.lines))


def prepare_products(work: Work) -> pairing.Step:
    """The matrix products of our decoding, each into a new array: the limit of the machine."""
    import tensorflow as tf

    decoder = our_decoder(work)
    h, vocabulary = decoder.engine.models[0].hparams, decoder.engine.models[0].targets_vocab_size
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
        decoder.decode(decoder.text.encode(lines))
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
    "t2t_lite": functools.partial(prepare_ours, ""),
    "t2t_lite bfloat16": functools.partial(prepare_ours, "dtype=bfloat16"),
    **{
        f"t2t_lite, engine {kind}": functools.partial(
            prepare_ours, "", engine="ctranslate2", compute_type=kind
        )
        for kind in ("float32", "int8")
    },
    "CTranslate2 float32": functools.partial(prepare_ctranslate2, "float32"),
    "CTranslate2 int8": functools.partial(prepare_ctranslate2, "int8"),
    "matrix products": prepare_products,
}
