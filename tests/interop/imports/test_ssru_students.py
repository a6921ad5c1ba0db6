"""A student that Marian trained: scored, decoded, and read in 8 bits."""

import importlib.util
import pathlib
import shutil

import numpy as np
import pytest
import sentencepiece

from support.integer_student import IntegerStudent
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.interop.export import firefox
from t2t_lite.interop.imports import open_models
from t2t_lite.interop.imports.marian_binary import read_binary
from t2t_lite.interop.imports.verification import verify
from t2t_lite.interop.layouts.marian import SETTINGS
from t2t_lite.interop.layouts.marian_binary import INPUT_MULTIPLIER
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


def arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the arrays of a model in binary form, but for its settings."""
    return {
        name: tensor.read() for name, tensor in read_binary(path)[0].items() if name != SETTINGS
    }


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

    (path,), (narrow,), (spm,) = (
        exported.glob(f"*{name}") for name in (".float32.bin", ".alphas.bin", ".spm")
    )
    multipliers = {
        name.removesuffix(INPUT_MULTIPLIER): float(values[0])
        for name, values in arrays(narrow).items()
        if name.endswith(INPUT_MULTIPLIER)
    }
    by_hand = IntegerStudent(arrays(path), multipliers, heads=4)
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
