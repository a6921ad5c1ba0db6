"""A student that Marian trained: scored, decoded, and read in 8 bits."""

import importlib.util
import itertools
import pathlib
import shutil

import numpy as np
import pytest
import sentencepiece

from support.bergamot import installed_engine, translations
from support.integer_student import IntegerStudent, arrays
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.interop.export import firefox
from t2t_lite.interop.imports import open_models
from t2t_lite.interop.imports.marian_shortlist import _read
from t2t_lite.interop.imports.verification import verify
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams


def imported(golden, folder: pathlib.Path, *names: str) -> RunFolder:
    """Imports a student from a folder with some of the recorded files."""
    model = folder / "model"
    model.mkdir()
    for name in (*names, "vocab.spm"):
        shutil.copy(golden / "ssru" / name, model)
    open_models.import_run(str(model), str(folder / "run"))
    return RunFolder.open(str(folder / "run"))


def lines(golden, name: str) -> list[str]:
    return (golden / "ssru" / name).read_text(encoding="utf-8").splitlines()


def equal(found: list[str], wanted: list[str]) -> float:
    """Returns the share of lines that are equal."""
    return sum(a == b for a, b in zip(found, wanted, strict=True)) / len(wanted)


def permitted(path: pathlib.Path, source: list[int]) -> list[int]:
    """Returns the candidates of a source whose vocabulary is the target's, too.

    They are the first ids, the source's own, those of the list, and as many of the following ids
    as make their number a multiple of 8.
    """
    first, offsets, ids = _read(path)
    found = {*range(first), *source}
    for id_ in source:
        found |= {*map(int, ids[offsets[id_] : offsets[id_ + 1]])}
    following = itertools.count(first)
    while len(found) % 8:
        found.add(next(following))
    return sorted(found)


@pytest.fixture(scope="module")
def student(golden, tmp_path_factory) -> RunFolder:
    """The student in float32."""
    return imported(golden, tmp_path_factory.mktemp("student"), "model.npz", "decoder.yml")


@pytest.fixture(scope="module")
def exported(golden, student, tmp_path_factory) -> pathlib.Path:
    """The student for Bergamot's engine."""
    folder = tmp_path_factory.mktemp("export")
    dev = str(golden / "ssru" / "source.txt")
    firefox.export(student, None, str(folder), DecodeHParams.of(student), dev_file=dev)
    return folder / "firefox" / "1"


@pytest.mark.integration
def test_a_student_computes_what_marian_computes(golden, student):
    hparams = DecodeHParams.of(student, "beam_size=1,length_factor=3,extra_length=0")
    translate = Translator(Decoder.from_run(student, hparams=hparams))
    sources = lines(golden, "source.txt")
    assert translate(sources) == lines(golden, "greedy.txt")
    found = [one.score for one in translate.score(sources, lines(golden, "reference.txt"))]
    wanted = [float(line) for line in lines(golden, "scores.txt")]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.integration
def test_a_student_goes_back_to_its_own_form_to_the_bit(golden, exported):
    (path,) = exported.glob("*.float32.bin")
    written = arrays(path)
    with np.load(golden / "ssru" / "model.npz") as archive:
        own = {name: archive[name] for name in archive.files if not name.startswith("special")}
    assert written.keys() == own.keys()
    for name, values in own.items():
        np.testing.assert_array_equal(written[name], values)


@pytest.mark.integration
@pytest.mark.skipif(not importlib.util.find_spec("fxtranslate"), reason="needs fxtranslate")
def test_the_engine_computes_in_8_bits_what_its_arithmetic_says(golden, exported):
    """With our multipliers of inputs; rounding may exchange words that are nearly as likely."""
    import fxtranslate

    (narrow,), (spm,) = (exported.glob(f"*{name}") for name in (".alphas.bin", ".spm"))
    by_hand = IntegerStudent.of(exported, heads=4)
    pieces = sentencepiece.SentencePieceProcessor(str(spm))
    end = pieces.piece_to_id("</s>")
    engine = fxtranslate.Translator(*(file.read_bytes() for file in (narrow, spm, spm)))
    sources = lines(golden, "source.txt")[:40]
    found = [by_hand.greedy([*pieces.encode(line), end], end) for line in sources]
    others = [
        line
        for line, ids in zip(sources, found, strict=True)
        if engine.translate(line).strip() != pieces.decode(ids)
    ]
    assert len(others) <= 1


@pytest.mark.slow
def test_the_engine_of_browsers_computes_the_same(golden, tmp_path):
    """In WebAssembly: the recorded student, and our export of it without and with a short list."""
    engine = installed_engine(tmp_path / "node")
    sources = lines(golden, "source.txt")
    folder = golden / "ssru"
    files = (folder / "model.intgemm.alphas.bin", "", folder / "vocab.spm")
    recorded = lines(golden, "fxtranslate_int8.txt")
    assert equal(translations(engine, files, sources), recorded) >= 0.99
    run = imported(golden, tmp_path, "model.npz", "decoder.yml", "lex.ref.bin")
    hparams = DecodeHParams.of(run, f"shortlist={run.folder / 'shortlist.txt'}")
    dev = str(folder / "source.txt")
    firefox.export(run, None, str(tmp_path / "out"), hparams, dev_file=dev)
    written = tmp_path / "out" / "firefox" / "1"
    by_hand = IntegerStudent.of(written, heads=4)
    (model,), (spm,), (lex,) = (written.glob(n) for n in ("*.alphas.bin", "*.spm", "lex.*"))
    pieces = sentencepiece.SentencePieceProcessor(str(spm))
    end = pieces.piece_to_id("</s>")
    for path in ("", lex):
        wanted = []
        for line in sources[:100]:
            ids = [*pieces.encode(line), end]
            candidates = permitted(lex, ids) if path else ()
            wanted.append(pieces.decode(by_hand.greedy(ids, end, candidates, extra=0)))
        found = translations(engine, (model, path, spm), sources[:100])
        assert equal(found, wanted) >= 0.99


@pytest.mark.integration
def test_a_student_in_8_bits_is_verified_by_bleu(golden, tmp_path):
    run = imported(golden, tmp_path, "model.intgemm.alphas.bin", "lex.ref.bin")
    assert (run.folder / "shortlist.txt").is_file()
    outputs = lines(golden, "fxtranslate_int8.txt")
    found = verify(
        str(run.folder), list(zip(lines(golden, "source.txt"), outputs, strict=True))[:100]
    )
    assert found.is_8_bits
    assert found.equal < 0.98 * found.count
    found.require_equal()
