"""What `t2t-datagen` leaves to its user, for every problem alike."""

import dataclasses

from t2t_lite.data.problem import RANDOM_SEED
from t2t_lite.generation.cleaning import CleaningRules


@dataclasses.dataclass(frozen=True)
class DatagenOptions:
    """How data is generated.

    Attributes:
        seed: decides the order inside the training files, and what is drawn from the global random
            numbers of Python and numpy.
        num_workers: processes that encode, 0: one for each core; the files do not depend on it.
        cleaning: which training pairs are dropped.
        skip_bad: whether bad lines of the raw files are skipped and counted, not errors.
    """

    seed: int = RANDOM_SEED
    num_workers: int = 0
    cleaning: CleaningRules = dataclasses.field(default_factory=CleaningRules)
    skip_bad: bool = False
