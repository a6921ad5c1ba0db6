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
from support.split_student import write_split
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.interop.export import firefox
from t2t_lite.interop.imports import open_models
from t2t_lite.interop.imports.marian_binary import read_binary
from t2t_lite.interop.imports.marian_shortlist import _read
from t2t_lite.interop.imports.verification import verify
from t2t_lite.interop.layouts import marian_binary
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.alignment.shortlist import Shortlist


def imported(golden, folder: pathlib.Path, *names: str) -> RunFolder:
    """Imports a student from a folder with some of the recorded files."""
    model = folder / "model"
    model.mkdir()
    for name in (*names, "vocab.spm"):
        shutil.copy(golden / "ssru" / name, model)
    open_models.import_run(str(model), str(folder / "run"))
    return RunFolder.open(str(folder / "run"))


def imported_whole(golden, folder: pathlib.Path) -> RunFolder:
    """Imports the student in float32."""
    return imported(golden, folder, "model.npz", "decoder.yml")


def imported_split(golden, folder: pathlib.Path) -> RunFolder:
    """Imports the student in float32, with a vocabulary for each side."""
    model = folder / "model"
    model.mkdir()
    write_split(golden / "ssru", model)
    open_models.import_run(str(model), str(folder / "run"))
    return RunFolder.open(str(folder / "run"))


def lines(golden, name: str) -> list[str]:
    return (golden / "ssru" / name).read_text(encoding="utf-8").splitlines()


def equal(found: list[str], wanted: list[str]) -> float:
    """Returns the share of lines that are equal."""
    return sum(a == b for a, b in zip(found, wanted, strict=True)) / len(wanted)


def permitted(path: pathlib.Path, source: list[int], is_one: bool) -> list[int]:
    """Returns the candidates of a source.

    They are the first ids, the source's own if the target has its vocabulary, those of the list,
    and as many of the following ids as make their number a multiple of 8.
    """
    first, offsets, ids = _read(path)
    found = {*range(first), *(source if is_one else ())}
    for id_ in source:
        found |= {*map(int, ids[offsets[id_] : offsets[id_ + 1]])}
    following = itertools.count(first)
    while len(found) % 8:
        found.add(next(following))
    return sorted(found)


def write_list(run: RunFolder, path: pathlib.Path, sources: list[str], outputs: list[str]) -> None:
    """Writes a short list: each id of a source permits all of its output."""
    source, target = (run.encoders[side] for side in ("inputs", "targets"))
    table = np.zeros([source.vocab_size, target.vocab_size], np.int32)
    for line, output in zip(sources, outputs, strict=True):
        ids = np.array(target.encode(output))
        table[np.ix_(source.encode(line), ids)] = ids
    Shortlist([], table, target.vocab_size).write(str(path), run.encoders)


def written_by_hand(
    folder: pathlib.Path, sources: list[str], lex: pathlib.Path | None = None, extra: int = 4
) -> list[str]:
    """Returns what an export outputs by the engine's arithmetic in 8 bits.

    Args:
        folder: of the export.
        sources: its lines.
        lex: a short list.
        extra: see `IntegerStudent.greedy`.
    """
    by_hand, paths = IntegerStudent.of(folder, heads=4), vocabularies(folder)
    source, target = (sentencepiece.SentencePieceProcessor(str(path)) for path in paths)
    end = target.piece_to_id("</s>")
    outputs = []
    for line in sources:
        ids = [*source.encode(line), source.piece_to_id("</s>")]
        candidates = permitted(lex, ids, paths[0] == paths[1]) if lex else ()
        outputs.append(target.decode(by_hand.greedy(ids, end, candidates, extra)))
    return outputs


def export(
    run: RunFolder, folder: pathlib.Path, dev: pathlib.Path, search: str = ""
) -> pathlib.Path:
    """Exports a student for Bergamot's engine, from German to English."""
    firefox.export(run, None, str(folder), DecodeHParams.of(run, search), ("de", "en"), str(dev))
    return folder / "firefox" / "1"


def vocabularies(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the paths of the vocabularies of source and target in an export."""
    found = sorted(folder.glob("*.spm"))
    wanted = ["srcvocab.deen.spm", "trgvocab.deen.spm"] if len(found) > 1 else ["vocab.deen.spm"]
    assert [path.name for path in found] == wanted
    return [found[0], found[-1]]


@pytest.fixture(
    scope="module", params=[imported_whole, imported_split], ids=["one vocabulary", "two"]
)
def student(request, golden, tmp_path_factory) -> RunFolder:
    """The student in float32; with a vocabulary for each side, it computes the same."""
    return request.param(golden, tmp_path_factory.mktemp("student"))


@pytest.fixture(scope="module")
def exported(golden, student, tmp_path_factory) -> pathlib.Path:
    """The student for Bergamot's engine."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "dev.txt").write_text("\n".join(lines(golden, "source.txt")[:40]), encoding="utf-8")
    return export(student, folder, folder / "dev.txt")


@pytest.mark.integration
def test_a_student_computes_what_marian_computes(golden, student):
    """By the search of an export, so that it is traced once for both."""
    hparams = DecodeHParams.of(student, "beam_size=1,length_factor=2,extra_length=4,dtype=float32")
    translate = Translator(Decoder.from_run(student, hparams=hparams))
    sources = lines(golden, "source.txt")
    assert translate(sources) == lines(golden, "greedy.txt")
    found = [one.score for one in translate.score(sources, lines(golden, "reference.txt"))]
    wanted = [float(line) for line in lines(golden, "scores.txt")]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.integration
def test_a_student_goes_back_to_its_own_form_to_the_bit(student, exported):
    (path,) = exported.glob("*.float32.bin")
    written = arrays(path)
    with np.load(student.settings.others["imported_from"]) as archive:
        own = {name: archive[name] for name in archive.files if not name.startswith("special")}
    assert written.keys() == own.keys()
    for name, values in own.items():  # but for rows that fill a vocabulary up
        axis = int(name == "decoder_ff_logit_out_b")
        found = np.take(written[name], range(values.shape[axis]), axis)
        np.testing.assert_array_equal(found, values)


@pytest.mark.integration
@pytest.mark.skipif(not importlib.util.find_spec("fxtranslate"), reason="needs fxtranslate")
def test_the_engine_computes_in_8_bits_what_its_arithmetic_says(golden, exported):
    """With our multipliers of inputs; rounding may exchange words that are nearly as likely."""
    import fxtranslate

    (narrow,) = exported.glob("*.alphas.bin")
    files = (narrow, *vocabularies(exported))
    engine = fxtranslate.Translator(*(file.read_bytes() for file in files))
    sources = lines(golden, "source.txt")[:40]
    wanted = written_by_hand(exported, sources)
    found = [engine.translate(line).strip() for line in sources]
    assert sum(a != b for a, b in zip(found, wanted, strict=True)) <= 1


@pytest.mark.integration
@pytest.mark.skipif(not importlib.util.find_spec("fxtranslate"), reason="needs fxtranslate")
def test_the_engine_writes_in_float32_what_the_decoder_writes(golden, exported):
    import fxtranslate

    (path,) = exported.glob("*.float32.bin")
    stored = {name: tensor.read() for name, tensor in read_binary(path)[0].items()}
    if "encoder_Wemb" in stored:  # fxtranslate 0.5 loses it unless it has another number of axes
        stored["encoder_Wemb"] = stored["encoder_Wemb"][None]
    wide = marian_binary.written(marian_binary.items_of(stored, in_8_bits=False))
    spms = [path.read_bytes() for path in vocabularies(exported)]
    engine = fxtranslate.Translator(wide, *spms)
    found = [engine.translate(line).strip() for line in lines(golden, "source.txt")[:100]]
    assert found == lines(golden, "fxtranslate_float32.txt")[:100]


@pytest.fixture(scope="module")
def engine_of_browsers(tmp_path_factory) -> pathlib.Path:
    """Bergamot's engine in WebAssembly."""
    return installed_engine(tmp_path_factory.mktemp("node"))


@pytest.mark.slow
def test_the_engine_of_browsers_computes_what_was_recorded(golden, engine_of_browsers):
    folder = golden / "ssru"
    files = (folder / "model.intgemm.alphas.bin", "", folder / "vocab.spm")
    found = translations(engine_of_browsers, files, lines(golden, "source.txt"))
    assert equal(found, lines(golden, "fxtranslate_int8.txt")) >= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("make", [imported_whole, imported_split])
def test_the_engine_of_browsers_computes_the_same(golden, engine_of_browsers, tmp_path, make):
    """As NumPy does, without and with a short list."""
    run = make(golden, tmp_path)
    write_list(run, tmp_path / "list.txt", lines(golden, "source.txt"), lines(golden, "greedy.txt"))
    search = f"shortlist={tmp_path / 'list.txt'}"
    written = export(run, tmp_path / "out", golden / "ssru" / "source.txt", search)
    (model,), (lex,) = (written.glob(name) for name in ("*.alphas.bin", "lex.*"))
    spms = dict.fromkeys(vocabularies(written))
    sources = lines(golden, "source.txt")[:100]
    for path in (None, lex):
        wanted = written_by_hand(written, sources, path, extra=0)
        found = translations(engine_of_browsers, (model, path or "", *spms), sources)
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


@pytest.mark.integration
def test_a_student_in_8_bits_is_verified_by_outputs_of_two_words(golden, tmp_path):
    run = imported(golden, tmp_path, "model.intgemm.alphas.bin", "lex.ref.bin")
    sources = ["Ein Hund.", "Guten Tag!", "Danke."]
    outputs = Translator(Decoder.from_run(run))(sources)
    pairs = [pair for pair in zip(sources, outputs, strict=True) if len(pair[1].split()) == 2]
    found = verify(str(run.folder), pairs[:1])
    assert (found.is_8_bits, found.equal, found.count) == (True, 1, 1)
    assert found.bleu > 99.9
    found.require_equal()
