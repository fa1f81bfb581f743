"""What choices of workers are worth before anybody is asked."""

from __future__ import annotations

import numpy as np

from orchestai.estimate.attempts import Values
from orchestai.estimate.plan_options import PlanOptions
from orchestai.estimate.pool_estimate import PoolEstimate
from orchestai.execution.reward import RewardForm


def expected_reward(options: PlanOptions, estimate: PoolEstimate, reward: RewardForm | None) -> Values:
    """(options,) expected rewards of an answer, in rewards of a success.

    Args:
        reward: weighs what is paid and how long it takes against success; None: success alone counts.
    """
    success = estimate.before.apply(options.success)
    if reward is None:
        return success
    usd, seconds, _ = options.spending.T
    spent = [reward.cost(a) + reward.latency(1000 * b) for a, b in zip(usd.tolist(), seconds.tolist(), strict=True)]
    return success - np.array(spent) / (reward.alpha or 1.0)
