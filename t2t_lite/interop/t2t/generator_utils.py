"""T2T's helpers of data generation: downloads, vocabularies and files of records."""

import contextlib
import contextvars
import glob
import gzip
import itertools
import logging
import os
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

from t2t_lite import files
from t2t_lite.data.corpora.download import download
from t2t_lite.data.problem import RANDOM_SEED
from t2t_lite.data.records import frame, framed_records, serialize, shuffled
from t2t_lite.errors import DataError, UserError, quoted, warn_once
from t2t_lite.interop.t2t import datasets
from t2t_lite.interop.t2t.text_encoder import SubwordTextEncoder, is_noting
from t2t_lite.interop.t2t.text_iterators import receiver, txt_line_iterator
from t2t_lite.protocol_buffers import int64
from t2t_lite.text.text_files import raw_pieces

__all__ = [
    "UNSHUFFLED_SUFFIX",
    "combined_data_filenames",
    "dev_data_filenames",
    "generate_dataset_and_shuffle",
    "generate_files",
    "generate_lines_for_vocab",
    "get_or_generate_tabbed_vocab",
    "get_or_generate_txt_vocab",
    "get_or_generate_vocab",
    "get_or_generate_vocab_inner",
    "gunzip_file",
    "maybe_download",
    "maybe_download_from_drive",
    "outputs_exist",
    "shard_filepath",
    "sharded_name",
    "shuffle_dataset",
    "test_data_filenames",
    "to_example",
    "train_data_filenames",
]

log = logging.getLogger(__name__)

UNSHUFFLED_SUFFIX = "-unshuffled"
SIDES = ("inputs", "targets")  # the features that models read
_Features = Mapping[str, Sequence[Any]]
_Change = Callable[[Iterable[_Features]], Iterable[_Features]]

# What `generate_files` does to samples: T2T's may differ from those that are read here.
_change: contextvars.ContextVar[_Change] = contextvars.ContextVar("change", default=iter)


@contextlib.contextmanager
def changing(change: _Change) -> Iterator[None]:
    """Lets `generate_files` write what a function returns for the samples."""
    token = _change.set(change)
    try:
        yield
    finally:
        _change.reset(token)


# ---- names of files


def sharded_name(base_name: str, shard: int, total_shards: int) -> str:
    """Returns the name of one file of several."""
    return f"{base_name}-{shard:05d}-of-{total_shards:05d}"


def shard_filepath(fname: str, num_shards: int) -> list[str]:
    """Returns the names of all files of a split."""
    return [sharded_name(fname, shard, num_shards) for shard in range(num_shards)]


def _data_filenames(name: str, folder: str, num_shards: int) -> list[str]:
    return [os.path.join(folder, file) for file in shard_filepath(name, num_shards)]


def train_data_filenames(problem: str, output_dir: str, num_shards: int) -> list[str]:
    """Returns the paths of the training split."""
    return _data_filenames(f"{problem}-train", output_dir, num_shards)


def dev_data_filenames(problem: str, output_dir: str, num_shards: int) -> list[str]:
    """Returns the paths of the evaluation split."""
    return _data_filenames(f"{problem}-dev", output_dir, num_shards)


def test_data_filenames(problem: str, output_dir: str, num_shards: int) -> list[str]:
    """Returns the paths of the test split."""
    return _data_filenames(f"{problem}-test", output_dir, num_shards)


def combined_data_filenames(problem: str, output_dir: str, num_training_shards: int) -> list[str]:
    """Returns the paths of all splits."""
    return [
        *train_data_filenames(problem, output_dir, num_training_shards),
        *dev_data_filenames(problem, output_dir, 1),
        *test_data_filenames(problem, output_dir, 1),
    ]


def outputs_exist(filenames: Iterable[str]) -> str | None:
    """Returns the first finished file that exists, if any."""
    finished = (name.replace(UNSHUFFLED_SUFFIX, "") for name in filenames)
    return next((name for name in finished if os.path.exists(name)), None)


# ---- files of records


def to_example(dictionary: _Features) -> Any:
    """Returns a `tf.train.Example` of lists of numbers or texts.

    Raises:
        ValueError: a list is empty.
    """
    import tensorflow as tf

    features = {}
    for name, values in dictionary.items():
        found = list(values)
        if not found:
            raise ValueError(f"Empty generated field: {(name, values)}")
        if isinstance(found[0], str | bytes):
            texts = [text.encode() if isinstance(text, str) else text for text in found]
            features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
        elif isinstance(found[0], float):
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=found))
        else:
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=found))
    return tf.train.Example(features=tf.train.Features(feature=features))


def generate_files(
    generator: Iterable[_Features | None],
    output_filenames: Sequence[str],
    max_cases: int | None = None,
    cycle_every_n: int = 1,
) -> None:
    """Writes samples of ids to files in turn, unless one of them exists; they appear when whole.

    Raises:
        ValueError: a feature is empty.
        DataError: inputs or targets are not a list of integers; other features are left out.
    """
    if existing := outputs_exist(output_filenames):
        log.info("%s exists: its files are kept", existing)
        return
    with contextlib.ExitStack() as finishing:
        opened = [finishing.enter_context(files.whole_file(name)) for name in output_filenames]
        with contextlib.ExitStack() as closing:
            out = [closing.enter_context(path.open("wb")) for path in opened]
            cases = _change.get()(case for case in generator if case is not None)
            for number, case in enumerate(cases):
                if max_cases and number >= max_cases:
                    break
                record = _serialized(case, number + 1)
                out[number // cycle_every_n % len(out)].write(frame(record))


def _serialized(case: _Features, number: int) -> bytes:
    features = {}
    for name, ids in case.items():
        try:
            features[name] = [int64(id_) for id_ in ids]
        except (TypeError, OverflowError) as error:
            if name not in SIDES:
                warn_once(f"generate_files: {name} is left out: no model here reads it")
                continue
            raise DataError(
                f"generate_files: sample {number}: {name}: expected a list of integers, got "
                f"{quoted(ids)} ({error})"
            ) from None
        if not features[name]:
            raise ValueError(f"Empty generated field: {(name, ids)}")
    return serialize(features)


def shuffle_dataset(
    filenames: Sequence[str], extra_fn: Callable[[list[bytes]], list[bytes]] | None = None
) -> None:
    """Shuffles each file, removing "-unshuffled" from its name.

    As in T2T, files that exist without it are kept as they are. If there are some, so that an
    earlier call was interrupted or is repeated, other files may be missing.

    Raises:
        ValueError: `extra_fn`, which packs examples, is given.
    """
    if extra_fn is not None:
        raise ValueError("extra_fn: packed examples are not available; omit packed_length")
    has_begun = outputs_exist(filenames)
    for name in filenames:
        path = pathlib.Path(name)
        final = pathlib.Path(name.replace(UNSHUFFLED_SUFFIX, ""))
        if final.exists() or (has_begun and not path.exists()):
            continue
        seed = f"{RANDOM_SEED}/{final.name}"
        with path.open("rb") as file, files.whole_file(final) as new, new.open("wb") as out:
            records = framed_records(file, name)
            out.writelines(shuffled(records, path.stat().st_size, seed, final.parent))
        path.unlink()


def generate_dataset_and_shuffle(
    train_gen: Iterable[_Features],
    train_paths: Sequence[str],
    dev_gen: Iterable[_Features],
    dev_paths: Sequence[str],
    shuffle: bool = True,
) -> None:
    """Writes training and evaluation files, and shuffles both."""
    generate_files(train_gen, train_paths)
    generate_files(dev_gen, dev_paths)
    if shuffle:
        shuffle_dataset([*train_paths, *dev_paths])


# ---- downloads


def maybe_download(directory: str, filename: str, uri: str) -> str:
    """Returns the path of a file, downloaded or copied unless it exists.

    Raises:
        UserError: it cannot be downloaded; the message says where to put it.
    """
    path = pathlib.Path(directory, filename)
    if path.is_file():
        return str(path)
    file = datasets.remote_file(uri)
    if uri.startswith(("http://", "https://")):
        download(file.url, path, file.file_hash, file.size)
    elif os.path.isfile(uri):
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.whole_file(path) as new:
            shutil.copyfile(uri, new)
    else:
        raise UserError(f"cannot get {uri}: put the file at {path}")
    return str(path)


def maybe_download_from_drive(directory: str, filename: str, url: str) -> str:
    """Returns the path of a file that exists.

    Raises:
        UserError: it is missing; it cannot be downloaded without a browser.
    """
    path = pathlib.Path(directory, filename)
    if not path.is_file():
        raise UserError(
            f"{path} is missing; Google Drive asks for confirmation before it sends large files: "
            f"download {url} with a browser and put it there"
        )
    return str(path)


def gunzip_file(gz_path: str, new_path: str) -> None:
    """Decompresses a file unless the result exists.

    Raises:
        UserError: there is no such file.
        DataError: it is damaged, truncated or not compressed.
    """
    if os.path.exists(new_path):
        return
    with files.whole_file(new_path) as new, new.open("wb") as out:
        out.writelines(raw_pieces(_unpacked(gz_path), gz_path, receiver()))


@contextlib.contextmanager
def _unpacked(gz_path: str) -> Iterator[BinaryIO]:
    with gzip.open(gz_path) as packed:
        yield cast(BinaryIO, packed)


# ---- vocabularies


def get_or_generate_vocab_inner(
    data_dir: str | None,
    vocab_filename: str,
    vocab_size: int,
    generator: Iterable[str],
    max_subtoken_length: int | None = None,
    reserved_tokens: Sequence[str] | None = None,
) -> SubwordTextEncoder:
    """Returns the vocabulary of a file, which is built from text if it is missing.

    Raises:
        DataError: there is no text to build it from.
    """
    path = os.path.join(data_dir, vocab_filename) if data_dir and vocab_filename else None
    if path and (is_noting() or os.path.exists(path)):
        return SubwordTextEncoder(path)
    log.info("building the vocabulary %s", path)
    lines = (line for line in generator if line)
    first = next(lines, None)
    if first is None:
        raise DataError(f"cannot build {path or 'a vocabulary'}: its text is empty")
    encoder = SubwordTextEncoder.build_from_generator(
        itertools.chain([first], lines), vocab_size, max_subtoken_length, reserved_tokens
    )
    if path:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        encoder.store_to_file(path)
    return encoder


def get_or_generate_vocab(
    data_dir: str,
    tmp_dir: str,
    vocab_filename: str,
    vocab_size: int,
    sources: Iterable[datasets.Entry],
    file_byte_budget: float = 1e6,
    max_subtoken_length: int | None = None,
) -> SubwordTextEncoder:
    """Returns the vocabulary of a file, which is built from data sets if it is missing."""
    lines = generate_lines_for_vocab(tmp_dir, sources, file_byte_budget)
    return get_or_generate_vocab_inner(
        data_dir, vocab_filename, vocab_size, lines, max_subtoken_length
    )


def generate_lines_for_vocab(
    tmp_dir: str, sources: Iterable[datasets.Entry], file_byte_budget: float = 1e6
) -> Iterator[str]:
    """Yields T2T's sample of data sets for a vocabulary."""
    return datasets.lines_for_vocab(sources, tmp_dir, file_byte_budget)


def get_or_generate_tabbed_vocab(
    data_dir: str,
    tmp_dir: str,
    source_filename: str,
    index: int,
    vocab_filename: str,
    vocab_size: int,
) -> SubwordTextEncoder:
    """Returns a vocabulary of one column, 0 or 1, of a table in `tmp_dir`."""

    def cells() -> Iterator[str]:
        for line in txt_line_iterator(os.path.join(tmp_dir, source_filename)):
            if "\t" in line:
                yield line.split("\t", 1)[index].strip()

    return get_or_generate_vocab_inner(data_dir, vocab_filename, vocab_size, cells())


def get_or_generate_txt_vocab(
    data_dir: str, vocab_filename: str, vocab_size: int, filepatterns: str | Sequence[str]
) -> SubwordTextEncoder:
    """Returns a vocabulary of text files.

    Raises:
        UserError: the vocabulary is to be built, and no file matches any pattern.
        DataError: the files have no text.
    """
    patterns = [filepatterns] if isinstance(filepatterns, str) else filepatterns
    lines = _lines_of_files(patterns)
    return get_or_generate_vocab_inner(data_dir, vocab_filename, vocab_size, lines)


def _lines_of_files(patterns: Sequence[str]) -> Iterator[str]:
    paths = [path for pattern in patterns for path in sorted(glob.glob(pattern))]
    if not paths:
        raise UserError(f"{', '.join(patterns)}: no such file, and so no text for a vocabulary")
    for path in paths:
        yield from txt_line_iterator(path)
