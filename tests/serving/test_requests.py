"""What clients may send, and the cost of refusing the rest."""

import json
import time

import pytest
from starlette.exceptions import HTTPException

from support.servers import request_of
from t2t_lite.decoding.request import FIELDS
from t2t_lite.serving.bodies import fields_of_form, fields_of_json
from t2t_lite.serving.config import ServerConfig

LIMITS = ServerConfig(max_body_size=1 << 24)
MEGABYTE = 1 << 20


def refused(body: bytes) -> tuple[int, str]:
    with pytest.raises(HTTPException) as error:
        request_of(body, LIMITS)
    return error.value.status_code, error.value.detail


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b'{"text": "a", "n_best": NaN}', 400, "the body is not JSON: NaN is not a JSON number"),
        (b'{"n_best": -Infinity}', 400, "the body is not JSON: -Infinity is not a JSON number"),
        (b'{"text": "a", "n_best": 1e999}', 422, '"n_best" must be a whole number of at least 1'),
        (b'{"text": "a", "text": "b"}', 422, "field 'text' is given twice"),
        (b'{"text": {"a": 1, "a": 2}}', 422, "field 'a' is given twice"),
        (b'{"text": "a", "n_best": ' + b"9" * 19 + b"}", 422, "the number '99999999"),
        (b'{"text": "a", "n_best": ' + b"9" * MEGABYTE + b"}", 422, "the number '99999999"),
        (
            b'{"texts": [' + b"1," * 1100 + b"1]}",
            413,
            "too many fields or texts: at most 128",
        ),
        (b'{"' + b"x" * MEGABYTE + b'": 1}', 422, "unknown field 'xxxx"),
        (b'{"text": "' + b"\\u0061" * MEGABYTE + b'"}', 413, "text has 1048576 characters"),
        (b'{"text": "' + b'\\"' * MEGABYTE, 400, "the body is not JSON: Unterminated string"),
        (b'{"text":' * 400_000, 413, "too many fields or texts"),
        (b"[" * 400_000, 400, "the body is not JSON: maximum recursion depth"),
        (b"[" + b"[]," * 400_000 + b"[]]", 413, "too many fields or texts"),
        (b'{"a":[' + b'{"a":1},' * 400_000 + b"1]}", 413, "too many fields or texts"),
    ],
)
def test_errors_are_brief_and_early(body, status, message):
    start = time.thread_time()
    code, error = refused(body)
    assert (code, error[: len(message)]) == (status, message)
    assert len(error) < 250
    assert time.thread_time() - start < 0.5


def test_fields_in_the_address_count_beside_those_of_json():
    query = "api_key=k&target_language=de&n_best=2&q=a&q=b"
    fields = fields_of_json(query, b'{"attention": true}', LIMITS)
    assert fields.pop("q") == ["a", "b"]
    own = {"api_key": "k", "target_language": "de", "n_best": 2, "attention": True}
    assert fields == own
    with pytest.raises(HTTPException, match="field 'api_key' is given twice"):
        fields_of_json(query, b'{"api_key": "l"}', LIMITS)


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        ("text=1&n_best=2", {"text": "1", "n_best": 2}),
        ("text=true&attention=true", {"text": "true", "attention": True}),
        ("n_best=two&attention=no", {"n_best": "two", "attention": "no"}),  # refused later
    ],
)
def test_forms_have_numbers_and_truth_values(form, fields):
    assert fields_of_form("", form.encode(), LIMITS) == fields


@pytest.mark.parametrize("name", ["texts", "terms", "forbid"])
def test_forms_have_no_lists(name):
    with pytest.raises(HTTPException, match=f'"{name}" needs JSON: forms'):
        fields_of_form(f"{name}=a&{name}=b", b"text=a", LIMITS)


def test_long_names_are_quoted_by_their_beginning():
    name = "text" * 1000
    _, error = refused(json.dumps({name: 1}).encode())
    assert error == f"unknown field {name[:80]!r}... (4000 characters)"


def test_as_many_texts_as_are_allowed_and_no_more():
    texts = ['"\\,[]{}' * 100] * LIMITS.max_texts
    fields = {"texts": texts, "n_best": 2, "attention": True}
    assert request_of(json.dumps(fields, indent=2).encode(), LIMITS).texts == texts
    status, error = refused(json.dumps({"texts": [*texts, ""]}).encode())
    assert (status, error) == (413, "129 texts: at most 128 are allowed")


def test_the_largest_number_is_read():
    body = b'{"text": "a", "n_best": ' + b"9" * 18 + b"}"
    assert request_of(body, LIMITS).n_best == 10**18 - 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_every_encoding_of_json_is_read(encoding):
    assert request_of('{"text": "日本語"}'.encode(encoding), LIMITS).texts == ["日本語"]


def test_the_kind_of_markup_is_a_string():
    assert request_of(b'{"text": "a", "markup": "html"}', LIMITS).options.markup == "html"
    assert request_of(b'{"text": "a"}', LIMITS).options.markup == ""
    assert refused(b'{"text": "a", "markup": true}') == (422, '"markup" is not a string')


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if not field.checked])
@pytest.mark.parametrize("wrong", [5, None, "x" * 101, "\ud800"])
def test_texts_of_options_are_checked(name, wrong):
    status, error = refused(json.dumps({"text": "a", name: wrong}).encode())
    assert status in (413, 422)
    assert f'"{name}"' in error


def test_terms_and_forbidden_words():
    body = (
        b'{"text": "a", "terms": {"file": "Datei", "tab": ["Reiter", "Register"]}, "forbid": ["x"]}'
    )
    forms = {"file": ("Datei",), "tab": ("Reiter", "Register")}
    options = request_of(body, LIMITS).options
    assert (options.terms, options.forbid) == (forms, ("x",))
    options = request_of(b'{"text": "a"}', LIMITS).options
    assert (options.terms, options.forbid) == ({}, ())
    status, error = refused(b'{"text": "a", "terms": ["file"]}')
    assert (status, error[:40]) == (422, "terms=['file']: expected a mapping such ")
    many = {"text": "a", "terms": {str(i): "x" for i in range(201)}}
    status, error = refused(json.dumps(many).encode())
    assert (status, error) == (413, "402 texts in terms: at most 400 are allowed")
    words = [str(i) for i in range(400)]
    for most in (
        {"terms": dict.fromkeys(words[:200], "x")},
        {"terms": {word: ["x"] for word in words[:200]}},
        {"terms": {"a": words[:399]}},
        {"forbid": words},
    ):
        texts = ["x"] * LIMITS.max_texts
        options = request_of(json.dumps({"texts": texts, **most}).encode(), LIMITS).options
        assert options.terms or options.forbid
    status, error = refused(json.dumps({"text": "a", "forbid": ["x" * 10**6]}).encode())
    assert (status, error[:42]) == (413, "a term or word has 1000000 characters: at ")


def test_as_many_terms_as_are_allowed():
    terms = {f"source {i}": [f"target {i}"] for i in range(200)}
    fields = {"texts": ["a"] * LIMITS.max_texts, "terms": terms}
    assert len(request_of(json.dumps(fields, indent=2).encode(), LIMITS).options.terms) == 200
