"""Who plans where a planner is not sure: a wrong plan costs more than asking one worker for the whole task."""

from __future__ import annotations

from orchestai.config import WorkersConfig
from orchestai.outcome import Unscorable
from orchestai.planner.base import Plan
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.serving import followed, with_fallbacks, with_last_resort
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow


def plan(words: str = "do it", **facts: object) -> Plan:
    steps = [{"id": "1", "instruction": words}, {"id": "2", "instruction": "then more"}]
    return Plan(Workflow(steps), **{"raw_valid": True, **facts})  # type: ignore[arg-type]


def tasks(count: int) -> list[Task]:
    return [Task(task_id=str(i), suite="s", instruct_prompt=f"task {i}") for i in range(count)]


def test_a_plan_is_followed_unless_its_planner_doubts_it() -> None:
    made = [
        plan(confidence=0.5),
        plan(confidence=0.49),
        plan(raw_valid=False, confidence=1.0),
        Plan(None, raw_valid=False, error="too long"),
        plan(),
        Plan(None, raw_valid=False, fault=Unscorable("server", "down")),
    ]
    tasks = [Task(task_id=str(i), suite="s", instruct_prompt=f"task {i}") for i in range(6)]
    kept = followed("lead", made, tasks, WholePlanner("strong"), 0.5)
    assert [p.planned_by for p in kept] == [
        "",
        "whole, as lead was not sure (0.49)",
        "whole, as lead made an invalid plan",
        "whole, as lead made no plan (too long)",
        "",
        "whole, as lead could not plan (down)",
    ]
    assert (kept[0], kept[4]) == (made[0], made[4])
    assert [step.instruction for step in kept[1].workflow.subtasks] == ["task 1"]


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
