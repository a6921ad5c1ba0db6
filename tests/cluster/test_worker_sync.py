"""Workers make equal decisions."""

from t2t_lite.cluster.cluster import ALONE
from t2t_lite.cluster.detector_client import DetectorClient
from t2t_lite.cluster.worker_sync import WorkerSync


def test_one_worker_agrees_with_itself(strategy_over):
    sync = WorkerSync(ALONE, strategy_over(2), DetectorClient())
    assert sync.any(True, False) == [True, False]
    sync.check("restored step", 3)
