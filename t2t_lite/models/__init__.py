"""Models, registered by import path so that listing their names does not import Keras."""

from t2t_lite import registry

_MODELS = {
    "conv_s2s": "conv_s2s:ConvS2S",
    "evolved_transformer": "evolved_transformer:EvolvedTransformer",
    "lstm_seq2seq_attention": "lstm:LSTMSeq2SeqAttention",
    "transformer": "transformer:Transformer",
    "universal_transformer": "universal_transformer:UniversalTransformer",
}

for _name, _place in _MODELS.items():
    registry.register_model_at(_name, f"t2t_lite.models.{_place}")
registry.register_model_at("transformer", "t2t_lite.models.transformer:Transformer")
registry.register_model_at(
    "evolved_transformer", "t2t_lite.models.evolved_transformer:EvolvedTransformer"
)
registry.register_model_at(
    "universal_transformer", "t2t_lite.models.universal_transformer:UniversalTransformer"
)
for _name, _class in {
    "lstm_seq2seq": "LSTMSeq2Seq",
    "lstm_seq2seq_bidirectional_encoder": "LSTMSeq2SeqBidirectionalEncoder",
    "lstm_seq2seq_attention": "LSTMSeq2SeqAttention",
    "lstm_seq2seq_attention_bidirectional_encoder": "LSTMSeq2SeqAttentionBidirectionalEncoder",
}.items():
    registry.register_model_at(_name, f"t2t_lite.models.lstm:{_class}")
