"""Ids and texts equal those of transformers' tokenizers, whose records are in a fixture."""

import csv
import gzip
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from support.texts import write_lines
from t2t_lite.errors import DataError, UserError
from t2t_lite.interop.imports import hugging_face_vocabularies as vocabularies
from t2t_lite.interop.imports.hugging_face_tokens import read_tokenizer
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.languages import Languages, speaking

_LAYOUTS = ("marian", "m2m100", "nllb")
_FIXTURE = pathlib.Path(__file__).parents[2] / "fixtures" / "tokenizers"
_MAKE = pathlib.Path(__file__).parents[2] / "support" / "make_tokenizers.py"
# A Python that has transformers; it need not have this package.
_PYTHON = os.environ.get("TRANSFORMERS_PYTHON", sys.executable)


def _sides(layout, folder, recorded):
    padding, ends, size = recorded["padding"], [recorded["end"]], recorded["size"]
    if layout == "marian":
        tokenizer = read_tokenizer(folder, "marian")
        return vocabularies.marian(folder, tokenizer, [size, size], padding, ends, padding)
    return m2m100(folder, size, padding, ends)


def m2m100(folder, size=1000, padding=1, ends=(2,)):
    tokenizer = read_tokenizer(folder, "m2m_100")
    return vocabularies.m2m100(folder, tokenizer, size, padding, ends, None)


def assert_equal_ids(folder, layout, work):
    """Compares all that is recorded in a folder; writes the vocabulary to the folder `work`."""
    contents = json.loads((folder / "recorded.json").read_text("utf-8"))
    lines, recorded = contents["lines"], contents[layout]
    encoders, orders = {}, {}
    for side, read in zip(
        ("inputs", "targets"), _sides(layout, folder / layout, recorded), strict=True
    ):
        path = work / f"{side}.json"
        read.vocabulary.write(path)
        encoders[side], orders[side] = ImportedEncoder(path), read.order
        assert encoders[side].vocab_size == recorded["size"]
    for code, found in recorded["languages"].items():
        languages = Languages(target=code) if layout == "marian" else Languages(code, code)
        spoken = speaking(encoders, languages)
        for side, name in (("inputs", "sources"), ("targets", "targets")):
            order = orders[side]
            for line, ids in zip(lines, found[name], strict=True):
                encoded = [order[id_] for id_ in [*spoken[side].encode(line), 1]]
                assert encoded == ids, (code, side, line)
        ours = {id_: number for number, id_ in enumerate(orders["targets"])}
        for ids, text in zip(found["targets"], found["texts"], strict=True):
            assert spoken["targets"].decode([ours[id_] for id_ in ids]) == text


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_recorded_ids_and_texts(layout, tmp_path):
    assert_equal_ids(_FIXTURE, layout, tmp_path)


@pytest.mark.parametrize("lists_languages_twice", [False, True])  # as earlier releases did
def test_nllb_as_transformers_saves_it(tmp_path, lists_languages_twice):
    folder = shutil.copytree(_FIXTURE, tmp_path / "copy")
    (folder / "nllb" / "sentencepiece.bpe.model").unlink()
    path = folder / "nllb" / "tokenizer.json"
    contents = json.loads(path.read_text("utf-8"))
    if lists_languages_twice:
        added = {token["content"]: token["id"] for token in contents["added_tokens"]}
        contents["model"]["vocab"].update(added)
    path.write_text(json.dumps(contents))
    assert_equal_ids(folder, "nllb", tmp_path)


def test_a_legacy_order_of_special_tokens_is_refused(tmp_path):
    folder = shutil.copytree(_FIXTURE / "nllb", tmp_path / "nllb")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({"legacy_behaviour": False}))
    m2m100(folder)
    path.write_text(json.dumps({"legacy_behaviour": True}))
    with pytest.raises(UserError, match=r"config\.json: legacy_behaviour=True has no counterpart"):
        m2m100(folder)


def _added(ids):
    return [{"id": id_, "content": piece} for piece, id_ in ids.items()]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda file: file["model"].update(type="Unigram"), "it is not of NLLB"),
        (lambda file: file["model"]["vocab"].pop("<pad>"), "it is not of NLLB"),
        (lambda file: file["model"].update(vocab={}), "it is not of NLLB"),
        (
            lambda file: file.update(added_tokens=_added(file["model"]["vocab"])),
            "it is not of NLLB",
        ),
        (lambda file: file.pop("model"), "'model'"),
        (lambda file: file["model"].update(merges=5), "not iterable"),
        (lambda file: file["model"].update(vocab={"a": 1, "b": "c"}), "not supported"),
        (lambda file: file.update(normalizer={"normalizers": [{"type": "NFC"}]}), "charsmap"),
    ],
)
def test_other_kinds_of_tokenizers_are_refused(tmp_path, change, reason):
    folder = shutil.copytree(_FIXTURE / "nllb", tmp_path / "nllb")
    (folder / "sentencepiece.bpe.model").unlink()
    path = folder / "tokenizer.json"
    contents = json.loads(path.read_text("utf-8"))
    change(contents)
    path.write_text(json.dumps(contents))
    with pytest.raises(DataError, match=rf"{reason}.*; add sentencepiece\.bpe\.model") as error:
        m2m100(folder)
    assert "\n" not in str(error.value)


def test_a_text_may_name_the_language_of_its_translation(tmp_path):
    contents = json.loads((_FIXTURE / "recorded.json").read_text("utf-8"))
    source, _ = _sides("marian", _FIXTURE / "marian", contents["marian"])
    source.vocabulary.write(tmp_path / "source.json")
    encoder = ImportedEncoder(tmp_path / "source.json")
    for line, ids in zip(
        contents["lines"], contents["marian"]["languages"]["deu"]["sources"], strict=True
    ):
        encoded = encoder.encode(f">>deu<< {line}")
        assert [source.order[id_] for id_ in [*encoded, 1]] == ids


@pytest.fixture(scope="module")
def large(shared_data, tmp_path_factory):
    """Tokenizers trained on real text in five languages, and records of 2,000 lines of each."""
    if subprocess.run([_PYTHON, "-c", "import transformers"], capture_output=True).returncode:
        pytest.skip("needs transformers, or a Python with it in TRANSFORMERS_PYTHON")
    folder = tmp_path_factory.mktemp("tokenizers")
    with gzip.open(shared_data / "libreoffice" / "train.tsv.gz", "rt", encoding="utf-8") as file:
        rows = list(itertools.islice(csv.DictReader(file, delimiter="\t", quoting=3), 8000))
    texts = {code: [row[code].strip() for row in rows] for code in ("en", "de", "fr", "cs", "ja")}
    train = write_lines(folder / "train", itertools.chain(*(t[:6000] for t in texts.values())))
    lines = itertools.chain(*(filter(None, text[6000:6600]) for text in texts.values()))
    lines = write_lines(folder / "lines", lines)
    assert len(lines.read_text("utf-8").splitlines()) > 2000
    command = [_PYTHON, _MAKE, f"--output_dir={folder / 'made'}"]
    subprocess.run([*command, f"--train={train}", f"--lines={lines}"], check=True)
    return folder / "made"


@pytest.mark.slow
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_lines_of_real_text(large, layout, tmp_path):
    assert_equal_ids(large, layout, tmp_path)
