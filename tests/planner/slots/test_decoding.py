"""What every plan keeps to, on text like that which people write."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from orchestai.config import PlannerConfig
from orchestai.planner.slots.decoding_rules import for_texts, with_whole_text, word_edges
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.text_encoder import TextEncoder
from orchestai.tasks.task import Task
from orchestai.types import SampleSpec
from orchestai.workers.base import WorkerCard
from orchestai.workflow import Subtask, Workflow


def tokens(text: str) -> np.ndarray:
    """Every character is a token, so that each boundary is asked for."""
    return np.array([(i, i + 1) for i in range(len(text))])


def plan(text: str, *steps: tuple[str, tuple[int, ...]]) -> Workflow:
    made = []
    for number, (words, parents) in enumerate(steps, start=1):
        start = text.index(words)
        depends_on = tuple(map(str, parents))
        span = (start, start + len(words))
        made.append(Subtask(id=str(number), instruction=words, depends_on=depends_on, span=span))
    return Workflow(made)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("open orm.properties now", "properties"),
        ("convert December 21, 1:00", "00"),
        ('print "find it, then sort" twice', "sort"),
        ("run `ls -l | wc` and wait", "wc"),
        ("about 3,500 of them", "500"),
    ],
)
def test_no_step_begins_inside_a_word_a_number_a_quotation_or_code(text: str, inside: str) -> None:
    begin, end = word_edges(text, tokens(text)).T
    start = text.index(inside)
    assert not begin[start]
    assert not end[start - 1]


def test_a_plan_of_one_step_is_the_whole_instruction() -> None:
    text = "I have 3 cats; tell a joke about cats, please"
    whole = with_whole_text(text, plan(text, ("joke about cats", ())))
    assert [step.instruction for step in whole.subtasks] == [text]


def test_a_modifier_joins_the_step_before_it_and_hands_on_its_edges() -> None:
    text = "list all files, following symlinks, then count them"
    made = for_texts(text, plan(text, ("list all files", ()), ("following symlinks", (1,)), ("count them", (2,))))
    assert [step.instruction for step in made.subtasks] == ["list all files, following symlinks", "count them"]
    assert made.dependencies() == [[], [0]]


def test_each_literal_stands_in_some_step() -> None:
    text = 'Given "stone" and 12: reverse the word, repeat it, using "-" between'
    made = for_texts(text, plan(text, ("reverse the word", ()), ("repeat it", (1,))))
    assert [step.instruction for step in made.subtasks] == [
        '"stone" and 12: reverse the word',
        'repeat it, using "-"',
    ]


# Steps have words of their own: a planner that may point at the same words again runs on until it may no longer.


CONFIG = PlannerConfig(d_model=32, num_layers=1, max_subtasks=6, max_tokens=128)
CARDS = [WorkerCard("one", "A model.", 1e-5, "model"), WorkerCard("two", "A tool.", 1e-6, "tool")]
EVERYTHING = frozenset({"stop", "span", "type", "worker", "fallback", "edge"})
TEXTS = ("Add one.", "Sort", "Sort the list. Separately, reverse it. Finally, join both.")
TASKS = [Task(task_id=str(i), suite="test", instruct_prompt=TEXTS[i % len(TEXTS)]) for i in range(60)]


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder(CONFIG.max_tokens)


def planner(encoder: TextEncoder, **changes: object) -> PlannerModel:
    torch.manual_seed(0)
    made = PlannerModel(CONFIG.model_copy(update=changes), CARDS, encoder)
    made.decoder.go_on.bias.data.fill_(5.0)  # the likeliest plan of what learned nothing has one step
    return made


def overlaps(workflow: Workflow) -> bool:
    spans = [subtask.span for subtask in workflow.subtasks if subtask.span is not None]
    return any(a[0] < b[1] and b[0] < a[1] for a, b in combinations(spans, 2))


@pytest.mark.parametrize("sampled", [False, True])
def test_no_word_is_in_two_steps_unless_the_configuration_allows_it(encoder: TextEncoder, sampled: bool) -> None:
    sample = SampleSpec(EVERYTHING, 2.0, tuple(range(len(TASKS)))) if sampled else None
    shared = {}
    for overlapping in (False, True):
        plans = planner(encoder, overlapping_spans=overlapping).plan(TASKS, sample=sample)
        shared[overlapping] = sum(overlaps(plan.workflow) for plan in plans if plan.workflow is not None)
    assert shared[False] == 0
    assert shared[True] > 0, "an untrained planner points anywhere, or this test shows nothing"


def test_a_text_without_words_left_ends_the_plan(encoder: TextEncoder) -> None:
    """Also where its probabilities are computed again, as learning does."""
    one = planner(encoder)
    sample = SampleSpec(EVERYTHING, 5.0, tuple(range(len(TASKS))))
    plans = one.plan(TASKS, sample=sample)
    words = {task.task_id: len(one.encoder.encode(task.instruction)) for task in TASKS}
    assert all(len(plan.workflow) <= words[task.task_id] for task, plan in zip(TASKS, plans, strict=True))
    scores = one.score(TASKS, [plan.decisions for plan in plans], explore=EVERYTHING, temperature=5.0)
    torch.testing.assert_close(scores.logp, torch.stack([plan.logp for plan in plans]), atol=1e-5, rtol=0)
