"""A planner beside plans that others wrote: per source, and on graphs that are no chains by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from rich.table import Table

from orchestai.data.training_file import TrainingExample
from orchestai.errors import UserError
from orchestai.evaluation.plans import baselines
from orchestai.evaluation.plans.metrics import METRICS, EmbedSentences, PlanScore, score_plan
from orchestai.evaluation.statistics import Interval, bootstrap_mean
from orchestai.planner.base import Plan
from orchestai.planner.plan_metrics import is_chain
from orchestai.workflow import Workflow

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


class StepsPlanner(Protocol):
    """Plans instructions, and instructions that list their steps."""

    def plan_instructions(self, instructions: Sequence[str]) -> list[Plan]: ...

    def plan_steps(self, instructions: Sequence[str], steps: Sequence[Sequence[tuple[int, int]]]) -> list[Plan]: ...


@dataclass(frozen=True)
class PlansEvaluation:
    """The figures.

    Attributes:
        sources: of each example.
        chains: whether each example's graph is a chain.
        scores: row (`planner`, or a floor) -> the score of each example.
    """

    sources: tuple[str, ...]
    chains: tuple[bool, ...]
    scores: Mapping[str, Sequence[PlanScore]]

    def interval(self, row: str, metric: str, source: str, *, non_chain: bool = False) -> Interval:
        """Mean over the plans of a source, or `macro`, with its bootstrap interval."""
        if source == "macro":
            return self.macro(row, metric, non_chain=non_chain)
        return bootstrap_mean(self._values(row, metric, source, non_chain), draws=2000)

    def macro(self, row: str, metric: str, *, non_chain: bool = False) -> Interval:
        """Mean over sources of their means; the bootstrap draws plans within each source."""
        rng = np.random.default_rng(0)
        draws, means, count = [], [], 0
        for source in self.names:
            values = self._values(row, metric, source, non_chain)
            values = values[~np.isnan(values)]
            if values.size:
                draws.append(values[rng.integers(0, values.size, (2000, values.size))].mean(1))
                means.append(values.mean())
                count += values.size
        if not means:
            return bootstrap_mean(np.array([]))
        low, high = np.quantile(np.mean(draws, 0), (0.025, 0.975))
        return Interval(float(np.mean(means)), float(low), float(high), count)

    @property
    def names(self) -> list[str]:
        return sorted(set(self.sources))

    def to_dict(self) -> dict[str, Any]:
        """row -> source (or `macro`) -> metric, and metric with `_non_chain`, -> mean, interval and number of plans."""
        found: dict[str, Any] = {}
        for row in self.scores:
            for source in (*self.names, "macro"):
                cell = found.setdefault(row, {}).setdefault(source, {})
                for metric in METRICS:
                    for non_chain in (False, True):
                        interval = self.interval(row, metric, source, non_chain=non_chain)
                        if interval.n:
                            cell[metric + "_non_chain" * non_chain] = interval.to_dict()
        return found

    def table(self) -> Table:
        shown = Table(box=None, padding=(0, 1, 0, 0), title="plans", title_justify="left", pad_edge=False)
        shown.add_column("source", overflow="fold")
        for heading in ("plans", *_SHOWN):
            shown.add_column(heading, justify="right", no_wrap=True)
        for source in (*self.names, "macro"):
            for non_chain in (False, True):
                named = False
                for row in self.scores:
                    cells = [self.interval(row, metric, source, non_chain=non_chain) for metric in _SHOWN.values()]
                    if cells[0].n:
                        if not named:
                            shown.add_row(source + (", non-chain" if non_chain else ""), str(cells[0].n), style="dim")
                            named = True
                        style = "bold" if row == "planner" else None
                        shown.add_row("  " + row.replace("_", " "), "", *map(_shown, cells), style=style)
            shown.add_section()
        return shown

    def _values(self, row: str, metric: str, source: str, non_chain: bool) -> np.ndarray[Any, np.dtype[np.float64]]:
        kept = [
            getattr(score, metric)
            for score, its, chain in zip(self.scores[row], self.sources, self.chains, strict=True)
            if source == its and not (non_chain and chain)
        ]
        return np.array(kept, dtype=np.float64)


def tested_plans(examples: Sequence[TrainingExample]) -> list[TrainingExample]:
    """The examples for tests; all where none is marked so."""
    return [example for example in examples if example.split == "test"] or list(examples)


def evaluate_plans(
    planner: StepsPlanner | None,
    examples: Sequence[TrainingExample],
    embed: EmbedSentences,
) -> PlansEvaluation:
    """Score the planner, if there is one, and the trivial baselines on the test examples; on all where none is marked.

    The nearest training graph is looked for among the examples of the other splits.

    Raises:
        UserError: there is no example.
    """
    tested = tested_plans(examples)
    learned = [example for example in examples if example.split == "train"] if len(tested) < len(examples) else []
    if not tested:
        raise UserError("evaluate-plans: no plans in the file")
    scores: dict[str, list[PlanScore]] = {}
    if planner is not None:
        scores["planner"] = [
            score_plan(plan.workflow, example, embed, plan.raw_valid)
            for plan, example in zip(plans_for(planner, tested), tested, strict=True)
        ]
    made: dict[str, Sequence[Workflow | None]] = {}
    made["listed_chain"] = [baselines.listed_chain(example) for example in tested]
    made["all_pairs"] = [baselines.all_pairs(example) for example in tested]
    made["no_edges"] = [baselines.no_edges(example) for example in tested]
    if learned:
        made["nearest_graph"] = baselines.nearest(tested, learned, embed)
    return PlansEvaluation(
        sources=tuple(example.suite for example in tested),
        chains=tuple(is_chain(example.workflow) for example in tested),
        scores=scores
        | {
            row: [score_plan(plan, example, embed) for plan, example in zip(plans, tested, strict=True)]
            for row, plans in made.items()
        },
    )


def plans_for(planner: StepsPlanner, examples: Sequence[TrainingExample]) -> list[Plan]:
    """Plans of the examples; the steps of those that give them are not to be found."""
    plans: dict[int, Plan] = {}
    given = [i for i, example in enumerate(examples) if example.given]
    free = [i for i, example in enumerate(examples) if not example.given]
    if given:
        listed = planner.plan_steps([examples[i].instruction for i in given], [examples[i].spans for i in given])
        plans.update(zip(given, listed, strict=True))
    plans.update(zip(free, planner.plan_instructions([examples[i].instruction for i in free]), strict=True))
    return [plans[i] for i in range(len(examples))]


def _shown(interval: Interval) -> str:
    return f"{interval.mean:.3f}".lstrip("0") if interval.n else "-"
