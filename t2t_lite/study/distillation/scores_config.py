"""Options of `t2t-score-pairs`; needs no TensorFlow."""

import dataclasses

from t2t_lite.data.generation.config import SKIP_BAD_HELP, TMP_DIR
from t2t_lite.settings import Config, setting

_RUN = (
    "Its run folder, for the newest checkpoint, or RUN/NAME: best, averaged, an update number or a "
    "file name. Several, separated by commas, are an ensemble."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoresConfig(Config):
    """One run of `scores_job.run`; empty text means "not given"."""

    problem: str = setting("", "Problem whose training pairs are scored.", group="What to score")
    data_dir: str = setting(
        "",
        "Folder of the problem's data; needed only if the problem reads it to make its text.",
        path=True,
    )
    tmp_dir: str = setting(
        TMP_DIR,
        "Folder of raw files. Downloads are saved to it; your own text is read from it.",
        path=True,
    )
    skip_bad: bool = setting(
        False, f"{SKIP_BAD_HELP} Needed here if t2t-datagen reads the text with --skip_bad."
    )
    forward: str = setting(
        "",
        f"Model that translates sources into targets. {_RUN}",
        path=True,
        listed=True,
        group="The models",
    )
    backward: str = setting(
        "", f"Model that translates targets into sources. {_RUN}", path=True, listed=True
    )
    source_language: str = setting(
        "", "Language of the sources, if the models know several; empty: the models' default."
    )
    target_language: str = setting(
        "", "Language of the targets, if the models know several; empty: the models' default."
    )
    pair_scores: str = setting(
        "",
        "File to write, for t2t-datagen --pair_scores. A pair's score is the share of a side's "
        "cross-entropy that the other side explains: at most 1, and about 0 for a wrong pair. "
        "FILE.origin.json beside it says what it was made from.",
        writes=True,
        group="Output",
    )
