"""A sweep runs what the estimate chooses at each preference, and tells what was expected of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from orchestai.data.step_attempts import fit_estimate
from orchestai.evaluation.systems.preference_sweep import sweep_preferences
from orchestai.evaluation.systems.runner import Result, SystemRow
from orchestai.planner.base import Plan
from orchestai.planner.outlook import PoolOutlook
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow
from support.serving.logged_pool import INSTRUCTION, STEPS, USD, logs, settings

TASKS = tuple(Task(task_id=str(i), suite="s", instruct_prompt=INSTRUCTION) for i in range(4))


def plan(worker: str) -> Plan:
    first, second = (
        Subtask(id=str(i + 1), instruction=words, task_type="string", worker=worker, depends_on=("1",) * i)
        for i, words in enumerate(STEPS)
    )
    return Plan(Workflow([first, second]), raw_valid=True, confidence=0.9)


class Paid:
    """In place of a `Runner`: every step costs its worker's price, and what is dear is right."""

    tasks = TASKS

    async def run(self, name: str, plans: Sequence[Plan], advance: Callable[[], None]) -> SystemRow:
        return SystemRow(name, tuple(map(self._result, plans)))

    def _result(self, made: Plan) -> Result:
        if made.workflow is None:
            return Result(0.0, 0.0, 0.0, 0.0, False, None)
        workers = [subtask.worker for subtask in made.workflow.subtasks]
        right = float(set(workers) == {"dear"})
        return Result(right, right, sum(USD[worker] for worker in workers), 0.0, True, made.workflow)

    def refuse_if_broken(self) -> None:
        return None


async def test_what_the_estimate_chooses_at_each_preference_is_run():
    fitted = fit_estimate(logs(whole=100), settings())
    assert fitted is not None
    plans = [plan("cheap")] * len(TASKS)
    found = await sweep_preferences("p", plans, PoolOutlook(fitted), Paid(), [], lambda row: lambda: None, longest=1)
    assert {point.answered for point in found.preferences} == {4}
    assert found.monotone
    dear = found.preferences[-1]
    assert dear.success.mean == 1.0
    assert dear.expected_cost_usd == pytest.approx(2 * USD["dear"], rel=0.05)
    assert dear.expected_success == pytest.approx(0.9, abs=0.1)
