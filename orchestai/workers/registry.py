"""The kinds of workers: what builds one of a kind, and what it is to a planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from orchestai.config import WorkerConfig, WorkersConfig
from orchestai.errors import UserError
from orchestai.names import did_you_mean
from orchestai.sandbox.sandbox import Sandbox
from orchestai.workers.base import Worker, WorkerCard
from orchestai.workers.generation import Generator, SamplingParams
from orchestai.workers.prices import prices_of, typical_price
from orchestai.workers.prompts import strategy


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


def _kind(name: str, config: WorkerConfig) -> WorkerKind:
    if config.kind not in _KINDS:
        raise UserError(
            f"workers.pool.{name}.kind: {config.kind!r} is not one of {', '.join(_KINDS)}"
            f"{did_you_mean(config.kind, _KINDS)}"
        )
    return _KINDS[config.kind]


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


_KINDS: dict[str, WorkerKind] = {
    "model": WorkerKind(_model, asks_model=True),
    "tool": WorkerKind(_tool),
}
