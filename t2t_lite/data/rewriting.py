"""Rewriting of training examples: other segmentations in each epoch, noise, suggestions, marks.

What an example becomes is a function of (seed, epoch, number of the example) alone, so that batches
depend neither on the number of devices nor on where training was interrupted.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from t2t_lite.data.augmentation import MarkupAugmentation, Pair, PairAugmentation, TermAugmentation
from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.records import serialize_packed
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.protocol_buffers import pack
from t2t_lite.text import philox
from t2t_lite.text.sample import ALIGNMENT
from t2t_lite.text.source_noise import SourceNoise
from t2t_lite.text.subword_sampler import Draw
from t2t_lite.text.subword_sampling import make_samplers
from t2t_lite.text.text_encoder import ClassLabelEncoder, NoText, TextEncoder

_SIDES = ("inputs", "targets")  # their segmentations are drawn from the streams 0 and 1
_NOISE = 2
# Those of whole pairs, in their order: no alignment knows the words that noise makes.
_AUGMENTATIONS: Mapping[int, type[PairAugmentation]] = {3: MarkupAugmentation, 4: TermAugmentation}

# Ids, and where lines start and end.
_Ragged = tuple[np.ndarray, np.ndarray]

# Maps these, and a source of randomness, to others.
Rewrite = Callable[[np.ndarray, np.ndarray, Draw], _Ragged]


class Rewriter:
    """Replaces serialized examples by others.

    Args:
        reader: parses the examples of the files.
        augmentations: what to do with pairs, in turn, by the stream of random numbers.
        rewrites: what to do with the ids of each side afterwards, likewise.
        vocab_size: greatest number of ids of a side.
        seed: seed of all draws.
    """

    def __init__(
        self,
        reader: ExampleReader,
        augmentations: Mapping[int, PairAugmentation],
        rewrites: Mapping[str, Mapping[int, Rewrite]],
        vocab_size: int,
        seed: int,
    ) -> None:
        # Sides that are exchanged, copied or changed are not those that the data aligns.
        is_aligned = not (reader.reverse or reader.copy or reader.change) and bool(augmentations)
        self._reader = dataclasses.replace(reader.uncut(), has_alignment=is_aligned)
        self._augmentations = augmentations
        self._rewrites = rewrites
        self._seed = seed
        self._packed = [pack([i]) for i in range(vocab_size)]
        self._writes_alignment = reader.has_alignment
        # Parses the results.
        self.reader = reader.of_model_sides()

    @staticmethod
    def asked_for(hparams: BasicHParams) -> bool:
        """Whether `hparams` ask for other examples than those of the files."""
        asked = _sampling(hparams) | _noise(hparams) | _augmentation(hparams)
        return any(asked.values())

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
        if hparams.is_guided and any([*_sampling(hparams).values(), *_noise(hparams).values()]):
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
            and not (side == "targets" and not reader.has_text_targets)
        }
        samplers = make_samplers(own, **_sampling(hparams))
        for stream, side in enumerate(_SIDES):
            if side in samplers:
                rewrites[side][stream] = samplers[side]
        augmentations = _make_augmentations(hparams, reader, encoders)
        vocab_size = max(one.vocab_size for one in encoders.values())
        return cls(reader, augmentations, rewrites, vocab_size, seed)

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
        names = [*_SIDES, *([ALIGNMENT] if self._reader.has_alignment else [])]
        parts = [
            part for name in names for part in (features[name].values, features[name].row_splits)
        ]
        # Declared as stateless, since TensorFlow refuses to save an iterator with other functions.
        rewritten = tf.numpy_function(
            self._rewrite, [epoch, examples, *parts], tf.string, stateful=False
        )
        return epoch, (examples, tf.ensure_shape(rewritten, [None]))

    def _rewrite(self, epoch: np.ndarray, examples: np.ndarray, *parts: np.ndarray) -> np.ndarray:
        """Returns the new records `[n]`; `parts` are the ids and row splits of each feature."""
        key = (self._seed, int(epoch))
        names = (*_SIDES, ALIGNMENT)[: len(parts) // 2]
        features = dict(zip(names, zip(parts[::2], parts[1::2], strict=True), strict=True))
        if self._augmentations:
            features = self._augmented(key, examples, features)
        packed = {}
        for side in _SIDES:
            ids, splits = features[side]
            for stream, rewrite in self._rewrites[side].items():
                draw = functools.partial(philox.draw, key, stream, examples)
                ids, splits = rewrite(ids, splits, draw)
            if side in self._reader.floats:  # whose ids are bits
                packed[side] = [*map(pack, _rows(ids, splits))]
            else:
                packed[side] = self._pack(ids, splits)
        if self._writes_alignment:
            rows = _rows(*features[ALIGNMENT])
            packed[ALIGNMENT] = [pack(row) for row in rows]
        records = [
            serialize_packed(dict(zip(packed, example, strict=True)))
            for example in zip(*packed.values(), strict=True)
        ]
        return np.array(records, object)

    def _augmented(
        self, key: tuple[int, int], examples: np.ndarray, features: Mapping[str, _Ragged]
    ) -> dict[str, _Ragged]:
        """Returns the features of the augmented pairs."""
        nothing: list[list[int]] = [[]] * len(examples)
        sources, targets = (_rows(*features[side]) for side in _SIDES)
        alignments = _rows(*features[ALIGNMENT]) if ALIGNMENT in features else nothing
        pairs = [*map(Pair, sources, targets, alignments)]
        last = max(self._augmentations)
        for stream, augment in self._augmentations.items():
            draw = functools.partial(philox.draw, key, stream, examples)
            pairs = augment(pairs, draw, self._writes_alignment or stream != last)
        columns = zip(*pairs, strict=True)
        return {
            name: _joined(rows) for name, rows in zip((*_SIDES, ALIGNMENT), columns, strict=True)
        }

    def _pack(self, ids: np.ndarray, splits: np.ndarray) -> list[bytes]:
        """Returns the packed ids of each row."""
        packed = [self._packed[i] for i in ids.tolist()]
        return [b"".join(packed[a:b]) for a, b in itertools.pairwise(splits.tolist())]


def _make_augmentations(
    hparams: BasicHParams, reader: ExampleReader, encoders: Mapping[str, TextEncoder]
) -> dict[int, PairAugmentation]:
    """Returns those that `hparams` ask for, by their streams.

    Raises:
        UsageError: the problem or a vocabulary does not allow them.
    """
    shares = _augmentation(hparams)
    made = {}
    for stream, kind in _AUGMENTATIONS.items():
        share = shares[kind.hparam]
        if not share:
            continue
        if not (reader.has_inputs and reader.has_text_targets):
            raise UsageError(
                f"hparam {kind.hparam}={share:g}: the problem does not translate texts: set "
                f"{kind.hparam}=0"
            )
        if kind.needs_alignment and reader.change:
            raise UsageError(
                f"hparam {kind.hparam}={share:g}: the problem changes its examples when they are "
                f"read, so that their alignments no longer hold: set {kind.hparam}=0"
            )
        made[stream] = kind(encoders, share)
    return made


def _rows(ids: np.ndarray, splits: np.ndarray) -> list[list[int]]:
    """Returns the ids of each row."""
    flat = ids.tolist()
    return [flat[a:b] for a, b in itertools.pairwise(splits.tolist())]


def _joined(rows: Sequence[Sequence[int]]) -> _Ragged:
    """Returns the ids of all rows, and their splits."""
    flat = np.array([*itertools.chain.from_iterable(rows)], np.int64)
    return flat, np.cumsum([0, *map(len, rows)])


def _augmentation(hparams: BasicHParams) -> dict[str, float]:
    """Returns the share of each augmentation of pairs, by its hparam."""
    return {
        "term_augmentation": hparams.term_augmentation,
        "markup_augmentation": hparams.markup_augmentation,
    }


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
