"""A sweep runs the planner's own choices where it has learned preferences, and the estimate's where not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestai.data.fit_estimate import fit_estimate
from orchestai.evaluation.systems.preference_sweep import PREFERENCES, sweep_preferences
from orchestai.evaluation.systems.results import Result, SystemRow
from orchestai.planner.base import Plan
from orchestai.planner.outlook import PoolOutlook
from orchestai.preference import Preference
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow
from support.serving.logged_pool import INSTRUCTION, STEPS, USD, logs, settings

TASKS = tuple(Task(task_id=str(i), suite="s", instruct_prompt=INSTRUCTION) for i in range(4))


def plan(worker: str, preference: Preference | None = None) -> Plan:
    first, second = (
        Subtask(id=str(i + 1), instruction=words, task_type="string", worker=worker, depends_on=("1",) * i)
        for i, words in enumerate(STEPS)
    )
    return Plan(Workflow([first, second]), raw_valid=True, confidence=0.9, preference=preference)


class Learned:
    """Asks the dear worker from 0.5 on; makes no plan for the last task."""

    prefers = True

    def plan(self, tasks: Sequence[Task], *, preferences: Sequence[Preference | None] | None = None) -> list[Plan]:
        asked = preferences or [None] * len(tasks)
        plans = [plan("dear" if one is None or one.prefer >= 0.5 else "cheap", one) for one in asked]
        return [*plans[:-1], replace(plans[-1], workflow=None, error="none")]


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


async def sweep(chooser: Any) -> Any:
    fitted = fit_estimate(logs(whole=100), settings())
    assert fitted is not None
    plans = [plan("cheap")] * len(TASKS)
    return await sweep_preferences(
        "p", plans, PoolOutlook(fitted), Paid(), [], lambda row: lambda: None, longest=1, chooser=chooser
    )


async def test_the_planners_own_choices_are_run_where_it_has_learned_them():
    found = await sweep(Learned())
    assert found.chosen_by == "planner"
    assert [point.success.mean for point in found.preferences] == [float(p >= 0.5) for p in PREFERENCES]
    assert {point.answered for point in found.preferences} == {3}
    assert found.monotone
    dear = found.preferences[-1]
    assert dear.expected_cost_usd == pytest.approx(2 * USD["dear"], rel=0.05)
    assert dear.expected_success == pytest.approx(0.9, abs=0.1)
    assert "workers by its own choice" in found.remark()


async def test_else_the_estimate_chooses():
    unlearned = Learned()
    unlearned.prefers = False
    for chooser in (None, unlearned):
        found = await sweep(chooser)
        assert found.chosen_by == "estimate"
        assert {point.answered for point in found.preferences} == {4}
        assert "workers by the estimate" in found.remark()
