"""Workers decide alike."""

from t2t_lite.training.agreement import Agreement
from t2t_lite.training.cluster import ALONE
from t2t_lite.training.watch import Watch


def test_one_worker_agrees_with_itself(strategy_over):
    workers = Agreement(ALONE, strategy_over(2), Watch())
    assert workers.any(True, False) == [True, False]
    workers.check("restored step", 3)
