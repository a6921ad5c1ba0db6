"""Downloads are correct and resumable, however the server misbehaves."""

import hashlib
import http.server
import pathlib
import threading
from collections.abc import Iterator

import pytest

from t2t_lite.data.corpora import corpora, download
from t2t_lite.errors import UserError

CONTENTS = bytes(i * i % 251 for i in range(10_000))
SHA256 = hashlib.sha256(CONTENTS).hexdigest()


class Upstream(http.server.ThreadingHTTPServer):
    """A server with configurable faults.

    Attributes:
        contents: what it has.
        version: its ETag; "": none.
        ranges: whether it answers Range.
        if_range: whether it answers If-Range.
        says_length: whether it sends Content-Length.
        breaks_after: bytes of each answer after which it hangs up.
        longest_part: bytes of an answer to Range at most.
        hangs_after: bytes of each answer after which it sends nothing for a while.
        location: redirects there.
        requests: the Range header of each request, "" for none.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents = CONTENTS
        self.version = '"1"'
        self.ranges = self.if_range = self.says_length = True
        self.breaks_after = self.hangs_after = self.longest_part = 10**9
        self.location = ""
        self.requests: list[str] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/a.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Upstream

    def do_GET(self) -> None:
        upstream = self.server
        wanted = self.headers.get("Range", "")
        upstream.requests.append(wanted)
        if upstream.location:
            self.send_response(302)
            self.send_header("Location", upstream.location)
            self.end_headers()
            return
        unchanged = self.headers.get("If-Range", upstream.version) == upstream.version
        start = 0
        if wanted and upstream.ranges and (unchanged or not upstream.if_range):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        size = len(upstream.contents)
        if start >= size > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{size}")
            self.end_headers()
            return
        body = upstream.contents[start:][: upstream.longest_part if start else None]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{size}")
        if upstream.version:
            self.send_header("ETag", upstream.version)
        if upstream.says_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if len(body) > upstream.hangs_after:
            self.wfile.write(body[: upstream.hangs_after])
            upstream.released.wait(10)
            return
        self.wfile.write(body[: upstream.breaks_after])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def upstream(monkeypatch) -> Iterator[Upstream]:
    monkeypatch.setattr(download, "_CONNECTIONS", 2)
    monkeypatch.setenv("no_proxy", "*")
    with Upstream() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path) -> pathlib.Path:
    return tmp_path / "folder" / "a.bin"


def left(target: pathlib.Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


def kept(target: pathlib.Path) -> pathlib.Path:
    return target.with_name("a.bin.partial")


@pytest.mark.parametrize("says_length", [True, False])
@pytest.mark.parametrize("version", ['"1"', ""])
@pytest.mark.parametrize("known", [{}, {"size": len(CONTENTS)}, {"file_hash": SHA256}])
def test_a_sound_server(upstream, target, says_length, version, known):
    upstream.says_length, upstream.version = says_length, version
    download.download(upstream.url, target, **known)
    assert target.read_bytes() == CONTENTS
    assert left(target) == ["a.bin"]


def test_an_empty_file_is_a_file(upstream, target):
    upstream.contents = b""
    download.download(upstream.url, target, size=0)
    assert target.read_bytes() == b""


@pytest.mark.parametrize("says_length", [True, False])
@pytest.mark.parametrize("size", [1_000_000, 9_999, 1])
def test_a_known_size_is_checked_before_the_file_gets_its_name(upstream, target, size, says_length):
    upstream.says_length, upstream.version = says_length, ""
    message = rf"cannot download {upstream.url} \(it .*{size}.*\); get .* put it at {target}$"
    with pytest.raises(UserError, match=message):
        download.download(upstream.url, target, size=size)
    assert left(target) == []


def test_a_corpus_whose_size_alone_is_known_is_held_to_it(upstream, tmp_path):
    upstream.contents, upstream.says_length = b"x" * 1000, False
    with pytest.raises(UserError, match="it has 1000 bytes, expected 1000000"):
        corpora.RemoteFile(upstream.url, 1_000_000).fetch(str(tmp_path))
    assert not (tmp_path / "a.bin").exists()


def test_no_more_is_read_than_the_known_size(upstream, target, monkeypatch):
    monkeypatch.setattr(download, "_BUFFER", 100)
    upstream.says_length, upstream.hangs_after = False, 9_000  # reading on would time out
    with pytest.raises(UserError, match="it sends more than the expected 5000 bytes"):
        download.download(upstream.url, target, size=5000)
    assert left(target) == []


def test_another_hash_is_an_error(upstream, target):
    with pytest.raises(UserError, match=rf"its hash is {SHA256}, expected {'0' * 64}"):
        download.download(upstream.url, target, "0" * 64)
    assert left(target) == []


def test_it_resumes_where_the_connection_broke(upstream, target):
    upstream.breaks_after = 6_000
    download.download(upstream.url, target)
    assert upstream.requests == ["", "bytes=6000-"]
    assert target.read_bytes() == CONTENTS
    assert left(target) == ["a.bin"]


@pytest.mark.parametrize("known", [{}, {"size": len(CONTENTS)}])
def test_a_part_that_ends_before_the_file_is_not_its_end(upstream, target, known, monkeypatch):
    monkeypatch.setattr(download, "_CONNECTIONS", 3)
    upstream.breaks_after = upstream.longest_part = 4_000
    download.download(upstream.url, target, **known)
    assert upstream.requests == ["", "bytes=4000-", "bytes=8000-"]
    assert target.read_bytes() == CONTENTS


def test_it_resumes_in_a_later_call(upstream, target):
    upstream.breaks_after = 3_000
    with pytest.raises(UserError, match=r"ended after 6000 of 10000 .* resume at byte 6000, or"):
        download.download(upstream.url, target)
    assert left(target) == ["a.bin.partial", "a.bin.partial.version"]
    upstream.breaks_after = 10**9
    download.download(upstream.url, target)
    assert upstream.requests == ["", "bytes=3000-", "bytes=6000-"]
    assert target.read_bytes() == CONTENTS
    assert left(target) == ["a.bin"]


@pytest.mark.parametrize("if_range", [True, False])
def test_a_file_that_has_changed_is_fetched_from_its_start(upstream, target, if_range):
    upstream.breaks_after = 3_000
    with pytest.raises(UserError):
        download.download(upstream.url, target)
    upstream.contents, upstream.version = CONTENTS[::-1], '"2"'
    upstream.breaks_after, upstream.if_range = 10**9, if_range
    download.download(upstream.url, target)
    assert target.read_bytes() == CONTENTS[::-1]


def test_a_file_that_has_become_shorter_is_fetched_from_its_start(upstream, target):
    upstream.breaks_after = 3_000
    with pytest.raises(UserError):
        download.download(upstream.url, target)
    upstream.contents, upstream.if_range = b"short", False
    download.download(upstream.url, target)
    assert target.read_bytes() == b"short"


@pytest.mark.parametrize("ranges", [True, False])
def test_a_server_without_ranges_or_versions_starts_over(upstream, target, ranges):
    upstream.ranges = ranges
    upstream.version = "" if ranges else '"1"'
    upstream.breaks_after = 3_000
    with pytest.raises(UserError):
        download.download(upstream.url, target)
    assert kept(target).exists() is not ranges
    upstream.breaks_after = 10**9
    download.download(upstream.url, target)
    assert target.read_bytes() == CONTENTS
    assert upstream.requests[-1] == ("" if ranges else "bytes=3000-")


@pytest.mark.parametrize("known", [{}, {"size": len(CONTENTS)}])
def test_a_file_that_had_arrived_whole_is_not_fetched_again(upstream, target, known):
    target.parent.mkdir()
    kept(target).write_bytes(CONTENTS)
    kept(target).with_suffix(".partial.version").write_text('"1"')
    download.download(upstream.url, target, **known)
    assert upstream.requests == ([] if known else ["bytes=10000-"])
    assert target.read_bytes() == CONTENTS


@pytest.mark.parametrize("hangs_after", [0, 5_000])
def test_a_server_that_falls_silent_is_given_up(upstream, target, monkeypatch, hangs_after):
    monkeypatch.setattr(download, "_TIMEOUT", 0.1)
    upstream.hangs_after = hangs_after
    with pytest.raises(UserError, match=r"cannot download .* \(.*timed out"):
        download.download(upstream.url, target)
    assert not target.exists()


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/x", "ftp://127.0.0.1:1/x"])
def test_nothing_redirects_from_https_to_less(location):
    redirects = download._Redirects()
    request = download.urllib.request.Request("https://example.invalid/a.bin")
    with pytest.raises(Exception, match=f"redirects to {location}, which is not https"):
        redirects.redirect_request(request, None, 302, "", {}, location)
    followed = redirects.redirect_request(request, None, 302, "", {}, "https://other.invalid/a")
    assert followed.full_url == "https://other.invalid/a"


@pytest.mark.parametrize("location", ["ftp://127.0.0.1:1/x", "file:///etc/hostname", "/a.bin"])
def test_a_redirect_elsewhere_or_in_circles_is_an_error(upstream, target, location):
    upstream.location = location
    with pytest.raises(UserError, match=rf"cannot download {upstream.url} \(.*redirect|infinite"):
        download.download(upstream.url, target)
    assert left(target) == []


def test_two_processes_do_not_fetch_the_same_file(upstream, target):
    target.parent.mkdir()
    with (
        download.locked(target.with_name("a.bin.lock"), "t2t-datagen", "is busy"),
        pytest.raises(UserError, match=f"another t2t-datagen is downloading {target}"),
    ):
        download.download(upstream.url, target)
