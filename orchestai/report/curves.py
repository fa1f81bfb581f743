"""The figures of training as charts, with the bounds at which training gives up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from orchestai.report.evaluations import is_number

Rows = Sequence[Mapping[str, Any]]
_MOST_POINTS = 400


@dataclass(frozen=True)
class _Chart:
    """A chart: a title, its unit and the figures in it, by label."""

    title: str
    unit: str
    series: Mapping[str, str]
    note: str = ""


_PHASE1: Final = (
    _Chart("Loss", "", {"train_loss": "training", "val_loss": "validation"}),
    _Chart(
        "Plans that are right",
        "share",
        {"exact_plan": "steps and workers", "exact_decomposition": "steps and edges", "edge_f1": "F1 of edges"},
    ),
    _Chart("Plans that are a DAG before repair", "share", {"raw_validity": "validity"}),
    _Chart("DAG loss", "", {"train_dag_loss": "training", "val_dag_loss": "validation"}),
)
_PHASE2: Final = (
    _Chart("Reward", "", {"reward": "sampled, training tasks", "eval_reward": "greedy, validation tasks"}),
    _Chart("Success", "share", {"success": "sampled, training tasks", "eval_success": "greedy, validation tasks"}),
    _Chart("Cost of an execution", "usd", {"cost_usd": "sampled", "eval_cost_usd": "greedy"}),
    _Chart("Latency of an execution", "ms", {"latency_ms": "sampled", "eval_latency_ms": "greedy"}),
    _Chart("Entropy of explored decisions", "nats", {"entropy": "entropy"}, "low: decisions hardly vary any more"),
    _Chart("Plans that could be executed", "share", {"valid_share": "valid", "raw_valid_share": "before repair"}),
    _Chart("Groups without a difference", "share", {"flat_group_share": "flat"}, "high: nothing to learn from"),
    _Chart("Distance from the policy that sampled", "", {"approximate_kl": "approximate KL", "kl": "KL to phase 1"}),
    _Chart("Clipped decisions", "share", {"clip_low_share": "ratio too low", "clip_high_share": "ratio too high"}),
    _Chart("Effective sample size", "share", {"ess": "decisions", "ess_sequence": "rows"}),
    _Chart("Norm of the gradient", "", {"grad_norm": "before clipping"}),
    _Chart("Tokens or decisions per second", "", {"slots_per_second": "whole update"}),
)


def charts(phase: str, rows: Rows, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The charts of which there are figures, those of a kind first, then every other figure by itself.

    Args:
        phase: `phase1` or `phase2`.
        rows: of the metrics file.
        settings: of phase 2, flat, as its run file keeps them.
    """
    known, along = (_PHASE1, "epoch") if phase == "phase1" else (_PHASE2, "update")
    guards = _guards(settings) if phase == "phase2" else {}
    drawn = [_drawn(chart, rows, along, guards.get(chart.title, [])) for chart in known]
    named = {name for chart in known for name in chart.series}
    rest = {name: None for row in rows for name in row if name not in named | {along}}
    other = [_drawn(_Chart(name, "", {name: name}), rows, along, []) for name in rest]
    return [
        {**chart, "phase": phase, "along": along, "first": first}
        for some, first in ((drawn, True), (other, False))
        for chart in some
        if chart["series"]
    ]


def _drawn(chart: _Chart, rows: Rows, along: str, guards: list[dict[str, Any]]) -> dict[str, Any]:
    series = []
    for name, label in chart.series.items():
        points = [(row[along], row[name]) for row in rows if is_number(row.get(name)) and is_number(row.get(along))]
        if points:
            series.append({"name": name, "label": label, "points": _thinned(points)})
    return {"title": chart.title, "unit": chart.unit, "note": chart.note, "series": series, "guards": guards}


def _guards(settings: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Where training stops, by chart."""
    found: dict[str, list[dict[str, Any]]] = {}
    patience = settings.get("collapse_patience")
    if is_number(entropy := settings.get("min_entropy")):
        found["Entropy of explored decisions"] = [_guard(entropy, f"stops below, {patience} updates in a row")]
    if is_number(invalid := settings.get("max_invalid_share")):
        found["Plans that could be executed"] = [_guard(1 - invalid, f"stops below, {patience} updates in a row")]
    if is_number(flat := settings.get("flat_patience")):
        found["Groups without a difference"] = [_guard(1.0, f"stops at 100 %, {flat} updates in a row")]
    return found


def _guard(value: float, label: str) -> dict[str, Any]:
    return {"value": value, "label": label}


def _thinned(points: list[tuple[float, float]]) -> list[list[float]]:
    """At most `_MOST_POINTS`, each the mean of its neighbors."""
    size = math.ceil(len(points) / _MOST_POINTS)
    parts = [points[i : i + size] for i in range(0, len(points), size)]
    return [[part[-1][0], float(f"{sum(y for _, y in part) / len(part):.5g}")] for part in parts]
