"""Registries: from names on the command line to problems, models, hparams sets, metrics and more.

Registering is a decorator, bare or with a name:

    @registry.register_problem
    class TranslateEndeMyCorpus(translate.TranslateProblem): ...   # translate_ende_my_corpus

    @registry.register_hparams("transformer_mine")
    def mine() -> TransformerHParams: ...

    @registry.register_ranged_hparams
    def transformer_mine_range(rhp: RangedHParams) -> None: ...

    @registry.register_metric
    class LengthRatio(OutputMetric): ...   # length_ratio

    @registry.register_search
    class NoDigits(Constraint): ...   # no_digits

    @registry.register_callback
    class Notes(Callback): ...   # notes

As in T2T, every problem is also available under its name with `_rev` (sources and targets
exchanged) and `_copy` (targets are the sources). The package's own registrations are imported at
the first lookup; a model may be registered as "module:Class", so that listing names does not
import Keras.
"""

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from t2t_lite.errors import UsageError, quoted
from t2t_lite.names import SUFFIXES, ProblemName, Registry, snake_case

if TYPE_CHECKING:
    from t2t_lite.data.problem import Problem
    from t2t_lite.hparams.ranges import RangedHParams
    from t2t_lite.metrics.base import Metric
    from t2t_lite.models.seq2seq import Seq2Seq
    from t2t_lite.search.parts import SearchPart
    from t2t_lite.settings import HParams
    from t2t_lite.training.callbacks import Callback

Registered = TypeVar("Registered", bound=Callable[..., Any])

# Between the names of a mixture's problems, and the module that makes one of them.
_JOIN, _MIXTURE = "+", "t2t_lite.data.mixture"


class _ProblemRegistry(Registry["type[Problem]"]):
    """Problems; a class of T2T's is registered as its adapter (`interop.t2t.adapter`)."""

    def add(self, name: str, value: Any) -> None:
        """Registers a problem.

        Raises:
            KeyError: the name is taken.
        """
        adapter_for = getattr(value, "_t2t_lite_adapter_for", None)
        super().add(name, adapter_for(name) if adapter_for else value)


_problems = _ProblemRegistry("problem", "t2t_lite.problems")
_models: Registry["type[Seq2Seq] | str"] = Registry("model", "t2t_lite.models", "t2t_lite.systems")
_refused_models: dict[str, str] = {}
_variants: Registry[str] = Registry("variant", "t2t_lite.layers", "t2t_lite.models")
_hparams: Registry["Callable[[], HParams]"] = Registry("hparams set", "t2t_lite.hparams")
_ranged_hparams: Registry["Callable[[RangedHParams], None]"] = Registry(
    "hparams range", "t2t_lite.hparams"
)
_refused_hparams: dict[str, str] = {}
_being_made: list[str] = []  # hparams sets, each made by the function of the one before
_parents: dict[str, str] = {}  # by hparams set: the first that its function makes


class _MetricRegistry(Registry["type[Metric]"]):
    """Metrics, each of whose values has a field of its own in the evaluations of metrics.jsonl."""

    def add(self, name: str, value: "type[Metric]") -> None:
        """Registers a metric.

        Raises:
            KeyError: the name is taken.
            ValueError: one of its values has a name that cannot be a field, or that is taken.
        """
        own = [name, *(extra.name for extra in value.extras)]
        for field in own:
            _check_field(field)
            if own.count(field) > 1:
                raise ValueError(f"metric {name!r} has two values named {field!r}")
        for other, kind in self._entries.items():
            if name != other and not (issubclass(value, kind) or issubclass(kind, value)):
                taken = {other, *(extra.name for extra in kind.extras)}
                for field in own:
                    if field in taken:
                        raise ValueError(
                            f"metric {name!r}: {field!r} is already a value of metric {other!r}"
                        )
        super().add(name, value)


_FIELDS = "kind", "step", "target_tokens", "first_batches"  # of metrics.jsonl


def _check_field(name: str) -> None:
    """Raises ValueError if a metric's value cannot have this name."""
    reserved = name in _FIELDS or name.endswith("_signature")
    if not name.isidentifier() or reserved or "__" in name:
        raise ValueError(
            f"metric {name!r}: expected letters, digits and single underscores, and none of "
            f"{', '.join(_FIELDS)} or the ending _signature, which other fields of metrics.jsonl "
            "have"
        )


_metrics = _MetricRegistry("metric", "t2t_lite.metrics")
_searches: Registry["type[SearchPart]"] = Registry("search part", "t2t_lite.search")
_callbacks: Registry["type[Callback]"] = Registry("callback")


_REGISTRIES: tuple[Registry[Any], ...] = (
    *(_problems, _models, _variants, _hparams, _ranged_hparams),
    *(_metrics, _searches, _callbacks),
)


def import_own() -> None:
    """Imports everything of this package that registers something."""
    for own in _REGISTRIES:
        own.names()


def release(kind: str, name: str) -> bool:
    """Removes this package's own registration of a name, for a user's of the same name.

    Args:
        kind: as messages call it: "problem", "hparams set", "hparams range".
        name: the name, registered or not.

    Returns:
        Whether there was one.
    """
    return {known.kind: known for known in _REGISTRIES}[kind].release(name)


@overload
def register_problem(name: Registered) -> Registered: ...
@overload
def register_problem(name: str | None = None) -> Callable[[Registered], Registered]: ...
def register_problem(name: Any = None) -> Any:
    """Registers a `Problem` class; its name may not end in `_rev` or `_copy`.

    Raises:
        ValueError: the name ends in one of them.
    """
    own = snake_case(name.__name__) if callable(name) else name
    if own and own.endswith(SUFFIXES):
        raise ValueError(
            f"problem {own!r}: names ending in _rev or _copy are derived from the base problem's"
        )
    return _problems.decorator(name)


@overload
def register_model(name: Registered) -> Registered: ...
@overload
def register_model(name: str | None = None) -> Callable[[Registered], Registered]: ...
def register_model(name: Any = None) -> Any:
    """Registers a `Seq2Seq` class."""
    return _models.decorator(name)


def register_model_at(name: str, target: str) -> None:
    """Registers the model class at `"module:Class"`, imported only when the model is built."""
    _models.add(name, target)


@overload
def register_hparams(name: Registered) -> Registered: ...
@overload
def register_hparams(name: str | None = None) -> Callable[[Registered], Registered]: ...
def register_hparams(name: Any = None) -> Any:
    """Registers a function without arguments that returns a fresh `HParams` object."""
    return _hparams.decorator(name, _noting_parent)


@overload
def register_ranged_hparams(name: Registered) -> Registered: ...
@overload
def register_ranged_hparams(name: str | None = None) -> Callable[[Registered], Registered]: ...
def register_ranged_hparams(name: Any = None) -> Any:
    """Registers a function that sets the ranges of a `RangedHParams`, for `--hparams_range`."""
    return _ranged_hparams.decorator(name)


def _noting_parent(name: str, function: Any) -> Any:
    """Returns the function of a hparams set, which also notes which set another one changes."""
    if not inspect.isfunction(function):
        return function

    @functools.wraps(function)
    def made() -> Any:
        if _being_made:
            _parents.setdefault(_being_made[-1], name)
        _being_made.append(name)
        try:
            return function()
        finally:
            _being_made.pop()

    return made


@overload
def register_metric(name: Registered) -> Registered: ...
@overload
def register_metric(name: str | None = None) -> Callable[[Registered], Registered]: ...
def register_metric(name: Any = None) -> Any:
    """Registers a `Metric` class; its name, a Python identifier, is a field of metrics.jsonl."""
    if isinstance(name, str):
        _check_field(name)
    return _metrics.decorator(name)


@overload
def register_search(name: Registered) -> Registered: ...
@overload
def register_search(name: str | None = None) -> Callable[[Registered], Registered]: ...
def register_search(name: Any = None) -> Any:
    """Registers a `Constraint`, `Penalty` or `Sampler` class for the decode hparam `search`."""
    return _searches.decorator(name)


@overload
def register_callback(name: Registered) -> Registered: ...
@overload
def register_callback(name: str | None = None) -> Callable[[Registered], Registered]: ...
def register_callback(name: Any = None) -> Any:
    """Registers a `Callback` class, whose constructor takes no arguments, for `--callbacks`."""
    return _callbacks.decorator(name)


def problem(name: str) -> "Problem":
    """Builds the problem with this name, which may end in `_rev` and `_copy`.

    Several names, joined by "+", are a mixture: see `data.mixture`.

    Raises:
        UsageError: the name is not registered (the message suggests the closest one), or not that
            of a problem.
    """
    if _JOIN in name:
        mixture: Problem = importlib.import_module(_MIXTURE).of_name(name)
        return mixture
    parsed = ProblemName.parse(name)
    kind = _problems[parsed.base]
    if not hasattr(kind, "write_files"):
        raise UsageError(
            f"problem {name!r}: {quoted(kind)} is not a Problem: derive it from "
            "text_problems.Text2TextProblem or another class of problems"
        )
    return kind(was_reversed=parsed.was_reversed, was_copy=parsed.was_copy)


def problem_name(cls: type) -> str:
    """Returns the name under which a problem class is registered, or else its default name."""
    return next((k for k, v in _problems._entries.items() if v is cls), snake_case(cls.__name__))


def model(name: str) -> "type[Seq2Seq]":
    """Returns the model class with this name.

    Raises:
        UsageError: the name is not registered; the message suggests the closest one.
    """
    require_model(name)
    value = _models[name]
    return _imported(value) if isinstance(value, str) else value


def _imported(target: str) -> Any:
    """Returns what `"module:name"` names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def import_models() -> None:
    """Imports all models and layers: Keras loads no class that it has not met."""
    for name in list_models():
        model(name)
    for target in _variants.items().values():
        _imported(target)


def register_variant_at(name: str, target: str) -> None:
    """Registers `"module:name"` as what few models need; see `variant`."""
    _variants.add(name, target)


def variant(name: str, plain: Any = None) -> Any:
    """Returns what a value of a hparam puts in the place of what most models have.

    A model thus neither imports nor shows what only few of its users need.

    Args:
        name: the place, or "place=value".
        plain: what most models have there: returned unless there is a variant of this name.
    """
    if plain is not None and name not in _variants.items():
        return plain
    return _imported(_variants[name])


def require_model(name: str) -> None:
    """Raises UsageError unless a model with this name is registered; does not import it."""
    if name in _refused_models:
        raise UsageError(_refused_models[name])
    _models[name]


def refuse_model(name: str, message: str) -> None:
    """Makes the choice of a model an error: a user directory defines it with what is not here."""
    _refused_models[name] = message


def hparams(name: str) -> "HParams":
    """Returns a fresh, unfrozen copy of the hparams set with this name.

    Raises:
        UsageError: the name is not registered (the message suggests the closest one), or its
            function returned something else (a forgotten `return`).
    """
    if name in _refused_hparams and name not in list_hparams():
        raise UsageError(_refused_hparams[name])
    function = _hparams[name]
    made = function() if callable(function) else None
    if not hasattr(made, "override"):
        raise UsageError(
            f"hparams set {name!r} ({quoted(function)}) returned {quoted(made)}: its function "
            "needs a `return hparams`"
        )
    return made


def ranged_hparams(name: str) -> "Callable[[RangedHParams], None]":
    """Returns the function of a hparams range with this name.

    Raises:
        UsageError: the name is not registered; the message suggests the closest one.
    """
    return _ranged_hparams[name]


def hparams_origin(name: str) -> tuple[str, str]:
    """Returns the first line about a hparams set, and the set that it changes; "" if none."""
    hparams(name)
    about = inspect.getdoc(_hparams[name]) or ""
    return about.partition("\n")[0], _parents.get(name, "")


def refuse_hparams(name: str, message: str) -> None:
    """Makes the choice of a hparams set of T2T an error, unless a user registers one."""
    _refused_hparams[name] = message


def list_refused_hparams() -> list[str]:
    """Returns the names of T2T's hparams sets that are not available."""
    list_hparams()
    return sorted(_refused_hparams)


def metric(name: str) -> "Metric":
    """Builds the metric with this name; the metric itself interprets any text after a colon.

    Raises:
        UsageError: the name is not registered (the message suggests the closest one), or lacks a
            required text after a colon.
    """
    return _metrics[name.partition(":")[0]](name)


def metrics() -> "dict[str, type[Metric]]":
    """Returns the classes of all metrics by name, in the order of registration."""
    return _metrics.items()


def search_part(name: str) -> "type[SearchPart]":
    """Returns the class of a search part with this name.

    Raises:
        UsageError: the name is not registered (the message suggests the closest one), or not that
            of a search part.
    """
    kind = _searches[name]
    if not hasattr(kind, "from_hparams"):
        raise UsageError(
            f"search part {name!r}: {quoted(kind)} is not a class derived from t2t_lite's "
            "Constraint, Penalty or Sampler"
        )
    return kind


def callback(name: str) -> "type[Callback]":
    """Returns the class of a callback with this name.

    Raises:
        UsageError: the name is not registered (the message suggests the closest one), or not that
            of a callback.
    """
    kind = _callbacks[name]
    if not hasattr(kind, "evaluation"):
        raise UsageError(
            f"callback {name!r}: {quoted(kind)} is not a class derived from t2t_lite.Callback"
        )
    return kind


def list_problems() -> list[str]:
    """Returns the names of all problems, without `_rev` and `_copy`."""
    return _problems.names()


def list_models() -> list[str]:
    """Returns the names of all models."""
    return _models.names()


def list_hparams() -> list[str]:
    """Returns the names of all hparams sets."""
    return _hparams.names()


def list_ranged_hparams() -> list[str]:
    """Returns the names of all hparams ranges."""
    return _ranged_hparams.names()


def list_metrics() -> list[str]:
    """Returns the names of all metrics, without any text after a colon."""
    return _metrics.names()


def contents() -> dict[str, list[str]]:
    """Returns the names of all that is registered, sorted, by the title of their kind."""
    return {
        "Problems": list_problems(),
        "Models": list_models(),
        "HParams": list_hparams(),
        "RangedHParams": list_ranged_hparams(),
        "Metrics": list_metrics(),
        "Search parts": _searches.names(),
        "Callbacks": _callbacks.names(),
    }


def list_refused_models() -> list[str]:
    """Returns the names of a user directory's models of T2T, which do not run here."""
    return sorted(_refused_models)
