"""T2T's modules of models, as far as they hold functions of hparams sets."""

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from t2t_lite.hparams.upstream_sets import FOR_TPU
from t2t_lite.interop.t2t import tensorflow1
from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.interop.t2t.names import missing
from t2t_lite.registry import hparams as registered
from t2t_lite.registry import (
    list_hparams,
    list_ranged_hparams,
    list_refused_hparams,
    ranged_hparams,
)
from t2t_lite.user_imports import ROOT


def lstm_attention_base() -> HParams:
    """Returns the set from which those with a kind of attention are made."""
    return _made("lstm_seq2seq")


def update_hparams_for_tpu(hparams: HParams) -> HParams:
    """Changes a set to Adafactor and short texts, and returns it."""
    smaller = min(hparams.batch_size, FOR_TPU["batch_size"])
    for name, value in {**FOR_TPU, "batch_size": smaller}.items():
        setattr(hparams, name, value)
    return hparams


def update_hparams_for_universal_transformer(hparams: HParams) -> HParams:
    """Makes a set of the Transformer one of the Universal Transformer, and returns it."""
    hparams.extend_to(registered("universal_transformer_small"))
    hparams.pos = "none"  # positions are added at every step
    hparams.num_rec_steps = hparams.num_hidden_layers
    hparams.act_max_steps = 2 * hparams.num_hidden_layers
    return hparams


def add_evolved_transformer_hparams(hparams: HParams) -> HParams:
    """Makes a set of the Transformer one of the Evolved Transformer, and returns it."""
    hparams.num_encoder_layers = 3
    hparams.num_decoder_layers = 4
    hparams.learning_rate_constant /= hparams.learning_rate_warmup_steps**0.5
    hparams.learning_rate_schedule = (
        "constant*linear_warmup*single_cycle_cos_decay*rsqrt_hidden_size"
    )
    return hparams


_CHANGING = [
    add_evolved_transformer_hparams,
    lstm_attention_base,
    update_hparams_for_tpu,
    update_hparams_for_universal_transformer,
]

# T2T's modules of models have no __all__, so that `import *` also gives what they import,
_IMPORTED: Mapping[str, str] = {
    "beam_search": "utils.beam_search",
    "common_attention": "layers.common_attention",
    "common_hparams": "layers.common_hparams",
    "common_layers": "layers.common_layers",
    "expert_utils": "utils.expert_utils",
    "mlperf_log": "utils.mlperf_log",
    "modalities": "layers.modalities",
    "registry": "utils.registry",
    "t2t_model": "utils.t2t_model",
    "transformer": "models.transformer",
    "transformer_layers": "layers.transformer_layers",
}
# and their classes and functions of models, which are not here.
_MODELS = """
    AttentionLM EvolvedTransformer LSTMEncoder LSTMSeq2seq LSTMSeq2seqAttention
    LSTMSeq2seqAttentionBidirectionalEncoder LSTMSeq2seqBidirectionalEncoder Transformer
    TransformerEncoder TransformerMemory TransformerRegressor TransformerScorer UniversalTransformer
    UniversalTransformerEncoder fast_decode fast_decode_tpu features_to_nonpadding
    init_decoder_cache transformer_decoder transformer_encoder transformer_ffn_layer
    transformer_prepare_decoder transformer_prepare_encoder
"""


def __getattr__(name: str) -> Any:
    """Returns the function of a set, or what T2T's module imports; else a placeholder.

    The function of a set that is not available raises an error when it is called. What
    `from tensor2tensor.models.transformer import *` imports are all of these.
    """
    known = list_hparams()
    functions = [*known, *list_ranged_hparams(), *list_refused_hparams()]
    if name == "__all__":
        changing = (function.__name__ for function in _CHANGING)
        return [*changing, *functions, "tf", *_IMPORTED, *_MODELS.split()]
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "tf":
        return tensorflow1.imported("tensorflow", has_names=False)
    if name in _IMPORTED:
        return importlib.import_module(f"{ROOT}.{_IMPORTED[name]}")
    if name in list_ranged_hparams():
        return ranged_hparams(name)
    if name not in functions:
        return missing("models", name, known)
    return functools.partial(_made, name)


def _made(name: str) -> HParams:
    return HParams.of(registered(name))
