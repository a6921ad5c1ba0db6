"""t2t-import: converts a model of Marian, Hugging Face or tensor2tensor to a run folder."""

import pathlib
import types
from collections.abc import Iterable

from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import Flag
from t2t_lite.errors import UsageError
from t2t_lite.interop.imports import HUGGING_FACE, MARIAN, T2T

_OF_T2T = ("data_dir", "problem", "hparams_set", "hparams", "target_space_id")
_LANGUAGES = ("source_language", "target_language")
# The flags that a model of each kind has no use for.
_USELESS = {
    MARIAN: _OF_T2T,
    HUGGING_FACE: (*_OF_T2T, "checkpoint_path"),
    T2T: _LANGUAGES,
}

COMMAND = Command(
    "t2t-import",
    "converts a model of Marian (OPUS-MT, Bergamot), of Hugging Face (MarianMT, M2M100,\n"
    "NLLB-200) or of tensor2tensor 1.x to a run folder for t2t-decoder, t2t-serve, t2t-eval,\n"
    "t2t-exporter and --warm_start_from. Training cannot resume from it.",
    [
        "t2t-import --model_dir=opus-mt-en-de --output_dir=runs/opus --verify=opus.test.txt",
        "t2t-import --model_dir=nllb-200-distilled-600M --output_dir=runs/nllb \\\n"
        "      --source_language=eng_Latn --target_language=deu_Latn",
        "t2t-import --model_dir=t2t_train/base --data_dir=t2t_data --output_dir=runs/base",
        "t2t-decoder --output_dir=runs/base --decode_from_file=in.en --decode_to_file=out.de",
    ],
    {
        "The model": (
            Flag(
                "model_dir",
                pathlib.Path,
                "",
                "Folder of the model, as downloaded or trained; or Marian's .npz or .bin.",
            ),
            Flag(
                "from",
                str,
                "",
                "Toolkit that made the model (default: guessed from its files).",
                choices=tuple(_USELESS),
            ),
            Flag(
                "checkpoint_path",
                pathlib.Path,
                "",
                "The model, if --model_dir has several, by its name there or its path: Marian's "
                ".npz or .bin, or tensor2tensor's checkpoint without .index (default: its newest).",
            ),
        ),
        "Output": (
            Flag("output_dir", pathlib.Path, "", "Run folder to create. Must be new or empty."),
            Flag(
                "verify",
                pathlib.Path,
                "",
                "Lines of source, tab and expected output, or a test set as OPUS-MT publishes it "
                "with a model (.test.txt): decodes the sources, and prints how many outputs are as "
                "expected, and BLEU against the expected ones. The exit code is 1 if fewer than "
                "98 % are; test sets made by another release of Marian may differ in more. For a "
                "model in 8 bits, whose activations are not rounded here, it is enough that BLEU "
                "reaches 80. "
                "Without --model_dir, for an existing --output_dir.",
            ),
        ),
        "Models of several languages": (
            Flag(
                "source_language",
                str,
                "",
                "Default language of the sources, by the model's code for it.",
            ),
            Flag(
                "target_language",
                str,
                "",
                "Default language of the outputs; decode hparams of these names override both.",
            ),
        ),
        "tensor2tensor's models only": (
            Flag(
                "data_dir",
                pathlib.Path,
                "",
                "The --data_dir of tensor2tensor, with the vocabulary.",
            ),
            Flag("problem", str, "", "Name of the problem; overrides flags.txt."),
            Flag(
                "hparams_set",
                str,
                "",
                "Name of the hyperparameter set; overrides hparams.json and flags.txt.",
            ),
            Flag("hparams", str, "", "Changes to the hyperparameters: NAME=VALUE,...", listed=True),
            Flag(
                "target_space_id",
                int,
                None,
                "Target space ID of the problem (default: that of tensor2tensor 1.15; older "
                "releases have others).",
                minimum=0,
            ),
        ),
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    if not args.verify:
        COMMAND.require(args, "model_dir")
    COMMAND.require(args, "output_dir")
    if not args.model_dir:
        _refuse(
            args,
            ("from", "checkpoint_path", *_LANGUAGES, *_OF_T2T),
            "is only for an import: add --model_dir, or leave it out",
        )
    if args.verify:
        with quiet_import():
            from t2t_lite.interop.imports import verification
        # Before an import, which may take minutes.
        pairs = verification.read_pairs(pathlib.Path(args.verify))
    if args.model_dir:
        _import(args)
    if args.verify:
        found = verification.verify(args.output_dir, pairs)
        print(found.report)
        found.require_equal()


def _refuse(args: types.SimpleNamespace, names: Iterable[str], reason: str) -> None:
    for name in names:
        if getattr(args, name) not in ("", None):
            raise UsageError(f"--{name} {reason}")


def _import(args: types.SimpleNamespace) -> None:
    with quiet_import():
        from t2t_lite.interop.imports import open_models, t2t_checkpoint
    given = getattr(args, "from")
    kind = given or open_models.kind_of(args.model_dir)
    _refuse(args, _USELESS[kind], f"is not for a model of {kind}: leave it out")
    if kind != T2T:
        open_models.import_run(
            args.model_dir,
            args.output_dir,
            kind=kind,
            checkpoint_path=args.checkpoint_path,
            source_language=args.source_language,
            target_language=args.target_language,
        )
        return
    if not given and not args.data_dir:
        raise UsageError(
            f"{args.model_dir} has no model of Marian (.npz, .bin) or Hugging Face (config.json): "
            "correct --model_dir, or add --data_dir for a model of tensor2tensor"
        )
    COMMAND.require(args, "data_dir")
    t2t_checkpoint.import_run(
        args.model_dir,
        args.data_dir,
        args.output_dir,
        checkpoint_path=args.checkpoint_path,
        problem=args.problem,
        hparams_set=args.hparams_set,
        hparams=args.hparams,
        target_space_id=args.target_space_id,
    )


if __name__ == "__main__":
    main()
