"""Tells the faults of an OpenAI-compatible server apart: whose they are, and whether another try may help."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from orchestai.errors import FaultKind, InfrastructureError
from orchestai.workers.base import WorkerError

_SHOWN = 200
"""Characters of a server's message that are passed on."""
_NO_MONEY_CODES = re.compile(
    r"insufficient_(quota|balance|credits?|funds)|billing_\w+|payment_required|arrearage|exceeded_current_quota|budget_exceeded",
    re.I,
)
_NO_MONEY = re.compile(r"credit balance|insufficient (quota|balance|credits?|funds)|billing|payment required", re.I)
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context (window|length|size|limit)"
    r"|max_model_len|prompt is too long|input is too long|inputs?`? tokens|too many tokens|input token count",
    re.I,
)
_POLICY = re.compile(
    r"content_policy|content_filter|content (management )?policy|ResponsibleAIPolicyViolation|moderation|flagged"
    r"|data_inspection_failed|prohibited_content|inappropriate content|blocked due to safety",
    re.I,
)
_TEMPLATE = re.compile(r"jinja|raise_exception|roles must alternate|system role not supported", re.I)
_NO_KEY = re.compile(r"api_key_invalid|invalid_api_key", re.I)
_MODEL = re.compile(r"model_not_found|model_not_exist|invalid_model", re.I)
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"|`[^`]*`|“[^”]*”|‘[^’]*’")


class PassingError(InfrastructureError):
    """A fault that may be gone at the next try.

    Attributes:
        after_s: how many seconds the server asks to wait; None where it does not say.
    """

    def __init__(self, kind: FaultKind, reason: str, after_s: float | None = None) -> None:
        super().__init__(kind, reason)
        self.after_s = after_s


class CutOffError(InfrastructureError):
    """A fault after a part of the reply had come: that cannot be taken back, and may be billed."""


class RefusedRequestError(InfrastructureError):
    """A request that a server does not take; another one may be.

    Attributes:
        body: the error that the server describes.
    """

    def __init__(self, reason: str, body: Any) -> None:
        super().__init__("bad_request", reason)
        self.body = body

    @property
    def said(self) -> str:
        """The server's words."""
        return "\n".join(_texts(self.body))


def fault_of_body(error: Any, asked: str = "") -> InfrastructureError | WorkerError:
    """What the `error` of an answer with status 200 is; its code may be the status that should have been."""
    body = error if isinstance(error, Mapping) else {"message": str(error)}
    code = str(body.get("code", ""))
    status = int(code) if re.fullmatch(r"[45]\d\d", code) else 200
    return fault_of_status(status, body, None, asked)


def fault_of_status(
    status: int, body: Mapping[str, Any], after_s: float | None, asked: str = "", *, readable: bool = True
) -> InfrastructureError | WorkerError:
    """What an error answer is.

    A prompt that the model cannot read or its provider does not let it read is the worker's failure, which counts.
    Everything else is nobody's: money, key and model are missing until a person acts; what the server or the line
    does to a request may pass; what is wrong with all requests of ours does not.

    What the server says in words counts where no code does, as far as they are not the request's. A chat template
    that raises is a request that is refused, though servers call it a fault of their own.

    Args:
        status: of HTTP; 200 where only the body tells of an error.
        body: the error that the server describes.
        asked: the request, in lower case.
        readable: whether it did describe one; a page of a proxy in between, for one, does not.
    """
    details = body.get("details")
    reasons = [one.get("reason") for one in details if isinstance(one, Mapping)] if isinstance(details, list) else []
    codes = " ".join(map(str, [body.get("code", ""), body.get("type", ""), *reasons]))
    told = unquoted(str(body.get("message") or ""))
    reason = f"HTTP {status}: {str(body.get('message') or body)[:_SHOWN]}"
    no_money = _NO_MONEY_CODES.search(codes) or (status in (400, 403) and _says(_NO_MONEY, told, asked))
    if status == 402 or no_money:
        return InfrastructureError("payment", f"the account has no money or quota left ({reason}); top it up")
    if status == 429:
        return PassingError("rate_limit", reason, after_s)
    if status == 413 or (status < 500 and (_TOO_LONG.search(codes) or _says(_TOO_LONG, told, asked))):
        return WorkerError(f"the prompt is too long for the model ({reason})")
    if status < 500 and (_POLICY.search(codes) or _says(_POLICY, told, asked)):
        return WorkerError(f"refused by the provider's content policy ({reason})")
    if (status >= 500 or status == 200) and _says(_TEMPLATE, told, asked):
        return RefusedRequestError(f"the model's chat template does not take the messages ({reason})", body)
    if status == 401 or (status == 403 and readable) or (status == 400 and _NO_KEY.search(codes)):
        return InfrastructureError("authentication", f"the key is refused ({reason})")
    if status in (404, 410) or (status < 500 and _MODEL.search(codes)):
        return InfrastructureError("model", reason)
    if status == 408:
        return PassingError("timeout", reason, after_s)
    if status >= 500 or status in (409, 424, 425, 498):
        return PassingError("server", reason, after_s)
    if status == 200:
        return PassingError("bad_response", f"an error instead of an answer ({reason})", after_s)
    return RefusedRequestError(f"the server does not take the request ({reason})", body)


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _texts(inner)


def unquoted(said: str, own: str = "") -> str:
    """A message without what it quotes (of `own` words, if there are such), but for single words, as names are."""
    return _QUOTED.sub(lambda quoted: " " if " " in quoted[0] and quoted[0][1:-1] in (own or said) else quoted[0], said)


def _says(words: re.Pattern[str], told: str, asked: str) -> bool:
    """Whether a server's message has such words, and not from the request."""
    return any(match[0].casefold() not in asked for match in words.finditer(told))


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that `Retry-After` (a number or a date), or `retry-after-ms`, asks to wait."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return float(milliseconds) / 1000 if re.fullmatch(r"\d+(\.\d+)?", milliseconds) else None
        text = headers.get("retry-after", "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text)
        asked = parsedate_to_datetime(text)
        if asked.tzinfo is None:  # -0000: a time in UTC, of a place that is not said
            asked = asked.replace(tzinfo=timezone.utc)
        return max((asked - (now or datetime.now(timezone.utc))).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return None
