"""A planner gave "book a taxi" to a calculator alone, of a pool that it had not learned, and there was no answer."""

from orchestai.planner.base import Plan
from orchestai.planner.last_resort import with_last_resort
from orchestai.workers.base import WorkerCard
from orchestai.workflow import Subtask, Workflow

CARDS = [WorkerCard("calculator", "sums", 0.0, "tool"), WorkerCard("chat", "anything", 0.01, "model")]


def test_steps_of_tools_alone_get_the_strongest_worker_last_and_others_stay():
    workflow = Workflow(
        [
            Subtask(id="1", instruction="book a taxi", worker="calculator"),
            Subtask(id="2", instruction="add the fares", worker="calculator", fallback=("chat",)),
            Subtask(id="3", instruction="write a note", worker="chat"),
        ]
    )
    plans = [Plan(workflow=None, raw_valid=False, error="too long"), Plan(workflow, raw_valid=True, confidence=0.9)]
    none, plan = with_last_resort(plans, CARDS, "chat")
    assert none == plans[0]
    assert [one.workers for one in plan.workflow.subtasks] == [
        ("calculator", "chat"),
        ("calculator", "chat"),
        ("chat",),
    ]
    assert plan.confidence == 0.9


def test_a_cascade_of_tools_asks_nobody_twice():
    workflow = Workflow([Subtask(id="1", instruction="add the fares", worker="calculator")])
    [plan] = with_last_resort([Plan(workflow, raw_valid=True)], CARDS, "calculator")
    assert plan.workflow == workflow
