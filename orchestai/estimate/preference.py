"""How much success counts beside price: one number from 0 to 1."""

from __future__ import annotations

import numpy as np

from orchestai.estimate.attempts import Rows, Values


def weight_of_price(prefer: float) -> float:
    """Success that is given up for the price of a typical execution: none at 1, all of it at 0.5, any at 0.

    Args:
        prefer: 0 is the least price, 1 the most success.
    """
    return ((1 - prefer) / prefer) ** 2 if prefer > 0 else float("inf")


def by_preference(success: Values, price: Values, prefer: float) -> Rows:
    """The options, best first. The price of the best never falls as `prefer` rises.

    Args:
        success: (options,) probabilities; price: (options,) in prices of a typical execution.
    """
    weight = weight_of_price(prefer)
    worth = -price if weight == float("inf") else success - weight * price
    return np.lexsort((price, -worth))
