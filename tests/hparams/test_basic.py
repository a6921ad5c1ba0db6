"""Fields of every model."""

from typing import Any

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
    # The size of the shuffle buffer is an argument of its own, and `prepends_inputs` no hparam.
    assert {*hparams.read, "batch_shuffle_size"} - {"prepends_inputs"} == set(
        BasicHParams.of_batches
    )
    assert len(BasicHParams.of_batches) == len(set(BasicHParams.of_batches))
