"""A name of T2T's that is not here, in whatever a user's function does with it."""

import sys

import pytest

from support.usr_dirs import import_usr_dir
from t2t_lite import user_imports
from t2t_lite.errors import UsageError

_USES = {
    "addition": "NAME + '.txt'",
    "addition_from_the_right": "'x/' + NAME",
    "item": "NAME['qa1']",
    "path": "os.path.join('folder', NAME)",
    "open_file": "open(NAME)",
    "iteration": "[line for line in NAME]",
    "unpacking": "dict(**{'a': 1}, b=[*NAME])",
    "length": "len(NAME)",
    "membership": "'qa1' in NAME",
    "equality": "NAME == 'qa1'",
    "equality_from_the_right": "'qa1' == NAME",
    "inequality": "NAME != 3",
    "order": "NAME < 3",
    "formatting_by_percent": "'%s.txt' % NAME",
    "number_by_percent": "'%d' % NAME",
    "formatting": "'{}'.format(NAME)",
    "f_string": "f'{NAME:>9}'",
    "text": "str(NAME)",
    "truth": "1 if NAME else 2",
    "negation": "not NAME",
    "range": "list(range(NAME))",
    "number": "int(NAME)",
    "times": "3 * NAME",
    "remainder": "NAME % 3",
    "sign": "-NAME",
    "item_assignment": "NAME.__class__.__setitem__(NAME, 0, 1)",
    "call": "NAME(1)",
    "attribute_then_call": "NAME.lower()",
}
_MODULE = """
import os
from tensor2tensor.data_generators import babi_qa

NAME = babi_qa._TASKS
PATH = NAME['x'] + '/y' if NAME else ''
SAME = NAME == 'qa1'
TEXT = 'of %s' % NAME
NAME['mine'] = 1
OF_TABLE = {key: value for key, value in NAME.items() if key in NAME}
"""


@pytest.fixture
def users(upstream, tmp_path):
    """A user's module with a function for each use."""
    functions = [f"def use_{name}():\n    return {use}\n" for name, use in _USES.items()]
    import_usr_dir(tmp_path / "usr_uses", "from . import uses", uses=_MODULE + "".join(functions))
    return sys.modules["usr_uses.uses"]


@pytest.mark.parametrize("name", _USES)
def test_every_use_is_one_error_that_names_place_and_remedy(users, name):
    with pytest.raises(UsageError) as raised:
        getattr(users, f"use_{name}")()
    message = str(raised.value)
    assert message.startswith("tensor2tensor.data_generators.babi_qa._TASKS")
    assert "is not available in t2t_lite; instead: copy the module into" in message
    line = _MODULE.count("\n") + 2 * (1 + [*_USES].index(name))
    assert f"uses.py, line {line})" in message


def test_while_a_module_is_imported_constants_can_be_made_of_it(users):
    """T2T's user directories do so at the top of their modules, and may never use them."""
    assert repr(users.PATH) == "tensor2tensor.data_generators.babi_qa._TASKS"
    assert (users.SAME, users.TEXT) == (False, "of tensor2tensor.data_generators.babi_qa._TASKS")
    assert users.OF_TABLE == {}


def test_reports_may_show_it(users):
    """What is not a user's function prints and compares it as any class."""
    assert not user_imports.is_executing()
    assert f"{users.NAME}" == str(users.NAME) == repr(users.NAME)
    assert users.NAME
    assert users.NAME in {users.NAME}
    assert users.NAME.other != users.NAME
