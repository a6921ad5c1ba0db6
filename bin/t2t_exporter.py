"""t2t-exporter: exports a trained model for other programs."""

import pathlib
import types

from t2t_lite.bin.command import Command, checkpoint_name
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import RUN_FLAGS, Flag
from t2t_lite.errors import UsageError
from t2t_lite.interop.export.formats import FORMATS, Wanted
from t2t_lite.search.decode_hparams import DecodeHParams

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
                "Folder of exports (default: export in the run folder). Version N of a format is "
                "written to a folder of its own, such as keras/N or argos/N; of a SavedModel, to "
                "translate/N (text to text) and ids/N, for TensorFlow Serving.",
            ),
            Flag(
                "format",
                str,
                next(iter(FORMATS)),
                "Format to write.",
                choices=(*FORMATS,),
            ),
            Flag(
                "decode_hparams",
                str,
                "",
                "Changes to the problem's search settings: NAME=VALUE,... (t2t-decoder --help). A "
                "SavedModel searches with these settings, and returns all hypotheses with "
                "return_beams=true. The README.md for CTranslate2 shows them. The folders for "
                "Marian and Hugging Face hold the settings that these programs know. Argos "
                "Translate takes only source_language and target_language; Bergamot's engine takes "
                "only shortlist.",
                listed=True,
            ),
            Flag(
                "quantization",
                str,
                "float32",
                "Type of the stored weights, for CTranslate2 and Argos Translate.",
                choices=("float32", "float16", "bfloat16", "int8"),
            ),
            Flag(
                "from_code",
                str,
                "",
                "Code of the source's language, for Argos Translate and Bergamot's engine "
                "(default: the code in the problem's name, such as en in translate_ende_wmt32k).",
            ),
            Flag(
                "to_code",
                str,
                "",
                "Code of the target's language (default: the code in the problem's name).",
            ),
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
        import tensorflow  # noqa: F401 -- the module of each format does

        from t2t_lite.runs.checkpoint_names import named_model
    run, checkpoint = named_model(checkpoint_name(args), args.output_dir)
    wanted = Wanted(
        run,
        checkpoint,
        args.export_dir or str(run.folder / "export"),
        DecodeHParams.of(run, args.decode_hparams),
        args.quantization,
        (args.from_code, args.to_code),
        args.dev_file,
    )
    FORMATS[args.format].export(wanted)


def _check(args: types.SimpleNamespace) -> None:
    """Raises UsageError if a flag is missing or has no effect on this format."""
    COMMAND.require_run(args)
    DecodeHParams().override(args.decode_hparams)
    for name in sorted(set().union(*(known.flags for known in FORMATS.values()))):
        is_set = getattr(args, name) != COMMAND.flags[name].default
        if is_set and name not in FORMATS[args.format].flags:
            having = [other for other, known in FORMATS.items() if name in known.flags]
            raise UsageError(
                f"--{name} has no effect on --format={args.format}, only on {', '.join(having)}"
            )


if __name__ == "__main__":
    main()
