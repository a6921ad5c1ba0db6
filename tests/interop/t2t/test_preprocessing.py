"""`preprocess_example` of user directories is called when examples are read."""

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from support.usr_dirs import import_usr_dir
from t2t_lite import registry
from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.data_statistics import count_examples
from t2t_lite.data.example_reader import ExampleReader, eval_examples
from t2t_lite.data.input_pipeline import eval_dataset, train_dataset
from t2t_lite.data.records import frame, serialize
from t2t_lite.errors import UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.interop.t2t.hparam import HParams

TOP = """
import tensorflow as tf
from tensor2tensor.data_generators import problem, text_encoder, text_problems
from tensor2tensor.utils import registry


@registry.register_problem
class Changing(text_problems.Text2TextProblem):
  vocab_type = text_problems.VocabType.CHARACTER
  dataset_splits = [dict(split="train", shards=1), dict(split="eval", shards=1)]

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield dict(inputs="a", targets="b")

"""
EXAMPLES = [([5, 6, 7, 8, 1], [9, 10, 11, 1]), ([12, 1], [13, 14, 15, 16, 17, 1])]


@pytest.fixture
def changing(upstream, tmp_path) -> Callable[..., Any]:
    """Returns the problem of a user directory with this method."""

    def write(method: str) -> Any:
        body = "".join(f"  {line}\n" for line in method.strip().split("\n"))
        import_usr_dir(tmp_path / "usr_preprocessing", TOP + body)
        return registry.problem("changing")

    return write


@pytest.fixture
def records(tmp_path) -> str:
    path = tmp_path / "records"
    sides = ("inputs", "targets")
    examples = [dict(zip(sides, example, strict=True)) for example in EXAMPLES]
    path.write_bytes(b"".join(frame(serialize(example)) for example in examples))
    return str(path)


def read(problem: Any, path: str, split: str = "train", **hparams: Any) -> list[Any]:
    reader = ExampleReader.of(problem, BasicHParams(**hparams))
    if split == "train":  # `eval_examples` reads as for evaluation
        features = reader.parse(tf.stack(list(tf.data.TFRecordDataset(path))))
        return list(zip(*(ids.to_list() for ids in features.values()), strict=True))
    return eval_examples([path], reader)


CROPPED = [([5, 6], [9, 10, 11, 1]), ([12, 1], [13, 14, 15, 16, 17, 1])]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("def preprocess_example(self, example, mode, unused_hparams): return example", EXAMPLES),
        (
            """
def preprocess_example(self, example, mode, hparams):
  example = super(Changing, self).preprocess_example(example, mode, hparams)
  return example
""",
            EXAMPLES,
        ),
        (
            """
def preprocess_example(self, example, mode, hparams):
  del mode
  if hparams.max_length > 0:
    example["inputs"] = example["inputs"][:hparams.max_length - 1]
  example["is_long"] = tf.to_int64(tf.size(example["inputs"]) > 2)
  return example
""",
            CROPPED,
        ),
        (
            """
def preprocess_example(self, example, mode, hparams):
  if tf.size(example["inputs"]) > 2:
    example["inputs"] = example["inputs"][:2]
  else:
    tf.logging.info("short")
  return dict(example)
""",
            CROPPED,
        ),
        (
            """
def preprocess_example(self, example, unused_mode, unused_hparams):
  example["inputs"] = tf.concat([example["inputs"][:-1], [42, text_encoder.EOS_ID]], 0)
  example["targets"] = tf.reshape(tf.cast(example["targets"], tf.int32), [-1, 1, 1])
  return example
""",
            [([*source[:-1], 42, 1], target) for source, target in EXAMPLES],
        ),
        (
            """
def preprocess_example(self, example, mode, hparams):
  if mode == tf.estimator.ModeKeys.TRAIN:
    example["targets"] = tf.reverse(example["targets"][:-1], [0])
  return example
""",
            [(source, target[-2::-1]) for source, target in EXAMPLES],
        ),
    ],
)
def test_examples_are_changed_when_they_are_read(changing, records, method, expected):
    assert read(changing(method), records, max_length=3) == expected


@pytest.mark.integration
def test_the_mode_is_that_of_reading(changing, records):
    problem = changing(
        """
def preprocess_example(self, example, mode, hparams):
  number = [tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL,
            tf.estimator.ModeKeys.PREDICT].index(mode)
  example["inputs"] = example["inputs"] * 0 + number
  return example
"""
    )
    assert read(problem, records)[0][0] == [0] * 5
    assert read(problem, records, "eval")[0][0] == [1] * 5
    decoding = ExampleReader.of_decoding(problem, BasicHParams())
    assert eval_examples([records], decoding)[0][0] == [2] * 5


@pytest.mark.integration
def test_the_change_comes_before_rev_and_before_batches(changing, records):
    changing(
        """
def preprocess_example(self, example, mode, hparams):
  draw = tf.random_uniform([], 0, 4, tf.int32)
  example["inputs"] = example["inputs"][:tf.where(draw < 4, 3, 0)]
  return example
"""
    )
    problem = registry.problem("changing_rev")
    scheme = BatchingScheme.from_hparams(BasicHParams(batch_size=64, max_length=6), training=True)
    reader = ExampleReader.of(problem, BasicHParams())
    assert read(problem, records) == [(target, source[:3]) for source, target in EXAMPLES]
    counted = count_examples([records], scheme, reader)
    assert (counted.source_tokens, counted.target_tokens) == (10, 5)
    batches = train_dataset([records], scheme, reader, parts=1, seed=0, batch_shuffle_size=0)
    iterator = iter(batches)
    assert next(iterator)["targets"].shape[2] <= 3
    tf.train.Checkpoint(iterator=iterator).save(str(pathlib.Path(records).with_name("saved")))
    (batch,) = eval_dataset([records], scheme, reader, parts=1)
    assert batch["targets"].numpy().tolist() == [[[5, 6, 7], [12, 1, 0]]]


@pytest.mark.integration
@pytest.mark.parametrize("order", ["mode, hparams", "hparams, mode"])  # the second is older
def test_what_is_added_after_the_default_is_not_cut(changing, records, order):
    problem = changing(
        f"""
def preprocess_example(self, example, mode, hparams):
  example = problem.preprocess_example_common(example, {order})
  example["targets"] = tf.concat([[77], example["targets"]], 0)
  return example
"""
    )
    found = read(problem, records, max_input_seq_length=3, max_target_seq_length=4)
    assert found == [([5, 6, 1], [77, 9, 10, 11, 1]), ([12, 1], [77, 13, 14, 15, 1])]


def test_the_default_cuts_and_keeps_eos(changing, records):
    problem = changing("def own(self): return problem.preprocess_example_common")
    example = {side: tf.constant(ids) for side, ids in zip("ab", EXAMPLES[0], strict=True)}
    given = {"inputs": example["a"], "targets": example["b"]}
    hparams = HParams.of(BasicHParams(max_input_seq_length=3, max_target_seq_length=4))
    cut = problem.upstream.preprocess_example(given, "train", hparams)
    assert {side: ids.numpy().tolist() for side, ids in cut.items()} == {
        "inputs": [5, 6, 1],
        "targets": [9, 10, 11, 1],
    }
    assert read(problem, records, max_input_seq_length=3)[0] == ([5, 6, 1], EXAMPLES[0][1])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return tf.data.Dataset.from_tensors(example)", "returns .*Dataset, but only changes"),
        ("example.pop('inputs')", "returns NoneType"),
        ("return {'inputs': example['inputs'], 'label': example['targets']}", "'targets'"),
        ("return dict(example, inputs=tf.to_float(example['inputs']))", "'inputs' float32"),
        ("return dict(example, inputs=tf.one_hot(example['inputs'], 9))", "'inputs' float32"),
        ("return dict(example, inputs=tf.tile(example['inputs'][None], [2, 1]))", "of shape"),
        ("return dict(example, inputs=example['context'])", "KeyError: 'context'"),
        (
            "return dict(example, inputs=tf.contrib.seq2seq.x(example['inputs']))",
            "tensorflow.contr",
        ),
    ],
)
def test_anything_but_a_change_of_ids_is_named(changing, records, body, message):
    problem = changing(f"def preprocess_example(self, example, mode, hparams):\n  {body}")
    with pytest.raises(UserError, match=message) as raised:
        read(problem, records)
    text = str(raised.value)
    assert text.startswith("problem 'changing': preprocess_example")
    assert "\n" not in text
    if "only changes" not in text:
        assert f"{sys.modules['usr_preprocessing'].__file__}, line 16" in text
