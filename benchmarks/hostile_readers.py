"""What `hostile.py` damages: valid samples of everything that the package reads, with readers."""

import bz2
import contextlib
import dataclasses
import functools
import gzip
import io
import json
import pathlib
import random
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from hostile_damage import damage_file

from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.data.corpora import archives, corpora
from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.generation import fingerprint, inspection
from t2t_lite.data.problem import Output
from t2t_lite.decoding.batch_journal import BatchJournal, BatchRecord, OutputLine
from t2t_lite.decoding.hypotheses import Hypothesis
from t2t_lite.decoding.long_lines import PieceJoiner, join_lines
from t2t_lite.errors import UserError
from t2t_lite.interop.export.query_client import Client
from t2t_lite.interop.imports import t2t_settings
from t2t_lite.interop.imports.t2t_checkpoint import import_run
from t2t_lite.metrics import parseval
from t2t_lite.metrics.evalb_parameters import EvalbParameters
from t2t_lite.runs import run_creation, run_folder
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving import bodies, requests
from t2t_lite.serving.config import ServerConfig
from t2t_lite.study.reports import report
from t2t_lite.text import linear_trees, trees, vocabularies
from t2t_lite.text.bad_input import BadInput
from t2t_lite.text.text_encoder import ByteTextEncoder, VocabType
from t2t_lite.text.text_files import iterate_lines

PROBLEM = "text2text_tmpdir_tokens"
VOCABULARY = f"vocab.{PROBLEM}.tokens"
ORIGIN = {"hparams": {"beam_size": 4}}
WORDS = [f"word{number}" for number in range(60)]
ENGLISH = [f"a {word} here, nothing else." for word in WORDS]
GERMAN = [f"ein {word} hier, sonst nichts." for word in WORDS]
TREES = [
    f"(S (NP (DT the) (NN {word})) (VP (VBD left) (, ,) (PP-LOC (IN in) (NP (NN time)))))"
    for word in WORDS[:20]
]


@dataclasses.dataclass(frozen=True)
class Reader:
    """One way into the package.

    Attributes:
        write: writes the valid files into a folder.
        read: reads them all; may raise user errors.
        damages: a pattern of the files to damage.
        writes: the files that it may write.
        share: its share of the inputs, relative to the other readers.
        damage: damages a file.
    """

    write: Callable[[pathlib.Path], None]
    read: Callable[[pathlib.Path], object]
    damages: str = "*"
    writes: tuple[str, ...] = ()
    share: float = 1.0
    damage: Callable[[pathlib.Path, random.Random], None] = damage_file


def consumed(read: Callable[[pathlib.Path, BadInput], Iterator[object]]) -> Callable[..., None]:
    """Returns a function that reads everything twice: skipping bad input, then not."""

    def read_twice(folder: pathlib.Path) -> None:
        with contextlib.suppress(UserError):
            list(read(folder, BadInput(skip=True)))
        list(read(folder, BadInput()))

    return read_twice


def lines_of(texts: list[str]) -> bytes:
    """Returns a text file."""
    return "".join(f"{text}\n" for text in texts).encode()


def write_text(folder: pathlib.Path) -> None:
    """Writes the same text plain and compressed."""
    text = lines_of(GERMAN)
    (folder / "a.txt").write_bytes(text)
    (folder / "a.txt.gz").write_bytes(gzip.compress(text, mtime=0))
    (folder / "a.txt.bz2").write_bytes(bz2.compress(text))


def read_text(folder: pathlib.Path, bad: BadInput) -> Iterator[object]:
    """Reads all text files."""
    for path in sorted(folder.iterdir()):
        yield from iterate_lines(path, bad)


MEMBERS = {"c/a.en": lines_of(ENGLISH), "c/a.de": lines_of(GERMAN)}


def write_zip(folder: pathlib.Path) -> None:
    """Writes a zip archive, one member stored and one deflated."""
    with zipfile.ZipFile(folder / "c.zip", "w") as archive:
        for (name, text), method in zip(MEMBERS.items(), (0, zipfile.ZIP_DEFLATED), strict=True):
            archive.writestr(zipfile.ZipInfo(name), text, method)


def write_tar(folder: pathlib.Path, name: str, members: Mapping[str, bytes] = MEMBERS) -> None:
    """Writes a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member, contents in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(contents)
            archive.addfile(info, io.BytesIO(contents))
    suffix = name.rpartition(".")[2]
    pack = {"gz": gzip.compress, "tgz": gzip.compress, "bz2": bz2.compress}.get(suffix, bytes)
    (folder / name).write_bytes(pack(buffer.getvalue()))


def archive_reader(name: str) -> Reader:
    """Returns the reader of two texts in an archive, and of all its members."""
    corpus = corpora.AlignedCorpus("c", *(_text(name, member) for member in MEMBERS))

    def read(folder: pathlib.Path, bad: BadInput) -> Iterator[object]:
        yield from corpus.pairs(str(folder), bad)
        for _, lines in archives.iterate_members(folder / name, (".en", ".de"), bad):
            yield from lines

    write = write_zip if name.endswith("zip") else functools.partial(write_tar, name=name)
    return Reader(write, consumed(read))


# No reader of compressed text or markup reads more than this at once.
LONG = 2**17


def write_long_members(folder: pathlib.Path) -> None:
    """Writes archives whose members are longer than what is read at once."""
    text = random.Random(0).randbytes(LONG).hex("\n", 32).encode()
    packed = gzip.compress(text, mtime=0)
    markup = translation_memory(LONG // len(translation_memory()) + 1).encode()
    assert min(len(packed), len(markup)) > LONG
    write_tar(folder, "c.tar", {"a.en": text, "a.de.gz": packed})
    write_tar(folder, "c.tgz", {"a.tmx": markup})


def read_long_members(folder: pathlib.Path, bad: BadInput) -> Iterator[object]:
    """Reads them."""
    for _, lines in archives.iterate_members(folder / "c.tar", (".en", ".gz"), bad):
        yield from lines
    yield from corpora.TmxCorpus("c", _text("c.tgz", "a.tmx"), ("en", "de")).pairs(str(folder), bad)


def _text(name: str, member: str | None = None) -> corpora.Text:
    return corpora.Text(corpora.RemoteFile(f"https://localhost/{name}"), member)


def _sgm(texts: list[str]) -> str:
    segments = "\n".join(f'<seg id="{n}">{text} &amp; </seg>' for n, text in enumerate(texts))
    return f'<refset trglang="de">\n<doc docid="1">\n<p>\n{segments}\n</p>\n</doc>\n</refset>\n'


def translation_memory(times: int = 1) -> str:
    """Returns sentences in TMX."""
    units = "\n".join(
        f'<tu><tuv xml:lang="en"><seg>{one}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>{other}<ph>x</ph></seg></tuv></tu>'
        for one, other in zip(ENGLISH * times, GERMAN * times, strict=True)
    )
    return f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>\n{units}\n</body></tmx>\n'


def corpus_reader(corpus: corpora.Corpus, files: Mapping[str, str]) -> Reader:
    """Returns the reader of a corpus of these files."""
    return Reader(
        functools.partial(write_files, files=files),
        consumed(lambda folder, bad: corpus.pairs(str(folder), bad)),
    )


def write_files(folder: pathlib.Path, files: Mapping[str, str]) -> None:
    """Writes text files."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def read_trees(folder: pathlib.Path, bad: BadInput) -> Iterator[object]:
    """Reads trees and decomposes them."""
    for tree in trees.read_trees(folder / "a.mrg", bad):
        words, symbols = linear_trees.linearize(trees.normalise(tree))
        yield linear_trees.delinearize(words, symbols)


def score_trees(folder: pathlib.Path) -> None:
    """Scores one file of trees against the other."""
    gold, test = (
        [parseval.parse_sentence(line) for line in iterate_lines(folder / name)]
        for name in ("gold", "test")
    )
    if len(gold) != len(test):
        raise UserError("different numbers of trees")
    parseval.bracketing_f1(gold, test, EvalbParameters.read(folder / "a.prm"))


def vocabulary_reader(kind: str) -> Reader:
    """Returns the reader of a kind of vocabulary."""

    def write(folder: pathlib.Path) -> None:
        if kind == VocabType.TOKEN:
            write_files(folder, {"vocab": "\n".join(["<UNK>", *WORDS]) + "\n"})
        else:
            vocabularies.build(
                kind, folder / "vocab", ENGLISH * 3, 100 if kind == VocabType.SUBWORD else 320
            )

    def read(folder: pathlib.Path) -> None:
        encoder = vocabularies.load(kind, folder / "vocab", oov_token="<UNK>")
        encoder.decode(encoder.encode(GERMAN[0]))

    return Reader(write, read)


def write_records(folder: pathlib.Path) -> None:
    """Writes a TFRecord file."""
    examples = [{"inputs": [*range(2, 9), 1], "targets": [n + 2, 1]} for n in range(20)]
    records.write_examples(folder / "x-train-00000-of-00001", examples)


def read_records(folder: pathlib.Path) -> None:
    """Reads a TFRecord file in both ways."""
    path = str(folder / "x-train-00000-of-00001")
    encoders = dict.fromkeys(("inputs", "targets"), ByteTextEncoder())
    inspection.inspect_split([path], ExampleReader(), encoders)
    list(records.read_examples([path]))


def all_of(*reads: Callable[[], object]) -> None:
    """Calls all functions despite user errors; raises the last of these."""
    refused = None
    for read in reads:
        try:
            read()
        except UserError as error:
            refused = error
    if refused:
        raise refused


def write_run(folder: pathlib.Path) -> None:
    """Writes a run folder, and the fingerprint of its data."""
    write_files(folder, {VOCABULARY: "\n".join(["<UNK>", *WORDS]) + "\n"})
    flags = {"problem": PROBLEM, "model": "transformer", "hparams_set": "transformer_test"}
    flags |= {"output_dir": str(folder), "data_dir": "data", "random_seed": 1, "parts": 2}
    hparams = registry.hparams("transformer_test").copy(num_hidden_layers=1)
    run_creation.create_run(RunSettings.of(flags), hparams, str(folder))
    metrics = [{"kind": "train", "step": n, "loss": 9.5 / n, "flops": 1e9} for n in range(1, 9)]
    metrics.append({"kind": "eval", "step": 8, "bleu": 1.5, "bleu_signature": "nrefs:1"})
    source = fingerprint.SourceFile(size=3, sha256="00")
    entry = fingerprint.Entry({"a": source}, {"skip_bad": False}, {VOCABULARY: "11"}, {"x": "1"})
    files = {
        "metrics.jsonl": "".join(json.dumps(record) + "\n" for record in metrics),
        "summary.json": json.dumps({"steps": 8, "train_seconds": 5.5, "flops_by_time": 1e12}),
        "x.fingerprint.json": json.dumps({"train": dataclasses.asdict(entry)}),
    }
    write_files(folder, files)


def read_run(folder: pathlib.Path) -> None:
    """Opens a run folder and reads everything except the weights."""
    name, page = str(folder), str(folder.with_name("report.html"))
    all_of(
        lambda: run_folder.RunFolder.open(name).encoders,
        lambda: run_folder.RunFolder.open(name).refuse_other_vocabulary(name),
        lambda: report.write_report([name], page),
        lambda: fingerprint._read(folder / "x.fingerprint.json"),
    )


def write_checkpoint(folder: pathlib.Path) -> None:
    """Writes a run folder with a checkpoint."""
    write_run(folder)
    model = run_folder.RunFolder.open(str(folder)).build_model()
    step = tf.Variable(7, dtype=tf.int64)
    tf.train.Checkpoint(model=model, step=step).write(f"{folder}/model.ckpt-7")


@functools.cache
def _model(folder: pathlib.Path) -> Any:
    return run_folder.RunFolder.open(str(folder)).build_model()


def read_checkpoint(folder: pathlib.Path) -> None:
    """Reads the newest checkpoint into a model that is built once."""
    run = run_folder.RunFolder.open(str(folder))
    all_of(run.latest_checkpoint, lambda: run.restore_weights(_model(folder)))


def write_t2t(folder: pathlib.Path) -> None:
    """Writes a training folder of T2T with its vocabularies, from the recorded weights."""
    recorded = pathlib.Path(__file__).parents[1] / "tests/golden/transformer/plain"
    config = json.loads((recorded / "config.json").read_text(encoding="utf-8"))
    arrays = dict(np.load(recorded / "weights.npz"))
    tf.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt-7"),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(array) for array in arrays.values()],
    )
    flags = f"--problem={PROBLEM}\n--model=transformer\n--hparams_set={config['hparams_set']}\n"
    words = [f"w{number}" for number in range(config["source_vocab_size"] - 2)]
    vocabulary = "".join(f"{word}\n" for word in ["<UNK>", *words[1:]])
    files = {"flags.txt": flags, "hparams.json": json.dumps(config["hparams"])}
    write_files(folder, {**files, VOCABULARY: vocabulary})


def read_t2t_settings(folder: pathlib.Path) -> None:
    """Reads the settings in T2T's folder."""
    flags = t2t_settings.read_flags(folder)
    all_of(
        lambda: t2t_settings.find_problem(folder, flags),
        lambda: t2t_settings.find_hparams(folder, flags),
    )


def import_t2t(folder: pathlib.Path) -> None:
    """Converts T2T's folder to a run folder."""
    with tempfile.TemporaryDirectory() as new:
        import_run(str(folder), str(folder), f"{new}/run")


def write_part(folder: pathlib.Path) -> None:
    """Writes the part file of a killed decoder."""
    waiting = {0: [Hypothesis(Output("a"), [5, 6], -0.5, None)]}
    with BatchJournal(folder / "out", ORIGIN).opened() as journal:
        for n, word in enumerate(WORDS[:16]):
            journal.append(BatchRecord(0, n, {n: OutputLine(word, Output(word))}, {}))
        journal.append(BatchRecord(16, 1, {}, waiting))


def read_part(folder: pathlib.Path) -> None:
    """Resumes from there."""
    with BatchJournal(folder / "out", ORIGIN).opened() as journal:
        known = journal.resume_point.known
        joiner = PieceJoiner([[2], [1]], known, lambda _, lines: join_lines(lines))
        joiner.add(9, {1: [Hypothesis(Output("b"), [7], -0.1, None)]})
        journal.finish()


def read_answer(folder: pathlib.Path) -> None:
    """Reads a server's answer as t2t-query-server does."""
    client = Client("localhost:1", "translate", 1)
    client._post = lambda _: (folder / "answer").read_bytes()
    client.ask("a line")


def read_assignments(folder: pathlib.Path) -> None:
    """Reads settings in the form of flags."""
    given = {
        path.name: path.read_text(encoding="utf-8", errors="surrogateescape")
        for path in folder.iterdir()
    }
    all_of(
        lambda: DecodeHParams().override(given["decode_hparams"]),
        lambda: registry.hparams("transformer_base").override(given["hparams"]),
    )


def read_request(body: bytes) -> requests.TranslationRequest:
    """Reads a request in the server's own form."""
    limits = ServerConfig()
    return requests.checked(bodies.fields_of_json("", body, limits), limits)


REQUESTS = {
    "one": '{"text": "a", "n_best": 2, "attention": true}',
    "many": json.dumps({"texts": ENGLISH}),
}
ASSIGNMENTS = {
    "decode_hparams": "beam_size=4,alpha=0.6,return_beams=true",
    "hparams": "num_heads=2,pos=emb,attention_dropout=0.2,learning_rate_minimum=none",
}
ANSWER = {"answer": '{"outputs": {"outputs": [["a", "b c"]], "scores": [[-0.5, -1.25]]}}'}
PARAMETERS = "DEBUG 0\nMAX_ERROR 10\nCUTOFF_LEN 40\nDELETE_LABEL TOP\nEQ_LABEL T TT\n"

READERS: dict[str, Reader] = {
    "text": Reader(write_text, consumed(read_text)),
    **{name: archive_reader(name) for name in ("c.zip", "c.tar", "c.tar.gz", "c.tar.bz2")},
    "long members": Reader(write_long_members, consumed(read_long_members), share=0.2),
    "sgm": corpus_reader(
        corpora.AlignedCorpus("c", _text("c.en.sgm"), _text("c.de.sgm")),
        {"c.en.sgm": _sgm(ENGLISH), "c.de.sgm": _sgm(GERMAN)},
    ),
    "tmx": corpus_reader(
        corpora.TmxCorpus("c", _text("c.tmx"), ("en", "de")), {"c.tmx": translation_memory()}
    ),
    "tsv": corpus_reader(
        corpora.TsvCorpus("c", _text("c.tsv")),
        {"c.tsv": "".join(map("{}\t{}\n".format, ENGLISH, GERMAN))},
    ),
    "trees": Reader(
        functools.partial(write_files, files={"a.mrg": "\n".join(TREES)}), consumed(read_trees)
    ),
    "parseval": Reader(
        functools.partial(
            write_files,
            files={"gold": "\n".join(TREES), "test": "\n".join(TREES), "a.prm": PARAMETERS},
        ),
        score_trees,
    ),
    **{
        f"vocabulary: {kind}": vocabulary_reader(kind)
        for kind in (VocabType.TOKEN, VocabType.SUBWORD, VocabType.SENTENCEPIECE_BPE)
    },
    "tfrecords": Reader(write_records, read_records, share=0.5),
    "run folder": Reader(write_run, read_run, share=3.0),
    "checkpoint": Reader(write_checkpoint, read_checkpoint, "model.ckpt-*", share=0.3),
    "t2t folder": Reader(write_t2t, read_t2t_settings, "*s*.[tj]*"),
    "t2t checkpoint": Reader(write_t2t, import_t2t, "*[-.][7t]*", share=0.1),
    "part file": Reader(write_part, read_part, writes=("out", "out.part")),
    "requests": Reader(
        functools.partial(write_files, files=REQUESTS),
        lambda folder: [read_request(path.read_bytes()) for path in folder.iterdir()],
    ),
    "answers": Reader(functools.partial(write_files, files=ANSWER), read_answer),
    "settings": Reader(functools.partial(write_files, files=ASSIGNMENTS), read_assignments),
}
