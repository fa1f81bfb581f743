"""Training the planner of `bandit` as a test asks for it."""

from __future__ import annotations

import asyncio

from orchestai.execution.result import JudgedExecution
from orchestai.training.rl.trainer import RunSummary
from support.training import bandit


def train(output, planner=None, resume=False, **changes) -> tuple[bandit.Bandit, RunSummary]:
    planner = planner or bandit.Bandit()
    given = {key: changes.pop(key) for key in ("tasks", "execute") if key in changes}
    running = bandit.trainer(output, bandit.settings(**changes), planner, **given)
    return planner, asyncio.run(running.train(resume=resume))


def killed_at(calls: int):
    """An `execute` that ends the process, so to speak, at that call."""
    left = calls

    async def execute(task, workflow, sample=0) -> JudgedExecution:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return await bandit.execute(task, workflow, sample)

    return execute
