"""t2t-decoder: the outputs of a trained model for a file, a data split, or what is typed."""

import dataclasses
import pathlib
import types
from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.bin.command import (
    CHECKPOINT_PATH,
    OUTPUT_DIR,
    REGISTRY_FLAGS,
    Command,
    Flag,
    quiet_import,
)
from t2t_lite.decoding.config import STANDARD_INPUT, DecoderConfig
from t2t_lite.errors import UsageError
from t2t_lite.search.decode_hparams import DecodeHParams

COMMAND = Command(
    "t2t-decoder",
    "decodes with a trained model: a text file, the problem's dev split, or what you type.\n"
    "The run folder is all that it needs; problem, model and hparams are read from there.",
    [
        "t2t-decoder --output_dir=runs/base --decode_from_file=in.en --decode_to_file=out.de",
        "t2t-decoder --output_dir=runs/base --decode_interactive",
        "t2t-decoder --output_dir=runs/base --checkpoint_path=best --decode_from_file=- < in.en",
    ],
    {
        "The trained model": (
            OUTPUT_DIR,
            dataclasses.replace(
                CHECKPOINT_PATH,
                help=f"{CHECKPOINT_PATH.help} Several, separated by commas, decode together as an "
                "ensemble.",
            ),
            Flag("problem", str, "", "Must agree with the run folder, if given."),
            Flag("model", str, "", "Must agree with the run folder, if given."),
            Flag("hparams_set", str, "", "Must agree with the run folder, if given."),
            Flag("hparams", str, "", "Changes to the run's hyperparameters: name=value,..."),
            *REGISTRY_FLAGS,
        ),
        "What to decode": (
            Flag(
                "decode_from_file",
                pathlib.Path,
                "",
                "Text file, one sentence a line; -: standard input, as it comes, to standard "
                "output.",
            ),
            Flag("decode_interactive", bool, False, "Decode lines as you type them."),
            Flag(
                "score_file",
                pathlib.Path,
                "",
                "Targets to score, one for each line of --decode_from_file; without that, lines of "
                "source, tab and target. --decode_to_file gets their scores, one a line.",
            ),
            Flag(
                "prefix_file",
                pathlib.Path,
                "",
                "For each line of --decode_from_file, what its output must begin with.",
            ),
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
                "output_format",
                str,
                "text",
                "Lines of text, or of JSON with tokens, scores, log-probabilities and attention.",
                choices=("text", "json"),
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
                "return_beams, write_beam_scores, max_input_size, length_penalty=average, "
                "coverage_penalty, min_length, no_repeat_ngram_size and, for parsing, well_formed; "
                "to draw outputs: sampling_method=random,seed=7, with sampling_temp, "
                "sampling_keep_top_k and sampling_keep_top_p.",
            ),
            Flag(
                "long_input",
                str,
                "split",
                "What becomes of lines above max_input_size subwords: split at sentence ends, or "
                "else where it hurts least, and rejoined; or truncated. Trees always are the "
                "latter, and so are examples of a split.",
                choices=("split", "truncate"),
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
        from t2t_lite.decoding import jobs
    jobs.run(config)


def configure(args: types.SimpleNamespace) -> DecoderConfig:
    """Turns the flags into the decoder's configuration, after checking all names in them.

    Raises:
        UsageError: a flag is missing or contradicts another, or a name is unknown.
    """
    COMMAND.require_run(args)
    _check_files(args)
    if args.problem:
        registry.problem(args.problem)
    if args.model:
        registry.require_model(args.model)
    if args.hparams_set:
        registry.hparams(args.hparams_set)
    DecodeHParams().override(args.decode_hparams)
    return DecoderConfig(**{f.name: vars(args)[f.name] for f in dataclasses.fields(DecoderConfig)})


def _check_files(args: types.SimpleNamespace) -> None:
    """Raises UsageError if files are named that do not go together."""
    for name in ("decode_from_file", "score_file"):
        if args.decode_interactive and getattr(args, name):
            raise UsageError(f"--decode_interactive and --{name} exclude each other")
    for name in ("decode_reference", "prefix_file"):
        if getattr(args, name) and not args.decode_from_file:
            raise UsageError(f"--{name} goes with --decode_from_file only")
        if getattr(args, name) and args.score_file:
            raise UsageError(f"--{name} and --score_file exclude each other")
    if args.score_file:
        COMMAND.require(args, "decode_to_file")
    if args.decode_from_file == STANDARD_INPUT:
        for name in ("decode_to_file", "decode_reference"):
            if getattr(args, name):
                raise UsageError(
                    f"--{name} does not go with --decode_from_file=-, whose outputs go to standard "
                    "output; name a file"
                )


if __name__ == "__main__":
    main()
