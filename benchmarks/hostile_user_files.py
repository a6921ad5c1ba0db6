"""What `hostile.py` damages: Keras archives, and the files that T2T's functions read."""

import functools
import gzip
import io
import pathlib
import random
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator

import h5py
import keras
import numpy as np
from hostile_damage import damage_file, damaged
from hostile_readers import (
    ENGLISH,
    GERMAN,
    WORDS,
    Reader,
    all_of,
    consumed,
    lines_of,
    translation_memory,
    write_records,
    write_tar,
)

import t2t_lite
from t2t_lite.interop.t2t import datasets, generator_utils, text_encoder, text_iterators, translate
from t2t_lite.text.bad_input import STRICT, BadInput

# ---- Keras archives

_WEIGHTS = "model.weights.h5"


def write_archive(folder: pathlib.Path) -> None:
    """Writes a model of this package and Keras, and its weights as they must be read."""
    ids = keras.Input([None], dtype="int32")
    encoder = t2t_lite.TransformerEncoder(
        "transformer_test", 13, hidden_size=8, filter_size=12, num_heads=2, num_hidden_layers=1
    )
    mean = keras.layers.GlobalAveragePooling1D()(encoder(ids))
    model = keras.Model(ids, keras.layers.Dense(3)(mean))
    model.save(folder / "model.keras")
    np.savez(folder / "weights.npz", *model.get_weights())


def read_archive(folder: pathlib.Path) -> None:
    """Loads it.

    Raises:
        AssertionError: other weights than those in the archive were loaded without an error.
    """
    path = folder / "model.keras"
    model = t2t_lite.load_model(path)
    with zipfile.ZipFile(path) as archive:
        written = archive.getinfo(_WEIGHTS).CRC
    if written == _checksums.setdefault(folder.parent, written):  # of the sound archive, read first
        known = np.load(folder / "weights.npz")
        for name, weight in zip(known, model.get_weights(), strict=True):
            np.testing.assert_array_equal(weight, known[name])


_checksums: dict[pathlib.Path, int] = {}


def damage_archive(path: pathlib.Path, draw: random.Random) -> None:
    """Damages the archive, or a member in a sound one, or puts a member in its place.

    The weights of a sound archive remain an HDF5 file or none: its library is not on trial.
    """
    kind = draw.random()
    if kind < 0.5:
        damage_file(path, draw)
        return
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(list(members))
    if kind > 0.97:
        path.write_bytes(members[name])
        return
    if draw.random() < 0.1:
        del members[name]
    elif name == _WEIGHTS:
        members[name] = draw.choice((_other_arrays, _cut))(members[name], draw)
    else:
        members[name] = damaged(members[name], draw)
    with zipfile.ZipFile(path, "w", draw.choice((0, zipfile.ZIP_DEFLATED))) as archive:
        for name, contents in members.items():
            archive.writestr(name, contents)


def _other_arrays(weights: bytes, draw: random.Random) -> bytes:
    """Changes some groups and arrays of an HDF5 file."""
    file = io.BytesIO(weights)
    with h5py.File(file, "r+") as root:
        for _ in range(draw.choice((1, 1, 3))):
            names: list[str] = []
            root.visit(names.append)
            name = draw.choice(names)
            found, other = root[name], draw.choice(names)
            del root[name]
            if isinstance(found, h5py.Dataset):
                shape = draw.choice([(), (0,), (1, *found.shape), found.shape[::-1], (3, 2**40)])
                kind = draw.choice(["f4", "f8", "i8", "S3", found.dtype])
                root.create_dataset(name, shape, kind, chunks=(1, 1) if len(shape) == 2 else None)
            elif other in root:
                root[name] = draw.choice((h5py.SoftLink("/nowhere"), root[other]))
    return file.getvalue()


def _cut(weights: bytes, draw: random.Random) -> bytes:
    return weights[: draw.randint(0, len(weights))]


# ---- what T2T's functions read in user directories

_SETS = (
    ["http://no.such.host/text.tgz", ("c/a.en", "c/a.de")],
    ["http://no.such.host/packed.zip", ("a.en.gz", "a.de.gz")],
    ["http://no.such.host/table.tsv.gz", ("tsv", 1, 0, "table.tsv*")],
    ["http://no.such.host/memory.tmx.gz", ("tmx", "memory.tmx.gz")],
    ["", ("b.en", "b.de")],
)


def write_t2t_texts(folder: pathlib.Path) -> None:
    """Writes texts, lists of data sets, vocabularies and records."""
    write_tar(folder, "text.tgz")
    with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
        for name, text in {"a.en.gz": ENGLISH, "a.de.gz": GERMAN}.items():
            archive.writestr(zipfile.ZipInfo(name), gzip.compress(lines_of(text), mtime=0))
    pairs = lines_of([f"{one}\t{other}" for one, other in zip(ENGLISH, GERMAN, strict=True)])
    (folder / "table.tsv.gz").write_bytes(gzip.compress(pairs, mtime=0))
    (folder / "memory.tmx.gz").write_bytes(gzip.compress(translation_memory().encode(), mtime=0))
    (folder / "b.en").write_bytes(lines_of(ENGLISH))
    (folder / "b.de").write_bytes(lines_of(GERMAN))
    (folder / "pairs.txt").write_bytes(pairs)
    labelled = [f"{text}\tExtra_Label: {number}" for number, text in enumerate(GERMAN)]
    (folder / "labelled.txt").write_bytes(lines_of(labelled))
    (folder / "numbers.txt").write_bytes(lines_of(["0", "1", "2"] * 20))
    (folder / "names.txt").write_bytes(lines_of(["bad", "good", "so"] * 20))
    text_encoder.SubwordTextEncoder.build_from_generator(ENGLISH, 90).store_to_file(
        str(folder / "vocab.subwords")
    )
    (folder / "vocab.tokens").write_bytes(lines_of(["<pad>", "<EOS>", "<UNK>", *WORDS]))
    write_records(folder)


def read_t2t_texts(folder: pathlib.Path, bad: BadInput) -> Iterator[object]:
    """Reads everything as T2T's functions do; bad lines are those of the problem at work."""
    tmp_dir = str(folder)
    english, pairs = str(folder / "b.en"), str(folder / "pairs.txt")
    iterators: list[Callable[[], Iterator[object]]] = [
        lambda: text_iterators.txt_line_sharded_iterator(f"{tmp_dir}/b.*"),
        lambda: text_iterators.text2text_txt_iterator(english, str(folder / "b.de")),
        lambda: text_iterators.text2text_txt_tab_iterator(pairs),
        lambda: text_iterators.text2self_txt_iterator(english),
        lambda: text_iterators.txt_and_label_iterator(str(folder / "labelled.txt")),
        lambda: text_iterators.text2class_txt_iterator(english, str(folder / "numbers.txt")),
        lambda: text_iterators.text2class_txt_iterator(
            english, str(folder / "names.txt"), ["bad", "good", "so"]
        ),
        *(functools.partial(datasets.pairs, [entry], tmp_dir) for entry in _SETS),
        lambda: datasets.pairs(_SETS, tmp_dir, ("txt", "tmx")),
        lambda: generator_utils.generate_lines_for_vocab(tmp_dir, _SETS, 2_000),
        lambda: text_encoder.SubwordTextEncoder(str(folder / "vocab.subwords")).encode(GERMAN[0]),
        lambda: text_encoder.TokenTextEncoder(
            str(folder / "vocab.tokens"), replace_oov="<UNK>"
        ).encode(GERMAN[0]),
    ]
    with tempfile.TemporaryDirectory() as new:
        iterators += [lambda: _write_t2t_files(folder, new)]
        text_iterators.receive(bad)
        try:
            all_of(*(functools.partial(lambda read: list(read()), read) for read in iterators))
        finally:
            text_iterators.receive(STRICT)
    return iter(())


def _write_t2t_files(folder: pathlib.Path, new: str) -> Iterator[object]:
    records = shutil.copy(folder / "x-train-00000-of-00001", f"{new}/x-unshuffled-00000-of-00001")
    all_of(
        lambda: generator_utils.gunzip_file(str(folder / "table.tsv.gz"), f"{new}/table.tsv"),
        lambda: generator_utils.shuffle_dataset([records]),
        lambda: translate.compile_data(str(folder), [_SETS[4]], f"{new}/compiled"),
    )
    return iter(())


READERS = {
    "keras archive": Reader(
        write_archive, read_archive, "*.keras", share=0.5, damage=damage_archive
    ),
    "t2t texts": Reader(write_t2t_texts, consumed(read_t2t_texts), share=0.5),
}
