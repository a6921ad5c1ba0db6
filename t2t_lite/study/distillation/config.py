"""Options of a distillation, which are `t2t-distill`'s flags; needs no TensorFlow."""

import dataclasses

from t2t_lite.data.generation.config import TMP_DIR
from t2t_lite.errors import UsageError
from t2t_lite.settings import Config, setting

BEST, NEAREST, ALL = "best", "nearest", "all"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistillConfig(Config):
    """One run of `job.run`; empty text means "not given"."""

    problem: str = setting(
        "", "Problem whose training sources are translated.", group="What to translate"
    )
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
    sources: str = setting(
        "",
        "File of further sources, one sentence per line, translated after the problem's; with "
        "--back, of targets.",
        reads=True,
    )
    back: bool = setting(
        False,
        "Back-translate: --sources is text in the target language, the teacher translates it into "
        "the source language, and its outputs, after the tag <BT>, are sources beside the "
        "problem's own pairs (Caswell et al. 2019).",
    )
    teacher: str = setting(
        "",
        "Run folder, for its newest checkpoint, or RUN/NAME: best, averaged, an update number or "
        "a file name. Several, separated by commas, translate together as an ensemble.",
        path=True,
        listed=True,
        group="The teacher",
    )
    translations: str = setting(
        "",
        "In place of --teacher, the outputs of any program: one line for each source, several "
        "hypotheses separated by tabs, best first (t2t-decoder with return_beams); or an n-best "
        "list of Moses or Marian (NUMBER ||| TEXT ||| ... ||| SCORE, with as many fields in each "
        "line as in the first). A text that is repeated counts once; a score that is not finite "
        "comes last.",
        reads=True,
    )
    select: str = setting(
        BEST,
        "Which hypotheses to keep: the best by score; where there is a reference, the nearest to "
        "it by smoothed sentence BLEU (Kim & Rush 2016, section 3.3); or all that differ, each as "
        "a pair of its own.",
        choices=(BEST, NEAREST, ALL),
        group="What to keep",
    )
    output_problem_dir: str = setting(
        "",
        "Folder of text to create, which is the --tmp_dir of text2text_tmpdir_bpe and other "
        "problems that read text files.",
        path=True,
        group="Output",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.teacher and self.translations:
            raise UsageError("--teacher and --translations exclude each other")
        if self.back and self.select == NEAREST:
            raise UsageError(
                "--back and --select=nearest exclude each other: text in one language alone has "
                "no references"
            )
