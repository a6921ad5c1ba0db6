"""A classifier through the commands: data, training, labels with probabilities, scores."""

import functools
import json
import math
import pathlib

import pytest

import t2t_lite
from support.commands import decoded, printed_by
from support.registries import restored
from support.rounding import assert_close, relative_bound
from support.servers import answers_of
from support.terms import forward_terms
from t2t_lite.bin import t2t_datagen, t2t_eval, t2t_insights, t2t_trainer
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.requests import TranslationRequest

pytestmark = pytest.mark.integration

PROBLEM = '''
import random

from t2t_lite import registry
from t2t_lite.data import text_problems

WORDS = (("bad", "awful", "dull"), ("good", "great", "fine"))


@registry.register_problem
class MoreFrequent(text_problems.Text2ClassProblem):
    """Which of two kinds of words there are more of."""

    num_classes = 2
    approx_vocab_size = 2**8

    @property
    def dataset_splits(self):
        return [{"split": "train", "shards": 2}, {"split": "eval", "shards": 1}]

    def class_labels(self, data_dir):
        return ["neg", "pos"]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        draw = random.Random(f"41/{dataset_split}")
        for _ in range(3000 if dataset_split == "train" else 100):
            kinds = [draw.randrange(2) for _ in range(draw.choice((3, 5, 7, 9)))]
            text = " ".join(draw.choice(WORDS[kind]) for kind in kinds)
            yield {"inputs": text, "label": int(2 * sum(kinds) > len(kinds))}
'''
HPARAMS = (
    "batch_size=1024,batch_shuffle_size=4,max_length=64,num_hidden_layers=1,hidden_size=64,"
    "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0,"
    "filter_size=128,learning_rate_schedule=constant*linear_warmup*rsqrt_decay,"
    "learning_rate_constant=0.02,learning_rate_warmup_steps=20"
)
STEPS = {"transformer_encoder": 100, "transformer": 200}
TEXTS = ["good bad great", "", "awful dull fine", "fine " * 39 + "dull"]
LABELS = ["pos", "", "neg", "pos"]


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Returns a function that gives the folder of a trained classifier: its run is in `run`."""
    with restored():
        root = tmp_path_factory.mktemp("classifiers")
        usr_dir = root / "usr_classes"
        usr_dir.mkdir()
        (usr_dir / "__init__.py").write_text(PROBLEM)
        names = (f"--t2t_usr_dir={usr_dir}", "--problem=more_frequent", f"--data_dir={root}/data")
        printed_by(t2t_datagen.main, *names, f"--tmp_dir={root}/tmp")

        @functools.cache
        def folder_of(model: str) -> pathlib.Path:
            printed_by(
                t2t_trainer.main,
                *names,
                f"--model={model}",
                "--hparams_set=transformer_tiny",
                f"--hparams={HPARAMS}",
                f"--output_dir={root / model}/run",
                f"--train_steps={STEPS[model]}",
                f"--local_eval_frequency={STEPS[model]}",
            )
            return root / model

        yield folder_of


@pytest.fixture(params=STEPS)
def each(request, train) -> pathlib.Path:
    """The folder of each model."""
    return train(request.param)


@pytest.fixture
def trained(train) -> pathlib.Path:
    """The folder of the classifier."""
    return train("transformer_encoder")


@pytest.fixture
def is_encoder(each):
    return "encoder" in each.name


def test_it_has_learned_to_count(each, is_encoder, capsys):
    rows = [json.loads(row) for row in (each / "run" / "metrics.jsonl").open()]
    (last,) = (row for row in rows if row["kind"] == "eval")
    assert last["exact_match"] >= 95
    assert last["accuracy_per_sequence"] >= 0.95
    if is_encoder:  # which is sure of EOS
        assert last["exact_match"] == 100 * last["accuracy_per_sequence"]
        assert last["accuracy"] == (1 + last["accuracy_per_sequence"]) / 2
    printed_by(t2t_eval.main, f"--output_dir={each}/run")
    assert "exact_match" in capsys.readouterr().out


def test_texts_get_labels(trained, capsys):
    """Texts of any length, with the least room for outputs."""
    (trained / "reference.txt").write_text("".join(f"{label}\n" for label in LABELS))
    found = decoded(
        trained,
        f"--decode_from_file={trained}/in.txt",
        f"--decode_reference={trained}/reference.txt",
        "--decode_hparams=extra_length=1",
        text=TEXTS,
    )
    assert found == LABELS
    assert "exact match (% of outputs) = 100.00" in capsys.readouterr().out


def test_n_best_lists_are_distributions(each, is_encoder):
    translate = t2t_lite.open_run(str(each / "run")).translator(beam_size=4)
    found = translate("good great bad", n_best=4)
    assert found[0].text == "pos"
    # The best of each: other outputs may have the same text, such as one with padding.
    scores = {entry.text: entry.score for entry in found[::-1] if entry.text in ("neg", "pos")}
    total, labels = sum(map(math.exp, scores.values())), 2
    opened = run_folder.RunFolder.open(str(each / "run"))
    terms = forward_terms(opened.hparams, len(found[0].source_tokens), labels + 2)
    gap = max(map(abs, scores.values()))  # between the logits, of which a score is a difference
    if is_encoder:
        assert_close(total, 1.0, terms=2 * (labels + 2))  # a softmax, and its logarithms taken back
        assert [entry.text for entry in found] == ["pos", "neg"]
        assert_close(found[0].log_probs, [found[0].score, 0.0], terms, scale=gap)
        assert found[0].attention.tolist() == [[1 / len(found[0].source_tokens)] * 4] * 2
    else:
        assert 0.8 < total <= 1.0 + gap * relative_bound(terms), "few outputs are not labels"
    pairs = [f"good great bad\t{label}" for label in scores]
    written = decoded(each, f"--score_file={each}/in.txt", text=pairs)
    assert_close([float(line) for line in written], [*scores.values()], terms, scale=gap)


def test_the_server_and_insights_know_labels(trained):
    serving = pytest.importorskip("t2t_lite.serving.request_translator")
    opened = run_folder.RunFolder.open(str(trained / "run"))
    hparams = DecodeHParams.of(opened.problem, "beam_size=2")
    limits = ServerConfig(output_dir=str(trained / "run"))
    server = serving.RequestTranslator.load(opened, None, hparams, ServerMetrics(), limits)
    requests = [TranslationRequest(TEXTS[:3], 2, True, False)]
    (answer,) = map(json.loads, answers_of(server, requests))
    found = [[h["text"] for h in line["hypotheses"]] for line in answer["translations"]]
    assert [beams[:1] for beams in found] == [["pos"], [], ["neg"]]
    page = trained / "page.html"
    printed_by(
        t2t_insights.main, f"--output_dir={trained}/run", "--text=good", f"--output_file={page}"
    )
    assert "pos" in page.read_text()
