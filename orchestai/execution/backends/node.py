"""What runs on each node of a cluster: sandbox, workers and executor of one configuration, in a process apart."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from orchestai.cluster.environment import settle
from orchestai.cluster.facts import Facts
from orchestai.cluster.host import process_name
from orchestai.config import ExecutionConfig, SandboxConfig, WorkersConfig
from orchestai.execution.result import JudgedExecution
from orchestai.execution.runtime import Runtime, open_runtime
from orchestai.sandbox import Limits, Program, Report, Sandbox
from orchestai.sandbox.levels import Level
from orchestai.sandbox.packages import Packages
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow


@dataclass(frozen=True)
class NodeSetup:
    """What a node opens.

    Attributes:
        execution, workers: None where nodes judge programs alone.
        rewards: names of scorers; see `open_runtime`.
        folder: the working directory, taken where the node has it, since configurations name files relative to it.
        env: further environment variables with their values.
    """

    sandbox: SandboxConfig
    execution: ExecutionConfig | None
    workers: WorkersConfig | None
    rewards: tuple[str, ...]
    folder: Path
    env: Mapping[str, str]


@dataclass(frozen=True)
class NodeFacts(Facts):
    """What a node is, which must be the same on all of them but for its name."""

    level: Level
    limits: Limits
    packages: Packages | None

    def difference(self, other: NodeFacts) -> str:
        """See `Facts.difference`."""
        if self.level != other.level:
            return (
                f"{self.name} isolates programs by {self.level}, {other.name} by {other.level}: install bubblewrap on "
                "all nodes, or set sandbox.level=process if you trust the programs"
            )
        modules = [facts.packages.modules if facts.packages else frozenset[str]() for facts in (self, other)]
        if differing := sorted(modules[0] ^ modules[1]):
            return f"programs can import {', '.join(differing[:5])} on only one of {self.name} and {other.name}"
        return ""


class Node:
    """An actor. What it needs is opened by the first call; several calls run at a time."""

    def __init__(self, setup: NodeSetup) -> None:
        settle(setup.env, setup.folder)
        self._setup = setup
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._sandbox: Sandbox | None = None
        self._runtime: Runtime | None = None

    async def facts(self) -> NodeFacts:
        """What this node is.

        Raises:
            UserError: as `open_runtime` does.
        """
        sandbox = await self._opened()
        return NodeFacts(process_name(), sandbox.level, sandbox.limits, sandbox.packages)

    async def judge(self, program: Program) -> Report:
        """See `Sandbox.run`."""
        return await (await self._opened()).arun(program)

    async def execute(self, task: Task, workflow: Workflow, sample: int) -> JudgedExecution:
        """See `JudgingExecutor.execute`."""
        await self._opened()
        assert self._runtime is not None, "this cluster was opened without workers"
        return await self._runtime.executor.execute(task, workflow, sample)

    async def close(self) -> None:
        """End all that runs."""
        await self._stack.aclose()

    async def _opened(self) -> Sandbox:
        async with self._opening:
            if self._sandbox is None:
                setup = self._setup
                if setup.workers is None or setup.execution is None:
                    self._sandbox = self._stack.enter_context(Sandbox.from_config(setup.sandbox))
                else:
                    here = setup.execution.model_copy(update={"backend": "local"})
                    self._runtime = await self._stack.enter_async_context(
                        open_runtime(setup.workers, here, setup.sandbox, rewards=setup.rewards)
                    )
                    self._sandbox = self._runtime.sandbox
            return self._sandbox
