"""t2t-datagen: turns raw text into the vocabulary and TFRecord files that training reads."""

import logging
import pathlib
import types
from collections.abc import Iterable

from t2t_lite import api, registry
from t2t_lite.bin import next_command
from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import Flag, config_flags, from_flags
from t2t_lite.data.generation.config import TMP_DIR, DatagenOptions
from t2t_lite.data.generation.report import report
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.text.bad_input import BadInput

log = logging.getLogger("t2t_lite.bin")

COMMAND = Command(
    "t2t-datagen",
    "turns raw text into a vocabulary and TFRecord files for t2t-trainer.\n"
    "Existing files are kept, so an interrupted run can be restarted. For translation and some\n"
    "other problems, the last line is a command that trains on the data (docs/choosing.md).",
    [
        "t2t-datagen --registry_help",
        "t2t-datagen --problem=translate_ende_wmt32k --data_dir=data --tmp_dir=raw",
        "t2t-datagen ... --clean=identical,max_length=200,max_ratio=3,duplicates",
        "t2t-datagen --report --problem=translate_ende_wmt32k --data_dir=data --tmp_dir=raw \\",
        "    --hparams_set=transformer_base",
        "t2t-datagen --problem=translate_ende_wmt32k --data_dir=data --inspect",
        "t2t-datagen ... --data_dir=gs://bucket/data --runner=DataflowRunner \\",
        '    --beam_options="--project=mine --region=europe-west4 --temp_location=gs://bucket/tmp"',
    ],
    {
        "What to generate": (
            Flag(
                "problem",
                str,
                "",
                "Name of a problem, a comma-separated list of names, or PREFIX*. Names joined by + "
                "are one problem: a mixture.",
                listed=True,
            ),
            Flag(
                "exclude_problems",
                str,
                "",
                "Comma-separated texts; problems whose names contain one of them are left out.",
                listed=True,
            ),
            Flag("only_list", bool, False, "List the chosen problems and exit."),
            Flag(
                "inspect",
                bool,
                False,
                "Generate nothing; print what --data_dir holds: counts, lengths, errors and the "
                "first records of each split. The exit code is 1 if there are errors.",
            ),
        ),
        "Where": (
            Flag("data_dir", pathlib.Path, "", "Folder for the results. Created if missing."),
            Flag(
                "tmp_dir",
                pathlib.Path,
                TMP_DIR,
                "Folder of raw files. Downloads are saved to it; your own text is read from it.",
            ),
        ),
        **config_flags(DatagenOptions),
        "On many machines": (
            Flag(
                "runner",
                str,
                "",
                "Generate the same files with an Apache Beam pipeline on this runner: "
                "DirectRunner (on this machine), FlinkRunner, SparkRunner, DataflowRunner or "
                "another. --tmp_dir and the vocabulary are read on this machine. All workers need "
                "access to --data_dir, which may be gs://, s3:// or hdfs://, and this package. "
                "Needs: pip install '.[beam]'.",
            ),
            Flag(
                "beam_options",
                str,
                "",
                "Beam's options for the runner, quoted, such as "
                '"--direct_num_workers=2 --direct_running_mode=multi_processing".',
            ),
        ),
        "Report": (
            Flag(
                "report",
                bool,
                False,
                "Generate nothing; read the text and print its lengths, what --clean would drop, "
                "what is wrong with it (sides exchanged or copied, test sentences in training, a "
                "vocabulary that does not fit) and, if --data_dir holds the vocabulary, its "
                "coverage.",
            ),
            Flag(
                "hparams_set",
                str,
                "",
                "Hyperparameter set for which the report counts padding, pairs that are too long "
                "and steps per epoch.",
            ),
            Flag(
                "hparams", str, "", "Changes to the hyperparameter set: NAME=VALUE,...", listed=True
            ),
        ),
    },
)


# Flags that have a meaning only if data is generated.
_MAKING = ("num_workers", "max_cases", "alignments", "runner", "beam_options", "extend_vocab")


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "problem")
    names = select_problems(args.problem, args.exclude_problems, keep_forms=args.inspect)
    if args.only_list:
        print("\n".join(names))
        return
    if args.inspect:
        reading = ("report", "clean", "pair_scores", "skip_bad", "hparams_set", "hparams")
        _refuse(args, "inspect", *reading, *_MAKING)
        COMMAND.require(args, "data_dir")
        inspect(names, args.data_dir)
        return
    options = from_flags(DatagenOptions, args)
    if args.report:
        _refuse(args, "report", *_MAKING)
        print_report(names, args.data_dir, args.tmp_dir, options, _batching_hparams(args))
        return
    if args.hparams_set or args.hparams:
        raise UsageError("--hparams_set and --hparams belong to --report: data fits every set")
    COMMAND.require(args, "data_dir", "tmp_dir")
    if args.beam_options:
        COMMAND.require(args, "runner")
    if args.runner:
        if args.alignments:
            raise UsageError("--alignments are made on this machine: leave out --runner")
        if args.num_workers:
            raise UsageError(
                "--num_workers applies to this machine only: with --runner, use --beam_options"
            )
        generate_by_beam(
            names, args.data_dir, args.tmp_dir, options, args.runner, args.beam_options
        )
        return
    generate(names, args.data_dir, args.tmp_dir, options)
    for name in select_problems(args.problem, args.exclude_problems, keep_forms=True):
        for line in next_command.lines(name, args, options):
            print(line)


def select_problems(wanted: str, exclude: str = "", *, keep_forms: bool = False) -> list[str]:
    """Returns the registered base names that `--problem` and `--exclude_problems` choose.

    Args:
        wanted: a name, comma-separated names, or `prefix*`; a `_rev` or `_copy` form stands for
            its base, whose files it shares.
        exclude: comma-separated texts; names that contain one of them are left out.
        keep_forms: whether to keep `_rev` and `_copy` forms instead.
    """
    if wanted.endswith("*"):
        names = [name for name in registry.list_problems() if name.startswith(wanted[:-1])]
    else:
        names = [name.strip() for name in wanted.split(",")]
        names = [registry.problem(name).name if keep_forms else _base_name(name) for name in names]
    unwanted = [text.strip() for text in exclude.split(",") if text.strip()]
    chosen = [name for name in names if not any(text in name for text in unwanted)]
    if not chosen:
        raise UsageError(
            f"--problem={wanted} --exclude_problems={exclude} selects no problem "
            "(--registry_help lists all)"
        )
    return list(dict.fromkeys(chosen))


def generate(names: Iterable[str], data_dir: str, tmp_dir: str, options: DatagenOptions) -> None:
    """Generates the data of problems, given by their base names.

    Args:
        names: registered names.
        data_dir: folder of the results; created if missing.
        tmp_dir: folder of the raw files; created if missing.
        options: how to generate.
    """
    for name in names:
        log.info("generating %s into %s", name, data_dir)
        api.generate_data(name, data_dir=data_dir, tmp_dir=tmp_dir, **vars(options))


def generate_by_beam(
    names: Iterable[str],
    data_dir: str,
    tmp_dir: str,
    options: DatagenOptions,
    runner: str,
    beam_options: str,
) -> None:
    """Generates the data of problems as Apache Beam pipelines.

    Args:
        names: registered names.
        data_dir: folder of the results, on a file system that Beam knows; created if missing.
        tmp_dir: folder of the raw files, on this machine; created if missing.
        options: as for `generate`.
        runner: the name of Beam's runner.
        beam_options: Beam's options, as on a command line.
    """
    try:
        with quiet_import():
            from t2t_lite.data.generation import beam_pipeline
    except ModuleNotFoundError as error:
        raise UserError(f"--runner needs Apache Beam ({error}): pip install '.[beam]'") from None
    pipeline = beam_pipeline.pipeline_options(runner, beam_options)
    pathlib.Path(tmp_dir).mkdir(parents=True, exist_ok=True)
    for name in names:
        for problem in registry.problem(name).members:
            if not isinstance(problem, Text2TextProblem):
                raise UsageError(
                    f"--runner needs pairs of text, and {name!r} is not a Text2TextProblem"
                )
            log.info("generating %s into %s", problem.name, data_dir)
            beam_pipeline.generate_from_samples(problem, data_dir, tmp_dir, options, pipeline)


def inspect(names: Iterable[str], data_dir: str) -> None:
    """Prints the content of the data files of problems.

    Args:
        names: registered names; `_rev` and `_copy` forms show their own view of the files.
        data_dir: folder of the data files and vocabularies.
    """
    problems = [member for name in names for member in registry.problem(name).members]
    with quiet_import():
        from t2t_lite.data.generation import inspection
    faults = 0
    for problem in problems:
        encoders = problem.get_feature_encoders(data_dir)
        sizes = ", ".join(
            f"{side} {encoder.vocab_size:,}"
            for side, encoder in encoders.items()
            if encoder.vocab_size
        )
        print(f"{problem.name} in {data_dir}; ids: {sizes}")
        for split, found in inspection.inspect(problem, data_dir):
            for line in inspection.describe(split, found, encoders):
                print(line)
            faults += len(found.faults)
    if faults:
        raise DataError(
            "the data has the faults listed above; delete the files and run t2t-datagen again"
        )


def print_report(
    names: Iterable[str],
    data_dir: str,
    tmp_dir: str,
    options: DatagenOptions,
    hparams: BasicHParams | None,
) -> None:
    """Prints statistics of the text of problems, without generating anything.

    Args:
        names: registered names.
        data_dir: folder of the vocabulary, if there is one.
        tmp_dir: folder of the raw files.
        options: how the data would be generated.
        hparams: settings of training's batches; None: no report on batches.
    """
    for name in names:
        problem = registry.problem(name)
        for member in problem.members:
            member.bad_input = BadInput(skip=options.skip_bad)
        for block in report(problem, data_dir, tmp_dir, options, hparams):
            print(block, flush=True)


def _refuse(args: types.SimpleNamespace, mode: str, *flags: str) -> None:
    """Raises UsageError if flags are given that have no effect in a mode."""
    if given := [f"--{flag}" for flag in flags if getattr(args, flag)]:
        raise UsageError(f"--{mode} and {', '.join(given)} exclude each other")


def _batching_hparams(args: types.SimpleNamespace) -> BasicHParams | None:
    if not args.hparams_set:
        if args.hparams:
            COMMAND.require(args, "hparams_set")
        return None
    hparams = registry.hparams(args.hparams_set).override(args.hparams)
    if not isinstance(hparams, BasicHParams):
        raise UsageError(
            f"hparams set {args.hparams_set!r} is a {type(hparams).__name__}, "
            "which has no fields for batches"
        )
    return hparams


def _base_name(name: str) -> str:
    base = registry.problem(name).base_name
    if base != name:
        log.info("%s uses the files of %s: generating those", name, base)
    return base


if __name__ == "__main__":
    main()
