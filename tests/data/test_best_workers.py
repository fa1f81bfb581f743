"""Phase 1 is taught the workers that pay by all attempts, not whoever happened to answer in the run that was kept."""

from __future__ import annotations

import pytest

from orchestai.config import RewardsConfig
from orchestai.config.rl import RewardWeights
from orchestai.data.prepare import fit_estimate, with_best_workers
from orchestai.data.training_file import TrainingExample
from orchestai.estimate.pool_estimate import PoolEstimate
from orchestai.execution.reward import RewardForm, reward_form
from orchestai.workflow import Workflow
from support.serving.logged_pool import INSTRUCTION, STEPS, logs, settings

WORTH = RewardsConfig(form="absolute")


@pytest.fixture(scope="module")
def estimate() -> PoolEstimate:
    fitted = fit_estimate(logs(whole=0), settings())
    assert fitted is not None
    return fitted


def example(*workers: str, task_type: str = "string") -> TrainingExample:
    ends = [INSTRUCTION.index(words) for words in STEPS]
    steps = [
        {
            "id": str(number),
            "instruction": words,
            "span": (start, start + len(words)),
            "task_type": task_type,
            "worker": worker,
            "depends_on": [str(number - 1)] * (number > 1),
        }
        for number, (words, start, worker) in enumerate(zip(STEPS, ends, workers, strict=True), 1)
    ]
    return TrainingExample(instruction=INSTRUCTION, workflow=Workflow(steps))


def reward(usd: float) -> RewardForm:
    """Of 1 for a success, less 1 for so many US dollars."""
    form = reward_form(WORTH, RewardWeights(alpha=1.0, beta=1 / usd), None)
    assert form is not None
    return form


def first_asked(examples: list[TrainingExample]) -> list[list[str | None]]:
    return [[one.worker for one in example.workflow.subtasks] for example in examples]


def test_what_a_success_is_worth_decides_whom_steps_name(estimate: PoolEstimate) -> None:
    """Two dear workers are right always for .02, two cheap ones in four of nine cases for .002."""
    lucky = [example("cheap", "cheap"), example("dear", "cheap")]
    assert first_asked(with_best_workers(lucky, estimate, None, 1)) == [["dear", "dear"]] * 2
    assert first_asked(with_best_workers(lucky, estimate, reward(usd=1.0), 1)) == [["dear", "dear"]] * 2
    assert first_asked(with_best_workers(lucky, estimate, reward(usd=0.01), 1)) == [["cheap", "cheap"]] * 2


def test_plans_that_failed_get_workers_and_steps_that_no_log_speaks_for_keep_theirs(estimate: PoolEstimate) -> None:
    failed, unknown = example("", ""), example("cheap", "cheap", task_type="never logged")
    after = with_best_workers([failed, unknown], estimate, None, 1)
    assert first_asked(after) == [["dear", "dear"], ["cheap", "cheap"]]
    assert after[1] == unknown
