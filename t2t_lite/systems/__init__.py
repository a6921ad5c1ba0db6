"""The systems that the paper compares with, with layers of their own."""

from t2t_lite import registry

_SYSTEMS = {
    "byte_net": "byte_net:ByteNet",
    "conv_s2s": "conv_s2s:ConvS2S",
    "deep_att": "deep_att:DeepAtt",
    "evolved_transformer": "evolved_transformer:EvolvedTransformer",
    "extended_neural_gpu": "neural_gpu:ExtendedNeuralGPU",
    "gnmt": "gnmt:GNMT",
    "moe_lstm": "moe_lstm:MoELSTM",
    "neural_gpu": "neural_gpu:NeuralGPU",
}

for _name, _place in _SYSTEMS.items():
    registry.register_model_at(_name, f"t2t_lite.systems.{_place}")
