"""The best plan in hindsight for tasks whose steps read each other's texts, with the almanac's real tools."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestai.config import Config, load_config
from orchestai.evaluation.systems.oracle import Hindsight
from orchestai.evaluation.systems.runner import Runner
from orchestai.execution.reward import AbsoluteReward
from orchestai.execution.runtime import Runtime, open_runtime
from orchestai.tasks import load_suite

REWARD = AbsoluteReward(10.0, "all", None, beta=1000.0, gamma_latency=0.0, shaped_reward=0.0)
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    cache = tmp_path_factory.mktemp("cache")
    return load_config(ROOT / "config.yaml", [f"workers.cache_dir={cache}", "workers.on_miss=unscorable"])


@pytest.fixture
async def runtime(config: Config) -> AsyncIterator[Runtime]:
    async with open_runtime(config.workers, config.execution, config.sandbox) as opened:
        yield opened


async def test_hindsight_takes_the_cheapest_worker_that_is_right_on_each_step(config: Config, runtime: Runtime) -> None:
    tasks = load_suite("almanac").split("validation")[:40]
    hindsight = Hindsight(runtime.executor, list(config.workers.pool), REWARD, 8)
    plans = await hindsight.plans(tasks, lambda: None)
    row = await Runner(runtime.executor, tasks, REWARD).run("hindsight", plans, lambda: None)
    planned = [result.success for result, plan in zip(row.results, plans, strict=True) if plan.workflow is not None]
    assert len(planned) > 0.6 * len(tasks)
    assert sum(planned) >= 0.95 * len(planned), "what is right step by step is right as a whole"
    prices = {name: worker.price_per_call_usd for name, worker in config.workers.pool.items()}
    for task, plan in zip(tasks, plans, strict=True):
        for step in plan.workflow.subtasks if plan.workflow else ():
            if step.task_type == "lookup" and step.instruction == f"{step.instruction.split()[0]} Light":
                assert prices[step.worker] == min(prices["titles"], prices["spelling"]), task.instruction


async def test_without_reference_outputs_nobody_knows_the_steps(runtime: Runtime) -> None:
    task = load_suite("almanac").split("validation")[0].model_copy(update={"details": {}})
    (plan,) = await Hindsight(runtime.executor, ["titles"], REWARD, 1).plans([task], lambda: None)
    assert (plan.workflow, plan.fault) == (None, None)
