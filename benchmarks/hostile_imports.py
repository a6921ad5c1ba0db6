"""What `hostile.py` damages: folders of models from other toolkits, which `t2t-import` reads."""

import copy
import json
import pathlib
import random
import resource
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from hostile_damage import damage_file
from hostile_readers import ENGLISH, Reader

from t2t_lite.interop.imports import hugging_face, marian
from t2t_lite.interop.imports import hugging_face_vocabularies as vocabularies
from t2t_lite.interop.imports.hugging_face_tokens import read_tokenizer
from t2t_lite.interop.imports.open_model import OpenModel, Vocabulary
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.imported_encoder import ImportedEncoder

_FIXTURES = pathlib.Path(__file__).parents[1] / "tests" / "fixtures"
_MOST_MEMORY = 1 << 28  # bytes that reading may take beyond what was taken before
_TEXTS = [*ENGLISH, "a <b> c", "  x", ">>deu<< text", "☃", "__de__ </s> <mask>"]

# What stands in a damaged setting's place.
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 10**30, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "\n", "\ud800", "a" * 5000, "../../etc/passwd", "relu", "never"),
    *([], [0], [[]], [[0, 1]], [None], list(range(200)), {}, {"content": "x"}, {"0": "x"}),
)
_KEYS = (
    *("forced_eos_token_id", "eos_token_id", "min_length", "max_new_tokens", "early_stopping"),
    *("bad_words_ids", "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"),
    *("tokenizer_class", "auto_map", "language_codes", "clean_up_tokenization_spaces", "shortlist"),
    *("tie_word_embeddings", "decoder_vocab_size", "adapters", "mask_token", "eos_token", "new"),
)
_NAMES = (
    *("added_tokens.json", "special_tokens_map.json", "generation_config.json", "tokenizer.json"),
    *("adapter_config.json", "tokenization_small100.py", "model.safetensors.index.json", "x.y"),
)


def copied(*parts: str) -> Callable[[pathlib.Path], None]:
    """Returns a function that copies the files of a fixture."""

    def write(folder: pathlib.Path) -> None:
        for path in _FIXTURES.joinpath(*parts).iterdir():
            if path.is_file():
                shutil.copy(path, folder)

    return write


def damage_model(path: pathlib.Path, draw: random.Random) -> None:
    """Damages the folder of a file: this file, another in its place, or a setting in it."""
    others = sorted(path.parent.iterdir())
    kind = draw.randrange(8)
    if kind == 0:
        path.unlink()
    elif kind == 1:
        path.write_bytes(draw.choice(others).read_bytes())
    elif kind == 2:
        path.write_bytes(path.read_bytes()[: draw.randrange(1 + path.stat().st_size)])
    elif kind == 3:
        name = draw.choice(_NAMES)
        contents = {draw.choice(_KEYS): draw.choice(_VALUES) for _ in range(draw.randrange(3))}
        path.with_name(name).write_text(json.dumps(contents))
    elif kind == 4:
        depth = draw.choice((5, 50, 5000, 500_000))
        path.write_text('{"a": ' + "[" * depth + "]" * depth + "}")
    elif path.suffix == ".json":
        _damage_setting(path, draw)
    else:
        damage_file(path, draw)


def _damage_setting(path: pathlib.Path, draw: random.Random) -> None:
    """Changes, adds or removes settings of a JSON object, at any depth."""
    found = json.loads(path.read_bytes())
    for _ in range(draw.choice((1, 1, 2))):
        inside = found
        while draw.random() < 0.5:
            items = inside.values() if isinstance(inside, dict) else inside
            deeper = [value for value in items if isinstance(value, dict | list) and value]
            if not deeper:
                break
            inside = draw.choice(deeper)
        keys = [*inside] if isinstance(inside, dict) else [*range(len(inside))]
        key = draw.choice(keys) if keys and draw.random() < 0.7 else draw.choice(_KEYS)
        if isinstance(inside, dict) and draw.random() < 0.15:
            inside.pop(key, None)
        elif isinstance(inside, dict) or isinstance(key, int):
            inside[key] = copy.deepcopy(draw.choice(_VALUES))
    path.write_text(json.dumps(found))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def within_memory(read: Callable[[pathlib.Path], None]) -> Callable[[pathlib.Path], None]:
    """Returns `read`, which must not take much more memory than what it reads."""

    def measured(folder: pathlib.Path) -> None:
        before = _peak()
        try:
            read(folder)
        finally:
            taken = _peak() - before
            assert taken < _MOST_MEMORY, f"took {taken:,} bytes"

    return measured


def use_vocabularies(sides: tuple[Vocabulary, Vocabulary]) -> None:
    """Writes the vocabularies of an import, and encodes and decodes with them."""
    with tempfile.TemporaryDirectory() as folder:
        for number, vocabulary in enumerate(sides):
            path = pathlib.Path(folder, f"{number}.json")
            vocabulary.write(path)
            encoder = ImportedEncoder(path)
            for code in [*encoder.languages][:2]:
                encoder = encoder.in_language(code)
            for ids in encoder.encode_lines(_TEXTS):
                assert all(1 < id_ < encoder.vocab_size for id_ in ids), ids
                encoder.decode(ids)
            encoder.decode([*range(encoder.vocab_size)])


def use_model(model: OpenModel) -> None:
    """Does all that an import does with what it has read, but for TensorFlow's part."""
    DecodeHParams().override(model.decode_hparams)
    for part in model.parts:
        for name in part.names:
            assert model.tensors[name].read().shape == part.shape
    use_vocabularies((model.source, model.target))


def read_tokens(folder: pathlib.Path) -> None:
    """Reads the vocabulary of NLLB-200."""
    tokenizer = read_tokenizer(folder, "m2m_100")
    source, target = vocabularies.m2m100(folder, tokenizer, 500, 1, [2], None)
    use_vocabularies((source.vocabulary, target.vocabulary))


def reader(
    write: Callable[[pathlib.Path], None], read: Callable[[pathlib.Path], None], share: float
) -> Reader:
    """Returns a reader of models."""
    return Reader(write, within_memory(read), share=share, damage=damage_model)


READERS: dict[str, Reader] = {
    "import: marian": reader(
        copied("marian_forms", "tied_source"), lambda folder: use_model(marian.read(folder)), 2.0
    ),
    "import: mariannmt": reader(
        copied("hugging_face", "marian_9"), lambda folder: use_model(hugging_face.read(folder)), 3.0
    ),
    "import: m2m100": reader(
        copied("hugging_face", "m2m100_0"), lambda folder: use_model(hugging_face.read(folder)), 3.0
    ),
    "import: nllb": reader(copied("tokenizers", "nllb"), read_tokens, 2.0),
}
