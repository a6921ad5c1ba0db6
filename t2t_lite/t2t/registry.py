"""T2T's registrations."""

import functools
import logging
from collections.abc import Callable
from typing import Any

from t2t_lite import registry
from t2t_lite.errors import UsageError, quoted
from t2t_lite.registry import list_hparams, list_models, list_problems, snake_case
from t2t_lite.settings import HParams as Settings
from t2t_lite.t2t.adapter import ProblemAdapter
from t2t_lite.t2t.hparam import HParams
from t2t_lite.t2t.modalities import Modalities

__all__ = [
    "Modalities",
    "default_name",
    "hparams",
    "list_hparams",
    "list_models",
    "list_problems",
    "problem",
    "register_hparams",
    "register_model",
    "register_problem",
    "register_ranged_hparams",
]

log = logging.getLogger(__name__)


def default_name(class_or_fn: Any) -> str:
    """Returns the name under which a class or function is registered by default."""
    return snake_case(class_or_fn.__name__)


def hparams(name: str) -> HParams:
    """Returns the registered set."""
    return HParams.of(registry.hparams(name))


def problem(name: str) -> Any:
    """Returns the problem with this name: the user's object, or this package's."""
    found = registry.problem(name)
    return found.upstream if isinstance(found, ProblemAdapter) else found


def register_problem(name: Any = None) -> Any:
    """Registers a problem class, bare or with a name; a user's replaces this package's own."""

    def register(cls: Any, own: str = "") -> Any:
        chosen = own or default_name(cls)
        _make_room("problem", chosen)
        return registry.register_problem(chosen)(cls)

    return register(name) if callable(name) else functools.partial(register, own=name or "")


def register_hparams(name: Any = None) -> Any:
    """Registers a function that returns `HParams`; a user's replaces this package's own."""

    def register(function: Callable[[], Any], own: str = "") -> Any:
        if not callable(function):
            raise UsageError(f"register_hparams: expected a function, got {quoted(function)}")
        chosen = own or default_name(function)
        _make_room("hparams set", chosen)
        registry.register_hparams(chosen)(_returning_settings(function, chosen))
        return function

    return register(name) if callable(name) else functools.partial(register, own=name or "")


def register_model(name: Any = None) -> Any:
    """Returns the class; choosing its model is an error: T2T's models do not run here."""

    def register(cls: Any, own: str = "") -> Any:
        chosen = own or default_name(cls)
        message = getattr(cls, "message", f"{cls.__module__}.{cls.__name__} is a model of T2T's")
        registry.refuse_model(chosen, f"model {chosen!r} does not run here: {message}")
        return cls

    return register(name) if callable(name) else functools.partial(register, own=name or "")


def register_ranged_hparams(name: Any = None) -> Any:
    """Returns the function: ranges for tuning are not used."""
    return name if callable(name) else lambda function: function


def _make_room(kind: str, name: str) -> None:
    if registry.release(kind, name):
        log.info("%s %s: the user directory's replaces t2t_lite's", kind, name)


def _returning_settings(function: Callable[[], Any], name: str) -> Callable[[], Settings]:
    @functools.wraps(function)
    def made() -> Any:
        returned = function()
        return returned.to_settings(name) if isinstance(returned, HParams) else returned

    return made
