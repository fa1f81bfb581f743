"""A planner and the floors beside plans that others wrote."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from orchestai.data.training_file import TrainingExample
from orchestai.errors import UserError
from orchestai.evaluation.statistics import Interval, Values, mean, mean_over_groups, number
from orchestai.lm.length_batches import length_batches
from orchestai.planner import plan_metrics
from orchestai.planner.base import Plan
from orchestai.planner.plan_metrics import is_chain
from orchestai.planner.slots.encoders.sentences import EmbedSentences
from orchestai.progress import open_progress
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Workflow

SAME_STEP = 0.6
"""Steps in other words are the same from this cosine of their sentence embeddings on; WorFEval's program has it too."""


@dataclass(frozen=True)
class PlanScore:
    """Scores in [0, 1], but `critical_path_error`; NaN where a score does not exist. A missing plan has 0 throughout.

    Attributes:
        node_f1: steps found, by meaning.
        node_f1_exact: steps found, by their words.
        edge_f1: edges found, between the steps that were found.
        closure_f1: the same of what comes before what.
        exact_graph: all steps found, and all edges right.
        chain_f1, graph_f1: WorFEval's two scores.
        raw_validity: whether the plan was one before anything was repaired.
        decoded_validity: whether there is a plan in the end.
        critical_path_error: |time that the plan takes - time of the reference| / the latter, where steps are given with
            durations, and the plan has each of them once.
    """

    node_f1: float
    node_f1_exact: float
    edge_f1: float
    closure_f1: float
    exact_graph: float
    chain_f1: float
    graph_f1: float
    raw_validity: float
    decoded_validity: float
    critical_path_error: float = math.nan


METRICS = tuple(field.name for field in fields(PlanScore))


def words_of(workflow: Workflow) -> tuple[str, ...]:
    """The steps' words, without the examples among them."""
    return tuple(clean(subtask.instruction) for subtask in workflow.subtasks)


def score_plan(made: Workflow | None, example: TrainingExample, embed: EmbedSentences, valid: bool = True) -> PlanScore:
    """The score of a plan for `example`. Given steps that the plan lists as given are the same by their place.

    Args:
        valid: the raw validity.
    """
    wanted = example.workflow
    if made is None:
        return PlanScore(**dict.fromkeys(METRICS[:-1], 0.0))
    sizes, words = (len(made), len(wanted)), (words_of(made), words_of(wanted))
    if example.given and words[0] == words[1]:
        exact = match = {i: i for i in range(len(wanted))}
    else:
        exact = plan_metrics.match_greedily(_equal(*words), 1.0)
        match = plan_metrics.match_greedily(embed(words[0]) @ embed(words[1]).T, SAME_STEP)
    drawn, right = plan_metrics.edges_of(made), plan_metrics.edges_of(wanted)
    place = {subtask.id: i for i, subtask in enumerate(made.subtasks)}
    order = [place[subtask.id] for subtask in made.order()]
    edges = plan_metrics.edge_f1(drawn, right, match)
    return PlanScore(
        node_f1=plan_metrics.node_f1(match, *sizes),
        node_f1_exact=plan_metrics.node_f1(exact, *sizes),
        edge_f1=edges,
        closure_f1=plan_metrics.edge_f1(plan_metrics.closure(drawn), plan_metrics.closure(right), match),
        exact_graph=float(len(match) == sizes[0] == sizes[1] and edges == 1.0),
        chain_f1=plan_metrics.chain_f1(order, right, match, len(wanted)),
        graph_f1=plan_metrics.graph_f1(drawn, right, match, *sizes),
        raw_validity=float(valid),
        decoded_validity=1.0,
        critical_path_error=_critical_path_error(made, example, exact) if example.given else math.nan,
    )


def _equal(made: Sequence[str], wanted: Sequence[str]) -> NDArray[np.float64]:
    plain = [" ".join(words.casefold().split()).rstrip(".") for words in (*made, *wanted)]
    return np.array([[float(a == b) for b in plain[len(made) :]] for a in plain[: len(made)]])


def _critical_path_error(made: Workflow, example: TrainingExample, match: plan_metrics.Match) -> float:
    wanted, seconds = example.workflow, example.seconds
    if not len(made) == len(match) == len(seconds) == len(wanted):
        return math.nan
    places = enumerate(made.subtasks)
    planned = made.critical_path({subtask.id: seconds[wanted.subtasks[match[i]].id] for i, subtask in places})
    right = wanted.critical_path(seconds)
    return abs(planned - right) / right if right else math.nan


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


def listed_chain(example: TrainingExample) -> Workflow:
    """The right steps, each after the one listed before it."""
    return _joined(example, [[i - 1] if i else [] for i in range(len(example.workflow))])


def all_pairs(example: TrainingExample) -> Workflow:
    """The right steps, each after all that are listed before it."""
    return _joined(example, [range(i) for i in range(len(example.workflow))])


def no_edges(example: TrainingExample) -> Workflow:
    """The right steps, all at once."""
    return _joined(example, [[] for _ in range(len(example.workflow))])


def nearest(
    examples: Sequence[TrainingExample], learned: Sequence[TrainingExample], embed: EmbedSentences
) -> list[Workflow | None]:
    """For each example the plan of the learned one whose task means the most similar.

    Where steps are given, it is the nearest with as many steps, and its edges join the steps by their place. None where
    there is none.
    """
    if not learned:
        return [None] * len(examples)
    similarity = embed([e.asked for e in examples]) @ embed([e.asked for e in learned]).T
    sizes = np.array([len(e.workflow) for e in learned])
    found: list[Workflow | None] = []
    for example, row in zip(examples, similarity, strict=True):
        fits = sizes == len(example.workflow) if example.given else np.ones(len(learned), bool)
        if not fits.any():
            found.append(None)
            continue
        near = learned[int(np.where(fits, row, -2.0).argmax())].workflow
        found.append(_joined(example, near.dependencies()) if example.given else near)
    return found


def _joined(example: TrainingExample, parents: Sequence[Sequence[int]]) -> Workflow:
    """The right steps with other edges.

    Args:
        parents: places of each step's.
    """
    steps = example.workflow.subtasks
    return Workflow(
        [
            step.model_copy(update={"depends_on": tuple(steps[place].id for place in places)})
            for step, places in zip(steps, parents, strict=True)
        ]
    )


T = TypeVar("T")

_FLOORS = {
    "listed_chain": listed_chain,
    "all_pairs": all_pairs,
    "no_edges": no_edges,
}


class StepsPlanner(Protocol):
    """Plans instructions, and instructions that list their steps."""

    def plan_instructions(self, instructions: Sequence[str]) -> list[Plan]: ...

    def plan_steps(self, instructions: Sequence[str], steps: Sequence[Sequence[tuple[int, int]]]) -> list[Plan]: ...


def evaluate_plans(
    planner: StepsPlanner | None,
    examples: Sequence[TrainingExample],
    embed: EmbedSentences,
    *,
    learned: Sequence[TrainingExample] = (),
    console: Console | None = None,
) -> PlansEvaluation:
    """Score the planner, if there is one, and the trivial baselines on the examples.

    Args:
        learned: examples among which the nearest training graph is looked for; without them that floor is left out.
        console: where the progress bar is shown.

    Raises:
        UserError: there is no example.
    """
    if not examples:
        raise UserError("evaluate-plans: no plans in the file")
    scores: dict[str, list[PlanScore]] = {}
    with open_progress("evaluate-plans", console=console, disable=console is None) as progress:
        bar = _Bar(progress)
        if planner is not None:
            made = dict(bar.over(_planned(planner, examples), len(examples), PLANNER))
            pairs = [(made[i], example) for i, example in enumerate(examples)]
            scores[PLANNER] = [
                score_plan(plan.workflow, example, embed, plan.raw_valid)
                for plan, example in bar.over(pairs, len(pairs), "score of the planner")
            ]
        floors: dict[str, Sequence[Workflow | None]] = {
            row: [floor(example) for example in examples] for row, floor in _FLOORS.items()
        }
        if learned:
            floors["nearest_graph"] = nearest(examples, learned, bar.embedding(embed, "similar tasks"))
        for row, workflows in floors.items():
            scores[row] = [
                score_plan(workflow, example, embed)
                for workflow, example in bar.over(zip(workflows, examples, strict=True), len(examples), row)
            ]
    return PlansEvaluation.of(examples, scores)


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


def _planned(planner: StepsPlanner, examples: Sequence[TrainingExample]) -> Iterator[tuple[int, Plan]]:
    """The examples' numbers and plans, in batches of like length."""
    for rows in length_batches({i: len(example.instruction) for i, example in enumerate(examples)}):
        yield from zip(rows, plans_for(planner, [examples[i] for i in rows]), strict=True)


class _Bar:
    """A bar that goes over the plans once for each thing that is done with them."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._line = progress.add_task("evaluate-plans", total=None, status="")

    def over(self, items: Iterable[T], total: int, what: str) -> Iterator[T]:
        """The items, each of which counts as done when the next one is asked for."""
        self._progress.reset(self._line, total=total, status=what.replace("_", " "))
        for item in items:
            yield item
            self._progress.advance(self._line)

    def embedding(self, embed: EmbedSentences, what: str) -> EmbedSentences:
        """Counts sentences as they are embedded."""

        def counted(sentences: Sequence[str]) -> NDArray[np.float32]:
            return np.concatenate([embed([sentence]) for sentence in self.over(sentences, len(sentences), what)])

        return counted
