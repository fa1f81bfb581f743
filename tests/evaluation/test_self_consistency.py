"""Sample-k for texts is a majority vote: what it keeps, what it costs, and that it spends what it is given."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from orchestai.config import ExecutionConfig, WorkersConfig
from orchestai.evaluation.systems.baselines import SELF_CONSISTENCY
from orchestai.evaluation.systems.runner import Runner
from orchestai.evaluation.systems.sample_k import SelfConsistency, sample_k
from orchestai.execution.reward import AbsoluteReward
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.planner.baselines import WholePlanner
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request, WorkerError
from orchestai.workers.pool import WorkerPool
from orchestai.workers.prices import Prices

REWARD = AbsoluteReward(10.0, "all", None, beta=0.1, gamma_latency=0.01, shaped_reward=0.1)
ANSWERS = ["It is 7.", "9 km", "nine", "the sum, 9", ""]
"""Of a worker that is right in two of five samples, and in each of the others wrong in another way."""


def question(*answers: str, scorer: str = "numeric", suite: str = "own") -> Task:
    return Task(task_id="q", suite=suite, instruct_prompt="How far?", answers=answers, scorer=scorer)


def guess(request: Request) -> Answer:
    if not (text := ANSWERS[request.sample % len(ANSWERS)]):
        raise WorkerError("lost for words")
    latency_ms = 10.0 * (1 + request.sample)
    return Answer(text=text, prompt_tokens=100, completion_tokens=10, cost_usd=0.12, latency_ms=latency_ms)


def workers() -> WorkersConfig:
    function = {"kind": "function", "function": f"{__name__}:guess", "card": "Guesses.", "temperature": 1.0}
    return WorkersConfig.model_validate({"pool": {"guess": function}, "cascade": ["guess"], "cache_dir": None})


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=1) as sandbox:
        yield sandbox


async def test_all_samples_are_paid_but_their_prompt_once_and_the_slowest_counts(sandbox):
    async with WorkerPool.from_config(workers(), sandbox) as pool:
        executor = JudgingExecutor(pool, sandbox, ExecutionConfig())
        prices = Prices(per_mtok_in=1000.0, per_mtok_out=2000.0)  # 0.1 for a prompt, 0.02 for an answer
        (plan,) = WholePlanner("guess").plan([question("9")])
        execution = await SelfConsistency(executor, 4, prices).execute(question("9"), plan.workflow)
    assert execution.success
    assert execution.total_cost == pytest.approx(0.1 + 4 * 0.02)
    assert execution.total_latency_ms == 40.0


async def test_a_row_of_texts_votes_as_often_as_the_budget_allows(sandbox):
    tasks = [question("9").model_copy(update={"task_id": str(i)}) for i in range(3)]

    @asynccontextmanager
    async def other_workers(config: WorkersConfig):
        async with WorkerPool.from_config(config, sandbox) as pool:
            yield JudgingExecutor(pool, sandbox, ExecutionConfig())

    async with other_workers(workers()) as executor:
        runner = Runner(executor, tasks, REWARD)
        alone = await runner.row("whole: guess", WholePlanner("guess"), lambda: None)
        sampled = await sample_k(workers(), alone, 0.48, runner, other_workers, lambda name: lambda: None)
    assert not any(alone.values("success"))
    assert sampled is not None
    assert (sampled.row.name, sampled.k) == (SELF_CONSISTENCY, 4)
    assert list(sampled.row.values("cost_usd")) == pytest.approx([0.48] * 3)
    assert all(sampled.row.values("success"))
