"""T2T's HParams: a set of this package whose fields are changed one by one, and fields of T2T's."""

import copy
import dataclasses
import functools
import json
import keyword
import logging
import re
import typing
from collections.abc import Mapping
from typing import Any, Self

from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.imports import settings
from t2t_lite.settings import HParams as Settings
from t2t_lite.t2t.modalities import ModalityType

__all__ = ["HParams"]


log = logging.getLogger(__name__)

# name=value; a value may be a list in brackets, with commas inside.
_ASSIGNMENT = re.compile(r"\s*([\w.]+)\s*=\s*(\[[^]]*\]|[^,\[]*)(?:,|$)")
_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_OWN_KINDS = (bool, int, float, str, list, type(None))


class HParams:
    """Named values, as attributes.

    Those of a set (`HParams.of`) are the set's fields, T2T's that are missing there, and what
    `add_hparam` adds for the user's own code. Other names may be assigned, as in T2T, with a
    warning: they are not fields. An object made from keyword arguments takes any name.

    Args:
        model_structure: not used.
        **kwargs: the values.
    """

    def __init__(self, model_structure: Any = None, **kwargs: Any) -> None:
        del model_structure
        vars(self).update(_values=dict(kwargs), _settings=None, _own=set(), _set=set())

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Returns the fields of a set, and those of T2T's that are missing there."""
        theirs = {**NO_EFFECT, **copy.deepcopy(ONLY)}
        hparams = cls(**{**theirs, **settings.to_dict()})
        vars(hparams)["_settings"] = settings
        return hparams

    def extend_to(self, settings: Settings) -> None:
        """Adds the fields of another model's set, which has all fields of this object's set."""
        self._values.update({n: v for n, v in settings.to_dict().items() if n not in self._values})
        self._own.difference_update(settings.names())
        vars(self)["_settings"] = settings

    # ---- one field

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[RENAMED.get(name, name) if self._settings else name]
        except KeyError:
            raise AttributeError(
                f"unknown hparam {name!r}{did_you_mean(name, self._values)}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if self._settings is not None:
            name = RENAMED.get(name, name)
            if name not in self._values:
                warn_once(
                    f"hparam {name!r} is in no set{did_you_mean(name, self._values)}; your code "
                    "can read it, but it has no effect (add_hparam adds one that is saved)"
                )
                vars(self)[name] = value
                return
            value = _fitting(value, typing.get_type_hints(type(self._settings)).get(name))
        self._set.add(name)
        self._values[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a value, or the default if there is no such name."""
        return self._values.get(key, default)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a field; if it is one of T2T's that are missing here, sets it.

        Raises:
            ValueError: the set has it already.
        """
        is_t2ts = self._settings is not None and (
            name not in self._settings.names() or name in ADDED
        )
        if name in self._values and not is_t2ts:
            raise ValueError(f"hparam {name!r} exists already: assign to it")
        if name not in self._values:
            self._own.add(name)
        self._set.add(name)
        self._values[name] = value

    def set_hparam(self, name: str, value: Any) -> None:
        """Changes a field to a value, converted to the type that it has.

        Raises:
            ValueError: the value does not have this type.
        """
        setattr(self, name, _converted(name, value, getattr(self, name)))

    def del_hparam(self, name: str) -> None:
        """Removes a field, if there is one; one of the set's goes back to the set's value."""
        self._own.discard(name)
        self._set.discard(name)
        if self._settings is not None and name in self._settings.names():
            self._values[name] = getattr(self._settings, name)
        else:
            self._values.pop(name, None)

    # ---- all fields

    def values(self) -> dict[str, Any]:
        """Returns all fields by name."""
        return dict(self._values)

    def parse(self, values: str) -> Self:
        """Changes fields by a text such as `"a=1,b=x,c=[1,2]"`; returns the object.

        Raises:
            ValueError: it has another form, or a value another type.
        """
        place = 0
        while place < len(values):
            found = _ASSIGNMENT.match(values, place)
            if found is None:
                raise ValueError(f"cannot parse {values[place:]!r}: expected name=value,...")
            name, text = found[1], found[2].strip()
            if self._settings is not None and name in self._settings.names():
                setattr(self, name, getattr(self._settings.override(f"{name}={text}"), name))
            elif text.startswith("["):
                parts = text[1:-1].split(",")
                self.set_hparam(name, [part.strip() for part in parts if part.strip()])
            else:
                self.set_hparam(name, text)
            place = found.end()
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> Self:
        """Changes fields; returns the object."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> Self:
        """Changes fields by a JSON object; returns the object."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Returns all fields as a JSON object."""
        return json.dumps(self._values, indent=indent, separators=separators, sort_keys=sort_keys)

    def __repr__(self) -> str:
        return f"HParams({sorted(self._values.items())})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        other = type(self)()
        vars(other).update(copy.deepcopy(vars(self), memo))
        return other

    # ---- as a set of this package

    def to_settings(self, name: str) -> Settings:
        """Returns the set that is trained; warns of fields that have no effect.

        Args:
            name: the set's name, for messages.

        Raises:
            UsageError: a field has a value that is not implemented, or of the wrong type.
        """
        if self._settings is None:
            raise UsageError(
                f"hparams set {name!r}: start from a model's set, such as "
                "transformer.transformer_base(), and change its fields"
            )
        ours = self._settings.names()
        for field in sorted(self._values.keys() & ONLY.keys() - set(ours) - self._own):
            if not is_implemented(field, self._values[field]):
                instead = INSTEAD.get(field, "")
                raise UsageError(
                    f"hparams set {name!r}: {field}={self._values[field]!r} is not implemented; "
                    f"only {ONLY[field]!r} is" + (f" (instead: {instead})" if instead else "")
                )
        ignored = sorted((self._set & set(NO_EFFECT)) - set(ours))
        if ignored:
            warn_once(f"hparams set {name}: without effect here: {', '.join(ignored)}")
        own = {field: self._values[field] for field in self._values if field in self._own}
        kept = {field: self._values[field] for field in (*ours, *own)}
        return _with_fields(type(self._settings), own).from_dict(kept)


@functools.cache
def warn_once(message: str) -> None:
    """Warns once."""
    log.warning(message)


def _with_fields(settings: type[Settings], own: Mapping[str, Any]) -> type[Settings]:
    """Returns a class of hyperparameters with more fields."""
    if not own:
        return settings
    for name, value in own.items():
        if not name.isidentifier() or keyword.iskeyword(name) or hasattr(settings, name):
            raise UsageError(
                f"hparam {name!r}: a field cannot have this name; expected letters, digits and "
                "underscores, and no word of Python's or method of a set"
            )
        if not isinstance(value, _OWN_KINDS):
            raise UsageError(
                f"hparam {name!r}: {value!r} cannot be saved; expected a number, a text, a switch "
                "or a list of them"
            )
    fields = [(name, type(value), _field_of(value)) for name, value in own.items()]
    return dataclasses.make_dataclass(settings.__name__, fields, bases=(settings,))


def _field_of(value: Any) -> Any:
    return dataclasses.field(default_factory=lambda: value)


def _fitting(value: Any, kind: Any) -> Any:
    """Returns a switch that is 0 or 1, and a whole number that is a float, in the field's type."""
    if kind is bool and value in (0, 1):
        return bool(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _converted(name: str, value: Any, like: Any) -> Any:
    """Returns a value converted to the type of another."""
    try:
        if isinstance(like, bool):
            return _BOOLS[str(value).lower()]
        if isinstance(like, int) and isinstance(value, float) and not value.is_integer():
            raise ValueError
        if isinstance(like, list) and like and isinstance(value, list):
            return [_converted(name, item, like[0]) for item in value]
        return value if like is None or isinstance(like, list | dict) else type(like)(value)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"hparam {name!r}: {value!r} is not of type {type(like).__name__}"
        ) from None


# ---- hyperparameters of T2T that do not exist here: without effect, or with one value implemented

# "feature:kind:name", of T2T before 1.12.
_SYMBOL_ENTRIES = re.compile(r"((\w+:)?symbol:default;?)+")

# Of what changes the model, see `settings.ONLY`; these change how it is trained and decoded.
_ONLY_TRAINING: Mapping[str, Any] = {
    "bottom": {},
    "gpu_automatic_mixed_precision": False,
    "grad_noise_scale": 0.0,
    "gumbel_noise_weight": 0.0,
    "input_modalities": "default",  # until T2T 1.11; then `modality`
    "loss": {},
    "modality": {},
    "name": {},
    "optimizer_adafactor_beta1": 0.0,
    "optimizer_adafactor_decay_type": "pow",
    "optimizer_adafactor_factored": True,
    "optimizer_adafactor_multiply_by_parameter_scale": True,
    "output_attention": True,
    "num_heads": 1,  # of attention in recurrent models
    "num_trainable_top_decoder_layers": -1,
    "pack_dataset": False,
    "position_features": "",
    "prepend_mode": "none",  # of models other than the Transformer
    "pretrained_model_dir": "",
    "sampling_method": "argmax",
    "scheduled_sampling_prob": 0.0,
    "split_targets_chunk_length": 0,
    "split_to_length": 0,
    "target_modality": "default",
    "top": {},
    "use_fixed_batch_size": False,
    "warm_start_from_second": "",
    "weight_dtype": "float32",
    "weight_noise": 0.0,
    "weights_fn": {},
}
_SYMBOLS = "remove it: features are sequences of symbols, or labels of a Text2ClassProblem"
# What to do instead of another value.
INSTEAD: Mapping[str, str] = {
    "gpu_automatic_mixed_precision": "set dtype to float16",
    "input_modalities": _SYMBOLS,
    "modality": _SYMBOLS,
    "pretrained_model_dir": "t2t-trainer --warm_start_from",
    "sampling_method": "t2t-decoder --decode_hparams=sampling_temp=...",
    "target_modality": _SYMBOLS,
    "use_fixed_batch_size": "batch_size counts subwords",
    "warm_start_from_second": "t2t-trainer --warm_start_from",
}
# Fields of our sets that users' functions add to T2T's, as T2T's own functions do.
ADDED = frozenset({"attention_mechanism"})
# Ours under T2T's name.
RENAMED: Mapping[str, str] = {"activation_dtype": "dtype"}

# T2T's defaults of fields that change nothing here: sizes of memory and logs, the placement on
# devices, and fields that only models of other kinds read.
NO_EFFECT: Mapping[str, Any] = {
    "add_ffn_unit_to_the_transition_function": False,
    "add_relative_to_values": False,
    "area_key_mode": "none",
    "area_value_mode": "none",
    "attention_dropout_broadcast_dims": "",
    "attention_layer_size": 0,
    "compress_steps": 0,
    "conv_first_kernel": 3,
    "couple_carry_transform_gates": True,
    "daisy_chain_variables": True,
    "data_dir": None,
    "depth_embedding": True,
    "dropout": 0.2,
    "dwa_elements": True,
    "eval_run_autoregressive": False,
    "force_full_predict": False,
    "gate_ffn_layer": "dense",
    "heads_share_relative_embedding": False,
    "kernel_height": 3,
    "kernel_width": 1,
    "layer_postprocess_sequence": "dan",
    "layer_prepostprocess_dropout": 0.1,
    "layer_prepostprocess_dropout_broadcast_dims": "",
    "layer_preprocess_sequence": "none",
    "lstm_forget_bias": 1.0,
    "max_area_height": 1,
    "max_area_width": 1,
    "max_relative_position": 0,
    "memory_height": 1,
    "mixed_precision_optimizer_init_loss_scale": 2**15,
    "mixed_precision_optimizer_loss_scaler": "exponential",
    "mlperf_mode": False,
    "moe_hidden_sizes": "2048",
    "moe_k": 2,
    "moe_loss_coef": 1e-2,
    "moe_num_experts": 64,
    "moe_overhead_eval": 2.0,
    "moe_overhead_train": 1.0,
    "multiproblem_fixed_train_length": -1,
    "multiproblem_label_weight": 0.5,
    "multiproblem_max_input_length": -1,
    "multiproblem_max_target_length": -1,
    "multiproblem_mixing_schedule": "constant",
    "multiproblem_per_task_threshold": "",
    "multiproblem_reweight_label_loss": False,
    "multiproblem_schedule_max_examples": 1e7,
    "multiproblem_schedule_threshold": 0.5,
    "multiproblem_target_eval_only": False,
    "multiproblem_vocab_size": -1,
    "no_data_parallelism": False,
    "norm_epsilon": 1e-6,
    "num_mixedin_layers": 2,
    "num_sampled_classes": 0,
    "optimizer_adafactor_beta2": 0.999,
    "optimizer_zero_grads": False,
    "overload_eval_metric_name": "",
    "pad_batch": False,
    "print_vars": False,
    "problem_choice": "adaptive",
    "relu_dropout_broadcast_dims": "",
    "sampling_keep_top_k": -1,
    "sampling_temp": 1.0,
    "scheduled_sampling_gold_mixin_prob": 0.5,
    "scheduled_sampling_method": "parallel",
    "scheduled_sampling_num_passes": 1,
    "scheduled_sampling_warmup_schedule": "exp",
    "scheduled_sampling_warmup_steps": 50000,
    "split_targets_max_chunks": 100,
    "split_targets_strided_training": False,
    "summarize_grads": False,
    "summarize_vars": False,
    "symbol_modality_num_shards": 1,
    "tpu_enable_host_call": False,
    "transform_bias_init": -1.0,
    "use_custom_ops": True,
    "use_memory_as_final_state": False,
    "use_pad_remover": True,
    "video_num_input_frames": 1,
    "video_num_target_frames": 1,
}


def _value(text: str) -> Any:
    """Returns a value of `settings.ONLY` as T2T holds it."""
    return int(text) if text.isdecimal() else text


ONLY: Mapping[str, Any] = {
    **{name: _value(text) for name, text in settings.ONLY.items()},
    **_ONLY_TRAINING,
}


def is_implemented(name: str, value: Any) -> bool:
    """Whether a field of `ONLY` holds the value that is implemented."""
    only = ONLY[name]
    if name == "modality" and isinstance(value, Mapping):
        return set(value.values()) <= {ModalityType.SYMBOL}
    if only == "default" and _SYMBOL_ENTRIES.fullmatch(str(value)):
        return True
    return bool(value == only) or settings.as_text(value) == settings.as_text(only)
