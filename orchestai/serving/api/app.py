"""The routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from orchestai.orchestrator import Orchestrator
from orchestai.serving.api.accounting import headers
from orchestai.serving.api.chat_reply import chat_completion
from orchestai.serving.api.chat_request import read_chat
from orchestai.serving.api.chat_stream import ChatChunks
from orchestai.serving.api.errors import ApiError, error_of
from orchestai.serving.api.event_stream import open_stream
from orchestai.serving.api.http import LEFT, error_response, json_response, read_body, unless_left
from orchestai.serving.api.service import ServedModel, Service
from orchestai.serving.improvement.shadow import shadowed
from orchestai.serving.improvement.succession import succession

Endpoint = Callable[[Request], Awaitable[Response]]


def make_app(orchestrator: Orchestrator) -> Starlette:
    """The application; it opens the orchestrator when it starts, and closes it when it ends."""

    @asynccontextmanager
    async def open_service(app: Starlette) -> AsyncIterator[None]:
        async with orchestrator, succession(orchestrator), shadowed(orchestrator):
            app.state.service = Service(orchestrator)
            yield

    return Starlette(
        routes=[
            Route("/v1/chat/completions", _answering(_chat), methods=["POST"]),
            Route("/v1/models", _answering(_models), methods=["GET"]),
            Route("/v1/models/{model:path}", _answering(_model), methods=["GET"]),
            Route("/healthz", _healthz, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _not_served},
        lifespan=open_service,
    )


def _answering(endpoint: Endpoint) -> Endpoint:
    """The endpoint, whose exceptions become replies."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ClientDisconnect:
            return Response(status_code=LEFT)
        except Exception as error:
            return error_response(error_of(error))

    return answer


async def _chat(request: Request) -> Response:
    service = _service(request)
    body = await read_body(request, service.config.max_body_bytes, service.config.body_s)
    asked = read_chat(body, request.headers)
    if asked.stream:
        return await open_stream(service, asked, ChatChunks(asked))
    with service.place():
        result = await unless_left(request, service.run(asked))
    return json_response(chat_completion(result, asked.model), headers=headers(result))


async def _models(request: Request) -> Response:
    service = _service(request)
    return json_response({"object": "list", "data": [_described(service, model) for model in service.models.values()]})


async def _model(request: Request) -> Response:
    service = _service(request)
    return json_response(_described(service, service.model(request.path_params["model"])))


def _described(service: Service, model: ServedModel) -> dict[str, object]:
    served = {"planner": None if model.worker else service.orchestrator.planner, "worker": model.worker}
    profile = model.profile and model.profile.model_dump(mode="json", exclude_unset=True)
    return {
        "id": model.name,
        "object": "model",
        "created": service.began,
        "owned_by": "orchestai",
        "orchestai": {**served, "contract": profile},
    }


async def _healthz(request: Request) -> Response:
    return json_response({"status": "ok"})


async def _not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
    where = f"{request.method} {request.url.path}"
    return error_response(
        ApiError(error.status_code, code, f"{where}: {error.detail}; see docs/serving.md", headers=error.headers)
    )


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service
