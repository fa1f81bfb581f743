"""What every command that runs workflows needs, opened together and closed together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestai.config import ExecutionConfig, SandboxConfig, WorkersConfig
from orchestai.execution.judging import JudgingExecutor
from orchestai.execution.reward import REWARD_FIGURES
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
) -> AsyncIterator[Runtime]:
    """Start the sandbox and the workers, check that models are at hand, and close all of it at the end.

    Args:
        rewards: scorers whose rewards executions note, as `rewards.reward_weights` names them.
        record: a file to which every generation used is appended, to be looked up by later runs.
        imports: a thread that imports libraries while the sandbox starts. Workers are built when it is done, since two
            threads cannot import transformers at once.

    Raises:
        UserError: a server does not answer, a model or a key is missing, or there is no such scorer.
    """
    scorers = find_rewards(rewards, REWARD_FIGURES, "rewards.reward_weights")
    with Sandbox.from_config(sandbox) as opened:
        if imports is not None:
            await imports
        async with WorkerPool.from_config(workers, opened, record=record) as pool:
            await pool.check()
            yield Runtime(opened, pool, JudgingExecutor(pool, opened, execution, scorers))
