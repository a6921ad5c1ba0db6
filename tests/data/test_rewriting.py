"""Training on other segmentations each epoch, through the input pipeline."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.data import records
from t2t_lite.data.batching import batching_scheme
from t2t_lite.data.data_statistics import count_examples
from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.input_pipeline import train_dataset
from t2t_lite.data.rewriting import Rewriter
from t2t_lite.errors import DataError, UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.text import sentencepiece_training
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import EOS_ID, ByteTextEncoder, ClassLabelEncoder

WORDS = ["small", "boats", "lie", "in", "harbours", "and", "seven", "children", "sing", "of"]
PAIRS = [
    (f"{number} " + " ".join(WORDS[number % 7 : number % 7 + 3]), f"{number} {WORDS[number % 9]}")
    for number in range(150)
]
SCHEME = batching_scheme(200, max_length=30, min_length_bucket=5, length_bucket_step=1.5)


def write_corpus(folder, kind):
    """Returns the paths of three files, their vocabulary, and the hparams that sample it."""
    lines = [line for pair in PAIRS for line in pair]
    sentencepiece_training.train(kind, folder / "vocab", lines, 400)
    encoder = SentencePieceEncoder(folder / "vocab")
    examples = [
        {
            side: [*encoder.encode(text), EOS_ID]
            for side, text in zip(("inputs", "targets"), pair, strict=True)
        }
        for pair in PAIRS
    ]
    paths = [str(folder / f"shard{i}") for i in range(3)]
    for i, path in enumerate(paths):
        records.write_examples(path, examples[i::3])
    asked = {"bpe": {"bpe_dropout": 0.2}, "unigram": {"unigram_alpha": 0.1}}[kind]
    return paths, encoder, BasicHParams(**asked)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"), "bpe")


@pytest.fixture(scope="module")
def first_epoch(corpus):
    return epoch(corpus, 0)


def train(corpus, *, reader=None, parts=1, seed=1, epochs=None, scheme=SCHEME, **changes):
    paths, encoder, hparams = corpus
    reader = reader or ExampleReader()
    encoders = dict.fromkeys(("inputs", "targets"), encoder)
    return train_dataset(
        paths,
        scheme,
        reader,
        parts=parts,
        seed=seed,
        batch_shuffle_size=4,
        rewriter=Rewriter.of(hparams.copy(**changes), reader, encoders, seed),
        epochs=None if epochs is None else tf.data.Dataset.from_tensor_slices(epochs),
    )


def rows(batches):
    """The (source, target) ids of all rows but those of padding."""
    for batch in batches:
        sides = (batch[side].reshape(-1, batch[side].shape[-1]) for side in ("inputs", "targets"))
        for source, target in zip(*sides, strict=True):
            if source.any():
                yield tuple(np.trim_zeros(source).tolist()), tuple(np.trim_zeros(target).tolist())


def epoch(corpus, number, **settings):
    """The examples of an epoch, by their texts."""
    encoder = corpus[1]
    dataset = train(corpus, epochs=np.array([number], np.int64), **settings)
    found = list(rows(dataset.as_numpy_iterator()))
    by_text = {(encoder.decode(source), encoder.decode(target)): (source, target)
               for source, target in found}  # fmt: skip
    assert len(by_text) == len(found)
    return by_text


def assert_same_texts_in_other_subwords(first, second):
    assert first.keys() == second.keys() == set(PAIRS)
    assert sum(first[texts] != second[texts] for texts in PAIRS) > len(PAIRS) / 2
    for source, target in first.values():
        assert source[-1] == target[-1] == EOS_ID


@pytest.mark.integration
def test_epochs_have_the_same_texts_in_other_subwords(corpus, first_epoch):
    assert_same_texts_in_other_subwords(first_epoch, epoch(corpus, 1))


@pytest.mark.integration
def test_so_they_have_with_a_unigram_vocabulary(tmp_path):
    corpus = write_corpus(tmp_path, "unigram")
    assert_same_texts_in_other_subwords(epoch(corpus, 0), epoch(corpus, 1))


@pytest.mark.integration
def test_an_example_is_the_same_in_any_batch(corpus, first_epoch):
    assert epoch(corpus, 0, seed=2) != first_epoch
    later = train(corpus, parts=4, epochs=np.array([2, 0], np.int64)).as_numpy_iterator()
    assert set(first_epoch.values()) <= set(rows(later))


@pytest.mark.integration
def test_length_counts_after_sampling(corpus, first_epoch):
    lengths = {texts: max(map(len, pair)) for texts, pair in first_epoch.items()}
    limit = sorted(lengths.values())[len(PAIRS) // 2]
    scheme = batching_scheme(200, limit, min_length_bucket=5, length_bucket_step=1.5)
    short = {texts for texts, length in lengths.items() if length <= limit}
    assert 0 < len(short) < len(PAIRS)
    assert epoch(corpus, 0, scheme=scheme).keys() == short


@pytest.mark.integration
def test_parts_share_one_large_batch(corpus):
    doubled = type(SCHEME)(SCHEME.boundaries, tuple(2 * n for n in SCHEME.batch_sizes), 0, 30)
    split = train(corpus, parts=2).as_numpy_iterator()
    whole = train(corpus, scheme=doubled).as_numpy_iterator()
    # Their shuffle buffers hold 2 and 4 batches: compare what batches there are.
    seen = [{b["inputs"].tobytes() for b in itertools.islice(some, 30)} for some in (split, whole)]
    assert len(seen[0] & seen[1]) > 20


@pytest.mark.integration
@pytest.mark.parametrize("changes", [{}, {"source_typo_noise": 0.5, "bpe_dropout": 0.0}])
def test_restoring_continues_with_the_next_batch(corpus, tmp_path, changes):
    tf.random.set_seed(5)
    iterator = iter(train(corpus, parts=2, **changes))
    taken = [next(iterator) for _ in range(5)]
    saved = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "checkpoint"))
    expected = [next(iterator) for _ in range(20)]
    fresh = iter(train(corpus, parts=2, **changes))
    tf.train.Checkpoint(iterator=fresh).restore(saved).assert_consumed()
    for one in expected:
        for side, ids in next(fresh).items():
            np.testing.assert_array_equal(ids, one[side])
    seen = len(list(rows({side: ids.numpy() for side, ids in batch.items()} for batch in taken)))
    assert seen % len(PAIRS), "saved within an epoch"


@pytest.mark.integration
def test_the_model_sees_exchanged_sides(corpus):
    reversed_ = epoch(corpus, 0, reader=ExampleReader(reverse=True))
    assert reversed_.keys() == {(target, source) for source, target in PAIRS}


@pytest.mark.integration
def test_sides_that_are_copies_are_drawn_one_by_one(corpus):
    copied = epoch(corpus, 0, reader=ExampleReader(copy=True))
    assert copied.keys() == {(source, source) for source, _ in PAIRS}
    assert any(source != target for source, target in copied.values())


@pytest.mark.integration
def test_sides_are_cut_after_sampling(corpus, first_epoch):
    reader = ExampleReader(max_input_length=5)
    found = epoch(corpus, 0, reader=reader).values()
    whole = {target: source for source, target in first_epoch.values()}
    for source, target in found:
        assert source == (*whole[target][:-1][:4], EOS_ID)


NOISE = {"source_casing_noise": 0.5, "source_typo_noise": 0.5, "bpe_dropout": 0.0}


@pytest.mark.integration
def test_noise_is_redrawn_in_every_epoch_and_the_same_for_any_parts(corpus):
    first, second = (set(epoch(corpus, number, **NOISE).values()) for number in (0, 1))
    assert len(first - second) > len(PAIRS) / 2
    later = train(corpus, parts=4, epochs=np.array([1, 0], np.int64), **NOISE)
    assert set(rows(later.as_numpy_iterator())) >= first | second


def test_noise_needs_inputs(corpus):
    reader = ExampleReader(has_inputs=False)
    with pytest.raises(UsageError, match=r"source_typo_noise.*needs inputs.*set them to 0"):
        train(corpus, reader=reader, **NOISE)


def test_noise_is_in_the_sources_alone(corpus):
    found = epoch(corpus, 0, **NOISE)
    assert {target for _, target in found} == {target for _, target in PAIRS}
    kept = found.keys() & set(PAIRS)
    assert 0 < len(kept) < len(PAIRS) / 2
    encoder = corpus[1]
    for (source, target), ids in found.items():
        assert ids == tuple((*encoder.encode(text), EOS_ID) for text in (source, target))


def test_labels_stay_as_they_are(corpus, tmp_path):
    _, encoder, hparams = corpus
    path = str(tmp_path / "labelled")
    texts = [source for source, _ in PAIRS]
    records.write_examples(
        path,
        ({"inputs": [*encoder.encode(text), EOS_ID], "targets": [3, EOS_ID]} for text in texts),
    )
    encoders = {"inputs": encoder, "targets": ClassLabelEncoder(["a", "b"])}
    batches = train_dataset(
        [path],
        SCHEME,
        ExampleReader(),
        parts=1,
        seed=1,
        batch_shuffle_size=0,
        rewriter=Rewriter.of(hparams, ExampleReader(), encoders, 1),
        epochs=tf.data.Dataset.range(1),
    )
    found = list(rows(batches.as_numpy_iterator()))
    assert {target for _, target in found} == {(3, EOS_ID)}
    assert sorted(encoder.decode(source) for source, _ in found) == sorted(texts)
    plain = {(*encoder.encode(text), EOS_ID) for text in texts}
    assert len({source for source, _ in found} - plain) > len(found) / 4


def test_labels_in_subwords_stay_as_they_are(corpus):
    encoder = corpus[1]
    found = epoch(corpus, 0, reader=ExampleReader(has_labels=True)).items()
    plain = [tuple([*encoder.encode(text), EOS_ID] for text in texts) for texts, _ in found]
    drawn = [tuple(map(list, ids)) for _, ids in found]
    assert [target for _, target in drawn] == [target for _, target in plain]
    assert [source for source, _ in drawn] != [source for source, _ in plain]


def test_statistics_are_those_of_the_first_epoch(corpus, first_epoch):
    paths, encoder, hparams = corpus
    reader = ExampleReader()
    encoders = dict.fromkeys(("inputs", "targets"), encoder)
    rewriter = Rewriter.of(hparams, reader, encoders, 1)
    found = count_examples(paths, SCHEME, reader, rewriter=rewriter)
    pairs = first_epoch.values()
    assert found.source_tokens == sum(len(source) for source, _ in pairs)
    assert found.target_tokens == sum(len(target) for _, target in pairs)
    short = batching_scheme(60, max_length=4, min_length_bucket=4, length_bucket_step=1.5)
    with pytest.raises(DataError, match="no usable example"):
        count_examples(paths, short, reader, rewriter=rewriter)


@pytest.mark.integration
def test_nothing_asked_for_changes_nothing(corpus):
    off = {"bpe_dropout": 0.0, "unigram_alpha": 0.0}
    plain = train_dataset(corpus[0], SCHEME, ExampleReader(), parts=2, seed=1, batch_shuffle_size=4)
    for one, other in zip(plain.take(60), train(corpus, parts=2, **off), strict=False):
        for side, ids in one.items():
            np.testing.assert_array_equal(ids, other[side])


def test_other_vocabularies_are_refused():
    encoders = dict.fromkeys(("inputs", "targets"), ByteTextEncoder())
    with pytest.raises(UsageError, match=r"bpe_dropout=0\.1 needs a vocabulary of the type Sent"):
        Rewriter.of(BasicHParams(bpe_dropout=0.1), ExampleReader(), encoders, 1)


@pytest.mark.parametrize("asked", ["bpe_dropout=1.1", "bpe_dropout=-0.1", "unigram_alpha=-1"])
def test_values_out_of_range_are_refused(asked):
    with pytest.raises(UsageError, match=r"expected a number, at least 0"):
        BasicHParams().override(asked)
