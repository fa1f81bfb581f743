"""The executor and the sandbox of a cluster: the same interface as here, and the same results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from math import ceil
from pathlib import Path
from typing import TypeAlias

from orchestai.cluster.actors import ActorKind, ActorPool
from orchestai.cluster.environment import given_environment
from orchestai.cluster.joining import actors_for, joined
from orchestai.config import ExecutionConfig, PlaceConfig, SandboxConfig, WorkersConfig
from orchestai.errors import InfrastructureError
from orchestai.execution.backends.node import Node, NodeFacts, NodeSetup
from orchestai.execution.judging import JudgingExecutor
from orchestai.execution.result import JudgedExecution, SubtaskResult
from orchestai.execution.running_workflow import Workers
from orchestai.outcome import Unscorable
from orchestai.sandbox import Program, Report, Sandbox
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow

Cluster: TypeAlias = ActorPool[NodeFacts]


class RemoteJudge:
    """Judges programs on the nodes of a cluster (`orchestai.sandbox.local_judge.Judge`)."""

    def __init__(self, cluster: Cluster) -> None:
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
            return Report("infra_error", reason=str(error), level=self.level, isolation=program.isolation)
        return report

    def close(self) -> None:
        """See `Judge.close`; what runs ends with the cluster."""


class RemoteExecutor(JudgingExecutor):
    """Executes and judges workflows on the nodes of a cluster; what `run` and `begin` start runs here."""

    def __init__(self, pool: Workers, sandbox: Sandbox, config: ExecutionConfig, cluster: Cluster) -> None:
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
) -> Iterator[tuple[Cluster, Sandbox]]:
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
        seats = actors_for(config.num_workers, cpus, config.gpus_per_worker)
        in_flight = ceil((execution.concurrency if execution else 0) / seats) + cpus
        with (
            closing(Cluster(ActorKind(Node, setup, cpus, config.gpus_per_worker), config, seats, in_flight)) as cluster,
            Sandbox(seats * cpus, judge=RemoteJudge(cluster)) as opened,
        ):
            yield cluster, opened
