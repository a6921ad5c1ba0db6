"""An engine in plain Python, which repeats its sources backwards and obeys what it is asked.

It needs no TensorFlow: calls, files, servers and documents are tested in milliseconds.
"""

import copy
import pathlib
import types
from collections.abc import Mapping, Sequence

import numpy as np

from t2t_lite import registry
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.engine import Target
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text import imported_encoder
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.languages import speaking
from t2t_lite.text.text_encoder import EOS_ID, TextEncoder

LANGUAGES = ("de", "en", "fr")


def encoders_of(folder: pathlib.Path, words: Sequence[str]) -> dict[str, TextEncoder]:
    """Returns the encoders of a model of several languages, with a vocabulary of words."""
    for side in ("source", "target"):
        imported_encoder.write_encoder(
            folder / f"vocab.imported.{side}.json",
            ["<pad>", "</s>", "<unk>", *words, *(f"__{code}__" for code in LANGUAGES)],
            2,
            special=[3 + len(words) + i for i in range(len(LANGUAGES))],
            languages={code: 3 + len(words) + i for i, code in enumerate(LANGUAGES)},
            language_of=imported_encoder.TEXT,
            language="",
        )
    sides = {"inputs": "source", "targets": "target"}
    return {
        name: ImportedEncoder(folder / f"vocab.imported.{side}.json")
        for name, side in sides.items()
    }


class EchoEngine:
    """Its best output is the source backwards; each further one lacks one word more.

    An output has the terms that its source asks for, at its end, and no forbidden word. A token
    attends to the source token that it repeats.
    """

    learned_positions = 0
    model_hparams = types.SimpleNamespace(is_guided=False)

    def __init__(
        self,
        encoders: Mapping[str, TextEncoder],
        hparams: DecodeHParams,
        kind: str = "tensorflow",
        has_source_attention: bool = True,
    ) -> None:
        self.encoders = speaking(encoders, hparams.languages)
        self.hparams = hparams
        self.kind = kind
        self.has_source_attention = has_source_attention
        self.max_input_size = max(hparams.max_input_size, 0)
        self.reads: list[str] = []  # the pieces that were read

    def is_trained_with(self, hparam):
        return hparam == "term_augmentation"

    def returning_beams(self, return_beams):
        other = copy.copy(self)
        other.hparams = self.hparams.copy(return_beams=return_beams)
        return other

    def map(self, work, batches):
        for index, batch in enumerate(batches):
            yield index, work(self, batch)

    def search(self, sources, limits):
        found = []
        for source in sources:
            text = self.encoders["inputs"].decode(source.ids)
            self.reads.append(text)
            words = self._obeying(source, " ".join(text.split()[::-1])).split()
            kept = [words[: len(words) - rank] for rank in range(self.hparams.beam_size)]
            found.append([self._target(source, own, -rank) for rank, own in enumerate(kept)])
        return found

    def score(self, targets):
        return [target._replace(score=-1.0) for target in targets]

    def details(self, targets):
        return [(np.zeros(len(target.ids)), _backwards(target)) for target in targets]

    def _obeying(self, source, text):
        if source.terms is None or self.hparams.term_mode == "soft":
            return text
        words = [word for word in text.split() if not source.terms.found_forbidden(word)]
        forms = [w.forms[0] for w in source.terms.wanted(source.text) if w.forms[0] not in words]
        return " ".join([*words, *forms])

    def _target(self, source, words, score):
        ids = self.encoders["targets"].encode_text(" ".join(words)) if words else []
        return Target(source, [*source.start, *source.prefix, *ids, EOS_ID], float(score))


def _backwards(target: Target) -> np.ndarray:
    """Returns the attention [T, S] of a target, which begins with a language as its source does."""
    attention = np.zeros([len(target.ids), len(target.source.ids)])
    last = attention.shape[1] - 1  # EOS
    for place, id_ in enumerate(target.ids):
        attention[place, last if id_ == EOS_ID else max(last - place, 0)] = 1
    return attention


def echoing(
    encoders: Mapping[str, TextEncoder], problem: str = "translate_imported", **settings
) -> Decoder:
    """Returns a decoder with this engine; settings are the engine's and the decode hparams."""
    own = {
        name: settings.pop(name) for name in ("kind", "has_source_attention") if name in settings
    }
    hparams = DecodeHParams(**{"beam_size": 2, **settings})
    return Decoder(EchoEngine(encoders, hparams, **own), registry.problem(problem))
