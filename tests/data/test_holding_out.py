import itertools

import pytest

from t2t_lite.data.holding_out import training_or_held_out
from t2t_lite.errors import DataError


def parts(samples: list) -> tuple[list, list]:
    """The samples that train, and those that are held out."""
    train, dev = (
        list(training_or_held_out(lambda: iter(samples), training, "a.txt", "b.txt"))
        for training in (True, False)
    )
    return train, dev


def numbered(count: int) -> list[dict[str, str]]:
    return [{"inputs": f"source {n}", "targets": f"target {n}"} for n in range(count)]


@pytest.mark.parametrize(
    ("count", "held"), [(20, 1), (39, 1), (40, 2), (999, 49), (40_000, 2_000), (40_100, 2_000)]
)
def test_the_last_are_held_out_five_percent_but_at_most_2000(count, held):
    samples = numbered(count)
    assert parts(samples) == (samples[:-held], samples[-held:])


@pytest.mark.parametrize("count", [0, 1, 19])
@pytest.mark.parametrize("training", [True, False])
def test_of_too_few_none_is_held_out_and_the_message_says_what_to_do(count, training):
    with pytest.raises(
        DataError,
        match=rf"^a\.txt: there are no dev files \(b\.txt\), and {count} lines .* too few",
    ):
        training_or_held_out(lambda: iter(numbered(count)), training, "a.txt", "b.txt")


def test_equals_of_held_out_samples_do_not_train(caplog):
    samples = numbered(60)
    half_equal = {"inputs": samples[-1]["inputs"], "targets": "another"}
    given = [samples[-1], *samples[:-3], samples[-3], half_equal, samples[-2], *samples[-3:]]
    train, dev = parts(given)
    assert dev == samples[-3:]
    assert train == [*samples[:-3], half_equal]
    assert "a.txt: dropped 3 lines of training: they equal held-out ones" in caplog.text


def test_language_models_have_targets_alone():
    samples = [{"targets": text} for text in "abcdefghijklmnopqrsa"]
    train, dev = parts(samples)
    assert dev == [{"targets": "a"}]
    assert train == samples[1:-1]


def test_what_is_held_out_is_said(caplog):
    list(training_or_held_out(lambda: numbered(50), False, "my.en and my.de", "dev.en and dev.de"))
    assert caplog.messages == [
        "my.en and my.de: there are no dev files (dev.en and dev.de): the last 2 of 50 lines of "
        "text are held out as dev split, and do not train"
    ]


def test_text_of_one_repeated_line_is_an_error():
    samples = list(itertools.repeat({"targets": "the same"}, 100))
    with pytest.raises(DataError, match="all lines of text equal those that are held out"):
        parts(samples)
