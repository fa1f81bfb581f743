"""Whom to ask next when the ones before failed a visible check, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from orchestai.estimate.attempts import Rows, Values

MOST_WORKERS: Final = 12
"""Workers that are weighed against each other; of more, those that are worth most alone."""


@dataclass(frozen=True, eq=False)
class Escalation:
    """What to do for one query.

    Attributes:
        workers: by index, those that are considered.
        following: (2 ** workers,) whom of these to ask after a set of them failed, -1 for nobody; the set is a number
            with a bit for each.
    """

    workers: Rows
    following: Rows

    def after(self, failed: frozenset[int] = frozenset()) -> int | None:
        """The worker to ask when these failed the check, by index; None where nobody is worth the cost."""
        asked = sum(1 << place for place, worker in enumerate(self.workers.tolist()) if worker in failed)
        place = int(self.following[asked])
        return None if place < 0 else int(self.workers[place])


@dataclass(frozen=True, eq=False)
class Chances:
    """What one query's workers may do, for each point of its hidden traits.

    Attributes:
        passes: (workers, points) probability that a reply passes the visible check.
        right: (workers, points) probability that one that passes is right.
        cost_usd: (workers,) expected, in US dollars.
        belief: (points,) the probability of each.
    """

    passes: Values
    right: Values
    cost_usd: Values
    belief: Values


def escalations(chances: Chances, prices: Values) -> list[Escalation]:
    """The policies of the highest expected `success - price * cost`, one per price, searched over all orders.

    A reply that passes ends the search; asking stops where no further worker is worth its cost. Somebody is always
    asked first. Given the hidden traits workers fail independently, so that the belief after failures depends on who
    failed alone, not on their order (dynamic programming over sets).

    Args:
        prices: (prices,) of a US dollar, in successes.
    """
    worth = (chances.passes * chances.right) @ chances.belief - prices.min() * chances.cost_usd
    workers = np.sort(np.argsort(-worth, kind="stable")[:MOST_WORKERS])
    passes, cost = chances.passes[workers], chances.cost_usd[workers]
    count = len(workers)
    failing = chances.belief[None]
    for chance in passes:
        failing = np.concatenate([failing, failing * (1 - chance)])
    reached = failing.sum(axis=1)
    gained = failing @ (passes * chances.right[workers]).T
    sets = np.arange(1 << count)
    asked = (sets[:, None] >> np.arange(count)) & 1 == 1
    larger = sets[:, None] | (1 << np.arange(count))
    by_size = [np.flatnonzero(asked.sum(axis=1) == size) for size in range(count)]
    found = []
    for price in prices:
        value, following = np.zeros(len(sets)), np.full(len(sets), -1, dtype=np.intp)
        for own in reversed(by_size):
            worth = gained[own] - price * cost * reached[own][:, None] + value[larger[own]]
            worth[asked[own]] = -np.inf
            best = worth.argmax(axis=1)
            value[own] = np.maximum(worth[np.arange(len(own)), best], 0.0)
            following[own] = np.where((value[own] > 0) | (own == 0), best, -1)
        found.append(Escalation(workers, following))
    return found
