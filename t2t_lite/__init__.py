"""Sequence-to-sequence learning on TensorFlow and Keras, a successor of tensor2tensor.

    import t2t_lite as t2t

    t2t.generate_data("translate_ende_locale", data_dir="data")
    run = t2t.train(problem="translate_ende_locale", model="transformer",
                    hparams_set="transformer_quickstart3", data_dir="data", output_dir="run",
                    train_steps=2000)
    print(run.translator("best")("3 days ago"))

Names are imported on first use: `import t2t_lite` alone loads neither Keras nor TensorFlow. Where
Keras is loaded already, its classes are imported at once, so that `keras.models.load_model` knows
them.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from t2t_lite.version import __version__

if TYPE_CHECKING:
    from t2t_lite import registry
    from t2t_lite.api import Run, dataset, evaluate, generate_data, load_model, open_run, train
    from t2t_lite.decoding.translator import Translation, Translator
    from t2t_lite.metrics.base import OutputMetric
    from t2t_lite.models.byte_net import ByteNet
    from t2t_lite.models.conv_s2s import ConvS2S
    from t2t_lite.models.deep_att import DeepAtt
    from t2t_lite.models.evolved_transformer import EvolvedTransformer
    from t2t_lite.models.gnmt import GNMT
    from t2t_lite.models.lstm import (
        LSTMSeq2Seq,
        LSTMSeq2SeqAttention,
        LSTMSeq2SeqAttentionBidirectionalEncoder,
        LSTMSeq2SeqBidirectionalEncoder,
    )
    from t2t_lite.models.moe_lstm import MoELSTM
    from t2t_lite.models.neural_gpu import ExtendedNeuralGPU, NeuralGPU
    from t2t_lite.models.seq2seq import Seq2Seq
    from t2t_lite.models.transformer import Transformer
    from t2t_lite.models.transformer_parts import TransformerDecoder, TransformerEncoder
    from t2t_lite.models.universal_transformer import UniversalTransformer
    from t2t_lite.registry import (
        register_hparams,
        register_metric,
        register_model,
        register_problem,
    )
    from t2t_lite.search.beam_search import BeamSearch
    from t2t_lite.search.penalties import Penalty

_MODULES = {
    "BeamSearch": "search.beam_search",
    "ByteNet": "models.byte_net",
    "ConvS2S": "models.conv_s2s",
    "DeepAtt": "models.deep_att",
    "EvolvedTransformer": "models.evolved_transformer",
    "ExtendedNeuralGPU": "models.neural_gpu",
    "GNMT": "models.gnmt",
    "LSTMSeq2Seq": "models.lstm",
    "LSTMSeq2SeqAttention": "models.lstm",
    "LSTMSeq2SeqAttentionBidirectionalEncoder": "models.lstm",
    "LSTMSeq2SeqBidirectionalEncoder": "models.lstm",
    "MoELSTM": "models.moe_lstm",
    "NeuralGPU": "models.neural_gpu",
    "OutputMetric": "metrics.base",
    "Penalty": "search.penalties",
    "Run": "api",
    "Seq2Seq": "models.seq2seq",
    "Transformer": "models.transformer",
    "TransformerDecoder": "models.transformer_parts",
    "TransformerEncoder": "models.transformer_parts",
    "Translation": "decoding.translator",
    "Translator": "decoding.translator",
    "UniversalTransformer": "models.universal_transformer",
    "dataset": "api",
    "evaluate": "api",
    "generate_data": "api",
    "load_model": "api",
    "open_run": "api",
    "register_hparams": "registry",
    "register_metric": "registry",
    "register_model": "registry",
    "register_problem": "registry",
    "train": "api",
}

__all__ = [
    "GNMT",
    "BeamSearch",
    "ByteNet",
    "ConvS2S",
    "DeepAtt",
    "EvolvedTransformer",
    "ExtendedNeuralGPU",
    "LSTMSeq2Seq",
    "LSTMSeq2SeqAttention",
    "LSTMSeq2SeqAttentionBidirectionalEncoder",
    "LSTMSeq2SeqBidirectionalEncoder",
    "MoELSTM",
    "NeuralGPU",
    "OutputMetric",
    "Penalty",
    "Run",
    "Seq2Seq",
    "Transformer",
    "TransformerDecoder",
    "TransformerEncoder",
    "Translation",
    "Translator",
    "UniversalTransformer",
    "__version__",
    "dataset",
    "evaluate",
    "generate_data",
    "load_model",
    "open_run",
    "register_hparams",
    "register_metric",
    "register_model",
    "register_problem",
    "registry",
    "train",
]


def __getattr__(name: str) -> Any:
    if name == "registry":
        return importlib.import_module("t2t_lite.registry")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULES[name].startswith("models."):
        _import_models()
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _import_models() -> None:
    importlib.import_module("t2t_lite.registry").import_models()


if "keras" in sys.modules:
    _import_models()
