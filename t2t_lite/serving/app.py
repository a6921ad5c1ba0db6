"""The server's endpoints: translation, health, metrics, and a page to try it."""

import asyncio
import time
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from t2t_lite.errors import quoted
from t2t_lite.reporting import pages
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.hosts import AllowedHosts
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.requests import TranslationRequest, parse
from t2t_lite.serving.worker import Worker
from t2t_lite.text.language_names import english_name
from t2t_lite.text.languages import Choice

# Bytes of a body that are parsed in the event loop; a larger one is parsed in a thread.
_MAX_PARSED_IN_LOOP = 1 << 16


class _Endpoints:
    """Answers the requests for each path."""

    def __init__(
        self,
        worker: Worker,
        metrics: ServerMetrics,
        config: ServerConfig,
        about: Mapping[str, object],
        languages: Mapping[str, Choice],
    ) -> None:
        self._worker = worker
        self._metrics = metrics
        self._config = config
        self._about = about
        self._page = _page(languages)

    async def page(self, request: Request) -> Response:
        """GET /: a page where users type a sentence."""
        return HTMLResponse(self._page)

    async def health(self, request: Request) -> Response:
        """GET /health: 503 until the model is loaded, then 200."""
        ready = self._worker.is_ready
        status = {"status": "ready" if ready else "loading"}
        return JSONResponse({**status, **self._about}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """GET /metrics, in Prometheus's text format."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def translate(self, request: Request) -> Response:
        """POST /translate: see `requests.parse` and `RequestTranslator`."""
        start = time.perf_counter()
        try:
            response = Response(await self._answer(request), media_type="application/json")
        except HTTPException as error:
            response = _error(request, error)
        self._metrics.requests.labels(response.status_code).inc()
        self._metrics.seconds.observe(time.perf_counter() - start)
        return response

    async def _answer(self, request: Request) -> bytes:
        body = None
        try:
            async with asyncio.timeout(self._config.timeout):
                body = await self._body(request)
                wanted = await self._parsed(body)
                return await asyncio.wrap_future(self._worker.submit(wanted))
        except TimeoutError:
            seconds = f"{self._config.timeout:g} seconds"
            if body is None:
                message = f"the request did not arrive within {seconds}"
                raise HTTPException(408, message, {"Connection": "close"}) from None
            raise HTTPException(504, f"no answer within {seconds}") from None
        except asyncio.CancelledError:  # the shutdown's time is over
            raise HTTPException(503, "the server is shutting down") from None

    async def _parsed(self, body: bytes) -> TranslationRequest:
        if len(body) <= _MAX_PARSED_IN_LOOP:
            return parse(body, self._config)
        return await asyncio.to_thread(parse, body, self._config)

    async def _body(self, request: Request) -> bytes:
        if refusal := _media_refusal(request) or self._worker.refusal():
            raise refusal
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


def _page(languages: Mapping[str, Choice]) -> str:
    """Returns the page, with a list of languages to choose from for each side that has some."""
    lists = {}
    for side, (codes, default) in languages.items():
        names = {code: english_name(code) for code in codes}
        labels = {code: f"{name} ({code})" if name else code for code, name in names.items()}
        in_order = sorted(labels.items(), key=lambda item: item[1].casefold())
        lists[side] = {"options": in_order, "default": default}
    return pages.render("serving/page.html", languages=lists)


def _media_refusal(request: Request) -> HTTPException | None:
    """Refuses types that forms on other sites can send; for JSON, browsers ask permission first."""
    media_type = request.headers.get("content-type", "")
    if media_type.partition(";")[0].strip().lower() == "application/json":
        return None
    return HTTPException(415, f"Content-Type must be application/json, not {quoted(media_type)}")


def _error(request: Request, error: Exception) -> Response:
    """Returns an error as JSON."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def make_app(
    worker: Worker,
    metrics: ServerMetrics,
    config: ServerConfig,
    about: Mapping[str, object],
    hosts: frozenset[str] | None,
    languages: Mapping[str, Choice],
) -> Starlette:
    """Returns the server as an ASGI application.

    Args:
        worker: translates.
        metrics: the counters to update.
        config: limits.
        about: what /health reports besides its status.
        hosts: the host names that clients may use; None: any.
        languages: those of each side that the page lets users choose.
    """
    endpoints = _Endpoints(worker, metrics, config, about, languages)
    routes = [
        Route("/", endpoints.page),
        Route("/translate", endpoints.translate, methods=["POST"]),
        Route("/health", endpoints.health),
        Route("/metrics", endpoints.metrics),
    ]
    middleware = [] if hosts is None else [Middleware(AllowedHosts, hosts=hosts)]
    handlers = {HTTPException: _error}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)
