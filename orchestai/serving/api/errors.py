"""What goes wrong, in OpenAI's format, with the status that its clients act on."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from orchestai.answering import NobodyLeftError
from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.contract.deadline import DeadlineError
from orchestai.execution.contract.trimming import ContractError, InfeasibleContractError, OutOfFundsError
from orchestai.serving.store import UNREACHABLE

logger = logging.getLogger(__name__)
NO_RETRY = {"x-should-retry": "false"}
"""Keeps OpenAI's clients from asking again where the same would come of it, and be paid for."""


class ApiError(Exception):
    """A request that is answered by an error.

    Attributes:
        kind: `type` in the reply, as OpenAI names kinds of errors.
        param: the parameter to blame, such as `messages[0].content`.
        more: further fields of the reply.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
        self.message = message
        self.param = param
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    def body(self) -> dict[str, Any]:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error, **self.more}


_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def invalid(param: str | None, message: str, code: str = "invalid_value") -> ApiError:
    """A request that is wrong in one place."""
    return ApiError(400, code, f"{param}: {message}" if param else message, param=param)


def busy(code: str, message: str, after_s: float) -> ApiError:
    """A request that may be sent again after some seconds."""
    return ApiError(503, code, message, headers={"retry-after": str(max(1, math.ceil(after_s)))})


def error_of(error: Exception) -> ApiError:
    """The reply to a request whose run ended by an exception."""
    if isinstance(error, ApiError):
        return error
    said = str(error)
    if isinstance(error, DeadlineError):
        return ApiError(504, "deadline_exceeded", said, headers=NO_RETRY)
    if isinstance(error, OutOfFundsError):
        return ApiError(429, "insufficient_quota", said, headers=NO_RETRY)
    if isinstance(error, InfeasibleContractError):
        feasible = error.feasible.model_dump(exclude_defaults=True)
        more = {"orchestai": {"feasible_contract": feasible}}
        return ApiError(400, "contract_infeasible", said, param="orchestai.contract", more=more)
    if isinstance(error, ContractError):
        return ApiError(400, "contract_infeasible", said, param="orchestai.contract")
    if isinstance(error, UserError):
        return ApiError(400, "invalid_request", said)
    if isinstance(error, NobodyLeftError):
        return busy("no_worker_left", f"no worker is left: {said}", error.after_s)
    if isinstance(error, UNREACHABLE):
        logger.error("the database does not answer: %s", error)
        return busy("no_database", "the database does not answer; come again", 5.0)
    if isinstance(error, InfrastructureError):
        return ApiError(503, f"unavailable_{error.kind}", said, headers={"retry-after": "5"})
    logger.error("a request broke down: %s", type(error).__name__, exc_info=error)
    return ApiError(500, "internal_error", "the server failed at this request; its log says where", headers=NO_RETRY)


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
