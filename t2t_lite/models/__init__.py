"""Models, registered by import path so that listing their names does not import Keras."""

from t2t_lite import registry

registry.register_model_at("transformer", "t2t_lite.models.transformer:Transformer")
registry.register_model_at("lstm_seq2seq_attention", "t2t_lite.models.lstm:LSTMSeq2SeqAttention")
registry.register_model_at(
    "evolved_transformer", "t2t_lite.models.evolved_transformer:EvolvedTransformer"
)
registry.register_model_at(
    "universal_transformer", "t2t_lite.models.universal_transformer:UniversalTransformer"
)
