"""Plans to imitate, as tensors, and how they become the decisions that the decoder is led along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from orchestai.planner.slots.decisions import DecisionBatch
from orchestai.planner.slots.encoders.encoder import UnreadableTextError

IGNORE = -100
"""A target that nobody knows; that choice is not trained."""
NO_WORKER = -1
"""The fallback target that means: no further worker."""


class PlanTargets(TypedDict, total=False):
    """Plans of b instructions, padded with `IGNORE` (edges with False) to n steps. What is absent is not trained.

    Keys:
        lengths: (b,) number of steps; without it, the steps whose worker or type is given.
        given: (b,) bool; whether the instruction lists the steps, so that stopping and pointing are not trained.
        spans: (b, n, 2) [start, end) character offsets of each step's words.
        task_types, model_selections: (b, n) indices.
        fallback: (b, n, F) indices of workers, then `NO_WORKER`.
        dependencies: (b, n, n) bool; whether the column's step depends on the row's.
    """

    lengths: Tensor
    given: Tensor
    spans: Tensor
    task_types: Tensor
    model_selections: Tensor
    fallback: Tensor
    dependencies: Tensor


def existing_steps(targets: PlanTargets) -> Tensor:
    """(b, n) bool: the steps that the plans have, where n is the length of the longest."""
    per_step = [targets[key] for key in ("task_types", "model_selections") if key in targets]
    if "lengths" in targets:
        lengths = targets["lengths"]
    elif per_step:
        lengths = torch.stack([indices != IGNORE for indices in per_step]).any(0).sum(-1)
    else:
        raise ValueError("targets need lengths, task_types or model_selections")
    return torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None]


def token_spans(spans: Tensor, offsets: Tensor) -> Tensor:
    """Characters to tokens.

    Args:
        spans: (b, n, 2) [start, end) character offsets, or `IGNORE`.
        offsets: (b, t, 2) [start, end) character offsets of each token; zeros where there is none.

    Returns:
        (b, n, 2) the first and the last token that hold a character of the span, both inclusive, or `IGNORE`.
    """
    known = spans >= 0
    start, end = spans.clamp(min=0)[..., None].unbind(-2)
    first = (offsets[:, None, :, 1] <= start) & (offsets[:, None, :, 1] > 0)
    last = (offsets[:, None, :, 0] < end) & (offsets[:, None, :, 1] > 0)
    tokens = torch.stack([first.sum(-1), last.sum(-1) - 1], -1)
    return torch.where(known, tokens, IGNORE)


def check_words(spans: Sequence[tuple[int, int] | None], offsets: NDArray[np.int64]) -> None:
    """See that there is a token in each step's words, where these are in the instruction.

    Args:
        spans: [start, end) character offsets; None of a step that is told in other words.
        offsets: (t, 2) [start, end) character offsets of the instruction's tokens.

    Raises:
        UnreadableTextError: there is none in some step's.
    """
    told = {number: span for number, span in enumerate(spans, 1) if span is not None}
    if not told:
        return
    places = token_spans(torch.tensor([list(told.values())]), torch.from_numpy(offsets)[None])[0].tolist()
    for number, (first, last) in zip(told, places, strict=True):
        if last < first:
            raise UnreadableTextError(f"step {number} has no words")


def given_decisions(targets: PlanTargets, offsets: Tensor, types: int, workers: int, fallbacks: int) -> DecisionBatch:
    """The targets as decisions. A step whose words are not known is given the whole instruction.

    Args:
        offsets: (b, t, 2) as for `token_spans`.
        types: number of task types; the index that stands for a type that is not known.
        workers: number of workers; the index that stands for none, or for one that is not known.
        fallbacks: number of fallbacks per step.
    """
    steps = existing_steps(targets)
    rows, n = steps.shape
    unknown = steps.new_full((rows, n), IGNORE, dtype=torch.long)
    spans = (
        token_spans(targets["spans"][:, :n], offsets) if "spans" in targets else unknown[..., None].expand(-1, -1, 2)
    )
    last = (offsets[..., 1] > 0).sum(-1) - 1
    whole = torch.stack([torch.zeros_like(last), last], -1)[:, None]
    kinds = targets.get("task_types", unknown)[:, :n]
    chosen = targets.get("model_selections", unknown)[:, :n]
    following = targets.get("fallback", unknown[..., None].expand(-1, -1, fallbacks))[:, :n]
    edges = targets.get("dependencies", steps.new_zeros(rows, n, n))[:, :n, :n]
    return DecisionBatch(
        lengths=steps.sum(-1),
        spans=torch.where(spans == IGNORE, whole, spans),
        types=torch.where(kinds == IGNORE, types, kinds),
        workers=torch.where(chosen == IGNORE, workers, chosen),
        fallbacks=torch.where(following < 0, workers, following),
        edges=edges,
    )
