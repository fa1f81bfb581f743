"""The search for whom to ask next is exact: no order of asking is worth more."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from orchestai.estimate.escalation import Chances, escalations

RNG = np.random.default_rng(5)
POINTS = 7
CHANCES = Chances(
    RNG.random((4, POINTS)), RNG.uniform(0.5, 1, (4, POINTS)), RNG.uniform(0.1, 1, 4), RNG.dirichlet(np.ones(POINTS))
)


def worth(order: tuple[int, ...], price: float, chances: Chances = CHANCES) -> float:
    """Expected success less cost of asking in this order until a reply passes."""
    total, failing = 0.0, chances.belief
    for worker in order:
        total += float(failing @ (chances.passes[worker] * chances.right[worker]))
        total -= price * chances.cost_usd[worker] * failing.sum()
        failing = failing * (1 - chances.passes[worker])
    return total


@pytest.mark.parametrize("price", [0.0, 0.2, 0.5, 1.0, 5.0])
def test_no_order_is_worth_more_than_that_which_is_found(price):
    (policy,) = escalations(CHANCES, np.array([price]))
    order: list[int] = []
    while (worker := policy.after(frozenset(order))) is not None:
        order.append(worker)
    every = [own for length in range(1, 5) for own in permutations(range(4), length)]
    assert worth(tuple(order), price) == pytest.approx(max(worth(own, price) for own in every))


def test_somebody_is_asked_whatever_it_costs_and_nobody_else():
    (policy,) = escalations(CHANCES, np.array([1e6]))
    first = policy.after()
    assert first == CHANCES.cost_usd.argmin()
    assert policy.after(frozenset([first])) is None


def test_after_a_failure_a_worker_that_fails_alike_is_passed_over():
    """The first two pass the same queries; the third, worse alone, passes others."""
    passes = np.array([[0.9, 0.0], [0.88, 0.0], [0.1, 0.9]])
    chances = Chances(passes, np.ones((3, 2)), np.array([0.1, 0.1, 0.1]), np.array([0.6, 0.4]))
    (policy,) = escalations(chances, np.array([1.0]))
    assert policy.after() == 0
    assert policy.after(frozenset([0])) == 2


def test_of_many_workers_those_of_most_worth_are_weighed():
    workers = 30
    passes = np.linspace(0.1, 0.9, workers)[:, None].repeat(2, axis=1)
    chances = Chances(passes, np.ones((workers, 2)), np.full(workers, 0.01), np.array([0.5, 0.5]))
    (policy,) = escalations(chances, np.array([1.0]))
    assert policy.after() == workers - 1
    assert policy.after(frozenset([workers - 1])) == workers - 2
