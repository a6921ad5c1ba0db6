"""What Keras expects of a layer: configuration, dtype policy, names, seeds, masks."""

import keras
import numpy as np
import pytest
from keras import ops
from keras.initializers import RandomNormal

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import EncoderDecoderAttention, SelfAttention
from t2t_lite.layers.base import Dropout, Stack, without_initial_values
from t2t_lite.layers.dense import Embedding, FeedForward, Projection
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts, NoisyTopKGating
from t2t_lite.layers.parameter_attention import ParameterAttention
from t2t_lite.layers.recurrent import GRUCell, LSTMCell, Recurrent
from t2t_lite.layers.recurrent_attention import (
    AdditiveAttention,
    DotAttention,
    MultiplicativeAttention,
    NormedAdditiveAttention,
)
from t2t_lite.layers.relative_attention import RelativeSelfAttention
from t2t_lite.layers.ssru import SSRU
from t2t_lite.layers.transformer_layers import (
    DecoderLayer,
    EncoderLayer,
    LayerSteps,
    Position,
    Residual,
)
from t2t_lite.models.universal_transformer import AdaptiveSteps, UniversalSteps
from t2t_lite.settings import settings_of
from t2t_lite.systems.byte_net import BottleneckBlock, ResidualChain
from t2t_lite.systems.conv_s2s_layers import ConvS2SAttention, ConvS2SLayer, ConvS2SMemory
from t2t_lite.systems.convolution import Convolution, SeparableConvolution
from t2t_lite.systems.deep_att import FastForward
from t2t_lite.systems.evolved_transformer import (
    EvolvedDecoderLayer,
    EvolvedEncoderLayer,
    EvolvedFeedForward,
)
from t2t_lite.systems.neural_gpu import CGRU

X = np.random.RandomState(0).normal(size=(2, 3, 8)).astype(np.float32)
IDS = np.array([[4, 2, 0], [3, 1, 5]], np.int32)


def attention(**kwargs):
    return SelfAttention(8, 2, **kwargs)


# What makes each layer, and what it is called with.
LAYERS = {
    "dropout": (lambda **k: Dropout(0.5, **k), (X,)),
    "projection": (lambda **k: Projection(8, (2, 3), 0.5, use_bias=True, **k), (X,)),
    "embedding": (lambda **k: Embedding(6, 8, scaled=False, **k), (IDS,)),
    "position": (lambda **k: Position("emb", 8, 4, **k), (X,)),
    "feed_forward": (lambda **k: FeedForward(8, 12, 0.5, **k), (X,)),
    "experts": (lambda **k: MixtureOfExperts(8, 12, 4, 3, dropout_rate=0.5, **k), (X,)),
    "layer_steps": (lambda **k: LayerSteps("dan", 8, 0.5, **k), (X, X)),
    "self_attention": (lambda **k: attention(neighborhood=3, dropout_rate=0.5, **k), (X,)),
    "relative": (lambda **k: RelativeSelfAttention(8, 2, 3, value_channels=4, **k), (X,)),
    "ssru": (lambda **k: SSRU(8, 0.5, **k), (X,)),
    "parameters": (lambda **k: ParameterAttention(8, 2, 5, key_channels=4, **k), (X,)),
    "source_attention": (lambda **k: EncoderDecoderAttention(8, 2, gain=0.5, **k), (X, X)),
    "encoder_layer": (
        lambda **k: EncoderLayer(attention(**k), FeedForward(8, 12, **k), after="dan", **k),
        (X,),
    ),
    "decoder_layer": (
        lambda **k: DecoderLayer(
            attention(**k), EncoderDecoderAttention(8, 2, **k), FeedForward(8, 12, **k), **k
        ),
        (X, X),
    ),
    "evolved_encoder_layer": (
        lambda **k: EvolvedEncoderLayer(attention(**k), FeedForward(8, 12, **k), gain=0.5, **k),
        (X,),
    ),
    "evolved_decoder_layer": (
        lambda **k: EvolvedDecoderLayer(
            attention(**k),
            EncoderDecoderAttention(8, 2, **k),
            EvolvedFeedForward(8, 12, before="none", **k),
            wide_attention=SelfAttention(8, 4, **k),
            first_source_attention=EncoderDecoderAttention(8, 2, **k),
            **k,
        ),
        (X, X),
    ),
    "convolution": (
        lambda **k: Convolution(
            8, 6, 3, dilation=2, weight_norm=True, initializer=RandomNormal(stddev=0.1), **k
        ),
        (X,),
    ),
    "conv_s2s": (
        lambda **k: ConvS2SLayer(
            8, 6, 3, residual=8, attention=ConvS2SAttention(6, 8, **k), dropout_rate=0.5, **k
        ),
        (
            X,
            X,
            None,
            X,
            ConvS2SMemory(X, X, np.zeros((2, 1, 3), "float32"), np.ones((2, 1, 1), "float32")),
        ),
    ),
    "residual_chain": (lambda **k: ResidualChain(8, 3, (1, 2), causal=True, **k), (X,)),
    "bottleneck": (lambda **k: BottleneckBlock(8, 3, 2, dropout_rate=0.5, **k), (X,)),
    "separable": (lambda **k: SeparableConvolution(8, 6, 3, causal=True, **k), (X,)),
    "fast_forward": (lambda **k: FastForward(8, 6, 4, True, 0.5, **k), (X,)),
    "recurrent": (lambda **k: Recurrent(LSTMCell(8, 6, 0.5, **k), backward=True, **k), (X,)),
}
WITHOUT_CALL = {
    "projected_lstm": lambda **k: LSTMCell(2, 3, second_bias=True, cells=5, **k),
    "gating": lambda **k: NoisyTopKGating(8, 4, 2, **k),
    "stack": lambda **k: Stack([Projection(2, (3,)), Dropout(0.1)], **k),
    "residual": lambda **k: Residual(LayerSteps("n", 8), LayerSteps("da", 8, 0.5), **k),
    "lstm_cell": lambda **k: LSTMCell(2, 3, forget_bias=0.0, second_bias=True, **k),
    "gru_cell": lambda **k: GRUCell(2, 3, **k),
    "additive": lambda **k: AdditiveAttention(4, **k),
    "cgru": lambda **k: CGRU(4, 2, width=2, gain=0.5, **k),
    "universal": lambda **k: UniversalSteps(4, 3, **k),
    "adaptive": lambda **k: AdaptiveSteps(4, 3, accumulate=True, bias=0.5, loss_weight=0.1, **k),
    "normed": lambda **k: NormedAdditiveAttention(4, outputs=0, **k),
    "dot": lambda **k: DotAttention(4, outputs=3, window=2, **k),
    "multiplicative": lambda **k: MultiplicativeAttention(4, 0.5, **k),
}


@pytest.mark.integration
@pytest.mark.parametrize("name", [*LAYERS, *WITHOUT_CALL])
def test_a_config_makes_the_same_layer_again(name):
    make = LAYERS[name][0] if name in LAYERS else WITHOUT_CALL[name]
    layer = make(name="mine", dtype="mixed_float16", trainable=False)
    config = keras.saving.serialize_keras_object(layer)
    assert config["registered_name"] == f"t2t_lite>{type(layer).__name__}"
    other = keras.saving.deserialize_keras_object(config)
    assert other.get_config() == layer.get_config()
    assert (other.name, other.dtype_policy.name) == ("mine", "mixed_float16")
    assert [v.shape for v in other.weights] == [v.shape for v in layer.weights]
    if name in LAYERS:
        other.set_weights(layer.get_weights())
        inputs = LAYERS[name][1]
        one, again = (
            ops.cast(keras.tree.flatten(x(*inputs))[0], "float32") for x in (layer, other)
        )
        np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize("name", [*LAYERS, *WITHOUT_CALL])
def test_weights_to_be_read_from_a_file_are_not_drawn(name):
    with without_initial_values():
        layer = (LAYERS[name][0] if name in LAYERS else WITHOUT_CALL[name])()
    own = [weight for weight in layer.trainable_weights if weight.name != "gamma"]  # Keras's norm
    assert not any(ops.convert_to_numpy(weight).any() for weight in own)


@pytest.mark.parametrize("name", LAYERS)
def test_the_dtype_reaches_all_sublayers(name):
    layer = LAYERS[name][0](dtype="mixed_float16")
    policies = {sub.dtype_policy.name for sub in layer._flatten_layers()}
    assert policies == {"mixed_float16"}
    assert {v.dtype for v in layer.trainable_variables} <= {"float32"}
    assert keras.config.dtype_policy().name == "float32"


def test_a_layer_on_its_own_has_seeds_that_follow_keras():
    def mask():
        keras.utils.set_random_seed(5)
        return np.asarray(FeedForward(8, 50, 0.5)(X, training=True))

    np.testing.assert_array_equal(mask(), mask())
    keras.utils.set_random_seed(5)
    layer = FeedForward(8, 50, 0.5)
    assert np.abs(layer(X, training=True) - layer(X, training=True)).max() > 1e-3


def test_the_mask_of_an_embedding_hides_padding_from_attention():
    embedding, layer = Embedding(6, 8), attention()
    x = embedding(IDS)
    bias = np.where(IDS != 0, 0.0, -1e9)[:, None, None].astype(np.float32)
    terms = 2 * X.shape[2] + 2 * IDS.shape[1] + X.shape[2]  # two products, scores, attention
    assert_close(layer(x), layer(ops.convert_to_numpy(x), bias), terms)
    source = EncoderDecoderAttention(8, 2)
    assert_close(source(X, x), source(X, source.memory(ops.convert_to_numpy(x)), bias), terms)


def test_what_hangs_on_from_outside_is_there():
    """Every row, and a row for each value of a hparam that is not the plain one."""
    for name in registry._variants.names():
        assert callable(registry.variant(name))
    for hparam in ("ffn_layer", "self_attention_type"):
        for value in settings_of(TransformerHParams)[hparam].choices[1:]:
            assert f"{hparam}={value}" in registry._variants.names()
    assert registry.variant("encoder_layer=dense_relu_dense", EncoderLayer) is EncoderLayer
    with pytest.raises(UsageError, match="unknown variant 'ffn_layer=local_mo'"):
        registry.variant("ffn_layer=local_mo")
