"""What stands in for a search where models give numbers: there is one output, without a choice."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.data.number_ids import ids_of_numbers
from t2t_lite.errors import UsageError
from t2t_lite.models.transformer_regressor import TransformerRegressor
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.penalties import NO_PENALTY
from t2t_lite.search.search_loop import Hypotheses
from t2t_lite.text.text_encoder import EOS_ID

# What changes outputs of a search.
_REFUSED = (
    *("beam_size", "sampling_method", "min_length", "no_repeat_ngram_size", "force_decode_length"),
    *("end_at_limit", "well_formed", "shortlist", "search", "coverage_penalty", "replace_unk"),
)


class NumberSearch:
    """Gives the numbers of texts as their ids, and EOS, in the form of a search.

    An ensemble gives the means of its models' numbers.

    Args:
        models: with the same numbers.
        hparams: search settings.

    Raises:
        UsageError: the settings ask for a search.

    Attributes:
        penalty: none.
    """

    penalty = NO_PENALTY

    def __init__(self, models: Sequence[TransformerRegressor], hparams: DecodeHParams) -> None:
        plain = DecodeHParams(beam_size=1)
        for name in _REFUSED:
            value = getattr(hparams, name)
            if value != getattr(plain, name):
                raise UsageError(
                    f"decode hparam {name}={value}: numbers are computed, not searched for: leave "
                    "it out"
                )
        self._models = models
        ids = tf.TensorSpec([None, None], tf.int32)
        self._compiled = tf.function(
            self.in_graph, input_signature=[ids], autograph=False, jit_compile=hparams.xla_compile
        )

    def __call__(
        self,
        inputs: np.ndarray,
        max_lengths: np.ndarray | Sequence[int] | int,
        prefixes: np.ndarray | None = None,
        numbers: np.ndarray | None = None,
        given: np.ndarray | None = None,
        extra: Sequence[np.ndarray] = (),
    ) -> Hypotheses:
        """Returns the output of each source; arguments as those of `SearchLoop`.

        Raises:
            UsageError: an output is to begin with a prefix.
        """
        del max_lengths, numbers, given, extra
        if prefixes is not None and np.any(prefixes):
            raise UsageError("numbers do not begin with a text: leave out the prefix")
        found = self._compiled(np.asarray(inputs, np.int32))
        return Hypotheses(found.ids.numpy(), found.scores.numpy())

    def in_graph(
        self,
        inputs: tf.Tensor,
        max_lengths: tf.Tensor | None = None,
        prefixes: tf.Tensor | None = None,
        given: tf.Tensor | None = None,
    ) -> Hypotheses:
        """Returns the output of each source [B, S] within a graph; as in `SearchLoop`."""
        del max_lengths, prefixes, given
        numbers = tf.add_n([model.numbers(inputs) for model in self._models]) / len(self._models)
        ids = tf.cast(ids_of_numbers(numbers), tf.int32)
        ids = tf.pad(ids, [[0, 0], [0, 1]], constant_values=EOS_ID)  # [B, N + 1]
        # Probability 1; NaN where a number is none.
        scores = tf.reduce_sum(0.0 * numbers, axis=1)
        return Hypotheses(ids[:, None], scores[:, None])
