"""Rows of tokens have different lengths and share prompts: neither may change what is learned from them."""

import asyncio
import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from orchestai.config import Phase2Config
from orchestai.outcome import Reward
from orchestai.training.rl.advantages import make_batch, plan_credit
from orchestai.training.rl.batch import passes
from orchestai.training.rl.formulas import PPO, RECIPES
from orchestai.training.rl.trainer import RunSummary, choose_recipe
from orchestai.training.rl.update import Objective
from orchestai.types import Episode, TokenDecisions, Trajectory, Turn
from support.training import bandit

BY_ID = {task.task_id: task for task in bandit.TASKS}
SPELLER = bandit.Speller()
ONCE = {"num_episodes": 24, "num_minibatches": 2, "num_iterations": 2, "kl_coef": 0.1, "entropy_coef": 0.01}


def train(output, planner=None, **changes) -> tuple[bandit.Speller, RunSummary]:
    planner = planner or bandit.Speller()
    return planner, asyncio.run(bandit.trainer(output, bandit.settings(**changes), planner).train())


def row(kind: int, tokens: list[int], value: float = 0.0) -> Turn:
    """What a speller that is none the wiser thinks of these tokens; values rise along the row."""
    decisions = TokenDecisions(torch.tensor([kind] * 3), torch.tensor(tokens, dtype=torch.long))
    logp = torch.full((len(tokens),), -math.log(bandit.WORKERS + 1))
    return Turn(decisions, logp, logp < 0, value + 0.1 * torch.arange(len(tokens)), logp.long() * 0 - 1, 0)


def episode(kind: int, tokens: list[int], reward: float) -> Episode:
    return Episode(str(kind), str(kind), (Trajectory("planner", "planner", (row(kind, tokens),)),), Reward(reward))


EPISODES = [
    episode(0, [1, 4], 1.0),
    episode(0, [], 0.0),
    episode(0, [2, 3, 1, 4], 0.5),
    episode(1, [1], 0.2),
    episode(1, [1, 2, 3], 0.7),
]


def learn(episodes, **changes):
    """The batch, its loss and the gradients, in one pass."""
    config = Phase2Config(**changes)
    planner = bandit.Speller()
    planner.adapter.data.normal_(generator=torch.Generator().manual_seed(0))
    recipe = choose_recipe(config)
    batch = make_batch(episodes, BY_ID, recipe, config, planner.max_slots, plan_credit(config)).batch
    loss = Objective(planner, recipe, config)(batch, batch.counts()).loss
    loss.backward()
    return batch, loss.item(), planner.adapter.grad, planner.values.grad


@pytest.mark.parametrize("changes", [{"loss_type": kind} for kind in RECIPES] + [{"algorithm": "PPO"}], ids=str)
def test_the_order_of_rows_changes_nothing(changes):
    """One of the rows is an empty completion."""
    order = [3, 1, 4, 0, 2]
    batch, loss, *gradients = learn(EPISODES, kl_coef=0.1, **changes)
    other, again, *others = learn([EPISODES[i] for i in order], kl_coef=0.1, **changes)
    assert torch.allclose(other.advantages, batch.advantages[order], atol=1e-6)
    assert again == pytest.approx(loss, abs=1e-6)
    for gradient, same in zip(gradients, others, strict=True):
        assert (gradient is None) == (same is None)
        assert gradient is None or torch.allclose(gradient, same, atol=1e-6)


def test_each_row_is_what_it_is_alone():
    """Padding reaches neither advantages nor returns; only whitening looks at other rows."""
    config = Phase2Config(algorithm="PPO", value_coef=0.0)
    together = make_batch(EPISODES, BY_ID, PPO, config, 4, plan_credit(config)).batch
    for i, one in enumerate(EPISODES):
        alone = make_batch([one], BY_ID, PPO, config, 4, plan_credit(config)).batch
        width = alone.mask.shape[1]
        assert torch.equal(together.mask[i, :width], alone.mask[0])
        assert not together.mask[i, width:].any()
        assert torch.allclose(together.returns[i, :width], alone.returns[0])
        assert not together.returns[i, width:].any()


def test_dr_grpo_divides_by_what_a_row_could_have(tmp_path):
    """Not by the longest row of the batch, which differs from batch to batch."""
    short = [episode(0, [1, 4], 1.0), episode(0, [4], 0.0)]
    batch, *_ = learn(short, loss_type="dr_grpo")
    assert batch.mask.shape[1] == 2
    assert batch.counts().length == bandit.Speller.max_slots == 4


@pytest.mark.parametrize(("algorithm", "loss_type"), [("PPO", "dapo"), ("GRPO", "dapo"), ("GRPO", "gspo")])
def test_plans_of_any_length_are_learned(tmp_path, algorithm, loss_type):
    changes = {"algorithm": algorithm, "loss_type": loss_type, "learning_rate": 0.3, "num_episodes": 24 * 8}
    planner, summary = train(tmp_path, **changes)
    assert summary.best_reward > 0.9
    for task, plan in zip(bandit.TASKS, planner.plan(bandit.TASKS), strict=True):
        assert len(plan.workflow) == bandit.length_of(bandit.kind_of(task))


@pytest.mark.parametrize(("algorithm", "loss_type"), [("PPO", "dapo"), *(("GRPO", kind) for kind in RECIPES)])
@pytest.mark.parametrize("budget", [{"micro_batch_size": 7}, {"micro_batch_tokens": 20}])
def test_the_losses_do_not_depend_on_the_budget_of_a_pass(tmp_path, algorithm, loss_type, budget):
    changes = {"algorithm": algorithm, "loss_type": loss_type, **ONCE}
    if loss_type in ("reinforce", "rloo"):
        changes |= {"num_minibatches": 1, "num_iterations": 1}
    train(tmp_path / "whole", micro_batch_size=1000, **changes)
    train(tmp_path / "cut", **budget, **changes)
    for whole, cut in zip(bandit.rows(tmp_path / "whole"), bandit.rows(tmp_path / "cut"), strict=True):
        assert bandit.timeless(cut) == pytest.approx(bandit.timeless(whole), abs=1e-5)


lengths = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=20)


@hypothesis_settings(deadline=None, max_examples=100)
@given(lengths, st.integers(1, 4), st.integers(1, 30) | st.none(), st.integers(1, 5))
def test_passes_keep_to_the_budget_and_every_process_has_as_many(rows, processes, budget, size):
    decisions = [TokenDecisions(torch.tensor([kind] * 3), torch.zeros(n)) for kind, n in rows]
    config = Phase2Config(micro_batch_tokens=budget, micro_batch_size=size)
    made = passes(decisions, processes, SPELLER.cost, config)
    assert len(made) == processes
    assert len({len(parts) for parts in made}) == 1
    taken = [part for parts in made for part in parts]
    assert sorted(i for part in taken for i in part) == list(range(len(rows)))
    for part in taken:
        assert part == list(range(part[0], part[-1] + 1) if part else [])
        if budget is None:
            assert len(part) <= size
        else:
            assert len(part) <= 1 or SPELLER.cost([decisions[i] for i in part]) <= budget


def test_an_adapter_that_is_switched_off_is_the_reference_that_a_copy_is(tmp_path):
    class Copied(bandit.Speller):
        def reference(self):
            return None

    train(tmp_path / "off", **ONCE)
    train(tmp_path / "copy", Copied(), **ONCE)
    off, copy = bandit.rows(tmp_path / "off"), bandit.rows(tmp_path / "copy")
    assert [bandit.timeless(row) for row in off] == [bandit.timeless(row) for row in copy]
    assert off[-1]["kl"] > 0


class Timid(bandit.Speller):
    """Its sampler thinks every token less likely than it is."""

    def plan(self, tasks, *, sample=None):
        return [
            plan if sample is None else type(plan)(plan.workflow, plan.raw_valid, plan.decisions, plan.logp - 0.5)
            for plan in super().plan(tasks, sample=sample)
        ]


@pytest.mark.parametrize(("level", "ratio"), [("token", math.exp(0.5)), ("sequence", None)])
def test_a_sampler_that_computes_otherwise_is_corrected(tmp_path, level, ratio):
    once = {"num_episodes": 12, "sampler_correction": f"{level}_mask"}
    train(tmp_path / "timid", Timid(), **once)
    (figures,) = bandit.rows(tmp_path / "timid")
    assert figures["ratio"] == pytest.approx(1, abs=1e-6), "the policy has not moved yet"
    if ratio is not None:
        assert figures["sampler_ratio"] == pytest.approx(ratio)
        assert figures["sampler_bounded_share"] == 0
    else:
        assert 0 < figures["sampler_bounded_share"] < 1
    train(tmp_path / "exact", sampler_correction=f"{level}_truncate", num_episodes=12)
    train(tmp_path / "plain", num_episodes=12)
    (exact,), (plain,) = bandit.rows(tmp_path / "exact"), bandit.rows(tmp_path / "plain")
    assert exact["sampler_ratio"] == exact["sampler_max_ratio"] == pytest.approx(1)
    assert exact["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-5)
