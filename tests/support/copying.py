"""A model that repeats its source, and problems of bytes for it."""

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.data.text_problems import Text2SelfProblem, Text2TextProblem
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.hypotheses import best_output
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.models.seq2seq import DecodeState, Seq2Seq
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import EOS_ID, ByteTextEncoder, VocabType

BYTES = {"inputs": ByteTextEncoder(), "targets": ByteTextEncoder()}


# What a line may hold; each gives one line.
HOSTILE = [
    "plain",
    "",
    "  spaces around  ",
    "\t",
    "next\u0085line",
    "line\u2028separator",
    "form\x0cfeed \x00 and NUL",
    "carriage\rreturn",
    "日本語 😀",
    "x",
    "\u2028",
]


@registry.register_model("decoder_test_copy")
class CopyModel(Seq2Seq):
    """Repeats its source, with a second best that ends a step early, and keeps its batches."""

    hparams_class = TransformerHParams

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.batches = []

    def hidden(self, features, training=False):
        raise NotImplementedError

    def start_decoding(self, inputs, beams, length):
        tf.py_function(lambda ids: self.batches.append(ids.numpy()), [inputs], [])
        batch = tf.shape(inputs)[0]
        return DecodeState(inputs, tf.zeros([batch, beams]))

    def grow(self, state, length):
        return state

    def decode_step(self, ids, step, state):
        padded = tf.pad(state.sentence, [[0, 0], [0, 1]], constant_values=EOS_ID)
        column = tf.gather(padded, tf.minimum(step, tf.shape(padded)[1] - 1), axis=1)
        right = tf.one_hot(column, self.targets_vocab_size) * 20.0  # [B, V]
        logits = right + 10.0 * tf.one_hot(EOS_ID, self.targets_vocab_size)
        beams = tf.shape(ids)[1]
        return tf.repeat(logits[:, None], beams, axis=1), state


@registry.register_problem("decoder_test_bytes")
class Bytes(Text2TextProblem):
    vocab_type = VocabType.CHARACTER
    dataset_splits = ({"split": "eval", "shards": 1}, {"split": "test", "shards": 1})

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        raise NotImplementedError


@registry.register_problem("decoder_test_language_model")
class BytesAlone(Text2SelfProblem):
    vocab_type = VocabType.CHARACTER

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        raise NotImplementedError


def bytes_decoder(model, problem=None, settings=None, encoders=BYTES, **others) -> Decoder:
    """Returns a decoder of bytes with this model, or models."""
    engine = TensorFlowEngine(model, encoders, settings or DecodeHParams())
    return Decoder(engine, problem or Bytes(), **others)


def copier(long_input: str = "split", **changes) -> Decoder:
    """Returns a decoder with a copying model, which reads 40 subwords."""
    model = CopyModel(registry.hparams("transformer_test").copy(max_length=40), 258, 258)
    return bytes_decoder(model, settings=DecodeHParams(**changes), long_input=long_input)


def outputs(decoder: Decoder, lines: list[str]) -> list[str]:
    """Returns the best output for each line."""
    return [best_output(beams).text for beams in decoder.decode(decoder.text.encode(lines))]


def one_line(text: str) -> str:
    """Returns a text as decoding writes it to a line."""
    return text.strip().translate(str.maketrans("\n\r\t", "   "))
