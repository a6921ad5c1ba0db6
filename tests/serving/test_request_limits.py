"""What a request may hold is limited by name, apart from the model's work."""

import pytest
from starlette.exceptions import HTTPException

from support.codecs import codec_of
from support.copying import BYTES, Bytes
from support.servers import request_of
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.decoding.request import TextOptions
from t2t_lite.decoding.stages.registered import Stages
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.request_limits import RequestLimits
from t2t_lite.serving.requests import OptionRefusal


def asking(text: str, **options) -> tuple[Source, Stages]:
    """Returns a source, and its stages."""
    codec = codec_of(Bytes(), BYTES)
    (source,) = codec.encode([text], TextOptions(**options))
    return source, codec.stages_of(source)


def marked(text: str) -> tuple[Source, Stages]:
    return asking(text, markup="html")


def refused(call, *args) -> str:
    with pytest.raises(HTTPException) as refusal:
        call(*args)
    assert refusal.value.status_code == 413
    return refusal.value.detail


def test_what_an_option_asks_for_is_refused_by_its_name():
    with pytest.raises(OptionRefusal) as refusal:
        RequestLimits(20_000, 1).add(*marked("a<br>" * 2001), 1)
    assert (refusal.value.status_code, refusal.value.option) == (413, "markup")


def test_pieces_of_markup_over_all_texts_and_outputs():
    limits = RequestLimits(20_000, 1)
    limits.add(*marked("a<br>&amp;{x}<!-- y --></b>" * 200), 1)
    limits.add(*marked("a<br>" * 1000), 1)
    limits.add(*asking("a"), 1)
    message = "2001 tags, entities and placeholders: at most 2000 are allowed"
    assert refused(limits.add, *marked("a<br>"), 1) == message
    message = "2004 tags, entities and placeholders (times 4 outputs): at most 2000 are allowed"
    assert refused(RequestLimits(20_000, 4).add, *marked("a<br>" * 501), 1) == message


@pytest.mark.parametrize(
    ("text", "subwords"), [("a <br>", 1415), ("<br>" + "a " * 1415, 1), ("a", 1415)]
)
def test_the_alignments_of_long_texts(text, subwords):
    limits = RequestLimits(20_000, 1)
    limits.add(*asking("a " * 1415), 1415)
    message = "long texts with markup: the squares of their subwords add up to 2002225: at most"
    assert refused(limits.add, *marked(text), subwords).startswith(message)


def test_forms_of_the_terms_of_all_texts():
    terms = {"a": ["x" * 200] * 50}
    limits = RequestLimits(20_000, 1)
    for _ in range(2):
        limits.add(*asking("a", terms=terms), 1)
    message = "the forms of the texts' terms: 30000 characters: at most 20000 are allowed"
    assert refused(limits.add, *asking("a", terms=terms), 1) == message


def test_characters_of_all_texts():
    body = '{"texts": ["%s", "%s"]}'
    limits = ServerConfig(max_subwords=10)
    assert request_of((body % ("x" * 60, "y" * 40)).encode(), limits).texts
    message = "the texts have 101 characters: at most 100 are allowed"
    assert refused(request_of, (body % ("x" * 61, "y" * 40)).encode(), limits) == message


def test_characters_of_terms_and_of_forbidden_words():
    body = '{"text": "a", "forbid": [%s]}'
    many = ", ".join(f'"{number:0200}"' for number in range(20))
    assert request_of((body % many).encode(), ServerConfig()).options.forbid
    message = '"forbid" has 4001 characters: at most 4000 are allowed'
    assert refused(request_of, (body % f'{many}, "b"').encode(), ServerConfig()) == message
    message = "a term or word has 201 characters: at most 200 are allowed"
    assert refused(request_of, (body % f'"{"x" * 201}"').encode(), ServerConfig()).startswith(
        message
    )
