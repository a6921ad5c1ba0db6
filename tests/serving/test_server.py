"""What the server listens on."""

import pathlib
import socket

import pytest

from t2t_lite.errors import UserError
from t2t_lite.serving.server import listen


@pytest.mark.parametrize("host", ["a..b", "b" * 64, "256.0.0.1"])
def test_a_host_that_is_no_name_of_this_machine(host):
    with pytest.raises(UserError, match=f"--host={host}: .*: expected the name of this machine"):
        listen(host, 0)


def test_an_address_of_one_interface():
    """Link-local addresses of IPv6 are valid only together with their interface."""
    addresses = pathlib.Path("/proc/net/if_inet6")
    lines = addresses.read_text().splitlines() if addresses.exists() else []
    local = [line.split() for line in lines if line.startswith("fe80")]
    if not local:
        pytest.skip("this machine has no link-local address of IPv6")
    address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(local[0][0]))
    with listen(f"{address}%{local[0][-1]}", 0) as listener:
        assert listener.getsockname()[0].startswith(address)
