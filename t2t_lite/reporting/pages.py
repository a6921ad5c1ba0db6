"""HTML pages from templates that stand beside the modules that fill them in."""

import importlib.resources
from typing import Any


def render(name: str, **values: Any) -> str:
    """Fills in a template; every value is escaped, unless the template says that it is safe.

    Args:
        name: of the template, from the folder of this package: "reporting/report.html".
        **values: what the template names.
    """
    import jinja2  # here, because what lists names and flags does without it

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # as small as possible
    return environment.get_template(name).render(values)


def _source(name: str) -> str:
    return importlib.resources.files("t2t_lite").joinpath(name).read_text(encoding="utf-8")
