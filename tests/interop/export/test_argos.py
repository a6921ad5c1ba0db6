"""Packages for Argos Translate: what they hold, and that it translates as CTranslate2 does."""

import json
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
import sentencepiece

from support import open_vocabularies
from support.short_runs import short_run
from t2t_lite import registry
from t2t_lite.data.text_problems import Text2TextProblem, TwoVocabularies
from t2t_lite.errors import UsageError, UserError
from t2t_lite.interop.export import argos
from t2t_lite.interop.export import ctranslate2 as exporter
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import VocabType

ctranslate2 = pytest.importorskip("ctranslate2")

TEXT = " ".join(open_vocabularies.SOURCE[:2])
LINES = [TEXT[n * 3 : n * 3 + n % 5 * 6 + 4].strip() for n in range(20)]
FIELDS = {"attention_bias": True, "softmax_bias": True, "softmax_padding": False}

# What a user does; but lines are sentences, where else a model would be downloaded to split them.
SCRIPT = """
import json, sys, types
from argostranslate import package, translate
package.install_from_path(sys.argv[1])
found = translate.get_translation_from_codes("en", "de")
found.underlying.sentencizer = types.SimpleNamespace(split_sentences=lambda text: [text])
print(json.dumps([found.translate(line) for line in json.load(sys.stdin)]))
"""


@registry.register_problem("translate_ende_argos_test")
class Pieces(Text2TextProblem):
    vocab_type = VocabType.SENTENCEPIECE_BPE
    approx_vocab_size = 330

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for source, target in zip(open_vocabularies.SOURCE, open_vocabularies.TARGET, strict=True):
            yield {"inputs": source, "targets": target}


@registry.register_problem("translate_ende_argos_test_two")
class TwoPieces(TwoVocabularies, Pieces):
    vocab_languages = ("en", "de")


def exported(run, folder: pathlib.Path) -> pathlib.Path:
    """Exports a run; returns the path of the package."""
    argos.export(run, None, str(folder), "float32", ("en", "de"))
    (package,) = (folder / "argos" / "1").glob("*.argosmodel")
    return package


def unpacked(package: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
    (root,) = folder.iterdir()
    return root


def write_two_languages(folder: pathlib.Path) -> None:
    open_vocabularies.write_opus(folder, ("deu", "fra"))


# By name: how the vocabulary is written, and how CTranslate2 is told the languages.
LAYOUTS = {
    "opus": (open_vocabularies.write_opus, [], []),
    "opus_of_two_languages": (write_two_languages, [">>deu<<"], []),
    "m2m100": (open_vocabularies.write_m2m100, ["__en__"], ["__de__"]),
}


@pytest.fixture(scope="module", params=LAYOUTS)
def package(request, tmp_path_factory):
    """A package, and the lines translated by CTranslate2 with the settings of Argos Translate."""
    write_vocabulary, start, prefix = LAYOUTS[request.param]
    folder = tmp_path_factory.mktemp("package")
    run = short_run(folder, "translate_imported", write_vocabulary, **FIELDS)
    exporter.export(run, None, str(folder / "plain"), "float32")
    source, target = (
        sentencepiece.SentencePieceProcessor(f"{folder}/plain/vocab.imported.{side}.spm")
        for side in ("source", "target")
    )
    found = translated(
        ctranslate2.Translator(str(folder / "plain"), compute_type="auto"),
        [[*start, *source.encode(line, out_type=str)] for line in LINES],
        prefix,
    )
    outputs = [target.decode(tokens[len(prefix) :]).replace("▁", " ").strip() for tokens in found]
    assert len(set(outputs)) > 3
    return exported(run, folder / "exports"), outputs


def translated(translator, sources, prefix) -> list[list[str]]:
    found = translator.translate_batch(
        sources,
        target_prefix=[prefix] * len(sources) if prefix else None,
        beam_size=4,
        length_penalty=0.2,
        replace_unknowns=True,
    )
    return [result.hypotheses[0] for result in found]


@pytest.mark.integration
def test_the_model_in_a_package_is_that_of_ctranslate2(package, tmp_path):
    """Its pieces come from, and go to, the one SentencePiece model."""
    path, outputs = package
    root = unpacked(path, tmp_path)
    assert root.name == "translate-en_de-1" == path.stem
    names = {"README.md", "metadata.json", "model", "sentencepiece.model"}
    assert {file.name for file in root.iterdir()} == names
    fields = json.loads((root / "metadata.json").read_text())
    assert (fields["from_code"], fields["to_code"]) == ("en", "de")
    assert (fields["from_name"], fields["to_name"]) == ("English", "German")  # as programs show
    model = sentencepiece.SentencePieceProcessor(str(root / "sentencepiece.model"))
    prefix = [fields["target_prefix"]] if fields["target_prefix"] else []
    translator = ctranslate2.Translator(str(root / "model"), compute_type="auto")
    found = translated(translator, model.encode(LINES, out_type=str), prefix)
    shown = [model.decode(tokens).replace("▁", " ").replace("_", " ") for tokens in found]
    assert [text.removeprefix(" ") for text in shown] == outputs


@pytest.mark.slow
def test_argos_translate_installs_a_package_and_translates(package, tmp_path):
    """In the environment of ARGOS_PYTHON, by default this one."""
    python = os.environ.get("ARGOS_PYTHON", sys.executable)
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    if subprocess.run([python, "-c", "import argostranslate"], env=environment).returncode:
        pytest.skip("argostranslate is not installed")
    path, outputs = package
    done = subprocess.run(
        [python, "-c", SCRIPT, str(path)],
        input=json.dumps(LINES),
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == outputs


@pytest.mark.integration
def test_sentences_that_begin_without_a_space_are_warned_of(tmp_path, caplog):
    run = short_run(tmp_path, "translate_ende_argos_test")
    assert exported(run, tmp_path / "exports").suffix == ".argosmodel"
    assert "will join the sentences of a paragraph without spaces" in caplog.text


def write_bytes(folder: pathlib.Path) -> None:
    """A target that falls back to bytes, of which the source's model knows nothing."""
    open_vocabularies.write_opus(folder)
    model = open_vocabularies.trained(open_vocabularies.TARGET, 400, byte_fallback=True)
    table = ["<pad>", "</s>", "<unk>", *open_vocabularies.normal_pieces(model)]
    path = folder / "vocab.imported.target.json"
    open_vocabularies.write_encoder(path, table, 2, model=model)


def write_words(folder: pathlib.Path) -> None:
    for side in ("source", "target"):
        path = folder / f"vocab.imported.{side}.json"
        open_vocabularies.write_encoder(path, ["<pad>", "</s>", "<unk>", "a", "b"], 2)


def write_clean(folder: pathlib.Path) -> None:
    open_vocabularies.write_m2m100(folder, cleans_spaces=True)


def write_added(folder: pathlib.Path) -> None:
    open_vocabularies.write_m2m100(folder, added={9: []})


@pytest.mark.integration
@pytest.mark.parametrize(
    ("write_vocabulary", "message"),
    [
        (write_bytes, "takes the targets' piece '<0x00>' for other text"),
        (write_words, "needs a SentencePiece vocabulary"),
        (write_clean, "this vocabulary has clean_up_tokenization_spaces besides"),
        (write_added, "this vocabulary has the token '"),
    ],
)
def test_what_argos_translate_cannot_join_is_refused(write_vocabulary, message, tmp_path):
    run = short_run(tmp_path, "translate_imported", write_vocabulary)
    with pytest.raises(UserError, match=message):
        argos.export(run, None, str(tmp_path / "exports"), "float32", ("en", "de"))
    assert not (tmp_path / "exports").exists()


@pytest.mark.integration
def test_the_language_of_a_model_of_several_must_be_chosen(tmp_path):
    def write(folder: pathlib.Path) -> None:
        open_vocabularies.write_m2m100(folder, ("", ""))

    run = short_run(tmp_path, "translate_imported", write)
    with pytest.raises(UserError, match="no default: set source_language and target_language"):
        exported(run, tmp_path / "exports")
    hparams = DecodeHParams.of(run, "source_language=de,target_language=en,beam_size=2")
    with pytest.raises(UsageError, match="set only source_language and target_language"):
        argos.export(run, None, str(tmp_path), "float32", ("de", "en"), hparams)
    hparams = DecodeHParams.of(run, "source_language=de,target_language=en")
    argos.export(run, None, str(tmp_path / "exports"), "float32", ("de", "en"), hparams)
    package = tmp_path / "exports" / "argos" / "1" / "translate-de_en-1.argosmodel"
    root = unpacked(package, tmp_path / "unpacked")
    assert json.loads((root / "model" / "config.json").read_text())["bos_token"] == "__de__"


@pytest.mark.integration
def test_languages_are_those_given_or_in_the_name(tmp_path):
    run = short_run(tmp_path, "translate_ende_argos_test_rev")
    assert argos.languages_of(run, "", "") == ("de", "en")
    assert argos.languages_of(run, "", "nl") == ("de", "nl")
    with pytest.raises(UsageError, match=r"--from_code=\.\./x: expected the code"):
        argos.languages_of(run, "../x", "")
    other = short_run(tmp_path / "other", "translate_imported", open_vocabularies.write_opus)
    with pytest.raises(UsageError, match="--to_code is missing: the name of problem translate_im"):
        argos.languages_of(other, "en", "")
