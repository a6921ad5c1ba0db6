"""A student that Marian trained: scored, decoded, and read in 8 bits."""

import pathlib
import shutil

import numpy as np
import pytest

from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.interop.export import firefox
from t2t_lite.interop.imports import open_models
from t2t_lite.interop.imports.marian_binary import read_binary
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


@pytest.mark.integration
def test_a_student_computes_what_marian_computes(golden, tmp_path):
    """And goes back to its own form, to the bit."""
    run = imported(golden, tmp_path, "model.npz", "decoder.yml")
    hparams = DecodeHParams.of(run, "beam_size=1,length_factor=3,extra_length=0")
    translate = Translator(Decoder.from_run(run, hparams=hparams))
    sources = lines(golden, "source.txt")
    assert translate(sources) == lines(golden, "greedy.txt")
    found = [one.score for one in translate.score(sources, lines(golden, "reference.txt"))]
    wanted = [float(line) for line in lines(golden, "scores.txt")]
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    dev = str(golden / "ssru" / "source.txt")
    firefox.export(run, None, str(tmp_path), DecodeHParams.of(run), dev_file=dev)
    (path,) = (tmp_path / "firefox" / "1").glob("*.float32.bin")
    tensors, _ = read_binary(path)
    with np.load(golden / "ssru" / "model.npz") as archive:
        own = {name: archive[name] for name in archive.files if not name.startswith("special")}
    assert {*tensors} - {*own} == {"special:model.yml"}
    for name, values in own.items():
        np.testing.assert_array_equal(tensors[name].read(), values)


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
