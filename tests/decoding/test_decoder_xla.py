"""Searches whose steps XLA compiles."""

import numpy as np
import pytest

from support.rounding import assert_close
from support.small_models import make_decided
from support.terms import log_prob_terms
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.errors import UsageError
from t2t_lite.search import search_loop
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.factory import make_search

EOS = 1
ENDING = 12.0  # the logit of EOS, the largest
TRANSFORMER, LSTM = "transformer", "lstm_seq2seq_attention"
# At least four subwords: in each batch, three sentences continue after the first chunk of steps.
LONG = "min_length=4,return_beams=true"
SETTINGS = {
    "greedy": f"{LONG},beam_size=1",
    "beam": f"{LONG},beam_size=3,alpha=0.8",
    "all": f"{LONG},beam_size=3,alpha=0.8,coverage_penalty=0.4,no_repeat_ngram_size=2",
    "sampling": f"{LONG},beam_size=3,sampling_method=random,sampling_temp=0.8,"
    "sampling_keep_top_k=9,sampling_keep_top_p=0.9,seed=5",
}

# Lengths of sources, limits of outputs, sizes of prefixes.
BATCHES = [
    ([5, 2, 3, 4, 6], [8, 3, 6, 2, 7], [0, 1, 3, 0, 2]),
    ([7, 5, 6, 1, 3, 2, 8], [5, 7, 3, 1, 6, 2, 4], [3, 0, 0, 0, 1, 1, 3]),
]


def make_batch(lengths, limits, prefixes):
    draw = np.random.default_rng(len(lengths))
    shape = [len(lengths), max(lengths)]
    inputs, begins = np.zeros(shape, np.int32), np.zeros([shape[0], max(prefixes)], np.int32)
    for row, (length, prefix) in enumerate(zip(lengths, prefixes, strict=True)):
        inputs[row, :length] = [*draw.integers(2, 20, length - 1), EOS]
        begins[row, :prefix] = draw.integers(2, 12, prefix)
    return inputs, limits, begins, draw.permutation(100)[: shape[0]]


def sizes_of(search, monkeypatch):
    """Records the sizes that a search passes to XLA; returns the record."""
    run, go_on = search._compiled
    seen = []

    def noting(state, step, end):
        sentences, ids = state.sentences, next(iter(state.hypotheses))
        seen.append((*sentences.prefixes.shape, ids.shape[2]))
        return run(state, step, end)

    monkeypatch.setattr(search, "_compiled", (noting, go_on))
    return seen


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        pytest.param([TRANSFORMER], "beam", marks=pytest.mark.integration),
        pytest.param([LSTM], "sampling", marks=pytest.mark.integration),
        *(
            pytest.param(names, settings, marks=pytest.mark.slow)
            for names in ([TRANSFORMER], [LSTM], [TRANSFORMER, LSTM])
            for settings in ("greedy", "all", "sampling")
        ),
    ],
)
def test_xla_finds_the_same_with_few_sizes(names, settings, monkeypatch):
    monkeypatch.setattr(search_loop, "CHUNK", 4)
    models = [make_decided(name, 1, ending=ENDING) for name in names]
    model = models[0] if len(models) == 1 else Ensemble(models)
    plain, compiled = (
        make_search(model, {}, DecodeHParams().override(f"{SETTINGS[settings]},{xla}"))
        for xla in ("xla_compile=false", "xla_compile=true")
    )
    seen = sizes_of(compiled, monkeypatch)
    for lengths, limits, prefixes in BATCHES:
        batch = make_batch(lengths, limits, prefixes)
        expected, found = plain(*batch), compiled(*batch)
        np.testing.assert_array_equal(found.ids, expected.ids)
        # A score adds up a difference of logits a step, and those of an LSTM a cell a step.
        steps = max(lengths) + max(limits)
        terms = steps * sum(log_prob_terms(one, max(lengths)) for one in models)
        assert_close(found.scores, expected.scores, terms, scale=ENDING)
        best = zip(expected.ids[:, 0], limits, strict=True)
        assert any(EOS in ids[: limit - 1] for ids, limit in best), "some end by themselves"
    assert seen == [(8, 4, 4), (4, 4, 8)] * 2  # rows, prefix, room


def test_several_logical_cpu_devices_are_refused():
    hparams = DecodeHParams(xla_compile=True)
    model = make_decided(TRANSFORMER, 1)
    TensorFlowEngine(model, {}, hparams, ["CPU:0"])
    with pytest.raises(UsageError, match="'xla_compile': XLA cannot decode on several logical CPU"):
        TensorFlowEngine(model, {}, hparams, ["CPU:0", "CPU:1"])
