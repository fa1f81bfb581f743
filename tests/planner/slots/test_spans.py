"""Steps have words of their own: a planner that may point at the same words again runs on until it may no longer."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from orchestai.config import PlannerConfig
from orchestai.planner.slots.encoders.encoder import TextEncoder
from orchestai.planner.slots.model import PlannerModel
from orchestai.tasks.task import Task
from orchestai.types import SampleSpec
from orchestai.workers.base import WorkerCard
from orchestai.workflow import Workflow

CONFIG = PlannerConfig(d_model=32, num_layers=1, max_subtasks=6, max_tokens=128)
CARDS = [WorkerCard("one", "A model.", 1e-5, "model"), WorkerCard("two", "A tool.", 1e-6, "tool")]
EVERYTHING = frozenset({"stop", "span", "type", "worker", "fallback", "edge"})
TEXTS = ("Add one.", "Sort", "Sort the list. Separately, reverse it. Finally, join both.")
TASKS = [Task(task_id=str(i), suite="test", instruct_prompt=TEXTS[i % len(TEXTS)]) for i in range(60)]


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder("minilm", CONFIG.max_tokens)


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
        plans = planner(encoder, any_length=False, overlapping_spans=overlapping).plan(TASKS, sample=sample)
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
