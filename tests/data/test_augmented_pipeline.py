"""Augmentation through the input pipeline: restored iterators, guided heads, noise, refusals."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import t2t_lite as t2t
from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.data.batching import batching_scheme
from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.input_pipeline import train_dataset
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.rewriting import Rewriter
from t2t_lite.errors import DataError, UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.text import sentencepiece_training
from t2t_lite.text.marks import PLACEHOLDERS, SUGGESTION
from t2t_lite.text.sample import ALIGNMENT
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import EOS_ID

WORDS = ["small", "boats", "lie", "in", "harbours", "and", "seven", "children", "sing"]
PAIRS = [
    (line := " ".join(WORDS[number % 7 : number % 7 + 3]) + f" {number}", line.upper())
    for number in range(120)
]
SCHEME = batching_scheme(200, max_length=60, min_length_bucket=5, length_bucket_step=1.5)


def changed(sides):
    """What a problem of a user may do with its examples."""
    return {side: sides[side] for side in ("inputs", "targets")}


BOTH = {"term_augmentation": 0.6, "markup_augmentation": 0.4}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The paths of two files, and their vocabulary: ids of words, which stand for each other."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = [line for pair in PAIRS for line in pair]
    sentencepiece_training.train("bpe", folder / "vocab", lines, 600)
    encoder = SentencePieceEncoder(folder / "vocab")
    examples = []
    for pair in PAIRS:
        source, target = ([*encoder.encode(text), EOS_ID] for text in pair)
        starts = [[encoder.symbol(i).startswith("▁") for i in ids] for ids in (source, target)]
        words = [np.cumsum(side).tolist() for side in starts]  # of EOS, that of the last word
        alignment = [words[0].index(word) + 1 for word in words[1][:-1]]
        example = {"inputs": source, "targets": target, ALIGNMENT: [*alignment, len(source)]}
        examples.append(example)
    paths = [str(folder / f"shard{i}") for i in range(2)]
    for i, path in enumerate(paths):
        records.write_examples(path, examples[i::2])
    return paths, encoder


def train(corpus, *, guided=False, parts=1, seed=1, epochs=None, reader=None, **changes):
    paths, encoder = corpus
    name = "transformer_test"
    hparams = registry.hparams(name).copy(guided_alignment_weight=0.1 * guided, **changes)
    reader = reader or ExampleReader(has_alignment=guided)
    encoders = {"inputs": encoder, "targets": encoder}
    return train_dataset(
        paths,
        SCHEME,
        reader,
        parts=parts,
        seed=seed,
        batch_shuffle_size=4,
        rewriter=Rewriter.of(hparams, reader, encoders, seed),
        epochs=None if epochs is None else tf.data.Dataset.from_tensor_slices(epochs),
    )


def rows(batches):
    """The features of each row but those of padding."""
    for batch in batches:
        flat = {name: ids.reshape(-1, ids.shape[-1]) for name, ids in batch.items()}
        for row in zip(*flat.values(), strict=True):
            if row[0].any():
                yield {
                    name: np.trim_zeros(ids, "b").tolist()
                    for name, ids in zip(flat, row, strict=True)
                }


def epoch(corpus, number=0, **settings):
    dataset = train(corpus, epochs=np.array([number], np.int64), **settings)
    return [*rows(dataset.as_numpy_iterator())]


def texts(corpus, row):
    return tuple(corpus[1].decode(row[side][:-1]) for side in ("inputs", "targets"))


@pytest.mark.integration
def test_the_pairs_are_those_of_the_files_but_for_marks(corpus):
    plain = 0
    for source, target in (texts(corpus, row) for row in epoch(corpus, **BOTH)):
        plain += (source, target) in PAIRS
        kept = SUGGESTION.sub("", source)
        assert [mark for mark in kept if mark in PLACEHOLDERS] == [
            mark for mark in target if mark in PLACEHOLDERS
        ]
        assert kept.upper() == target
    assert plain / len(PAIRS) == pytest.approx(0.4 * 0.6, abs=0.17)  # four standard deviations


@pytest.mark.integration
def test_rows_are_drawn_anew_in_every_epoch_and_the_same_for_any_parts(corpus):
    def of(found):
        return {(*map(tuple, row.values()),) for row in found}

    first, second = (of(epoch(corpus, number, **BOTH)) for number in (0, 1))
    assert len(first - second) > len(PAIRS) / 2
    later = train(corpus, parts=4, epochs=np.array([1, 0], np.int64), **BOTH)
    assert of(rows(later.as_numpy_iterator())) >= first | second


@pytest.mark.integration
@pytest.mark.parametrize("guided", [False, True])
def test_restoring_in_mid_epoch_continues_with_the_next_batch(corpus, tmp_path, guided):
    settings = BOTH | {"guided": guided, "parts": 2}
    iterator = iter(train(corpus, **settings))
    taken = [next(iterator) for _ in range(5)]
    saved = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "checkpoint"))
    expected = [next(iterator) for _ in range(20)]
    fresh = iter(train(corpus, **settings))
    tf.train.Checkpoint(iterator=fresh).restore(saved).assert_consumed()
    for one in expected:
        found = next(fresh)
        assert (ALIGNMENT in found) == guided
        for name, ids in found.items():
            np.testing.assert_array_equal(ids, one[name])
    seen = len([*rows({name: ids.numpy() for name, ids in batch.items()} for batch in taken)])
    assert seen % len(PAIRS), "saved within an epoch"


def test_a_guided_head_learns_the_links_of_the_new_ids(corpus):
    encoder = corpus[1]
    for row in epoch(corpus, guided=True, **BOTH):
        eos = len(row["inputs"])
        assert row[ALIGNMENT][-1] == eos
        source = encoder.decode(row["inputs"][:-1])
        for target, place in zip(row["targets"][:-1], row[ALIGNMENT][:-1], strict=True):
            before = encoder.decode(row["inputs"][: place - 1])
            word = source[len(before) :].split()[0].partition("\x02")[0].upper()
            assert encoder.decode([target]).strip() in word, "a part of the word"


@pytest.mark.integration
def test_noise_and_sampling_follow_and_leave_suggestions(corpus):
    changes = {"source_casing_noise": 1.0, "source_typo_noise": 0.3, "bpe_dropout": 0.3}
    found = epoch(corpus, term_augmentation=1.0, **changes)
    assert len(found) == len(PAIRS)
    for row in found:
        source, target = texts(corpus, row)
        assert all(form[2:-1] in target for form in SUGGESTION.findall(source))
        assert SUGGESTION.search(source)
        rest = SUGGESTION.sub("", source)
        assert rest in (rest.upper(), rest.lower())
    plain = {tuple(corpus[1].encode(target)) for _, target in PAIRS}
    assert {tuple(row["targets"][:-1]) for row in found} - plain


def test_a_guided_head_refuses_noise_with_augmentation(corpus):
    with pytest.raises(UsageError, match="guided_alignment_weight: alignments do not know"):
        train(corpus, guided=True, source_typo_noise=0.1, **BOTH)


@pytest.mark.integration
def test_copied_and_exchanged_sides_have_equal_words_alone(corpus):
    readers = ExampleReader(reverse=True), ExampleReader(copy=True), ExampleReader(change=changed)
    for reader in readers:
        found = [texts(corpus, row) for row in epoch(corpus, reader=reader, markup_augmentation=1)]
        assert len(found) == len(PAIRS)
        assert all({*one} & {*other} & {*PLACEHOLDERS} for one, other in found)
        if not reader.copy:
            assert all(sum(source.count(mark) for mark in PLACEHOLDERS) == 1 for source, _ in found)


def test_examples_that_are_changed_have_no_terms(corpus):
    with pytest.raises(UsageError, match=r"term_augmentation.*changes its examples"):
        train(corpus, reader=ExampleReader(change=changed), term_augmentation=0.5)


@pytest.mark.parametrize("changes", [{"has_inputs": False}, {"has_labels": True}])
@pytest.mark.parametrize("hparam", [*BOTH])
def test_other_problems_are_refused(corpus, changes, hparam):
    reader = dataclasses.replace(ExampleReader(), **changes)
    with pytest.raises(UsageError, match=rf"{hparam}=0\.5: .*not translate texts: set {hparam}=0"):
        train(corpus, reader=reader, **{hparam: 0.5})


def test_problems_that_exchange_or_copy_sides_have_no_terms():
    hparams = BasicHParams(term_augmentation=0.5)
    for name in ("text2text_tmpdir_rev", "text2text_tmpdir_copy"):
        with pytest.raises(UsageError, match="term_augmentation: the alignments are those of"):
            ExampleReader.of(registry.problem(name), hparams)
        ExampleReader.of(registry.problem(name), BasicHParams(markup_augmentation=0.5))


def test_data_without_alignments_is_refused(corpus, tmp_path):
    problem = registry.problem("text2text_tmpdir_bpe")
    for path in problem.filepaths(str(tmp_path), DatasetSplit.TRAIN):
        records.write_examples(path, [{"inputs": [5, EOS_ID], "targets": [5, EOS_ID]}])
    with pytest.raises(DataError, match=r"no alignments, which hparam term_augmentation needs.*au"):
        t2t.dataset(problem, "train", data_dir=tmp_path, term_augmentation=0.5)
