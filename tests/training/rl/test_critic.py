"""PPO's critic: its horizon over tokens and over decisions, its own learning rate, and its head start."""

from __future__ import annotations

import asyncio

import pytest
import torch

from orchestai.config import Phase2Config
from orchestai.lm.value_head import ValueHead
from orchestai.outcome import Reward
from orchestai.tasks.task import Task
from orchestai.training.rl.advantages import VALUE_STEP, make_batch, plan_credit
from orchestai.training.rl.formulas import PPO
from orchestai.types import Decisions, Episode, TokenDecisions, Trajectory, Turn
from support.training import bandit

TASKS = {"t": Task(task_id="t", suite="s", instruct_prompt="")}
NOTHING = torch.zeros(0)


class Valued(bandit.Speller):
    """A speller that estimates values with a head, over a feature for each kind of task and place."""

    WIDTH = bandit.KINDS * bandit.Speller.LONGEST

    def __init__(self) -> None:
        super().__init__()
        self.head = ValueHead(self.WIDTH, 1)
        self.adapter.data.normal_(generator=torch.Generator().manual_seed(0))
        del self.values

    @property
    def values(self) -> torch.Tensor:
        return self.head(torch.eye(self.WIDTH)).view(bandit.KINDS, self.LONGEST)


def train(output, resume: bool = False, **changes) -> Valued:
    policy = Valued()
    changes = {"algorithm": "PPO", "eval_every": 1, "weight_decay": 0.1} | changes
    running = bandit.trainer(output, bandit.settings(**changes), policy)
    asyncio.run(running.train(resume=resume))
    return policy


def episode(values: list[float], reward: float, *, tokens: bool) -> Episode:
    n = len(values)
    decisions = TokenDecisions(torch.zeros(1), torch.zeros(n)) if tokens else Decisions(n, *[NOTHING] * 5)
    turn = Turn(decisions, torch.zeros(n), torch.ones(n).bool(), torch.tensor(values), torch.zeros(n).long() - 1, 0)
    return Episode("t", "t", (Trajectory("a", "p", (turn,)),), Reward(reward))


def returns(tokens: bool, slots: int, **changes) -> torch.Tensor:
    """Of a reward of 1 after the last slot, to a critic that expects nothing."""
    config = Phase2Config(algorithm="PPO", alpha=1.0, **changes)
    return make_batch(
        [episode([0.0] * slots, 1.0, tokens=tokens)], TASKS, PPO, config, slots, plan_credit(config)
    ).batch.returns[0]


def test_a_reward_reaches_a_token_hundreds_of_tokens_before_it():
    """0.99 ** 384 is 0.02, and with lambda 0.95 as of a plan's decisions 6e-11 is left: nothing to learn from."""
    assert returns(True, 385).tolist() == [1.0] * 385
    assert returns(True, 385, gamma=0.99, lambda_gae=0.95)[0] < 1e-10
    assert returns(True, 385, lambda_gae=0.95)[0] < 1e-8


def test_decisions_of_a_plan_keep_their_discount_and_what_is_set_holds_for_both():
    decay = 0.99 * 0.95
    assert returns(False, 3).tolist() == pytest.approx([decay**2, decay, 1.0])
    for tokens in (True, False):
        assert returns(tokens, 3, gamma=0.5, lambda_gae=1.0).tolist() == pytest.approx([0.25, 0.5, 1.0])


def test_advantages_over_tokens_are_the_return_above_the_value_and_padding_has_none():
    """Returns 1 and -1 at every token; before whitening 1 - V and -1 - V, so the order of all is that of these."""
    rows = [episode([0.5, 0.0, 0.9], 1.0, tokens=True), episode([-0.5], -1.0, tokens=True)]
    config = Phase2Config(algorithm="PPO", alpha=1.0)
    batch = make_batch(rows, TASKS, PPO, config, 3, plan_credit(config)).batch
    assert batch.returns.tolist() == [[1.0, 1.0, 1.0], [-1.0, 0.0, 0.0]]
    assert batch.mask.tolist() == [[True] * 3, [True, False, False]]
    plain = torch.tensor([0.5, 1.0, 0.1, -0.5])
    whitened = (plain - plain.mean()) / plain.std()
    assert batch.advantages[batch.mask].tolist() == pytest.approx(whitened.tolist(), abs=1e-6)
    assert not batch.advantages[~batch.mask].any()


@pytest.mark.parametrize(("changes", "rate"), [({}, VALUE_STEP / Valued.WIDTH), ({"value_learning_rate": 0.3}, 0.3)])
def test_the_critic_learns_at_its_own_rate(tmp_path, changes, rate):
    """A first step of Adam changes a weight by the learning rate; the policy's is one that teaches a critic nothing."""
    before = Valued().adapter
    policy = train(tmp_path, learning_rate=1e-6, weight_decay=0.0, num_episodes=12, **changes)
    assert policy.head.weight.abs().max().item() == pytest.approx(rate, rel=1e-3)
    assert 0 < (policy.adapter - before).abs().max().item() < 1.1e-6
