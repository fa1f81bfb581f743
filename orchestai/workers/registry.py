"""The kinds of workers by name."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, TypeVar

from orchestai.config import WorkerConfig
from orchestai.errors import UserError
from orchestai.plugins import find_plugin, there_are
from orchestai.workers.base import Worker, WorkerCard
from orchestai.workers.generation import SamplingParams
from orchestai.workers.kinds.own_kind import find_own, function_worker, own_kind
from orchestai.workers.kinds.worker_kind import BuildContext, Builder, WorkerKind
from orchestai.workers.prices import prices_of, typical_price
from orchestai.workers.prompting.prompts import strategy
from orchestai.workers.tools import ToolWorker, make_tool

T = TypeVar("T", bound=Callable[..., Any])


def register(kind: str) -> Callable[[T], T]:
    """Make the function or class that this decorates a kind of worker; see `own_kind`."""

    def add(own: T) -> T:
        _KINDS[kind] = own_kind(own)
        return own

    return add


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
    if config.kind in _KINDS:
        return _KINDS[config.kind]
    if ":" in config.kind:
        return own_kind(find_own(f"workers.pool.{name}.kind", config.kind))
    if (plugin := find_plugin("workers", config.kind)) is not None:
        return own_kind(plugin)
    raise UserError(f"workers.pool.{name}.kind: no kind {config.kind!r}; {there_are('workers', _KINDS, config.kind)}")


def _model(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    from orchestai.workers.model_worker import ModelWorker

    assert config.model is not None
    prompting = strategy(config.strategy, config.examples, config.template, reads_task=config.reads == "task")
    return ModelWorker(
        card,
        context.generators[config.model],
        prompting,
        SamplingParams(config.temperature, config.max_new_tokens, prompting.stop),
        samples=config.samples,
        prices=prices_of(config),
        sandbox=context.sandbox,
        writes=config.writes,
    )


def _tool(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    assert config.tool is not None
    pool = [make_card(name, worker) for name, worker in context.config.pool.items()]
    return ToolWorker(card, make_tool(config.tool, pool), config.price_per_call_usd)


def _function(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    assert config.function is not None
    return function_worker(find_own("function", config.function), card, config)


def _mcp(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    from orchestai.workers.kinds.mcp_server import McpServer
    from orchestai.workers.kinds.mcp_tool import McpTool

    assert config.mcp is not None
    name = config.mcp.server
    if name not in context.mcp_servers:
        context.mcp_servers[name] = McpServer(name, context.config.mcp_servers[name])
    tool = McpTool(context.mcp_servers[name], config.mcp)
    context.resources.append(tool)
    return ToolWorker(card, tool, config.price_per_call_usd)


def _recorded(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    from orchestai.workers.kinds.recorded import RecordedReplies, RecordedWorker

    assert config.recorded is not None
    if config.recorded not in context.recorded:
        context.recorded[config.recorded] = RecordedReplies.read(config.recorded)
    return RecordedWorker(card, context.recorded[config.recorded], config.price_per_call_usd)


def _from_above(target: str) -> Builder:
    """A builder of a package that imports this one; it is imported when such a worker is built."""

    def build(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
        builder: Builder = resolve_name(target)
        return builder(card, config, context)

    return build


_KINDS: dict[str, WorkerKind] = {
    "model": WorkerKind(_model, asks_model=True),
    "tool": WorkerKind(_tool),
    "function": WorkerKind(_function),
    "mcp": WorkerKind(_mcp),
    "recorded": WorkerKind(_recorded, asks_model=True),
    "agents": WorkerKind(_from_above("orchestai.agents.agents_worker:build_agents"), asks_model=True),
    "orchestrator": WorkerKind(_from_above("orchestai.orchestrator_worker:build_orchestrator"), asks_model=True),
}
