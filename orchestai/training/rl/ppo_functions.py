"""The pieces of PPO by themselves, for a training loop of one's own: reward, advantages, loss.

`Trainer` does more: groups, processes, checkpoints. The formulas are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from orchestai.execution.result import JudgedExecution
from orchestai.execution.reward import AbsoluteReward
from orchestai.outcome import Scored, Unscorable, judged
from orchestai.planner.base import TrainablePlanner
from orchestai.tasks.task import Task
from orchestai.training.rl import formulas
from orchestai.types import AnyDecisions, DecisionKind


def compute_reward(
    result: JudgedExecution,
    *,
    alpha: float = 10.0,
    beta: float = 0.1,
    gamma_latency: float = 0.01,
    shaped_reward: float = 0.1,
) -> float:
    """`alpha * success - beta * cost_usd - gamma_latency * latency_ms + shaped_reward * checks passed`.

    Raises:
        InfrastructureError: the execution could not be judged, which is no 0.
    """
    reward = AbsoluteReward(alpha, "all", None, beta, gamma_latency, shaped_reward).of(result)
    return judged(reward if isinstance(reward, Unscorable) else Scored(reward.total))


def compute_gae(
    rewards: Sequence[float] | Tensor,
    values: Sequence[float] | Tensor,
    gamma: float = 0.99,
    lambda_gae: float = 0.95,
) -> Tensor:
    """Advantages by generalized advantage estimation (Schulman et al. 2016, arXiv 1506.02438).

    Args:
        rewards, values: (steps,) of one trajectory that ends after the last step, or (rows, steps) of several.

    Returns:
        the advantages, of the same shape; the returns that the values should foresee are they plus `values`.
    """
    given, foreseen = (torch.as_tensor(one, dtype=torch.float32) for one in (rewards, values))
    rows = torch.atleast_2d(given)
    every = torch.ones_like(rows, dtype=torch.bool)
    advantages, _ = formulas.gae(rows, torch.atleast_2d(foreseen), every, gamma, lambda_gae)
    return advantages.reshape(given.shape)


class ModelSelector:
    """PPO's loss of a planner's selection of workers.

    Args:
        explore: decisions that were sampled.
        temperature: that they were sampled at.
    """

    def __init__(
        self,
        planner: TrainablePlanner,
        explore: frozenset[DecisionKind] = frozenset({"worker", "fallback"}),
        temperature: float = 1.0,
    ) -> None:
        self._planner = planner
        self._explore = explore
        self._temperature = temperature

    def compute_loss(
        self,
        *,
        states: Sequence[Task],
        actions: Sequence[AnyDecisions],
        old_log_probs: Tensor,
        advantages: Tensor,
        returns: Tensor,
        clip_epsilon: float = 0.2,
        value_coef: float = 0.5,
        entropy_coef: float = 0.01,
    ) -> dict[str, Tensor]:
        """`total_loss = policy_loss + value_coef * value_loss - entropy_coef * entropy`, each a mean over decisions.

        Args:
            states: the tasks.
            actions: of their plans, `plan.decisions`.
            old_log_probs: (plans, slots), `plan.logp`.
            advantages, returns: (plans, slots), or (plans, 1) where all decisions of a plan have the same.
        """
        scores = self._planner.score(states, actions, explore=self._explore, temperature=self._temperature)
        ratio = formulas.policy_ratio(scores.logp, old_log_probs, scores.mask)
        bounds = formulas.Bounds(clip_epsilon, clip_epsilon)
        policy = formulas.policy_loss("clip", scores.logp, ratio, advantages, bounds)
        losses = {
            "policy_loss": policy[scores.mask].mean(),
            "value_loss": ((scores.value - returns) ** 2)[scores.mask].mean(),
            "entropy": scores.entropy[scores.mask].mean(),
        }
        total = losses["policy_loss"] + value_coef * losses["value_loss"] - entropy_coef * losses["entropy"]
        return {**losses, "total_loss": total}
