"""Whom to ask for each step of a plan: all choices that no other beats in price and success at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np

from orchestai.estimate.attempts import Rows, Values


def by_preference(success: Values, price: Values, prefer: float) -> Rows:
    """The options, best first. The price of the best never falls as `prefer` rises.

    Args:
        success: (options,) probabilities; price: (options,) in prices of a typical execution.
        prefer: from 0, the least price, to 1, the most success. For the price of a typical execution 1 gives up no
            success, 0.5 all of it, and 0 any.
    """
    worth = success - ((1 - prefer) / prefer) ** 2 * price if prefer > 0 else -price
    return np.lexsort((price, -worth))


_MOST_WORKERS = 12
"""Workers that are weighed for a step; of more, those that are likeliest right."""
_APART = 1e-4
"""Options of a whole plan are kept apart where they differ by so much in success, in shares of the higher."""


@dataclass(frozen=True, eq=False)
class StepEstimate:
    """What workers may do for one step.

    Attributes:
        passes: (workers,) probability that there is an answer that the step's own check does not refuse.
        right: (workers,) probability that such an answer is right.
        spending: (3, workers) expected US dollars, seconds and tokens of asking.
    """

    passes: Values
    right: Values
    spending: Values

    def asking(self, order: Sequence[int]) -> tuple[float, Values]:
        """Probability that the step is right, and (3,) expected spending, of asking in this order.

        Whoever passes ends the search; workers fail independently on what is known of the step.
        """
        failing, right, spent = 1.0, 0.0, np.zeros(3)
        for worker in order:
            spent = spent + failing * self.spending[:, worker]
            right += float(failing * self.passes[worker] * self.right[worker])
            failing *= float(1 - self.passes[worker])
        return right, spent


@dataclass(frozen=True, eq=False)
class PlanOptions:
    """Choices of workers for the steps of a plan, by ascending price and success.

    Attributes:
        price: (options,) US dollars, the price of time included.
        success: (options,) probability that all steps are right.
        spending: (options, 3) expected US dollars, seconds and tokens of all steps.
        workers: for each option and step, whom to ask in which order.
        ways: of the answers' judge, which the options are; else none.
    """

    price: Values
    success: Values
    spending: Values
    workers: tuple[tuple[tuple[int, ...], ...], ...]
    ways: tuple[int, ...] = ()


def plan_options(steps: Sequence[StepEstimate], allowed: Sequence[int], longest: int) -> PlanOptions:
    """All choices that no other beats: none is cheaper and as likely right.

    A plan is right where all of its steps are, and costs what they do, so that what is beaten for one step is beaten in
    any plan, and options can be combined step by step.

    Args:
        steps: at least one.
        allowed: workers by index, at least one.
        longest: most workers to ask for one step.
    """
    whole: PlanOptions | None = None
    for step in steps:
        options = _step_options(step, tuple(allowed), longest)
        if whole is None:
            whole = options
            continue
        price = (whole.price[:, None] + options.price).ravel()
        success = (whole.success[:, None] * options.success).ravel()
        kept = _unbeaten(price, success, _APART)
        first, second = np.divmod(kept, len(options.price))
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        workers = tuple(whole.workers[i] + options.workers[j] for i, j in pairs)
        whole = PlanOptions(price[kept], success[kept], whole.spending[first] + options.spending[second], workers)
    assert whole is not None
    return whole


@lru_cache(maxsize=4096)
def _step_options(step: StepEstimate, allowed: tuple[int, ...], longest: int) -> PlanOptions:
    chance = step.passes * step.right
    considered = sorted(sorted(allowed, key=lambda worker: -chance[worker])[:_MOST_WORKERS])
    passes, right = step.passes[considered], chance[considered]
    spending = step.spending[:, considered]
    parts = []
    for length in range(1, min(longest, len(considered)) + 1):
        orders = _orders(len(considered), length)
        failing, success, spent = np.ones(len(orders)), np.zeros(len(orders)), np.zeros((len(orders), 3))
        for worker in orders.T:
            spent = spent + failing[:, None] * spending[:, worker].T
            success = success + failing * right[worker]
            failing = failing * (1 - passes[worker])
        parts.append((success, spent, [tuple(considered[place] for place in order) for order in orders.tolist()]))
    success, spent = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    names = [order for part in parts for order in part[2]]
    price = spent[:, 0]
    kept = _unbeaten(price, success, 0.0)
    return PlanOptions(price[kept], success[kept], spent[kept], tuple((names[one],) for one in kept.tolist()))


def _unbeaten(price: Values, success: Values, apart: float) -> Rows:
    """Those that are likelier right than all that cost no more, by ascending price."""
    order = np.lexsort((-success, price))
    best, kept = -1.0, []
    for place, value in zip(order.tolist(), success[order].tolist(), strict=True):
        if value > best * (1 + apart):
            kept.append(place)
            best = value
    return np.array(kept, dtype=np.intp)


@lru_cache(maxsize=64)
def _orders(workers: int, length: int) -> Rows:
    """(orders, length) all orders of so many different workers."""
    return np.array(list(permutations(range(workers), length)), dtype=np.intp)
