"""Which plural forms a language has, by the header of gettext's files."""

import gettext
import re

_PLURALS = re.compile(r"Plural-Forms:((?:[^\\]|\\[^n])*)")
_COUNT = re.compile(r"nplurals\s*=\s*([1-9])\s*(?:;|$)", re.ASCII)  # no language has more than six
_FORMULA = re.compile(r"\bplural\s*=([^;]+)")
_NUMBERS = range(1001)  # those that msgfmt tries


def forms_for_one(header: str) -> tuple[list[bool], str]:
    """Returns for each plural form whether it serves the number one alone, and what is wrong.

    The list is empty, if the header does not say how many forms there are.
    """
    field = _PLURALS.search(header)
    count = _COUNT.search(field[1]) if field else None
    if not field or not count:
        return [], (
            "Plural-Forms of the header does not say how many plural forms there are: messages "
            "keep their number of forms, and the first one is the singular's"
        )
    numbers: list[set[int]] = [set() for _ in range(int(count[1]))]
    formula = _FORMULA.search(field[1])
    try:
        form_of = gettext.c2py(formula[1] if formula else "")
        for number in _NUMBERS:
            numbers[form_of(number)].add(number)
    except (ValueError, ArithmeticError, IndexError) as error:
        return [form == 0 < len(numbers) - 1 for form in range(len(numbers))], (
            f"Plural-Forms of the header does not give a valid formula for {count[1]} forms "
            f"({error}): the first form is the singular's"
        )
    return [served == {1} for served in numbers], ""
