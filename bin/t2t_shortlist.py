"""t2t-shortlist: makes the list of words that a translation of each word may consist of."""

import types

from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import config_flags, from_flags
from t2t_lite.study.distillation.shortlist_config import ShortlistConfig

COMMAND = Command(
    "t2t-shortlist",
    "makes a short list, with which decoding is faster: for each source subword, the\n"
    "target subwords that may translate it.",
    [
        "t2t-shortlist --output_dir=my_student --tmp_dir=distilled --shortlist=my_student/list.txt",
        "t2t-decoder --output_dir=my_student --shortlist=my_student/list.txt ...",
    ],
    config_flags(ShortlistConfig),
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "output_dir", "shortlist")
    config = from_flags(ShortlistConfig, args)
    with quiet_import():
        from t2t_lite.study.distillation import shortlist_job
    shortlist_job.run(config)


if __name__ == "__main__":
    main()
