"""Which clients a server accepts: those that use its host names and send JSON."""

import http.client
import json
import socket

import pytest

from support.servers import serve
from t2t_lite.serving.hosts import allowed_hosts


@pytest.fixture(scope="module")
def server():
    with serve() as client:
        yield client


def ask(server, **headers: str) -> tuple[int, dict]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", "/translate", b'{"text": "a"}', given)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LocalHost", "localhost."])
@pytest.mark.parametrize("port", ["", ":{port}", ":9"])
def test_its_own_names_with_a_port_or_without(server, name, port):
    host = name + port.format(port=server.port)
    assert ask(server, Host=host, Content_Type="application/json") == (200, {"texts": ["a"]})


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "",
        "localhost..",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
    ],
)
def test_other_names_are_421(server, host):
    host = host.format(port=server.port)
    status, answer = ask(server, Host=host, Content_Type="application/json")
    assert (status, list(answer)) == (421, ["error"])
    assert f"no server for {host!r} here" in answer["error"]
    for path in ("/", "/health", "/metrics", "/nothing"):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", path, headers={"Host": host})
        assert connection.getresponse().status == 421
        connection.close()


def test_health_probes_need_no_name(server):
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


def test_the_error_says_what_a_proxy_must_send(server):
    message = ask(server, Host="public.example", Content_Type="application/json")[1]["error"]
    assert "a proxy must send the server's own name as Host" in message


def test_names_are_not_echoed_whole(server):
    _, answer = ask(server, Host="x" * 5000, Content_Type="application/json")
    assert len(answer["error"]) < 250


@pytest.mark.parametrize("media_type", ["text/plain", "multipart/form-data", ""])
def test_other_types_that_a_form_can_send_are_415(server, media_type):
    status, answer = ask(server, Content_Type=media_type)
    assert status == 415
    assert answer["error"] == (
        "Content-Type must be application/json or application/x-www-form-urlencoded, not "
        f"{media_type!r}"
    )


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_is_json_however_it_is_spelt(server, media_type):
    assert ask(server, Content_Type=media_type)[0] == 200


@pytest.mark.parametrize(
    ("address", "host", "name"),
    [
        ("127.0.0.1", "localhost", "127.0.0.1"),
        ("127.0.0.2", "My-Machine", "my-machine"),
        ("127.0.0.2", "my-machine", "127.0.0.2"),
        ("127.0.0.2", "my-machine.", "my-machine"),
        ("::1", "::1", "[::1]"),
    ],
)
def test_on_loopback_the_address_and_what_the_user_calls_it_are_names(address, host, name):
    assert name in allowed_hosts(Listener(address), host)


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.1", "::"])
def test_on_any_other_address_every_name_will_do(address):
    assert allowed_hosts(Listener(address), address) is None


class Listener(socket.socket):
    def __init__(self, address: str) -> None:
        self.address = address

    def getsockname(self):
        return self.address, 80

    def __del__(self) -> None:
        pass


def test_an_answer_for_a_server_on_all_addresses():
    with serve(host="0.0.0.0") as server:
        assert ask(server, Host="any.example", Content_Type="application/json")[0] == 200
