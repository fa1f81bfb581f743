"""Scores of plans as figures: per source, on graphs that are no chains by themselves, and less each floor's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from rich.table import Table

from orchestai.data.training_file import TrainingExample
from orchestai.evaluation.plans.metrics import METRICS, PlanScore
from orchestai.evaluation.statistics import Interval, Values, mean, mean_over_groups, number
from orchestai.planner.plan_metrics import is_chain

PLANNER: Final = "planner"
MACRO: Final = "macro"
_DRAWS = 2000
_SHOWN = {
    "node": "node_f1",
    "same": "node_f1_exact",
    "edge": "edge_f1",
    "clos.": "closure_f1",
    "exact": "exact_graph",
    "chain": "chain_f1",
    "graph": "graph_f1",
    "raw": "raw_validity",
    "valid": "decoded_validity",
    "time": "critical_path_error",
}
"""Headings of the table: F1 of steps by meaning and by words, of edges and of what comes before what; exact graphs;
WorFEval's scores of order and of graph; validity before and after repair; error of the critical path."""
_COMPARED = {"node": "node_f1", "edge": "edge_f1", "exact": "exact_graph"}


@dataclass(frozen=True)
class PlansEvaluation:
    """The figures.

    Attributes:
        task_ids: of each example, in its source.
        sources: of each example.
        chains: whether each example's graph is a chain.
        scores: row (`planner`, or a floor) -> the score of each example.
    """

    task_ids: tuple[str, ...]
    sources: tuple[str, ...]
    chains: tuple[bool, ...]
    scores: Mapping[str, Sequence[PlanScore]]

    @classmethod
    def of(cls, examples: Sequence[TrainingExample], scores: Mapping[str, Sequence[PlanScore]]) -> PlansEvaluation:
        return cls(
            task_ids=tuple(example.task_id for example in examples),
            sources=tuple(example.suite for example in examples),
            chains=tuple(is_chain(example.workflow) for example in examples),
            scores=scores,
        )

    @property
    def names(self) -> list[str]:
        """Of the sources."""
        return sorted(set(self.sources))

    @property
    def floors(self) -> list[str]:
        return [row for row in self.scores if row != PLANNER]

    def interval(self, row: str, metric: str, source: str, *, non_chain: bool = False) -> Interval:
        """Mean over the plans of a source, or of `macro`, over sources of their means; with its bootstrap interval."""
        return mean_over_groups(self._groups(self._values(row, metric), source, non_chain), draws=_DRAWS)

    def difference(self, floor: str, metric: str, source: str, *, non_chain: bool = False) -> Interval:
        """The same of the planner's score less the floor's for the same plan."""
        paired = self._values(PLANNER, metric) - self._values(floor, metric)
        return mean_over_groups(self._groups(paired, source, non_chain), draws=_DRAWS)

    def to_dict(self) -> dict[str, Any]:
        """row -> source (or `macro`) -> metric, and metric with `_non_chain`, -> mean, interval and number of plans."""
        return {row: self._by_source(row, self.interval) for row in self.scores}

    def differences(self) -> dict[str, Any]:
        """floor -> as `to_dict` has it, of the planner less that floor; nothing without a planner."""
        return {floor: self._by_source(floor, self.difference) for floor in self.floors if PLANNER in self.scores}

    def per_plan(self) -> list[dict[str, Any]]:
        """Each example's id, source, whether it is a chain, and row -> metric -> score, null where there is none."""
        facts = zip(self.task_ids, self.sources, self.chains, strict=True)
        return [
            {
                "task_id": task_id,
                "source": source,
                "chain": chain,
                "scores": {
                    row: {metric: number(getattr(scores[i], metric)) for metric in METRICS}
                    for row, scores in self.scores.items()
                },
            }
            for i, (task_id, source, chain) in enumerate(facts)
        ]

    def table(self) -> Table:
        shown = Table(box=None, padding=(0, 1, 0, 0), title="plans", title_justify="left", pad_edge=False)
        shown.add_column("source", overflow="fold")
        for heading in ("plans", *_SHOWN):
            shown.add_column(heading, justify="right", no_wrap=True)
        for source in (*self.names, MACRO):
            for non_chain in (False, True):
                named = False
                for row in self.scores:
                    cells = [self._groups(self._values(row, key), source, non_chain) for key in _SHOWN.values()]
                    if count := sum(map(len, cells[0])):
                        if not named:
                            shown.add_row(source + (", non-chain" if non_chain else ""), str(count), style="dim")
                            named = True
                        style = "bold" if row == PLANNER else None
                        shown.add_row("  " + row.replace("_", " "), "", *map(_mean_of_means, cells), style=style)
            shown.add_section()
        return shown

    def differences_table(self) -> Table:
        """The planner less each floor, over sources."""
        title = "planner less each floor, over sources (95 %)"
        shown = Table(box=None, padding=(0, 1, 0, 0), title=title, title_justify="left", pad_edge=False)
        shown.add_column("floor", overflow="fold")
        for heading in _COMPARED:
            shown.add_column(heading, justify="right", no_wrap=True)
        for floor in self.floors:
            cells = [self.difference(floor, metric, MACRO) for metric in _COMPARED.values()]
            shown.add_row(floor.replace("_", " "), *(cell.signed() for cell in cells))
        return shown

    def _by_source(self, row: str, interval: Callable[..., Interval]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for source in (*self.names, MACRO):
            cell = found.setdefault(source, {})
            for metric in METRICS:
                for non_chain in (False, True):
                    one = interval(row, metric, source, non_chain=non_chain)
                    if one.n:
                        cell[metric + "_non_chain" * non_chain] = one.to_dict()
        return found

    def _values(self, row: str, metric: str) -> Values:
        return np.array([getattr(score, metric) for score in self.scores[row]], dtype=np.float64)

    def _groups(self, values: Values, source: str, non_chain: bool) -> list[Values]:
        """The values of a source's examples, or for `macro` those of each source."""
        kept = ~(np.array(self.chains, dtype=bool) & non_chain)
        of = np.array(self.sources)
        return [values[kept & (of == name)] for name in self.names if source in (name, MACRO)]


def _mean_of_means(groups: Sequence[Values]) -> str:
    found = mean(np.array([mean(group) for group in groups]))
    return "-" if math.isnan(found) else f"{found:.3f}".lstrip("0")
