"""The page on Argos Translate and LibreTranslate, with a training of a few steps.

LibreTranslate needs other releases of some packages than the tests, so it is in an environment of
its own, the folder LIBRETRANSLATE: python -m venv FOLDER; FOLDER/bin/pip install libretranslate.
"""

import json
import os
import pathlib
import socket

import pytest

# Argos Translate would download a model that splits texts into sentences; here, a text is one.
_ONE_SENTENCE = """
try:
    from argostranslate import sbd
except ImportError:
    pass
else:
    sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
"""
_PATIENT = "curl --retry 120 --retry-delay 1 --retry-all-errors"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.slow
def test_a_package_is_installed_translates_and_is_served(pages, shell, tmp_path):
    folder = os.environ.get("LIBRETRANSLATE", "")
    if not folder:
        pytest.skip("LIBRETRANSLATE is not set")
    page = pages["argos.md"]
    lines = [f"The invoice of March {i}, 2025 for €{i},250.00 is due." for i in range(300)]
    for language in ("en", "de"):
        (tmp_path / f"your_train.{language}").write_text("\n".join(lines) + "\n", "utf-8")
    for heading in ("Train a model", "Export the package"):
        shell(page.block(heading, "bash").code)

    (tmp_path / "argos").symlink_to(pathlib.Path(folder).absolute())
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(_ONE_SENTENCE, "utf-8")
    there = "export PYTHONPATH=$PWD/site\n"
    assert (
        "pip install -q libretranslate" in page.block("Install it in Argos Translate", "bash").code
    )
    printed = shell(there + page.block("Install it in Argos Translate", "bash", 1).code)
    translation = printed.splitlines()[-1]

    serve, ask = (page.block("Run LibreTranslate", "bash", number).code for number in (0, 1))
    assert "curl -s " in ask
    ask = ask.replace("curl ", f"{_PATIENT} ")
    code = f"{there}trap 'kill %1' EXIT\n{serve.rstrip()} > server.log 2>&1 &\n{ask}"
    answer = json.loads(shell(code.replace("5000", str(free_port()))).splitlines()[-1])
    # LibreTranslate adds the capitals and the full stop of the source.
    found, expected = answer["translatedText"].casefold(), translation.casefold()
    assert found.removesuffix(".") == expected.removesuffix(".")
    assert shell(f"{there}argos/bin/argospm list").split() == ["translate-en_de"]
