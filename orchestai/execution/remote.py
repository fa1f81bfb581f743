"""The executor and the sandbox of a cluster: the same interface as here, and the same results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from orchestai.cluster.actors import ActorPool, actors_for, given_environment, joined, settle
from orchestai.cluster.host import process_name
from orchestai.config import ExecutionConfig, PlaceConfig, SandboxConfig, WorkersConfig
from orchestai.errors import InfrastructureError
from orchestai.execution.result import JudgedExecution, SubtaskResult
from orchestai.execution.running_workflow import JudgingExecutor, Workers
from orchestai.execution.runtime import Runtime, open_runtime
from orchestai.outcome import Unscorable
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
class NodeFacts:
    """What a node is, which must be the same on all of them but for its name, in words."""

    name: str
    level: Level
    limits: Limits
    packages: Packages | None

    def difference(self, other: NodeFacts) -> str:
        """Why results there might differ from those of another node; empty where they will not."""
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


class RemoteJudge:
    """Judges programs on the nodes of a cluster (`orchestai.sandbox.local_judge.Judge`)."""

    def __init__(self, cluster: ActorPool) -> None:
        self._cluster = cluster
        self.level = cluster.facts.level
        self.limits = cluster.facts.limits
        self.packages = cluster.facts.packages

    def start(self) -> None:
        """See `Judge.start`; nodes have started theirs."""

    def judge(self, program: Program) -> Report:
        """See `Judge.judge`."""
        try:
            report: Report = self._cluster.start("judge", program).result()
        except InfrastructureError as error:
            return Report("infra_error", reason=str(error), level=self.level)
        return report

    def close(self) -> None:
        """See `Judge.close`; what runs ends with the cluster."""


class RemoteExecutor(JudgingExecutor):
    """Executes and judges workflows on the nodes of a cluster; what `run` and `begin` start runs here."""

    def __init__(self, pool: Workers, sandbox: Sandbox, config: ExecutionConfig, cluster: ActorPool) -> None:
        super().__init__(pool, sandbox, config)
        self._cluster = cluster

    async def execute(self, task: Task, workflow: Workflow, sample: int = 0) -> JudgedExecution:
        """See `JudgingExecutor.execute`; one that several nodes lost is `Unscorable`."""
        try:
            execution: JudgedExecution = await asyncio.wrap_future(
                self._cluster.start("execute", task, workflow, sample)
            )
        except InfrastructureError as error:
            results = tuple(
                SubtaskResult(id=subtask.id, status="skipped", error=f"{subtask.id}: {error}")
                for subtask in workflow.subtasks
            )
            fault = Unscorable.of(error)
            return JudgedExecution(
                task_id=task.task_id, workflow=workflow, results=results, fault=fault, outcome=fault, error=str(error)
            )
        return execution


@contextmanager
def open_remote(
    sandbox: SandboxConfig,
    place: PlaceConfig,
    workers: WorkersConfig | None = None,
    rewards: Iterable[str] = (),
) -> Iterator[tuple[ActorPool, Sandbox]]:
    """A cluster, and the sandbox that it is.

    Args:
        place: an `ExecutionConfig` where workflows are to be executed there.
        workers: None where programs are judged alone.

    Raises:
        UserError: an environment variable of `execution.ray.env` is not set, the cluster cannot be reached, or as
            `ActorPool` says.
    """
    config, cpus = place.ray, sandbox.workers
    env = given_environment(config.env)
    execution = place if isinstance(place, ExecutionConfig) else None
    setup = NodeSetup(sandbox, execution, workers, tuple(rewards), Path.cwd(), env)
    with joined(config):
        seats = actors_for(config.num_workers, cpus)
        in_flight = ceil((execution.concurrency if execution else 0) / seats) + cpus
        with (
            closing(ActorPool(Node, setup, cpus=cpus, seats=seats, in_flight=in_flight)) as cluster,
            Sandbox(seats * cpus, judge=RemoteJudge(cluster)) as opened,
        ):
            yield cluster, opened
