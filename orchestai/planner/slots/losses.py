"""Plans to imitate as tensors, and the supervised loss of the slot decoder, head by head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from orchestai.planner.slots.decisions import IMPOSSIBLE, DecisionBatch, acyclicity
from orchestai.planner.slots.text_encoder import UnreadableTextError

IGNORE = -100
"""A target that nobody knows; that choice is not trained."""
NO_WORKER = -1
"""The fallback target that means: no further worker."""


class PlanTargets(TypedDict, total=False):
    """Plans of b instructions, padded with `IGNORE` (edges with False) to n steps. What is absent is not trained.

    Keys:
        lengths: (b,) number of steps; without it, the steps whose worker or type is given.
        spans: (b, n, 2) [start, end) character offsets of each step's words.
        task_types, model_selections: (b, n) indices.
        fallback: (b, n, F) indices of workers, then `NO_WORKER`.
        dependencies: (b, n, n) bool; whether the column's step depends on the row's.
    """

    lengths: Tensor
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


OTHERS = 0.1
"""Probability that phase 1 leaves to all workers alike, so that phase 2 draws each of them at times and can learn that
the pool has changed; sure of one worker it never would."""


class PlannerOutputs(TypedDict, total=False):
    """What `PlannerModel.forward` gives for b instructions of at most t tokens and plans of n steps.

    Keys:
        subtask_embeddings: (b, n, d).
        workflow_graph: (b, n, n) probability that the column's step depends on the row's.
        edge_logits: (b, n, n) its logits.
        parent_counts: (b, n, m) logits of having 0, 1, ... parents.
        go_on: (b, m) logits that there is a step number 0, 1, ...; m is n or n + 1.
        span_starts, span_ends: (b, n, t) logits over tokens.
        boundaries: (b, t, 2) logits that the words of some step begin, and end, at a token.
        token_offsets: (b, t, 2) [start, end) character offsets of the tokens; zeros where there is none.
        task_types: (b, n, T) logits; absent, as the next two, where the planner has no pool.
        model_selections: (b, n, W) logits.
        fallback: (b, n, F, W + 1) logits; the last one is that of no further worker.
    """

    subtask_embeddings: Tensor
    workflow_graph: Tensor
    edge_logits: Tensor
    parent_counts: Tensor
    go_on: Tensor
    span_starts: Tensor
    span_ends: Tensor
    boundaries: Tensor
    token_offsets: Tensor
    task_types: Tensor
    model_selections: Tensor
    fallback: Tensor


def supervised_loss(outputs: PlannerOutputs, targets: PlanTargets, lambda_dag: float) -> dict[str, Tensor]:
    """`total_loss = ce_loss + lambda_dag * dag_loss`, beside each head's own loss (`type_loss`, `worker_loss`, ...).

    `ce_loss` is the sum of the heads' cross-entropies, each a mean over the choices whose target is known; that of
    the edges is a mean over steps of the sum over their possible parents. `dag_loss` is the mean of `acyclicity`.
    """
    steps = existing_steps(targets)
    n = steps.shape[1]
    losses = {
        name: cross_entropy(logits, target, OTHERS if name in ("worker_loss", "fallback_loss") else 0.0)
        for name, (logits, target) in choices(outputs, targets).items()
    }
    if "lengths" in targets:
        logits, wanted = stops(outputs["go_on"], targets["lengths"])
        # no plan has two steps: nothing to decide
        losses["stop_loss"] = (
            F.binary_cross_entropy_with_logits(logits, wanted) if len(wanted) else outputs["go_on"].sum() * 0
        )
    if "lengths" in targets and "spans" in targets:
        losses["boundary_loss"] = boundary_cross_entropy(outputs, targets["spans"][:, :n], steps)
    if "dependencies" in targets:
        pairs, drawn = steps[:, :, None] & steps[:, None], targets["dependencies"][:, :n, :n].float()
        wrong = F.binary_cross_entropy_with_logits(outputs["edge_logits"][:, :n, :n], drawn, reduction="none")
        losses["edge_loss"] = (wrong * pairs).sum() / steps.sum()
    ce_loss = torch.stack(list(losses.values())).sum()
    dag_loss = acyclicity(outputs["workflow_graph"][:, :n, :n], steps).mean()
    return losses | {"ce_loss": ce_loss, "dag_loss": dag_loss, "total_loss": ce_loss + lambda_dag * dag_loss}


def boundary_cross_entropy(outputs: PlannerOutputs, spans: Tensor, steps: Tensor) -> Tensor:
    """Mean over steps of the sum over tokens, of plans of which the words of all steps are known.

    Args:
        spans: (b, n, 2) [start, end) character offsets, or `IGNORE`; steps: (b, n) bool, those that exist.
    """
    logits, offsets = outputs["boundaries"], outputs["token_offsets"]
    places = token_spans(spans, offsets)
    known = ((places != IGNORE).all(-1) | ~steps).all(-1)
    at = F.one_hot(places.clamp(min=0), logits.shape[1]) * steps[..., None, None]
    wanted = at.amax(1).transpose(1, 2).to(logits.dtype)
    wrong = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").sum(-1)
    counted = (offsets[..., 1] > 0) & known[:, None]
    return (wrong * counted).sum() / (steps & known[:, None]).sum().clamp(min=1)


def choices(outputs: PlannerOutputs, targets: PlanTargets) -> dict[str, tuple[Tensor, Tensor]]:
    """For each categorical loss whose targets are given, its (b, ..., k) logits and (b, ...) target indices."""
    steps = existing_steps(targets)
    n = steps.shape[1]
    found: dict[str, tuple[Tensor, Tensor]] = {}
    if "spans" in targets:
        start, end = token_spans(targets["spans"][:, :n], outputs["token_offsets"]).unbind(-1)
        found["start_loss"] = outputs["span_starts"][:, :n], start
        found["end_loss"] = outputs["span_ends"][:, :n], end
    if "task_types" in targets and "task_types" in outputs:
        found["type_loss"] = outputs["task_types"][:, :n], targets["task_types"][:, :n]
    if "dependencies" in targets:
        counts = targets["dependencies"][:, :n, :n].sum(1)
        found["parent_count_loss"] = outputs["parent_counts"][:, :n], counts.masked_fill(~steps, IGNORE)
    if "model_selections" in targets and "model_selections" in outputs:
        found["worker_loss"] = outputs["model_selections"][:, :n], targets["model_selections"][:, :n]
    if "fallback" in targets and "fallback" in outputs and targets["fallback"].shape[-1]:
        wanted = targets["fallback"][:, :n]
        none = outputs["fallback"].shape[-1] - 1
        found["fallback_loss"] = outputs["fallback"][:, :n], wanted.masked_fill(wanted == NO_WORKER, none)
    return found


def stops(go_on: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(k,) logits and targets of all decisions to go on or stop; the first step is none, it always exists."""
    step = torch.arange(go_on.shape[1], device=go_on.device)
    decided = (step > 0) & (step <= lengths[:, None])
    return go_on[decided], (step < lengths[:, None])[decided].float()


def cross_entropy(logits: Tensor, targets: Tensor, others: float = 0.0) -> Tensor:
    """Mean over the targets that are known; 0 where none is.

    Args:
        others: probability that is wanted of all possible choices together, in equal parts, beside the targets.
    """
    known = targets != IGNORE
    logp = logits.log_softmax(-1)
    wanted = logp.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    possible = logits > IMPOSSIBLE / 2
    usual = (logp * possible).sum(-1) / possible.sum(-1).clamp(min=1)
    return -(((1 - others) * wanted + others * usual) * known).sum() / known.sum().clamp(min=1)
