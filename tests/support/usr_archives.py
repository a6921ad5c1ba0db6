"""The data sets of `TranslateUsr` (tests/fixtures/t2t_usr_dir)."""

import gzip
import pathlib

from support.archives import write_archive


def lines(word: str, count: int = 40) -> bytes:
    """Returns so many lines about a word."""
    return "".join(f"{word} number {i} is here.\n" for i in range(count)).encode()


def _sgm(word: str) -> bytes:
    segments = "".join(f'<seg id="{i}">{word} {i} &amp; more.</seg>\n' for i in range(5))
    return f'<srcset setid="x">\n<doc docid="1">\n<p>\n{segments}</p>\n</doc>\n</srcset>\n'.encode()


def write_archives(folder: pathlib.Path) -> None:
    """Writes the archives to a folder."""
    folder.mkdir(exist_ok=True)
    text = {"text/train.en": lines("Cat", 50), "text/train.de": lines("Katze", 50)}
    write_archive(folder / "text.tgz", text)
    news = {"news/news.en.sgm": _sgm("News"), "news/news.de.sgm": _sgm("Neues")}
    write_archive(folder / "news.tar", news)
    rows = "".join(f"Zeile {i}\tLine {i}\n" for i in range(5))
    (folder / "table.tsv.gz").write_bytes(gzip.compress(rows.encode()))
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>Memory {i}.</seg></tuv>'
        f'<tuv xml:lang="de"><seg>Speicher {i}.</seg></tuv></tu>\n'
        for i in range(5)
    )
    memory = f'<?xml version="1.0"?>\n<tmx version="1.4"><body>{units}</body></tmx>\n'
    (folder / "memory.tmx.gz").write_bytes(gzip.compress(memory.encode()))
    packed = {"en": gzip.compress(lines("Dog", 4)), "de": gzip.compress(lines("Hund", 4))}
    write_archive(folder / "packed.zip", {f"packed.{x}.gz": text for x, text in packed.items()})
    dev = {"dev/dev.en": lines("Bird", 10), "dev/dev.de": lines("Vogel", 10)}
    write_archive(folder / "dev.tar.gz", dev)
    (folder / "own.en").write_text("A first one. A second one.\nno sentence\n\n")
    (folder / "own.de").write_text("Ein erster. Ein zweiter.\nkein Satz\n\n")
