"""Any text results in as many lines as it has, in search and scoring, split or truncated."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.copying import bytes_decoder, outputs
from t2t_lite import registry
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.search.decode_hparams import DecodeHParams

HOSTILE = ["", " ", "\r", "\x00", "\u2028", "\u2028\x00 \r", "\ufeff", "a\r\nb", "\U0010ffff" * 99]


@pytest.fixture(scope="module", params=["split", "truncate"])
def decoder(request) -> Decoder:
    hparams = registry.hparams("transformer_test").copy(num_hidden_layers=1, max_length=20)
    model = registry.model("transformer")(hparams, 258, 258)
    search = DecodeHParams(beam_size=2, extra_length=2)
    return bytes_decoder(model, settings=search, long_input=request.param)


@pytest.mark.integration
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text(), min_size=10, max_size=20))
def test_as_many_lines_come_out_as_went_in(decoder, lines):
    texts = [*HOSTILE, *lines]
    found = outputs(decoder, texts)
    assert len(found) == len(texts)
    assert not any(set("\r\t") & set(output) for output in found)
    breaks = [text.strip().count("\n") for text in texts]
    assert [output.count("\n") for output in found] == breaks
    blank = [not text.strip() for text in texts]
    assert all(output == "" for output, is_blank in zip(found, blank, strict=True) if is_blank)


@pytest.mark.integration
def test_a_line_of_50_000_characters(decoder):
    (long, short) = outputs(decoder, ["x" * 50_000, "y"])
    assert (short,) == tuple(outputs(decoder, ["y"]))
    assert isinstance(long, str)
