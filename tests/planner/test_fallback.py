"""Who plans where a planner is not sure: a wrong plan costs more than asking one worker for the whole task."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from orchestai.config import WorkersConfig
from orchestai.outcome import Unscorable
from orchestai.planner.base import Plan
from orchestai.planner.serving import FallbackPlanner, with_fallbacks, with_last_resort
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow


class Fixed:
    """Makes the given plans, in turn, and notes which tasks it was asked."""

    def __init__(self, *plans: Plan) -> None:
        self.plans = list(plans)
        self.asked: list[str] = []

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        self.asked += [task.task_id for task in tasks]
        return [self.plans[int(task.task_id)] for task in tasks]


def plan(words: str = "do it", **facts: object) -> Plan:
    steps = [{"id": "1", "instruction": words}, {"id": "2", "instruction": "then more"}]
    return Plan(Workflow(steps), **{"raw_valid": True, **facts})  # type: ignore[arg-type]


def tasks(count: int) -> list[Task]:
    return [Task(task_id=str(i), suite="s", instruct_prompt=f"task {i}") for i in range(count)]


def test_a_plan_is_followed_unless_its_planner_doubts_it() -> None:
    lost = Plan(None, raw_valid=False, fault=Unscorable("server", "down"))
    lead = Fixed(
        plan(confidence=0.5),
        plan(confidence=0.49),
        plan(raw_valid=False, confidence=1.0),
        Plan(None, raw_valid=False, error="too long"),
        plan(),
        lost,
    )
    other = Fixed(*[plan("whole", confidence=0.0)] * 6)
    made = FallbackPlanner({"lead": lead, "whole": other}, 0.5).plan(tasks(6))
    assert other.asked == ["1", "2", "3", "5"]
    assert [p.planned_by for p in made] == [
        "",
        "whole, as lead was not sure (0.49)",
        "whole, as lead made an invalid plan",
        "whole, as lead made no plan (too long)",
        "",
        "whole, as lead could not plan (down)",
    ]


def test_planners_are_asked_in_their_order_and_the_last_has_the_last_word() -> None:
    first, second, third = (Fixed(plan(name, confidence=c)) for name, c in (("a", 0.1), ("b", 0.2), ("c", 0.0)))
    (made,) = FallbackPlanner({"a": first, "b": second, "c": third}, 0.5).plan(tasks(1))
    assert made.workflow is not None
    assert made.workflow.subtasks[0].instruction == "c"
    assert made.planned_by == "c, as a was not sure (0.10); b was not sure (0.20)"
    with pytest.raises(ValueError, match="no planner"):
        FallbackPlanner({}, 0.5)


def test_where_the_last_makes_no_plan_the_first_valid_one_is_taken() -> None:
    """An unsure plan was lost with an error where the fallback, a language model, wrote what is none."""
    none = Plan(None, raw_valid=False, error="no subtask")
    lead = Fixed(plan("a", confidence=0.1), plan("b", raw_valid=False))
    made = FallbackPlanner({"lead": lead, "other": Fixed(none, none)}, 0.5).plan(tasks(2))
    assert made[0].workflow == lead.plans[0].workflow
    assert made[0].planned_by == "lead, as lead was not sure (0.10); other made no plan (no subtask)"
    assert (made[1].workflow, made[1].error) == (None, "no subtask")
    assert made[1].planned_by == "other, as lead made an invalid plan"


# A planner gave "book a taxi" to a calculator alone, and there was no answer.


def test_every_step_has_the_others_last_and_asks_nobody_twice():
    workflow = Workflow(
        [
            Subtask(id="1", instruction="book a taxi", worker="calculator"),
            Subtask(id="2", instruction="add the fares", worker="calculator", fallback=("chat",)),
            Subtask(id="3", instruction="write a note", worker="chat"),
        ]
    )
    plans = [Plan(workflow=None, raw_valid=False, error="too long"), Plan(workflow, raw_valid=True, confidence=0.9)]
    none, plan = with_fallbacks(plans, ["chat"])
    assert none == plans[0]
    assert [one.workers for one in plan.workflow.subtasks] == [
        ("calculator", "chat"),
        ("calculator", "chat"),
        ("chat",),
    ]
    assert plan.confidence == 0.9


def test_the_strongest_comes_last_where_one_worker_or_tools_alone_were_chosen():
    tool, model = (
        {"kind": "tool", "tool": "calculator", "card": "sums"},
        {"kind": "model", "model": "m", "card": "writes"},
    )
    workers = WorkersConfig(
        pool={"sums": tool, "dates": tool, "small": model, "strong": model}, cascade=("sums", "small", "strong")
    )
    chosen = [("small",), ("sums", "dates"), ("sums", "small"), ("strong",)]
    steps = [Subtask(id=str(i), instruction="x", worker=w, fallback=more) for i, (w, *more) in enumerate(chosen)]
    (plan,) = with_last_resort([Plan(Workflow(steps), raw_valid=True)], workers)
    assert [step.workers for step in plan.workflow.subtasks] == [
        ("small", "strong"),
        ("sums", "dates", "strong"),
        ("sums", "small"),
        ("strong",),
    ]
