"""How well plans are imitated: accuracy of each head under teacher forcing, and of whole plans as decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from orchestai.planner.base import Plan
from orchestai.planner.losses import PlannerOutputs, choices, stops
from orchestai.planner.targets import IGNORE, PlanTargets
from orchestai.training.data_format import TrainingExample


def head_hits(outputs: PlannerOutputs, targets: PlanTargets) -> dict[str, tuple[int, int]]:
    """For each head, how many of its choices agree with the known targets, and how many there are."""
    hits = {}
    for name, (logits, wanted) in choices(outputs, targets).items():
        known = wanted != IGNORE
        right = (logits.argmax(-1) == wanted) & known
        hits[name.removesuffix("_loss")] = int(right.sum()), int(known.sum())
    if "lengths" in targets:
        logits, going_on = stops(outputs["go_on"], targets["lengths"])
        hits["stop"] = int(((logits > 0) == going_on.bool()).sum()), going_on.numel()
    return hits


def plan_figures(plans: Sequence[Plan], examples: Sequence[TrainingExample]) -> dict[str, float]:
    """Figures of decoded plans.

    Edges are compared by the positions of their steps; a plan of another length keeps its own.

    Returns:
        edge_precision, edge_recall, edge_f1: over all edges of all plans.
        exact_graph: share of plans with the wanted number of steps and edges.
        exact_plan: those whose spans and types are the wanted ones too.
        raw_validity: share of plans whose edges were acyclic before repair.
        validity: share of plans that are workflows.
    """
    count: Counter[str] = Counter()
    for plan, example in zip(plans, examples, strict=True):
        wanted = {(parent, i) for i, parents in enumerate(example.targets.dependencies) for parent in parents}
        count["wanted"] += len(wanted)
        count["raw_valid"] += plan.raw_valid
        if plan.workflow is None or plan.decisions is None:
            continue
        edges = plan.decisions.edges
        chosen = {(i, j) for i, j in edges.nonzero().tolist()}
        same_graph = len(plan.workflow) == len(example.targets) and chosen == wanted
        count["valid"] += 1
        count["chosen"] += len(chosen)
        count["both"] += len(chosen & wanted)
        count["same_graph"] += same_graph
        count["same_plan"] += same_graph and _same_words(plan, example)
    precision = count["both"] / max(count["chosen"], 1)
    recall = count["both"] / max(count["wanted"], 1)
    n = max(len(plans), 1)
    return {
        "edge_precision": precision,
        "edge_recall": recall,
        "edge_f1": 2 * precision * recall / (precision + recall) if precision + recall else 0.0,
        "exact_graph": count["same_graph"] / n,
        "exact_plan": count["same_plan"] / n,
        "raw_validity": count["raw_valid"] / n,
        "validity": count["valid"] / n,
    }


def _same_words(plan: Plan, example: TrainingExample) -> bool:
    assert plan.workflow is not None
    assert plan.decisions is not None
    for subtask, kind, span, wanted_kind in zip(
        plan.workflow.subtasks,
        plan.decisions.types.tolist(),
        example.targets.spans,
        example.targets.task_types,
        strict=True,
    ):
        if span is not None and subtask.span != span:
            return False
        if wanted_kind is not None and kind != wanted_kind:
            return False
    return True
