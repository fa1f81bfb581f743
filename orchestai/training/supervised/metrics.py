"""How well plans are imitated, counted so that metrics of batches add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from orchestai.planner.base import Plan
from orchestai.planner.plan_metrics import Closeness, F1Count, is_exact, match_words, same_workers
from orchestai.planner.slots.decisions import likeliest_edges
from orchestai.planner.slots.decoding_rules import is_acyclic, repair
from orchestai.planner.slots.losses import (
    IGNORE,
    PlannerOutputs,
    PlanTargets,
    choices,
    existing_steps,
    stops,
    token_spans,
)
from orchestai.types import Decisions
from orchestai.workflow import Subtask, Workflow


@dataclass
class RunningMean:
    """Weighted means by name."""

    _sums: dict[str, float] = field(default_factory=dict)
    _weights: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, mean: float, weight: float = 1.0) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + mean * weight
        self._weights[name] = self._weights.get(name, 0.0) + weight

    def means(self) -> dict[str, float]:
        """Names without any weight are left out."""
        return {name: total / self._weights[name] for name, total in self._sums.items() if self._weights[name]}


class EdgeCounts(F1Count):
    """Edges predicted along the steps of the reference."""

    def count(self, predicted: Tensor, wanted: Tensor) -> None:
        self.add(int((predicted & wanted).sum()), int(predicted.sum()), int(wanted.sum()))

    def metrics(self) -> dict[str, float]:
        """Precision, recall and F1; 1 where there is nothing to find and nothing was found."""
        return {
            "edge_precision": self.both / self.planned if self.planned else float(not self.wanted),
            "edge_recall": self.both / self.wanted if self.wanted else float(not self.planned),
            "edge_f1": self.f1,
        }


def count_heads(outputs: PlannerOutputs, targets: PlanTargets, running: RunningMean, edges: EdgeCounts) -> None:
    """Accuracy of each head, and validity of the likely edges, when led along the plans to imitate."""
    for loss, (logits, wanted) in choices(outputs, targets).items():
        known = wanted != IGNORE
        right = (logits.argmax(-1) == wanted) & known
        count = int(known.sum())
        running.add(loss.replace("_loss", "_accuracy"), int(right.sum()) / max(count, 1), count)
    logits, wanted = stops(outputs["go_on"], targets["lengths"])
    running.add("stop_accuracy", float(((logits > 0) == wanted.bool()).float().mean()), len(wanted))
    steps = existing_steps(targets)
    n = steps.shape[1]
    logits = outputs["edge_logits"][:, :n, :n].detach()
    likely = likeliest_edges(logits, outputs["parent_counts"][:, :n], steps)
    edges.count(likely, targets["dependencies"][:, :n, :n])
    for graph, odds in zip(likely.cpu().numpy(), logits.cpu().numpy(), strict=True):
        running.add("raw_validity", float(is_acyclic(graph)))
        running.add("decoded_validity", float(is_acyclic(repair(graph, odds))))


def count_exact(made: Workflow | None, wanted: Workflow, running: RunningMean) -> None:
    """Count one plan beside the one to imitate.

    `exact_decomposition` asks for the same words, types and parents in the same order, `exact_plan` also for the same
    first workers; what `wanted` leaves open (a type that nobody named, the workers of an execution that failed) is
    never wrong.
    """
    in_place = {i: i for i in range(len(wanted))}
    exact = made is not None and is_exact(made, wanted, in_place)
    running.add("exact_decomposition", float(exact))
    running.add("exact_plan", float(exact and made is not None and same_workers(made, wanted, in_place)))


def written_plans_metrics(plans: Sequence[Plan], wanted: Sequence[Workflow]) -> dict[str, float]:
    """Shares of plans that were decoded freely, and F1 scores over all of them.

    A step is found if its words are. An edge is found if it joins the steps that it should.
    """
    running, counts = RunningMean(), Closeness()
    for plan, target in zip(plans, wanted, strict=True):
        made = plan.workflow
        running.add("raw_validity", float(plan.raw_valid))
        running.add("valid_plans", float(made is not None))
        count_exact(made, target, running)
        counts.add(made, target, match_words(made, target) if made is not None else {})
    return {**running.means(), **counts.to_dict()}


def count_plans(plans: Sequence[Plan], outputs: PlannerOutputs, targets: PlanTargets, running: RunningMean) -> None:
    """`count_exact` of steps that are pointed at, whose words are the same if their tokens are."""
    spans = token_spans(targets["spans"], outputs["token_offsets"]).cpu()
    types, workers, edges = (targets[key].cpu() for key in ("task_types", "model_selections", "dependencies"))
    for i, (plan, n) in enumerate(zip(plans, targets["lengths"].tolist(), strict=True)):
        made, chosen = None, plan.decisions
        if isinstance(chosen, Decisions) and plan.workflow is not None:
            made = _as_workflow(torch.tensor(plan.workflow.adjacency()), chosen.spans, chosen.types, chosen.workers)
        wanted = _as_workflow(edges[i, :n, :n], spans[i, :n], types[i, :n], workers[i, :n])
        count_exact(made, wanted, running)


def reference_plans(targets: PlanTargets) -> list[Workflow | None]:
    """The plans to imitate, as steps at places in the instruction; None where the place of one is not known."""
    plans: list[Workflow | None] = []
    for n, spans, edges in zip(targets["lengths"], targets["spans"], targets["dependencies"], strict=True):
        places = [tuple(span) for span in spans[:n].tolist()]
        parents = [edges[:n, j].nonzero().flatten().tolist() for j in range(n)]
        known = all(IGNORE not in place for place in places)
        steps = [
            Subtask(id=str(j), instruction="", span=place, depends_on=tuple(map(str, parents[j])))
            for j, place in enumerate(places)
            if known
        ]
        plans.append(Workflow(steps) if known else None)
    return plans


def _as_workflow(edges: Tensor, *choices: Tensor) -> Workflow:
    """Steps whose words, types and workers are called by their tokens and indices, or open where those are not known.

    Args:
        edges: (n, n), from row to column.
        choices: (n, 2) tokens, (n,) types and (n,) workers, or nothing.
    """
    names = [
        ["" if IGNORE in row else str(row) for row in indices.view(len(edges), -1).tolist()] for indices in choices
    ] or [[""] * len(edges)] * 3
    return Workflow(
        [
            Subtask(id=str(j), instruction=words, task_type=kind, worker=worker, depends_on=tuple(map(str, parents)))
            for j, (words, kind, worker) in enumerate(zip(*names, strict=True))
            for parents in [edges[:, j].nonzero().flatten().tolist()]
        ]
    )
