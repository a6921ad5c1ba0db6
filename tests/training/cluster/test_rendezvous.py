"""Workers meet and compare their settings; all learn which worker cannot take part."""

import contextlib
import os
import socket
import threading
import time

import pytest

from t2t_lite.errors import UserError
from t2t_lite.training.cluster import rendezvous
from t2t_lite.training.cluster.channel import Channel
from t2t_lite.training.cluster.cluster import Cluster, LostWorkerError
from t2t_lite.training.cluster.rendezvous import connect_workers


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(rendezvous, "_POLL", 0.02)
    monkeypatch.setattr(rendezvous, "_SECONDS_TO_MEET", 20.0)
    monkeypatch.setattr(rendezvous, "_SECONDS_FOR_STRANGERS", 0.3)
    monkeypatch.setattr(rendezvous, "_SECONDS_TO_TELL", 3.0)
    monkeypatch.setattr(rendezvous, "_SECONDS_TO_ANSWER", 0.3)


@pytest.fixture
def hosts() -> tuple[str, ...]:
    """Addresses for three workers, at ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("", 0))) for _ in range(3)]
        return tuple(f"localhost:{server.getsockname()[1]}" for server in servers)


def run(hosts, settings, delays=(0, 0, 0)) -> list:
    """Lets workers meet in threads; returns what `connect_workers` has returned or raised in each.

    Args:
        hosts: of the workers, or of each what it takes them to be.
        settings: of each; an exception is raised.
        delays: seconds before each comes.
    """
    results: list = [None] * len(settings)

    def describe(worker):
        if isinstance(settings[worker], Exception):
            raise settings[worker]
        return settings[worker]

    def work(worker):
        own = hosts[worker] if isinstance(hosts[0], tuple) else hosts
        time.sleep(delays[worker])
        try:
            results[worker] = connect_workers(Cluster(own, worker), lambda: describe(worker))
        except (UserError, OSError) as error:
            results[worker] = error

    threads = [threading.Thread(target=work, args=[worker]) for worker in range(len(settings))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("delays", [(0.2, 0, 0.1), (0, 0.2, 0.1)])
def test_all_meet_in_any_order(count, delays, hosts):
    chief, *others = run(hosts[:count], [{"--train_steps": 5}] * count, delays)
    assert set(chief) == set(range(1, count))
    assert [set(other) for other in others] == [{0}] * (count - 1)
    for worker, other in enumerate(others, 1):
        other[0].send(it_is=worker)
        assert chief[worker].next(5) == {"it_is": worker}
    # The ports are free for TensorFlow, although the connections stay open.
    for host in hosts[:count]:
        socket.create_server(("", int(host.split(":")[1]))).close()


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"--train_steps": 6, "tensorflow": "1"}, "has --train_steps=6, but worker 0 has .*=5: "),
        (
            {"--train_steps": 5, "tensorflow": "2"},
            "has tensorflow=2, but worker 0 has tensorflow=1",
        ),
        ({"--train_steps": 5}, "has tensorflow=None, but worker 0 has tensorflow=1: "),
        (
            {"--train_steps": 5, "tensorflow": "1", "bytes of a": 9},
            "has bytes of a=9, but worker 0 has bytes of a=None: ",
        ),
    ],
)
def test_unequal_settings_are_named_to_all(odd, message, hosts):
    equal = {"--train_steps": 5, "tensorflow": "1"}
    results = run(hosts, [equal, equal, odd])
    for result in results:
        assert type(result) is UserError
        assert str(result) == str(results[0])
    with pytest.raises(UserError, match=f"^worker 2 at {hosts[2]} {message}"):
        raise results[0]


def test_unequal_lists_of_workers(hosts):
    chief, other = run([hosts[:2], (*hosts[:2], "c:1")], [{}, {}])
    assert str(chief) == str(other)
    assert f"--worker_hosts={','.join(hosts[:2])},c:1, but worker 0 has --worker_hosts=" in str(
        chief
    )


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_the_failure_of_one_is_reported_to_all(failing, hosts):
    settings: list = [{}] * 3
    settings[failing] = UserError("no data: train-00000 is missing")
    results = run(hosts, settings)
    for worker, result in enumerate(results):
        if worker == failing:
            assert str(result) == "no data: train-00000 is missing"
        else:
            assert type(result) is LostWorkerError
            assert result.exit_code == os.EX_TEMPFAIL
            assert str(result).startswith(
                f"worker {worker} of 3 has lost worker {failing} at {hosts[failing]}: "
                "no data: train-00000 is missing. Restart all"
            )


def test_a_file_that_one_cannot_read_is_reported_to_all(hosts):
    error = PermissionError(13, "Permission denied", "vocab")
    chief, other = run(hosts[:2], [{}, error])
    assert other is error
    assert "has lost worker 1 at " in str(chief)
    assert "Permission denied: 'vocab'. Restart all" in str(chief)


@pytest.mark.parametrize("has_reached", [False, True])
def test_a_worker_that_leaves_while_another_tries_to_reach_it(has_reached, hosts, monkeypatch):
    monkeypatch.setattr(rendezvous, "_SECONDS_TO_MEET", 2.0)
    results: list = []
    thread = threading.Thread(target=lambda: results.extend(run(hosts, [{}] * 2)))
    thread.start()
    goes = Channel(_patient(int(hosts[0].split(":")[1])))
    goes.send(worker=2, settings={"--worker_hosts": ",".join(hosts)})
    assert goes.next(5) == {"welcome": True}
    assert goes.next(5) == {"all_here": True}
    if has_reached:
        goes.send(reached=True)
        time.sleep(0.1)  # until the chief knows
    goes.close()  # and nothing listens at its port
    thread.join()
    for result in results:
        assert type(result) is LostWorkerError
        assert f"has lost worker 2 at {hosts[2]}: its connection has closed" in str(result)


def test_a_chief_that_leaves_while_a_worker_tries_to_reach_another(hosts):
    """It may be restarted: the worker connects to it again."""
    results: list = []
    with socket.create_server(("", int(hosts[0].split(":")[1]))) as server:
        server.settimeout(5)
        thread = threading.Thread(target=lambda: results.append(_met(Cluster(hosts, 1))))
        thread.start()
        for last in ({"all_here": True}, {"end": "enough"}):
            chief = Channel(server.accept()[0])
            assert (chief.next(5) or {})["worker"] == 1
            chief.send(welcome=True)
            chief.send(**last)
            time.sleep(0.1)
            chief.close()
        thread.join()
    assert str(results[0]) == "enough"


def _met(cluster: Cluster):
    try:
        return connect_workers(cluster, dict)
    except UserError as error:
        return error


def test_a_workers_port_in_use_is_reported_to_all(hosts):
    with socket.create_server(("", int(hosts[1].split(":")[1]))):
        results = run(hosts, [{}] * 3)
    assert f"worker 1 of 3 cannot listen at {hosts[1]}: Address already in use" in str(results[1])
    for worker in (0, 2):
        assert f"has lost worker 1 at {hosts[1]}: worker 1 of 3 cannot" in str(results[worker])


@pytest.mark.parametrize("says", [b"", b"220 mail ready\r\n", b'"welcome"\n', b"[" * 9999 + b"\n"])
def test_the_chiefs_port_in_use_is_noticed_by_all(says, hosts):
    with socket.create_server(("", int(hosts[0].split(":")[1]))) as stranger:

        def greet():
            with contextlib.suppress(OSError):
                while True:
                    connection = stranger.accept()[0]
                    connection.send(says)
                    kept.append(connection)

        kept: list[socket.socket] = []
        threading.Thread(target=greet, daemon=True).start()
        results = run(hosts, [{}] * 3)
        stranger.shutdown(socket.SHUT_RDWR)
    for connection in kept:
        connection.close()
    assert f"worker 0 of 3 cannot listen at {hosts[0]}: Address already in use" in str(results[0])
    for worker in (1, 2):
        assert str(results[worker]).startswith(
            f"worker 0 at {hosts[0]} cannot be reached (it does not answer as a worker"
        )


@pytest.mark.integration
def test_a_worker_that_does_not_arrive_is_named(hosts, monkeypatch):
    monkeypatch.setattr(rendezvous, "_SECONDS_TO_MEET", 0.5)
    chief, other = run(hosts, [{}, {}])
    assert str(chief) == str(other)
    assert str(chief).startswith(f"worker 2 at {hosts[2]} has not arrived for ")
    (alone,) = run(hosts[:2], [{}])
    assert str(alone).startswith(f"worker 1 at {hosts[1]} has not arrived")
    with pytest.raises(UserError, match=f"worker 0 at {hosts[0]} cannot be reached .*refused"):
        connect_workers(Cluster(hosts[:2], 1), dict)


def test_a_worker_that_leaves_may_return(hosts):
    """Nor is anyone held up by other programs, whatever they send."""
    port = int(hosts[0].split(":")[1])
    cluster = Cluster(hosts, 0)
    met: list = []
    thread = threading.Thread(target=lambda: met.append(connect_workers(cluster, dict)))
    thread.start()
    with contextlib.ExitStack() as stack:
        for first in (b"", b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"worker": "x"}\n', b"{}\n"):
            stranger = _patient(port)
            stack.enter_context(stranger).sendall(first)
        gone = Channel(_patient(port))
        settings = {"--worker_hosts": ",".join(hosts)}
        gone.send(worker=1, settings=settings)
        assert gone.next(5) == {"welcome": True}
        gone.close()
        later = threading.Thread(target=lambda: connect_workers(Cluster(hosts, 1), dict))
        later.start()
        connect_workers(Cluster(hosts, 2), dict)
        later.join()
    thread.join()
    assert set(met[0]) == {1, 2}


def test_the_last_process_of_a_number_takes_the_place_of_others(hosts):
    chief = threading.Thread(target=lambda: connect_workers(Cluster(hosts, 0), dict))
    chief.start()
    first = Channel(_patient(int(hosts[0].split(":")[1])))
    first.send(worker=1, settings={"--worker_hosts": ",".join(hosts)})
    assert first.next(5) == {"welcome": True}
    second = threading.Thread(target=lambda: connect_workers(Cluster(hosts, 1), dict))
    second.start()
    told = first.next(5)
    connect_workers(Cluster(hosts, 2), dict)
    second.join()
    chief.join()
    first.close()
    assert told == {"end": "another process has started as worker 1"}


def _patient(port: int) -> socket.socket:
    while True:
        with contextlib.suppress(OSError):
            return socket.create_connection(("localhost", port))
        time.sleep(0.02)
