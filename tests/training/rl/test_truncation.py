"""What the sampler says was cut off can be kept out of the loss."""

from __future__ import annotations

import asyncio

import pytest
import torch

from orchestai.config import Phase2Config
from orchestai.outcome import Reward
from orchestai.training.rl.advantages import make_batch, plan_credit
from orchestai.training.rl.credit import Credit
from orchestai.training.rl.trainer import choose_recipe
from orchestai.training.rl.update import Objective
from orchestai.types import Episode, TokenDecisions, Trajectory, Turn
from support.training import bandit

BY_ID = {task.task_id: task for task in bandit.TASKS}
LIMIT = bandit.Speller.LONGEST


def turn(tokens: int, *, truncated: bool = False, limit: int = LIMIT, prompt: int = 3, reward=None) -> Turn:
    decisions = TokenDecisions(torch.zeros(prompt, dtype=torch.long), torch.zeros(tokens, dtype=torch.long))
    logp = torch.full((tokens,), -1.0)
    nothing = torch.zeros(tokens)
    return Turn(
        decisions,
        logp,
        logp < 0,
        nothing,
        nothing.long() - 1,
        0,
        reward=reward,
        truncated=truncated,
        token_limit=limit,
    )


def episode(reward: float, *turns: Turn, valid: bool = True) -> Episode:
    return Episode("0", "0", (Trajectory("planner", "planner", turns),), Reward(reward), valid=valid)


def learning(*episodes: Episode, credit: Credit | None = None, **changes):
    config = Phase2Config(**{"alpha": 1.0, "loss_type": "dr_grpo", **changes})
    return make_batch(episodes, BY_ID, choose_recipe(config), config, LIMIT, credit or plan_credit(config))


def loss_of(episodes: list[Episode], **changes) -> tuple[float, torch.Tensor]:
    config = Phase2Config(alpha=1.0, loss_type="dr_grpo", entropy_coef=0.0, **changes)
    planner = bandit.Speller()
    recipe = choose_recipe(config)
    batch = make_batch(episodes, BY_ID, recipe, config, LIMIT, plan_credit(config)).batch
    loss = Objective(planner, recipe, config)(batch, batch.counts()).loss
    loss.backward()
    return loss.item(), planner.adapter.grad


def test_what_was_cut_off_is_in_no_loss_but_in_the_baseline():
    """Rewards 1 (two tokens) and 0 (four, cut off): advantages of plus and minus a half, over 2 plans of up to 4."""
    uniform = -torch.tensor(float(bandit.WORKERS + 1)).log()

    def plan(reward: float, tokens: int, *, truncated: bool) -> Episode:
        made = turn(tokens, truncated=truncated)
        object.__setattr__(made, "logp", torch.full((tokens,), uniform))
        return episode(reward, made)

    episodes = [plan(1.0, 2, truncated=False), plan(0.0, 4, truncated=True)]
    whole, _ = loss_of(episodes)
    masked, gradient = loss_of(episodes, mask_truncated=True)
    assert whole == pytest.approx((-0.5 * 2 + 0.5 * 4) / 8)
    assert masked == pytest.approx(-0.5 * 2 / 8)
    assert gradient[0, :2].abs().sum() > 0
    assert not gradient[0, 2:].any(), "no other plan has a third token"
    assert loss_of(episodes[::-1], mask_truncated=True)[0] == pytest.approx(masked)


def test_only_the_act_that_was_cut_off_is_left_out_of_a_dialogue():
    turns = turn(2, truncated=True, limit=9), turn(2, prompt=7, limit=9)
    found = learning(episode(1.0, *turns), episode(0.0, *turns), mask_truncated=True)
    assert found.batch.mask.tolist() == [[False, False, False, False, True, True]] * 2
    assert found.batch.lengths.tolist() == [2, 2]
    assert found.worthwhile


def test_what_was_cut_off_moves_no_advantage_of_a_critic():
    """PPO's advantages are brought to mean 0 and variance 1 over what is learned from: 1, 1, 0, 0, by hand."""
    episodes = episode(1.0, turn(2)), episode(0.0, turn(2)), episode(5.0, turn(4, truncated=True))
    batch = learning(*episodes, algorithm="PPO", mask_truncated=True).batch
    deviations = 0.5 / (1 / 3) ** 0.5
    assert batch.advantages[batch.mask].tolist() == pytest.approx([deviations] * 2 + [-deviations] * 2)
    assert not batch.advantages[2].any()


@pytest.mark.parametrize("algorithm", ["GRPO", "PPO"])
def test_nothing_is_learned_where_all_that_differs_was_cut_off(algorithm):
    cut, other = episode(1.0, turn(4, truncated=True)), episode(0.0, turn(4, truncated=True))
    assert learning(cut, other, algorithm=algorithm).worthwhile
    assert not learning(cut, other, algorithm=algorithm, mask_truncated=True).worthwhile
    middle = episode(0.5, turn(2))
    assert not learning(cut, middle, other, mask_truncated=True).worthwhile
    assert learning(cut, middle, middle, mask_truncated=True).worthwhile


def test_planners_and_their_runs_know_what_was_cut_off(tmp_path):
    """A speller that knows nothing writes four of five tokens, four times, without an end: 0.8 ** 4 of its plans."""
    config = bandit.settings(num_episodes=24, tasks_per_update=24, mask_truncated=True)
    asyncio.run(bandit.trainer(tmp_path, config, bandit.Speller()).train())
    (row,) = bandit.rows(tmp_path)
    assert row["truncated_share"] == pytest.approx(0.8**4, abs=0.08)
    assert row["loss"] != 0
