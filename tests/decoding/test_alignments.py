"""Outputs as links to their sources, by both engines; a model that learns them."""

import json

import numpy as np
import pytest

import t2t_lite as t2t
from support.commands import exit_code
from support.small_runs import noisy_run
from t2t_lite.bin import t2t_bleu, t2t_datagen, t2t_decoder, t2t_trainer
from t2t_lite.data.problem import Output
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import CTRANSLATE2, ENGINES, DecoderConfig
from t2t_lite.decoding.hypotheses import Hypothesis
from t2t_lite.decoding.stages.alignment import subword_links
from t2t_lite.errors import UsageError

_LINES = [
    "A cat sleeps here.",
    "",
    "two",
    "A long line, which is split: " + "with many words, " * 5,
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    hparams = {"hidden_size": 16, "num_hidden_layers": 1, "guided_alignment_weight": 0.1}
    return t2t.open_run(noisy_run(folder, **hparams).folder)


def decode(run, tmp_path, name, **settings):
    source, target = tmp_path / "in.txt", tmp_path / name
    source.write_text("\n".join(_LINES) + "\n")
    search = settings.pop("decode_hparams", "beam_size=2,extra_length=3")
    jobs.run(
        DecoderConfig(
            output_dir=str(run.folder),
            decode_from_file=str(source),
            decode_to_file=str(target),
            decode_hparams=search,
            **settings,
        )
    )
    return target.read_text().split("\n")[:-1]


def links(line):
    return [tuple(map(int, link.split("-"))) for link in line.split()]


@pytest.mark.integration
@pytest.mark.parametrize("engine", ENGINES)
def test_each_word_of_an_output_has_a_link(run, tmp_path, engine):
    if engine == CTRANSLATE2:
        pytest.importorskip("ctranslate2")
    found = decode(run, tmp_path, "words", output_format="alignments", engine=engine)
    subwords = decode(run, tmp_path, "subwords", output_format="subword_alignments", engine=engine)
    objects = [
        json.loads(line)
        for line in decode(run, tmp_path, "json", output_format="json", engine=engine)
    ]
    assert found[1] == ""
    for source, line, tokens, entry in zip(_LINES, found, subwords, objects, strict=True):
        best = entry["hypotheses"][0] if entry["hypotheses"] else {"text": "", "attention": []}
        words = best["text"].split()
        targets = [target for _, target in links(line)]
        assert targets == sorted({*targets} & {*range(len(words))})
        assert all(place < len(source.split()) for place, _ in links(line))
        assert line == best.get("alignment", "")
        if source and len(best["tokens"]) < 60:
            attended = np.array(best["attention"]).argmax(axis=1).tolist()
            attended = attended[: len(attended) - (best["tokens"][-1] == "<EOS>")]
            eos = len(best["source_tokens"]) - 1
            wanted = [(place, i) for i, place in enumerate(attended) if place != eos]
            assert links(tokens) == wanted


@pytest.mark.integration
def test_all_hypotheses_have_columns(run, tmp_path):
    search = "beam_size=2,extra_length=3,return_beams=true"
    found = decode(run, tmp_path, "words", output_format="alignments", decode_hparams=search)
    assert [line.count("\t") for line in found] == [1, 0, 1, 1]


@pytest.mark.integration
def test_given_targets_are_aligned(run, tmp_path):
    targets = tmp_path / "targets.txt"
    targets.write_text("x y z\n\nw\na b\n")
    found = decode(run, tmp_path, "out", output_format="alignments", score_file=str(targets))
    found = [[target for _, target in links(line)] for line in found]
    for targets, size in zip(found, [3, 0, 1, 2], strict=True):
        assert {*targets} <= {*range(size)}
    assert any(found)


def test_an_output_without_attention_has_no_links():
    """That of a line without text, say."""
    assert subword_links(Hypothesis(Output(""), [], 0.0)) == ""


def test_markup_is_refused(run, tmp_path):
    with pytest.raises(UsageError, match="leave out one of the two"):
        decode(run, tmp_path, "out", output_format="alignments", markup="html")


@pytest.mark.slow
def test_a_head_learns_the_alignments_that_it_is_given(tmp_path, capsys):
    """Words in the opposite order, which no attention has to follow to predict them."""
    random = np.random.default_rng()
    names = [f"{a}{b}{c}" for a in "bdf" for b in "aeiou" for c in "ln"]
    rows = [random.choice(names, random.integers(3, 7), replace=False) for _ in range(600)]
    texts = {
        "inputs": [" ".join(row) for row in rows],
        "targets": [" ".join(word.upper() for word in row[::-1]) for row in rows],
        "links": [" ".join(f"{i}-{len(r) - 1 - i}" for i in range(len(r))) for r in rows],
    }
    for side in ("inputs", "targets"):
        for split, lines in (("train", slice(500)), ("eval", slice(500, 600))):
            path = tmp_path / f"{side}.{split}.txt"
            path.write_text("\n".join(texts[side][lines]) + "\n")
    (tmp_path / "links.txt").write_text("\n".join(texts["links"][:500]) + "\n")
    (tmp_path / "people.txt").write_text("\n".join(texts["links"][500:]) + "\n")
    data, run = f"--data_dir={tmp_path / 'data'}", f"--output_dir={tmp_path / 'run'}"
    problem = "--problem=text2text_tmpdir_bpe"
    aligned = f"--alignments={tmp_path / 'links.txt'}"
    assert not exit_code(
        t2t_datagen.main, problem, data, f"--tmp_dir={tmp_path}", aligned, "--num_workers=1"
    )
    sizes = "hidden_size=32,filter_size=64,num_heads=2,num_hidden_layers=2,batch_size=1024"
    learning = "learning_rate_constant=2,learning_rate_warmup_steps=50,guided_alignment_weight=2"
    assert not exit_code(
        t2t_trainer.main,
        *(problem, data, run, "--model=transformer", "--hparams_set=transformer_tiny"),
        *(f"--hparams={sizes},{learning}", "--train_steps=300", "--local_eval_frequency=300"),
    )
    found = tmp_path / "found.txt"
    assert not exit_code(
        t2t_decoder.main,
        *(run, "--output_format=alignments", f"--decode_to_file={found}"),
        f"--decode_from_file={tmp_path / 'inputs.eval.txt'}",
        f"--score_file={tmp_path / 'targets.eval.txt'}",
    )
    capsys.readouterr()
    people = f"--reference={tmp_path / 'people.txt'}"
    assert not exit_code(t2t_bleu.main, f"--translation={found}", people, "--metrics=aer")
    rate = float(capsys.readouterr().out.partition("=")[2])
    assert rate < 20, "AER, %: by chance it is 80"
