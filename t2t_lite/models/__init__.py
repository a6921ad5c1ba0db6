"""Models, registered by import path so that listing their names does not import Keras."""

from t2t_lite import registry

_MODELS = {
    "attention_lm": "attention_lm:AttentionLM",
    "lstm_seq2seq": "lstm:LSTMSeq2Seq",
    "lstm_seq2seq_attention": "lstm:LSTMSeq2SeqAttention",
    "lstm_seq2seq_attention_bidirectional_encoder": "lstm:LSTMSeq2SeqAttentionBidirectionalEncoder",
    "lstm_seq2seq_bidirectional_encoder": "lstm:LSTMSeq2SeqBidirectionalEncoder",
    "transformer": "transformer:Transformer",
    "transformer_encoder": "transformer_encoder:TransformerClassifier",
    "transformer_regressor": "transformer_regressor:TransformerRegressor",
    "transformer_estimator": "transformer_estimator:TransformerEstimator",
    "universal_transformer": "universal_transformer:UniversalTransformer",
}

# What some hparams, and few users, need of a model.
_VARIANTS = {
    "forward_flops": "flops:of_transformer",
    "frozen": "frozen_weights:freeze",
    "prepend_mode=prepend_inputs_full_attention": "prepended:full_attention_bias",
}

for _name, _place in _MODELS.items():
    registry.register_model_at(_name, f"t2t_lite.models.{_place}")
for _name, _place in _VARIANTS.items():
    registry.register_variant_at(_name, f"t2t_lite.models.{_place}")
