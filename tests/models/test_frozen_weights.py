"""The hparam `frozen`, which names parts of a model."""

import json

import numpy as np
import pytest

from support.model_kinds import KINDS, make_untrained, model_of
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import PARTS
from t2t_lite.models.frozen_weights import frozen_summary, parts_of

SEPARATE = "shared_embedding_and_softmax_weights"


def learned(model) -> set[int]:
    return {id(weight) for weight in model.trainable_weights}


def shapes(weights) -> list[tuple[int, ...]]:
    return [tuple(weight.shape) for weight in weights]


@pytest.mark.integration
@pytest.mark.parametrize("kind", KINDS)
def test_each_weight_is_in_one_part(kind):
    model = model_of(kind)
    parts = parts_of(model)
    assert tuple(parts) == PARTS
    together = [id(weight) for weights in parts.values() for weight in weights]
    assert sorted(together) == sorted(map(id, model.weights))
    assert all(parts[part] for part in ("embeddings", "encoder"))


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["pre_norm", "bahdanau"])
@pytest.mark.parametrize("part", ["embeddings", "encoder", "decoder"])
def test_a_frozen_part_is_all_that_is_not_learned(kind, part):
    model = make_untrained(kind, frozen=part)
    parts = parts_of(model)
    frozen = {id(weight) for weight in parts[part]}
    assert frozen
    assert learned(model) == {id(weight) for weight in model.weights} - frozen


@pytest.mark.integration
def test_a_summary_names_the_parts_that_are_trained_and_frozen_with_their_sizes():
    model = make_untrained("post_norm", **{SEPARATE: False}, frozen="encoder+output")
    size = {part: sum(w.numpy().size for w in ws) for part, ws in parts_of(model).items()}
    trained, frozen = (size["embeddings"] + size["decoder"], size["encoder"] + size["output"])
    assert frozen_summary(model) == (
        f"trained: {trained:,} parameters (embeddings {size['embeddings']:,}, "
        f"decoder {size['decoder']:,}); frozen: {frozen:,} parameters "
        f"(encoder {size['encoder']:,}, output {size['output']:,})"
    )
    assert trained + frozen == model.count_params()
    tied = frozen_summary(make_untrained("post_norm", frozen="encoder"))
    assert "output" not in tied, "a part without weights is not named"
    assert frozen_summary(make_untrained("post_norm")) == ""


@pytest.mark.integration
def test_a_matrix_that_encoder_decoder_and_softmax_share_is_frozen_by_embeddings_alone():
    shared = make_untrained("post_norm", frozen="encoder+decoder")
    assert shapes(shared.trainable_weights) == [(13, 16)]
    assert id(shared.targets_embedding.matrix) not in learned(
        make_untrained("post_norm", frozen="embeddings+encoder")
    )


@pytest.mark.integration
def test_the_output_is_what_remains():
    model = make_untrained("post_norm", softmax_bias=True, frozen="embeddings+encoder+decoder")
    assert shapes(model.trainable_weights) == [(13,)]
    own = make_untrained("post_norm", **{SEPARATE: False}, frozen="output")
    assert id(own.softmax_embedding.matrix) not in learned(own)
    assert id(own.targets_embedding.matrix) in learned(own)


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        ("encoder+head", "unknown part 'head'; name some of embeddings, encoder, decoder, output"),
        ("encoder+", "unknown part ''"),
        ("embeddings, encoder", "unknown part 'embeddings, encoder'"),
        ("output", "this Transformer has no weights of the part 'output'; it has embeddings, enc"),
        ("embeddings+encoder+decoder", "no weight of this Transformer is left to learn"),
    ],
)
def test_wrong_parts_are_named(frozen, message):
    with pytest.raises(UsageError, match=f"hparam frozen={frozen}".replace("+", r"\+")) as raised:
        make_untrained("post_norm", frozen=frozen)
    assert message in str(raised.value)


def test_a_language_model_has_no_encoder():
    with pytest.raises(UsageError, match="no weights of the part 'encoder'"):
        registry.model("transformer")("transformer_test", 0, 13, frozen="encoder")


def test_an_unknown_part_is_refused_before_there_is_a_model():
    with pytest.raises(UsageError, match="unknown part 'encoders'"):
        registry.hparams("transformer_test").override("frozen=encoders")


@pytest.mark.integration
def test_a_configuration_keeps_what_is_frozen_and_what_no_longer_is():
    model = make_untrained("post_norm", frozen="encoder")
    config = json.loads(json.dumps(model.get_config()))
    copy = type(model).from_config(config)
    assert [w.trainable for w in copy.weights] == [w.trainable for w in model.weights]
    assert len(config["frozen"]) == len(parts_of(model)["encoder"])
    model.trainable = False
    model.trainable = True  # as Keras's users undo it
    again = type(model).from_config(model.get_config())
    assert len(again.trainable_weights) == len(again.weights)


@pytest.mark.integration
def test_frozen_weights_count_in_sizes_and_operations():
    whole, frozen = make_untrained("post_norm"), make_untrained("post_norm", frozen="encoder")
    assert frozen.forward_flops() == whole.forward_flops()
    assert frozen.count_params() == whole.count_params()


@pytest.mark.integration
def test_fit_leaves_frozen_weights_alone():
    model = make_untrained("post_norm", frozen="embeddings+encoder")
    before = [np.array(weight) for weight in model.weights]
    model.compile("sgd", "sparse_categorical_crossentropy")
    ids = np.arange(2, 12).reshape(2, 5)
    model.fit({"inputs": ids, "targets": ids}, ids, verbose=0)
    moved = {
        id(weight)
        for weight, old in zip(model.weights, before, strict=True)
        if not np.array_equal(weight, old)
    }
    assert moved
    assert moved <= learned(model)
