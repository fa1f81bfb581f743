"""A planner gave "book a taxi" to a calculator alone, and there was no answer."""

from orchestai.config import WorkersConfig
from orchestai.planner.base import Plan
from orchestai.planner.serving import with_fallbacks, with_last_resort
from orchestai.workflow import Subtask, Workflow


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
