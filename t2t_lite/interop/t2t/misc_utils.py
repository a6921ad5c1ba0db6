"""T2T's forms of names."""

from t2t_lite.names import snake_case as camelcase_to_snakecase

__all__ = ["camelcase_to_snakecase", "snakecase_to_camelcase"]


def snakecase_to_camelcase(name: str) -> str:
    """Returns the name of a class for that of what is registered: `my_set` -> `MySet`."""
    return "".join(f"{word[:1].upper()}{word[1:]}" for word in name.split("_"))
