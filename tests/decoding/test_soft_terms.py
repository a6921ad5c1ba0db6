"""Terms that sources suggest, and placeholders that models carry: by both engines."""

import html
import re

import numpy as np
import pytest

import t2t_lite as t2t
from support.commands import exit_code
from support.copying import bytes_decoder
from support.small_runs import noisy_run
from t2t_lite.bin import t2t_datagen, t2t_decoder, t2t_trainer
from t2t_lite.decoding.config import CTRANSLATE2, ENGINES, TENSORFLOW
from t2t_lite.decoding.request import TextOptions
from t2t_lite.errors import UsageError

_LINES = ["A cat sleeps.", "", "nothing", "Two dogs, a dog and a cat " + "and a long line " * 4]
_TERMS = {"cat": "Katze", "dog": ["Hund", "Hunde"]}
_READ = [_LINES[0].replace("cat", "cat\x02 Katze\x03"), "", "nothing"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "term_augmentation": 0.5}
    return t2t.open_run(noisy_run(folder, **sizes).folder)


def _translator(run, engine, **settings):
    if engine == CTRANSLATE2:
        pytest.importorskip("ctranslate2")
    search = {"engine": engine, "beam_size": 2, "extra_length": 3, "term_mode": "soft"}
    return run.translator(**search | settings)


@pytest.mark.integration
@pytest.mark.parametrize("engine", ENGINES)
def test_the_model_reads_the_suggestions_and_nothing_else_changes(run, engine):
    translate = _translator(run, engine)
    found = translate(_LINES, terms=_TERMS)
    plain = translate(_LINES)
    assert found[:3] == translate(_READ)
    assert found[1:3] == plain[1:3]
    assert found[0] != plain[0]
    assert [translate(line, terms=_TERMS) for line in _LINES] == found
    assert list(translate.stream(iter(_LINES), terms=_TERMS)) == found


@pytest.mark.integration
@pytest.mark.parametrize("engine", ENGINES)
def test_tokens_and_attention_are_those_of_the_source(run, engine):
    ((first, *_), *_) = _translator(run, engine)(_LINES, 2, terms=_TERMS)
    assert first.source_tokens == [*_LINES[0], "<EOS>"]
    assert first.attention.shape == (len(first.tokens), len(first.source_tokens))
    np.testing.assert_allclose(first.attention.sum(axis=1), 1, atol=1e-4)


def test_long_lines_are_measured_with_their_suggestions(run):
    decoder = _translator(run, TENSORFLOW)._decoder
    text = decoder.text
    (source,) = text.encode(_LINES[3:], TextOptions(terms=_TERMS))
    ((*pieces,),) = decoder.cutter.pieces(source, "line")
    assert " ".join(piece.text for piece in pieces) == _LINES[3].strip()
    assert all(len(piece.ids) <= 40 for piece in pieces)
    read = " ".join(text.source_text(piece.ids) for piece in pieces)
    assert read.count("\x02") == read.count("\x03") == 2
    assert "dog\x02 Hund\x03 and" in read


@pytest.mark.integration
def test_markup_and_suggestions_together(run):
    output = _translator(run, TENSORFLOW)("A <b>cat</b> sleeps.", terms=_TERMS, markup="html")
    assert (output.count("<b>"), output.count("</b>")) == (1, 1)
    plain = _translator(run, TENSORFLOW)(_READ[0])
    assert re.sub("</?b>", "", output) == html.escape(plain, quote=False)


@pytest.mark.integration
def test_forbidden_words_need_a_search(run):
    translate = _translator(run, TENSORFLOW)
    words = translate(_READ[0]).split()[:1]
    assert words[0] not in translate(_LINES[0], terms=_TERMS, forbid=words).split()
    translate = _translator(run, TENSORFLOW, sampling_method="random")
    translate(_LINES[0], terms=_TERMS)
    with pytest.raises(UsageError, match="sampling draws"):
        translate(_LINES[0], terms=_TERMS, forbid=words)
    translate = _translator(run, CTRANSLATE2)
    with pytest.raises(UsageError, match=r"no search for them.*without forbidden words"):
        translate(_LINES[0], forbid=words)


@pytest.mark.integration
def test_models_that_have_not_learned_it_are_refused(run, tmp_path):
    plain = t2t.open_run(noisy_run(tmp_path, hidden_size=16, num_hidden_layers=1).folder)
    translate = plain.translator(term_mode="soft")
    with pytest.raises(UsageError, match=r"term_mode=soft: .*not trained with .*term_augmentation"):
        translate("A cat", terms=_TERMS)
    settings = run.translator(term_mode="soft")._decoder.hparams
    both = bytes_decoder([run.model(), plain.model()], settings=settings)
    with pytest.raises(UsageError, match="not trained with"):
        both.text.stages(TextOptions(terms=_TERMS))
    alike = bytes_decoder([run.model(), run.model()], settings=settings)
    alike.text.stages(TextOptions(terms=_TERMS))


# ---- a model that learns both


_NAMES = [f"{a}{b}l" for a in "bdf" for b in "aeiou"]
_TRAINED = 40_000  # so many that the other words are not learned by heart


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """The folder of a run that turns words to upper case, but for three in ten, to any word."""
    folder = tmp_path_factory.mktemp("learned")
    random = np.random.default_rng(3)
    rows = [
        random.choice(_NAMES, random.integers(2, 5), replace=False) for _ in range(_TRAINED + 100)
    ]
    meant = [[word if random.random() < 0.7 else random.choice(_NAMES) for word in r] for r in rows]
    texts = {
        "inputs": [" ".join(row) for row in rows],
        "targets": [" ".join(row).upper() for row in meant],
    }
    for side, lines in texts.items():
        for split, part in (("train", lines[:_TRAINED]), ("eval", lines[_TRAINED:])):
            (folder / f"{side}.{split}.txt").write_text("\n".join(part) + "\n")
    links = [" ".join(f"{i}-{i}" for i in range(len(row))) for row in rows[:_TRAINED]]
    (folder / "links.txt").write_text("\n".join(links) + "\n")
    problem, data = "--problem=text2text_tmpdir_bpe", f"--data_dir={folder / 'data'}"
    aligned = (f"--alignments={folder / 'links.txt'}", "--num_workers=1")
    assert not exit_code(t2t_datagen.main, problem, data, f"--tmp_dir={folder}", *aligned)
    sizes = "hidden_size=64,filter_size=128,num_heads=4,num_hidden_layers=2,batch_size=1024"
    rates = "learning_rate_constant=0.5,learning_rate_warmup_steps=100,label_smoothing=0"
    others = "layer_prepostprocess_dropout=0,max_length=64,guided_alignment_weight=0.5"
    shares = "term_augmentation=0.6,markup_augmentation=0.3"
    assert not exit_code(
        t2t_trainer.main,
        *(problem, data, f"--output_dir={folder / 'run'}", "--model=transformer"),
        *("--hparams_set=transformer_tiny", f"--hparams={sizes},{rates},{others},{shares}"),
        *("--train_steps=1500", "--local_eval_frequency=1500"),
    )
    return folder / "run"


@pytest.mark.slow
def test_a_model_learns_to_follow_suggestions(learned, tmp_path):
    """Each line has a term whose form is another word than the model would say."""
    lines, terms, out = tmp_path / "in", tmp_path / "terms.tsv", tmp_path / "out"
    random = np.random.default_rng(5)
    others = dict(zip(_NAMES, [*_NAMES[1:], _NAMES[0]], strict=True))
    terms.write_text("".join(f"{name}\t{others[name].upper()}\n" for name in _NAMES[::3]))
    term_of = {name: others[name].upper() for name in _NAMES[::3]}
    rows = [random.choice(_NAMES, 3, replace=False) for _ in range(50)]
    lines.write_text("".join(" ".join(row) + "\n" for row in rows))
    met = {}
    for mode in ("hard", "soft"):
        flags = (f"--output_dir={learned}", f"--decode_from_file={lines}")
        wanted = (f"--terms={terms}",) if mode == "soft" else ()
        assert not exit_code(
            t2t_decoder.main,
            *(*flags, *wanted, f"--decode_to_file={out}"),
            f"--decode_hparams=beam_size=2,term_mode={mode}",
        )
        outputs = [line.split() for line in out.read_text().splitlines()]
        pairs = [
            (word, output[i] if i < len(output) else "")
            for row, output in zip(rows, outputs, strict=True)
            for i, word in enumerate(row)
        ]
        met[mode] = np.mean([term_of[word] == found for word, found in pairs if word in term_of])
        kept = [word.upper() == found for word, found in pairs if word not in term_of]
        assert np.mean(kept) > 0.9
        out.unlink()
    assert met["hard"] < 0.1, "without terms, a word is itself"
    assert met["soft"] > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_learns_to_carry_placeholders(learned, engine):
    if engine == CTRANSLATE2:
        pytest.importorskip("ctranslate2")
    translate = t2t.open_run(learned).translator(beam_size=2, engine=engine)
    random = np.random.default_rng(6)
    rows = [random.choice(_NAMES, 3, replace=False).tolist() for _ in range(40)]
    for row in rows:
        row[random.integers(3)] = "{x}"
    found = translate([" ".join(row) for row in rows], markup="placeholders")
    assert all(output.count("{x}") == 1 for output in found)
    texts = [" ".join(row).upper().replace("{X}", "{x}") for row in rows]
    assert np.mean([a == b for a, b in zip(found, texts, strict=True)]) > 0.85
    (source,) = translate._decoder.text.encode(["bal {x}"], TextOptions(markup="placeholders"))
    (hypotheses,) = translate._decoder.variant(False, True).decode([source])
    assert "\x10" in hypotheses[0].details.tokens, "the model itself has said it"
