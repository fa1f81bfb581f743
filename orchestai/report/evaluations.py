"""What evaluations found, as the page draws it: claims, rows with their hull, preferences, reliability, figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np

from orchestai.evaluation.systems.baselines import ORACLE, WHOLE
from orchestai.evaluation.tables.routing_metrics import hull_corners

_MOST_FIGURES = 2_000
_LARGEST = 1e100
_NUMBERS = ("n", "success", "reward", "cost_usd", "latency_ms", "unscorable", "validity")
_PAIRS = ("success_ci", "reward_ci")


def evaluation(value: Mapping[str, Any]) -> dict[str, Any]:
    """One evaluation of planners and baselines, from its JSON file."""
    # Those that were compared with others: the trained ones
    planners = {str(pair["of"]) for pair in _mappings(value.get("differences")) if "of" in pair}
    decomposed = value.get("decompositions")
    planners |= set(decomposed if isinstance(decomposed, Mapping) else ())
    rows: list[dict[str, Any]] = []
    for row in _mappings(value["rows"]):
        name = str(row.get("name"))
        role = "oracle" if name == ORACLE else "whole" if name.startswith(WHOLE) else "other"
        numbers = {key: row[key] if is_number(row.get(key)) else None for key in _NUMBERS}
        pairs = {key: row[key] if _is_numbers(row.get(key), 2) else None for key in _PAIRS}
        rows.append({"name": name, "role": "ours" if name in planners else role, **numbers, **pairs})
    hull = [row for row in rows if row["role"] != "oracle"]
    swept = value.get("preferences")
    return {
        "suite": str(value.get("suite", "")),
        "tasks": max((row["n"] or 0 for row in rows), default=0),
        "conclusion": [str(line) for line in value["conclusion"]],
        "rows": rows,
        "hull": _hull([(row["cost_usd"], row["success"]) for row in hull]),
        "differences": [
            pair
            for pair in _mappings(value.get("differences"))
            if is_interval(pair.get("reward")) and is_interval(pair.get("success"))
        ],
        "preferences": [
            setting
            for setting in _mappings(swept.get("preferences") if isinstance(swept, Mapping) else None)
            if is_interval(setting.get("success"))
        ],
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
    if isinstance(swept, Mapping) and (bins := _bins(swept.get("reliability"))):
        planner = swept.get("planner", "")
        yield {"title": f"{title}: forecasts of {planner}", "bins": bins, "ece": swept.get("ece")}
    named, errors = value.get("reliability"), value.get("ece")
    for name, given in named.items() if isinstance(named, Mapping) else ():
        if bins := _bins(given):
            error = errors.get(name) if isinstance(errors, Mapping) else None
            yield {"title": f"{title}: {name}", "bins": bins, "ece": error["mean"] if is_interval(error) else None}


def _bins(value: Any) -> list[list[float]]:
    return [one for one in value if _is_numbers(one, 3)] if isinstance(value, list) else []


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
    """Whether it has a mean and its bounds; each may be null, where nothing was measured."""
    return isinstance(value, Mapping) and all(
        key in value and (value[key] is None or is_number(value[key])) for key in ("mean", "low", "high")
    )


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it can be drawn: neither a truth value nor NaN, and no larger than a browser can compute with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_numbers(value: Any, count: int) -> TypeGuard[list[float]]:
    return isinstance(value, list) and len(value) == count and all(map(is_number, value))


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else iter(())


def _hull(points: list[tuple[float | None, float | None]]) -> list[list[float]]:
    """Corners (cost, success) of what mixtures of these points reach at each cost."""
    known = np.array([(cost, share) for cost, share in points if cost is not None and share is not None]).reshape(-1, 2)
    return [known[place].tolist() for place in hull_corners(known[:, 0], known[:, 1])]
