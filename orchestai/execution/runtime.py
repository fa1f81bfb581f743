"""What every command that runs workflows needs, opened together and closed together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orchestai.config import ExecutionConfig, PlaceConfig, SandboxConfig, WorkersConfig
from orchestai.errors import UserError
from orchestai.execution.reward import REWARD_FIGURES
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.installed import needed_for
from orchestai.rewards.scorers import find_rewards
from orchestai.sandbox import Sandbox
from orchestai.workers.pool import WorkerPool


@dataclass(frozen=True)
class Runtime:
    """Open sandbox, workers and executor of one configuration."""

    sandbox: Sandbox
    pool: WorkerPool
    executor: JudgingExecutor


@asynccontextmanager
async def open_runtime(
    workers: WorkersConfig,
    execution: ExecutionConfig,
    sandbox: SandboxConfig,
    *,
    rewards: Iterable[str] = (),
    record: Path | None = None,
    imports: Awaitable[None] | None = None,
    sandbox_when_needed: bool = False,
) -> AsyncIterator[Runtime]:
    """Start the sandbox and the workers, check that models are at hand, and close all of it at the end.

    Args:
        rewards: scorers whose rewards executions note, as `rewards.reward_weights` names them.
        record: a file to which every generation used is appended, to be looked up by later runs.
        imports: a thread that imports libraries while the sandbox starts. Workers are built when it is done, since two
            threads cannot import transformers at once.
        sandbox_when_needed: whether the sandbox is started for the first program, and not before, unless it is strict.

    Raises:
        UserError: a server does not answer, a model or a key is missing, there is no such scorer, or the cluster of
            `execution.ray` cannot be had.
    """
    scorers = find_rewards(rewards, REWARD_FIGURES, "rewards.reward_weights")
    async with AsyncExitStack() as stack:
        if execution.backend == "ray":
            with needed_for("execution.backend=ray"):
                from orchestai.execution.remote import RemoteExecutor, open_remote

            if record is not None:
                raise UserError(f"--record {record}: generations are recorded here alone; set execution.backend=local")
            cluster, opened = stack.enter_context(open_remote(sandbox, execution, workers, scorers))
            executor_of: Callable[..., JudgingExecutor] = partial(RemoteExecutor, cluster=cluster)
        else:
            later = sandbox_when_needed and sandbox.level != "strict"
            opened = stack.enter_context(Sandbox.from_config(sandbox, when_needed=later))
            executor_of = partial(JudgingExecutor, rewards=scorers)
        if imports is not None:
            await imports
        pool = await stack.enter_async_context(WorkerPool.from_config(workers, opened, record=record))
        await pool.check()
        yield Runtime(opened, pool, executor_of(pool, opened, execution))


@contextmanager
def open_sandbox(config: SandboxConfig, place: PlaceConfig) -> Iterator[Sandbox]:
    """The sandbox alone, here or on the nodes of a cluster.

    Raises:
        UserError: as `Sandbox` or `open_remote` do.
    """
    if place.backend == "local":
        with Sandbox.from_config(config) as opened:
            yield opened
        return
    with needed_for("execution.backend=ray"):
        from orchestai.execution.remote import open_remote

    with open_remote(config, place) as (_, opened):
        yield opened
