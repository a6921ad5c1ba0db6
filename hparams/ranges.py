"""Ranges of hyperparameters, from which a search draws those of its trials (`--hparams_range`).

A registered set of ranges is a function that is given a `RangedHParams` and sets ranges in it:

    @registry.register_ranged_hparams
    def transformer_mine_range(rhp: RangedHParams) -> None:
        rhp.set_float("learning_rate_constant", 0.5, 4.0, scale=rhp.LOG_SCALE)
        rhp.set_discrete("batch_size", [512, 1024, 2048])

Names, scales and the sets below are T2T's. T2T's sets vary `learning_rate`, too, which has an
effect only with some values of `learning_rate_schedule`, and `weight_decay`, which a search leaves
out unless the optimizer supports it.
"""

import dataclasses
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from t2t_lite import registry
from t2t_lite.errors import UsageError, did_you_mean, quoted
from t2t_lite.settings import HParams

log = logging.getLogger(__name__)

# What a range may hold; a set of hparams checks the values themselves.
_VALUES = (str, bool, int, float, type(None))


@dataclasses.dataclass(frozen=True)
class Range:
    """The values that one hparam may have.

    Attributes:
        kind: "float", "int", "discrete" or "categorical".
        low: the smallest number of a float or int.
        high: the largest number of a float or int.
        choices: the values of the other two; those of a discrete one are numbers in their order.
        scale: how numbers are spread, of `RangedHParams`.
    """

    kind: str
    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()
    scale: int = 1

    @property
    def examples(self) -> tuple[Any, ...]:
        """All choices, or three numbers: near both limits, which may be excluded, and between."""
        numbers = (self.low + share * (self.high - self.low) for share in (0.01, 0.5, 0.99))
        return self.choices or tuple(
            dict.fromkeys(round(number) if self.kind == "int" else number for number in numbers)
        )

    def __str__(self) -> str:
        scale = RangedHParams.SCALES[self.scale]
        if self.choices:
            return f"{self.kind} {', '.join(map(str, self.choices))}"
        return f"{self.kind} from {self.low} to {self.high}{scale and f', {scale}'}"


class RangedHParams:
    """The ranges of some hparams, by name.

    A range that is set again replaces the earlier one. `length` is not used, as in T2T.

    Attributes:
        ranges: what has been set.
        foreign: hparams of T2T's that a set may lack, and why they then need no range.
    """

    LINEAR_SCALE: ClassVar[int] = 1
    LOG_SCALE: ClassVar[int] = 2
    REVERSE_LOG_SCALE: ClassVar[int] = 3

    SCALES: ClassVar[dict[int, str]] = {1: "", 2: "logarithmic", 3: "reverse logarithmic"}

    def __init__(self) -> None:
        self.ranges: dict[str, Range] = {}
        self.foreign: dict[str, str] = {}

    def set_float(
        self, name: str, min_val: float, max_val: float, scale: Any = None, length: Any = None
    ) -> None:
        """Lets a hparam be any number of an interval, both ends included.

        Args:
            name: the hparam.
            min_val: the smallest number.
            max_val: the largest number.
            scale: LINEAR_SCALE (None), LOG_SCALE, which has more small numbers, or
                REVERSE_LOG_SCALE, which has more large ones.
            length: not used.

        Raises:
            UsageError: the bounds or the scale make no range, or the hparam has another kind.
        """
        del length
        low, high = _bounds(name, min_val, max_val)
        self._set_numbers("float", name, low, high, scale)

    def set_int(
        self, name: str, min_val: int, max_val: int, scale: Any = None, length: Any = None
    ) -> None:
        """Lets a hparam be any whole number of an interval; see `set_float`.

        Raises:
            UsageError: as in `set_float`, or a limit is not a whole number.
        """
        del length
        low, high = _bounds(name, min_val, max_val)
        if not (low.is_integer() and high.is_integer()):
            raise UsageError(
                f"range of {name!r}: expected whole numbers, got {min_val} and {max_val}"
            )
        self._set_numbers("int", name, int(low), int(high), scale)

    def set_discrete(
        self, name: str, feasible_points: Sequence[Any], scale: Any = None, length: Any = None
    ) -> None:
        """Lets a hparam be one of some numbers, which have an order; see `set_float`.

        Raises:
            UsageError: as in `set_float`, or a point is not a number.
        """
        del length
        points = _plain(name, feasible_points)
        if not all(isinstance(point, int | float) for point in points):
            raise UsageError(
                f"range of {name!r}: expected numbers, got {quoted(points)}; set_categorical takes "
                "other values"
            )
        self._set(name, Range("discrete", choices=tuple(sorted(points)), scale=_scale(name, scale)))

    def set_categorical(self, name: str, categories: Sequence[Any], length: Any = None) -> None:
        """Lets a hparam be one of some values, which have no order."""
        del length
        self._set(name, Range("categorical", choices=_plain(name, categories)))

    def _set_numbers(self, kind: str, name: str, low: float, high: float, scale: Any) -> None:
        chosen = _scale(name, scale)
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise UsageError(f"range of {name!r}: from {low} to {high} is not a range of numbers")
        if chosen != self.LINEAR_SCALE and low <= 0:
            raise UsageError(
                f"range of {name!r}: a logarithmic scale needs numbers above 0, not {low}"
            )
        self._set(name, Range(kind, low, high, scale=chosen))

    def _set(self, name: str, value: Range) -> None:
        before = self.ranges.get(name, value)
        if before.kind != value.kind:
            raise UsageError(
                f"range of {name!r}: it was set as {before.kind} before, and cannot become "
                f"{value.kind}"
            )
        self.ranges[name] = value


def _bounds(name: str, low: Any, high: Any) -> tuple[float, float]:
    try:
        return float(low), float(high)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"range of {name!r}: expected numbers, got {quoted(low)} and {quoted(high)}"
        ) from None


def _scale(name: str, scale: Any) -> int:
    found = RangedHParams.LINEAR_SCALE if scale is None else scale
    if found not in RangedHParams.SCALES:
        raise UsageError(
            f"range of {name!r}: unknown scale {quoted(scale)}; expected rhp.LINEAR_SCALE, "
            "rhp.LOG_SCALE or rhp.REVERSE_LOG_SCALE"
        )
    return int(found)


def _plain(name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Returns values as Python's own, each once; NumPy's numbers have the method `item`."""
    if isinstance(values, str):  # whose letters would be the values
        raise UsageError(f"range of {name!r}: expected a list of values, got {quoted(values)}")
    plain = [value.item() if hasattr(value, "item") else value for value in values]
    found = tuple({repr(value): value for value in plain}.values())
    if not found or not all(isinstance(value, _VALUES) for value in found):
        raise UsageError(
            f"range of {name!r}: expected at least one number, text or switch, got {quoted(values)}"
        )
    if any("," in str(value) for value in found):
        raise UsageError(f"range of {name!r}: {quoted(found)}: a text must not contain a comma")
    return found


def ranges_of(name: str, known: Collection[str]) -> dict[str, Range]:
    """Returns the ranges of a registered set of them, by hparam.

    Args:
        name: that of the set of ranges.
        known: the hparams that the searched set has.

    Raises:
        UsageError: the name or a hparam is unknown, a range is wrong, or there is none.
    """
    ranged = RangedHParams()
    registry.ranged_hparams(name)(ranged)
    found = {}
    for field, value in ranged.ranges.items():
        if field in known:
            found[field] = value
        elif field in ranged.foreign:
            log.warning("hparams range %s: %s is left out: %s", name, field, ranged.foreign[field])
        else:
            raise UsageError(
                f"hparams range {name!r}: unknown hparam {field!r}{did_you_mean(field, known)}"
            )
    if not found:
        raise UsageError(f"hparams range {name!r} sets no range: there is nothing to search")
    return found


def check_values(name: str, ranges: Mapping[str, Range], hparams: HParams) -> None:
    """Checks that hparams may have the values of their ranges, before a trial fails by one.

    A value that fails is logged, since others may do.

    Args:
        name: that of the set of ranges.
        ranges: from `ranges_of`.
        hparams: of the set that is searched.

    Raises:
        UsageError: no value of a range will do.
    """
    for field, value in ranges.items():
        refused = []
        for example in value.examples:
            try:
                hparams.override(f"{field}={example}")
            except UsageError as error:
                refused.append(str(error))
        if len(refused) == len(value.examples):
            raise UsageError(f"hparams range {name!r}: {field} is {value}: {refused[0]}")
        for fault in refused:
            log.warning("hparams range %s: trials will fail by one of its values: %s", name, fault)


# ---- T2T's sets of ranges


@registry.register_ranged_hparams
def transformer_base_range(rhp: RangedHParams) -> None:
    """Learning rate, initial values and Adam's decays, around `transformer_base`."""
    _around_base(rhp, 1e-4)


@registry.register_ranged_hparams
def transformer_tpu_range(rhp: RangedHParams) -> None:
    """As `transformer_base_range`, with more weight decay."""
    _around_base(rhp, 2.0)


def _around_base(rhp: RangedHParams, most_decay: float) -> None:
    rhp.set_float("learning_rate", 0.3, 3.0, scale=rhp.LOG_SCALE)
    rhp.set_discrete("learning_rate_warmup_steps", [1000, 2000, 4000, 8000, 16000])
    rhp.set_float("initializer_gain", 0.5, 2.0)
    rhp.set_float("optimizer_adam_beta1", 0.85, 0.95)
    rhp.set_float("optimizer_adam_beta2", 0.97, 0.99)
    rhp.set_float("weight_decay", 0.0, most_decay)


@registry.register_ranged_hparams
def transformer_tiny_tpu_range(rhp: RangedHParams) -> None:
    """Learning rate and weight decay."""
    rhp.set_float("learning_rate", 0.3, 3.0, scale=rhp.LOG_SCALE)
    rhp.set_float("weight_decay", 0.0, 2.0)


@registry.register_ranged_hparams
def universal_transformer_base_range(rhp: RangedHParams) -> None:
    """Sizes and steps of the Universal Transformer; T2T's also has another feed-forward layer."""
    rhp.set_discrete("num_rec_steps", [6, 8, 10])
    _universal(rhp)


@registry.register_ranged_hparams
def adaptive_universal_transformer_base_range(rhp: RangedHParams) -> None:
    """As `universal_transformer_base_range`, with the steps of adaptive computation."""
    rhp.set_discrete("act_max_steps", [8, 16, 32])
    rhp.set_float("act_loss_weight", 0.0, 0.5)
    _universal(rhp)


def _universal(rhp: RangedHParams) -> None:
    rhp.set_discrete("hidden_size", [1024, 2048, 4096])
    rhp.set_discrete("filter_size", [2048, 4096, 8192])
    rhp.set_discrete("num_heads", [8, 16, 32])
    rhp.set_float("learning_rate", 0.3, 3.0, scale=rhp.LOG_SCALE)
    rhp.set_float("weight_decay", 0.0, 2.0)
