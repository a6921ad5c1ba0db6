"""Rewriting of training examples: each epoch trains on other segmentations, or on noisy sources.

What an example becomes is a function of (seed, epoch, number of the example) alone, so that batches
depend neither on the number of devices nor on where training was interrupted.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Self

import numpy as np
import tensorflow as tf

from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.records import serialize_packed
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.protocol_buffers import pack
from t2t_lite.text import philox
from t2t_lite.text.source_noise import SourceNoise
from t2t_lite.text.subword_sampler import Draw
from t2t_lite.text.subword_sampling import make_samplers
from t2t_lite.text.text_encoder import ClassLabelEncoder, NoText, TextEncoder

_SIDES = ("inputs", "targets")  # their segmentations are drawn from the streams 0 and 1
_NOISE = 2

# Maps ids, where lines start and end, and a source of randomness to other ids and ends.
Rewrite = Callable[[np.ndarray, np.ndarray, Draw], tuple[np.ndarray, np.ndarray]]


class Rewriter:
    """Replaces serialized examples by others.

    Args:
        reader: parses the examples of the files.
        rewrites: what to do with the ids of each side, in turn, by the stream of random numbers.
        vocab_size: greatest number of ids of a side.
        seed: seed of all draws.
    """

    def __init__(
        self,
        reader: ExampleReader,
        rewrites: Mapping[str, Mapping[int, Rewrite]],
        vocab_size: int,
        seed: int,
    ) -> None:
        self._reader = reader.uncut()
        self._rewrites = rewrites
        self._seed = seed
        self._packed = [pack([i]) for i in range(vocab_size)]
        # Parses the results.
        self.reader = reader.of_model_sides()

    @staticmethod
    def asked_for(hparams: BasicHParams) -> bool:
        """Whether `hparams` ask for other examples than those of the files."""
        return any(_sampling(hparams).values()) or any(_noise(hparams).values())

    @classmethod
    def of(
        cls,
        hparams: BasicHParams,
        reader: ExampleReader,
        encoders: Mapping[str, TextEncoder],
        seed: int,
    ) -> Self | None:
        """Returns what `hparams` ask for; None if they leave the examples as they are.

        Args:
            hparams: the hyperparameters of training.
            reader: parses the examples of the files.
            encoders: the vocabularies of `inputs` and `targets` as the model sees them.
            seed: seed of all draws.

        Raises:
            UsageError: the vocabularies do not allow it.
        """
        if not cls.asked_for(hparams):
            return None
        if hparams.is_guided:
            raise UsageError(
                "hparam guided_alignment_weight: alignments do not know other segmentations or "
                "noisy sources; set it to 0, or bpe_dropout, unigram_alpha and source_..._noise"
            )
        rewrites: dict[str, dict[int, Rewrite]] = {side: {} for side in _SIDES}
        if any(_noise(hparams).values()):
            if not reader.has_inputs:
                raise UsageError(
                    "source noise (hparams source_casing_noise, source_typo_noise and "
                    "source_punctuation_noise) needs inputs, which this problem does not have: set "
                    "them to 0"
                )
            rewrites["inputs"][_NOISE] = SourceNoise(encoders["inputs"], **_noise(hparams))
        # Sides that do not exist, and labels, have no other segmentations.
        own = {
            side: encoder
            for side, encoder in encoders.items()
            if not isinstance(encoder, NoText | ClassLabelEncoder)
            and not (side == "targets" and reader.has_labels)
        }
        samplers = make_samplers(own, **_sampling(hparams))
        for stream, side in enumerate(_SIDES):
            if side in samplers:
                rewrites[side][stream] = samplers[side]
        return cls(reader, rewrites, max(one.vocab_size for one in encoders.values()), seed)

    def __call__(
        self, epoch: tf.Tensor, chunk: tuple[tf.Tensor, tf.Tensor]
    ) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
        """Rewrites examples in a graph.

        Args:
            epoch: number of the epoch.
            chunk: numbers of the examples, int64 `[n]`, and their records, strings `[n]`.

        Returns:
            The same with other records.
        """
        examples, records = chunk
        features = self._reader.parse(records)
        parts = [
            part for side in _SIDES for part in (features[side].values, features[side].row_splits)
        ]
        # Declared as stateless, since TensorFlow refuses to save an iterator with other functions.
        rewritten = tf.numpy_function(
            self._rewrite, [epoch, examples, *parts], tf.string, stateful=False
        )
        return epoch, (examples, tf.ensure_shape(rewritten, [None]))

    def _rewrite(self, epoch: np.ndarray, examples: np.ndarray, *parts: np.ndarray) -> np.ndarray:
        """Returns the new records `[n]`; `parts` are the ids and the row splits of each side."""
        key = (self._seed, int(epoch))
        sides = []
        for number, side in enumerate(_SIDES):
            ids, splits = parts[2 * number : 2 * number + 2]
            for stream, rewrite in self._rewrites[side].items():
                draw = functools.partial(philox.draw, key, stream, examples)
                ids, splits = rewrite(ids, splits, draw)
            sides.append(self._pack(ids, splits))
        records = [
            serialize_packed(dict(zip(_SIDES, pair, strict=True)))
            for pair in zip(*sides, strict=True)
        ]
        return np.array(records, object)

    def _pack(self, ids: np.ndarray, splits: np.ndarray) -> list[bytes]:
        """Returns the packed ids of each row."""
        packed = [self._packed[i] for i in ids.tolist()]
        return [b"".join(packed[a:b]) for a, b in itertools.pairwise(splits.tolist())]


def _sampling(hparams: BasicHParams) -> dict[str, float]:
    """Returns the arguments of `make_samplers`."""
    return {"bpe_dropout": hparams.bpe_dropout, "unigram_alpha": hparams.unigram_alpha}


def _noise(hparams: BasicHParams) -> dict[str, float]:
    """Returns the probabilities of `SourceNoise`."""
    return {
        "casing": hparams.source_casing_noise,
        "typos": hparams.source_typo_noise,
        "punctuation": hparams.source_punctuation_noise,
    }
