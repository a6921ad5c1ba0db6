"""Options of `t2t-shortlist`; needs no TensorFlow."""

import dataclasses

from t2t_lite.data.generation.config import TMP_DIR
from t2t_lite.runs.config import OUTPUT_HELP
from t2t_lite.settings import Config, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShortlistConfig(Config):
    """One run of `shortlist_job.run`; empty text means "not given"."""

    output_dir: str = setting(
        "", f"{OUTPUT_HELP} Its vocabularies are used.", path=True, group="The trained model"
    )
    data_dir: str = setting(
        "",
        "Folder of the problem's data; needed only if the problem reads it to make its text.",
        path=True,
        group="The text to learn from",
    )
    tmp_dir: str = setting(
        TMP_DIR,
        "Folder of the raw files of the run's problem; of a student, what t2t-distill wrote.",
        path=True,
    )
    alignments: str = setting(
        "",
        "File of eflomal, fast_align or another aligner: for each training pair, in the order of "
        "the text, links such as 0-0 1-2, of words between spaces (default: this command aligns "
        "the subwords).",
        reads=True,
    )
    frequent: int = setting(
        100,
        "How many of the most frequent target subwords every output may have.",
        minimum=0,
        group="The list",
    )
    best: int = setting(50, "Most translations of a source subword.", minimum=1, maximum=1000)
    shortlist: str = setting("", "File to write, for t2t-decoder --shortlist.", writes=True)
