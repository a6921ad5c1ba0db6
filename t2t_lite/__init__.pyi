# The public names, each with its module, from which `__init__.py` imports them on first use.
# `__all__` is for the API reference.

from t2t_lite import registry
from t2t_lite.api import Run, dataset, evaluate, generate_data, load_model, open_run, train
from t2t_lite.decoding.translator import Translation, Translator
from t2t_lite.metrics.base import OutputMetric
from t2t_lite.models.lstm import (
    LSTMSeq2Seq,
    LSTMSeq2SeqAttention,
    LSTMSeq2SeqAttentionBidirectionalEncoder,
    LSTMSeq2SeqBidirectionalEncoder,
)
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.models.transformer import Transformer, TransformerDecoder, TransformerEncoder
from t2t_lite.models.universal_transformer import UniversalTransformer
from t2t_lite.registry import (
    register_callback,
    register_hparams,
    register_metric,
    register_model,
    register_problem,
    register_search,
)
from t2t_lite.search.beam_search import BeamSearch
from t2t_lite.search.constraints import Constraint
from t2t_lite.search.penalties import Penalty
from t2t_lite.search.sampling import RandomSearch, Sampler
from t2t_lite.systems.byte_net import ByteNet
from t2t_lite.systems.conv_s2s import ConvS2S
from t2t_lite.systems.deep_att import DeepAtt
from t2t_lite.systems.evolved_transformer import EvolvedTransformer
from t2t_lite.systems.gnmt import GNMT
from t2t_lite.systems.moe_lstm import MoELSTM
from t2t_lite.systems.neural_gpu import ExtendedNeuralGPU, NeuralGPU
from t2t_lite.training.callbacks import Callback
from t2t_lite.usr_dirs import import_usr_dir
from t2t_lite.version import __version__

__all__ = [
    "GNMT",
    "BeamSearch",
    "ByteNet",
    "Callback",
    "Constraint",
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
    "RandomSearch",
    "Run",
    "Sampler",
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
    "import_usr_dir",
    "load_model",
    "open_run",
    "register_callback",
    "register_hparams",
    "register_metric",
    "register_model",
    "register_problem",
    "register_search",
    "registry",
    "train",
]
