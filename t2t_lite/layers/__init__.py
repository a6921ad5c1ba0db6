"""Pure Keras layers: attention, feed-forward, embedding, position, residual, dropout.

Shapes use the notation of the whole package: B sentences, S source and T target positions,
K beams, H heads, D features, V vocabulary.
"""

from t2t_lite import registry

# What the values of some hparams put in the place of the plain Transformer's layers.
_VARIANTS = {
    "decoder_layer=local_moe": "expert_layers:ExpertDecoderLayer",
    "decoder_self=ssru": "ssru:of_hparams",
    "encoder_layer=local_moe": "expert_layers:ExpertEncoderLayer",
    "ffn_layer=local_moe": "expert_layers:of_hparams",
    "ffn_layer=parameter_attention": "parameter_attention:of_hparams",
    "guided_alignment_weight": "guided_attention:of_hparams",
    "recompute_activations": "recomputation:recomputed",
    "require_guide": "guided_attention:require_guide",
    "self_attention_type=dot_product_relative": "relative_attention:of_hparams",
}

for _name, _place in _VARIANTS.items():
    registry.register_variant_at(_name, f"t2t_lite.layers.{_place}")
