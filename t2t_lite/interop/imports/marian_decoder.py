"""Reads the settings of Marian's decoder: the files that they name, and the search."""

import filecmp
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from t2t_lite.errors import DataError, UserError, first_line, quoted
from t2t_lite.interop.imports import safe_files
from t2t_lite.interop.imports.marian_keys import DECODER
from t2t_lite.interop.imports.marian_settings import is_setting
from t2t_lite.search.decode_hparams import DecodeHParams

FILE = "decoder.yml"

# The settings of the search that are read, with Marian's values for those that decoder.yml lacks,
# and OPUS-MT's where a model comes without the file. Outputs have at most max-length-factor times
# the source's subwords, EOS counted.
MARIANS = {"beam-size": "12", "normalize": "0", "word-penalty": "0", "max-length-factor": "3"}
OPUS = {**MARIANS, "beam-size": "6", "normalize": "1"}
# Those of Bergamot's engine, for models in binary form.
BERGAMOTS = {**MARIANS, "beam-size": "1", "max-length-factor": "2"}

# Marian's reader of YAML has several names for each.
_SWITCHES = {
    **dict.fromkeys(("true", "yes", "on", "y"), True),
    **dict.fromkeys(("false", "no", "off", "n"), False),
}


class Decoder(NamedTuple):
    """The settings of Marian's decoder.

    Attributes:
        file: that has them, or may have them.
        folder: of the model, with the files that they name.
        settings: by name.
        is_published: whether the model is published with them.
    """

    file: pathlib.Path
    folder: pathlib.Path
    settings: Mapping[str, Any]
    is_published: bool

    def files(self, key: str) -> list[pathlib.Path]:
        """Returns the files that a setting names; there may be none at these paths.

        Published settings have the folders of another machine: a file is that of the same name in
        the folder of the model.

        Raises:
            UserError: the setting has something else than names, or leads to another file.
        """
        listed = self.settings.get(key) or []
        listed = listed if isinstance(listed, list) else [listed]
        if key == "shortlist":  # numbers and switches follow
            listed = listed[:1]
        found = [self._file(key, name) for name in listed]
        if key == "vocabs":  # a folder may have lost one of two vocabularies of one name
            theirs = {os.path.normpath(os.path.join(self.file.parent, name)) for name in listed}
            absent = [name for name in theirs if not os.path.exists(name)]
            if len(absent) > len({pathlib.PurePath(name).name for name in absent}):
                raise UserError(
                    f"{self.file}: {key} names different files of one name "
                    f"({', '.join(listed)}): give them other names, in {self.folder} and in "
                    f"{self.file.name}"
                )
        return found

    def is_on(self, key: str) -> bool:
        """Returns a switch, which is off if the settings lack it.

        Raises:
            DataError: it has another value than YAML's names of these two.
        """
        value = self.settings.get(key, "false")
        if isinstance(value, str) and value.lower() in _SWITCHES:
            return _SWITCHES[value.lower()]
        raise DataError(f"{self.file}: {key}={quoted(value)}: expected true or false")

    def _file(self, key: str, name: Any) -> pathlib.Path:
        alone = pathlib.PurePath(name).name if isinstance(name, str) else name
        if not safe_files.is_name(alone):
            raise DataError(f"{self.file}: {key} has {quoted(name)}, which is not a file's name")
        here, there = self.folder / alone, os.path.join(self.file.parent, name)
        if here.is_file() and os.path.isfile(there) and not filecmp.cmp(here, there, shallow=False):
            raise UserError(
                f"{self.file}: {key} names {name}, which differs from {here}: copy it there, and "
                f"write {alone}"
            )
        return here


def read_decoder(path: pathlib.Path, folder: pathlib.Path) -> Decoder:
    """Returns the settings with which a model is to be decoded.

    Raises:
        UserError: one is not known, and not off; or none are of this model, but some of one that is
            missing.
    """
    own = (path.with_name(f"{path.name}.{FILE}"), folder / FILE)
    absent = []
    for file in (*own, *sorted(folder.glob("config*.yml"))):
        if not file.is_file():
            continue
        found = safe_files.read_yaml(file)
        if not isinstance(found, dict):
            raise DataError(f"{file}: expected settings by name, got {quoted(found)}")
        decoder = Decoder(file, folder, found, True)
        if file not in own:  # Bergamot's students come with one for each form of the model
            models = decoder.files("models")
            if path.name not in [model.name for model in models]:
                absent += [(file, model) for model in models if not model.is_file()]
                continue
        DECODER.require(
            str(file), {name: value for name, value in found.items() if not is_setting(name)}
        )
        return decoder
    if absent:
        file, model = absent[0]
        raise UserError(
            f"{file} names the model {model.name}, which is missing, and no file has settings of "
            f"{path.name}: copy {model.name} there, correct models, or move {file.name} away"
        )
    return Decoder(own[-1], folder, {}, False)


def decode_hparams(decoder: Decoder, defaults: Mapping[str, str]) -> str:
    """Returns the search with which a model is published; `defaults`: for what it does not say.

    Raises:
        UserError: a setting has no counterpart here, or is damaged.
    """
    read = {name: decoder.settings.get(name, default) for name, default in defaults.items()}
    try:
        if float(read["word-penalty"]):
            raise UserError("word-penalty has no counterpart here: set it to 0")
        if decoder.is_on("skip-cost") and int(read["beam-size"]) != 1:
            raise UserError(
                "skip-cost=true has no counterpart here: it ranks hypotheses without normalised "
                "probabilities; set it to false, or beam-size to 1, with which it has no effect"
            )
        changes = (
            f"beam_size={int(read['beam-size'])},alpha={float(read['normalize']):g},"
            "length_penalty=average,stopping=marian,extra_length=0,"
            f"length_factor={math.ceil(float(read['max-length-factor']))}"
        )
        DecodeHParams().override(changes)
    except (TypeError, ValueError, OverflowError, UserError) as error:
        raise UserError(f"{decoder.file}, settings {read}: {first_line(error)}") from error
    return changes
