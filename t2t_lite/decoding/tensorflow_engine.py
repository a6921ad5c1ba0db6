"""TensorFlow's engine: this package's search, on one device or several."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self, TypeVar

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.decoding.config import TENSORFLOW
from t2t_lite.decoding.devices import Replicas, require_xla_decodes_on
from t2t_lite.decoding.divergence import DivergedError, require_numbers, require_outputs
from t2t_lite.decoding.divergence_cause import diverged
from t2t_lite.decoding.engine import Engine, Target, Worker
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.scoring import score, score_with_attention, total_score
from t2t_lite.decoding.term_guide import TermGuide
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.factory import make_search, make_term_search
from t2t_lite.search.number_search import NumberSearch
from t2t_lite.search.parts import DEAD, SearchPart, ends_of
from t2t_lite.search.penalties import NO_PENALTY
from t2t_lite.search.search_loop import SearchLoop
from t2t_lite.search.tracing import one_at_a_time
from t2t_lite.text.languages import speaking
from t2t_lite.text.text_encoder import TextEncoder

# Most logits computed at a time: 256 MiB of them.
_MAX_LOGITS = 1 << 26

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


class TensorFlowEngine(Engine):
    """Searches and scores with TensorFlow, on one device or more.

    Args:
        model: a trained model, or several that decode together as an ensemble; their weights may
            change between calls.
        encoders: the encoders of "inputs" and "targets".
        hparams: search settings.
        devices: names of the devices to decode on, starting with the models' own; "": TensorFlow's
            choice.
        names: what messages call the models.
        parts: constraints, and at most one penalty or sampler, for the search.

    Raises:
        UsageError: the hparams ask for XLA, which cannot use these devices, or for a language that
            the models do not know.

    Attributes:
        models: all models.
        encoders: as above, in the languages of the hparams.
        hparams: as above.
        names: as above; update them after loading the weights of another checkpoint.
        max_input_size: the ids that a source may have, EOS included; 0: no limit.
        devices: as above.
        learned_positions: the positions that the models have learned; 0: they know all.
    """

    kind = TENSORFLOW

    def __init__(
        self,
        model: Seq2Seq | Sequence[Seq2Seq],
        encoders: Mapping[str, TextEncoder],
        hparams: DecodeHParams,
        devices: Sequence[str] = ("",),
        names: Sequence[str] = (),
        parts: Sequence[SearchPart] = (),
    ) -> None:
        self.models = [model] if isinstance(model, Seq2Seq) else model
        self.encoders = speaking(encoders, hparams.languages)
        self.hparams = hparams
        self.names = names or _default_names(len(self.models))
        self.max_input_size = hparams.source_limit(m.hparams.max_length for m in self.models)
        positions = [model.learned_positions for model in self.models]
        self.learned_positions = min(filter(None, positions), default=0)
        self.devices = devices
        self._parts = parts
        if hparams.xla_compile:
            require_xla_decodes_on(devices)
        self._replicas = Replicas(
            self.models, devices, lambda models: TensorFlowWorker(models, encoders, hparams, parts)
        )

    @property
    def model_hparams(self) -> BasicHParams:
        """The hyperparameters of the first model."""
        return self.models[0].hparams

    def is_trained_with(self, hparam: str) -> bool:
        """Whether a hyperparameter of training, whose default is 0, is above 0 for all models."""
        return all(getattr(model.hparams, hparam) for model in self.models)

    @property
    def has_source_attention(self) -> bool:
        """Whether details have the attention to the source."""
        return all(model.has_source_attention for model in self.models)

    def returning_beams(self, return_beams: bool) -> Self:
        """Returns an engine of the same models that searches until all hypotheses are final."""
        if return_beams == self.hparams.return_beams:
            return self
        hparams = self.hparams.copy(return_beams=return_beams)
        others = (self.devices, self.names, self._parts)
        return type(self)(self.models, self.encoders, hparams, *others)

    def map(
        self, work: Callable[[Worker, _Batch], _Result], batches: Sequence[_Batch]
    ) -> Iterator[tuple[int, _Result]]:
        """Calls `work` with a device's worker for every batch, on all devices.

        Yields:
            Each batch's index and result, as it finishes.
        """
        return self._replicas.map(work, batches)

    def diverged(self, source: Source, place: str) -> DivergedError:
        """Returns the error for a source, called `place`, for which a model outputs NaN."""
        return diverged(self.models, self.names, source, place)


class TensorFlowWorker(Worker):
    """The models on one device, whose functions are compiled for all shapes on the first call.

    Args:
        models: their copies on the device.
        encoders: as in `TensorFlowEngine`.
        hparams: as in `TensorFlowEngine`.
        parts: as in `TensorFlowEngine`.
    """

    def __init__(
        self,
        models: Sequence[Seq2Seq],
        encoders: Mapping[str, TextEncoder],
        hparams: DecodeHParams,
        parts: Sequence[SearchPart] = (),
    ) -> None:
        model = models[0] if len(models) == 1 else Ensemble(models)
        self._vocab_size = models[0].targets_vocab_size
        self._ends = ends_of(model)
        self._search = make_search(model, encoders, hparams, parts)
        self._guide = TermGuide(
            speaking(encoders, hparams.languages),
            hparams,
            lambda kinds, beam_size: make_term_search(
                model, encoders, hparams, parts, kinds, beam_size
            ),
            self._found,
        )
        # A language model's score is a log-probability: perplexities are computed from it.
        penalty = self._search.penalty if models[0].takes_inputs else NO_PENALTY
        self._scores = _compile(lambda features: (total_score(model, features, penalty),))
        self._details = _compile(
            (lambda features: score_with_attention(model, features))
            if model.has_source_attention
            else (lambda features: (score(model, features),))
        )

    def search(self, sources: Sequence[Source], limits: Sequence[int]) -> list[list[Target]]:
        """Returns the hypotheses of each source, best first, with at most so many ids.

        Raises:
            NotANumberError: a model outputs NaN.
            NothingPermittedError: the search settings permit no output.
        """
        targets = self._found(self._search, sources, limits)
        require_outputs(sources, targets)
        return self._guide.guided(sources, limits, targets)

    def _found(
        self,
        search: SearchLoop | NumberSearch,
        sources: Sequence[Source],
        limits: Sequence[int],
        extra: Sequence[np.ndarray] = (),
    ) -> list[list[Target]]:
        """Returns what a search finds: for each source the hypotheses that exist, best first."""
        found = search(
            padded([source.ids for source in sources]),  # [B, S]
            np.array(limits),
            padded([[*source.start, *source.prefix] for source in sources]),  # [B, P]
            np.array([source.draws for source in sources]),
            np.array([len(source.start) for source in sources]),
            extra,
        )
        require_numbers(sources, found.scores)

        def through_end(ids: list[int]) -> list[int]:
            """Returns ids up to and including the one that ends them, or all."""
            last = next((i for i, id_ in enumerate(ids) if id_ in self._ends), len(ids))
            return ids[: last + 1]

        return [
            [
                Target(source, through_end(beam), score)
                for beam, score in zip(ids[:, :limit].tolist(), scores.tolist(), strict=True)
                if score > DEAD
            ]
            for source, limit, ids, scores in zip(sources, limits, *found, strict=True)
        ]

    def score(self, targets: Sequence[Target]) -> list[Target]:
        """Returns targets, all with EOS, with the scores that a search would give them.

        Raises:
            NotANumberError: a model outputs NaN.
            UsageError: the models give numbers.
        """
        if isinstance(self._search, NumberSearch):
            raise UsageError("numbers have no probabilities: scores of given targets do not exist")
        scores = [float(score) for (score,) in self._rows(self._scores, targets)]
        require_numbers([target.source for target in targets], np.array(scores)[:, None])
        return [target._replace(score=score) for target, score in zip(targets, scores, strict=True)]

    def details(self, targets: Sequence[Target]) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Returns for each target its tokens' log-probabilities [T] and attention [T, S].

        The attention is None if the model has none to the source. Numbers have probability 1.
        """
        if isinstance(self._search, NumberSearch):
            return [(np.zeros(len(target.ids), np.float32), None) for target in targets]
        rows = zip(targets, self._rows(self._details, targets), strict=True)
        return [
            (
                log_probs[: len(target.ids)],
                attention[0][: len(target.ids), : len(target.source.ids)] if attention else None,
            )
            for target, (log_probs, *attention) in rows
        ]

    def _rows(
        self,
        compiled: Callable[[dict[str, tf.Tensor]], tuple[tf.Tensor, ...]],
        targets: Sequence[Target],
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields the results of `compiled` for each target, in chunks that fit into memory."""
        longest = max((len(target.ids) for target in targets), default=1)
        size = max(1, _MAX_LOGITS // (longest * self._vocab_size))
        for start in range(0, len(targets), size):
            chunk = targets[start : start + size]
            features = {
                "inputs": padded([target.source.ids for target in chunk]),
                "targets": padded([target.ids for target in chunk]),
                "given": np.array([len(target.source.start) for target in chunk]),
            }
            yield from zip(*(part.numpy() for part in compiled(features)), strict=True)


def padded(ids: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns B lists of ids as one array [B, L], each padded with 0 at its end."""
    return keras.utils.pad_sequences(ids, padding="post")


def _compile(function: Callable[..., tuple[tf.Tensor, ...]]) -> Callable[..., tuple]:
    ids = tf.TensorSpec([None, None], tf.int32)
    features = {"inputs": ids, "targets": ids, "given": tf.TensorSpec([None], tf.int32)}
    # Autograph would wrap the models' errors in tracebacks.
    return tf.function(one_at_a_time(function), input_signature=[features], autograph=False)


def _default_names(count: int) -> list[str]:
    return [f"model {number + 1}" for number in range(count)] if count > 1 else ["the model"]
