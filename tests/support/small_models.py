"""Models for tests of search: probabilities written by hand, and small ones that decide."""

import contextlib

import keras
import numpy as np
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.layers.dense import OutputProjection
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.parts import DEAD

EOS = 1


class ByHand:
    """A model with written-down probabilities; `inputs[b, 0]` says which sentence b is, from 1.

    Args:
        probabilities: [step, sentence, last id, next id]; the last id of step 0 is 0.
        attention: [last id, S], to the source; None: there is none.
    """

    def __init__(self, probabilities, attention=None):
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(np.asarray(probabilities, np.float64)), 10 * DEAD)
        self.table = tf.constant(logs, tf.float32)
        self.attention = None if attention is None else tf.constant(attention, tf.float32)
        self.hook = None

    @contextlib.contextmanager
    def hook_attention(self, hook):
        self.hook = hook
        yield
        self.hook = None

    def start_decoding(self, inputs, beams, length):
        nothing = tf.zeros([tf.shape(inputs)[0], beams])
        return DecodeState(inputs[:, 0] - 1, nothing)

    def grow(self, state, length):
        return state

    def decode_step(self, ids, step, state):
        ids = tf.where(step == 0, 0, ids)
        if self.hook is not None:
            self.hook(tf.gather(self.attention, ids))
        sentence = tf.broadcast_to(state.sentence[:, None], tf.shape(ids))
        return tf.gather_nd(self.table[step], tf.stack([sentence, ids], axis=-1)), state


def set_logits(model, logits):
    """Lets a model's logits be a function of its hidden features."""

    class Changed(OutputProjection):
        def call(self, hidden, kernel=None):
            return logits(hidden)

    model.output_projection = Changed(model.softmax_embedding)


def make_decided(name, seed, targets=12, ending=4.0):
    """Returns a small model; the greater the logit `ending` of EOS, the sooner its outputs end."""
    keras.utils.set_random_seed(seed)
    hparams_set = {"transformer": "transformer_test", "lstm_seq2seq_attention": "lstm_attention"}
    hparams = registry.hparams(hparams_set[name]).copy(hidden_size=16, num_hidden_layers=1)
    model = registry.model(name)(hparams, 20, targets)
    matrix = model.softmax_embedding.matrix.numpy() * 4.0
    # Never 0, which scoring takes for padding.
    bias = np.array([-1e9, ending, *[0.0] * (targets - 2)], np.float32)
    set_logits(model, lambda hidden: hidden @ matrix.T + bias)
    return model
