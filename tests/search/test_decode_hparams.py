from types import SimpleNamespace

import pytest

from support.small_models import ByHand
from t2t_lite.errors import UsageError
from t2t_lite.search.beam_search import BeamSearch
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.factory import make_search
from t2t_lite.search.penalties import Penalty
from t2t_lite.search.sampling import RandomSearch


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("length_penalty=gnmt", "length_penalty=gnmt: expected t2t or average "),
        ("coverage_penalty=-1", "coverage_penalty=-1.0: expected a number, at least 0 "),
        ("min_length=-1", "min_length=-1: expected a whole number, at least 0 "),
        (
            "no_repeat_ngram_size=-1",
            "no_repeat_ngram_size=-1: expected a whole number, at least 0 ",
        ),
        ("sampling_method=beam", "sampling_method=beam: expected argmax or random "),
        ("sampling_method=random,sampling_temp=0", "sampling_temp=0.0: expected a number, above 0"),
        (
            "sampling_method=random,sampling_keep_top_k=0",
            "sampling_keep_top_k=0: expected a whole number, at least 1",
        ),
        (
            "sampling_method=random,sampling_keep_top_p=0",
            "sampling_keep_top_p=0.0: expected a number, above 0 and at most 1",
        ),
        (
            "sampling_method=random,sampling_keep_top_p=1.5",
            "sampling_keep_top_p=1.5: expected a number, above 0 and at most 1",
        ),
        ("sampling_temp=0.7", "0.7 applies only to sampling: set sampling_method=random"),
        ("sampling_keep_top_k=5", "5 applies only to sampling: set sampling_method=random"),
        ("sampling_keep_top_p=0.5", "0.5 applies only to sampling: set sampling_method=random"),
        ("seed=5", "'seed': 5 applies only to sampling: set sampling_method=random"),
        ("sampling_method=random,coverage_penalty=0.2", "0.2 applies only to beam search"),
        ("beam_size=1,coverage_penalty=0.2", "0.2 applies only to beam search"),
        ("well_formed=true,min_length=3", "trees cannot also obey min_length"),
        (
            "well_formed=true,force_decode_length=true",
            "force_decode_length or end_at_limit; leave them out",
        ),
        ("force_decode_length=true,min_length=3", "lengths are fixed; leave out min_length"),
        ("dtype=half", "dtype=half: expected float32, bfloat16 or float16 "),
        ("well_formed=true,xla_compile=true", "XLA would recompile the search among trees"),
    ],
)
def test_usage_errors_are_named(changes, message):
    with pytest.raises(UsageError) as error:
        DecodeHParams().override(changes)
    assert str(error.value).startswith("decode hparam ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("search", ["beam_size=1", "sampling_method=random"])
def test_a_rule_that_ends_beams_is_refused_without_them_but_not_that_of_an_imported_model(search):
    imported, trained = (SimpleNamespace(decode_hparams=text) for text in ("stopping=false", ""))
    assert DecodeHParams.of(imported, search).stopping == "false"
    assert DecodeHParams.of(trained, f"{search},stopping=t2t").stopping == "t2t"
    with pytest.raises(UsageError, match="'stopping': never applies only to beam search: beam_"):
        DecodeHParams.of(imported, f"{search},stopping=never")


def test_make_search():
    model = ByHand([[[[0.5, 0.5]] * 2]])
    for changes, kind, penalty in (
        ("alpha=-1", BeamSearch, Penalty(-1.0)),
        ("length_penalty=average", BeamSearch, Penalty(0.6, "average")),
        ("coverage_penalty=0.2", BeamSearch, Penalty(0.6, "t2t", 0.2)),
        ("beam_size=1", BeamSearch, Penalty()),
        ("sampling_method=random", RandomSearch, Penalty()),
    ):
        hparams = DecodeHParams().override(changes)
        search = make_search(model, {}, hparams)
        assert type(search) is kind
        assert search.penalty == penalty
