"""The planner's plans are valid, its samples are what it says they are, and a pool is no part of its weights."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from orchestai.config import PlannerConfig
from orchestai.planner.slots.decisions import Chooser, SlotLayout
from orchestai.planner.slots.decoding_rules import is_acyclic
from orchestai.planner.slots.losses import IGNORE, NO_WORKER
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.text_encoder import TextEncoder
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean
from orchestai.types import Decisions, SampleSpec
from orchestai.workers.base import WorkerCard

CONFIG = PlannerConfig(d_model=32, num_layers=1, max_subtasks=4, max_tokens=128)
CARDS = [
    WorkerCard("greedy", "A small model, one answer.", 1e-5, "model"),
    WorkerCard("sampler", "The same model, eight answers, keeps what passes.", 1e-3, "model"),
    WorkerCard("search", "Searches the standard library.", 1e-6, "tool"),
]
EVERYTHING = frozenset({"stop", "span", "type", "worker", "fallback", "edge"})
INSTRUCTIONS = (
    "Split it into words (for example `'a b'` -> `['a', 'b']`), then count them.",
    "Sort the list. Separately, reverse it. Finally, join both.",
    "Add one.",
)


def task(instruction: str) -> Task:
    return Task(task_id=instruction[:20], suite="test", instruct_prompt=instruction, test="")


TASKS = [task(instruction) for instruction in INSTRUCTIONS]


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder(CONFIG.max_tokens)


@pytest.fixture
def planner(encoder) -> PlannerModel:
    torch.manual_seed(0)
    return PlannerModel(CONFIG, CARDS, encoder)


def spec(*seeds: int, explore: frozenset[str] = EVERYTHING, temperature: float = 1.0) -> SampleSpec:
    return SampleSpec(explore, temperature, seeds)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("explore", [EVERYTHING, frozenset({"worker", "fallback", "edge"})])
def test_scoring_gives_the_log_probabilities_of_sampling(planner, explore, temperature):
    tasks = [task for task in TASKS for _ in range(8)]
    plans = planner.plan(tasks, sample=spec(*range(24), explore=explore, temperature=temperature))
    scores = planner.score(tasks, [plan.decisions for plan in plans], explore=explore, temperature=temperature)
    sampled = torch.stack([plan.logp for plan in plans])
    assert torch.allclose(scores.logp, sampled, atol=1e-5, rtol=0)
    assert (sampled[~scores.mask] == 0).all()
    assert (sampled[scores.mask] < 0).all()
    assert (scores.entropy >= 0).all()
    assert (scores.entropy[~scores.mask] == 0).all()
    assert (scores.value[~scores.mask] == 0).all()
    assert len({plan.decisions.length for plan in plans}) > 1 or "stop" not in explore


def test_confidence_while_planning_is_that_of_the_decisions_afterwards(planner):
    """It is read off the logits that the plan was decoded by, where training computes them along the plan again."""
    features = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)).abs()
    planner.confidence.fit(features, features[:, 0] < 0.7)
    tasks = [task("Sort the names, then count the vowels of the first."), task("Reverse it")]
    plans = planner.plan(tasks)
    again = planner.sureness([one.instruction for one in tasks], [plan.decisions for plan in plans])
    torch.testing.assert_close(torch.tensor([plan.confidence for plan in plans]), planner.confidence(again))


def test_slots_hold_the_decisions_that_exist(planner):
    """Of a plan of two steps: one decision to go on, one to stop, and per step its own, and four pairs."""
    decisions = Decisions(
        length=2,
        spans=torch.tensor([[0, 3], [5, 6]]),
        types=torch.tensor([0, 1]),
        workers=torch.tensor([2, 0]),
        fallbacks=torch.tensor([[0, 1], [3, 3]]),
        edges=torch.tensor([[False, True], [False, False]]),
    )
    mask = planner.score(TASKS[:1], [decisions], explore=EVERYTHING, temperature=1.0).mask[0]
    steps, pairs = mask[: 4 * 7].view(4, 7), mask[4 * 7 :].view(4, 4)
    assert steps.int().tolist() == [
        [0, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1, 1, 0],  # after "none" there is no second fallback to choose
        [1, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    assert pairs.int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    only_edges = planner.score(TASKS[:1], [decisions], explore=frozenset({"edge"}), temperature=1.0)
    assert only_edges.mask.sum() == 4


def test_a_sample_depends_on_its_seed_alone(planner):
    together = planner.plan(TASKS, sample=spec(5, 6, 7))
    for seed, one, plan in zip((5, 6, 7), TASKS, together, strict=True):
        alone = planner.plan([one], sample=spec(seed))[0]
        assert alone.workflow == plan.workflow
        assert torch.allclose(alone.logp, plan.logp, atol=1e-5)
    assert len({str(planner.plan([TASKS[1]], sample=spec(seed))[0].workflow) for seed in range(10)}) > 5


def test_samples_come_as_often_as_their_probabilities_say():
    logits, layout, rows = torch.tensor([1.0, -1e9, 0.0, 2.0]), SlotLayout(2, 0), 4000
    chooser = Chooser(spec(*range(rows), temperature=2.0), rows, layout, torch.device("cpu"))
    chosen = chooser.choose("type", 3, logits.expand(rows, -1))
    share = torch.bincount(chosen, minlength=4) / rows
    assert share[1] == 0
    assert torch.allclose(share, F.softmax(logits / 2, -1), atol=0.03)
    flips = chooser.flip_pairs(torch.full((rows, 2, 2), 1.0), torch.ones(rows, 2, 2, dtype=torch.bool)).float().mean(0)
    assert torch.allclose(flips, torch.tensor(1.0 / 2.0).sigmoid().expand(2, 2), atol=0.03)


def test_every_sampled_plan_is_a_workflow_of_the_instructions_own_words(planner):
    tasks = [task for task in TASKS for _ in range(20)]
    names = {card.name for card in CARDS}
    plans = planner.plan(tasks, sample=spec(*range(60)))
    assert any(not plan.raw_valid for plan in plans)
    for one, plan in zip(tasks, plans, strict=True):
        assert plan.workflow is not None
        sound = not plan.workflow.repeats() and all(subtask.instruction for subtask in plan.workflow.subtasks)
        assert plan.raw_valid == (sound and is_acyclic(plan.decisions.edges.numpy()))
        if plan.raw_valid:
            assert plan.workflow.adjacency() == plan.decisions.edges.int().tolist()
        for subtask in plan.workflow.subtasks:
            start, end = subtask.span
            assert 0 <= start < end <= len(one.instruction)
            words = one.instruction[start:end]
            assert subtask.instruction == (words if len(plan.workflow) == 1 else clean(words))
            assert subtask.task_type in CONFIG.task_types
            asked = (subtask.worker, *subtask.fallback)
            assert len(set(asked)) == len(asked)
            assert set(asked) <= names


def test_the_pool_is_no_part_of_the_weights(planner, encoder):
    """Workers in another order get the same logits, and a larger pool needs no other weights."""
    shuffled = PlannerModel(CONFIG, CARDS[::-1], encoder)
    shuffled.load_state_dict(planner.state_dict())
    assert not any(key.startswith("encoder") for key in planner.state_dict())
    original, turned = planner.plan(TASKS), shuffled.plan(TASKS)
    assert [plan.workflow for plan in original] == [plan.workflow for plan in turned]
    larger = PlannerModel(CONFIG, [*CARDS, WorkerCard("new", "A larger model.", 0.1, "model")], encoder)
    larger.load_state_dict(planner.state_dict())
    assert all(plan.workflow is not None for plan in larger.plan(TASKS, sample=spec(1, 2, 3)))


def test_every_parameter_learns_from_scores_and_values(planner):
    """All but the numbers of parents: edges are sampled one by one, and greedy plans alone count them."""
    planner.learn_only(EVERYTHING)
    plans = planner.plan(TASKS, sample=spec(3, 4, 5))
    scores = planner.score(TASKS, [plan.decisions for plan in plans], explore=EVERYTHING, temperature=1.0)
    (scores.logp.sum() + scores.value.sum() + scores.entropy.sum()).backward()
    learned = {name: p.grad for name, p in planner.named_parameters() if "parent_count" not in name}
    assert [name for name, gradient in learned.items() if gradient is None] == []
    assert all(torch.isfinite(gradient).all() for gradient in learned.values())


@pytest.mark.parametrize("explore", [frozenset({"worker", "fallback"}), frozenset({"worker", "edge"})])
def test_where_workers_alone_are_explored_nothing_else_learns(planner, explore):
    """Weights that explored and unexplored decisions share would take the unexplored ones along."""
    planner.learn_only(explore)
    plans = planner.plan(TASKS, sample=spec(1, 2, 3, explore=explore))
    scores = planner.score(TASKS, [plan.decisions for plan in plans], explore=explore, temperature=1.0)
    scores.logp.sum().backward()
    learning = {name.split(".")[0] for name, weight in planner.named_parameters() if weight.grad is not None}
    assert learning == ({"selector", "decoder", "reader"} if "edge" in explore else {"selector"})


def test_plans_that_share_steps_are_sampled_as_if_alone(planner):
    """Where only workers are sampled, the steps of equal instructions are decided once."""
    explore = frozenset({"worker", "fallback"})
    together = planner.plan([TASKS[0], TASKS[1], TASKS[0]], sample=spec(5, 6, 7, explore=explore))
    for seed, which, plan in zip((5, 6, 7), (0, 1, 0), together, strict=True):
        alone = planner.plan([TASKS[which]], sample=spec(seed, explore=explore))[0]
        assert alone.workflow == plan.workflow
        assert torch.allclose(alone.logp, plan.logp, atol=1e-5)


def test_entropy_is_that_of_the_distribution(planner):
    """Checked on the worker of the first step: minus the sum of p log p over all of its alternatives."""
    decisions = planner.plan(TASKS[:1])[0].decisions
    logps, entropies = [], []
    for worker in range(len(CARDS)):
        workers = torch.cat([torch.tensor([worker]), decisions.workers[1:]])
        changed = Decisions(
            decisions.length, decisions.spans, decisions.types, workers, decisions.fallbacks, decisions.edges
        )
        scores = planner.score(TASKS[:1], [changed], explore=frozenset({"worker"}), temperature=0.7)
        logps.append(scores.logp[0, 4])
        entropies.append(scores.entropy[0, 4])
    logp = torch.stack(logps)
    assert logp.exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert -(logp.exp() * logp).sum().item() == pytest.approx(entropies[0].item(), abs=1e-5)


def test_outputs_and_losses_have_the_documented_names(planner):
    """The shortest form: free outputs, and targets of types and workers alone."""
    outputs = planner(INSTRUCTIONS)
    assert outputs["workflow_graph"].shape == (3, 4, 4)
    assert outputs["subtask_embeddings"].shape == (3, 4, 32)
    targets = {
        "task_types": torch.tensor([[0, 1, IGNORE], [1, 1, 5], [2, IGNORE, IGNORE]]),
        "model_selections": torch.tensor([[0, 1, IGNORE], [2, 2, 0], [1, IGNORE, IGNORE]]),
    }
    losses = planner.compute_supervised_loss(outputs, targets, lambda_dag=0.3)
    assert set(losses) == {"type_loss", "worker_loss", "ce_loss", "dag_loss", "total_loss"}
    expected = F.cross_entropy(
        outputs["task_types"][:, :3].flatten(0, 1), targets["task_types"].flatten(), ignore_index=IGNORE
    )
    assert losses["type_loss"].item() == pytest.approx(expected.item(), rel=1e-5)
    assert losses["total_loss"].item() == pytest.approx((losses["ce_loss"] + 0.3 * losses["dag_loss"]).item(), rel=1e-5)
    losses["total_loss"].backward()


def test_padding_and_unknown_targets_change_no_loss(planner):
    planner.eval()
    targets = {
        "lengths": torch.tensor([2]),
        "spans": torch.tensor([[[0, 19], [IGNORE, IGNORE]]]),
        "task_types": torch.tensor([[0, IGNORE]]),
        "model_selections": torch.tensor([[1, 2]]),
        "fallback": torch.tensor([[[0, NO_WORKER], [NO_WORKER, NO_WORKER]]]),
        "dependencies": torch.tensor([[[False, True], [False, False]]]),
    }
    padded = {
        "lengths": targets["lengths"],
        "dependencies": F.pad(targets["dependencies"], (0, 2, 0, 2)),
        **{
            key: F.pad(targets[key], (*[0, 0] * (targets[key].dim() - 2), 0, 2), value=IGNORE)
            for key in ("spans", "task_types", "model_selections", "fallback")
        },
    }
    plain, wide = (
        planner.compute_supervised_loss(planner(INSTRUCTIONS[:1], t), t, lambda_dag=0.3) for t in (targets, padded)
    )
    assert plain.keys() == wide.keys()
    assert "stop_loss" in plain
    for name, loss in plain.items():
        assert loss.item() == pytest.approx(wide[name].item(), rel=1e-5), name
