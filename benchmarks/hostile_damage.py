"""How `hostile.py` damages files."""

import bz2
import gzip
import pathlib
import random
import re

# Input that is hard on readers: markup, brackets, JSON, numbers, bytes that are not text.
TOKENS = (
    *(b"\0", b"\n", b"\r\n", b" ", b"\t", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xc2\x85"),
    *(b"(", b")", b"(S ", b"<seg>", b"</seg>", b"<tu>", b"<tuv>", b"&#55296;", b"<!DOCTYPE x ["),
    *(b"[", b"{", b'"', b"'", b"\\ud800", b"null", b"NaN", b"-1", b"0", b"1e999", b"9" * 40),
    *(b",", b"=", b"_", b"\\", b"--problem=x\n", b"PK\3\4", b"PK\5\6", b"\x1f\x8b\x08", b"BZh9"),
)


def damaged(contents: bytes, draw: random.Random) -> bytes:
    """Returns damaged contents for a file."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        start = draw.randint(0, len(contents))
        end = min(len(contents), start + int(draw.expovariate(1 / 8)) + 1)
        token, cut = draw.choice(TOKENS), contents[start:end]
        contents = draw.choice(
            (
                contents[:start] + draw.randbytes(end - start) + contents[end:],
                contents[:start] + contents[end:],
                contents[:start],
                contents[:start] + token + contents[end:],
                contents[:start] + token * draw.choice((2, 100, 20_000)) + contents[start:],
                contents[:start] + cut * draw.choice((2, 100, 5_000)) + contents[end:],
                contents[:start] + bytes(draw.choice((10, 5_000))) + contents[end:],
                _another_number(contents, draw),
            )
        )
    return contents


def _another_number(contents: bytes, draw: random.Random) -> bytes:
    found = draw.choice([*re.finditer(rb"\d+", contents)] or [None])
    if found is None:
        return b""
    number = draw.choice((b"0", b"-1", b"1.5", b"1e999", b'"x"', b"null", b"[]", b"9" * 400))
    return contents[: found.start()] + number + contents[found.end() :]


def damage_file(path: pathlib.Path, draw: random.Random) -> None:
    """Damages a file; of a compressed file, either the file or its content."""
    contents = path.read_bytes()
    inside = {".gz": gzip, ".tgz": gzip, ".bz2": bz2}.get(path.suffix)
    if inside and draw.random() < 0.5:
        contents = inside.compress(damaged(inside.decompress(contents), draw))
    else:
        contents = damaged(contents, draw)
    path.write_bytes(contents)
