"""How well plans are imitated, counted so that figures of batches add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from orchestai.planner.base import Plan
from orchestai.planner.slots.dag import best_expected_edges, is_acyclic, likeliest_edges, repair
from orchestai.planner.slots.losses import LinkOutputs, PlannerOutputs, choices, stops
from orchestai.planner.slots.targets import IGNORE, PlanTargets, existing_steps, token_spans
from orchestai.types import Decisions


@dataclass
class Tally:
    """Weighted means by name."""

    _sums: dict[str, float] = field(default_factory=dict)
    _weights: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, mean: float, weight: float = 1.0) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + mean * weight
        self._weights[name] = self._weights.get(name, 0.0) + weight

    def means(self) -> dict[str, float]:
        """Names without any weight are left out."""
        return {name: total / self._weights[name] for name, total in self._sums.items() if self._weights[name]}


@dataclass
class EdgeCounts:
    """Edges predicted and wanted, and those in both."""

    predicted: int = 0
    wanted: int = 0
    both: int = 0

    def add(self, predicted: Tensor, wanted: Tensor) -> None:
        self.predicted += int(predicted.sum())
        self.wanted += int(wanted.sum())
        self.both += int((predicted & wanted).sum())

    def figures(self) -> dict[str, float]:
        """Precision, recall and F1; 1 where there is nothing to find and nothing was found."""
        return {
            "edge_precision": self.both / self.predicted if self.predicted else float(not self.wanted),
            "edge_recall": self.both / self.wanted if self.wanted else float(not self.predicted),
            "edge_f1": 2 * self.both / (self.predicted + self.wanted) if self.predicted + self.wanted else 1.0,
        }


def count_heads(outputs: PlannerOutputs, targets: PlanTargets, tally: Tally, edges: EdgeCounts) -> None:
    """Accuracy of each head, and validity of the likely edges, when led along the plans to imitate."""
    for loss, (logits, wanted) in choices(outputs, targets).items():
        known = wanted != IGNORE
        right = (logits.argmax(-1) == wanted) & known
        count = int(known.sum())
        tally.add(loss.replace("_loss", "_accuracy"), int(right.sum()) / max(count, 1), count)
    logits, wanted = stops(outputs["go_on"], targets["lengths"])
    tally.add("stop_accuracy", float(((logits > 0) == wanted.bool()).float().mean()), len(wanted))
    steps = existing_steps(targets)
    n = steps.shape[1]
    logits = outputs["edge_logits"][:, :n, :n].detach()
    likely = likeliest_edges(logits, outputs["parent_counts"][:, :n], steps)
    edges.add(likely, targets["dependencies"][:, :n, :n])
    for graph, odds in zip(likely.cpu(), logits.cpu(), strict=True):
        tally.add("raw_validity", float(is_acyclic(graph)))
        tally.add("decoded_validity", float(is_acyclic(repair(graph, odds))))


def count_links(outputs: LinkOutputs, targets: PlanTargets, tally: Tally, edges: EdgeCounts) -> None:
    """The edges that are planned between given steps; a plan is exact if all are right."""
    steps = existing_steps(targets)
    n = steps.shape[1]
    logits, wanted = outputs["edge_logits"].detach(), targets["dependencies"][:, :n, :n]
    likely = best_expected_edges(logits, steps)
    made = torch.stack([repair(graph, odds) for graph, odds in zip(likely, logits, strict=True)])
    edges.add(made, wanted)
    for i in range(len(steps)):
        exact = bool((made[i] == wanted[i]).all())
        tally.add("raw_validity", float(is_acyclic(likely[i])))
        tally.add("decoded_validity", float(is_acyclic(made[i])))
        tally.add("exact_decomposition", float(exact))
        tally.add("exact_plan", float(exact))


def count_plans(plans: Sequence[Plan], outputs: PlannerOutputs, targets: PlanTargets, tally: Tally) -> None:
    """How often plans that were decoded freely are the ones to imitate; what the targets leave open always counts.

    `exact_decomposition` asks for the same spans, types and edges, `exact_plan` also for the same workers.
    """
    spans = token_spans(targets["spans"], outputs["token_offsets"]).cpu()
    types, workers, edges = (targets[key].cpu() for key in ("task_types", "model_selections", "dependencies"))
    for i, (plan, n) in enumerate(zip(plans, targets["lengths"].tolist(), strict=True)):
        decomposed = assigned = False
        made = plan.decisions
        if isinstance(made, Decisions) and plan.workflow is not None and made.length == n:
            decomposed = (
                _agree(made.spans, spans[i, :n])
                and _agree(made.types, types[i, :n])
                and plan.workflow.adjacency() == edges[i, :n, :n].int().tolist()
            )
            assigned = _agree(made.workers, workers[i, :n])
        tally.add("exact_decomposition", float(decomposed))
        tally.add("exact_plan", float(decomposed and assigned))


def _agree(made: Tensor, wanted: Tensor) -> bool:
    return bool(((made == wanted) | (wanted == IGNORE)).all())
