"""What TensorFlow's own health checks do not notice, for which there is a failure detector."""

import contextlib
import socket
import subprocess
import sys
import textwrap

import pytest

_WORKER = textwrap.dedent("""
    import sys, threading, time
    import tensorflow as tf
    from t2t_lite.training.cluster.cluster import Cluster
    from t2t_lite.training.devices import make_strategy

    *hosts, worker_id = sys.argv[1:]
    strategy = make_strategy(0, cluster=Cluster(tuple(hosts), int(worker_id)))
    if worker_id == "1":
        time.sleep(600)  # hangs
    # TensorFlow misses the heartbeat of a process that is stopped or killed within 15 seconds.
    threading.Timer(30.0, print, ["still waits"], {"flush": True}).start()
    strategy.reduce("SUM", strategy.run(lambda: tf.ones(())), axis=None)
    print("is told")
""")


@pytest.mark.slow
def test_a_worker_that_hangs_counts_as_healthy():
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("", 0))) for _ in range(2)]
        hosts = [f"localhost:{server.getsockname()[1]}" for server in servers]
    with contextlib.ExitStack() as stack:
        workers = []
        for worker_id in range(2):
            command = [sys.executable, "-c", _WORKER, *hosts, str(worker_id)]
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            workers.append(stack.enter_context(worker))
            stack.callback(worker.kill)
        assert workers[0].stdout.readline() == "still waits\n"
