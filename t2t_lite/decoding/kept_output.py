"""Decodes a file once: an output that exists is kept if it was made from the same."""

import logging
import pathlib

from t2t_lite import files, kept_work
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoding_origin import DecodingOrigin
from t2t_lite.decoding.loading import find_models
from t2t_lite.decoding.output_files import refuse_overwriting
from t2t_lite.errors import UserError
from t2t_lite.lock import locked

log = logging.getLogger(__name__)

RECORD = ".origin.json"  # the ending of the file that says what an output was made from


def run_once(config: DecoderConfig, command: str) -> None:
    """Decodes a file, unless `decode_to_file` exists and was made from the same.

    Args:
        config: names the two files, and the model.
        command: the command that does it, for messages.

    Raises:
        UserError: as in `jobs.run`; or the output was made from something else, or changed since.
    """
    target = pathlib.Path(config.decode_to_file)
    record, lock = (target.with_name(target.name + end) for end in (RECORD, RECORD + ".lock"))
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(lock, command, f"is writing {target}", wait=True):
        trained = find_models(config)
        read = DecodingOrigin.of(config, trained[0].run)
        origin = read.values(trained)
        if found := kept_work.read_record(target, record):
            kept_work.refuse_another(target, found, origin)
            if found["output"] != files.digest(target):
                raise UserError(f"{target} has changed since it was made: remove it, or rename it")
            log.info("%s exists, made from the same: it is kept", target)
            return
        refuse_overwriting([str(target), str(record)], [*read.inputs, *read.others], trained)

        def write_record(written: pathlib.Path) -> None:
            kept_work.write_record(record, origin, output=files.digest(written))

        with jobs.decoded(config, trained, read) as journal:
            journal.finish(before=write_record)
    log.info("wrote %s", target)
