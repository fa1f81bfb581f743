"""What an update learns from: turns as rows, rows as tensors with their advantages, and passes that fit in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from orchestai.config import OptimizationConfig, SamplingConfig
from orchestai.tasks.task import Task
from orchestai.training.rl.formulas import Bound, Level, StepCounts, effective_share, sampler_weights, weight_moments
from orchestai.types import AnyDecisions, TokenDecisions, Turn

BETWEEN = -1
"""Turn number of what stands between two turns: tokens that the policy was given, and does not learn."""


@dataclass(frozen=True, eq=False)
class TrajectoryRow:
    """Some turns of one trajectory; every tensor is (slots,) on the CPU.

    Attributes:
        decisions: of all of them. The tokens between two turns belong to the completion.
        turn: int64; number of the slot's turn in its trajectory, `BETWEEN` where it is of none.
        logp, mask, value, step, sampler_logp: as in `Turn`; between turns the mask is False. `sampler_logp` is `logp`
            where a turn has none of its own.
    """

    decisions: AnyDecisions
    turn: Tensor
    logp: Tensor
    mask: Tensor
    value: Tensor
    step: Tensor
    sampler_logp: Tensor


def rows_of(turns: Sequence[Turn]) -> list[TrajectoryRow]:
    """The rows of one trajectory, in order of time.

    A turn of tokens whose prompt begins with all of the row before, prompt and completion, goes on in that row. Where
    a chat template drops or rewrites what was said, it begins another (a fork), so what is learned from is always what
    was read.
    """
    rows: list[TrajectoryRow] = []
    for number, turn in enumerate(turns):
        row = TrajectoryRow(
            turn.decisions,
            torch.full_like(turn.step, number),
            turn.logp,
            turn.mask,
            turn.value,
            turn.step,
            turn.logp if turn.sampler_logp is None else turn.sampler_logp,
        )
        given = _given_since(rows[-1].decisions, row.decisions) if rows else None
        if given is None:
            rows.append(row)
        else:
            rows[-1] = _joined(rows[-1], given, row)
    return rows


def _given_since(before: AnyDecisions, now: AnyDecisions) -> Tensor | None:
    """The tokens of the prompt after all that stood before; None where the prompt does not begin with that."""
    if not isinstance(before, TokenDecisions) or not isinstance(now, TokenDecisions):
        return None
    known = torch.cat([before.prompt, before.completion])
    return now.prompt[len(known) :] if torch.equal(now.prompt[: len(known)], known) else None


def _joined(row: TrajectoryRow, given: Tensor, following: TrajectoryRow) -> TrajectoryRow:
    first, second = row.decisions, following.decisions
    assert isinstance(first, TokenDecisions)
    assert isinstance(second, TokenDecisions)

    def join(before: Tensor, after: Tensor, between: float) -> Tensor:
        return torch.cat([before, before.new_full((len(given),), between), after])

    return TrajectoryRow(
        TokenDecisions(first.prompt, torch.cat([first.completion, given, second.completion])),
        join(row.turn, following.turn, BETWEEN),
        join(row.logp, following.logp, 0),
        join(row.mask, following.mask, False),
        join(row.value, following.value, 0),
        join(row.step, following.step, -1),
        join(row.sampler_logp, following.sampler_logp, 0),
    )


_LARGEST_WEIGHT = 3.0
"""Of a decision that the sampler drew too rarely (`sampler_correction`)."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows to learn from; (rows, slots) tensors on the CPU unless said otherwise, shorter rows padded on the right.

    Attributes:
        tasks, decisions: one per row.
        max_slots: most slots of the loss that a trajectory can have; the constant that `dr_grpo` divides by.
        logp, values: when the decisions were sampled; of the policy.
        sampler_logp: the same, of what drew the decisions.
        mask: bool; the slots in the loss.
        weights: of each decision in the policy loss, correcting for a sampler that is not quite the policy.
        advantages: of each decision.
        returns: targets of the value; for PPO.
        sequences: (rows,) int64; number of the trajectory that the row belongs to.
        lengths: (rows,) slots of that whole trajectory.
        boldness: share of the entropy bonus that counts.
    """

    tasks: tuple[Task, ...]
    decisions: tuple[AnyDecisions, ...]
    max_slots: int
    logp: Tensor
    sampler_logp: Tensor
    mask: Tensor
    values: Tensor
    weights: Tensor
    advantages: Tensor
    returns: Tensor
    sequences: Tensor
    lengths: Tensor
    boldness: float = 1.0

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, rows: Sequence[int]) -> Batch:
        """The rows of those numbers."""
        index = torch.tensor(rows, dtype=torch.long)
        some = replace(self, tasks=tuple(self.tasks[i] for i in rows), decisions=tuple(self.decisions[i] for i in rows))
        return some._each(lambda tensor: tensor[index])

    def to(self, device: torch.device) -> Batch:
        return self._each(lambda tensor: tensor.to(device))

    def counts(self) -> StepCounts:
        """What the rows add up to, if they are all of one optimizer step."""
        return StepCounts(len(self.sequences.unique()), int(self.mask.sum()), self.max_slots)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        changed: dict[str, Any] = {name: change(x) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **changed)


def corrected(batch: Batch, logp: Tensor, config: SamplingConfig) -> tuple[Batch, Mapping[str, float]]:
    """The batch with those log-probabilities of the policy, and with weights for what the sampler drew too often or too
    rarely; and metrics about the weights.

    Args:
        logp: (rows, slots).
    """
    if config.sampler_correction is None:
        return replace(batch, logp=logp), {}
    level, bound = config.sampler_correction.split("_")
    level, bound = cast("Level", level), cast("Bound", bound)
    drawn, mask = batch.sampler_logp, batch.mask
    weights = sampler_weights(logp, drawn, mask, level, bound, _LARGEST_WEIGHT)
    plain = sampler_weights(logp, drawn, mask, level, "truncate", torch.inf)
    count = mask.sum().clamp(min=1)
    of_slots, of_rows = (weight_moments(logp - drawn, mask, each) for each in ("token", "sequence"))
    return replace(batch, logp=logp, weights=weights), {
        "sampler_ratio": float((plain * mask).sum() / count),
        "sampler_max_ratio": float((plain * mask).max()),
        "sampler_bounded_share": float((weights != plain).sum() / count),
        "sampler_ess": effective_share(of_slots),
        "sampler_ess_sequence": effective_share(of_rows),
    }


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
