"""The process that serves: the routes, a socket, and uvicorn."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import uvicorn
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestai.answering import Resilience, RunResult
from orchestai.errors import UserError
from orchestai.installed import needed_for
from orchestai.orchestrator import Orchestrator
from orchestai.serving.api.errors import (
    LEFT,
    ApiError,
    busy,
    error_of,
    error_response,
    invalid,
    json_response,
    read_body,
    unless_left,
)
from orchestai.serving.api.replies.accounting import headers
from orchestai.serving.api.replies.chat import ChatChunks, chat_completion
from orchestai.serving.api.replies.event_stream import Rendering, open_stream
from orchestai.serving.api.replies.responses import ResponseEvents, response
from orchestai.serving.api.requests.chat import read_chat
from orchestai.serving.api.requests.common import Asked, first_fault
from orchestai.serving.api.requests.responses import read_responses
from orchestai.serving.api.service import ServedModel, Service
from orchestai.serving.store import Feedback, FeedbackStore, ServedRuns

if TYPE_CHECKING:
    from orchestai.serving.tracing import Tracing

_Text = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]
"""What says something, and PostgreSQL can keep."""


class _FeedbackRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    run_id: str
    score: float | None = Field(None, ge=0, le=1)
    answer: _Text | None = None
    tests: _Text | None = None


def run_of(name: str) -> str:
    """The run's id, of the id of its reply.

    Raises:
        ApiError: no run can have this one, and PostgreSQL could not even look for it.
    """
    if "\0" in name:
        raise _unknown(name)
    return f"run-{name.removeprefix('resp_')}" if name.startswith("resp_") else name


def _unknown(name: str) -> ApiError:
    return ApiError(404, "run_not_found", f"there is no run {name!r} of this key", param="run_id")


Endpoint = Callable[[Request, Service], Awaitable[Response]]


def make_app(orchestrator: Orchestrator, tracing: Tracing | None = None) -> Starlette:
    """The application; it opens the orchestrator and the database when it starts, and closes them when it ends.

    Where these cannot be opened it does not start, and the `UserError` that says why is its `state.refusal`.

    Args:
        tracing: of its runs; None is none.
    """

    @asynccontextmanager
    async def open_service(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                app.state.service = await stack.enter_async_context(Service.opened(orchestrator, tracing))
            except UserError as error:
                app.state.refusal = error
                raise
            yield

    def route(path: str, endpoint: Endpoint, method: str = "GET") -> Route:
        return Route(path, _Answering(path, endpoint), methods=[method])

    return Starlette(
        routes=[
            route("/v1/chat/completions", _chat, "POST"),
            route("/v1/responses", _responses, "POST"),
            route("/v1/models", _models),
            route("/v1/models/{model:path}", _model),
            route("/v1/runs/{run}", _run),
            route("/v1/feedback", _feedback, "POST"),
            route("/metrics", _metrics),
            route("/readyz", _readyz),
            route("/healthz", _healthz),
        ],
        exception_handlers={HTTPException: _not_served},
        lifespan=open_service,
    )


class _Answering:
    """The endpoint, whose exceptions become replies, and whose replies are counted when they were sent."""

    def __init__(self, path: str, endpoint: Endpoint) -> None:
        self._path = path
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request = Request(scope, receive, send)
        service: Service = request.app.state.service
        try:
            reply = await self._endpoint(request, service)
        except ClientDisconnect:
            reply = Response(status_code=LEFT)
        except Exception as error:
            reply = error_response(error_of(error))
        try:
            await reply(scope, receive, send)
        finally:
            service.metrics.request(self._path, reply.status_code, time.perf_counter() - began)


async def _chat(request: Request, service: Service) -> Response:
    def read(body: bytes) -> tuple[Asked, Rendering]:
        asked = read_chat(body, request.headers)
        return asked, ChatChunks(asked)

    return await _asked(request, service, read, lambda result, asked: chat_completion(result, asked.model))


async def _responses(request: Request, service: Service) -> Response:
    def read(body: bytes) -> tuple[Asked, Rendering]:
        asked = read_responses(body, request.headers)
        return asked, ResponseEvents(asked)

    return await _asked(request, service, read, response)


async def _asked(
    request: Request,
    service: Service,
    read: Callable[[bytes], tuple[Asked, Rendering]],
    whole: Callable[[RunResult, Asked], Any],
) -> Response:
    """The reply to a request for a run, as a stream where it is asked for so."""
    caller = await service.callers.known(request.headers, counted=True)
    asked, rendering = read(await _body(request, service))
    if asked.stream:
        return await open_stream(service, asked, caller, rendering)
    with service.place():
        result = await unless_left(request, service.run(asked, caller))
    return json_response(whole(result, asked), headers=headers(result))


async def _models(request: Request, service: Service) -> Response:
    await service.callers.known(request.headers)
    return json_response({"object": "list", "data": [_described(service, model) for model in service.models.values()]})


async def _model(request: Request, service: Service) -> Response:
    await service.callers.known(request.headers)
    return json_response(_described(service, service.model(request.path_params["model"])))


def _described(service: Service, model: ServedModel) -> dict[str, object]:
    planner = None if model.worker else service.orchestrator.planner_named(model.planner).name
    served = {"planner": planner, "worker": model.worker}
    profile = model.profile and model.profile.model_dump(mode="json", exclude_unset=True)
    return {
        "id": model.name,
        "object": "model",
        "created": service.began,
        "owned_by": "orchestai",
        "orchestai": {**served, "contract": profile},
    }


async def _run(request: Request, service: Service) -> Response:
    """A run of the caller's, by its id or by that of the response that it gave."""
    caller = await service.callers.known(request.headers)
    name = request.path_params["run"]
    run = await asyncio.to_thread(ServedRuns(service.database).get, run_of(name), caller.key)
    if run is None:
        raise _unknown(name)
    return json_response(
        {
            "id": run.run_id,
            "object": "orchestai.run",
            "status": run.status,
            "plan": run.plan,
            "receipt": run.receipt,
        }
    )


async def _feedback(request: Request, service: Service) -> Response:
    """Keep what a caller says of a run."""
    caller = await service.callers.known(request.headers, counted=True)
    try:
        said = _FeedbackRequest.model_validate_json(await _body(request, service))
    except ValidationError as error:
        raise first_fault(error) from None
    run_id = run_of(said.run_id)
    change = service.change
    answer, tests = (text if text is None or change is None else change(text) for text in (said.answer, said.tests))
    try:
        feedback = Feedback(said.score, answer, tests)
    except UserError as error:
        raise invalid(None, str(error), "missing_required_parameter") from None
    try:
        await asyncio.to_thread(FeedbackStore(service.database).put, run_id, caller.key, feedback)
    except UserError:
        raise _unknown(said.run_id) from None
    return json_response({"object": "orchestai.feedback", "run_id": run_id})


_BODY_S = 20.0
"""Seconds in which a request must have come whole."""


async def _body(request: Request, service: Service) -> bytes:
    return await read_body(request, service.config.max_body_bytes, _BODY_S)


async def _metrics(request: Request, service: Service) -> Response:
    await service.callers.known(request.headers)
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _readyz(request: Request, service: Service) -> Response:
    """Whether requests can be answered: the database is there, and a worker is in order."""
    workers = dict(service.workers_out_of_order())
    if all(workers.values()):
        raise busy("no_worker_left", "all workers are out of order", Resilience.rest_s)

    def look() -> None:
        with service.database.reading() as connection:
            connection.execute(select(1))

    try:
        await asyncio.to_thread(look)
    except Exception:
        raise busy("no_database", "the database does not answer", 5.0) from None
    return json_response({"status": "ok", "out_of_order": [name for name, out in workers.items() if out]})


async def _healthz(request: Request, service: Service) -> Response:
    return json_response({"status": "ok"})


async def _not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
    where = f"{request.method} {request.url.path}"
    return error_response(ApiError(error.status_code, code, f"{where}: {error.detail}", headers=error.headers))


logger = logging.getLogger(__name__)
_BACKLOG = 2048
_GARBAGE = 10_000
"""Objects after which Python looks for garbage; its default is reached by every fourth request."""


def serve(orchestrator: Orchestrator) -> None:
    """Serve until a signal ends it; what is in work then has a moment to end."""
    config = orchestrator.config.serving
    listening = listen(config.host, config.port)
    host, port = listening.getsockname()[:2]
    logger.info("serving %s at http://%s:%d/v1", config.model, f"[{host}]" if ":" in host else host, port)
    with ExitStack() as stack:
        tracing = None
        if config.tracing:
            with needed_for("serving.tracing"):
                from orchestai.serving.tracing import exported
            tracing = stack.enter_context(exported())
        app = make_app(orchestrator, tracing)
        try:
            _AloneInItsProcess(_settings(_saying_refusals_once(app))).run(sockets=[listening])
        except SystemExit as error:
            raise getattr(app.state, "refusal", error) from None


def _saying_refusals_once(app: Starlette) -> ASGIApp:
    """The application, for which uvicorn logs no trace where what refuses to start is said by `serve`."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            is_refusal = message["type"] == "lifespan.startup.failed" and hasattr(app.state, "refusal")
            await send({**message, "message": ""} if is_refusal else message)

        await app(scope, receive, told if scope["type"] == "lifespan" else send)

    return called


class _AloneInItsProcess(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, with all that is there by now left out of every search for garbage, which stopped all requests."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE)


def make_server(orchestrator: Orchestrator, tracing: Tracing | None = None) -> uvicorn.Server:
    """The server, to be run on a socket."""
    return uvicorn.Server(_settings(make_app(orchestrator, tracing)))


def _settings(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=30,
        timeout_keep_alive=75,
        backlog=_BACKLOG,
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends at once on sockets that are said to be TCP's; on others replies wait 40 ms for the client's ACK
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        raise UserError(
            f"serving.host={host}, serving.port={port}: nobody can listen there ({error.strerror or error}); choose "
            "another with --host and --port"
        ) from None
    listening.listen(_BACKLOG)
    listening.set_inheritable(True)
    return listening
