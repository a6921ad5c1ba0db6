"""The host names by which clients may address the server.

Another site can point its own name at 127.0.0.1, so that its page in a browser on this machine
reaches the server (DNS rebinding). The Host header then holds that site's name. Every browser sends
this header; clients that do not, such as health probes in HTTP/1.0, are accepted.
"""

import ipaddress
import socket

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from t2t_lite.errors import quoted


def allowed_hosts(listener: socket.socket, host: str) -> frozenset[str] | None:
    """Returns the host names by which clients may address a server on loopback.

    On any other address the server's names are unknown: returns None, which allows all.

    Args:
        listener: the server's socket.
        host: the value of --host.
    """
    address = ipaddress.ip_address(listener.getsockname()[0])
    if not address.is_loopback:
        return None
    names = {"localhost", "127.0.0.1", "[::1]", bracketed(str(address)), _normal(bracketed(host))}
    return frozenset(names)


def bracketed(host: str) -> str:
    """Returns a host as written in URLs."""
    return f"[{host}]" if ":" in host else host


class AllowedHosts:
    """Middleware that answers 421 to requests for other hosts.

    Any port is allowed, since that of a tunnel to the server differs.

    Args:
        app: answers the accepted requests.
        hosts: in lower case, without a final dot; IPv6 addresses in brackets.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        host = Headers(scope=scope).get("host")
        is_allowed = host is None or _normal(_without_port(host)) in self._hosts
        app = self._app if is_allowed else _misdirected(host or "")
        await app(scope, receive, send)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _normal(name: str) -> str:
    """Returns a name in lower case, without the final dot of a fully qualified one."""
    return name.lower().removesuffix(".")


def _misdirected(host: str) -> JSONResponse:
    message = (
        f"no server for {quoted(host)} here: ask for localhost or 127.0.0.1; a proxy must send the "
        "server's own name as Host"
    )
    return JSONResponse({"error": message}, 421)
