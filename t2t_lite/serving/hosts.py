"""What clients may call the server.

A page on another site can give its own name the address 127.0.0.1, and then, by a browser on this
machine, ask what listens there (DNS rebinding). The Host header tells: it holds that site's name.
Every browser sends one; what does not, such as a health probe in HTTP/1.0, is let in.
"""

import ipaddress
import socket

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from t2t_lite.errors import quoted


def allowed_hosts(listener: socket.socket, host: str) -> frozenset[str] | None:
    """Returns the names by which clients may ask for a server on loopback.

    On any other address the names by which others reach it are unknown: None, all are allowed.

    Args:
        listener: where the server listens.
        host: what the user calls that.
    """
    address = ipaddress.ip_address(listener.getsockname()[0])
    if not address.is_loopback:
        return None
    names = {"localhost", "127.0.0.1", "[::1]", bracketed(str(address)), _normal(bracketed(host))}
    return frozenset(names)


def bracketed(host: str) -> str:
    """Returns a host as URLs spell it."""
    return f"[{host}]" if ":" in host else host


class AllowedHosts:
    """Middleware that answers 421 to requests for other names.

    The port may be any: that of a tunnel to the server is another.

    Args:
        app: answers the other requests.
        names: in lower case, without a dot at the end; IPv6 addresses in brackets.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        host = Headers(scope=scope).get("host")
        is_ours = host is None or _normal(_without_port(host)) in self._names
        app = self._app if is_ours else _misdirected(host or "")
        await app(scope, receive, send)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _normal(name: str) -> str:
    """Returns a name in lower case, without the dot that may end a whole one."""
    return name.lower().removesuffix(".")


def _misdirected(host: str) -> JSONResponse:
    message = (
        f"no server for {quoted(host)} here: ask for localhost or 127.0.0.1; a proxy must send the "
        "server's own name as Host"
    )
    return JSONResponse({"error": message}, 421)
