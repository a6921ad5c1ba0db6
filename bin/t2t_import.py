"""t2t-import: converts a model trained by tensor2tensor to a run folder."""

import pathlib
import types

from t2t_lite.bin.command import Command, Flag
from t2t_lite.bin.console import quiet_import

COMMAND = Command(
    "t2t-import",
    "converts a Transformer, language model or classifier of tensor2tensor 1.x\n"
    "to a run folder for t2t-decoder, t2t-eval, averaging and --warm_start_from. Training cannot\n"
    "resume from it.",
    [
        "t2t-import --model_dir=t2t_train/base --data_dir=t2t_data --output_dir=runs/base",
        "t2t-decoder --output_dir=runs/base --decode_from_file=in.en --decode_to_file=out.de",
    ],
    {
        "tensor2tensor's files": (
            Flag(
                "model_dir",
                pathlib.Path,
                "",
                "The --output_dir of tensor2tensor: checkpoints, and hparams.json or flags.txt.",
            ),
            Flag(
                "data_dir",
                pathlib.Path,
                "",
                "The --data_dir of tensor2tensor, with the vocabulary.",
            ),
            Flag(
                "checkpoint_path",
                pathlib.Path,
                "",
                "Checkpoint to convert, without .index (default: the newest in --model_dir).",
            ),
        ),
        "Output": (
            Flag("output_dir", pathlib.Path, "", "Run folder to create. Must be new or empty."),
        ),
        "Settings missing from --model_dir": (
            Flag("problem", str, "", "Name of the problem; overrides flags.txt."),
            Flag(
                "hparams_set",
                str,
                "",
                "Name of the hyperparameter set; overrides hparams.json and flags.txt.",
            ),
            Flag("hparams", str, "", "Changes to the hyperparameters: NAME=VALUE,..."),
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
    COMMAND.require(args, "model_dir", "data_dir", "output_dir")
    with quiet_import():
        from t2t_lite.imports import checkpoint as t2t_checkpoint
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
