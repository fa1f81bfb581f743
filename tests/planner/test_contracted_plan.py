"""`prefer` and `min_success` choose workers by what logs taught, or refuse in words; receipts say what to expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from orchestai import Contract, Orchestrator
from orchestai.cli.run_view import chances
from orchestai.data.prepare import fit_estimate
from orchestai.estimate.pool_estimate import PoolEstimate
from orchestai.execution.contract.trimming import ContractError
from orchestai.planner.base import Plan
from orchestai.planner.forecast import PoolForecaster
from orchestai.planner.serving import KEPT, PlanningQueue, ServedPlanner
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Subtask, Workflow
from support.serving.logged_pool import INSTRUCTION, STEPS, USD, logs, record, settings, subtask


@pytest.fixture(scope="module")
def estimate() -> PoolEstimate:
    fitted = fit_estimate(logs(whole=100), settings())
    assert fitted is not None
    return fitted


def plan(confidence: float | None = 0.9) -> Plan:
    first, second = (
        Subtask(id=str(i + 1), instruction=words, task_type="string", worker="cheap", depends_on=("1",) * i)
        for i, words in enumerate(STEPS)
    )
    return Plan(Workflow([first, second]), raw_valid=True, confidence=confidence)


async def answer(estimate: PoolEstimate | None, contract: Contract, made: Plan | None = None):
    """The result of a run whose planner makes this plan."""
    made = made or plan()

    def planner(tasks: Sequence[Task]) -> list[Plan]:
        return [made] * len(tasks)

    forecaster = None if estimate is None else PoolForecaster(estimate)
    async with Orchestrator.open(None, settings(), log=None) as o:
        o._planning = PlanningQueue(ServedPlanner("drawn", planner, forecaster=forecaster))
        return await o.run(INSTRUCTION, contract, answer="text")


def asked(result) -> list[tuple[str, ...]]:
    return [one.workers for one in result.workflow.subtasks]


async def test_of_steps_unlike_all_that_were_logged_nobody_says_what_to_expect(estimate):
    """It thought that 42 % of the natural tasks would be solved, as of its suite's; none was."""
    strange = ("Prove the lemma by induction", "Paint the fence green")
    steps = zip(("1", "2"), strange, strict=True)
    made = replace(plan(), workflow=plan().workflow.replace({step: {"instruction": words} for step, words in steps}))
    result = await answer(estimate, Contract(prefer=1.0), made)
    receipt = result.receipt
    assert (asked(result), receipt.changes) == ([("cheap",), ("cheap",)], (KEPT,))
    assert (receipt.forecast, receipt.success) == (None, None)
    with pytest.raises(ContractError, match="nobody knows"):
        await answer(estimate, Contract(min_success=0.1), made)


async def test_where_other_limits_forbid_its_choice_or_min_success_asks_for_another_the_estimate_chooses(estimate):
    sure = await answer(estimate, Contract(prefer=0.2, min_success=0.5))
    assert sorted(asked(sure)) == [("cheap",), ("dear",)]
    allowed = await answer(estimate, Contract(prefer=0.9, allow=("cheap",)))
    assert asked(allowed) == [("cheap",), ("cheap",)]


async def test_without_a_preference_the_plan_keeps_its_workers_and_the_receipt_says_what_to_expect(estimate):
    result = await answer(estimate, Contract())
    assert asked(result) == [("cheap",), ("cheap",)]
    receipt = result.receipt
    assert receipt.forecast.success == pytest.approx(0.9 * 4 / 9, abs=0.1)
    assert receipt.success == pytest.approx(receipt.forecast.success, abs=0.08)
    assert receipt.forecast.cost_usd == pytest.approx(2 * USD["cheap"], rel=0.05)
    assert receipt.best_single.worker == "dear"
    assert receipt.best_single.success.low < 0.25 < receipt.best_single.success.high
    assert receipt.best_single.cost_usd.mean == pytest.approx(USD["dear"], rel=0.05)
    assert any("dear asked for the whole" in line for line in chances(receipt))


async def test_the_more_success_is_preferred_the_more_a_plan_costs(estimate):
    forecasts = [
        (await answer(estimate, Contract(prefer=prefer))).receipt.forecast for prefer in (0.0, 0.3, 0.6, 0.8, 1.0)
    ]
    costs, success = [one.cost_usd for one in forecasts], [one.success for one in forecasts]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]
    assert success == sorted(success)


async def test_what_is_preferred_is_the_best_that_the_other_limits_allow():
    """Trimming the best plan of all took the expensive worker from the step that alone needs it."""
    rng = np.random.default_rng(0)
    records = []
    for _ in range(300):
        first, second = rng.choice(["cheap", "dear"], 2).tolist()
        right = first == "dear" and (second == "dear" or rng.random() < 2 / 3)
        records.append(record([subtask(1, STEPS[0], first), subtask(2, STEPS[1], second)], bool(right)))
    result = await answer(fit_estimate(records, settings()), Contract(prefer=1.0, max_cost_usd=0.12))
    assert asked(result) == [("dear",), ("cheap",)]
    assert result.receipt.forecast.success > 0.3


async def test_min_success_takes_the_cheapest_choice_that_reaches_it_or_asks_nobody(estimate):
    result = await answer(estimate, Contract(min_success=0.5))
    assert sorted(asked(result)) == [("cheap",), ("dear",)]
    assert result.receipt.forecast.success >= 0.5
    with pytest.raises(ContractError, match=r"min_success=0\.95: no choice of workers .* the plan itself with 0\.90"):
        await answer(estimate, Contract(min_success=0.95))
    with pytest.raises(ContractError, match="limits"):
        await answer(estimate, Contract(min_success=0.8, max_cost_usd=0.03))
    only = await answer(estimate, Contract(min_success=0.0, allow=("dear",)))
    assert asked(only) == [("dear",), ("dear",)]


@pytest.mark.parametrize(
    ("asked", "confidence"),
    [
        *((asked, 1.0) for asked in ("Play some quiet jazz.", "play  some quiet jazz", "Play some quiet jazz!")),
        *((asked, 0.3) for asked in ("-5 plus 3", ".5 times 4 is what?", "Then and now: compare the two")),
    ],
)
def test_a_task_that_is_asked_as_it_stands_is_planned_right_but_not_one_that_lost_words_or_a_sign(
    estimate, asked, confidence
):
    """With a full stop nothing was known of it. The words of a plan begin behind signs and connectives: 5 plus 3 was
    planned right for sure."""
    words = clean(asked)
    whole = Subtask(id="1", instruction=words, task_type="string", worker="cheap", span=(0, len(words)))
    forecaster = PoolForecaster(estimate).of(Plan(Workflow([whole]), raw_valid=True, confidence=0.3), asked)
    assert forecaster is not None
    assert forecaster.confidence == confidence
