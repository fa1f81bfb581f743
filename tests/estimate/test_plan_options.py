"""Whom to ask: no choice that is left out beats one that is kept, and a plan costs less the more cost counts."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np

from orchestai.estimate.plan_options import StepEstimate, plan_options

WORKERS = 4


def step(seed: int) -> StepEstimate:
    rng = np.random.default_rng(seed)
    return StepEstimate(rng.random(WORKERS), rng.random(WORKERS), rng.random((3, WORKERS)))


def orders(allowed: tuple[int, ...], longest: int) -> list[tuple[int, ...]]:
    return [order for length in range(1, longest + 1) for order in permutations(allowed, length)]


def test_the_options_of_a_plan_are_those_that_no_other_choice_beats():
    steps, allowed = [step(1), step(2), step(3)], (0, 1, 3)
    options = plan_options(steps, allowed, longest=2)
    assert (np.diff(options.price) > 0).all()
    assert (np.diff(options.success) > 0).all()
    every = []
    for choice in product(orders(allowed, 2), repeat=3):
        asked = [one.asking(order) for one, order in zip(steps, choice, strict=True)]
        spent = sum(spending for _, spending in asked)
        every.append((spent[0], np.prod([right for right, _ in asked])))
    for price, success in every:
        affordable = options.success[options.price <= price * (1 + 1e-9)]
        assert affordable.size
        assert affordable.max() >= success * (1 - 1e-3)


def test_an_option_says_what_asking_in_its_order_gives():
    steps = [step(4), step(5)]
    options = plan_options(steps, range(WORKERS), longest=3)
    for success, spending, workers in zip(options.success, options.spending, options.workers, strict=True):
        asked = [one.asking(order) for one, order in zip(steps, workers, strict=True)]
        np.testing.assert_allclose(success, np.prod([right for right, _ in asked]))
        np.testing.assert_allclose(spending, sum(spent for _, spent in asked))


def test_the_best_option_costs_less_the_more_cost_counts():
    options = plan_options([step(6), step(7)], range(WORKERS), longest=3)
    prices = np.logspace(-3, 3, 200)
    costs = [options.price[np.argmax(options.success - weight * options.price)] for weight in prices]
    assert (np.diff(costs) <= 0).all()
    assert costs[0] > costs[-1]
