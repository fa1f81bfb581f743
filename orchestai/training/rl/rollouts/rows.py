"""Turns as rows: those that go on where the one before ended are read in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

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
        row = _alone(number, turn)
        given = _given_since(rows[-1].decisions, row.decisions) if rows else None
        if given is None:
            rows.append(row)
        else:
            rows[-1] = _joined(rows[-1], given, row)
    return rows


def _alone(number: int, turn: Turn) -> TrajectoryRow:
    return TrajectoryRow(
        turn.decisions,
        torch.full_like(turn.step, number),
        turn.logp,
        turn.mask,
        turn.value,
        turn.step,
        turn.logp if turn.sampler_logp is None else turn.sampler_logp,
    )


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
