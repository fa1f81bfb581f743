"""The pool's estimate knows what was logged, tells new subtasks by old ones, and its probabilities come true."""

from __future__ import annotations

import numpy as np
import pytest

from orchestai.estimate.attempts import StepAttempts
from orchestai.estimate.calibration import expected_calibration_error
from orchestai.estimate.pool_estimate import PoolEstimate, fit_pool_estimate
from orchestai.planner.checkpoint import estimate_from, read_estimate, write_estimate
from orchestai.planner.forecast import Familiarity

SUBTASKS, EXECUTIONS = 60, 600
WORKERS = ("cheap", "dear", "broken")
USD = np.array([0.001, 0.1, 0.01])
RNG = np.random.default_rng(0)
EMBEDDINGS = RNG.normal(size=(SUBTASKS, 8))
EMBEDDINGS /= np.linalg.norm(EMBEDDINGS, axis=1, keepdims=True)
DOES = np.stack([EMBEDDINGS[:, 0] > 0, RNG.random(SUBTASKS) < 0.9, np.zeros(SUBTASKS, dtype=bool)], axis=1)
"""Whether a worker does a subtask: by its words, by chance, never."""


def logged(executions: int, seed: int) -> StepAttempts:
    """Executions of two random subtasks each, by two random workers; who passes is right four times of five."""
    rng = np.random.default_rng(seed)
    planned, succeeded, attempts = [], [], []
    for number in range(executions):
        rows = rng.choice(SUBTASKS, 2, replace=False).tolist()
        orders = [tuple(rng.choice(3, 2, replace=False).tolist()) for _ in rows]
        right = []
        for row, order in zip(rows, orders, strict=True):
            for worker in order:
                passed = bool(DOES[row, worker])
                right.append(passed and rng.random() < 0.8)
                attempts.append((number, row, worker, passed, right[-1], USD[worker]))
                if passed:
                    break
            else:
                continue
        answered = [any(DOES[row, worker] for worker in order) for row, order in zip(rows, orders, strict=True)]
        planned.append(tuple(zip(rows, orders, strict=True)))
        succeeded.append(all(answered) and sum(right) == 2)
    execution, row, worker, passed, right, usd = map(np.array, zip(*attempts, strict=True))
    return StepAttempts(
        WORKERS,
        tuple(f"subtask {row}" for row in range(SUBTASKS)),
        ("kind",) * SUBTASKS,
        np.arange(SUBTASKS),
        USD,
        tuple(planned),
        np.array(succeeded, dtype=float),
        np.full(executions, 0.1),
        np.full(executions, 2.0),
        execution,
        row,
        worker,
        passed.astype(float),
        right.astype(float),
        np.stack([usd, 10 * usd, 1000 * usd], axis=1),
    )


@pytest.fixture(scope="module")
def estimate() -> PoolEstimate:
    fitted = fit_pool_estimate(logged(EXECUTIONS, 1), EMBEDDINGS)
    assert fitted is not None
    return fitted


def test_what_was_logged_of_a_subtask_is_known(estimate):
    steps = estimate.steps(estimate.known)
    passes = np.array([step.passes for step in steps])
    tried = estimate.tried[:, : len(WORKERS)] >= 3
    assert np.abs(passes - DOES)[tried].max() < 0.3
    spending = np.array([step.spending[0] for step in steps])
    np.testing.assert_allclose(spending[tried], np.broadcast_to(USD, spending.shape)[tried], rtol=0.05)


def test_probabilities_of_plans_come_true_for_executions_that_were_not_learned_from(estimate):
    other = logged(EXECUTIONS, 2)
    steps = estimate.steps(estimate.known)
    chance = [np.prod([steps[row].asking(order)[0] for row, order in planned]) for planned in other.planned]
    assert expected_calibration_error(estimate.before.apply(np.array(chance)), other.succeeded) < 0.06


def test_an_estimate_is_the_same_after_it_was_stored(estimate, tmp_path):
    path = tmp_path / "training_data.estimate.pt"
    write_estimate(path, estimate)
    state = read_estimate(path)
    assert state is not None
    again = estimate_from(state, "here")
    for one, other in zip(estimate.steps(estimate.known), again.steps(again.known), strict=True):
        np.testing.assert_array_equal(one.passes, other.passes)
        np.testing.assert_array_equal(one.spending, other.spending)
    assert (again.before, again.workers) == (estimate.before, estimate.workers)
    write_estimate(path, None)
    assert read_estimate(path) is None


# An estimate learned on one suite expected two in five of the natural tasks to be solved, of which none was.


def around(centers: np.ndarray, count: int, spread: float) -> np.ndarray:
    """(centers * count, width) unit vectors about the centers."""
    found = np.repeat(centers, count, axis=0)
    found = found + spread * RNG.standard_normal(found.shape)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_of_other_things_it_knows_nothing_and_of_its_own_nearly_all():
    own, other = np.eye(64)[:8], np.eye(64)[8:]
    known = Familiarity.of(around(own, 40, 0.1))
    assert known.knows(around(own, 25, 0.1)).mean() > 0.95
    assert known.knows(known.embeddings).all()
    assert not known.knows(around(other, 25, 0.1)).any()


def test_where_all_that_was_attempted_is_nearly_the_same_other_words_for_it_are_known():
    """Of a hundred "look up town N" each is far more like the next than "look the town up" is."""
    alike = Familiarity.of(around(np.eye(8)[:1], 100, 0.02))
    other_words = np.array([[0.8, 0.6, 0, 0, 0, 0, 0, 0]])
    assert alike.knows(other_words).all()
    assert not alike.knows(np.eye(8)[1:2]).any()
