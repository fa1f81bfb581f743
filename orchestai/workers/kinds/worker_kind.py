"""What a kind of worker is, and what its workers may be built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orchestai.config import WorkerConfig, WorkersConfig
from orchestai.sandbox.sandbox import Sandbox
from orchestai.workers.base import Worker, WorkerCard
from orchestai.workers.generation import Generator

if TYPE_CHECKING:
    from orchestai.workers.kinds.mcp_server import McpServer
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
