"""Fields of every model."""

from typing import Any

import pytest

from t2t_lite import registry
from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.rewriting import Rewriter
from t2t_lite.hparams.basic import BasicHParams


class Recorder:
    """The defaults, and which of them were read."""

    def __init__(self) -> None:
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(BasicHParams(), name)


def test_those_of_batches_are_all_that_the_input_pipeline_reads():
    hparams = Recorder()
    for training in (True, False):
        BatchingScheme.from_hparams(hparams, training)
    ExampleReader.of(registry.problem("text2text_tmpdir"), hparams)
    Rewriter.asked_for(hparams)
    # Those of data are separate arguments; the other three are not hparams.
    derived = {"prepends_inputs", "predicts_inputs", "is_guided"}
    of_data = {"batch_shuffle_size", "mixture_temperature", "mixture_annealing_steps"}
    read = {*hparams.read} - derived | of_data
    assert read == set(BasicHParams.of_batches)
    assert len(BasicHParams.of_batches) == len(set(BasicHParams.of_batches))


# ---- what fields mean together


@pytest.mark.parametrize(
    ("encoder", "decoder", "expected"), [(0, 0, (6, 6)), (2, 0, (2, 6)), (0, 3, (6, 3))]
)
def test_layers_of_one_side_of_a_transformer(encoder, decoder, expected):
    hparams = registry.hparams("transformer_base").copy(
        num_encoder_layers=encoder, num_decoder_layers=decoder
    )
    assert (hparams.encoder_layers, hparams.decoder_layers) == expected


@pytest.mark.integration
def test_fields_of_the_model_are_those_that_no_training_changes():
    names = {
        name for known in registry.list_hparams() for name in registry.hparams(known).model_fields()
    }
    assert {"hidden_size", "num_heads", "cell", "act_max_steps", "ffn_activation"} <= names
    training = ("dropout", "learning_rate", "optimizer", "loss", "batch", "noise", "smoothing")
    assert not [name for name in names if any(word in name for word in training)]
    # A table of positions has so many rows.
    learned = {name for name in registry.list_hparams() if _has_max_length(name)}
    assert learned
    assert all(registry.hparams(name).pos == "emb" for name in learned if "conv_s2s" not in name)


def _has_max_length(name: str) -> bool:
    return "max_length" in registry.hparams(name).model_fields()
