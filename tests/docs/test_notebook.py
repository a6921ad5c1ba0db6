"""The notebook does what it says; training is cut to a few steps."""

import ast
import json
import re
import sys
import types

import numpy as np
import pytest

from support.open_model_files import marian_folder
from support.pages import ROOT, run_here

_PATH = ROOT / "docs" / "hello_t2t.ipynb"
_ONE_LAYER = "num_encoder_layers=1,num_decoder_layers=1"


def _cells(kind: str) -> list[str]:
    cells = json.loads(_PATH.read_text("utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def _value(code: str, names: dict[str, object]) -> object:
    """Runs a cell as Jupyter does: lines after `!` are the shell's. Returns what it would show."""
    names["shell"] = run_here
    lines = [
        f"shell(f{line[1:]!r})" if line.startswith("!") else line for line in code.splitlines()
    ]
    tree = ast.parse("\n".join(lines))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(_PATH), "exec"), names)
    return last and eval(compile(ast.Expression(last.value), str(_PATH), "eval"), names)


@pytest.mark.integration
def test_every_cell_runs(few_sentences, eagerly, tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.home", lambda: tmp_path)
    shown = types.SimpleNamespace(HTML=str)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(display=shown))
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    changes = {
        "train_steps=2000": f'train_steps=2, schedule="train", hparams="{_ONE_LAYER}"',
        '"word_error_rate"]': '"word_error_rate"], beam_size=1, extra_length=1',
        'translator("newest")': 'translator("newest", beam_size=1, extra_length=1)',
    }
    names: dict[str, object] = {"__name__": "notebook"}
    first, *cells = _cells("code")
    _value(first, names)
    marian_folder(tmp_path / "hello_t2t" / "opus-mt-en-de")
    values = []
    for code in cells:
        for old in [old for old in changes if old in code]:
            code = code.replace(old, changes.pop(old))
        values.append(_value(code, names))
    assert not changes, "all of them were found"
    _, translations, page, *_, scores, translation = values
    assert len(translations) == 2
    assert all(translations)
    assert page.startswith("<!DOCTYPE html>")
    assert names["best"].attention.shape == (
        len(names["best"].tokens),
        len(names["best"].source_tokens),
    )
    assert np.isfinite([scores["bleu"], scores["word_error_rate"]]).all()
    assert isinstance(translation, str)


def test_it_holds_no_outputs_and_its_links_exist():
    cells = json.loads(_PATH.read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    for page in re.findall(r"\]\(([\w-]+\.md)", "".join(_cells("markdown"))):
        assert (_PATH.parent / page).is_file()
