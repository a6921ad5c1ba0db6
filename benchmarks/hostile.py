"""Damaged and hostile input for every reader: no traceback, no hang, nothing overwritten.

    python benchmarks/hostile.py [--inputs=10000] [--seed=0]

takes valid samples of everything that the package reads, damages them at random and reads them as
the commands do. For each reader it counts inputs that were read anyway and inputs refused with a
user error. Anything else is a violation: another exception, more than 5 s for one input, a message
of several lines, or a sample file that the reader has changed. For each violation it prints the
command that reproduces it, and it exits with 1. The same seed draws the same inputs, independently
of each other.
"""

import argparse
import contextlib
import faulthandler
import hashlib
import logging
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import hostile_directories
import hostile_imports
import hostile_readers
import hostile_requests
import hostile_user_files
from hostile_readers import Reader
from starlette.exceptions import HTTPException

from t2t_lite.errors import UserError

MOST_SECONDS = 5.0
READERS = {
    name: reader
    for module in (
        hostile_readers,
        hostile_user_files,
        hostile_directories,
        hostile_imports,
        hostile_requests,
    )
    for name, reader in module.READERS.items()
}


# ---- the trial


class ViolationError(Exception):
    """A reader did something that must not happen."""


class Overdue(BaseException):
    """An input has taken too long; no reader catches this."""


class Outcome(logging.Handler):
    """Formats every log line as the commands do, but discards it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Formats a line."""
        self.format(record)


def digest(folder: pathlib.Path, without: tuple[str, ...]) -> str:
    """Returns a digest of the names and contents of a folder's files."""
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.name not in without and not path.name.endswith(".lock"):
            found.update(f"{path.name} {path.stat().st_size} ".encode() + path.read_bytes())
    return found.hexdigest()


def is_read(reader: Reader, folder: pathlib.Path, seed: str) -> bool:
    """Damages one file of a folder and reads it; returns whether it was accepted.

    Raises:
        ViolationError: the reader neither accepted nor properly refused it.
    """
    draw = random.Random(seed)
    reader.damage(draw.choice(sorted(folder.glob(reader.damages))), draw)
    before, began = digest(folder, reader.writes), time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    read = True
    try:
        reader.read(folder)
    except (UserError, HTTPException) as error:
        read = False
        if "\n" in str(error).strip():
            raise ViolationError(f"a message of several lines: {error}") from error
    except Overdue as error:
        raise ViolationError(f"more than {MOST_SECONDS} s: {traceback.format_exc()}") from error
    except BaseException as error:
        raise ViolationError(traceback.format_exc()) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if time.monotonic() - began > MOST_SECONDS:
        raise ViolationError(f"took {time.monotonic() - began:.1f} s")
    if digest(folder, reader.writes) != before:
        raise ViolationError("files were changed by reading them")
    return read


def run_reader(name: str, numbers: range, seed: int) -> int:
    """Reads damaged inputs, prints a line of counts, and returns the number of violations."""
    reader = READERS[name]
    read = refused = violations = 0
    began, slowest = time.monotonic(), 0.0
    with tempfile.TemporaryDirectory(prefix="hostile-") as parent:
        sound, folder = pathlib.Path(parent, "sound"), pathlib.Path(parent, "folder")
        sound.mkdir()
        reader.write(sound)
        shutil.copytree(sound, folder)
        reader.read(folder)  # undamaged input must be accepted
        for number in numbers:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(sound, folder)
            start = time.monotonic()
            # Signals do not end a loop in C.
            faulthandler.dump_traceback_later(60, exit=True, file=sys.__stderr__)
            try:
                if is_read(reader, folder, f"{seed}/{name}/{number}"):
                    read += 1
                else:
                    refused += 1
            except ViolationError as violation:
                violations += 1
                print(f"{name}: {violation}\nagain: {again(name, number, seed)}", flush=True)
            slowest = max(slowest, time.monotonic() - start)
    faulthandler.cancel_dump_traceback_later()
    seconds = time.monotonic() - began
    print(
        f"{name:<24}{len(numbers):>6} inputs {read:>6} read {refused:>6} refused "
        f"{violations:>4} violations   slowest {slowest:.2f} s of {seconds:.1f} s",
        flush=True,
    )
    return violations


def again(name: str, number: int, seed: int) -> str:
    """Returns the command that reproduces one input."""
    return f"python benchmarks/hostile.py --seed={seed} --reader='{name}' --number={number}"


@contextlib.contextmanager
def on_trial() -> Iterator[None]:
    """Inside the block, an alarm raises `Overdue`, and log lines are formatted but discarded."""

    def overdue(*_: object) -> None:
        raise Overdue

    handler, log = Outcome(), logging.getLogger("t2t_lite")
    before, propagate = signal.signal(signal.SIGALRM, overdue), log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        log.removeHandler(handler)
        log.propagate = propagate


def main(arguments: list[str] | None = None) -> int:
    """Runs the trial; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", choices=READERS, help="only this reader")
    parser.add_argument("--number", type=int, help="only this input of --reader")
    args = parser.parse_args(arguments)
    logging.getLogger("t2t_lite").setLevel(logging.INFO)
    names = [args.reader] if args.reader else list(READERS)
    shares = sum(READERS[name].share for name in names)
    violations = inputs = 0
    passed = 0.0  # shares of the readers so far
    for name in names:
        passed += READERS[name].share
        count = round(args.inputs * passed / shares) - inputs
        numbers = range(count) if args.number is None else range(args.number, args.number + 1)
        with on_trial():
            violations += run_reader(name, numbers, args.seed)
        inputs += len(numbers)
    print(f"{inputs} inputs, {violations} violations")
    return int(violations > 0)


if __name__ == "__main__":
    sys.exit(main())
