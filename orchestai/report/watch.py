"""The page of a run that is going on, on this machine alone; it reads what the run writes and touches nothing else."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestai.errors import UserError
from orchestai.report.build import build_report
from orchestai.report.chunks import MOST_EMBEDDED
from orchestai.report.sources import Feedback, ReadFeedback, find, fingerprint

_LOOK_EVERY_S: Final = 2.0
_REST: Final = 20
"""A page is made again after so many times as long as the last one took to make, so that a run keeps its processors."""
_PAGE: Final = "watch.html"
_HEADERS: Final = {
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class WatchedRun:
    """Makes the page anew when the files have changed, or people said more of the served runs that it shows.

    Args:
        folder: where the page is kept.
        most_embedded, feedback: see `build_report`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        folder: Path,
        most_embedded: int = MOST_EMBEDDED,
        feedback: ReadFeedback = dict,
    ) -> None:
        self._paths = paths
        self._feedback = feedback
        self._most_embedded = most_embedded
        self._shown = ""
        self._said: Mapping[str, Feedback] | None = None
        self._took = 0.0
        self._ended = 0.0
        self._making = asyncio.Lock()
        self.page = folder / _PAGE

    def check(self) -> None:
        """Raise UserError where a path does not exist."""
        for path in self._paths:
            find(path)

    @property
    def due(self) -> bool:
        """Whether there is something new, and the last page was made long enough ago."""
        rested = time.monotonic() - self._ended >= _REST * self._took
        return rested and (fingerprint(self._paths) != self._shown or self._more_was_said())

    async def refresh(self) -> None:
        """Make the page, if that is due or it was never made."""
        async with self._making:
            if not self.page.exists() or await asyncio.to_thread(lambda: self.due):
                await asyncio.to_thread(self._make)

    def _make(self) -> None:
        state, start = fingerprint(self._paths), time.monotonic()
        build_report(self._paths, self.page, feedback=self._ask, most_embedded=self._most_embedded, live=True)
        self._shown, self._ended = state, time.monotonic()
        self._took = self._ended - start

    def _ask(self) -> Mapping[str, Feedback]:
        """What people said; asked for only once there are served runs."""
        self._said = {}
        self._said = self._feedback()
        return self._said

    def _more_was_said(self) -> bool:
        if self._said is None:
            return False
        with suppress(UserError):  # the page shows what was said before
            return self._feedback() != self._said
        return False


def application(run: WatchedRun, port: int) -> Starlette:
    """The page, its chunks, and a stream of an event for each change, for pages of this origin alone."""

    async def page(request: Request) -> Response:
        try:
            await run.refresh()
        except UserError as error:  # a folder was removed, the disk is full
            return PlainTextResponse(f"{error}\n", status_code=503, headers=_HEADERS)
        return FileResponse(run.page, media_type="text/html", headers=_HEADERS)

    async def chunk(request: Request) -> Response:
        file = run.page.with_name(f"{run.page.stem}.chunks") / f"{request.path_params['number']}.js"
        if not file.is_file():
            return PlainTextResponse("no such chunk; reload the page", status_code=404, headers=_HEADERS)
        return FileResponse(file, media_type="text/javascript", headers=_HEADERS)

    async def changes(request: Request) -> Response:
        async def events() -> AsyncIterator[bytes]:
            yield b": watching\n\n"
            while True:
                await asyncio.sleep(_LOOK_EVERY_S)
                changed = await asyncio.to_thread(lambda: run.due)
                yield b"event: changed\ndata: {}\n\n" if changed else b": nothing new\n\n"

        return StreamingResponse(events(), media_type="text/event-stream", headers=_HEADERS)

    return Starlette(
        routes=[
            Route("/", page),
            Route(f"/{Path(_PAGE).stem}.chunks/{{number:int}}.js", chunk),
            Route("/changes", changes),
        ],
        middleware=[Middleware(OwnOrigin, port=port)],
    )


class OwnOrigin:
    """Refuses requests that do not name this server as host, or come from a page of another origin.

    A page of the internet can make a browser ask this machine under a name of its own (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(Request(scope))):
            await PlainTextResponse(refusal, status_code=403, headers=_HEADERS)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, request: Request) -> str:
        if request.headers.get("host") not in self._hosts:
            return "this page is served to 127.0.0.1 and localhost alone"
        origin = request.headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return "this page is not served to pages of other origins"
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "this page is not served to other sites"
        return ""


def watch(paths: Sequence[Path], port: int, announce: Callable[[str], None], feedback: ReadFeedback = dict) -> None:
    """Serve the page until Ctrl-C.

    Args:
        port: 0 takes a free one.
        feedback: see `build_report`.
        announce: called with the address once it is served.

    Raises:
        UserError: a path does not exist, or the port is taken.
    """
    with tempfile.TemporaryDirectory(prefix="orchestai-watch-") as folder, _listen(port) as listening:
        run = WatchedRun(paths, Path(folder), feedback=feedback)
        run.check()
        actual = listening.getsockname()[1]
        os.nice(10)
        config = uvicorn.Config(
            application(run, actual), log_level="warning", server_header=False, timeout_graceful_shutdown=1
        )
        with suppress(KeyboardInterrupt):  # how a watch ends
            announce(f"http://127.0.0.1:{actual}/")
            uvicorn.Server(config).run(sockets=[listening])


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise UserError(f"port {port}: nobody can listen there ({reason}); choose another --port") from None
    return listening
