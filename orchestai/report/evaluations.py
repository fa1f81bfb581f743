"""What evaluations found, as the page draws it: claims, rows with their hull, preferences, reliability, figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np

from orchestai.evaluation.systems.baselines import ORACLE, WHOLE
from orchestai.evaluation.tables.routing_metrics import hull_corners

_MOST_FIGURES = 2_000
_ROW = ("name", "n", "success", "success_ci", "reward", "reward_ci", "cost_usd", "latency_ms", "unscorable", "validity")


def evaluation(value: Mapping[str, Any]) -> dict[str, Any]:
    """One evaluation of planners and baselines, from its JSON file."""
    planners = _planners(value)
    rows = [
        {key: row.get(key) for key in _ROW} | {"role": _role(str(row.get("name")), planners)}
        for row in value["rows"]
        if isinstance(row, Mapping)
    ]
    hull = [row for row in rows if row["role"] != "oracle"]
    swept = value.get("preferences")
    return {
        "suite": value.get("suite", ""),
        "tasks": max((row["n"] or 0 for row in rows), default=0),
        "conclusion": [str(line) for line in value["conclusion"]],
        "rows": rows,
        "hull": _hull([(row["cost_usd"], row["success"]) for row in hull]),
        "differences": value.get("differences", []),
        "decompositions": value.get("decompositions") or {},
        "preferences": list(swept.get("preferences", [])) if isinstance(swept, Mapping) else [],
        "choices": value.get("choices"),
    }


def table(name: str, value: Mapping[str, Any]) -> dict[str, Any] | None:
    """The workers and routers of an outcome table as rows of an evaluation; None if these figures are no table's."""
    success, cost = value.get("success"), value.get("usd_per_1000")
    if not isinstance(success, Mapping) or not isinstance(cost, Mapping):
        return None
    facts = value.get("table")
    singles = set(facts.get("workers", [])) if isinstance(facts, Mapping) else set()
    rows = [
        {
            "name": row,
            "n": interval.get("n"),
            "success": interval["mean"],
            "success_ci": [interval["low"], interval["high"]],
            "cost_usd": cost[row]["mean"] / 1000,
            "role": "whole" if row in singles else "oracle" if row == ORACLE else "ours" if row == "ours" else "other",
        }
        for row, interval in success.items()
        if is_interval(interval) and is_interval(cost.get(row))
    ]
    if not rows:
        return None
    points = [(row["cost_usd"], row["success"]) for row in rows if row["role"] != "oracle"]
    tasks = max(row["n"] or 0 for row in rows)
    return {"suite": name, "tasks": tasks, "conclusion": [], "rows": rows, "hull": _hull(points), "preferences": []}


def diagrams(value: Mapping[str, Any], title: str) -> Iterator[dict[str, Any]]:
    """Reliability diagrams: bins of mean forecast, share that came true, and how many."""
    swept = value.get("preferences")
    if isinstance(swept, Mapping) and swept.get("reliability"):
        planner = swept.get("planner", "")
        yield {"title": f"{title}: forecasts of {planner}", "bins": swept["reliability"], "ece": swept.get("ece")}
    named = value.get("reliability")
    if isinstance(named, Mapping):
        errors = value.get("ece") or {}
        for name, bins in named.items():
            error = errors.get(name)
            yield {"title": f"{title}: {name}", "bins": bins, "ece": error["mean"] if is_interval(error) else None}


def figures(value: Mapping[str, Any], prefix: str = "") -> list[dict[str, Any]]:
    """Every figure with an interval, by its path in the file."""
    found: list[dict[str, Any]] = []
    for key, inner in value.items():
        if is_interval(inner):
            found.append({"name": f"{prefix}{key}", **{part: inner.get(part) for part in ("mean", "low", "high", "n")}})
        elif isinstance(inner, Mapping):
            found += figures(inner, f"{prefix}{key} / ")
    return found[:_MOST_FIGURES]


def is_interval(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping) and {"mean", "low", "high"} <= value.keys()


def _planners(value: Mapping[str, Any]) -> set[str]:
    """Those that were compared with others: the trained ones."""
    return {str(pair["of"]) for pair in value.get("differences", []) if isinstance(pair, Mapping) and "of" in pair} | (
        value.get("decompositions") or {}
    ).keys()


def _role(name: str, planners: set[str]) -> str:
    if name in planners:
        return "ours"
    if name == ORACLE:
        return "oracle"
    return "whole" if name.startswith(WHOLE) else "other"


def _hull(points: list[tuple[float | None, float | None]]) -> list[list[float]]:
    """Corners (cost, success) of what mixtures of these points reach at each cost."""
    known = np.array([(cost, share) for cost, share in points if cost is not None and share is not None]).reshape(-1, 2)
    return [known[place].tolist() for place in hull_corners(known[:, 0], known[:, 1])]
