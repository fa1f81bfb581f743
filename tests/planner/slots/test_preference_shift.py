"""A preference is an input of the choice of workers: silent before training, rescored as sampled, and monotone."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from orchestai.config import PlannerConfig
from orchestai.planner.checkpoint import load_planner, save_planner
from orchestai.planner.slots.decisions import DecisionBatch
from orchestai.planner.slots.encoders.encoder import TextEncoder
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.preference_shift import PreferenceShift, preference_inputs
from orchestai.preference import Preference
from orchestai.tasks.task import Task
from orchestai.types import SampleSpec
from orchestai.workers.base import WorkerCard
from orchestai.workers.pool import worker_cards
from support.training.phase2 import configuration

CONFIG = PlannerConfig(d_model=32, num_layers=1, max_subtasks=4, max_tokens=128)
CARDS = [WorkerCard(name, f"The worker {name}.", price, "model") for name, price in (("a", 1e-5), ("b", 1e-3))]
CARDS.append(WorkerCard("c", "Searches the standard library.", 1e-6, "tool"))
WORKERS = frozenset({"worker", "fallback"})
TASKS = [
    Task(task_id=str(i), suite="s", instruct_prompt=text, test="")
    for i, text in enumerate(["Sort the list, then reverse it.", "Add one. Separately, double it.", "Count the words."])
]
SCALE = [round(0.05 * i, 2) for i in range(21)]


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder("minilm", CONFIG.max_tokens)


@pytest.fixture
def planner(encoder) -> PlannerModel:
    torch.manual_seed(0)
    return PlannerModel(CONFIG, CARDS, encoder)


def taught(planner: PlannerModel) -> PlannerModel:
    """With preferences that change what it chooses."""
    generator = torch.Generator().manual_seed(1)
    for weight in [*planner.selector.preference_parameters(), planner.selector.value_shift.weight]:
        weight.data = torch.randn(weight.shape, generator=generator) * 0.5
    return planner


def test_a_shift_by_hand():
    shift = PreferenceShift(2, 1)
    shift.weight.data = torch.tensor([[[1.0, 0.0]], [[0.0, 10.0]], [[100.0, 100.0]]])
    inputs = preference_inputs([None, Preference(0.5), Preference(0.0, 0.5)], 3, torch.device("cpu"))
    assert inputs.tolist() == [[0, 0, 0], [1, 0.5, 0], [1, 0.5, 0.5]]
    assert shift(torch.ones(3, 1, 2), inputs).flatten().tolist() == [0, 1 + 5, 1 + 5 + 100]
    assert preference_inputs((), 2, torch.device("cpu")).tolist() == [[0] * 3] * 2


def test_before_training_no_preference_changes_a_bit(planner):
    spec = SampleSpec(WORKERS, 1.0, range(3))
    plain = planner.plan(TASKS, sample=spec)
    asked = planner.plan(TASKS, sample=spec, preferences=[Preference(p, 0.3) for p in (0.1, 0.5, 0.9)])
    for one, other in zip(plain, asked, strict=True):
        assert one.workflow == other.workflow
        assert torch.equal(one.logp, other.logp)
    assert [plan.preference for plan in asked] == [Preference(p, 0.3) for p in (0.1, 0.5, 0.9)]
    assert not any(weight.requires_grad for weight in planner.selector.preference_parameters())


def test_without_a_preference_a_trained_planner_plans_as_before(planner):
    before = planner.plan(TASKS)
    after = taught(planner).plan(TASKS, preferences=[None, Preference(0.1), None])
    assert [before[i].workflow == after[i].workflow for i in (0, 2)] == [True, True]


def test_rescoring_gives_the_log_probabilities_of_sampling(planner):
    """The decisions carry what was preferred; without it they would be scored as another policy's."""
    taught(planner)
    tasks = [task for task in TASKS for _ in range(8)]
    preferences = [None if i % 3 == 0 else Preference(i / 24, 0.5 * (i % 2)) for i in range(24)]
    plans = planner.plan(tasks, sample=SampleSpec(WORKERS, 1.0, range(24)), preferences=preferences)
    decisions = [plan.decisions for plan in plans]
    sampled = torch.stack([plan.logp for plan in plans])
    scores = planner.score(tasks, decisions, explore=WORKERS, temperature=1.0)
    torch.testing.assert_close(scores.logp, sampled, atol=1e-5, rtol=0)
    plain = planner.plan(tasks, sample=SampleSpec(WORKERS, 1.0, range(24)))
    assert not torch.allclose(sampled, torch.stack([plan.logp for plan in plain]), atol=1e-2)


def test_what_is_saved_never_falls_as_cost_weighs_more(planner, encoder):
    """Logits are linear in what cost weighs, so whichever is chosen, its slope cannot fall along the scale."""
    taught(planner).eval()
    weight = planner.selector.matcher.shift.weight.data
    weight[1] *= 20
    weight[0] = -weight[1] / 2  # so that the scale's two ends choose opposite workers
    task = TASKS[0]
    rows = [planner.plan([task], preferences=[Preference(prefer)])[0].decisions for prefer in SCALE]
    offsets = [encoder.offsets(task.instruction)]

    def logits(prefer: float) -> torch.Tensor:
        inputs = preference_inputs([Preference(prefer)], 1, torch.device("cpu"))
        given = DecisionBatch.collate([rows[0]], torch.device("cpu"))
        need = planner.selector.needs(planner.words_of([task.instruction], offsets, given), given.types)
        return planner.selector.matcher.worker(need, planner.selector.matcher.keys(planner.card_features), inputs)[0]

    with torch.no_grad():
        slopes = logits(0.0) - logits(1.0)
    saved = [[float(slopes[i, w]) for i, w in enumerate(row.workers.tolist())] for row in rows]
    assert len({tuple(row.workers.tolist()) for row in rows}) > 1
    for step in zip(*saved, strict=True):
        assert all(one >= other - 1e-5 for one, other in pairwise(step))


def test_preferences_alone_learn_where_they_are_let(planner):
    planner.learn_only(WORKERS, preferences=True)
    plans = planner.plan(TASKS, sample=SampleSpec(WORKERS, 1.0, range(3)), preferences=[Preference(0.3)] * 3)
    scores = planner.score(TASKS, [plan.decisions for plan in plans], explore=WORKERS, temperature=1.0)
    (scores.logp.sum() + scores.value.sum()).backward()
    learned = [*planner.selector.preference_parameters(), planner.selector.value_shift.weight]
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in learned)
    planner.learn_only(WORKERS)
    assert not any(weight.requires_grad for weight in learned)


def test_a_checkpoint_says_whether_it_knows_preferences(tmp_path):
    config = configuration(tmp_path)
    made = taught(PlannerModel(config.planner, worker_cards(config.workers)))
    made.prefers = True
    save_planner(tmp_path / "new.pth", made, config)
    loaded = load_planner(tmp_path / "new.pth", config.planner, config.workers)
    assert loaded.prefers
    assert all(torch.equal(weight, made.state_dict()[name]) for name, weight in loaded.state_dict().items())
