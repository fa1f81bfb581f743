""" "Add all of them" means nothing without the task: a worker may read where its step stands and what it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestai.config import load_config
from orchestai.errors import UserError
from orchestai.execution.request import build_request
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import Example
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


def test_a_first_step_is_told_of_the_tasks_parameters() -> None:
    assert "`x` is `prices` of the task, list such as [2, 4]" in asked(READERS[0], DROP)


def test_words_that_the_planner_chose_itself_stand_behind_the_task() -> None:
    own = ADD.model_copy(update={"span": None, "instruction": "sum the prices that are left"})
    assert f"{TOLD}\n\n<step>sum the prices that are left</step>" in asked(READERS[0], own, Workflow([DROP, own]))


def test_a_task_asked_whole_has_no_context_beside_itself() -> None:
    whole = Workflow([Subtask(id="1", instruction=TOLD, span=(0, len(TOLD)))])
    assert build_request(TASK, whole, whole.subtasks[0], kind="dataflow").context == ""


def test_an_only_step_that_leaves_words_out_has_them_as_context_and_the_calls_beside_it_as_examples() -> None:
    """A planner cuts "add all of them" out: what it leaves out would otherwise be lost to everybody."""
    cut = Workflow([ADD.model_copy(update={"id": "1", "depends_on": ()})])
    assert f"What was asked for, word by word:\n\n{TOLD}" in asked(READERS[0], cut.subtasks[0], cut)
    request = build_request(TASK, cut, cut.subtasks[0], kind="dataflow")
    assert request.examples == (Example(("[2, 4]",), "4"),)
    own = Workflow([DROP])
    shown = build_request(TASK, own, own.subtasks[0], kind="dataflow").examples
    assert shown == (Example(("[1, 5]",), "[5]"),), "its own words count first"


def test_who_reads_the_step_alone_is_asked_the_same_whatever_stands_around_it() -> None:
    other = TASK.model_copy(update={"instruct_prompt": TOLD.replace("prices", "weights")})
    for name in ("direct", "few_shot", "chat"):
        prompts = [strategy(name).prompt(build_request(task, STEPS, ADD, kind="dataflow")) for task in (TASK, other)]
        assert prompts[0] == prompts[1]


def test_a_template_says_itself_what_it_reads(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        "workers:\n  models: {m: {kind: huggingface, name: smollm2-135m}}\n"
        "  pool: {w: {kind: model, model: m, card: c, strategy: template, template: t.j2, reads: task}}\n"
    )
    (tmp_path / "t.j2").write_text("{{ instruction }}{{ context }}")
    with pytest.raises(UserError, match="reads: task"):
        load_config(config)
