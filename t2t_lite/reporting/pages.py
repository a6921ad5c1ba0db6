"""HTML pages from templates that stand beside the modules that fill them in."""

import importlib.resources
from typing import Any


def render(package: str, name: str, **values: Any) -> str:
    """Fills in a template; every value is escaped, unless the template says that it is safe.

    Args:
        package: where the template is, by its dotted name.
        name: file name of the template.
        **values: what the template names.
    """
    import jinja2  # here, because what lists names and flags does without it

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}  # as small as possible
    text = importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")
    return environment.from_string(text).render(values)
