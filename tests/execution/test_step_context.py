""" "Add all of them" means nothing without the task: a worker may read where its step stands and what it is given."""

from __future__ import annotations

import pytest

from orchestai.execution.request import build_request
from orchestai.tasks.task import Task
from orchestai.workers.prompting.prompts import Strategy, strategy
from orchestai.workflow import Subtask, Workflow

TOLD = "Take the prices, drop those under 3 (`[1, 5]` -> `[5]`), and add all of them. task_func([2, 4]) == 4"
TASK = Task(
    task_id="t",
    suite="own",
    instruct_prompt=TOLD,
    entry_point="task_func",
    parameters=("prices",),
    test="assert task_func([2, 4]) == 4",
)


def step(id: str, words: str, *parents: str) -> Subtask:
    start = TOLD.index(words)
    return Subtask(id=id, instruction=words, span=(start, start + len(words)), depends_on=parents)


DROP = step("1", "drop those under 3 (`[1, 5]` -> `[5]`)")
ADD = step("2", "add all of them", "1")
STEPS = Workflow([DROP, ADD])
READERS = [strategy(name, reads_task=True) for name in ("direct", "few_shot", "chat")]


def asked(prompting: Strategy, subtask: Subtask, steps: Workflow = STEPS) -> str:
    return prompting.prompt(build_request(TASK, steps, subtask, kind="dataflow")).messages[-1][1]


@pytest.mark.parametrize("prompting", READERS, ids=lambda one: type(one).__name__)
def test_the_step_is_marked_in_the_task_and_its_argument_is_its_parents_result(prompting: Strategy) -> None:
    question = asked(prompting, ADD)
    assert "Take the prices" in question
    assert "<step>add all of them</step>" in question
    assert "`x` is the result of" in question
    assert "list such as [5]" in question


def test_arguments_are_told_in_the_order_in_which_values_are_handed_on() -> None:
    both = Subtask(id="3", instruction="subtract them", depends_on=("2", "1"))
    question = asked(READERS[0], both, Workflow([DROP, ADD, both]))
    assert question.index("`a` is the result of 'add all of them'") < question.index("`b` is the result of 'drop")
    assert "`prices`, if you add it, is `prices` of the task" in question
