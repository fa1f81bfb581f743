"""What goes wrong, in OpenAI's format, with the status that its clients act on."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from orchestai.degradation import NobodyLeftError
from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.contract.deadline import DeadlineError
from orchestai.execution.contract.reserving import OutOfFundsError
from orchestai.execution.contract.trimming import ContractError, InfeasibleContractError
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
