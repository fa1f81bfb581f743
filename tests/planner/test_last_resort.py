"""A planner gave "book a taxi" to a calculator alone, of a pool that it had not learned, and there was no answer."""

import pytest

from orchestai.planner.base import Plan
from orchestai.planner.last_resort import with_last_resort
from orchestai.tasks.task import EXACT, UNIT_TESTS, Task
from orchestai.workers.base import WorkerCard
from orchestai.workflow import Subtask, Workflow

CARDS = [WorkerCard("calculator", "sums", 0.0, "tool"), WorkerCard("chat", "anything", 0.01, "model")]


def task(instruction: str = "book it", **facts: object) -> Task:
    return Task(task_id="0", suite="run", instruct_prompt=instruction, **{"scorer": UNIT_TESTS, **facts})


def test_steps_of_tools_alone_get_the_strongest_worker_last_and_others_stay():
    workflow = Workflow(
        [
            Subtask(id="1", instruction="book a taxi", worker="calculator"),
            Subtask(id="2", instruction="add the fares", worker="calculator", fallback=("chat",)),
            Subtask(id="3", instruction="write a note", worker="chat"),
        ]
    )
    plans = [Plan(workflow=None, raw_valid=False, error="too long"), Plan(workflow, raw_valid=True, confidence=0.9)]
    none, plan = with_last_resort([task(), task()], plans, CARDS, "chat", learned=False)
    assert none == plans[0]
    assert [one.workers for one in plan.workflow.subtasks] == [
        ("calculator", "chat"),
        ("calculator", "chat"),
        ("chat",),
    ]
    assert plan.confidence == 0.9


def test_a_cascade_of_tools_asks_nobody_twice():
    workflow = Workflow([Subtask(id="1", instruction="add the fares", worker="calculator")])
    [plan] = with_last_resort([task()], [Plan(workflow, raw_valid=True)], CARDS, "calculator", learned=False)
    assert plan.workflow == workflow


@pytest.mark.parametrize(
    ("step", "facts", "workers"),
    [
        ("sort it", {}, ("calculator", "chat")),
        ("sort it (`[3, 1]` -> `[1, 3]`)", {}, ("calculator",)),
        ("sort it", {"scorer": EXACT}, ("calculator",)),
    ],
)
def test_of_a_learned_pool_only_steps_without_an_example_get_one(step, facts, workers):
    """Half of the plans for synthetic instructions gave a step to a search by example, which there was none of."""
    workflow = Workflow(
        [
            Subtask(id="1", instruction=step, worker="calculator"),
            Subtask(id="2", instruction="write a note", worker="chat", depends_on=("1",)),
        ]
    )
    [plan] = with_last_resort([task(**facts)], [Plan(workflow, raw_valid=True)], CARDS, "chat", learned=True)
    assert plan.workflow["1"].workers == workers


def test_the_call_that_a_whole_task_shows_is_its_examples():
    workflow = Workflow([Subtask(id="1", instruction="sort it", worker="calculator")])
    asked = task("sort it, task_func([3, 1]) == [1, 3]", entry_point="task_func")
    [plan] = with_last_resort([asked], [Plan(workflow, raw_valid=True)], CARDS, "chat", learned=True)
    assert plan.workflow == workflow
