"""Whose doing a reward was: the whole plan's, or each step's own."""

from __future__ import annotations

import torch
from torch import Tensor

from orchestai.training.rl import maths


def step_advantages(rewards: Tensor, own: Tensor, failed: Tensor, steps: Tensor, group_ids: Tensor) -> Tensor:
    """Advantages of steps that are answered independently of each other, as in the `dataflow` assembler.

    What a step earned alone (its price, its visible check) is credited to it alone. The rest of the reward is credited
    to a step only where all others passed their checks: if one of them failed, so has the plan, whoever did this step.
    Both are compared with the mean of the same step in the group. As the others' checks do not depend on who does this
    step, both parts point where the plan's reward points, without the noise of failures elsewhere. Their weights are
    not quite equal: a mean over k plans keeps (k - 1) / k of a difference, so where few plans tell, a price weighs
    somewhat more than success.

    Args:
        rewards: (rows,) of plans.
        own: (rows, n) part of the reward that each step earned alone.
        failed: (rows, n) bool; steps of which the visible check failed.
        steps: (rows, n) bool; the steps that exist. Plans of one group have the same steps.
        group_ids: (rows,) integers.

    Returns:
        (rows, n), 0 where there is no step.
    """
    shared = rewards - (own * steps).sum(1)
    failures = (failed & steps).sum(1, keepdim=True) - (failed & steps).long()
    telling = steps & (failures == 0)
    advantages = torch.zeros_like(own)
    for step in range(own.shape[1]):
        for part, counted in ((own[:, step], steps[:, step]), (shared, telling[:, step])):
            advantages[:, step] += maths.group_advantages(part, group_ids, counted, scale="none").values
    return advantages
