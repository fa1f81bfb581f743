"""A user's function or class as a kind of worker."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from orchestai.config import WorkerConfig
from orchestai.errors import InfrastructureError, UserError
from orchestai.names import find_object
from orchestai.threads import in_thread
from orchestai.workers.base import Answer, Request, Worker, WorkerCard, WorkerError, WorstCase
from orchestai.workers.kinds.worker_kind import BuildContext, WorkerKind
from orchestai.workers.tools.worker import Tool, ToolWorker

_FIELDS = tuple(field.name for field in fields(Request))
_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def function_tool(function: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Tool:
    """What asks `function`, whose parameters say what of a request it gets.

    One called `request` gets the whole; one called like a field of `Request` that field; `text`, or the only one under
    any other name, the instruction followed by the texts of the parents. A function that is not a coroutine function
    runs in a thread of its own. It returns text or an `Answer`; what it raises is a `WorkerError`, but for errors of
    infrastructure and of configuration.

    Args:
        name: of the function, in messages.
        options: further arguments by name, the same for all requests.

    Raises:
        UserError: it has a parameter that no request can fill, or lacks one that `options` names.
    """
    wanted = _wanted(function, name, options)

    async def answer(request: Request) -> str | Answer:
        call = partial(function, **options, **{key: _part(request, part) for key, part in wanted.items()})
        try:
            result = call() if inspect.iscoroutinefunction(function) else await in_thread(call)
            if inspect.isawaitable(result):
                result = await result
        except (WorkerError, InfrastructureError, UserError):
            raise
        except Exception as error:
            raise WorkerError(f"{name} raised {type(error).__name__}: {error}") from error
        if not isinstance(result, str | Answer):
            raise WorkerError(f"{name} returned {type(result).__name__}, neither text nor an Answer")
        return result

    return answer


def _wanted(function: Callable[..., Any], name: str, options: Mapping[str, Any]) -> dict[str, str]:
    """By parameter, the part of a request that it gets."""
    try:
        signature = inspect.signature(function)
        signature.bind_partial(**options)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name}: {error}") from None
    open_ones = [p for p in signature.parameters.values() if p.name not in options and p.kind not in _STARRED]
    known = {p.name: p.name for p in open_ones if p.name in (*_FIELDS, "request", "text")}
    required = [p.name for p in open_ones if p.name not in known and p.default is p.empty]
    if required and (known or len(required) > 1):
        raise UserError(
            f"{name}: what is its parameter {required[0]!r} to get? Call it request, text or one of "
            f"{', '.join(_FIELDS)}, or give it a value in `options`"
        )
    if any(p.kind is p.POSITIONAL_ONLY for p in open_ones if p.name in known or p.name in required):
        raise UserError(f"{name}: arguments are passed by name, so remove the / from its parameters")
    return known or dict.fromkeys(required, "text")


def _part(request: Request, part: str) -> Any:
    if part == "request":
        return request
    return getattr(request, part)


def own_kind(own: Callable[..., Any] | WorkerKind) -> WorkerKind:
    """The kind that a user's function or class makes; a `WorkerKind` is one already.

    A class is called with the worker's card and its `options` by name, and makes a `Worker`; one that does not say what
    a request may cost costs its price per call. A function answers requests itself (see `function_tool`). An attribute
    `asks_model` of either says whether planners are to see it as a language model.
    """
    if isinstance(own, WorkerKind):
        return own

    def build(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
        if isinstance(own, type):
            try:
                worker = own(card, **config.options)
            except TypeError as error:
                raise UserError(f"cannot make {own.__name__} of its options {config.options}: {error}") from error
            if not hasattr(worker, "answer"):
                raise UserError(f"{own.__name__} has no method `async answer(self, request) -> Answer`")
            flat: Worker = _FlatRate(worker.answer, card, config.price_per_call_usd)
            return worker if hasattr(worker, "worst_case") else flat
        return function_worker(own, card, config)

    return WorkerKind(build, asks_model=bool(getattr(own, "asks_model", False)))


def function_worker(function: Callable[..., Any], card: WorkerCard, config: WorkerConfig) -> Worker:
    """A worker that asks a function."""
    name = config.function or config.kind
    return ToolWorker(card, function_tool(function, name, config.options), config.price_per_call_usd)


def find_own(key: str, name: str) -> Any:
    """The function, class or `WorkerKind` that `MODULE:NAME`, the value of a key, names.

    Raises:
        UserError: it cannot be imported.
    """
    try:
        own = find_object(name)
    except Exception as error:  # whatever the module raises
        raise UserError(f"{key}: cannot import {name!r}: {type(error).__name__}: {error}") from error
    if not callable(own) and not isinstance(own, WorkerKind):
        raise UserError(f"{key}: {name!r} is neither a function nor a class")
    return own


class _FlatRate:
    """A worker that costs its price per call, whatever it is asked."""

    def __init__(self, answer: Callable[[Request], Any], card: WorkerCard, price_per_call_usd: float) -> None:
        self.card = card
        self._answer = answer
        self._price = price_per_call_usd

    def worst_case(self, request: Request) -> WorstCase:
        return WorstCase(cost_usd=self._price)

    async def answer(self, request: Request) -> Answer:
        answer: Answer = await self._answer(request)
        return answer
