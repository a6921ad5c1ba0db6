"""What clients may call the server.

A page on another site can give its own name the address 127.0.0.1, and then, by a browser on this
machine, ask what listens there (DNS rebinding). The Host header tells: it holds that site's name.
"""

import ipaddress
import socket

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from t2t_lite.errors import quoted


def own_names(listener: socket.socket, host: str) -> frozenset[str] | None:
    """Returns the names by which clients may ask for a server on loopback.

    On any other address the names by which others reach it are unknown: None, all are allowed.

    Args:
        listener: where the server listens.
        host: what the user calls that.
    """
    address = ipaddress.ip_address(listener.getsockname()[0])
    if not address.is_loopback:
        return None
    names = {"localhost", "127.0.0.1", "[::1]", bracketed(str(address)), bracketed(host).lower()}
    return frozenset(names)


def bracketed(host: str) -> str:
    """Returns a host as URLs spell it."""
    return f"[{host}]" if ":" in host else host


class OwnNames:
    """Middleware that answers 421 to requests for other names.

    The port may be any: that of a tunnel to the server is another.

    Args:
        app: answers the other requests.
        names: in lower case; IPv6 addresses in brackets.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        host = Headers(scope=scope).get("host", "")
        name, colon, port = host.rpartition(":")
        if not (colon and port.isdecimal()):
            name = host
        app = self._app if name.lower() in self._names else _misdirected(host)
        await app(scope, receive, send)


def _misdirected(host: str) -> JSONResponse:
    message = f"no server for {quoted(host)} here: ask for localhost or 127.0.0.1"
    return JSONResponse({"error": message}, 421)
