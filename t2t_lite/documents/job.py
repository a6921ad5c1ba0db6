"""Translates a document: its segments are decoded as the lines of a file, and put back."""

import dataclasses
import logging
import pathlib

from t2t_lite import files
from t2t_lite.decoding import jobs
from t2t_lite.decoding.batch_journal import WRITTEN_BESIDE
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.loading import find_models
from t2t_lite.documents.document import Document
from t2t_lite.documents.html_page import HtmlPage
from t2t_lite.documents.kinds import HTML_ENDINGS, PO_ENDINGS, ending
from t2t_lite.documents.po_file import PoFile
from t2t_lite.documents.xliff_file import XliffFile
from t2t_lite.errors import DataError, UserError

log = logging.getLogger(__name__)

_SEGMENTS = ".segments"  # the ending of the file of lines, which is there while they are decoded


def read_document(path: str) -> Document:
    """Reads a document of the kind that the ending of its name says.

    Raises:
        UserError: it does not exist, or needs a package that is missing.
        DataError: it is malformed, or not in UTF-8.
    """
    try:
        contents = pathlib.Path(path).read_bytes()
        if ending(path) in PO_ENDINGS:
            return PoFile(contents)
        return HtmlPage(contents) if ending(path) in HTML_ENDINGS else XliffFile(contents)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not in UTF-8 ({error}): convert it, with iconv for example"
        ) from None
    except (DataError, OSError) as error:
        raise DataError(f"{path}: {error}") from None


def run(config: DecoderConfig) -> None:
    """Translates the document `decode_from_file` to `decode_to_file`.

    A run that was killed goes on where it stopped. Segments have the markup that the configuration
    names, or that of the document's kind.

    Raises:
        UserError: as in `read_document` and `jobs.run`.
    """
    source, target = config.decode_from_file, config.decode_to_file
    document = read_document(source)
    trained = find_models(config)
    segments = f"{target}{_SEGMENTS}"
    inputs = [source, *filter(None, (config.terms, config.forbid))]
    own = [path for one in trained for path in one.files()]
    for path in (target, segments):
        files.refuse_overwriting(path, [*inputs, *own], WRITTEN_BESIDE)
    files.write_text(segments, "".join(f"{segment}\n" for segment in document.segments))
    lines = dataclasses.replace(
        config, decode_from_file=segments, markup=config.markup or document.markup
    )
    with jobs.decoded(lines, trained) as journal:
        outputs = [line.output.text for line in journal.lines()]
        journal.finish(document.translated(outputs))
    pathlib.Path(segments).unlink()
    log.info("wrote %s: %d segments", target, len(outputs))
