"""Tells the faults of an OpenAI-compatible server apart: whose they are, and whether another try may help."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from orchestai.errors import FaultKind, InfrastructureError
from orchestai.text.syntax import parse_literal
from orchestai.workers.base import WorkerError

_SHOWN, _LONGEST = 200, 10_000
"""Characters of a server's message that are passed on, and that are read as one in Python's words."""
_NO_MONEY_CODES = re.compile(
    r"insufficient_?\w{0,8}(quota|balance|credits?|funds)|billing_\w+|payment_required|arrearage|exceeded_current_quota"
    r"|budget_exceeded|quota_exceeded_error|account_?overdue|charge_?resource_?exhausted|free_?tier_?only|quota_failed|\b1113\b",
    re.I,
)
_NO_BALANCE = re.compile(
    r"credit balance|(insufficient|not enough|negative) (account |credit |api |remaining |available )?(balance|credits?"
    r"|funds)|(balance|credits?|funds) (is |are |has been |have been )?(insufficient|exhausted|too low|not enough"
    r"|used up|depleted)|used all [\w ]{0,20}credits|spend(ing)? (limit|cap)|余额不足|欠费|余额已用完",
    re.I,
)
_NO_MONEY = re.compile(r"insufficient quota|billing|payment required", re.I)
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context (window|length|size|limit)"
    r"|max_?model_?len|model (max|maximum) length|(prompt|input|message|text|request)s? (is|are) too (long|large)"
    r"|inputs?`? tokens? (?!per )|too many (input |prompt |total )?tokens(?! per)|(input|prompt) token count"
    r"|(prompt|input) length|input_too_l|prompt too (long|large)|prompt_tokens_exceeded|model token limit"
    r"|must have less than \d+ tokens|maxLength|string too long|longer than the max|input exceeds the max"
    r"|max(imum)? (sequence|input|prompt)[ _](length|characters|tokens)|\b1261\b|超长|上下文长度",
    re.I,
)
_POLICY = re.compile(
    r"content_policy|content_filter|content (management )?(policy|filter\w*)|ResponsibleAIPolicyViolation|moderation"
    r"|flagged|data_?inspection_?failed|(prohibited|inappropriate|unsafe|harmful|sensitive|violating)[_ ]content"
    r"|blocked (due to|by) (\w+ )?safety|content exists risk|considered high risk|usage (guidelines|polic)"
    r"|safety_check|new_sensitive|Sensitive(Content)?Detected|RiskDetected|censorship|guardrail|\b130[01]\b|敏感|违规",
    re.I,
)
_TEMPLATE = re.compile(r"jinja|raise_exception|roles must alternate|system role not supported", re.I)
_NO_KEY = re.compile(r"api_key_invalid|invalid_api_key", re.I)
_MODEL = re.compile(r"model_not_found|model_not_exist|invalid_model", re.I)
_CODES = ("code", "type", "reason", "error_code", "error_type", "status_code", "http_code")
_WORDS = ("message", "msg", "detail", "description", "error", "errors", "raw")
_ECHOES = ("input", "ctx", "request", "body")
"""Names of what an error says again of the request."""
_WITHIN = re.compile(r"\{\s*['\"](?:error|message|detail|code|object|type)['\"]\s*:.*\}", re.DOTALL)
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


def fault_of_status(
    status: int, body: Any, after_s: float | None = None, asked: str = "", *, readable: bool = True
) -> InfrastructureError | WorkerError:
    """What an error answer is.

    A prompt that the model cannot read or its provider does not let it read is the worker's failure, which counts.
    Everything else is nobody's: money, key and model are missing until a person acts; what the server or the line
    does to a request may pass; what is wrong with all requests of ours does not.

    What the server says in words counts where no code does, as far as they are not the request's. A chat template
    that raises is a request that is refused, though servers call it a fault of their own.

    Args:
        status: of HTTP; 200 where only the body tells of an error, whose code may be the status that should have been.
        body: the error that the server describes, or its words.
        asked: the request, in lower case.
        readable: whether it did describe one; a page of a proxy in between, for one, does not.
    """
    said = list(_said(body, "message", asked))
    codes = " ".join(text for name, text in said if name in _CODES)
    words = "\n".join(text for name, text in said if name.endswith(_WORDS))
    told = "" if "<html" in words[:1000].lower() else unquoted(words)
    if status == 200 and (meant := re.search(r"\b[45]\d\d\b", codes)):
        status = int(meant[0])
    reason = f"HTTP {status}: {(words or str(body))[:_SHOWN]}"
    no_money = _says(_NO_BALANCE, told, asked) or (status in (400, 403, 412) and _says(_NO_MONEY, told, asked))
    if status == 402 or no_money or _NO_MONEY_CODES.search(codes):
        return InfrastructureError("payment", f"the account has no money or quota left ({reason}); top it up")
    if status == 429:
        return PassingError("rate_limit", reason, after_s)
    too_long = status < 500 or (status == 500 and "longer than" in told)
    if status == 413 or (too_long and (_TOO_LONG.search(codes) or _says(_TOO_LONG, told, asked))):
        return WorkerError(f"the prompt is too long for the model ({reason})")
    if status < 500 and (_POLICY.search(codes) or _says(_POLICY, told, asked)):
        return WorkerError(f"refused by the provider's content policy ({reason})")
    if (status >= 500 or status == 200) and _says(_TEMPLATE, told, asked):
        return RefusedRequestError(f"the model's chat template does not take the messages ({reason})", body)
    if (
        status == 401
        or (status == 403 and readable and not _MODEL.search(codes))
        or (status == 400 and _NO_KEY.search(codes))
    ):
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


def _said(value: Any, name: str, asked: str) -> Iterator[tuple[str, str]]:
    """The texts and numbers of an error with their names, those of an error within a text included."""
    if isinstance(value, Mapping):
        for inner_name, inner in value.items():
            if inner_name not in _ECHOES:
                yield from _said(inner, inner_name, asked)
    elif isinstance(value, list):
        for inner in value:
            yield from _said(inner, name, asked)
    elif isinstance(value, str) and (within := _WITHIN.search(value)):
        yield name, value[: within.start()]
        own = any(one.casefold() in asked for one in (within[0], json.dumps(within[0], ensure_ascii=False)[1:-1]))
        try:
            yield from _said({} if own else json.loads(within[0]), name, asked)
        except ValueError:
            with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                yield from _said(parse_literal(within[0][:_LONGEST]), name, asked)
    elif value is not None:
        yield name, str(value)


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
