"""t2t-distill: makes the training data of a student from a teacher's translations."""

import types

from t2t_lite import registry
from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import Flag, config_flags, from_flags
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.errors import UsageError
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.study.distillation.config import DistillConfig

_DECODER = config_flags(DecoderConfig)
_SEARCH = _DECODER["Search"]
_SHARDS = (
    Flag(
        "decode_shards",
        int,
        1,
        "Number of workers that translate together. Worker 0 writes OUTPUT_PROBLEM_DIR000, with "
        "its part of the training pairs and all that is not translated, worker 1 "
        "OUTPUT_PROBLEM_DIR001, and so on: joined file by file, they are what one process writes.",
        minimum=1,
    ),
    next(flag for flag in _DECODER["Input"] if flag.name == "worker_id"),
)

COMMAND = Command(
    "t2t-distill",
    "makes the training data of a small, fast model (the student) from the translations\n"
    "of a large one (the teacher). A killed run continues where it stopped.",
    [
        "t2t-distill --teacher=runs/big/averaged --problem=translate_ende_wmt32k --tmp_dir=raw \\\n"
        "      --output_problem_dir=distilled",
        "t2t-datagen --problem=text2text_tmpdir_bpe --tmp_dir=distilled --data_dir=data",
        "t2t-distill --teacher=runs/a,runs/b --select=nearest --decode_hparams=beam_size=8 ...",
        "t2t-distill --teacher=runs/a,runs/b --select=all ...",
        "t2t-distill --translations=nbest.de --select=nearest ...",
        "t2t-distill --teacher=runs/deen --back --sources=news.de ...",
    ],
    {
        **config_flags(DistillConfig),
        "Search": _SEARCH,
        "Several workers": _SHARDS,
    },
    settings={
        "Search settings for --decode_hparams (a problem may change the defaults)": DecodeHParams
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "problem", "output_problem_dir")
    config = from_flags(DistillConfig, args)
    if not (args.teacher or args.translations):
        raise UsageError("--teacher is missing: name a run folder, or give --translations")
    if args.back:
        COMMAND.require(args, "sources")
    for flag in (*_SEARCH, *_SHARDS):
        if args.translations and getattr(args, flag.name) != flag.default:
            raise UsageError(
                f"--{flag.name} says how a --teacher translates, and --translations="
                f"{args.translations} is translated already: leave out one of the two flags"
            )
    registry.problem(args.problem)
    DecodeHParams().override(args.decode_hparams)
    search = DecoderConfig(**{flag.name: getattr(args, flag.name) for flag in (*_SEARCH, *_SHARDS)})
    with quiet_import():
        from t2t_lite.study.distillation import job
    job.run(config, search)


if __name__ == "__main__":
    main()
