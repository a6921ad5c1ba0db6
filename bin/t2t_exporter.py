"""t2t-exporter: exports a trained model for other programs."""

import pathlib
import types

from t2t_lite.bin.command import RUN_FLAGS, Command, Flag, checkpoint_name
from t2t_lite.bin.console import quiet_import
from t2t_lite.errors import UsageError
from t2t_lite.search.decode_hparams import DecodeHParams

_SAVED_MODEL, _KERAS, _CTRANSLATE2, _ARGOS = "savedmodel", "keras", "ctranslate2", "argos"
_FIREFOX, _MARIAN, _HUGGING_FACE = "firefox", "marian", "huggingface"
_NOT_QUANTIZED = "float32"

COMMAND = Command(
    "t2t-exporter",
    "exports a trained model as a SavedModel that includes the search, as a Keras\n"
    "model, for CTranslate2, as a package for Argos Translate, for Bergamot's engine, which\n"
    "translates in Firefox, or in the form of Marian or of Hugging Face's transformers. Each\n"
    "export is a new version, with a README.md: a model card with usage, data, licence and\n"
    "scores.",
    [
        "t2t-exporter --output_dir=runs/base --export_dir=exports",
        "t2t-exporter --output_dir=runs/base --checkpoint_path=averaged \\",
        "    --format=ctranslate2 --quantization=int8",
    ],
    {
        "The trained model": (*RUN_FLAGS,),
        "Export": (
            Flag(
                "export_dir",
                pathlib.Path,
                "",
                "Folder of exports (default: export in the run folder). Version N is written to "
                "translate/N (text to text) and ids/N, for TensorFlow Serving; to keras/N; to "
                "ctranslate2/N, argos/N, firefox/N, marian/N or huggingface/N.",
            ),
            Flag(
                "format",
                str,
                _SAVED_MODEL,
                "Format to write.",
                choices=(
                    *(_SAVED_MODEL, _KERAS, _CTRANSLATE2, _ARGOS, _FIREFOX, _MARIAN),
                    _HUGGING_FACE,
                ),
            ),
            Flag(
                "decode_hparams",
                str,
                "",
                "Changes to the problem's search settings, for a SavedModel: NAME=VALUE,... "
                "(t2t-decoder --help). With return_beams=true it returns all hypotheses. "
                "CTranslate2's README.md shows these settings; Marian's and Hugging Face's folders "
                "hold those that these programs have; Argos Translate takes only source_language "
                "and target_language, and Bergamot's engine shortlist.",
            ),
            Flag(
                "quantization",
                str,
                _NOT_QUANTIZED,
                "Type of the stored weights, for CTranslate2 and Argos Translate.",
                choices=(_NOT_QUANTIZED, "float16", "bfloat16", "int8"),
            ),
            Flag(
                "from_code",
                str,
                "",
                "Code of the source's language, for Argos Translate and Bergamot's engine "
                "(default: that in the problem's name, such as en in translate_ende_wmt32k).",
            ),
            Flag("to_code", str, "", "Code of the target's language, likewise."),
            Flag(
                "dev_file",
                pathlib.Path,
                "",
                "Sources, one per line, on which the 8-bit form for Bergamot's engine is measured "
                "(default: the dev split in the run's --data_dir).",
            ),
        ),
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    _check(args)
    with quiet_import():
        from t2t_lite.interop.export import folder, keras_archive, saved_model
        from t2t_lite.runs.checkpoint_names import named_model
    run, checkpoint = named_model(checkpoint_name(args), args.output_dir)
    export_dir = args.export_dir or str(run.folder / "export")
    hparams = DecodeHParams.of(run, args.decode_hparams)
    if args.format == _SAVED_MODEL:
        saved_model.export(run, checkpoint, export_dir, hparams)
    elif args.format == _KERAS:
        keras_archive.export(run, checkpoint, export_dir)
    elif args.format == _ARGOS:
        from t2t_lite.interop.export import argos

        languages = argos.languages_of(run, args.from_code, args.to_code)
        argos.export(run, checkpoint, export_dir, args.quantization, languages, hparams)
    elif args.format == _FIREFOX:
        from t2t_lite.interop.export import firefox

        codes = (args.from_code, args.to_code)
        firefox.export(run, checkpoint, export_dir, hparams, codes, args.dev_file)
    elif args.format == _MARIAN:
        from t2t_lite.interop.export import marian

        marian.export(run, checkpoint, export_dir, hparams)
    elif args.format == _HUGGING_FACE:
        from t2t_lite.interop.export import hugging_face

        hugging_face.export(run, checkpoint, export_dir, hparams)
    else:
        from t2t_lite.interop.export import ctranslate2

        with folder.new_folder(export_dir, _CTRANSLATE2) as version:
            ctranslate2.export(run, checkpoint, str(version), args.quantization, hparams)


def _check(args: types.SimpleNamespace) -> None:
    """Raises UsageError if a flag is missing or has no effect on this format."""
    COMMAND.require_run(args)
    DecodeHParams().override(args.decode_hparams)
    if args.decode_hparams and args.format == _KERAS:
        raise UsageError(f"--decode_hparams: --format={_KERAS} does not contain the search")
    if args.quantization != _NOT_QUANTIZED and args.format not in (_CTRANSLATE2, _ARGOS):
        raise UsageError(f"--quantization needs --format={_CTRANSLATE2} or {_ARGOS}")
    for name in ("from_code", "to_code"):
        if getattr(args, name) and args.format not in (_ARGOS, _FIREFOX):
            raise UsageError(f"--{name} needs --format={_ARGOS} or {_FIREFOX}")
    if args.dev_file and args.format != _FIREFOX:
        raise UsageError(f"--dev_file needs --format={_FIREFOX}")


if __name__ == "__main__":
    main()
