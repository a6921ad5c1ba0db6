"""A trained Transformer as a package for Argos Translate, which LibreTranslate uses, too.

A package (https://github.com/argosopentech/argos-translate) is a zip archive of one folder with
metadata.json, README.md, sentencepiece.model, and the model for CTranslate2 in model/. The program
splits a text into sentences, each of these into pieces by sentencepiece.model, and joins the pieces
of outputs by the same file: pieces that the file does not have are taken as they are.

It puts no token of a language before a sentence, but CTranslate2 can do so: the model's settings
say that each source begins with one. The token of the output's language is its `target_prefix`, and
has the name of a control symbol of sentencepiece.model, so that no text shows it.
"""

import json
import logging
import pathlib
import shutil
import tempfile
from collections.abc import Mapping

import sentencepiece

from t2t_lite import files
from t2t_lite.decoding.ctranslate2_model import Tokens, convert
from t2t_lite.errors import UsageError, UserError, quoted
from t2t_lite.interop.export.exported import README, Exported
from t2t_lite.interop.export.folder import new_folder, require_code
from t2t_lite.interop.export.pieces import language_tokens, sentencepiece_files, tokens_of
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.language_names import english_name
from t2t_lite.text.languages import speaking
from t2t_lite.text.text_encoder import EOS_ID, SPACE, TextEncoder

log = logging.getLogger(__name__)

ARGOS = "argos"

_README = """\
# {from_code} to {to_code}, for Argos Translate

{origin}

    python -c "import argostranslate.package as p; p.install_from_path('{file}')"
    argos-translate --from {from_code} --to {to_code} "A sentence."

Argos Translate computes in the fastest type of the processor, usually 8 bits
(ARGOS_COMPUTE_TYPE=float32 changes this), shows "_" in outputs as a space, and fetches a model that
splits texts into sentences when it first needs one.
"""


def export(
    run: RunFolder,
    checkpoint: str | None,
    export_dir: str,
    quantization: str,
    languages: tuple[str, str],
    hparams: DecodeHParams | None = None,
) -> None:
    """Writes `export_dir/argos/VERSION`, the package and its README.md, whole or not at all.

    Args:
        run: an opened run folder.
        checkpoint: prefix of a checkpoint; None: the newest.
        export_dir: the parent of all exports.
        quantization: how weights are stored, one of `ctranslate2_model.QUANTIZATIONS`.
        languages: codes of the source's and the target's language, as in ISO 639.
        hparams: have the model's own codes of the languages, if it knows several; None: the run's.

    Raises:
        UserError: Argos Translate could not split or join the text of the model, or the model
            knows several languages and none was chosen.
        UsageError: the hparams change the search, which is Argos Translate's own.
    """
    usual = DecodeHParams.of(run)
    search = usual if hparams is None else hparams
    if search.copy(source_language="", target_language="") != usual.copy(
        source_language="", target_language=""
    ):
        raise UsageError(
            "--decode_hparams: Argos Translate searches with settings of its own; with "
            "--format=argos, set only source_language and target_language"
        )
    encoders = speaking(run.encoders, search.languages)
    for encoder in encoders.values():
        encoder.start_ids()
    starts = language_tokens(encoders["inputs"])
    if len(starts) > 1:
        raise UsageError(
            f"target_language={search.target_language}: Argos Translate puts one token before a "
            "source: name the language without a tag"
        )
    text = _text_of(run, encoders)
    with new_folder(export_dir, ARGOS) as version, files.whole_folder(version) as folder:
        exported = Exported.load(run, checkpoint)
        tokens, prefix = _tokens(encoders, text)
        spec = convert(exported.model, tokens, quantization)
        for start in starts:
            spec.config.add_source_bos, spec.config.bos_token = True, start
        name = "translate-{}_{}-{}".format(*languages, version.name)
        usage = _README.format(
            from_code=languages[0],
            to_code=languages[1],
            origin=exported.origin,
            file=f"{name}.argosmodel",
        )
        exported.write_card(folder, "argostranslate", usage, languages)
        with tempfile.TemporaryDirectory(dir=folder) as parent:
            package = pathlib.Path(parent, name)
            (package / "model").mkdir(parents=True)
            spec.save(str(package / "model"))
            (package / "sentencepiece.model").write_bytes(text)
            (package / "metadata.json").write_text(_metadata(languages, version.name, prefix))
            shutil.copyfile(folder / README, package / README)
            archive = shutil.make_archive(str(folder / name), "zip", parent, name)
        pathlib.Path(archive).rename(folder / f"{name}.argosmodel")
    log.info("wrote %s", version / f"{name}.argosmodel")


def languages_of(run: RunFolder, from_code: str, to_code: str) -> tuple[str, str]:
    """Returns the codes of source and target: those given, else the problem's.

    Raises:
        UsageError: one is missing, or is not a code.
    """
    named = run.problem.source_language, run.problem.target_language
    codes = from_code or named[0], to_code or named[1]
    for flag, code in zip(("from_code", "to_code"), codes, strict=True):
        if not code:
            raise UsageError(
                f"--{flag} is missing: the name of problem {run.problem.name} does not tell the "
                "languages; give their codes, such as --from_code=en --to_code=de"
            )
        require_code(flag, code)
    return codes


def _metadata(languages: tuple[str, str], version: str, prefix: str) -> str:
    from_code, to_code = languages
    fields = {
        "package_version": f"{version}.0",
        "argos_version": "1.9",
        "from_code": from_code,
        "from_name": english_name(from_code) or from_code,
        "to_code": to_code,
        "to_name": english_name(to_code) or to_code,
        "target_prefix": prefix,
    }
    return json.dumps(fields, indent=1) + "\n"


def _text_of(run: RunFolder, encoders: Mapping[str, TextEncoder]) -> bytes:
    """Returns the SentencePiece model that splits the sources, if it can join all outputs.

    Raises:
        UserError: there is none, or it would join them otherwise than that of the targets.
    """
    for encoder in encoders.values():
        if isinstance(encoder, ImportedEncoder) and encoder.model and not encoder.is_whole:
            added = [*encoder.added_tokens]
            what = f"the token {quoted(added[0])}" if added else "clean_up_tokenization_spaces"
            raise UserError(
                f"{run.problem.name}: Argos Translate splits and joins text by the SentencePiece "
                f"model alone, and this vocabulary has {what} besides; export for CTranslate2 "
                "(--format=ctranslate2)"
            )
    tokens = tokens_of(encoders)
    models = (
        [(run.folder / name).read_bytes() for name in sentencepiece_files(run)] if tokens else []
    )
    if tokens is None or not all(models):  # an empty file: pieces are words
        raise UserError(
            f"{run.problem.name}: Argos Translate needs a SentencePiece vocabulary; export for "
            "CTranslate2 (--format=ctranslate2)"
        )
    own, other = (sentencepiece.SentencePieceProcessor(model_proto=model) for model in models)
    if not own.encode("x", out_type=str)[0].startswith(SPACE):
        log.warning(
            "Argos Translate will join the sentences of a paragraph without spaces: in the "
            "vocabulary of %s, none begins with one",
            run.problem.name,
        )
    special = encoders["targets"].special_ids
    for id_, piece in enumerate(tokens.targets):
        if id_ > EOS_ID and id_ not in special and _shown(own, piece) != _shown(other, piece):
            raise UserError(
                f"{run.problem.name}: Argos Translate joins outputs by the SentencePiece model of "
                f"the sources, which takes the targets' piece {quoted(piece)} for other text; "
                "export for CTranslate2 (--format=ctranslate2)"
            )
    return models[0]


def _shown(model: sentencepiece.SentencePieceProcessor, piece: str) -> list[str]:
    """Returns what Argos Translate shows for a piece, at the start and after another one."""
    joined = (model.decode_pieces(pieces) for pieces in ([piece], ["x", piece]))
    return [text.replace(SPACE, " ").replace("_", " ").removeprefix(" ") for text in joined]


def _tokens(encoders: Mapping[str, TextEncoder], text: bytes) -> tuple[Tokens, str]:
    """Returns the names of the ids, and the prefix of outputs, "" if there is none.

    Raises:
        UserError: sentencepiece.model has no control symbol to name the prefix.
    """
    tokens = tokens_of(encoders)
    assert tokens is not None
    languages = language_tokens(encoders["targets"])
    if not languages:
        return tokens, ""
    (language,) = languages
    model = sentencepiece.SentencePieceProcessor(model_proto=text)
    symbols = [model.id_to_piece(i) for i in range(len(model)) if model.is_control(i)]
    name = next((symbol for symbol in symbols if symbol != tokens.targets[EOS_ID]), "")
    if not name:
        raise UserError(
            f"Argos Translate would show {language!r}, the token of the target's language, since "
            "the SentencePiece model has no control symbol; export for CTranslate2 "
            "(--format=ctranslate2)"
        )
    exchanged = {language: name, name: language}
    targets = [exchanged.get(token, token) for token in tokens.targets]
    return tokens._replace(targets=targets), name
