"""A channel ends with its connection, and with anything that is not a message."""

import socket

import pytest

from t2t_lite.training.cluster import channel
from t2t_lite.training.cluster.channel import Channel


@pytest.fixture
def ends():
    near, far = socket.socketpair()
    end = Channel(near)
    yield end, far
    end.close()
    far.close()


def test_messages_arrive_in_any_parts(ends):
    end, far = ends
    far.sendall(b'{"a": 1}\n{"b"')
    assert end.receive() == [{"a": 1}]
    far.sendall(b": 2}\n")
    assert end.next(5.0) == {"b": 2}
    assert not end.has_ended


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1", b"[]", b"\xff", b"[" * 50_000])
def test_another_protocol_ends_it(ends, line):
    end, far = ends
    far.sendall(b'{"a": 1}\n' + line + b"\n")
    assert end.receive() == [{"a": 1}]
    assert end.has_ended


def test_a_line_without_an_end_is_not_kept(ends, monkeypatch):
    monkeypatch.setattr(channel, "_MAX_BYTES", 100)
    end, far = ends
    far.sendall(b"x" * 100)
    assert end.receive() == []
    assert not end.has_ended
    far.sendall(b"x")
    assert end.receive() == []
    assert end.has_ended
