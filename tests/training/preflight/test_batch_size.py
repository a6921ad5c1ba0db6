import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.errors import UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.preflight import batch_size
from t2t_lite.training.preflight.probe import Cost, DoesNotFitError, Request


@given(
    threshold=st.integers(0, 200_000),
    least=st.integers(1, 300),
    start=st.integers(1, 200_000),
    most=st.integers(300, 100_000),
)
def test_the_largest_that_fits_is_found_to_an_eighth(threshold, least, start, most):
    tried = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= threshold

    found = batch_size.largest_fitting(fits, least, start, most)
    assert len(tried) == len(set(tried)) <= 24
    assert all(least <= size <= most for size in tried)
    if threshold < least:
        assert found is None
    elif threshold >= most:
        assert found == most
    else:
        assert found <= threshold <= found + max(found // 8, 1)


@given(
    size=st.integers(1, 5000),
    more=st.integers(0, 100),
    max_length=st.integers(0, 300),
)
def test_the_largest_shape_grows_and_bounds_the_worst_bucket(size, more, max_length):
    hparams = BasicHParams(max_length=max_length)
    sentences, length = batch_size.largest_shape(hparams, size)
    assert sentences * length >= size
    greater, longer = batch_size.largest_shape(hparams, size + more)
    assert greater * longer >= sentences * length


def config(folder: pathlib.Path, hparams: str) -> TrainerConfig:
    return TrainerConfig(
        data_dir=str(folder),
        output_dir=str(folder / "run"),
        problem="text2text_tmpdir",
        model="transformer",
        hparams_set="transformer_test",
        hparams=hparams,
    )


@pytest.fixture
def memory_for(monkeypatch):
    """Returns a function that sets the number of cells up to which probes fit, on two devices."""

    def set_most(cells: int) -> None:
        def measure(request: Request, timeout: float) -> Cost:
            for sentences, length in request.shapes:
                if sentences * length > cells:
                    raise DoesNotFitError("out of memory")
            return Cost(
                2,
                2,
                False,
                1,
                1,
                1,
                1,
                [sentences * length for sentences, length in request.shapes],
                [],
            )

        monkeypatch.setattr(batch_size, "measure", measure)

    return set_most


def test_the_number_found_replaces_the_one_given(tmp_path, memory_for, capsys):
    memory_for(20_000)
    given_ = config(tmp_path, "max_length=100, batch_size=3000, dtype=bfloat16")
    found = batch_size.with_found_batch_size(given_)
    *others, last = found.hparams.split(",")
    assert [other.strip() for other in others] == ["max_length=100", "dtype=bfloat16"]
    size = int(last.removeprefix("batch_size="))
    assert 0.9 * 20_000 * 8 / 9 - 100 <= size <= 0.9 * 20_000
    out = capsys.readouterr().out
    assert f"--hparams=batch_size={size}" in out
    assert re.search(r"24,000 +240 × 100 +- .*does not fit: out of memory", out)
    assert not (tmp_path / "run").exists()


def test_a_list_among_the_hyperparameters_stays_whole():
    given_ = config(pathlib.Path("data"), "sizes=[3,5],batch_size=7,depth=2")
    found = batch_size._with_batch_size(given_, 9)
    assert found.hparams == "sizes=[3,5],depth=2,batch_size=9"


def test_no_more_than_the_effective_batch_is_wanted(tmp_path, memory_for):
    memory_for(10**9)
    found = batch_size.with_found_batch_size(config(tmp_path, "effective_batch_size=25001"))
    assert found.hparams == "effective_batch_size=25001,batch_size=12501"


def test_a_model_that_does_not_fit_at_all_is_an_error(tmp_path, memory_for):
    memory_for(99)
    with pytest.raises(UserError, match=r"batch_size=100 fits into memory: lower max_length=100"):
        batch_size.with_found_batch_size(config(tmp_path, "max_length=100"))


def test_the_reserve_leaves_room_for_the_longest_sentence(tmp_path, memory_for):
    memory_for(105)
    found = batch_size.with_found_batch_size(config(tmp_path, "max_length=100,batch_size=200"))
    assert found.hparams == "max_length=100,batch_size=100"


def test_nothing_above_the_effective_batch_is_tried(tmp_path, memory_for, capsys):
    memory_for(99)
    with pytest.raises(UserError, match="not even batch_size=50 fits"):
        batch_size.with_found_batch_size(
            config(tmp_path, "max_length=100,effective_batch_size=100")
        )
    assert len(re.findall("does not fit", capsys.readouterr().out)) == 1
