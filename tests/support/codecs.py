"""Codecs around an engine that decodes nothing, for tests that need no model."""

from collections.abc import Mapping

from t2t_lite.data.problem import Problem
from t2t_lite.decoding.encoding import StagedCodec
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import TextEncoder


class SilentEngine:
    """Knows its encoders alone."""

    kind = "tensorflow"
    has_source_attention = True

    def __init__(self, encoders, max_input_size=0, trained_with=(), **hparams):
        self.encoders = encoders
        self.max_input_size = max_input_size
        self.hparams = DecodeHParams(**hparams)
        self._trained_with = trained_with

    def is_trained_with(self, hparam):
        return hparam in self._trained_with


def codec_of(problem: Problem, encoders: Mapping[str, TextEncoder], **settings) -> StagedCodec:
    """Returns the codec of an engine with these settings."""
    return StagedCodec(problem, SilentEngine(encoders, **settings))
