"""Downloads: verified before the file gets its name, and resumed after an interruption.

`NAME.partial` holds the bytes received so far. `NAME.partial.version` identifies the version of
the remote file to which they belong: the server's ETag, or the time of its last change.
"""

import email.message
import http
import http.client
import logging
import pathlib
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import IO, Any

from t2t_lite.errors import UserError
from t2t_lite.files import digest, whole_file, write_text
from t2t_lite.lock import locked
from t2t_lite.progress import progress

log = logging.getLogger(__name__)

# Seconds without data after which a connection counts as lost.
_TIMEOUT = 60.0
# Total number of connections; a new one is opened only if the previous one received data.
_CONNECTIONS = 10
_BUFFER = 1 << 18

_HASHES = {32: "md5", 64: "sha256"}  # by hexadecimal digits
_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-[0-9]{1,18}|\*)/([0-9]{1,18}|\*)")


class _BrokenOffError(Exception):
    """The connection ended before the file did; the next one may resume."""


class _ChangedError(Exception):
    """The partial file does not belong to the remote file's current version."""


class _WrongFileError(Exception):
    """The remote file is not the expected one."""


def download(
    url: str, path: pathlib.Path, file_hash: str | None = None, size: int | None = None
) -> None:
    """Downloads a file; it appears only when complete and verified.

    If the server supports it, an interrupted download is resumed, even in a later call. A remote
    file that has changed meanwhile is downloaded from its start.

    Args:
        url: the address. Redirects from https to other schemes are refused.
        path: the file to write; missing parent folders are created.
        file_hash: the expected SHA-256 or MD5, hexadecimal.
        size: the expected size in bytes. Reading stops if the server sends more.

    Raises:
        UserError: the download failed, and the message says where to put the file by hand; or
            another process is downloading it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(f"{path.name}.lock"), "t2t-datagen", f"is downloading {path}"):
        transfer = _Transfer(url, path, size)
        try:
            transfer.complete()
            _check(transfer.partial, size, file_hash)
        except _WrongFileError as error:
            transfer.discard()
            raise _failure(url, path, error) from error
        except (OSError, http.client.HTTPException, ValueError, _BrokenOffError) as error:
            kept = transfer.keep_for_resuming()
            raise _failure(url, path, error, kept) from error
        with whole_file(path) as temporary:
            transfer.partial.replace(temporary)
        transfer.discard()


class _Transfer:
    """A partially received file, and the connections that receive the rest."""

    def __init__(self, url: str, path: pathlib.Path, size: int | None) -> None:
        self.partial = path.with_name(f"{path.name}.partial")
        self._version_file = path.with_name(f"{path.name}.partial.version")
        self._url = url
        self._size = size
        self._opener = urllib.request.build_opener(_Redirects)

    @property
    def arrived(self) -> int:
        """Size of the partial file in bytes."""
        return self.partial.stat().st_size if self.partial.exists() else 0

    def complete(self) -> None:
        """Downloads the rest, reconnecting as needed."""
        if not self._version():
            self.discard()  # its version is unknown
        for connection in range(1, _CONNECTIONS + 1):
            before = self.arrived
            if self.partial.exists() and before == self._size:
                return
            try:
                self._connect()
                return
            except _ChangedError as error:
                log.warning("%s: %s; downloading it again", self._url, error)
                self.discard()
            except (TimeoutError, ConnectionError, http.client.HTTPException, _BrokenOffError):
                if connection == _CONNECTIONS or not self._version() or self.arrived <= before:
                    raise
                log.info("%s: interrupted after %d bytes; resuming", self._url, self.arrived)

    def discard(self) -> None:
        """Removes the partial file."""
        self.partial.unlink(missing_ok=True)
        self._version_file.unlink(missing_ok=True)

    def keep_for_resuming(self) -> int:
        """Returns the bytes that a later call can resume from; discards them if it cannot."""
        if not (self._version() and self.arrived):
            self.discard()
        return self.arrived

    def _version(self) -> str:
        """Returns the ETag or date of the partial file; "" if it cannot be resumed."""
        try:
            return self._version_file.read_text(encoding="ascii")
        except (OSError, ValueError):
            return ""

    def _connect(self) -> None:
        """Requests the missing bytes and writes them."""
        start = self.arrived
        log.info("downloading %s from %s", self._url, f"byte {start}" if start else "its start")
        response = self._open(start)
        if response is None:
            return
        with response:
            length = _length(response.headers)
            total = length
            if start and getattr(response, "status", None) == http.HTTPStatus.PARTIAL_CONTENT:
                first, total = _content_range(response.headers)  # a range may end before the file
                if first != start:
                    raise _ChangedError("the server sent a different range than requested")
                if _version_of(response.headers) not in ("", self._version()):
                    raise _ChangedError("it has changed")
                if total is None and length is not None:
                    total = start + length
            else:  # the whole file: a first request, no support for ranges, or a changed file
                start = 0
                self.discard()
                if version := _version_of(response.headers):
                    write_text(self._version_file, version)
            self._write(response, start, total)

    def _open(self, start: int) -> Any:
        """Returns a response with the rest or the whole file; None if nothing is missing."""
        request = urllib.request.Request(self._url)
        if start:
            request.add_header("Range", f"bytes={start}-")
            request.add_header("If-Range", self._version())
        try:
            return self._opener.open(request, timeout=_TIMEOUT)
        except urllib.error.HTTPError as error:
            error.close()
            if not start or error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
            if _content_range(error.headers)[1] != start:
                raise _ChangedError(f"it ends before byte {start}") from None
            return None

    def _write(self, response: Any, start: int, total: int | None) -> None:
        """Appends a response to the first `start` of the file's `total` bytes."""
        if self._size is not None and total not in (None, self._size):
            raise _WrongFileError(f"it has {total} bytes, expected {self._size}")
        expected = self._size if total is None else total
        with progress(f"downloading {self.partial.stem}", expected, "bytes") as advance:
            advance(start)
            with self.partial.open("ab") as file:
                for block in _blocks(response):
                    file.write(block)
                    advance(len(block))
                    if self._size is not None and file.tell() > self._size:
                        raise _WrongFileError(f"it sends more than the expected {self._size} bytes")
        if expected is not None and self.arrived < expected:
            raise _BrokenOffError(f"it ended after {self.arrived} of {expected} bytes")


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Follows redirects to https, and from http to http."""
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme != "https" and (scheme, req.type) != ("http", "http"):
            raise _WrongFileError(f"it redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _blocks(response: IO[bytes]) -> Iterator[bytes]:
    while block := response.read(_BUFFER):
        yield block


def _version_of(headers: email.message.Message) -> str:
    """Returns the value for If-Range: a strong ETag, or the date of the last change."""
    tag = headers.get("ETag", "")
    version = tag if tag.startswith('"') else headers.get("Last-Modified", "")
    return version if version.isascii() and version.isprintable() else ""


def _length(headers: email.message.Message) -> int | None:
    """Returns the response's declared length in bytes, if any."""
    text = headers.get("Content-Length", "")
    is_known = re.fullmatch("[0-9]{1,18}", text) and "Transfer-Encoding" not in headers
    return int(text) if is_known else None


def _content_range(headers: email.message.Message) -> tuple[int | None, int | None]:
    """Returns the offset of the response and the size of the file, as far as declared."""
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    first, size = match.groups() if match else (None, None)
    return (int(first) if first else None), (int(size) if size and size != "*" else None)


def _check(path: pathlib.Path, size: int | None, file_hash: str | None) -> None:
    """Raises _WrongFileError unless the file has the expected size and hash."""
    found = path.stat().st_size
    if size is not None and found != size:
        raise _WrongFileError(f"it has {found} bytes, expected {size}")
    if file_hash is not None:
        found_hash = digest(path, _HASHES[len(file_hash)])
        if found_hash != file_hash.lower():
            raise _WrongFileError(f"its hash is {found_hash}, expected {file_hash}")


def _failure(url: str, path: pathlib.Path, error: Exception, kept: int = 0) -> UserError:
    reason = getattr(error, "reason", None) or str(error) or type(error).__name__
    again = f"run this again to resume at byte {kept}, or " if kept else ""
    return UserError(
        f"cannot download {url} ({reason}); {again}get it by other means and put it at {path}"
    )
