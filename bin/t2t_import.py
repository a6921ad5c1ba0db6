"""t2t-import: makes a run folder of what tensor2tensor itself has trained."""

import pathlib
import types
from collections.abc import Sequence

from t2t_lite.bin.command import REGISTRY_FLAGS, Command, Flag, quiet_import

COMMAND = Command(
    "t2t-import",
    "makes a run folder of a Transformer that tensor2tensor 1.x has trained.\n"
    "It is for t2t-decoder, t2t-eval, averages and --warm_start_from; training cannot go on in it.",
    [
        "t2t-import --t2t_dir=t2t_train/base --vocab_dir=t2t_data --output_dir=runs/base",
        "t2t-decoder --output_dir=runs/base --decode_from_file=in.en --decode_to_file=out.de",
    ],
    {
        "What tensor2tensor left": (
            Flag(
                "t2t_dir",
                pathlib.Path,
                "",
                "Its --output_dir: checkpoints, and hparams.json or flags.txt.",
            ),
            Flag("vocab_dir", pathlib.Path, "", "Its --data_dir: there the vocabulary is."),
            Flag(
                "checkpoint_path",
                pathlib.Path,
                "",
                "The checkpoint to take, without .index; the newest in --t2t_dir if not given.",
            ),
        ),
        "What comes of it": (
            Flag("output_dir", pathlib.Path, "", "Run folder to make. Must be new or empty."),
        ),
        "Where its folder does not tell": (
            Flag("problem", str, "", "Name of the problem; goes before that in flags.txt."),
            Flag(
                "hparams_set",
                str,
                "",
                "Name of the hyperparameter set; goes before hparams.json and flags.txt.",
            ),
            Flag("hparams", str, "", "Changes to the hyperparameters: name=value,..."),
            Flag(
                "target_space_id",
                int,
                0,
                "That of its problem: 0 for the text problems of tensor2tensor 1.15, but problems "
                "of older releases and your own may have set another.",
                minimum=0,
            ),
            *REGISTRY_FLAGS,
        ),
    },
)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command and exits."""
    COMMAND.run(_run, argv)


def _run(args: types.SimpleNamespace) -> None:
    COMMAND.require(args, "t2t_dir", "vocab_dir", "output_dir")
    with quiet_import():
        from t2t_lite.export import t2t_checkpoint
    t2t_checkpoint.import_run(
        args.t2t_dir,
        args.vocab_dir,
        args.output_dir,
        checkpoint_path=args.checkpoint_path,
        problem=args.problem,
        hparams_set=args.hparams_set,
        hparams=args.hparams,
        target_space_id=args.target_space_id,
    )


if __name__ == "__main__":
    main()
