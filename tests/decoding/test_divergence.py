"""A model that outputs NaN: every search reports it, with line, checkpoint and reason."""

import contextlib
import math
import re
import types

import numpy as np
import pytest
import tensorflow as tf

from support.commands import exit_code
from support.servers import answers_of
from support.small_models import ByHand, make_decided, set_logits
from support.small_runs import noisy_run
from t2t_lite.bin import t2t_decoder, t2t_exporter
from t2t_lite.data.problem import Output
from t2t_lite.decoding import dataset_decoding
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.divergence import DivergedError
from t2t_lite.decoding.divergence_cause import diverged
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.scoring import total_score
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine, TensorFlowWorker
from t2t_lite.errors import UserError
from t2t_lite.interop.export.query_client import Client
from t2t_lite.metrics.parts import Part
from t2t_lite.models.copies import in_dtype
from t2t_lite.models.finite_weights import require_finite_weights
from t2t_lite.runs import averaging
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.constraints import MinLength, NoRepeatedNgrams
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.penalties import NO_PENALTY, Penalty
from t2t_lite.search.sampling import RandomSearch, Sampler
from t2t_lite.search.search_loop import Hypotheses
from t2t_lite.search.stopping import T2TStopping
from t2t_lite.search.tree_grammar import TreeGrammar
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.serving.requests import TranslationRequest
from t2t_lite.study.insights import job
from t2t_lite.text.text_encoder import EOS_ID, ByteTextEncoder
from t2t_lite.training import evaluation
from t2t_lite.training.callbacks import Callbacks
from t2t_lite.training.cluster.workers import Workers
from t2t_lite.training.evaluation import Evaluator

SEARCHES = {
    "greedy": greedy_search,
    "beam": lambda model: BeamSearch(model, 3, Penalty(0.6)),
    "beam_of_all": lambda model: BeamSearch(
        model, 2, NO_PENALTY, stopping=T2TStopping(early=False)
    ),
    "constrained": lambda model: BeamSearch(
        model, 2, Penalty(0.6), constraints=[MinLength(3), NoRepeatedNgrams(2)]
    ),
    "sampling": lambda model: RandomSearch(model, 2, seed=1),
    "narrow_sampling": lambda model: RandomSearch(model, 2, 1, Sampler(top_k=3, top_p=0.9)),
    "xla": lambda model: greedy_search(model, xla_compile=True),
}
LINES = 3
BAD = 1  # the sentence for which the table has NaN


def table(bad_from: int, bad: float, whole_row: bool) -> np.ndarray:
    """Logits [step, sentence, last id, next id]; those of `BAD` are `bad` from a step on."""
    logits = np.random.default_rng(0).normal(size=(6, LINES, 6, 6)).astype(np.float32)
    logits[:, :, :, 0] = -9.0
    logits[bad_from:, BAD, :, slice(None) if whole_row else 3] = bad
    return logits


@pytest.fixture(scope="module", params=SEARCHES)
def searching(request):
    """A search over a table that can be changed."""
    model = ByHand(np.ones([1, 1, 1, 1]))
    model.table = tf.Variable(table(9, 0.0, whole_row=True))
    return model, SEARCHES[request.param](model)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("bad", "bad_from", "whole_row"),
    [(math.nan, 0, True), (math.nan, 0, False), (math.nan, 2, True), (math.inf, 0, False)],
)
@pytest.mark.parametrize("prefix", [[], [4]])
def test_nan_is_the_score_of_its_sentence_alone(searching, bad, bad_from, whole_row, prefix):
    model, search = searching
    inputs = np.arange(1, LINES + 1)[:, None]
    arguments = inputs, [6] * LINES, np.array([prefix] * LINES, np.int32).reshape(LINES, -1)
    model.table.assign(table(9, 0.0, whole_row=True))
    sound = search(*arguments)
    assert not np.isnan(sound.scores).any()
    # No sentence ends before the table is bad.
    logits = table(bad_from, bad, whole_row)
    logits[:bad_from, BAD, :, EOS_ID] = -99.0
    model.table.assign(logits)
    found = search(*arguments)
    np.testing.assert_array_equal(np.isnan(found.scores).any(axis=1), np.arange(LINES) == BAD)
    others = np.arange(LINES) != BAD
    np.testing.assert_array_equal(found.ids[others], sound.ids[others])
    np.testing.assert_array_equal(found.scores[others], sound.scores[others])
    assert not found.ids[BAD][np.isnan(found.scores[BAD])].any()


@pytest.mark.integration
def test_a_grammar_does_not_hide_nan():
    model = ByHand(np.ones([1, 1, 1, 1]))
    model.table = tf.fill([20, 1, 6, 6], math.nan)
    symbols = ["<pad>", "<EOS>", "/NP", "NP", "DT", "NN"]
    grammar = TreeGrammar(model, symbols, {"": ["DT", "NN"]}, ["", "", " ", "a"], 8)
    assert np.isnan(greedy_search(grammar)(np.array([[1, 3]]), [9]).scores).all()


# ---- the models of a decoder


def poisoned(model, value: float) -> str:
    """Sets one number of a weight; returns the weight's path."""
    weight = model.trainable_variables[3]
    numbers = weight.numpy()
    numbers.flat[0] = value
    weight.assign(numbers)
    return weight.path


@pytest.fixture
def models():
    return [make_decided("transformer", 1), make_decided("transformer", 2)]


@pytest.mark.integration
def test_scoring_gives_nan_to_its_sentence_alone(models):
    table = next(w for w in models[0].weights if w.shape == (20, 16))
    numbers = table.numpy()
    numbers[7] = math.nan
    table.assign(numbers)
    features = {
        "inputs": tf.constant([[5, 1, 0], [7, 1, 0], [6, 8, 1]]),
        "targets": tf.constant([[4, 1], [4, 1], [3, 1]]),
    }
    for model in (models[0], Ensemble(models)):
        scores = total_score(model, features)
        np.testing.assert_array_equal(np.isnan(scores), [False, True, False])


@pytest.mark.integration
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_checkpoint_whose_weight_is_bad_is_named(models, value):
    path = poisoned(models[1], value)
    source = Source("", [5, 1], 3)
    error = diverged(models, ["one.ckpt-1", "two.ckpt-2"], source, "in.txt, line 3")
    assert str(error).startswith(
        "in.txt, line 3: two.ckpt-2 outputs NaN instead of probabilities: "
    )
    assert f"its weight {path} is not finite" in str(error)
    with pytest.raises(UserError, match=rf"two.ckpt-2: the weight {path} is not finite, as"):
        require_finite_weights(models[1], "two.ckpt-2")
    require_finite_weights(models[0], "one.ckpt-1")


@pytest.mark.integration
@pytest.mark.float16
def test_overflow_in_float16_is_not_reported_as_divergence(models):
    large = models[0].weights[0]
    large.assign(np.full(large.shape, 1e5))
    half = in_dtype(models[0], "float16")
    set_logits(half, lambda hidden: hidden[..., :12] * math.inf)
    source = Source("", [5, 1], 3)
    expected = "float16 holds no number above 65,504; use dtype=bfloat16 or float32"
    assert expected in str(diverged([half], ["one"], source, "line 3"))
    with pytest.raises(UserError, match=expected):
        require_finite_weights(half, "one")
    half.weights[0].assign(np.zeros(large.shape))
    assert expected in str(diverged([half], ["one"], source, "line 3"))
    require_finite_weights(half, "one")


@pytest.mark.integration
def test_the_checkpoint_that_gives_nan_of_finite_weights_is_named(models):
    set_logits(models[1], lambda hidden: hidden[..., :12] * math.inf)
    names = ["one.ckpt-1", "two.ckpt-2"]
    error = diverged(models, names, Source("", [5, 1], 3), "in.txt, line 3")
    assert "line 3: two.ckpt-2 outputs NaN" in str(error)
    assert "all its weights are finite" in str(error)
    error = diverged(models[:1], names[:1], Source("", [5, 1], 3), "in.txt, line 3")
    assert "line 3: one.ckpt-1 outputs NaN" in str(error)
    error = diverged(models[:1] * 2, ["a", "b"], Source("", [5, 1], 3), "in.txt, line 3")
    assert "line 3: one of a, b outputs NaN" in str(error)


class Inline(TensorFlowWorker):
    """Replaces the devices: searches and scores that are NaN for texts with a "?"."""

    def __init__(self):
        self._scores = None
        self._ends = (EOS_ID,)
        self._guide = types.SimpleNamespace(guided=lambda sources, limits, found: found)

    def map(self, work, batches):
        for number, batch in enumerate(batches):
            yield number, work(self, batch)

    def _search(self, inputs, limits, prefixes, numbers, given, extra):
        question = (inputs == ByteTextEncoder().encode("?")[0]).any(axis=1)
        ids = np.zeros([len(inputs), 1, max(limits)], np.int32)
        ids[:, :, 0] = EOS_ID
        return Hypotheses(ids, np.where(question, math.nan, -1.0)[:, None])

    def _rows(self, compiled, targets):
        question = ByteTextEncoder().encode("?")[0]
        return [(math.nan if question in target.source.ids else -1.0,) for target in targets]


def asking(names=("runs/one/model.ckpt-5",)) -> Decoder:
    """A decoder that cannot answer questions."""
    encoders = {"inputs": ByteTextEncoder(), "targets": ByteTextEncoder()}
    model = types.SimpleNamespace(
        hparams=types.SimpleNamespace(max_length=0, markup_augmentation=0), weights=[]
    )
    model.learned_positions = 0
    problem = types.SimpleNamespace(
        has_inputs=True,
        can_split_sources=True,
        source=str,
        postprocess=lambda source, text: types.SimpleNamespace(text=text, repairs=0),
    )
    engine = TensorFlowEngine([model], encoders, DecodeHParams(batch_size=2), names=names)
    engine.map = Inline().map
    return Decoder(engine, problem)


@pytest.mark.parametrize("work", ["decode", "score"])
def test_the_line_is_named_and_those_before_it_are_kept(work):
    decoder = asking()
    lines = ["longest of all", "long enough", "long?", "a", "b"]
    sources = decoder.text.encode(lines, name="in.txt, line", first=40)
    arguments = [sources, [[5]] * 5] if work == "score" else [sources]
    batches = getattr(decoder, f"{work}_batches")(*arguments, "in.txt, line")
    assert list(next(batches).sources) == [0, 1]
    with pytest.raises(DivergedError, match=r"^in.txt, line 42: runs/one/model.ckpt-5 outputs NaN"):
        next(batches)
    found = getattr(decoder, work)(*([a[:2] for a in arguments]), "in.txt, line")
    assert [beams[0].score for beams in found] == [-1.0, -1.0]


# ---- callers of the decoder


def test_the_server_refuses_the_requests_concerned_alone(caplog):
    translator = RequestTranslator(asking(), ServerMetrics(), ServerConfig())
    texts = (["fine"], ["also", "why?"], ["good"])
    requests = [TranslationRequest(list(t), 1, False, len(t) == 1) for t in texts]
    answers = answers_of(translator, requests)
    assert [isinstance(answer, bytes) for answer in answers] == [True, False, True]
    assert answers[1].status_code == 500
    assert answers[1].detail.startswith("text 2: the model outputs NaN instead of probabilities")
    assert "text 2: runs/one/model.ckpt-5 outputs NaN" in caplog.text


def evaluator_of(decoder, metrics):
    """An evaluator without a model and data, whose loss is NaN."""
    evaluator = object.__new__(Evaluator)
    problem = types.SimpleNamespace(existing_filepaths=lambda *_: ["shard"], float_sides=())
    evaluator.parts = [Part("", problem, metrics)]
    evaluator._data = {"": (["shard"], [], 0)}
    evaluator._data_dir = ""
    evaluator._split = "eval"
    evaluator._stop = types.SimpleNamespace(at_once=contextlib.nullcontext)
    evaluator._teacher_forced = lambda batches: {"loss": math.nan}
    evaluator._decoders = {"": decoder}
    evaluator._workers = Workers()
    evaluator._decodes = True
    evaluator._origin = {}
    evaluator._callbacks = Callbacks()
    return evaluator


def test_a_diverged_evaluation_is_reported_and_training_continues(caplog, monkeypatch):
    records = []
    decoder = asking(["the model"])
    sources = decoder.text.encode(["fine", "why?"])
    monkeypatch.setattr(dataset_decoding, "read_examples", lambda *args: (sources, ["a", "b"]))
    metrics = types.SimpleNamespace(write=lambda *record: records.append(record))
    evaluator_of(decoder, ["bleu"])(30, metrics)
    ((kind, step, values),) = records
    assert (kind, step) == ("eval", 30)
    assert values.keys() == {"loss", "bleu"}
    assert all(map(math.isnan, values.values())), "not a BLEU of 0"
    assert "step 30: loss nan, and no bleu: eval example 2: the model outputs NaN" in caplog.text


@pytest.mark.parametrize(("sources", "is_told"), [(12, True), (9, False)])
def test_outputs_that_do_not_depend_on_the_source_are_told(sources, is_told, caplog, monkeypatch):
    """Ten sources or more; with fewer, it may be right."""
    texts = [str(number) for number in range(sources)]
    outputs = [Output("Tom ist groß.")] * sources
    monkeypatch.setattr(evaluation, "attention_images", lambda *_: [])
    evaluator = evaluator_of(None, ["exact_match"])
    evaluator._model, evaluator._readers = None, {"": None}
    metrics = types.SimpleNamespace(write=lambda *_: None, write_samples=lambda *_, **__: None)
    evaluator.decoded = lambda part: dataset_decoding.Decodes(texts, texts, outputs)
    evaluator(1000, metrics)
    message = "step 1000: all outputs are 'Tom ist groß.', whatever the source"
    assert (message in caplog.text) == is_told
    evaluator.decoded = lambda part: dataset_decoding.Decodes(
        texts, texts, [*outputs[1:], Output("Tom")]
    )
    caplog.clear()
    evaluator(2000, metrics)
    assert "whatever the source" not in caplog.text


def test_one_reference_may_be_the_output_of_all_sources():
    texts = [str(number) for number in range(12)]
    found = dataset_decoding.Decodes(texts, ["yes"] * 12, [Output("yes")] * 12)
    assert found.only_output() is None


def test_a_metric_whose_program_fails_is_nan_and_training_continues(caplog):
    decodes = dataset_decoding.Decodes(["a"], ["b"], [Output("b")])
    evaluator = evaluator_of(None, ["loss", "command:false", "exact_match"])
    failed, exact = evaluator.scores(30, evaluator.parts[0], decodes)
    assert math.isnan(failed.values["command:false"])
    assert exact.values == {"exact_match": 100.0}
    assert "step 30: no command:false: metric 'command:false'" in caplog.text
    assert "ended with exit code 1" in caplog.text


def test_attention_that_is_nan_is_not_drawn(monkeypatch):
    maps = {"encoder": [np.full([1, 2, 2], math.nan)]}
    monkeypatch.setattr(job, "attention_maps", lambda *_: maps)
    decoder = asking()
    with pytest.raises(DivergedError, match=r"--text, line 1: runs/one/model.ckpt-5 outputs NaN"):
        job.look(decoder, "a text", "a target")


def test_a_served_model_that_answers_nan_is_an_error(monkeypatch):
    client = Client("localhost:1", "ende", 1)
    answer = b'{"outputs": {"outputs": [["", "a"]], "scores": [[NaN, -1.0]]}}'
    monkeypatch.setattr(client, "_post", lambda body: answer)
    with pytest.raises(UserError, match="ende:predict answered with NaN instead of scores"):
        client.ask("a line")


def test_an_average_with_nan_is_not_written(tmp_path, models):
    poisoned(models[0], math.nan)
    (tmp_path / "model.ckpt-5.index").touch()
    run = types.SimpleNamespace(
        folder=tmp_path, build_model=lambda: models[0], restore_weights=lambda model, path: 5
    )
    with pytest.raises(UserError, match=r"model.ckpt-5: the weight .* is not finite"):
        averaging.average(run, [str(tmp_path / "model.ckpt-5")])
    assert [path.name for path in tmp_path.iterdir()] == ["model.ckpt-5.index"]


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_the_command_fails_and_names_line_checkpoint_and_weight(tmp_path, capsys):
    run = noisy_run(
        tmp_path / "made", hidden_size=8, filter_size=8, num_heads=2, num_hidden_layers=1
    )
    model = run.load_model().model
    name = poisoned(model, math.nan).split("/")[-1]  # Keras renumbers the rest in each process
    checkpoint = tf.train.Checkpoint(model=model, step=tf.Variable(9, dtype=tf.int64))
    checkpoint.write(str(run.folder / "model.ckpt-9"))
    (tmp_path / "in").write_text("\none\n")
    flags = [f"--decode_from_file={tmp_path}/in", f"--decode_to_file={tmp_path}/out"]
    flags += [f"--output_dir={run.folder}", "--decode_hparams=beam_size=2,extra_length=4"]
    assert exit_code(t2t_decoder.main, *flags) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{tmp_path}/in, line 2: {run.folder}/model.ckpt-9 outputs NaN" in error
    assert re.search(rf"its weight \S+/{name} is not finite", error)
    for export in (["--format=keras"], []):
        with pytest.raises(SystemExit):
            t2t_exporter.main([f"--output_dir={run.folder}", *export])
        error = capsys.readouterr().err
        assert re.search(rf"model.ckpt-9: the weight \S+/{name} is not finite", error)
    assert not (tmp_path / "out").exists()
    assert not (run.folder / "export").exists()
