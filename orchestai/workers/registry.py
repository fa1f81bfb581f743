"""The kinds of workers by name: what a kind is, and how a function or a class of the user's becomes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from orchestai.config import WorkerConfig, WorkersConfig
from orchestai.errors import InfrastructureError, UserError
from orchestai.plugins import find_object, find_plugin, there_are
from orchestai.sandbox.sandbox import Sandbox
from orchestai.threads import in_thread
from orchestai.workers.base import Answer, Request, Worker, WorkerCard, WorkerError, WorstCase
from orchestai.workers.generation import Generator, SamplingParams
from orchestai.workers.prices import prices_of, typical_price
from orchestai.workers.prompting.prompts import strategy
from orchestai.workers.tools.registry import Tool, ToolWorker, make_tool

if TYPE_CHECKING:
    from orchestai.workers.kinds.mcp import McpServer
    from orchestai.workers.kinds.recorded import RecordedReplies


class Resource(Protocol):
    """Something that workers hold open."""

    async def check(self) -> None:
        """Raise `UserError` if it cannot be had; cheap, and made before a command starts its work."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class BuildContext:
    """What a worker may be built from, besides its own configuration.

    Attributes:
        config: the section that the worker is part of.
        sandbox: runs what workers write.
        generators: the models that workers ask, by key of `workers.models`.
        resources: what workers hold open, which the pool checks and closes; builders append theirs.
        mcp_servers: those that workers share, by key of `workers.mcp_servers`; builders add theirs.
        recorded: files of recorded replies that workers share; builders add theirs.
    """

    config: WorkersConfig
    sandbox: Sandbox
    generators: Mapping[str, Generator]
    resources: list[Resource] = field(default_factory=list)
    mcp_servers: dict[str, McpServer] = field(default_factory=dict)
    recorded: dict[Path, RecordedReplies] = field(default_factory=dict)


Builder: TypeAlias = Callable[[WorkerCard, WorkerConfig, BuildContext], Worker]


@dataclass(frozen=True)
class WorkerKind:
    """A kind of worker.

    Attributes:
        build: makes a worker from its card and its configuration.
        asks_model: whether it asks a language model, which is what planners know of a kind (`WorkerCard.kind`).
    """

    build: Builder
    asks_model: bool = False


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
    wanted = known or dict.fromkeys(required, "text")

    async def answer(request: Request) -> str | Answer:
        parts = {key: request if part == "request" else getattr(request, part) for key, part in wanted.items()}
        call = partial(function, **options, **parts)
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
            if not hasattr(worker, "worst_case"):
                flat = WorstCase(cost_usd=config.price_per_call_usd)
                worker = SimpleNamespace(card=card, answer=worker.answer, worst_case=lambda request: flat)
            made: Worker = worker
            return made
        name = config.function or config.kind
        return ToolWorker(card, function_tool(own, name, config.options), config.price_per_call_usd)

    return WorkerKind(build, asks_model=bool(getattr(own, "asks_model", False)))


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
    prompting = strategy(config.strategy, config.template)
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
    own = own_kind(find_own("function", config.function))
    return own.build(card, config, context)


def _mcp(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    from orchestai.workers.kinds.mcp import McpServer, McpTool

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


def _from_above(target: str) -> WorkerKind:
    """A kind of a package that imports this one; it is imported when such a worker is built."""
    return WorkerKind(lambda *what: resolve_name(target)(*what), asks_model=True)


_KINDS: dict[str, WorkerKind] = {
    "model": WorkerKind(_model, asks_model=True),
    "tool": WorkerKind(_tool),
    "function": WorkerKind(_function),
    "mcp": WorkerKind(_mcp),
    "recorded": WorkerKind(_recorded, asks_model=True),
    "agents": _from_above("orchestai.agents.agents_worker:build_agents"),
    "orchestrator": _from_above("orchestai.orchestrator_worker:build_orchestrator"),
}
