"""A run that starts from another run's weights."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from support import small_runs
from support.limits import strategy_over
from support.rounding import assert_close
from support.terms import terms_of
from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.warm_start import warm_start
from t2t_lite.text.text_encoder import ByteTextEncoder, ClassLabelEncoder, TokenTextEncoder

PACKAGE = warm_start.__module__.rpartition(".")[0]
HPARAMS = "num_hidden_layers=1,hidden_size=8"


def make_run(folder, model="transformer", hparams_set="transformer_test", hparams=HPARAMS):
    """A run folder with one checkpoint of random weights."""
    run = small_runs.make_run(folder, model=model, hparams_set=hparams_set, overrides=hparams)
    trained = run.build_model()
    for variable in trained.trainable_variables:
        variable.assign(tf.random.normal(variable.shape))
    return run, trained, small_runs.save_weights(folder, trained, 30)


def warnings_of(caplog) -> list[str]:
    """The warnings of this package; TensorFlow's do not count."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING and record.name.startswith(PACKAGE)
    ]


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A run that no test changes."""
    return make_run(tmp_path_factory.mktemp("runs") / "other")


def features():
    ids = tf.constant([[3, 4, 5, 1], [6, 7, 1, 0]])
    return {"inputs": ids, "targets": ids}


@pytest.mark.integration
@pytest.mark.parametrize("by_folder", [True, False])
def test_the_same_model_gives_the_same_logits_to_the_bit(other, by_folder, caplog):
    caplog.set_level(logging.INFO)
    run, trained, checkpoint = other
    model = run.build_model()
    wanted = trained(features())
    assert not np.array_equal(model(features()), wanted)
    warm_start(model, str(run.folder) if by_folder else checkpoint)
    assert np.array_equal(model(features()), wanted)
    count = len(model.trainable_variables)
    assert f"(step 30): copied {count} of {count} weights" in caplog.text
    assert not warnings_of(caplog)


@pytest.mark.integration
def test_on_two_devices_both_get_the_weights(other):
    run, trained, checkpoint = other
    with strategy_over(2).scope() as strategy:
        model = run.build_model()
    del strategy
    warm_start(model, checkpoint)
    for ours, theirs in zip(model.trainable_variables, trained.trainable_variables, strict=True):
        for component in ours.value.values:
            assert np.array_equal(component, theirs)


def test_another_vocabulary_keeps_its_new_embeddings(other, caplog):
    run, trained, checkpoint = other
    model = registry.model("transformer")(run.hparams, 50, 50)
    before = [variable.numpy() for variable in model.trainable_variables]
    warm_start(model, checkpoint)
    (report,) = warnings_of(caplog)
    pairs = zip(model.trainable_variables, before, trained.trainable_variables, strict=True)
    for variable, old, theirs in pairs:
        fits = variable.shape == theirs.shape
        assert np.array_equal(variable, theirs if fits else old)
    assert "have another shape there" in report
    assert "targets_embedding/matrix (50, 8), there (12, 8)" in report
    assert "layer_0" not in report


UNSHARED = "shared_embedding_and_softmax_weights=false"
WORDS = ("naught", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class LowerCase(TokenTextEncoder):
    """Several ids may have the same text."""

    def decode(self, ids):
        return super().decode(ids).lower()


def encoder_of(folder, *words):
    """A vocabulary of words, with padding and EOS."""
    path = folder / f"{'-'.join(words)}.txt"
    path.write_text("".join(f"{word}\n" for word in ("<pad>", "<EOS>", *words)))
    return LowerCase(path)


def sides(inputs, targets=None):
    """Encoders of both sides; those of the targets are the same unless given."""
    return {"inputs": inputs, "targets": targets or inputs}


def start(model, checkpoint, *encoders):
    """Starts with a problem that has these encoders."""
    warm_start(model, checkpoint, SimpleNamespace(encoders=sides(*encoders)))


def matrix(model, side="inputs"):
    return getattr(model, f"{side}_embedding").matrix.numpy()


@pytest.fixture
def other_of(tmp_path, monkeypatch):
    """Makes a run whose vocabularies are given."""

    def make(*encoders, **kinds):
        monkeypatch.setattr(RunFolder, "encoders", property(lambda run: sides(*encoders)))
        return make_run(tmp_path / "other", **kinds)

    return make


@pytest.mark.integration
def test_rows_of_words_that_both_vocabularies_have_are_copied(tmp_path, other_of, caplog):
    theirs = encoder_of(tmp_path, *WORDS[:6], "Two")  # no match: a text that occurs twice
    run, trained, checkpoint = other_of(theirs, hparams=UNSHARED)
    model = registry.model("transformer")(run.hparams, 6, theirs.vocab_size)
    before = matrix(model)
    start(model, checkpoint, encoder_of(tmp_path, "five", "seven", "one", "two"), theirs)
    found, there = matrix(model), matrix(trained)
    assert np.array_equal(found[[0, 1, 2, 4]], there[[0, 1, 7, 3]])
    assert np.array_equal(found[[3, 5]], before[[3, 5]])
    assert np.array_equal(matrix(model, "targets"), matrix(trained, "targets"))
    (report,) = warnings_of(caplog)
    assert report == (
        "1 weights are of another vocabulary there: inputs_embedding/matrix (4 of 6 rows copied, 0 "
        "start from the mean of those that spell them there, 2 keep their initial values)"
    )


@pytest.mark.integration
def test_a_matrix_of_both_sides_takes_rows_on_which_they_agree(tmp_path, other_of, caplog):
    theirs = encoder_of(tmp_path, *WORDS[:6])
    run, trained, checkpoint = other_of(theirs)
    model = run.build_model()
    assert model.softmax_embedding is model.inputs_embedding
    before = matrix(model)
    start(model, checkpoint, theirs, encoder_of(tmp_path, *WORDS[:4], "five", "four"))
    assert np.array_equal(matrix(model)[:6], matrix(trained)[:6])
    assert np.array_equal(matrix(model)[6:], before[6:])
    assert "targets_embedding/matrix (6 of 8 rows copied, 0 start" in caplog.text


@pytest.mark.integration
def test_a_matrix_of_both_sides_takes_that_of_the_targets_where_there_are_two(tmp_path, other_of):
    words = encoder_of(tmp_path, *WORDS)
    theirs = encoder_of(tmp_path, *reversed(WORDS)), words
    run, trained, checkpoint = other_of(*theirs, hparams=UNSHARED)
    hparams = run.hparams.copy(shared_embedding_and_softmax_weights=True)
    model = registry.model("transformer")(hparams, words.vocab_size, words.vocab_size)
    start(model, checkpoint, words)
    assert model.softmax_embedding is model.inputs_embedding
    assert np.array_equal(matrix(model), matrix(trained, "targets"))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("model", "hparams_set", "hparams"),
    [
        ("transformer", "transformer_test", f"{HPARAMS},{UNSHARED}"),
        ("transformer", "transformer_test", HPARAMS),
        ("gnmt", "gnmt_8_layer", "num_hidden_layers=2,hidden_size=8,softmax_bias=true"),
        ("conv_s2s", "conv_s2s_iwslt_de_en", "hidden_size=8"),
        ("transformer_encoder", "transformer_test", HPARAMS),
    ],
)
def test_the_order_of_a_vocabulary_changes_nothing(tmp_path, other_of, model, hparams_set, hparams):
    theirs = encoder_of(tmp_path, *WORDS)
    names = {"model": model, "hparams_set": hparams_set, "hparams": hparams}
    run, trained, checkpoint = other_of(theirs, **names)
    ours = encoder_of(tmp_path, *WORDS[3:], *WORDS[:3])
    model = run.build_model()
    start(model, checkpoint, ours)
    ids = np.array([[2, 5, 11, 1], [9, 1, 0, 0]])
    there = np.array([0, 1, *(theirs.encode(ours.decode([id_]))[0] for id_ in range(2, 12))])
    found = model({"inputs": ids, "targets": ids})
    wanted = trained({"inputs": there[ids], "targets": there[ids]}).numpy()[..., there]
    assert_close(found, wanted, terms_of(model, 4))


def test_a_classifier_takes_the_embedding_of_a_translator(tmp_path, other_of, caplog):
    theirs = encoder_of(tmp_path, *WORDS)
    run, trained, checkpoint = other_of(theirs)
    model = registry.model("transformer_encoder")(run.hparams, theirs.vocab_size, 4)
    start(model, checkpoint, theirs, ClassLabelEncoder(["bad", "good"]))
    assert np.array_equal(matrix(model), matrix(trained))
    missing, _ = warnings_of(caplog)
    assert "missing there" in missing
    assert "embedding" not in missing


class OneWordAtLeast(TokenTextEncoder):
    """As a user's encoder that fails without text; `raises`: for which id it fails, too."""

    raises = None

    def decode(self, ids):
        if not self._text_ids(ids) or self.raises in ids:
            raise ValueError("nothing to decode")
        return super().decode(ids)


@pytest.mark.integration
@pytest.mark.parametrize("raises", [None, 3])
def test_an_encoder_that_fails_for_single_ids_is_named(tmp_path, other_of, caplog, raises):
    theirs = encoder_of(tmp_path, *WORDS)
    run, trained, checkpoint = other_of(theirs, hparams=UNSHARED)
    sources = OneWordAtLeast(theirs._path)
    sources.raises = raises
    model = run.build_model()
    before = matrix(model)
    start(model, checkpoint, sources, theirs)
    found, there = matrix(model), matrix(trained)
    assert np.array_equal(found[:2], there[:2])
    assert np.array_equal(found[2:], (there if raises is None else before)[2:])
    assert np.array_equal(matrix(model, "targets"), matrix(trained, "targets"))
    message = "OneWordAtLeast of the inputs cannot decode id 3 by itself (ValueError: nothing to"
    said = [message in warning for warning in warnings_of(caplog)]
    assert said == ([True, False] if raises else [])


@pytest.mark.integration
def test_numbers_are_no_bytes(tmp_path, other_of):
    """Id 50 of bytes is "0", not 50."""
    theirs = encoder_of(tmp_path, "50", "0", "é")
    run, trained, checkpoint = other_of(theirs, hparams=UNSHARED)
    model = registry.model("transformer")(run.hparams, 258, theirs.vocab_size)
    before = matrix(model)
    start(model, checkpoint, ByteTextEncoder(), theirs)
    copied = np.any(matrix(model) != before, axis=1)
    assert np.flatnonzero(copied).tolist() == [0, 1, 50]
    assert np.array_equal(matrix(model)[50], matrix(trained)[3])


def transformer(run, layers=1):
    """A Transformer for the vocabulary of a run."""
    hparams = registry.hparams("transformer_test").override(HPARAMS)
    hparams = hparams.copy(num_hidden_layers=layers).freeze()
    vocabulary = run.encoders["inputs"].vocab_size
    return registry.model("transformer")(hparams, vocabulary, vocabulary)


@pytest.mark.integration
@pytest.mark.parametrize(("layers", "message"), [(2, "are missing there"), (1, "")])
def test_what_is_missing_is_listed(other, caplog, layers, message):
    run, _, checkpoint = other
    warm_start(transformer(run, layers), checkpoint)
    warnings = warnings_of(caplog)
    assert len(warnings) == bool(message)
    assert all(message in w and "encoder/stack/layer_1/" in w for w in warnings)


@pytest.mark.integration
def test_weights_that_the_model_lacks_are_listed(tmp_path, caplog):
    run, _, _ = make_run(tmp_path / "deep", hparams="num_hidden_layers=2,hidden_size=8")
    warm_start(transformer(run), str(run.folder))
    assert "exist there, but not in this model: encoder/stack/layer_1/" in caplog.text


@pytest.mark.integration
@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({"num_heads": 4, "ffn_activation": "gelu"}, ["num_heads=2", "ffn_activation=relu"]),
        ({"multiply_embedding_mode": "none"}, ["multiply_embedding_mode=sqrt_depth"]),
        ({"relu_dropout": 0.5, "guided_alignment_weight": 0.1, "batch_size": 7}, []),
        ({"num_encoder_layers": 1, "attention_key_channels": 8}, []),  # the same sizes
        ({"shared_embedding_and_softmax_weights": False}, []),  # each gets the shared matrix
    ],
)
def test_weights_with_which_the_model_computes_something_else_are_a_warning(
    other, caplog, changes, warned
):
    run, _, checkpoint = other
    size = run.encoders["inputs"].vocab_size
    warm_start(registry.model("transformer")(run.hparams.copy(**changes), size, size), checkpoint)
    pairs = [f"was trained with {there}, but this model" for there in warned]
    assert len(warnings_of(caplog)) == len(warned)
    for pair, there, warning in zip(pairs, warned, warnings_of(caplog), strict=True):
        assert pair in warning
        assert f"something else: give --hparams={there}, unless" in warning


@pytest.mark.integration
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (".", r"is not a run folder: .*/flags\.json is missing"),
        ("none", r"--warm_start_from=\S*/none does not exist: name a run folder, or a checkpoint"),
        ("none/model.ckpt-30", r"=\S*/none/model\.ckpt-30 does not exist: name a run folder"),
        ("other/model.ckpt-7", "model.ckpt-7 does not exist"),
        ("loose.ckpt-1", r"=\S*/loose\.ckpt-1 is in no run folder: name a run folder, or a check"),
    ],
)
def test_a_wrong_source_is_named(other, source, message):
    run, model, _ = other
    folder = run.folder.parent
    (folder / "loose.ckpt-1.index").touch()
    (folder / "loose.ckpt-1.data-00000-of-00001").touch()
    with pytest.raises(UserError, match=message):
        warm_start(model, str(folder / source))


@pytest.mark.integration
def test_nothing_in_common_is_an_error(other):
    hparams = registry.hparams("lstm_bahdanau_attention").override("hidden_size=4").freeze()
    model = registry.model("lstm_seq2seq_attention")(hparams, 20, 20)
    with pytest.raises(UserError, match="none of its weights has the name and shape"):
        warm_start(model, str(other[0].folder))
