"""A user's function or class as a kind of worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestai.config import WorkerConfig
from orchestai.errors import UserError
from orchestai.names import find_object
from orchestai.workers.base import Answer, Request, Worker, WorkerCard, WorstCase
from orchestai.workers.kinds.function import function_tool
from orchestai.workers.kinds.worker_kind import BuildContext, WorkerKind
from orchestai.workers.tools.worker import ToolWorker


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
            return _instance(own, card, config)
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


def _instance(own: type, card: WorkerCard, config: WorkerConfig) -> Worker:
    try:
        worker = own(card, **config.options)
    except TypeError as error:
        raise UserError(f"cannot make {own.__name__} of its options {config.options}: {error}") from error
    if not hasattr(worker, "answer"):
        raise UserError(f"{own.__name__} has no method `async answer(self, request) -> Answer`")
    flat: Worker = _FlatRate(worker.answer, card, config.price_per_call_usd)
    return worker if hasattr(worker, "worst_case") else flat
