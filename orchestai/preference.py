"""How much success counts beside price, and money beside time: the scale of `prefer`."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Preference:
    """What one answer should be: right, cheap, or quick.

    Attributes:
        prefer: from 0, the least price, to 1, the most success.
        time_share: of the price, in [0, 1], what counts as time: a price is `1 - time_share` in costs of a typical
            execution, and `time_share` in latencies of a typical one.

    Raises:
        ValueError: one of them is not in [0, 1].
    """

    prefer: float
    time_share: float = 0.0

    def __post_init__(self) -> None:
        for name in ("prefer", "time_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}, not from 0 to 1")

    @classmethod
    def priced(cls, prefer: float, hour_usd: float, typical_usd: float, typical_seconds: float) -> Preference:
        """The preference where an hour is worth `hour_usd` beside what is paid.

        Args:
            typical_usd, typical_seconds: what a typical execution costs, and how long it takes.
        """
        worth_of_time = hour_usd / 3600 * typical_seconds
        price = typical_usd + worth_of_time
        return cls(prefer, worth_of_time / price if price > 0 else 0.0)

    def hour_usd(self, typical_usd: float, typical_seconds: float) -> float:
        """What an hour is worth beside what is paid; the inverse of `priced`, at most a million typical costs."""
        least = 1e-6 * typical_usd
        paid = max((1 - self.time_share) * typical_usd, least)
        return 3600 * self.time_share * typical_usd**2 / (paid * typical_seconds) if paid and typical_seconds else 0.0

    @property
    def shares(self) -> tuple[float, float, float]:
        """What success, a typical cost and a typical latency weigh; they add up to 1.

        Success less the others ranks as `success - weight_of_price(prefer) * price` does, and stays in bounds at 0.
        """
        price = (1 - self.prefer) ** 2 / ((1 - self.prefer) ** 2 + self.prefer**2)
        return 1 - price, price * (1 - self.time_share), price * self.time_share


def weight_of_price(prefer: float) -> float:
    """Success that is given up for the price of a typical execution: none at 1, all of it at 0.5, any at 0.

    Args:
        prefer: 0 is the least price, 1 the most success.
    """
    return ((1 - prefer) / prefer) ** 2 if prefer > 0 else math.inf
