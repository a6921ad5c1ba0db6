"""What the server listens on."""

import pathlib
import socket

import pytest

from t2t_lite.errors import UserError
from t2t_lite.serving.server import listen

_EXPECTED = "expected the name of this machine or one of its addresses"
# Of an address of IPv6, by Linux: it may be another machine's, too, or is.
_TENTATIVE, _TAKEN = 0x40, 0x08


@pytest.mark.parametrize("host", ["a..b", "b" * 64])
def test_a_host_that_is_no_name(host):
    with pytest.raises(UserError, match=f"--host={host}: .*: {_EXPECTED}"):
        listen(host, 0)


def test_a_host_that_nobody_knows(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UserError, match=f"--host=nowhere: .*not known: {_EXPECTED}"):
        listen("nowhere", 0)


def test_an_address_of_one_interface():
    """Link-local addresses of IPv6 are valid only together with their interface."""
    addresses = pathlib.Path("/proc/net/if_inet6")
    lines = addresses.read_text().splitlines() if addresses.exists() else []
    local = [
        (bytes.fromhex(digits), interface)
        for digits, *_, flags, interface in map(str.split, lines)
        if digits.startswith("fe80") and not int(flags, 16) & (_TENTATIVE | _TAKEN)
    ]
    if not local:
        pytest.skip("this machine has no link-local address of IPv6")
    address = socket.inet_ntop(socket.AF_INET6, local[0][0])
    with listen(f"{address}%{local[0][1]}", 0) as listener:
        assert listener.getsockname()[0].startswith(address)
