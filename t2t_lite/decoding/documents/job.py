"""Translates a document: its segments are decoded as the lines of a file, and put back."""

import dataclasses
import logging
import pathlib
from typing import Any

from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import JSON, TEXT, DecoderConfig
from t2t_lite.decoding.decoding_origin import other_files
from t2t_lite.decoding.documents.document import Document
from t2t_lite.decoding.documents.kinds import DOCUMENTS, ending
from t2t_lite.decoding.loading import find_models
from t2t_lite.decoding.output_files import refuse_overwriting
from t2t_lite.decoding.request import given_flags
from t2t_lite.decoding.stages.confidence import least_confidence
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.text.tags.kinds import PLACEHOLDERS

log = logging.getLogger(__name__)

_SEGMENTS = ".segments"  # the ending of the file of lines, which is there while they are decoded


def read_document(path: str, fuzzy: bool = False, language: str = "") -> Document:
    """Reads a document of the kind that the ending of its name says.

    Args:
        path: the file.
        fuzzy: mark the new translations of a .po file for review.
        language: that of the translations, for files that do not say it; "": unknown.

    Raises:
        UserError: it does not exist.
        DataError: it is malformed, or not in the charset that it declares.
    """
    try:
        contents = pathlib.Path(path).read_bytes()
        return DOCUMENTS[ending(path)].read(contents, fuzzy, language)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (DataError, OSError) as error:
        raise DataError(f"{path}: {error}") from None


def run(config: DecoderConfig) -> None:
    """Translates the document `decode_from_file` to `decode_to_file`.

    A run that was killed goes on where it stopped. Segments have the tags of the document's
    kind; messages, which are plain text, have those that the configuration names, if any.

    Raises:
        UserError: as in `read_document` and `jobs.run`.
    """
    source, target = config.decode_from_file, config.decode_to_file
    trained = find_models(config)
    run = trained[0].run
    language = config.search_settings(run).target_language or run.problem.target_language
    document = read_document(source, config.fuzzy, language)
    asked: dict[str, Any] = given_flags(config)
    kind = asked["markup"] = asked["markup"] or document.kind
    if kind != document.kind != PLACEHOLDERS:
        raise UsageError(
            f"--markup={kind}: the markup of {source} is {document.kind}; leave it out"
        )
    texts = document.segments
    if not texts:
        log.warning("%s has nothing to translate: %s", source, document.report)
    segments = f"{target}{_SEGMENTS}"
    refuse_overwriting([target, segments], [source, *other_files(config, run)], trained)
    asked["output_format"] = JSON if config.review_below else TEXT
    lines = dataclasses.replace(config, decode_from_file=segments, **asked)
    with jobs.decoded_texts(lines, trained, texts) as journal:
        found = [*journal.lines()]
        doubtful = None
        if config.review_below:
            confidences = [least_confidence(line.text) for line in found]
            doubtful = {n for n, own in enumerate(confidences) if own < config.review_below}
        try:
            translated = document.translated([line.output.text for line in found], doubtful)
        except DataError as error:
            raise DataError(f"{source}: {error}") from None
        journal.finish(translated)
    pathlib.Path(segments).unlink()
    for note in document.report.notes:
        log.warning("%s: %s", source, note)
    log.info("wrote %s: %s", target, document.report)
