"""A table evaluation as JSON and as a printed table."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.baselines import TASK_PRIOR
from orchestai.evaluation.tables.router_metrics import COST
from orchestai.evaluation.tables.table_evaluation import TableEvaluation

_OF_COSTS = ("success", COST, "aiq")
_COLUMNS = ("success", COST, "apgr", "cpt_50", "cpt_80")
_NAME = 12
"""Characters of a name that are in a line at least."""
_MAIN = ("aiq", "apgr")
"""Metrics whose differences are given."""


def to_dict(evaluation: TableEvaluation) -> dict[str, Any]:
    """`{source: {metric: {router: {mean, low, high, n}}}}`, differences by metric and `ROUTER - OTHER`, and facts.

    `reliability` has for each estimator mean estimate, mean score and number of outcomes in 15 bins.
    """
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
    figures["reliability"] = evaluation.reliability
    table = evaluation.table
    facts = {
        "digest": table.digest,
        "queries": len(table),
        "workers": list(table.workers),
        "unusable": dict(table.unusable),
        "notes": evaluation.notes,
        "seeds": list(evaluation.folds.seeds),
        "test_sizes": list(evaluation.folds.test_sizes),
    }
    return {table.source: figures, "table": facts}


def to_table(evaluation: TableEvaluation) -> Table:
    """A row per router, and the main metric's paired difference to the task prior; readable in 80 columns.

    What calls of the stronger of two workers bring is in the JSON alone where costs say more.
    """
    shown = _OF_COSTS if evaluation.routers("aiq") else _COLUMNS
    columns = [column for column in shown if evaluation.routers(column)]
    main = next((metric for metric in _MAIN if evaluation.routers(metric)), "")
    printed = Table(title=escape(f"{evaluation.table.source}: {len(evaluation.table)} queries, test parts of 20 %"))
    printed.add_column("router", overflow="fold", min_width=_NAME)
    for column in (*columns, f"{main} - {TASK_PRIOR}") if main else columns:
        printed.add_column(column, justify="right", no_wrap=True)
    for router in evaluation.routers("success"):
        cells = [_cell(evaluation, column, router) for column in columns]
        if {router, TASK_PRIOR} <= set(evaluation.routers(main)) and router != TASK_PRIOR:
            cells.append(_written(evaluation.difference(main, router, TASK_PRIOR)))
        printed.add_row(escape(router), *cells)
    return printed


def _cell(evaluation: TableEvaluation, metric: str, router: str) -> str:
    return f"{evaluation.interval(metric, router).mean:.3f}" if (metric, router) in evaluation.metrics else ""


def _written(interval: Interval) -> str:
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
