"""The formats that t2t-exporter writes, a row each.

A row imports the module of its format when it writes, since `--help` reads this table, too.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from t2t_lite.runs.run_folder import RunFolder
    from t2t_lite.search.decode_hparams import DecodeHParams


class Wanted(NamedTuple):
    """What is to be exported, and the values of t2t-exporter's flags.

    Attributes:
        run: an opened run folder.
        checkpoint: prefix of a checkpoint; None: the newest.
        export_dir: the parent of all exports.
        hparams: the search, from `--decode_hparams`.
        quantization: how weights are stored, one of `ctranslate2_model.QUANTIZATIONS`.
        codes: of the source's and the target's language; "": the problem's.
        dev_file: sources, one per line; "": the dev split.
    """

    run: "RunFolder"
    checkpoint: str | None
    export_dir: str
    hparams: "DecodeHParams"
    quantization: str
    codes: tuple[str, str]
    dev_file: str


class Format(NamedTuple):
    """A format.

    Attributes:
        export: writes a new version, whole or not at all.
        flags: those that have an effect on it.
    """

    export: Callable[[Wanted], None]
    flags: frozenset[str]


def _saved_model(wanted: Wanted) -> None:
    from t2t_lite.interop.export import saved_model

    saved_model.export(wanted.run, wanted.checkpoint, wanted.export_dir, wanted.hparams)


def _keras(wanted: Wanted) -> None:
    from t2t_lite.interop.export import keras_archive

    keras_archive.export(wanted.run, wanted.checkpoint, wanted.export_dir)


def _ctranslate2(wanted: Wanted) -> None:
    from t2t_lite.interop.export import ctranslate2, folder

    with folder.new_folder(wanted.export_dir, "ctranslate2") as version:
        ctranslate2.export(
            wanted.run, wanted.checkpoint, str(version), wanted.quantization, wanted.hparams
        )


def _argos(wanted: Wanted) -> None:
    from t2t_lite.interop.export import argos

    languages = argos.languages_of(wanted.run, *wanted.codes)
    argos.export(
        *(wanted.run, wanted.checkpoint, wanted.export_dir),
        *(wanted.quantization, languages, wanted.hparams),
    )


def _firefox(wanted: Wanted) -> None:
    from t2t_lite.interop.export import firefox

    firefox.export(
        *(wanted.run, wanted.checkpoint, wanted.export_dir, wanted.hparams),
        *(wanted.codes, wanted.dev_file),
    )


def _marian(wanted: Wanted) -> None:
    from t2t_lite.interop.export import marian

    marian.export(wanted.run, wanted.checkpoint, wanted.export_dir, wanted.hparams)


def _hugging_face(wanted: Wanted) -> None:
    from t2t_lite.interop.export import hugging_face

    hugging_face.export(wanted.run, wanted.checkpoint, wanted.export_dir, wanted.hparams)


_SEARCH = "decode_hparams"
FORMATS: Mapping[str, Format] = {
    "savedmodel": Format(_saved_model, frozenset({_SEARCH})),
    "keras": Format(_keras, frozenset()),
    "ctranslate2": Format(_ctranslate2, frozenset({_SEARCH, "quantization"})),
    "argos": Format(_argos, frozenset({_SEARCH, "quantization", "from_code", "to_code"})),
    "firefox": Format(_firefox, frozenset({_SEARCH, "from_code", "to_code", "dev_file"})),
    "marian": Format(_marian, frozenset({_SEARCH})),
    "huggingface": Format(_hugging_face, frozenset({_SEARCH})),
}
