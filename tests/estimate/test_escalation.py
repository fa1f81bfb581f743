"""The search for whom to ask next is exact: no order of asking is worth more."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from orchestai.estimate.plan_options import StepEstimate, escalations

RNG = np.random.default_rng(5)
POINTS = 7
CHANCES = StepEstimate(
    RNG.random((4, POINTS)),
    RNG.uniform(0.5, 1, (4, POINTS)),
    RNG.uniform(0.1, 1, (1, 4)),
    RNG.dirichlet(np.ones(POINTS)),
)


def worth(order: tuple[int, ...], price: float, chances: StepEstimate = CHANCES) -> float:
    """Expected success less cost of asking in this order until a reply passes."""
    total, failing = 0.0, chances.belief
    for worker in order:
        total += float(failing @ (chances.passes[worker] * chances.right[worker]))
        total -= price * chances.spending[0, worker] * failing.sum()
        failing = failing * (1 - chances.passes[worker])
    return total


@pytest.mark.parametrize("price", [0.0, 0.2, 0.5, 1.0, 5.0])
def test_no_order_is_worth_more_than_that_which_is_found(price):
    (order,) = escalations(CHANCES, np.array([price]))
    every = [own for length in range(1, 5) for own in permutations(range(4), length)]
    assert worth(order, price) == pytest.approx(max(worth(own, price) for own in every))


def test_somebody_is_asked_whatever_it_costs_and_nobody_else():
    assert escalations(CHANCES, np.array([1e6])) == [(CHANCES.spending[0].argmin(),)]


def test_after_a_failure_a_worker_that_fails_alike_is_passed_over():
    """The first two pass the same queries; the third, worse alone, passes others."""
    passes = np.array([[0.9, 0.0], [0.88, 0.0], [0.1, 0.9]])
    chances = StepEstimate(passes, np.ones((3, 2)), np.full((1, 3), 0.1), np.array([0.6, 0.4]))
    (order,) = escalations(chances, np.array([1.0]))
    assert order[:2] == (0, 2)


def test_of_many_workers_those_of_most_worth_are_weighed():
    workers = 30
    passes = np.linspace(0.1, 0.9, workers)[:, None].repeat(2, axis=1)
    chances = StepEstimate(passes, np.ones((workers, 2)), np.full((1, workers), 0.01), np.array([0.5, 0.5]))
    (order,) = escalations(chances, np.array([1.0]))
    assert order[:2] == (workers - 1, workers - 2)
