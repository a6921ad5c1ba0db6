"""Numbers of parameters: of whole models, and beside the published ones."""

import pytest

from t2t_lite import registry
from t2t_lite.models.transformer import Transformer
from t2t_lite.study.paper.parameter_counts import (
    ParameterCount,
    abstract_model,
    best_vocabulary,
    count,
    size_of_run,
    table,
)
from t2t_lite.study.paper.published import TABLE_3, VOCABULARY

SMALL = {"hidden_size": 64, "num_hidden_layers": 1}
_PUBLISHED = [row for row in TABLE_3 if row.parameters is not None]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("row", "changes"),
    [
        ("c4", {}),
        ("b1", {"hidden_size": 64, "filter_size": 96, "num_hidden_layers": 1}),
        ("c1", {"hidden_size": 64, "filter_size": 96}),
        ("e", {"hidden_size": 64, "num_encoder_layers": 1, "num_decoder_layers": 3}),
        ("aop2", {"hidden_size": 64, "num_hidden_layers": 2}),
        ("base", {**SMALL, "shared_embedding_and_softmax_weights": False}),
        ("base", {**SMALL, "layer_preprocess_sequence": "n"}),
    ],
)
def test_counted_as_the_whole_model_has_them(row, changes):
    hparams = registry.hparams(f"transformer_paper_{row}").copy(**changes)
    counted = ParameterCount.of(hparams)
    assert counted.at(70) == Transformer(hparams, 70, 70).count_params()
    assert counted.vocabulary(counted.at(70)) == 70


@pytest.mark.parametrize("sizes", [(50, 50), (50, 60)])
def test_a_run_counts_with_each_of_its_vocabularies(sizes):
    class Run:
        def build_model(self):
            return Transformer(registry.hparams("transformer_test"), *sizes)

    assert size_of_run(Run()) == Run().build_model().count_params()


def test_an_outline_holds_no_values():
    hparams = registry.hparams("transformer_paper_base").copy(num_hidden_layers=1)
    model = abstract_model(hparams, 10**12)  # 2 PB
    assert model.targets_embedding.matrix.shape == (10**12, 512)


def test_base_by_hand():
    d, d_ff, layers = 512, 2048, 6
    attention, norm = 4 * d * d, 2 * d
    feed_forward = 2 * d * d_ff + d_ff + d
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    assert count("transformer_paper_base") == ParameterCount(layers * (encoder + decoder), d)


@pytest.mark.integration
@pytest.mark.parametrize("row", _PUBLISHED, ids=[row.name for row in _PUBLISHED])
def test_rows_are_within_3_percent_of_the_paper(row):
    best = best_vocabulary()
    assert 40_000 < best < 41_500
    counted = count(row.hparams_set).at(best) / 1e6
    assert counted == pytest.approx(row.parameters, rel=0.03)
    if row.name != "big":  # docs/paper.md: no vocabulary fits big and the others
        ours = counted - count("transformer_paper_base").at(best) / 1e6
        theirs = row.parameters - 65
        assert abs(ours - theirs) <= max(1.0, 0.03 * abs(theirs))


@pytest.mark.integration
def test_the_table_shows_every_row_at_both_vocabularies():
    shown = table()
    assert len(shown.rows) == len(TABLE_3)
    columns = {column.name: i for i, column in enumerate(shown.columns)}
    big = next(row for row in shown.rows if row[0] == "big")
    assert big[columns["10⁶"]] == 213
    at_37_000 = big[columns[f"10⁶, V={VOCABULARY:,}"]]
    assert at_37_000 == count("transformer_paper_big").at(37_000) / 1e6
    assert "no vocabulary gives both" in shown.notes[1]
