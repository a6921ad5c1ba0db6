"""t2t-decoder: the outputs of a trained model for a file, a data split, or what is typed."""

import dataclasses
import pathlib
import types
from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.bin.command import REGISTRY_FLAGS, Command, Flag, quiet_import
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decode_hparams import DecodeHParams
from t2t_lite.errors import UsageError

COMMAND = Command(
    "t2t-decoder",
    "decodes with a trained model: a text file, the problem's dev split, or what you type.\n"
    "The run folder is all that it needs; problem, model and hparams are read from there.",
    [
        "t2t-decoder --output_dir=runs/base --decode_from_file=in.en --decode_to_file=out.de",
        "t2t-decoder --output_dir=runs/base --decode_interactive",
    ],
    {
        "The trained model": (
            Flag("output_dir", pathlib.Path, "", "Run folder of t2t-trainer."),
            Flag(
                "checkpoint_path",
                pathlib.Path,
                "",
                "The checkpoint to use; the newest in --output_dir if not given.",
            ),
            Flag("problem", str, "", "Must agree with the run folder, if given."),
            Flag("model", str, "", "Must agree with the run folder, if given."),
            Flag("hparams_set", str, "", "Must agree with the run folder, if given."),
            Flag("hparams", str, "", "Changes to the run's hyperparameters: name=value,..."),
            *REGISTRY_FLAGS,
        ),
        "What to decode": (
            Flag("decode_from_file", pathlib.Path, "", "Text file, one sentence a line."),
            Flag("decode_interactive", bool, False, "Decode lines as you type them."),
            Flag(
                "data_dir",
                pathlib.Path,
                "",
                "Folder of t2t-datagen's files, for decoding the dev split (when there is no "
                "file and nothing is typed).",
            ),
            Flag("eval_use_test_set", bool, False, "Decode the test split, not dev."),
        ),
        "Where the outputs go": (
            Flag(
                "decode_to_file",
                pathlib.Path,
                "",
                "File for the outputs, in the order of the inputs; named after them if not given.",
            ),
            Flag(
                "decode_reference",
                pathlib.Path,
                "",
                "The right outputs for --decode_from_file, one a line, for parsing bracketed "
                "trees; BLEU, or the problem's own score, is printed.",
            ),
        ),
        "How": (
            Flag(
                "decode_hparams",
                str,
                "",
                "Search settings, such as beam_size=4,alpha=0.6,extra_length=50; also batch_size, "
                "return_beams, write_beam_scores, max_input_size and, for parsing, well_formed.",
            ),
            Flag("worker_gpu", int, None, "GPUs to use; all if not given, 0: the CPU.", minimum=0),
        ),
    },
)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command and exits."""
    COMMAND.run(_run, argv)


def _run(args: types.SimpleNamespace) -> None:
    config = configure(args)
    with quiet_import():
        from t2t_lite.decoding import decoder
    decoder.run(config)


def configure(args: types.SimpleNamespace) -> DecoderConfig:
    """Turns the flags into the decoder's configuration, after checking all names in them.

    Raises:
        UsageError: a flag is missing or contradicts another, or a name is unknown.
    """
    if not args.checkpoint_path:
        COMMAND.require(args, "output_dir")
    if args.decode_interactive and args.decode_from_file:
        raise UsageError("--decode_interactive and --decode_from_file exclude each other")
    if args.decode_reference and not args.decode_from_file:
        raise UsageError("--decode_reference goes with --decode_from_file only")
    if args.problem:
        registry.problem(args.problem)
    if args.model:
        registry.require_model(args.model)
    if args.hparams_set:
        registry.hparams(args.hparams_set)
    DecodeHParams().override(args.decode_hparams)
    return DecoderConfig(**{f.name: vars(args)[f.name] for f in dataclasses.fields(DecoderConfig)})


if __name__ == "__main__":
    main()
