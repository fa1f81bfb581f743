"""A planner whose steps and edges have changed is as sure as it is now right, not as it was before."""

from __future__ import annotations

import pytest
import torch

from orchestai.config import PlannerConfig
from orchestai.planner.base import Plan
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.scores import FEWEST
from orchestai.tasks.instructions import load
from orchestai.tasks.task import Task
from orchestai.training.calibration import calibrate_anew, judge_plans
from orchestai.types import Decisions
from orchestai.workers.base import WorkerCard
from orchestai.workflow import Subtask, Workflow


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return load().split("validation")[: 2 * FEWEST]


@pytest.fixture
def planner() -> PlannerModel:
    """It learned nothing, and takes itself to be right with a chance of 0.88."""
    torch.manual_seed(0)
    config = PlannerConfig(d_model=16, num_layers=1, num_heads=2)
    model = PlannerModel(config, [WorkerCard("one", "Does it.", 0.0, "tool")]).eval()
    model.decoder.go_on.bias.data.fill_(5.0)  # one step may be right by chance
    model.confidence.known.fill_(True)
    model.confidence.coefficients[-1] = 2.0
    return model


def test_confidence_is_fitted_to_the_plans_of_now(planner: PlannerModel, tasks: list[Task]) -> None:
    confident = [plan.confidence for plan in planner.plan(tasks)]
    assert min(confident) > 0.8
    calibrate_anew(planner, tasks)
    assert planner.confidence.is_known
    doubtful = [plan.confidence for plan in planner.plan(tasks)]
    assert max(doubtful) < 0.3, "hardly a plan of a planner that learned nothing is right"


def test_where_too_few_plans_are_known_nobody_knows_it(planner: PlannerModel, tasks: list[Task]) -> None:
    bare = [task.model_copy(update={"reference": None}) for task in tasks]
    calibrate_anew(planner, [*tasks[: FEWEST - 1], *bare])
    assert not planner.confidence.is_known
    assert planner.plan(tasks)[0].confidence is None


INSTRUCTION = "Look at the text: reverse it, and all I need to know then is the length (of the reversed one)."


def workflow(*words: str) -> Workflow:
    """A chain of steps that have these words."""
    starts = [INSTRUCTION.index(one) for one in words]
    return Workflow(
        [
            Subtask(id=str(i), instruction=one, span=(start, start + len(one)), depends_on=(str(i - 1),) if i else ())
            for i, (one, start) in enumerate(zip(words, starts, strict=True))
        ]
    )


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (("reverse it", "the length"), True),
        (("reverse it", "is the length (of the reversed one)"), True),
        (("reverse it", "I need to know then"), False),
        (("reverse it", "all I need to know then is the length (of the reversed one)"), False),
        (("reverse it, and all I need to know then is the length",), False),
    ],
)
def test_more_or_fewer_words_around_a_step_are_another_reading_of_it(
    planner: PlannerModel, words: tuple[str, ...], right: bool
) -> None:
    plan = Plan(workflow(*words), True, decisions=Decisions.__new__(Decisions))
    ((_, _, judged),) = judge_plans(planner, [INSTRUCTION], [plan], [workflow("reverse it", "the length")])
    assert judged is right
