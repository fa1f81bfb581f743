"""Rules of credit by hand: what each act of two attempts by two roles is worth under each of them."""

from __future__ import annotations

import math

import pytest
import torch

from orchestai.config import Phase2Config
from orchestai.errors import UserError
from orchestai.outcome import Reward, RewardPart, Unscorable
from orchestai.training.rl import formulas
from orchestai.training.rl.advantages import Learning, make_batch, plan_credit, worked_example
from orchestai.training.rl.credit import Credit, acts_of, step_advantages
from orchestai.training.rl.formulas import PPO, RECIPES
from orchestai.types import Episode, Trajectory
from support.agents.dialogues import TASKS, dialogue, turn


def mean_centred(rewards, group_ids, unit_ids):
    everything = torch.ones_like(group_ids).bool()
    return formulas.group_advantages(rewards, group_ids, everything, unit_ids=unit_ids, scale="none")


def attempt(rewards: list[float | None], outcome: float, own: float | None = None, role: str = "a") -> Episode:
    acts = [[5 + i] for i in range(len(rewards))]
    made = dialogue(acts, [[1, 2]] * len(rewards), rewards, role)
    return Episode("t", "t", (Trajectory(role, "p", made.turns, own),), Reward(outcome))


def advantages(credit: Credit, *episodes: Episode, compare=mean_centred) -> list[float]:
    found = credit.advantages(acts_of([(e, t) for e in episodes for t in e.trajectories]), compare)
    return [round(value, 6) for value in found.values.tolist()]


def test_outcome_ignores_what_roles_and_acts_earned():
    episodes = attempt([0.3, 0.1], 1.0, own=5.0), attempt([0.0], 0.0, own=-5.0)
    assert advantages(Credit("outcome"), *episodes) == [0.5, 0.5, -0.5]


def test_role_takes_the_trajectory_s_reward_before_the_episode_s():
    episodes = attempt([0.3, 0.1], 1.0, own=4.0), attempt([0.0], 0.0, own=None)
    assert advantages(Credit("role"), *episodes) == [2.0, 2.0, -2.0]


@pytest.mark.parametrize("rule", ["outcome", "role", "turn", "return_to_go"])
def test_an_attempt_with_three_conversations_of_a_role_counts_once(rule):
    """Outcomes 0, 1 and 1, and the failure had three conversations: counted by these, the mean was 0.4 and is 2/3."""

    def talks(number: int, outcome: float) -> Episode:
        one = attempt([None], outcome).trajectories[0]
        return Episode("t", "t", (one,) * number, Reward(outcome))

    found = advantages(Credit(rule), talks(3, 0.0), talks(1, 1.0), talks(1, 1.0))
    assert found == pytest.approx([-2 / 3] * 3 + [1 / 3] * 2, abs=1e-6)


@pytest.mark.parametrize(("loss_type", "expected"), [("rloo", -1.0), ("reinforce", -2 / 3), ("dr_grpo", -2 / 3)])
def test_every_baseline_counts_attempts(loss_type, expected):
    """Left out of its own baseline is the whole attempt: its other conversations have the same outcome."""
    one = attempt([None], 0.0).trajectories[0]
    failed = Episode("t", "t", (one,) * 3, Reward(0.0))
    won = [Episode("t", "t", (one,), Reward(1.0)) for _ in range(2)]
    config = Phase2Config(loss_type=loss_type)
    batch = make_batch([failed, *won], TASKS, RECIPES[loss_type], config, 20, Credit("outcome")).batch
    assert batch.advantages[0].unique().tolist() == pytest.approx([expected], abs=1e-6)


def test_mt_grpo_with_two_turns():
    """Turn rewards 1 and 0, outcomes 0 and 1, all z-scores +-z with z = 1/sqrt 2 (n - 1); coefficient 0.5.

    The coefficient weighs the turn, not the outcome: the first act gets z_outcome + 0.5 z_turn (-z + 0.5 z and
    z - 0.5 z), the last z_outcome alone (-z and z).
    """
    compare = lambda rewards, ids, _: formulas.group_advantages(rewards, ids, torch.ones_like(ids).bool(), eps=0.0)  # noqa: E731
    z = 1 / math.sqrt(2)
    episodes = attempt([1.0, None], 0.0), attempt([0.0, None], 1.0)
    found = advantages(Credit("turn", turn_advantage_coef=0.5), *episodes, compare=compare)
    assert found == pytest.approx([-0.5 * z, -z, 0.5 * z, z], abs=1e-6)


def test_mt_grpo_compares_who_calls_with_who_answers_at_once():
    """Two call, rewarded 1, and two answer, all wrong: +-1/2 over a deviation of 1/sqrt 3, as in the authors' code,
    where every attempt has a reward for its turn; the callers' answers have the outcome's 0."""
    compare = lambda rewards, ids, _: formulas.group_advantages(rewards, ids, torch.ones_like(ids).bool(), eps=0.0)  # noqa: E731
    episodes = [attempt([1.0, None], 0.0)] * 2 + [attempt([None], 0.0)] * 2
    z = 0.5 * math.sqrt(3)
    assert advantages(Credit("turn"), *episodes, compare=compare) == pytest.approx([z, 0, z, 0, -z, -z], abs=1e-6)


def test_mt_grpo_compares_turns_of_one_number_and_counts_flat_groups():
    """The first turns differ by 1, and so each is half above or below; the second turn is the second attempt's last."""
    episodes = attempt([1.0, 0.0, 0.0], 1.0), attempt([0.0, 0.0], 1.0)
    credit = Credit("turn")
    assert advantages(credit, *episodes) == [0.5, 0.0, 0.0, -0.5, 0.0]
    same = attempt([1.0, 0.0], 1.0), attempt([1.0, 0.0], 1.0)
    found = credit.advantages(acts_of([(e, e.trajectories[0]) for e in same]), mean_centred)
    assert (found.groups, found.flat) == (1, 1)


def test_return_to_go_discounts_per_turn_and_ends_with_the_outcome():
    """First attempt: 1 + 0.5 (0 + 2) = 2 and 2. Second: 0 + 0.5 (1 + 0) = 0.5 and 1."""
    episodes = attempt([1.0, 0.0], 2.0), attempt([0.0, 1.0], 0.0)
    assert advantages(Credit("return_to_go", gamma=0.5), *episodes) == [0.75, 0.5, -0.75, -0.5]


def test_joint_compares_acts_of_one_node_without_deviation():
    """MAGRPO: two agents, two samples at the root, then two nodes. Each act is a trajectory of its own."""

    def acts(role: str, rewards: list[float], nodes: list[str]) -> list[Trajectory]:
        return [
            Trajectory(role, "p", (turn([1], [5], reward, node),)) for reward, node in zip(rewards, nodes, strict=True)
        ]

    nodes = ["root", "root", "root.0", "root.0", "root.1", "root.1"]
    first, second = acts("a", [3.0, 1.0, 2.0, 0.0, 5.0, 5.0], nodes), acts("b", [3.0, 1.0, 2.0, 0.0, 5.0, 4.0], nodes)
    episode = Episode("t", "t", (*first, *second), Reward(0.0))
    found = [1.0, -1.0, 1.0, -1.0, 0.0, 0.0]
    assert advantages(Credit("joint"), episode) == [*found, *found[:4], 0.5, -0.5]


def test_roles_and_tasks_are_never_compared_with_each_other():
    episodes = attempt([None], 1.0), attempt([None], 0.0, role="b")
    assert advantages(Credit("outcome"), *episodes) == [0.0, 0.0]


def test_a_critic_foresees_what_each_act_earned_and_unscorable_episodes_teach_nothing():
    """Turn rewards 1 and 0, outcome 2, gamma 0.5 per token; a value of 0 everywhere and lambda 1: the return of a token
    is the discounted sum of what comes after it, the tokens in between left out."""
    config = Phase2Config(algorithm="PPO", gamma=0.5, lambda_gae=1.0)
    episode = attempt([1.0, 0.0], 2.0)
    lost = Episode("t", "t", episode.trajectories, Unscorable("server", "gone"))
    batch = make_batch([episode, lost], TASKS, PPO, config, 20, Credit("turn")).batch
    assert batch.mask.tolist() == [[True, True, False, False, True, True]]
    assert batch.returns.tolist() == [[pytest.approx(0.75), 1.5, 0.0, 0.0, 1.0, 2.0]]
    with pytest.raises(UserError, match=r"agents\.credit: joint compares acts"):
        make_batch([episode], TASKS, PPO, config, 20, Credit("joint"))


@pytest.mark.parametrize("rule", ["outcome", "role", "turn", "return_to_go", "joint"])
def test_the_worked_example_is_what_training_would_compute(rule):
    table = worked_example(Credit(rule), RECIPES["dr_grpo"], Phase2Config(loss_type="dr_grpo"), ("a", "b", "c"))
    shown = list(table.columns[-1].cells)
    assert len(shown) == 12
    last = {"outcome": "+0.67", "role": "+0.67", "turn": "+0.67", "return_to_go": "+1.33", "joint": "+0.67"}
    assert shown[-1] == last.get(rule, "+0.67")


# A step is credited with its own doing, and with the plan's success only where nobody else spoiled it.


def test_known_answers():
    """Four plans of two steps: of the first step's worker, only the plans whose second step passed tell anything."""
    own = torch.tensor([[-1.0, 0.0], [-3.0, 0.0], [-1.0, 0.0], [-3.0, -4.0]])
    failed = torch.tensor([[False, False], [True, False], [False, True], [False, True]])
    success = torch.tensor([10.0, 0.0, 0.0, 0.0])
    steps = torch.ones(4, 2, dtype=torch.bool)
    found = step_advantages(success + own.sum(1), own, failed, steps, torch.zeros(4, dtype=torch.long))
    # first step: own mean -2; success compared among plans 0 and 1. Second: own mean -1; among plans 0, 2 and 3.
    assert torch.allclose(found[:, 0], torch.tensor([1.0 + 5, -1.0 - 5, 1.0, -1.0]))
    assert torch.allclose(found[:, 1], torch.tensor([1.0 + 20 / 3, 1.0, 1.0 - 10 / 3, -3.0 - 10 / 3]))


def test_plans_that_differ_by_a_clock_alone_teach_nothing():
    """Eight that fail within milliseconds of each other got advantages of 1.5 where the deviation divided. What tells
    is a success, a check, or a cost of more than two hundredths of a success."""

    def learned(*plans: tuple[float, float, float]) -> Learning:
        names = {"success": 10.0, "cost": 0.5, "checks": 0.3}
        episodes = [
            Episode("t", "t", (Trajectory("a", "p", (turn([1], [5]),)),), Reward.of(parts))
            for plan in plans
            for parts in [{name: RewardPart(v, w) for v, (name, w) in zip(plan, names.items(), strict=True)}]
        ]
        config = Phase2Config(loss_type="dapo")
        return make_batch(episodes, TASKS, RECIPES["dapo"], config, 20, plan_credit(config))

    same = learned(*((0.0, -0.4 - number / 1000, 0.5) for number in range(8)))
    assert (same.flat_groups, same.worthwhile) == (1, False)
    telling = [((0.0, -0.4, 0.5), other) for other in ((1.0, -0.4, 0.5), (0.0, -0.4, 1.0), (0.0, -0.9, 0.5))]
    assert [learned(*pair).worthwhile for pair in telling] == [True] * 3
    assert Phase2Config().loss_type == "dr_grpo"


def test_groups_and_missing_steps_stay_apart():
    own = torch.tensor([[1.0, 9.0], [3.0, 9.0], [5.0, 2.0], [5.0, 4.0]])
    steps = torch.tensor([[True, False], [True, False], [True, True], [True, True]])
    found = step_advantages(
        (own * steps).sum(1), own, torch.zeros(4, 2, dtype=torch.bool), steps, torch.tensor([7, 7, 3, 3])
    )
    assert found.tolist() == [[-1, 0], [1, 0], [0, -1], [0, 1]]


@pytest.mark.parametrize("wrong", [{"loss_type": "dapo"}, {"algorithm": "PPO"}, {"explore": ("worker", "edge")}])
def test_what_cannot_be_credited_by_step_is_refused(wrong):
    settings = {"credit": "step", "loss_type": "dr_grpo", "explore": ("worker",), **wrong}
    with pytest.raises(UserError, match=r"training\.phase2_rl\.credit: step needs"):
        plan_credit(Phase2Config(**settings))
