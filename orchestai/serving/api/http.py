"""Bodies in, JSON out, and clients that leave."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from orchestai.serving.api.errors import ApiError

T = TypeVar("T")
LEFT = 499
"""The status of a request whose client did not wait for it; nobody reads it but the metrics."""


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(content, inf_nan_mode="null"), status, headers, media_type="application/json")


def error_response(error: ApiError) -> Response:
    return json_response(error.body(), error.status, error.headers)


async def read_body(request: Request, most_bytes: int, within_s: float) -> bytes:
    """The whole body.

    Raises:
        ApiError: it is too long, or does not come in time.
        ClientDisconnect: the client left.
    """
    too_long = ApiError(413, "body_too_large", f"the body has more than {most_bytes} bytes, the most that is read")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most_bytes:
        raise too_long

    async def read() -> bytes:
        parts, length = [], 0
        async for part in request.stream():
            length += len(part)
            if length > most_bytes:
                raise too_long
            parts.append(part)
        return b"".join(parts)

    try:
        return await asyncio.wait_for(read(), within_s)
    except asyncio.TimeoutError:
        raise ApiError(408, "body_too_slow", f"the body did not come within {within_s:g} s") from None


async def unless_left(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What work gives; it is cancelled when the client leaves.

    Raises:
        ClientDisconnect: the client left.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(left(request.receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


async def left(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
