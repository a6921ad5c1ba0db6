"""The same model in CTranslate2: scores, searches, and its README."""

import dataclasses
import math
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

from support import open_vocabularies, t2t_weights
from support.instructions import error_of_8_bits, products_in_a_row
from support.marks import by_name
from support.rounding import UNIT, assert_close, relative_bound
from support.short_runs import short_run
from support.terms import log_prob_terms
from t2t_lite import registry
from t2t_lite.data.text_problems import Text2TextProblem, TwoVocabularies
from t2t_lite.decoding.ctranslate2_model import convert
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.scoring import score
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UserError
from t2t_lite.interop.export import ctranslate2 as exporter
from t2t_lite.interop.export.ctranslate2_readme import readme
from t2t_lite.layers.dense import EXCLUDED
from t2t_lite.runs import run_folder
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.factory import make_search
from t2t_lite.search.penalties import Penalty
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.imported_encoder import write_encoder
from t2t_lite.text.text_encoder import VocabType

ctranslate2 = pytest.importorskip("ctranslate2")

VOCAB = 60
_MARIAN = {
    "layer_preprocess_sequence": "none",
    "layer_postprocess_sequence": "dan",
    "attention_bias": True,
    "ffn_activation": "swish",
    "softmax_bias": True,
    "softmax_padding": False,
    "suppressed_ids": "2",
}
# The fields with which imported models compute.
OPEN_MODELS = {
    "marian": _MARIAN,
    "hugging_face_marian": {**_MARIAN, "pos": "timing_paper", "norm_epsilon": 1e-5},
    "m2m100": {
        "layer_preprocess_sequence": "n",
        "layer_postprocess_sequence": "da",
        "attention_bias": True,
        "position_offset": 2,
        "start_id": 1,
        "norm_epsilon": 1e-5,
    },
}
LIMIT = 30  # subwords of an output


@registry.register_problem("export_test_pieces")
class Pieces(Text2TextProblem):
    vocab_type = VocabType.SENTENCEPIECE_BPE
    approx_vocab_size = 290
    decode_hparams = "alpha=0"

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for line in ("a sentence", "a sentence about the sense of tents"):
            yield {"inputs": line, "targets": line.upper()}


@registry.register_problem("export_test_two_vocabularies")
class TwoPieces(TwoVocabularies, Pieces):
    vocab_languages = ("low", "up")


class Penalised(Pieces):
    decode_hparams = "alpha=0.6"
    vocab_filename = Pieces().vocab_filename


def tiny(**changes) -> keras.Model:
    """A model whose choices are clear and depend on the source, and to which padding is none."""
    keras.utils.set_random_seed(3)
    hparams = registry.hparams("transformer_tiny").copy(**changes)
    model = registry.model("transformer")(hparams, VOCAB, VOCAB)
    for weight in model.weights:  # norms and biases, which would be 1 and 0
        if weight.name in ("gamma", "beta", "bias"):
            weight.assign(weight + keras.random.normal(weight.shape, stddev=0.1, seed=1))
    for layer in model.decoder.stack:
        kernel = layer.source_attention.output_projection.kernel
        kernel.assign(kernel * 2.0)
    matrix = keras.ops.convert_to_numpy(model.softmax_embedding.matrix) * 3.0
    matrix[0] = 0.0
    model.softmax_embedding.matrix.assign(matrix)
    return model


def sources(count: int) -> np.ndarray:
    """Ids of random sentences of up to twelve subwords, each with its EOS."""
    random = np.random.default_rng(5)
    rows = [[*random.integers(2, VOCAB, n), 1] for n in random.integers(1, 12, count)]
    return keras.utils.pad_sequences(rows, padding="post")


def tokens(rows) -> list[list[str]]:
    """Ids as CTranslate2's tokens, without padding and EOS."""
    return [[str(i) for i in row if i > 1] for row in np.asarray(rows)]


def translator(model, folder, quantization="float32"):
    convert(model, quantization=quantization).save(str(folder))
    return ctranslate2.Translator(str(folder), intra_threads=1)


def log_probs(
    model, features, logits, folder, quantization="float32"
) -> tuple[np.ndarray, np.ndarray]:
    """The log-probabilities of all target subwords by CTranslate2, and by the model."""
    theirs = translator(model, folder, quantization).score_batch(
        tokens(features["inputs"]), tokens(features["targets"])
    )
    ours = score(lambda _: logits, features).numpy() - log_possible(model, features, logits)
    found = [scores.log_probs for scores in theirs]
    wanted = [row[: len(scores)] for row, scores in zip(ours, found, strict=True)]
    return np.concatenate(found), np.concatenate(wanted)


def log_possible(model, features, logits) -> np.ndarray:
    """The logarithm of the probability of what CTranslate2 may output, at each position."""
    probabilities = keras.ops.softmax(keras.ops.cast(logits, "float32"))
    never = keras.ops.convert_to_numpy(probabilities)[..., [*model.never_output]]
    return np.log1p(-never.sum(axis=-1)) * (features["targets"] != 0)


def assert_scores_agree(model, features, folder):
    """Compares the log-probability of every target subword, a difference of logits."""
    length = max(array.shape[1] for array in features.values())
    logits = np.asarray(model(features))
    scale = np.abs(logits[logits > EXCLUDED]).max()
    found, wanted = log_probs(model, features, logits, folder)
    assert_close(found, wanted, log_prob_terms(model, length), scale=scale)


@pytest.mark.integration
@pytest.mark.parametrize(
    "config", ["base_v1", "relative", "pos_emb", "unshared", "two_vocabs", "channels"]
)
def test_scores_are_those_of_the_models_recorded_from_t2t(golden, tmp_path, config):
    """Both places of the norms, embeddings shared or not, two vocabularies, all positions."""
    folder = golden / "transformer" / config
    model, config = t2t_weights.golden_transformer(folder)
    if config["hparams"]["attention_key_channels"]:
        with pytest.raises(UserError, match="attention_key_channels=16"):
            convert(model)
        return
    recorded = np.load(folder / "forward.npz")
    features = {name: recorded[f"a/{name}"] for name in ("inputs", "targets")}
    assert_scores_agree(model, features, tmp_path)


@pytest.mark.integration
@pytest.mark.parametrize(
    "changes",
    [
        {"multiply_embedding_mode": "none", "norm_epsilon": 0.1, "num_decoder_layers": 1},
        {"use_target_space_embedding": True, "shared_embedding_and_softmax_weights": False},
        {
            "self_attention_type": "dot_product_relative",
            "max_relative_position": 3,
            "pos": "none",
            "use_target_space_embedding": True,
        },
        # Positions after the fifth share its row.
        {"pos": "emb", "max_length": 5, "num_hidden_layers": 1},
        OPEN_MODELS["marian"],
        {**OPEN_MODELS["hugging_face_marian"], "num_hidden_layers": 1},
        OPEN_MODELS["m2m100"],
        {**OPEN_MODELS["marian"], "ffn_activation": "gelu", "layer_final_sequence": "n"},
        {**OPEN_MODELS["m2m100"], "ffn_activation": "gelu_tanh", "layer_final_sequence": "none"},
        {
            "self_attention_type": "dot_product_relative",
            "max_relative_position": 3,
            "pos": "none",
            "attention_bias": True,
            "ffn_activation": "gelu_sigmoid",
            "softmax_bias": True,
            "num_hidden_layers": 1,
        },
    ],
    ids=[
        *("unscaled", "target_space", "relative", "short_table", *OPEN_MODELS),
        *("post_norm_and_a_last", "pre_norm_without_a_last", "relative_with_biases"),
    ],
)
def test_scores_are_the_models(changes, tmp_path):
    model, targets = tiny(**changes), sources(16)[8:]
    targets[np.isin(targets, model.never_output)] = VOCAB - 1
    assert_scores_agree(model, {"inputs": sources(8), "targets": targets}, tmp_path)


@pytest.mark.integration
@pytest.mark.parametrize("seed", [0, 1, *by_name(*range(2, 8))])
def test_any_fields_together_give_the_same_searches(seed, tmp_path):
    """Without ends, so that both search equally far; those are in the next test."""
    random = np.random.default_rng(seed)
    choices = {
        "layer_preprocess_sequence": ("none", "n"),
        "layer_final_sequence": ("preprocess", "n", "none"),
        "attention_bias": (True, False),
        "ffn_activation": ("relu", "swish", "gelu", "gelu_tanh", "gelu_sigmoid"),
        "pos": ("timing", "timing_paper"),
        "position_offset": (0, 2),
        "start_id": (0, 1, 5),
        "softmax_padding": (True, False),
        "suppressed_ids": ("", "2", "2+9"),
        "shared_embedding_and_softmax_weights": (True, False),
        "num_decoder_layers": (1, 2),
        "norm_epsilon": (1e-6, 1e-5),
    }
    changes = {name: values[random.integers(len(values))] for name, values in choices.items()}
    after = "da" if changes["layer_preprocess_sequence"] == "n" else "dan"
    changes |= {"layer_postprocess_sequence": after, "num_encoder_layers": 1}
    model = tiny(**changes, softmax_bias=True)
    hide(model, 1)
    theirs = translator(model, tmp_path)
    inputs, limit = sources(60), 9
    for beams in (1, 4):
        if beams > 1:  # CTranslate2 divides the probability of what it never outputs
            hide(model, *model.never_output)
        hparams = DecodeHParams(beam_size=beams, alpha=0.0)
        ids, _ = make_search(model, {}, hparams)(inputs, np.full(len(inputs), limit))
        found = theirs.translate_batch(
            tokens(inputs),
            beam_size=beams,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=limit,
        )
        same = [a == one.hypotheses[0] for a, one in zip(tokens(ids[:, 0]), found, strict=True)]
        assert np.mean(same) >= 0.98


def hide(model, *ids: int) -> None:
    """Takes the probability of some ids away."""
    bias = keras.ops.convert_to_numpy(model.output_projection.bias).copy()
    bias[[*ids]] = -1000.0
    model.output_projection.bias.assign(bias)


_BIASED = {
    "attention_bias": True,
    "ffn_activation": "swish",
    "start_id": 5,
    "softmax_bias": True,
    "softmax_padding": False,
    "suppressed_ids": "2",
}


@pytest.fixture(
    scope="module", params=[{}, {**_BIASED, "suppressed_ids": ""}], ids=["plain", "biased"]
)
def decided(request, tmp_path_factory):
    """A model as sure as a trained one, whose outputs end, and the same in CTranslate2."""
    fields = {**request.param, "pos": "emb", "max_length": LIMIT, "num_hidden_layers": 1}
    model = tiny(shared_embedding_and_softmax_weights=False, **fields)
    matrix = keras.ops.convert_to_numpy(model.softmax_embedding.matrix) * 4.0
    matrix[1] *= 2.0
    model.softmax_embedding.matrix.assign(matrix)
    steps = np.arange(LIMIT, dtype=np.float32)[:, None]  # EOS becomes likelier with each
    model.decoder.position.table.assign((steps - 8) * matrix[1] / np.linalg.norm(matrix[1]))
    return model, translator(model, tmp_path_factory.mktemp("decided"))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("beams", "alpha", "least"),
    [
        (1, 0.0, 0.99),
        (4, 0.0, 0.99),
        pytest.param(4, 0.6, 0.9, marks=pytest.mark.slow),  # CTranslate2's own penalty
    ],
)
def test_searches_find_the_same(decided, beams, alpha, least):
    model, theirs = decided
    inputs = sources(120)
    penalty = Penalty(alpha, "average")
    search = greedy_search(model) if beams == 1 else BeamSearch(model, beams, penalty)
    ids, scores = search(inputs, np.full(len(inputs), LIMIT))
    results = theirs.translate_batch(
        tokens(inputs),
        beam_size=beams,
        length_penalty=alpha,
        min_decoding_length=0,
        max_decoding_length=LIMIT,
        return_scores=True,
    )
    ours = tokens(ids[:, 0])
    assert len({tuple(row) for row in ours}) > 50
    assert max(map(len, ours)) < LIMIT
    same = np.mean([found.hypotheses[0] == a for found, a in zip(results, ours, strict=True)])
    assert same >= least
    if beams > 1:  # ours searches further, so that it may find better ones
        error = relative_bound(2 * LIMIT * log_prob_terms(model, LIMIT)) * np.abs(scores).max()
        assert (scores[:, 0] >= [found.scores[0] - error for found in results]).all()


@pytest.fixture(scope="module")
def scored():
    """A model, pairs, and its logits of these."""
    model, features = tiny(), {"inputs": sources(8), "targets": sources(16)[8:]}
    return model, features, np.asarray(model(features))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("quantization", "size"), [("float16", 0.51), ("bfloat16", 0.51), ("int8", 0.43)]
)
def test_smaller_weights_score_nearly_alike(scored, quantization, size, tmp_path):
    model, features, logits = scored
    h = model.hparams
    convert(model).save(str(tmp_path))
    whole = (tmp_path / "model.bin").stat().st_size
    found, wanted = log_probs(model, features, logits, tmp_path, quantization)
    assert (tmp_path / "model.bin").stat().st_size < size * whole
    if quantization == "int8":
        bound = error_of_8_bits(h)
    else:
        bound = 2 * UNIT[quantization] * math.sqrt(products_in_a_row(h) / 3)
    error = np.sqrt(np.mean((found - wanted) ** 2))
    assert error < bound * np.std(logits)


@pytest.mark.parametrize(
    ("model", "problem", "message"),
    [
        ("transformer_encoder", "sentiment_imdb_characters", "TransformerClassifier: CTranslate2 "),
        ("attention_lm", "text2self_tmpdir_bpe", "a language model: the export for CTranslate2"),
    ],
)
def test_other_models_are_refused(make_run, model, problem, message):
    with pytest.raises(UserError, match=message):
        convert(make_run(model, problem).build_model())


@pytest.mark.integration
def test_what_ctranslate2_does_not_know_is_refused_by_name():
    for changes, message in (
        ({"layer_postprocess_sequence": "dan"}, "layer_postprocess_sequence='dan'"),
        (
            {"self_attention_type": "dot_product_relative", "max_relative_position": 3},
            "self_attention_type=dot_product_relative, pos=timing",
        ),
        ({"ffn_layer": "parameter_attention"}, "ffn_layer=parameter_attention"),
        ({"attention_neighborhood": 3}, "attention_neighborhood=3"),
    ):
        with pytest.raises(UserError, match=message):
            convert(tiny(num_hidden_layers=1, **changes))
    lstm = registry.model("lstm_seq2seq_attention")(registry.hparams("lstm_attention"), 9, 9)
    with pytest.raises(UserError, match=r"LSTM.*runs only Transformers"):
        convert(lstm)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> run_folder.RunFolder:
    return short_run(tmp_path_factory.mktemp("run"), "export_test_pieces")


def write_clean_m2m100(folder):
    """An M2M100 from whose outputs a tokenizer removes spaces, and which has no default."""
    open_vocabularies.write_m2m100(folder, ("", ""), cleans_spaces=True)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("problem", "write_vocabulary", "languages"),
    [
        ("export_test_pieces", None, ""),
        ("export_test_two_vocabularies", None, ""),
        ("translate_imported", open_vocabularies.write_opus, ""),
        (
            "translate_imported",
            lambda folder: open_vocabularies.write_opus(folder, ("deu", "fra")),
            "",
        ),
        ("translate_imported", open_vocabularies.write_m2m100, ""),
        *(
            ("translate_imported", write_clean_m2m100, f"source_language={a},target_language={b}")
            for a, b in (("en", "de"), ("de", "en"))
        ),
    ],
    ids=[
        *("one_vocabulary", "two_vocabularies", "opus", "opus_of_two_languages", "m2m100"),
        *("m2m100_as_ids", "m2m100_as_ids_in_reverse"),
    ],
)
def test_the_example_in_the_readme_prints_what_the_decoder_does(
    problem, write_vocabulary, languages, tmp_path, eager_searches
):
    run = short_run(tmp_path, problem, write_vocabulary, **(_BIASED if write_vocabulary else {}))
    folder = tmp_path / "out"
    hparams = DecodeHParams.of(run, languages)
    exporter.export(run, None, str(folder), "float32", hparams)
    text = (folder / "README.md").read_text()
    assert "after 7 updates" in text
    script = "".join(line[4:] for line in text.splitlines(True) if line.startswith("    "))
    assert len(script.splitlines()) == 5  # the import and four lines
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, check=True, capture_output=True, text=True
    )
    expected = Translator(Decoder.from_run(run, hparams=hparams))(["A sentence."])
    assert done.stdout == f"{expected[0]}\n"
    assert expected[0]


@pytest.mark.integration
def test_the_readme_names_languages_as_the_model_does(tmp_path):
    run = short_run(tmp_path, "translate_imported", write_clean_m2m100, **_BIASED)
    exporter.export(run, None, str(tmp_path / "out"), "float32")
    text = (tmp_path / "out" / "README.md").read_text()
    ids = run.encoders["inputs"].languages
    assert f"The tokens: `{ids['de']}` (de), `{ids['en']}` (en)" in text
    assert "__de__" not in text


@pytest.mark.integration
def test_a_short_list_is_exported(run, tmp_path):
    """By the names of the pieces; CTranslate2 then chooses among them alone."""
    encoder, path = run.encoders["inputs"], str(tmp_path / "list.txt")
    translations = np.zeros([encoder.vocab_size, 1], np.int32)
    translations[4:] = 9
    Shortlist([5, 6], translations, encoder.vocab_size).write(path, run.encoders)
    hparams = DecodeHParams.of(run, f"shortlist={path}")
    exporter.export(run, None, str(tmp_path / "out"), "float32", hparams)
    assert "use_vmap=True)" in (tmp_path / "out" / "README.md").read_text()
    assert "short list: with `use_vmap=True`" in (tmp_path / "out" / "README.md").read_text()
    lines = (tmp_path / "out" / "vmap.txt").read_text().splitlines()
    pieces = [encoder.symbol(id_) for id_ in range(encoder.vocab_size)]
    assert lines[0].split()[-2:] == [pieces[5], pieces[6]]
    assert f"{pieces[4]}\t{pieces[9]}" in lines
    (found,) = ctranslate2.Translator(str(tmp_path / "out")).translate_batch(
        [[pieces[4], pieces[7]]],
        use_vmap=True,
        suppress_sequences=[[pieces[0]]],  # which stands for what is unknown, always a candidate
        max_decoding_length=9,
        min_decoding_length=4,
    )
    assert found.hypotheses[0]
    assert set(found.hypotheses[0]) <= {pieces[5], pieces[6], pieces[9]}


@pytest.mark.integration
@pytest.mark.parametrize("name", ["<unk>", "UNK"])
def test_unknown_words_are_those_of_the_model(name, tmp_path, eager_searches):
    def write_words(folder):
        for side, unknown in (("source", name), ("target", "<unk>")):
            pieces = ["<pad>", "</s>", "a", unknown, *"bcdefgh"]
            write_encoder(folder / f"vocab.imported.{side}.json", pieces, pieces.index(unknown))

    run = short_run(tmp_path, "translate_imported", write_words, **_BIASED)
    exporter.export(run, None, str(tmp_path / "out"), "float32")
    lines = ["x", "a x", "x a x b", "c d x"]
    found = ctranslate2.Translator(str(tmp_path / "out")).translate_batch(
        [line.split() for line in lines], beam_size=1
    )
    greedy = Decoder.from_run(run, hparams=DecodeHParams(beam_size=1))
    expected = Translator(greedy)(lines)
    assert [" ".join(result.hypotheses[0]) for result in found] == expected
    assert len(set(expected)) > 1


@pytest.mark.integration
def test_nothing_is_written_if_the_checkpoint_is_missing(run, tmp_path):
    with pytest.raises(UserError, match=r"model\.ckpt-8"):
        exporter.export(run, str(run.folder / "model.ckpt-8"), str(tmp_path / "out"), "int8")
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_not_written_over(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(UserError, match="already exists"):
        exporter.export(run, None, str(tmp_path / "out"), "int8")


def test_the_penalty_in_the_readme_ranks_outputs_of_like_length_alike(run, tmp_path):
    """Of n and n + 1 subwords: the ratio of their penalties is the same by both rules."""
    run = dataclasses.replace(run, problem=Penalised())
    exporter.export(run, None, str(tmp_path / "out"), "int8")
    text = (tmp_path / "out" / "README.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\S+) \|$", text, re.MULTILINE)
    assert len(rows) == 4
    for n, penalty in [(int(n), float(penalty)) for n, penalty in rows]:
        wanted = 0.6 * math.log((6 + n) / (5 + n)) / math.log((n + 1) / n)
        # Two decimals of the slope at n; the other end's differs by the rest.
        error = 0.005 + 0.6 * ((n + 1) / (n + 6) - n / (n + 5))
        assert penalty == pytest.approx(wanted, abs=error)
    assert "length_penalty=0.50)" in text


@pytest.mark.parametrize("chosen", ["alpha=1.25", "length_penalty=average,alpha=1.25"])
def test_a_penalty_of_ones_own_is_not_called_the_default(run, chosen):
    search = DecodeHParams().override(chosen)
    text = readme(run, 7, "float32", search, run.encoders, ())
    assert "alpha=1.25" in text.partition("no better output")[2]
    assert "default" not in text


@pytest.mark.parametrize(
    ("factor", "extra", "words"),
    [
        (0, 20, "20 subwords."),
        (1, 50, "50 more than its source."),
        (2, 4, "2 times as many as its source and 4 more."),
        (3, 0, "3 times as many as its source."),
    ],
)
def test_the_readme_says_how_long_an_output_may_be(run, factor, extra, words):
    search = DecodeHParams(length_factor=factor, extra_length=extra)
    text = readme(run, 7, "float32", search, run.encoders, ())
    assert f"In t2t-decoder it may have {words}\n" in text


@pytest.mark.parametrize(
    ("stopping", "words"), [("marian", "as\nMarian"), ("never", "`early_stopping` never")]
)
def test_the_readme_says_how_a_search_ends(run, stopping, words):
    text = readme(run, 7, "float32", DecodeHParams(stopping=stopping), run.encoders, ())
    assert words in text
    assert "no better output" not in text


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("min_length=7", "`min_length=7`"),
        ("no_repeat_ngram_size=3,replace_unk=true", "`no_repeat_ngram_size=3`, `replace_unk=True`"),
        ("coverage_penalty=0.2,end_at_limit=true", "`coverage_penalty=0.2`, `end_at_limit=True`"),
        ("beam_size=9,alpha=2,extra_length=3", ""),
    ],
)
def test_the_readme_names_the_settings_that_its_example_leaves_out(run, chosen, words):
    text = readme(run, 7, "float32", DecodeHParams().override(chosen), run.encoders, ())
    assert (f"The example leaves out {words}." in text) == bool(words)
    assert ("leaves out" in text) == bool(words)
