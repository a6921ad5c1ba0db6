"""A model of a mixture of languages: what is decoded is told by languages, in every engine."""

import random

import pytest
import tensorflow as tf

from support.commands import exit_code
from support.mixtures import MIXTURE, generate, toys
from support.short_runs import short_run
from t2t_lite.bin import t2t_decoder
from t2t_lite.decoding.config import CTRANSLATE2
from t2t_lite.decoding.dataset_decoding import decode_examples, read_examples
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import DataError, UsageError
from t2t_lite.interop.export import ctranslate2, saved_model
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.languages import Choice, choices

_DRAW = random.Random(1)
_WORDS = ("".join(_DRAW.choices("abcdef ", k=9)) for _ in range(20))
LINES = ["abc def", "", "a", "<2fr> >>fr", *_WORDS]


@pytest.fixture(scope="module", autouse=True)
def _toys():
    with toys():
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture")
    generate(folder / "data")
    return short_run(folder, MIXTURE)


def decoder(run, changes=""):
    return Decoder.from_run(run, hparams=DecodeHParams.of(run.problem, f"extra_length=6,{changes}"))


@pytest.fixture(scope="module")
def translate(run):
    return Translator(decoder(run, "beam_size=2"))


@pytest.mark.integration
def test_each_language_has_its_translation(translate, run):
    found = {c: translate(LINES, target_language=c) for c in ("de", "fr", "en")}
    assert len({tuple(texts) for texts in found.values()}) == 3
    for code, texts in found.items():
        assert [translate(line, target_language=code) for line in LINES] == texts, "batch 1 = N"
        assert Translator(decoder(run, f"beam_size=2,target_language={code}"))(LINES) == texts
        named = [f">>{code}<< {line}" for line in LINES]
        assert translate(named)[:2] == texts[:2]
    mixed = [f">>de<<{LINES[0]}", f">>en<< {LINES[0]}", f">>fr<<\u3000{LINES[0]}"]
    assert translate(mixed) == [found[c][0] for c in ("de", "en", "fr")]


_NO_LANGUAGE = (
    r"line 1: .* no default: set target_language \(--target_language; .*, or begin each text with "
    r"its own, as in >>de<<; it knows de, en, fr"
)


@pytest.mark.integration
def test_without_a_language_and_with_a_wrong_one(translate, run):
    with pytest.raises(DataError, match=_NO_LANGUAGE):
        translate(LINES)
    with pytest.raises(UsageError, match=r"unknown language 'german'.*did you mean 'de'"):
        translate(LINES, target_language="german")
    with pytest.raises(UsageError, match="model has only one source language"):
        translate(LINES, source_language="en")
    assert choices(run.encoders) == {"target": Choice(["de", "en", "fr"], "")}


@pytest.mark.integration
def test_the_command_takes_a_language(run, translate, tmp_path):
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    flags = (
        f"--output_dir={run.folder}",
        f"--decode_from_file={tmp_path / 'in'}",
        f"--decode_to_file={tmp_path / 'out'}",
        "--decode_hparams=target_language=fr,beam_size=2,extra_length=6",
    )
    assert exit_code(t2t_decoder.main, *flags) == 0
    written = (tmp_path / "out").read_text().splitlines()
    assert written == translate(LINES, target_language="fr")


@pytest.mark.integration
def test_the_files_of_a_member_are_decoded_into_its_language(run, translate):
    data_dir = run.data_dir
    whole = decoder(run, "beam_size=2")
    for member in run.problem.members:
        paths = member.existing_filepaths(data_dir, "test")
        sources, references = read_examples(whole, paths)
        samples = list(member.generate_samples("", "", "test"))
        assert [source.text for source in sources] == [sample["inputs"] for sample in samples]
        assert references == [sample["targets"] for sample in samples]
        outputs = decode_examples(whole, paths)
        expected = translate([s.text for s in sources], target_language=member.target_language)
        assert [texts[0] for texts in outputs.outputs] == expected


@pytest.mark.integration
def test_a_saved_model_translates_into_the_language_of_its_export_or_of_a_line(
    run, translate, tmp_path
):
    hparams = DecodeHParams.of(run.problem, "extra_length=6,beam_size=2,target_language=de")
    saved_model.export(run, None, str(tmp_path), hparams)
    loaded = tf.saved_model.load(str(tmp_path / "translate" / "1"))
    lines = ["abc def", ">>fr<< abc def", "", "<2fr>", ">>en<<"]
    found = loaded.signatures["serving_default"](inputs=tf.constant(lines))["outputs"].numpy()
    assert [text.decode() for text in found] == translate(lines, target_language="de")


@pytest.mark.integration
def test_ctranslate2_gets_the_token_of_the_language(run, translate, tmp_path):
    pytest.importorskip("ctranslate2")
    greedy = Translator(decoder(run, "beam_size=1"))
    for code in ("de", "en"):
        hparams = f"extra_length=6,beam_size=1,target_language={code}"
        hparams = DecodeHParams.of(run.problem, hparams)
        fast = Translator(Decoder.from_run(run, hparams=hparams, engine=CTRANSLATE2))
        assert fast(LINES) == greedy(LINES, target_language=code)
    ctranslate2.export(run, None, str(tmp_path / "export"), "float32", hparams)
    text = next((tmp_path / "export").rglob("README.md")).read_text()
    assert "`<2de>`, `<2en>`, `<2fr>`" in text
    assert '["<2en>"] + ' in text
