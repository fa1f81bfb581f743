"""A table evaluation as JSON and as a printed table."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.baselines import TASK_PRIOR
from orchestai.evaluation.tables.router_metrics import COST
from orchestai.evaluation.tables.table_evaluation import TableEvaluation

_COLUMNS = ("success", COST, "aiq", "hypervolume", "apgr", "cpt_50", "cpt_80")
_MAIN = ("aiq", "apgr")
"""Metrics whose differences are given."""
_DIGITS = 4


def to_dict(evaluation: TableEvaluation) -> dict[str, Any]:
    """`{source: {metric: {router: {mean, low, high, n}}}}`, differences by metric and `ROUTER - OTHER`, and facts."""
    figures: dict[str, Any] = {}
    for *path, router in evaluation.metrics:
        inner = figures
        for name in path:
            inner = inner.setdefault(name, {})
        inner[router] = evaluation.interval(*path, router).to_dict()
    figures["differences"] = {
        metric: {
            f"{router} - {other}": evaluation.difference(metric, router, other).to_dict()
            for router in evaluation.routers(metric)
            for other in evaluation.routers(metric)
            if router != other
        }
        for metric in _MAIN
        if evaluation.routers(metric)
    }
    table = evaluation.table
    facts = {
        "digest": table.digest,
        "queries": len(table),
        "workers": list(table.workers),
        "unusable": dict(table.unusable),
        "seeds": list(evaluation.seeds),
        "test_sizes": list(evaluation.test_sizes),
    }
    return {table.source: figures, "table": facts}


def to_table(evaluation: TableEvaluation) -> Table:
    """A row per router, with intervals and the paired difference of the main metric to the task prior."""
    columns = [column for column in _COLUMNS if evaluation.routers(column)]
    main = next((metric for metric in _MAIN if evaluation.routers(metric)), None)
    printed = Table(title=f"{evaluation.table.source}: {len(evaluation.table)} queries, test parts of 20 %")
    printed.add_column("router")
    for column in columns:
        printed.add_column(column, justify="right")
    if main is not None:
        printed.add_column(f"{main} - {TASK_PRIOR}", justify="right")
    for router in evaluation.routers("success"):
        cells = [_cell(evaluation, column, router) for column in columns]
        if main is not None:
            compared = router != TASK_PRIOR and {router, TASK_PRIOR} <= set(evaluation.routers(main))
            cells.append(_written(evaluation.difference(main, router, TASK_PRIOR), "+") if compared else "")
        printed.add_row(router, *cells)
    return printed


def _cell(evaluation: TableEvaluation, metric: str, router: str) -> str:
    if (metric, router) not in evaluation.metrics:
        return ""
    return _written(evaluation.interval(metric, router), "")


def _written(interval: Interval, sign: str) -> str:
    return f"{interval.mean:{sign}.{_DIGITS}f} [{interval.low:{sign}.{_DIGITS}f}, {interval.high:{sign}.{_DIGITS}f}]"
