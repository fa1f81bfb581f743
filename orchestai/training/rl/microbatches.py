"""An optimizer step cut into forward passes that fit in memory, the same number of them in every process."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from orchestai.config import OptimizationConfig
from orchestai.types import AnyDecisions

Cost = Callable[[Sequence[AnyDecisions]], int]
"""Slots that one forward pass over some rows computes (`Policy.cost`)."""


def cut(decisions: Sequence[AnyDecisions], cost: Cost, config: OptimizationConfig) -> list[list[int]]:
    """Numbers of the rows of each pass, in order: as many neighbors as `micro_batch_tokens` or `micro_batch_size` let.

    A row that alone costs more than the budget makes a pass.
    """
    budget, size = config.micro_batch_tokens, config.micro_batch_size
    parts: list[list[int]] = []
    for row in range(len(decisions)):
        grown = [*parts[-1], row] if parts else []
        fits = len(grown) <= size if budget is None else cost([decisions[i] for i in grown]) <= budget
        if grown and fits:
            parts[-1] = grown
        else:
            parts.append([row])
    return parts


def passes(
    decisions: Sequence[AnyDecisions], processes: int, cost: Cost, config: OptimizationConfig
) -> list[list[list[int]]]:
    """For each process, the rows of each of its passes; a process with less to do has empty passes at the end.

    Each takes a stretch of neighbors, because rows with one prompt share it if they are in one pass.
    """
    each = math.ceil(len(decisions) / processes)
    shares = [range(each * rank, min(each * (rank + 1), len(decisions))) for rank in range(processes)]
    parts = [
        [[share[i] for i in part] for part in cut([decisions[row] for row in share], cost, config)] for share in shares
    ]
    most = max(map(len, parts))
    return [part + [[]] * (most - len(part)) for part in parts]
