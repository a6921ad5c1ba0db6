"""The Transformer against numbers recorded from T2T, and against the paper."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from support import t2t_weights
from support.model_kinds import assert_steps_are_the_whole, make_model
from support.rounding import assert_close
from support.terms import terms_of
from t2t_lite import registry
from t2t_lite.models.transformer import Transformer
from t2t_lite.study.paper.parameter_counts import abstract_model


@pytest.mark.integration
def test_computes_what_t2t_computes(t2t_folder):
    model, _ = t2t_weights.golden_transformer(t2t_folder)
    recorded = np.load(t2t_folder / "forward.npz")
    for batch in "ab":
        inputs, targets = recorded[f"{batch}/inputs"], recorded[f"{batch}/targets"]
        encoder_output, padding = model.encode(inputs)
        hidden = model.decoder(targets, (encoder_output, padding))
        logits = ops.convert_to_numpy(model({"inputs": inputs, "targets": targets}))

        # T2T leaves the feed-forward network out at padding, and nobody looks there.
        real = inputs != 0
        wanted = recorded[f"{batch}/encoder_output"][real]
        terms = terms_of(model, max(inputs.shape[1], targets.shape[1]))
        assert_close(np.asarray(encoder_output)[real], wanted, terms)
        assert_close(hidden, recorded[f"{batch}/decoder_output"], terms)
        assert_close(logits, recorded[f"{batch}/logits"], terms)
        assert_close(_loss(logits, targets), recorded[f"{batch}/eval_loss"], terms)


def _loss(logits, targets):
    """Mean cross entropy of the tokens that are not padding, in float64."""
    logits = logits.astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    per_token = -np.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]
    return per_token[targets != 0].mean()


@pytest.mark.integration
def test_base_model_has_the_parameters_of_the_paper():
    """Counted from the paper's equations: d_model 512, d_ff 2048, N = 6, and V = 32,000."""
    d, d_ff, layers, vocab = 512, 2048, 6, 32_000
    attention = 4 * d * d  # W^Q, W^K, W^V, W^O; section 3.2.2
    feed_forward = (d * d_ff + d_ff) + (d_ff * d + d)  # equation 2
    norm = 2 * d
    encoder = layers * (attention + feed_forward + 2 * norm)
    decoder = layers * (2 * attention + feed_forward + 3 * norm)
    model = abstract_model(registry.hparams("transformer_base_v1"), vocab)
    assert model.count_params() == vocab * d + encoder + decoder

    pre_norm = abstract_model(registry.hparams("transformer_base_v3"), vocab)
    assert pre_norm.count_params() == model.count_params() + 2 * norm  # one at each stack's end


@pytest.mark.integration
def test_keys_and_values_have_their_own_sizes(features):
    """d_k and d_v need not be hidden_size / num_heads (paper, table 3, rows B)."""
    model = make_model("post_norm", attention_key_channels=6, attention_value_channels=20)
    layer = model.decoder.stack[0]
    assert layer.attention.qkv.kernel.shape == (16, 6 + 6 + 20)
    assert layer.source_attention.kv.kernel.shape == (16, 6 + 20)
    assert layer.attention.output_projection.kernel.shape == (20, 16)

    assert_steps_are_the_whole(model, features)


def test_stacks_may_differ_in_height():
    model = make_model("post_norm", num_encoder_layers=1, num_decoder_layers=3)
    assert (len(model.encoder.stack), len(model.decoder.stack)) == (1, 3)


# ---- initialisation


@pytest.mark.integration
def test_fresh_variables_are_spread_as_in_t2t(golden):
    keras.utils.set_random_seed(1)
    for recorded in json.loads((golden / "init_stats.json").read_text())["models"]:
        hparams = registry.hparams(recorded["hparams_set"]).override(recorded["overrides"])
        hparams.use_target_space_embedding = True
        model = Transformer(hparams, recorded["source_vocab_size"], recorded["target_vocab_size"])
        ours = _variables_by_t2t_suffix(model)
        seen = set()
        for name, wanted in recorded["variables"].items():
            suffix = next(suffix for suffix in ours if name.endswith(suffix) or suffix in name)
            seen.add(suffix)
            for array in ours[suffix]:
                assert array.std() == pytest.approx(wanted["std"], rel=0.05, abs=1e-6), name
                # Small tables: both means are off by chance, with deviations of std / √size.
                chance = 6 * wanted["std"] / array.size**0.5
                assert array.mean() == pytest.approx(wanted["mean"], abs=max(0.01, chance)), name
                if "/weights_" not in suffix:  # the embeddings' normal distribution has no range
                    assert array.min() == pytest.approx(wanted["min"], rel=0.05), name
                    assert array.max() == pytest.approx(wanted["max"], rel=0.05), name
        assert len(seen) >= 11


def _variables_by_t2t_suffix(model):
    """Arrays of `model` by what the names of their likes in T2T end in."""
    layers = [*model.encoder.stack, *model.decoder.stack]
    own = [layer.attention for layer in layers]
    source = [layer.source_attention for layer in model.decoder.stack]
    ffn = [layer.feed_forward for layer in layers]
    keys = model.hparams.key_channels
    qkv = [np.split(np.array(a.qkv.kernel), [keys, 2 * keys], axis=1) for a in own]
    kv = [np.split(np.array(a.kv.kernel), [keys], axis=1) for a in source]
    norms = [layer.attention_residual.before.norm for layer in layers]
    embeddings = [model.inputs_embedding, model.targets_embedding, model.softmax_embedding]
    found = {
        "/q/kernel": [q for q, _, _ in qkv] + [a.query.kernel for a in source],
        "/k/kernel": [k for _, k, _ in qkv] + [k for k, _ in kv],
        "/v/kernel": [v for _, _, v in qkv] + [v for _, v in kv],
        "/output_transform/kernel": [a.output_projection.kernel for a in own + source],
        "/conv1/kernel": [f.expand.kernel for f in ffn],
        "/conv2/kernel": [f.contract.kernel for f in ffn],
        "/conv1/bias": [f.expand.bias for f in ffn],
        "/conv2/bias": [f.contract.bias for f in ffn],
        "/layer_norm_scale": [norm.gamma for norm in norms],
        "/layer_norm_bias": [norm.beta for norm in norms],
        "target_space_embedding/kernel": [model.encoder.target_space],
        "/weights_": [embedding.matrix for embedding in embeddings],
    }
    if model.hparams.self_attention_type == "dot_product_relative":
        found["relative_positions_keys/embeddings"] = [a.relative_keys for a in own]
        found["relative_positions_values/embeddings"] = [a.relative_values for a in own]
    if model.hparams.pos == "emb":
        positions = [model.encoder.position, model.decoder.position]
        found["positional_embedding"] = [position.table for position in positions]
    return {suffix: [np.array(v) for v in variables] for suffix, variables in found.items()}


@pytest.mark.integration
def test_the_post_norm_set_for_multi30k_starts_with_encodings_of_single_tokens():
    """Where other positions weigh more, early training makes all positions equal (docs/results.md).

    With initial weights of the usual size, 0.39 of the change is at the changed token.
    """
    keras.utils.set_random_seed(0)
    model = Transformer("transformer_multi30k", 50, 50)
    inputs = np.random.default_rng(0).integers(2, 50, (16, 12))
    changed = inputs.copy()
    changed[:, 5] = (inputs[:, 5] - 1) % 48 + 2  # another token
    difference = model.encoder(changed) - model.encoder(inputs)
    at_position = np.square(ops.convert_to_numpy(difference)).sum(axis=(0, 2))
    assert at_position[5] > 0.9 * at_position.sum()
