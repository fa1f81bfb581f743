"""Means with intervals. An entry that is NaN stands for an attempt that could not be judged, and is left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_Z95 = 1.959963984540054
_BLOCK = 4_000_000
"""Numbers drawn at a time, to bound memory."""


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % interval over `n` entries; NaN throughout where n is 0."""

    mean: float
    low: float
    high: float
    n: int

    def signed(self) -> str:
        """`+1.25 [+0.50, +2.00]`, or `-` where there is nothing."""
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]" if self.n else "-"

    def to_dict(self) -> dict[str, float | int | None]:
        """JSON-ready: NaN becomes null."""
        return {"mean": number(self.mean), "low": number(self.low), "high": number(self.high), "n": self.n}


_NOTHING = Interval(math.nan, math.nan, math.nan, 0)


def number(value: float) -> float | None:
    """The value, or None where JSON has no number for it."""
    return float(value) if math.isfinite(value) else None


def mean(values: Values) -> float:
    """Mean of the entries that are not NaN; NaN where there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else math.nan


def bootstrap_mean(values: Values, *, draws: int = 10_000, seed: int = 0) -> Interval:
    """Mean of `values` (n,) with the percentile bootstrap interval."""
    return mean_over_groups([values], draws=draws, seed=seed)


def mean_over_groups(groups: Sequence[Values], *, draws: int = 10_000, seed: int = 0) -> Interval:
    """Mean of the groups' means; the bootstrap draws entries within each group. Groups without entries are left out."""
    known = [values for group in groups if (values := group[~np.isnan(group)]).size]
    if not known:
        return _NOTHING
    rng = np.random.default_rng(seed)
    means = []
    for values in known:
        rows = max(1, _BLOCK // values.size)
        blocks = (min(rows, draws - done) for done in range(0, draws, rows))
        parts = [values[rng.integers(0, values.size, (size, values.size))].mean(axis=1) for size in blocks]
        means.append(np.concatenate(parts))
    drawn = np.mean(means, axis=0)
    low, high = np.quantile(drawn, (0.025, 0.975))
    center = np.mean([values.mean() for values in known])
    return Interval(float(center), float(low), float(high), sum(values.size for values in known))


def paired_difference(ours: Values, theirs: Values, *, draws: int = 10_000, seed: int = 0) -> Interval:
    """Mean of `ours - theirs`, both (n,), with the bootstrap interval over the tasks that both were judged on."""
    return bootstrap_mean(ours - theirs, draws=draws, seed=seed)


def proportion(successes: Values) -> Interval:
    """Share of ones in `successes` (n,) with Wilson's interval, which stays honest at 0 % and at 100 %."""
    known = successes[~np.isnan(successes)]
    n = known.size
    if n == 0:
        return _NOTHING
    share = float(known.mean())
    centre = (share + _Z95**2 / (2 * n)) / (1 + _Z95**2 / n)
    half = _Z95 / (1 + _Z95**2 / n) * math.sqrt(share * (1 - share) / n + _Z95**2 / (4 * n**2))
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half), n)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that of k samples, drawn without replacement from n of which c are right, at least one is.

    Its mean over tasks is an unbiased estimate of a model's pass@k (Chen et al. 2021, arXiv 2107.03374).

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, not n={n}, c={c}, k={k}")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)
