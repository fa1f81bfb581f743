"""The kinds of workers: what builds one of a kind, and what it is to a planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from orchestai.config import WorkerConfig, WorkersConfig
from orchestai.errors import UserError
from orchestai.names import did_you_mean, find_object
from orchestai.sandbox.sandbox import Sandbox
from orchestai.workers.base import Worker, WorkerCard
from orchestai.workers.generation import Generator, SamplingParams
from orchestai.workers.prices import prices_of, typical_price
from orchestai.workers.prompts import strategy

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True)
class BuildContext:
    """What a worker may be built from, besides its own configuration.

    Attributes:
        config: the section that the worker is part of.
        sandbox: runs what workers write.
        generators: the models that workers ask, by key of `workers.models`.
    """

    config: WorkersConfig
    sandbox: Sandbox
    generators: Mapping[str, Generator]


class Builder(Protocol):
    def __call__(self, card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker: ...


@dataclass(frozen=True)
class WorkerKind:
    """A kind of worker.

    Attributes:
        build: makes a worker from its card and its configuration.
        asks_model: whether it asks a language model, which is what planners know of a kind (`WorkerCard.kind`).
    """

    build: Builder
    asks_model: bool = False


def make_card(name: str, config: WorkerConfig) -> WorkerCard:
    """How planners see a configured worker, which need not be built for that.

    Raises:
        UserError: there is no such kind.
    """
    if _kind(name, config).asks_model:
        return WorkerCard(name, config.card, typical_price(prices_of(config), config.samples), "model")
    return WorkerCard(name, config.card, config.price_per_call_usd, "tool")


def make_worker(name: str, config: WorkerConfig, context: BuildContext) -> Worker:
    """A configured worker.

    Raises:
        UserError: there is no such kind, or what its configuration names is not there.
    """
    card = make_card(name, config)
    try:
        return _kind(name, config).build(card, config, context)
    except UserError as error:
        raise UserError(f"workers.pool.{name}: {error}") from None


def register(kind: str, *, asks_model: bool = False) -> Callable[[T], T]:
    """Make the function or class that this decorates a kind of worker; see `own_kind`."""

    def add(own: T) -> T:
        _KINDS[kind] = own_kind(own, asks_model=asks_model)
        return own

    return add


def own_kind(own: Callable[..., Any], *, asks_model: bool = False) -> WorkerKind:
    """The kind that a user's function or class makes.

    A class is called with the worker's card and its `options` by name, and makes a `Worker`; a function answers
    requests itself (see `function_tool`).
    """

    def build(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
        if not isinstance(own, type):
            return _function_worker(own, card, config)
        try:
            worker: Worker = own(card, **config.options)
        except TypeError as error:
            raise UserError(f"cannot make {own.__name__} of its options {config.options}: {error}") from error
        return worker

    return WorkerKind(build, asks_model)


def _kind(name: str, config: WorkerConfig) -> WorkerKind:
    if config.kind in _KINDS:
        return _KINDS[config.kind]
    if ":" in config.kind:
        return own_kind(_found(f"workers.pool.{name}.kind", config.kind))
    raise UserError(
        f"workers.pool.{name}.kind: {config.kind!r} is not one of {', '.join(_KINDS)}, or MODULE:NAME"
        f"{did_you_mean(config.kind, _KINDS)}"
    )


def _found(key: str, name: str) -> Callable[..., Any]:
    """The function or class that a key names.

    Raises:
        UserError: it cannot be imported.
    """
    try:
        own = find_object(name)
    except Exception as error:  # whatever the module raises
        raise UserError(f"{key}: cannot import {name!r}: {type(error).__name__}: {error}") from error
    if not callable(own):
        raise UserError(f"{key}: {name!r} is neither a function nor a class")
    return own


def _model(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    from orchestai.workers.model_worker import ModelWorker

    assert config.model is not None
    prompting = strategy(config.strategy, config.examples)
    return ModelWorker(
        card,
        context.generators[config.model],
        prompting,
        SamplingParams(config.temperature, config.max_new_tokens, prompting.stop),
        samples=config.samples,
        prices=prices_of(config),
        sandbox=context.sandbox,
    )


def _tool(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    from orchestai.workers.tools import ToolWorker, make_tool

    assert config.tool is not None
    return ToolWorker(card, make_tool(config.tool, context.sandbox), config.price_per_call_usd)


def _function(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    assert config.function is not None
    return _function_worker(_found("function", config.function), card, config)


def _function_worker(function: Callable[..., Any], card: WorkerCard, config: WorkerConfig) -> Worker:
    from orchestai.workers.function import function_tool
    from orchestai.workers.tools import ToolWorker

    name = config.function or config.kind
    return ToolWorker(card, function_tool(function, name, config.options), config.price_per_call_usd)


_KINDS: dict[str, WorkerKind] = {
    "model": WorkerKind(_model, asks_model=True),
    "tool": WorkerKind(_tool),
    "function": WorkerKind(_function),
}
