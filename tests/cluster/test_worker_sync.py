"""Workers make equal decisions."""

import pytest

from support.limits import strategy_over
from t2t_lite.cluster.cluster import ALONE, Cluster
from t2t_lite.cluster.detector_client import DetectorClient
from t2t_lite.cluster.worker_sync import WorkerSync
from t2t_lite.errors import UserError


@pytest.fixture
def worker(monkeypatch):
    """Returns a function that gives worker `worker_id` of two, whose peer has the numbers given.

    Each has two devices, so that the sum over devices counts its numbers twice.
    """

    def make(worker_id: int, others: list[int]) -> WorkerSync:
        cluster = Cluster(("a:1", "b:2"), worker_id)
        sync = WorkerSync(cluster, strategy_over(4), DetectorClient())
        monkeypatch.setattr(sync, "_compiled_sum", lambda own: 2 * (own.numpy() + others))
        return sync

    return make


def test_what_holds_for_one_holds_for_all(worker):
    assert worker(0, [1, 0, 0, 1]).any(True, False, True, False) == [True, False, True, True]
    assert worker(1, [1, 0, 0, 1]).any(False, False, False, False) == [True, False, False, True]


def test_a_number_is_that_of_the_chief(worker):
    worker(0, [0]).check("restored step", 3)
    worker(1, [3]).check("restored step", 3)
    with pytest.raises(UserError, match=r"worker 1.* has restored step 3, but worker 0 has 20: "):
        worker(1, [20]).check("restored step", 3)


def test_one_worker_agrees_with_itself():
    sync = WorkerSync(ALONE, strategy_over(2), DetectorClient())
    assert sync.any(True, False) == [True, False]
    sync.check("restored step", 3)
