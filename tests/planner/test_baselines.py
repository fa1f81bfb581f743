"""Planners without learning: what they give on real wordings, and that they repeat themselves when they must."""

from __future__ import annotations

import asyncio
import json

import pytest

from orchestai.config import PlannerConfig
from orchestai.errors import InfrastructureError
from orchestai.outcome import Unscorable
from orchestai.planner.baselines import (
    RandomAssignment,
    RandomPlanner,
    ReferencePlanner,
    WholePlanner,
    clauses,
    guess_type,
)
from orchestai.planner.registry import FewShotPlanner
from orchestai.tasks.task import Task
from orchestai.workers.base import TextCompletion, Usage, WorkerCard, WorkerError
from orchestai.workers.generation import Prompt, SamplingParams
from orchestai.workers.prices import Prices
from orchestai.workflow import Subtask, Workflow

CONFIG = PlannerConfig()
NAMES = ("cheap", "middle", "dear", "tool")
WORDS = "split it into words (for example `'a b'` -> `['a', 'b']`)"
VOWELS = "count its vowels (for example `'hello'` -> `2`)"
REPEAT = "repeat the first argument as often as the second says (for example `['a'], 2` -> `['a', 'a']`)"
INSTRUCTION = (
    f"Write a function `task_func(text)`. First, {WORDS}. Separately, starting again from the input, {VOWELS}. "
    f"Finally, with the words and the vowel count, {REPEAT}. For instance, `task_func('to be')` returns `['to', 'be']`."
)
REFERENCE = Workflow(
    [
        Subtask(id="1", instruction=WORDS, task_type="string"),
        Subtask(id="2", instruction=VOWELS, task_type="string"),
        Subtask(id="3", instruction=REPEAT, task_type="combine", depends_on=("1", "2")),
    ]
)
TASK = Task(task_id="t/1", suite="composition", instruct_prompt=INSTRUCTION, test="", reference=REFERENCE)
DOCSTRING = 'def add(x, y):\n    """Add two numbers x and y.\n    >>> add(2, 3)\n    5\n    """\n'
UNKNOWN = Task(task_id="HumanEval/53", suite="humaneval", instruct_prompt=DOCSTRING, test="", entry_point="add")


def workflow_of(plan) -> Workflow:
    assert plan.workflow is not None, plan.error
    return plan.workflow


def test_clauses_are_the_steps_with_their_examples() -> None:
    """A step's words must stand alone: connectives and the sentences about the whole function are not part of it."""
    assert [INSTRUCTION[start:end] for start, end in clauses(INSTRUCTION)] == [WORDS, VOWELS, REPEAT]


@pytest.mark.parametrize(
    ("clause", "kind"),
    [
        (WORDS, "string"),
        (REPEAT, "combine"),
        ("sort the list (`[3, 1]` -> `[1, 3]`)", "list"),
        ("find the year of the date (`'2024-03-15'` -> `2024`)", "date"),
        ("multiply the number by 3 (`2` -> `6`)", "integer"),
        ("look up nothing at all", "string"),
    ],
)
def test_types_are_guessed_from_words_and_examples(clause: str, kind: str) -> None:
    assert guess_type(clause, CONFIG.task_types) == kind


def test_reference_keeps_the_decomposition_and_draws_distinct_workers() -> None:
    workflow = workflow_of(ReferencePlanner(RandomAssignment(NAMES, 2)).plan([TASK])[0])
    assert workflow.dependencies() == REFERENCE.dependencies()
    assert [s.instruction for s in workflow.subtasks] == [WORDS, VOWELS, REPEAT]
    assert all(len(set(s.workers)) == 3 and set(s.workers) <= set(NAMES) for s in workflow.subtasks)


def test_random_workers_depend_on_the_task_and_the_seed_alone() -> None:
    """A continued collection must make the plans that the interrupted one would have made."""
    other = TASK.model_copy(update={"task_id": "t/2"})

    def draw(tasks: list[Task], seed: int = 0) -> list[Workflow]:
        return [workflow_of(plan) for plan in ReferencePlanner(RandomAssignment(NAMES, 2), seed).plan(tasks)]

    first, second = draw([TASK, other])
    assert draw([other]) + draw([TASK]) == [second, first]
    assert len({json.dumps(w.to_dict()) for w in (first, second, *draw([TASK, other], seed=1))}) == 4


def test_whole_asks_the_given_workers_in_order() -> None:
    workflow = workflow_of(WholePlanner("dear", ["cheap"]).plan([TASK])[0])
    assert [s.workers for s in workflow.subtasks] == [("dear", "cheap")]
    assert workflow.subtasks[0].instruction == INSTRUCTION


def test_random_plans_are_valid_differ_and_repeat() -> None:
    """The floor of the comparison must still be executable."""
    tasks = [TASK.model_copy(update={"task_id": f"t/{i}"}) for i in range(40)] + [UNKNOWN]
    plans = [workflow_of(plan) for plan in RandomPlanner(NAMES, CONFIG, seed=3).plan(tasks)]
    assert plans == [workflow_of(plan) for plan in RandomPlanner(NAMES, CONFIG, seed=3).plan(tasks)]
    assert {len(w) for w in plans} == {1, 2, 3}
    assert len({json.dumps(w.to_dict()) for w in plans}) > 30
    assert all(s.task_type in CONFIG.task_types and s.worker in NAMES for w in plans for s in w.subtasks)


CARDS = [WorkerCard(name=name, text=f"The {name} one.", price_usd=1.0, kind="model") for name in NAMES]
GOOD = {"id": "1", "instruction": WORDS, "task_type": "string", "worker": "cheap", "depends_on": []}


def reply(*subtasks: dict) -> str:
    return json.dumps({"subtasks": subtasks})


class Scripted:
    """A generator whose replies are known."""

    identity = "scripted"
    tries = 1

    def __init__(self, text: str) -> None:
        self.text = text
        self.prompts: list[Prompt] = []
        self.error: Exception | None = None

    async def generate(self, prompt: Prompt, params: SamplingParams, sample: int, hear=None) -> TextCompletion:
        self.prompts.append(prompt)
        if self.error is not None:
            raise self.error
        return TextCompletion(text=self.text, prompt_tokens=1, completion_tokens=1, latency_ms=1.0)

    async def check(self) -> None: ...

    async def close(self) -> None: ...


async def test_llm_planner_plans_from_a_thread_and_reports_bad_replies() -> None:
    """The commands are asynchronous and the planner interface is not; the bridge must neither block nor deadlock."""
    generator = Scripted(reply(GOOD).removeprefix('{"subtasks": ['))
    planner = FewShotPlanner(generator, CARDS, CONFIG, Prices(per_mtok_in=1e6, per_mtok_out=2e6))
    (plan,) = await asyncio.to_thread(planner.plan, [TASK])
    assert workflow_of(plan).subtasks[0].worker == "cheap"
    asked = generator.prompts[0]
    assert asked.messages[-1] == ("user", INSTRUCTION)
    assert all(card.text in asked.messages[0][1] for card in CARDS)
    generator.text = "nonsense"
    (bad,) = await planner.aplan([TASK])
    assert bad.workflow is None
    assert not bad.raw_valid
    assert "no subtask" in bad.error
    for paid in (plan, bad):
        assert paid.usage == Usage(requests=1, prompt_tokens=1, completion_tokens=1, cost_usd=3.0, latency_ms=1.0)
    with pytest.raises(RuntimeError, match="to_thread"):
        planner.plan([TASK])


async def test_llm_planner_tells_whose_fault_it_is_that_there_is_no_plan() -> None:
    """A server that was down ended the command; a prompt that the model cannot read is the planner's failure."""
    generator = Scripted("")
    planner = FewShotPlanner(generator, CARDS, CONFIG, Prices(per_call=1.0))
    generator.error = InfrastructureError("server", "down")
    (lost,) = await planner.aplan([TASK])
    assert (lost.workflow, lost.fault, lost.usage) == (None, Unscorable("server", "down"), None)
    generator.error = WorkerError("withheld", Usage(prompt_tokens=5))
    (failed,) = await planner.aplan([TASK])
    assert (failed.workflow, failed.fault, failed.error) == (None, None, "withheld")
    assert failed.usage == Usage(requests=1, prompt_tokens=5, cost_usd=1.0)
