"""Calls of `preprocess_example`: users' changes of examples when these are read."""

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_lite.data.example_reader import Change
from t2t_lite.errors import UserError, warn_once
from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.interop.t2t.tensorflow1 import ModeKeys
from t2t_lite.settings import HParams as Settings

# A line of TensorFlow's report about the code that it traced.
_PLACE = re.compile(r'File "(.+)", line (\d+), in')


def change_of_examples(problem: Any, settings: Settings, split: str | None) -> Change:
    """Returns the change that a user's `preprocess_example` makes.

    Args:
        problem: the adapter of the user's problem.
        settings: of the model.
        split: what the examples are read for; None: decoding.
    """
    names = *problem.sides, *problem.further_features
    spec = {name: tf.TensorSpec([None], tf.int64) for name in names}
    fields, _ = problem.upstream.example_reading_spec()
    shapes = {
        name: fields[name].shape if isinstance(fields[name], tf.io.FixedLenFeature) else [-1]
        for name in problem.further_features
    }
    hparams = HParams.of(settings)
    mode = split or ModeKeys.PREDICT  # the others are named as the splits

    def changed(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        shaped = {name: tf.reshape(example[name], shape) for name, shape in shapes.items()}
        returned = problem.upstream.preprocess_example({**example, **shaped}, mode, hparams)
        return _checked(problem, example, returned)

    function = tf.function(changed, input_signature=[spec])
    try:
        function.get_concrete_function()
    except Exception as error:  # whatever the user's code raises, in TensorFlow's words
        raise UserError(_message(problem, error)) from error
    rows = {side: tf.RaggedTensorSpec([None], tf.int64, ragged_rank=0) for side in problem.sides}

    @tf.function(autograph=False)
    def change(features: dict[str, tf.RaggedTensor]) -> dict[str, tf.RaggedTensor]:
        own = {name: features[name] for name in names}
        return features | tf.map_fn(function, own, fn_output_signature=rows)

    return change


def _checked(problem: Any, example: dict[str, tf.Tensor], returned: Any) -> dict[str, tf.Tensor]:
    """Returns the ids of each side."""
    sides: Sequence[str] = problem.sides
    if not isinstance(returned, dict):
        raise _refusal(f"returns {type(returned).__name__}")
    if others := sorted(returned.keys() - {*sides, *problem.further_features}):
        warn_once(
            f"problem {problem.base_name}: no model here reads what preprocess_example adds: "
            + ", ".join(others)
        )
    ids = {}
    for side in sides:
        if side not in returned:
            raise _refusal(f"does not return {side!r}")
        found = returned[side]
        if isinstance(found, tf.SparseTensor | tf.RaggedTensor):
            raise _refusal(f"makes {side!r} a {type(found).__name__}")
        found = tf.convert_to_tensor(found)
        lengths = found.shape[1:]
        if not found.dtype.is_integer or lengths.rank is None or any(n != 1 for n in lengths):
            raise _refusal(f"makes {side!r} {found.dtype.name} of shape {found.shape}")
        if not problem.has_text_targets and side == "targets" and found is not example[side]:
            raise _refusal(f"changes the {'labels' if problem.has_labels else 'numbers'}")
        ids[side] = tf.cast(tf.reshape(found, [-1]), tf.int64)
    return ids


def _refusal(what: str) -> UserError:
    return UserError(
        f"{what}, but only changes of the lists of ids of each example are available: change the "
        "samples when generating them"
    )


def _message(problem: Any, error: Exception) -> str:
    """Returns the last line of an error, with the user's last line in the code that was traced."""
    text = str(error).strip() or type(error).__name__
    reason = text.splitlines()[-1].strip().removeprefix(f"{UserError.__name__}: ")
    places = [place for place in _PLACE.findall(text) if not _is_library(place[0])]
    where = " ({}, line {}):".format(*places[-1]) if places else ""
    page = "docs/coming-from-t2t.md"
    return f"problem {problem.base_name!r}: preprocess_example{where} {reason} ({page})"


def _is_library(path: str) -> bool:
    return any(f"/{name}/" in path for name in ("t2t_lite", "tensorflow"))
