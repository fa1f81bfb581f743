"""Options in the order of a preference."""

from __future__ import annotations

import numpy as np

from orchestai.estimate.attempts import Rows, Values
from orchestai.preference import weight_of_price


def by_preference(success: Values, price: Values, prefer: float) -> Rows:
    """The options, best first. The price of the best never falls as `prefer` rises.

    Args:
        success: (options,) probabilities; price: (options,) in prices of a typical execution.
    """
    weight = weight_of_price(prefer)
    worth = -price if weight == float("inf") else success - weight * price
    return np.lexsort((price, -worth))
