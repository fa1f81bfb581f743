"""The process that serves: a socket, uvicorn, and the application."""

from __future__ import annotations

import gc
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestai.errors import UserError
from orchestai.extras import needed_for
from orchestai.orchestrator import Orchestrator
from orchestai.serving.api.app import make_app

if TYPE_CHECKING:
    from orchestai.serving.tracing import Tracing

logger = logging.getLogger(__name__)
_BACKLOG = 2048
_GARBAGE = 10_000
"""Objects after which Python looks for garbage; its default is reached by every fourth request."""


def serve(orchestrator: Orchestrator) -> None:
    """Serve until a signal ends it; what is in work then has a moment to end.

    Raises:
        UserError: nobody can listen there, the packages for `serving.tracing` are not installed, or what the
            configuration names cannot be opened.
    """
    config = orchestrator.config.serving
    listening = listen(config.host, config.port)
    host, port = listening.getsockname()[:2]
    logger.info("serving %s at http://%s:%d/v1", config.model, f"[{host}]" if ":" in host else host, port)
    with _tracing(enabled=config.tracing) as tracing:
        app = make_app(orchestrator, tracing)
        try:
            _AloneInItsProcess(_settings(_saying_refusals_once(app))).run(sockets=[listening])
        except SystemExit as error:
            raise getattr(app.state, "refusal", error) from None


@contextmanager
def _tracing(*, enabled: bool) -> Iterator[Tracing | None]:
    if not enabled:
        yield None
        return
    with needed_for("serving.tracing"):
        from orchestai.serving.tracing import exported
    with exported() as tracing:
        yield tracing


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
    """A socket that listens.

    Raises:
        UserError: there can be none.
    """
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
