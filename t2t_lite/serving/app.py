"""The server's endpoints: translation, languages and their detection, health, metrics, a page."""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from t2t_lite import pages
from t2t_lite.errors import quoted
from t2t_lite.serving.api_keys import ApiKeys
from t2t_lite.serving.bodies import fields_of_form, fields_of_json
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.hosts import AllowedHosts
from t2t_lite.serving.language_detector import LanguageDetector
from t2t_lite.serving.language_pairs import LanguagePairs
from t2t_lite.serving.libretranslate import LibreForm, is_libre
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.requests import OptionRefusal, TranslationRequest, checked
from t2t_lite.serving.served_model import ServedModel
from t2t_lite.serving.worker import Worker
from t2t_lite.text.language_names import english_name
from t2t_lite.text.languages import Choice

# Bytes of a body that are parsed in the event loop; a larger one is parsed in a thread.
_MAX_PARSED_IN_LOOP = 1 << 16

_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
_KEY = "api_key"  # the field of a request
# Tells a client that its HTML was translated as plain text.
_FORMAT_USED = "X-Format-Used"


class _Endpoints:
    """Answers the requests for each path."""

    def __init__(
        self,
        worker: Worker,
        metrics: ServerMetrics,
        config: ServerConfig,
        model: ServedModel,
    ) -> None:
        self._worker = worker
        self._metrics = metrics
        self._config = config
        self._about = {"problem": model.problem, "beam_size": model.beam_size}
        self._keys = ApiKeys.read(config.api_keys)
        self._page = _page(model.languages, needs_key=bool(self._keys))
        pairs = LanguagePairs.of(model.languages, model.pair)
        detector = LanguageDetector(sorted(pairs.sources))
        self._libre = LibreForm(pairs, detector, model.beam_size, config)

    async def page(self, request: Request) -> Response:
        """GET /: a page where users type a sentence."""
        return HTMLResponse(self._page)

    async def health(self, request: Request) -> Response:
        """GET /health: 503 until the model is loaded, then 200."""
        ready = self._worker.is_ready
        status = {"status": "ok" if ready else "loading"}
        return JSONResponse({**status, **self._about}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """GET /metrics, in Prometheus's text format."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def translate(self, request: Request) -> Response:
        """POST /translate: see `requests.checked`, `LibreForm` and `RequestTranslator`."""
        start = time.perf_counter()
        try:
            response = await self._in_time(request, self._translated(request))
        except HTTPException as error:
            response = _error(request, error)
        self._metrics.requests.labels(response.status_code).inc()
        self._metrics.seconds.observe(time.perf_counter() - start)
        return response

    async def languages(self, request: Request) -> Response:
        """GET /languages: see `LanguagePairs.listed`."""
        return JSONResponse(self._libre.pairs.listed())

    async def settings(self, request: Request) -> Response:
        """GET /frontend/settings: see `LibreForm.settings`."""
        return JSONResponse(self._libre.settings(needs_key=bool(self._keys)))

    async def detect(self, request: Request) -> Response:
        """POST /detect: see `LibreForm.detect`."""
        return await self._in_time(request, self._detected(request))

    async def _detected(self, request: Request) -> Response:
        fields = await self._fields(request)
        return JSONResponse(await asyncio.to_thread(self._libre.detect, fields))

    async def _translated(self, request: Request) -> Response:
        if refusal := self._worker.refusal():
            raise refusal
        fields = await self._fields(request)
        if not is_libre(fields):
            answer = await self._submitted(checked(fields, self._config))
            return Response(answer, media_type=_JSON)
        asked = await asyncio.to_thread(self._libre.read, fields)
        headers = {}
        try:
            answer = await self._submitted(asked.request)
        except OptionRefusal as refusal:
            asked = await asyncio.to_thread(asked.in_plain_text, refusal)
            answer = await self._submitted(asked.request)
            headers = {_FORMAT_USED: "text"} if asked.is_html else {}
        return Response(answer, headers=headers, media_type=_JSON)

    async def _submitted(self, wanted: TranslationRequest) -> bytes:
        return await asyncio.wrap_future(self._worker.submit(wanted))

    async def _in_time(self, request: Request, answering: Awaitable[Response]) -> Response:
        """Waits for the request to arrive, and for its answer, until the timeout."""
        seconds = f"{self._config.timeout:g} seconds"
        request.state.has_arrived = False
        try:
            async with asyncio.timeout(self._config.timeout):
                return await answering
        except TimeoutError:
            if request.state.has_arrived:
                raise HTTPException(504, f"no answer within {seconds}") from None
            message = f"the request did not arrive within {seconds}"
            raise HTTPException(408, message, {"Connection": "close"}) from None
        except asyncio.CancelledError:  # the shutdown's time is over
            raise HTTPException(503, "the server is shutting down") from None

    async def _fields(self, request: Request) -> dict[str, Any]:
        """Reads the fields of a request, and checks its key."""
        read = _reader(request)
        body = await self._body(request)
        request.state.has_arrived = True
        if len(body) <= _MAX_PARSED_IN_LOOP:
            fields = read(body, self._config)
        else:
            fields = await asyncio.to_thread(read, body, self._config)
        self._keys.check(fields.pop(_KEY, None))
        return fields

    async def _body(self, request: Request) -> bytes:
        body, limit = bytearray(), self._config.max_body_size
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    message = f"the body is too long: at most {limit} bytes are allowed"
                    raise HTTPException(413, message)
        except ClientDisconnect as error:
            raise HTTPException(400, "the body is incomplete") from error
        return bytes(body)


def _page(languages: Mapping[str, Choice], needs_key: bool) -> str:
    """Returns the page, with a list of languages to choose from for each side that has some."""
    lists = {}
    for side, (codes, default) in languages.items():
        offered = {*codes, default} - {""}  # the default may have a tag
        names = {code: english_name(code) for code in offered}
        labels = {code: f"{name} ({code})" if name else code for code, name in names.items()}
        in_order = sorted(labels.items(), key=lambda item: item[1].casefold())
        lists[side] = {"options": in_order, "default": default}
    return pages.render("serving/page.html", languages=lists, needs_key=needs_key)


def _reader(request: Request) -> Callable[[bytes, ServerConfig], dict[str, Any]]:
    """Returns what reads the body of a request, by its content type, and its address.

    For JSON, browsers ask permission before another site's page may send it. Forms they just send,
    but say whose page it is.

    Raises:
        HTTPException: 403: the form is another site's; 415: the type is not one of these.
    """
    # As it came: `request.url` would end it at a #, and fail for some values of Host.
    query = request.scope["query_string"].decode("latin-1")
    given = request.headers.get("content-type", "")
    media_type = given.partition(";")[0].strip().lower()
    if media_type == _JSON:
        return functools.partial(fields_of_json, query)
    if media_type != _FORM and (media_type or not query):
        raise HTTPException(415, f"Content-Type must be {_JSON} or {_FORM}, not {quoted(given)}")
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        message = f"a page of {quoted(origin)} may not use this server"
        raise HTTPException(
            403, f"{message}: send {_JSON} from a program, or use the server's page"
        )
    return functools.partial(fields_of_form, query)


def _error(request: Request, error: Exception) -> Response:
    """Returns an error as JSON."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def make_app(
    worker: Worker,
    metrics: ServerMetrics,
    config: ServerConfig,
    model: ServedModel,
    hosts: frozenset[str] | None,
) -> Starlette:
    """Returns the server as an ASGI application.

    Args:
        worker: translates.
        metrics: the counters to update.
        config: limits.
        model: what is served.
        hosts: the host names that clients may use; None: any.

    Raises:
        UsageError: the file of keys has none.
    """
    endpoints = _Endpoints(worker, metrics, config, model)
    routes = [
        Route("/", endpoints.page),
        Route("/translate", endpoints.translate, methods=["POST"]),
        Route("/detect", endpoints.detect, methods=["POST"]),
        Route("/languages", endpoints.languages),
        Route("/frontend/settings", endpoints.settings),
        Route("/health", endpoints.health),
        Route("/metrics", endpoints.metrics),
    ]
    middleware = [] if hosts is None else [Middleware(AllowedHosts, hosts=hosts)]
    handlers = {HTTPException: _error}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)
