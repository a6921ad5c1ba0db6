"""t2t-decoder: decodes a file, a data split or typed lines with a trained model."""

import types

from t2t_lite import registry
from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import config_flags, from_flags
from t2t_lite.data.problem import split_to_decode
from t2t_lite.decoding.config import JSON, STANDARD_INPUT, TEXT, DecoderConfig
from t2t_lite.decoding.documents.kinds import DOCUMENTS, ending, is_document
from t2t_lite.decoding.request import OF_TRANSLATION
from t2t_lite.decoding.shards import own_files
from t2t_lite.errors import UsageError
from t2t_lite.metrics.by_name import output_metric, split_metrics
from t2t_lite.search.decode_hparams import DecodeHParams

COMMAND = Command(
    "t2t-decoder",
    "decodes a text file, the problem's dev split, or what you type, with a trained model.\n"
    "It needs only the run folder, which names the problem, model and hyperparameters.",
    [
        "t2t-decoder --output_dir=runs/base --decode_from_file=in.en --decode_to_file=out.de",
        "t2t-decoder --output_dir=runs/base --decode_from_file=app.po --decode_to_file=de.po",
        "t2t-decoder --output_dir=runs/base --decode_interactive",
        "t2t-decoder --output_dir=runs/base --checkpoint_path=best --decode_from_file=- < in.en",
    ],
    config_flags(DecoderConfig),
    settings={
        "Search settings for --decode_hparams (a problem may change the defaults)": DecodeHParams
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    config = configure(args)
    if _is_document(args):
        with quiet_import():
            from t2t_lite.decoding.documents import job
        job.run(config)
        return
    with quiet_import():
        from t2t_lite.decoding import jobs
    jobs.run(config)


def configure(args: types.SimpleNamespace) -> DecoderConfig:
    """Turns the flags into the decoder's configuration, after checking its names."""
    COMMAND.require_run(args)
    _check_files(args)
    if args.problem:
        registry.problem(args.problem)
    if args.model:
        registry.require_model(args.model)
    if args.hparams_set:
        registry.hparams(args.hparams_set)
    DecodeHParams().override(args.decode_hparams)
    for name in split_metrics(args.metrics):
        output_metric(name).check()
    return from_flags(DecoderConfig, types.SimpleNamespace(**vars(args) | own_files(vars(args))))


def _check_files(args: types.SimpleNamespace) -> None:
    """Raises UsageError if file flags contradict each other."""
    for name in ("decode_from_file", "score_file"):
        if args.decode_interactive and getattr(args, name):
            raise UsageError(f"--decode_interactive and --{name} exclude each other")
    if args.decode_interactive and args.decode_to_file:
        raise UsageError("--decode_interactive shows its outputs: leave --decode_to_file out")
    split_to_decode(args.dataset_split, args.eval_use_test_set)
    for name in ("eval_use_test_set", "dataset_split"):
        if getattr(args, name) and (
            args.decode_interactive or args.decode_from_file or args.score_file
        ):
            split = args.dataset_split or "test"
            raise UsageError(
                f"--{name} decodes the {split} split: leave out the flag, or the file and "
                "--decode_interactive"
            )
    for name in ("decode_reference", "prefix_file"):
        if getattr(args, name) and not args.decode_from_file:
            raise UsageError(f"--{name} needs --decode_from_file")
        if getattr(args, name) and args.score_file:
            raise UsageError(f"--{name} and --score_file exclude each other")
    has_no_reference = args.decode_from_file and not args.decode_reference
    if args.metrics and (args.decode_interactive or args.score_file or has_no_reference):
        raise UsageError("--metrics needs reference outputs: give --decode_reference")
    if args.decode_from_file == STANDARD_INPUT:
        for name in ("score_file", "decode_to_file", "decode_reference"):
            if getattr(args, name):
                raise UsageError(
                    f"--{name} cannot be used with --decode_from_file=-, which writes to standard "
                    "output; name a file"
                )
    for name in OF_TRANSLATION:
        translates_lines = args.decode_from_file or args.decode_interactive
        if getattr(args, name) and (args.score_file or not translates_lines):
            raise UsageError(f"--{name} needs --decode_from_file or --decode_interactive")
    if args.decode_shards > 1:
        _check_shards(args)
    if args.score_file:
        COMMAND.require(args, "decode_to_file")
    _check_document(args)


def _check_document(args: types.SimpleNamespace) -> None:
    """Raises UsageError if flags do not fit a document, or the lack of one."""
    if args.as_lines and not args.decode_from_file:
        raise UsageError("--as_lines needs --decode_from_file")
    if args.review_below and not args.quality_run:
        raise UsageError("--review_below needs confidences: give --quality_run")
    if args.quality_run and args.output_format != JSON and not args.review_below:
        raise UsageError(
            "--quality_run tells confidences in JSON (--output_format=json), or in documents "
            "(--review_below): give one of the two"
        )
    if not _is_document(args):
        if args.fuzzy:
            raise UsageError("--fuzzy needs a .po file (--decode_from_file)")
        if args.review_below:
            raise UsageError("--review_below needs a .po or XLIFF file (--decode_from_file)")
        return
    COMMAND.require(args, "decode_to_file")
    for name in ("score_file", "prefix_file", "decode_reference"):
        if getattr(args, name):
            raise UsageError(f"--{name} has lines, and --decode_from_file is a document")
    if args.output_format != TEXT:
        raise UsageError("a document (--decode_from_file) has no --output_format")
    if args.fuzzy and not DOCUMENTS[ending(args.decode_from_file)].is_reviewed:
        raise UsageError(
            "--fuzzy is for .po files: XLIFF says in every new translation that a machine made it, "
            "and HTML has no such mark"
        )
    if args.fuzzy and args.review_below:
        raise UsageError(
            "--fuzzy marks all new translations, and --review_below the doubtful ones alone: give "
            "one of the two"
        )
    if args.review_below and not DOCUMENTS[ending(args.decode_from_file)].has_states:
        raise UsageError("--review_below is for .po and XLIFF files: HTML has no such mark")


def _is_document(args: types.SimpleNamespace) -> bool:
    return not args.as_lines and is_document(args.decode_from_file)


def _check_shards(args: types.SimpleNamespace) -> None:
    """Raises UsageError unless there are lines to share among --decode_shards."""
    reads_lines = args.decode_from_file not in ("", STANDARD_INPUT) or args.score_file
    if not reads_lines or _is_document(args):
        raise UsageError(
            "--decode_shards needs lines to share: name a text file with --decode_from_file"
        )
    if args.decode_reference:
        raise UsageError(
            "--decode_shards and --decode_reference exclude each other: no worker has all outputs; "
            "join them, and score them with t2t-bleu"
        )


if __name__ == "__main__":
    main()
