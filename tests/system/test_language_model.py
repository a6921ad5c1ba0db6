"""A language model through the commands: data, training, prompts, scores."""

import functools
import importlib
import json
import math
import pathlib
import random
import re

import numpy as np
import pytest

import t2t_lite
from support.commands import decoded, printed_by
from support.rounding import assert_close, relative_bound
from support.servers import answers_of
from support.terms import forward_terms
from t2t_lite.bin import t2t_datagen, t2t_decoder, t2t_eval, t2t_insights, t2t_trainer
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.errors import UsageError
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.requests import TranslationRequest

pytestmark = pytest.mark.integration

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
LENGTH = 6
HPARAMS = (
    "batch_size=512,hidden_size=64,filter_size=128,num_hidden_layers=1,max_length=16,"
    "batch_shuffle_size=4,layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0,"
    "learning_rate_schedule=constant*linear_warmup,learning_rate_constant=0.003,"
    "learning_rate_warmup_steps=20,label_smoothing=0"
)


SETS = {"transformer": "transformer_tiny", "attention_lm": "attention_lm_small"}


def line(start):
    return " ".join(WORDS[(start + i) % len(WORDS)] for i in range(LENGTH))


@pytest.fixture(scope="module")
def train(few_shards, tmp_path_factory):
    """Returns a function that gives the folder of a model that counts: in it, `data` and `run`."""

    @functools.cache
    def folder_of(model: str) -> pathlib.Path:
        folder = tmp_path_factory.mktemp(model)
        (folder / "tmp").mkdir()
        draw = random.Random(1)
        for split, count in (("train", 1000), ("eval", 40)):
            text = "".join(f"{line(draw.randrange(10))}\n" for _ in range(count))
            (folder / "tmp" / f"targets.{split}.txt").write_text(text)
        data = f"--data_dir={folder}/data"
        printed_by(t2t_datagen.main, "--problem=text2self_tmpdir", data, f"--tmp_dir={folder}/tmp")
        printed_by(
            t2t_trainer.main,
            "--problem=text2self_tmpdir",
            f"--model={model}",
            f"--hparams_set={SETS[model]}",
            f"--hparams={HPARAMS}",
            data,
            f"--output_dir={folder}/run",
            "--train_steps=120",
            "--local_eval_frequency=60",
        )
        return folder

    return folder_of


@pytest.fixture(params=SETS)
def each(request, train) -> pathlib.Path:
    """The folder of each model."""
    return train(request.param)


@pytest.fixture
def trained(train) -> pathlib.Path:
    """The folder of one, where all models of language go one way."""
    return train("transformer")


def test_it_has_learned_to_continue_prompts(each):
    prompts = ["three four", "", "nine ten one two three", "seven"]
    found = decoded(each, f"--decode_from_file={each}/in.txt", text=prompts)
    assert found[0] == "five six seven eight"
    assert found[1] in {line(start) for start in range(10)}
    assert found[2] == "four"
    assert found[3] == "eight nine ten one two"
    sampling = "--decode_hparams=beam_size=1,sampling_method=random,sampling_temp=0.1"
    flags = (f"--decode_from_file={each}/in.txt", sampling)
    assert decoded(each, *flags, text=prompts[:1]) == found[:1]


def test_an_ensemble_continues_prompts_on_one_device_and_on_two(trained, two_devices):
    prompts = [" ".join(line(start).split()[:size]) for start in range(10) for size in (2, 4)]
    flags = (f"--decode_from_file={trained}/in.txt", "--checkpoint_path=120,60")
    together = decoded(trained, *flags, text=prompts)
    # One batch is of one device, several are shared.
    apart = decoded(trained, *flags, "--decode_hparams=batch_size=3", text=prompts)
    assert apart == together
    assert [f"{prompt} {rest}" for prompt, rest in zip(prompts, apart, strict=True)] == [
        line(start) for start in range(10) for _ in (2, 4)
    ]


def test_perplexity_is_that_of_the_scores(each, capsys):
    text = [line(3), line(4)[: len("five six")], ""]
    scores = decoded(each, f"--score_file={each}/in.txt", text=text)
    report = capsys.readouterr().out
    opened = run_folder.RunFolder.open(str(each / "run"))
    model, encoder = opened.load_model().model, opened.encoders["targets"]
    total, tokens = 0.0, 0
    for one, score in zip(text, scores, strict=True):
        ids = [*encoder.encode(one), 1]
        features = {"inputs": np.zeros([1, 0], np.int32), "targets": np.array([ids], np.int32)}
        logits = np.float64(model(features))[0]
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        wanted = sum(log_probs[i, id_] for i, id_ in enumerate(ids))
        # A sum of log-probabilities, each a difference of numbers as large as the logits.
        terms = len(ids) + forward_terms(opened.hparams, len(ids), logits.shape[-1])
        assert_close(float(score), wanted, terms, scale=len(ids) * np.abs(logits).max())
        total, tokens = total + wanted, tokens + len(ids)
    words = LENGTH + 2 + 3
    characters = sum(map(len, text)) + len(text)
    shown = re.search(
        rf"perplexity (\S+) per token \({tokens} tokens\), (\S+) per word \({words} words\); "
        rf"(\S+) bits per character \({characters} characters\)",
        report,
    )
    wanted = [math.exp(-total / tokens), math.exp(-total / words)]
    wanted.append(-total / math.log(2) / characters)
    # Printed with four decimals; an error of the logarithm is one of the perplexity's share.
    share = relative_bound(2 * terms) * abs(total) / words
    for figure, one in zip(shown.groups(), wanted, strict=True):
        assert abs(float(figure) - one) <= 0.5e-4 + share * one


def test_n_grams_beside_it(trained, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    benchmark = importlib.import_module("language_model")
    held_out = trained / "held_out.txt"
    lines = [line(start) for start in range(10)]
    held_out.write_text("\n\n".join(lines))
    decoder = Decoder.from_run(run_folder.RunFolder.open(str(trained / "run")))
    train = trained / "tmp" / "targets.train.txt"
    ours, theirs = benchmark.perplexities(decoder, str(train), str(held_out), LENGTH + 2)
    assert ours[1:] == theirs[1:]
    # Each of ten beginnings is as likely; the rest of a line is certain, if all of it is seen.
    # A short training is as near to that as 15 %.
    assert ours.log_prob == pytest.approx(-10 * math.log(10), rel=0.15)
    assert theirs.log_prob == pytest.approx(-10 * math.log(10), rel=0.15)


def test_evaluations_are_of_perplexity(trained, capsys):
    metrics = [json.loads(row) for row in (trained / "run" / "metrics.jsonl").open()]
    last = [row for row in metrics if row["kind"] == "eval"][-1]
    assert last["perplexity"] < 1.6  # the first of six words has ten values: 10 ** (1 / 7) = 1.4
    assert "bleu" not in last
    printed_by(t2t_eval.main, f"--output_dir={trained}/run", f"--data_dir={trained}/data")
    assert "perplexity" in capsys.readouterr().out


def test_python_continues_prompts(trained):
    write = t2t_lite.open_run(str(trained / "run")).translator(beam_size=2)
    assert write("three four") == "five six seven eight"
    best, second = write("three four", n_best=2)
    assert best.text == "five six seven eight"
    assert best.score > second.score
    assert best.attention is None


def test_what_needs_a_source_is_refused(trained, capsys):
    def refusal(*flags):
        with pytest.raises(SystemExit):
            t2t_decoder.main([f"--output_dir={trained}/run", *flags])
        return capsys.readouterr().err

    (trained / "in.txt").write_text("one\n")
    prompts = f"--decode_from_file={trained}/in.txt"
    assert "is a language model: name a file of prompts" in refusal()
    assert "need a source" in refusal(prompts, f"--prefix_file={trained}/in.txt")
    assert "has no source" in refusal(prompts, "--decode_hparams=coverage_penalty=0.2")
    with pytest.raises(UsageError, match="no _rev"):
        t2t_lite.registry.problem("text2self_tmpdir_rev")


def test_the_server_continues_prompts(trained):
    serving = pytest.importorskip("t2t_lite.serving.request_translator")
    limits = ServerConfig(output_dir=str(trained / "run"))
    opened = run_folder.RunFolder.open(str(trained / "run"))
    hparams = DecodeHParams.of(opened.problem, "beam_size=2")
    server = serving.RequestTranslator.load(opened, None, hparams, ServerMetrics(), limits)
    requests = [TranslationRequest(["three four", ""], 1, False, False)]
    requests += [TranslationRequest(["nine ten one two three"], 2, True, True)]
    several, single = map(json.loads, answers_of(server, requests))
    first, second = [line["hypotheses"][0]["text"] for line in several["translations"]]
    assert first == "five six seven eight"
    assert second in {line(start) for start in range(10)}
    assert single["hypotheses"][0]["text"] == "four"
    assert single["hypotheses"][0]["log_probs"]


def test_insights_refuse_it(trained, capsys):
    with pytest.raises(SystemExit):
        t2t_insights.main([f"--output_dir={trained}/run", "--text=one"])
    assert "is a language model, without attention between two texts" in capsys.readouterr().err
