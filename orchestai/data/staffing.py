"""Whom phase 1 is taught to ask: the workers of the highest expected reward, by all attempts that were logged.

The best execution of a task that was tried a few times is the luckiest one too: it names whoever happened to answer
rightly, at any price. The estimate knows what the same workers did on the same and on like steps of other tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchestai.data.training_file import TrainingExample
from orchestai.estimate.plan_options import plan_options
from orchestai.estimate.pool_estimate import PoolEstimate
from orchestai.execution.reward import RewardForm
from orchestai.planner.base import Plan
from orchestai.planner.expected_reward import expected_reward
from orchestai.planner.outlook import PoolOutlook


def staffed(
    examples: Sequence[TrainingExample], estimate: PoolEstimate, reward: RewardForm | None, longest: int
) -> list[TrainingExample]:
    """The examples with the estimate's workers for their steps.

    Plans that failed get workers, too. Examples with steps that the estimate knows too little of stay as they are.

    Args:
        reward: of phase 2; None: success alone counts.
        longest: most workers to ask for one step.
    """
    pool, everybody = PoolOutlook(estimate), range(len(estimate.workers))

    def staff(example: TrainingExample) -> TrainingExample:
        outlook = pool.of(Plan(workflow=example.workflow, raw_valid=True, confidence=1.0), example.instruction)
        if outlook is None:
            return example
        options = plan_options(outlook.steps, everybody, longest)
        best = int(np.argmax(expected_reward(options, estimate, reward)))
        return example.model_copy(update={"workflow": outlook.with_workers(options.workers[best])})

    return [staff(example) for example in examples]
