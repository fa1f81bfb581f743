"""A planner and the floors beside plans that others wrote, for tasks that neither has learned from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from orchestai.data.training_file import TrainingExample
from orchestai.errors import UserError
from orchestai.evaluation.held_out import HeldOut, hold_out
from orchestai.evaluation.statistics import Values, mean, mean_over_groups, number
from orchestai.lm.length_batches import length_batches
from orchestai.planner import plan_metrics
from orchestai.planner.base import Plan
from orchestai.planner.slots.text_encoder import EmbedSentences
from orchestai.progress import open_progress
from orchestai.tasks.splits import SeenTasks
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Workflow

T = TypeVar("T")


@dataclass(frozen=True)
class NamedPlans:
    """A training file as it was read."""

    name: str
    examples: Sequence[TrainingExample]

    def part(self, split: str) -> list[TrainingExample]:
        return [example for example in self.examples if example.split == split]


def choose_plans(
    plans: NamedPlans, seen: Mapping[str, SeenTasks], training: NamedPlans | None, *, include_learned: bool = False
) -> tuple[HeldOut[TrainingExample], Sequence[TrainingExample]]:
    """The plans of a file that may be scored, by the words of what is asked, and those that the nearest graph may copy.

    Where the file keeps plans for tests, and the checkpoint or the training file has any of its tasks, these are of
    its test part alone. Where neither has any, or none is kept for tests, these are all: it is a file of others.

    Args:
        seen: what the checkpoint has seen, by its name; empty without one.
        training: what was learned from, so that its plans are no measure and may be copied by the nearest graph;
            without it that floor takes what the file itself does not keep for tests.
    """
    tests, compared = plans.part("test"), dict(seen)
    if training is not None:
        learned_from = ([e.asked for e in training.part(split)] for split in ("train", "validation"))
        compared[training.name] = SeenTasks.of(*learned_from)
    is_known = training is not None or all(its.complete for its in seen.values())
    is_others = bool(compared) and not any(e.asked in its for e in plans.examples for its in compared.values())
    whole = not tests or (is_others and is_known)
    examples = plans.examples if whole else tests
    held_out = hold_out(
        examples, compared, lambda example: example.asked, what=plans.name, include_learned=include_learned
    )
    return held_out, (training or plans).part("train") if training or not whole else []


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
    wanted, seconds, error = example.workflow, example.seconds, math.nan
    if made is None:
        return PlanScore(**dict.fromkeys(METRICS[:-1], 0.0))
    sizes, words = (len(made), len(wanted)), (words_of(made), words_of(wanted))
    if example.given and words[0] == words[1]:
        exact = match = {i: i for i in range(len(wanted))}
    else:
        plain = [[" ".join(one.casefold().split()).rstrip(".") for one in some] for some in words]
        exact = plan_metrics.match_greedily(np.array([[float(a == b) for b in plain[1]] for a in plain[0]]), 1.0)
        match = plan_metrics.match_greedily(embed(words[0]) @ embed(words[1]).T, SAME_STEP)
    drawn, right = plan_metrics.edges_of(made), plan_metrics.edges_of(wanted)
    place = {subtask.id: i for i, subtask in enumerate(made.subtasks)}
    order = [place[subtask.id] for subtask in made.order()]
    edges = plan_metrics.edge_f1(drawn, right, match)
    if example.given and len(made) == len(exact) == len(seconds) == len(wanted):
        places = enumerate(made.subtasks)
        planned = made.critical_path({step.id: seconds[wanted.subtasks[exact[i]].id] for i, step in places})
        best = wanted.critical_path(seconds)
        error = abs(planned - best) / best if best else math.nan
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
        critical_path_error=error,
    )


PLANNER: Final = "planner"
MACRO: Final = "macro"
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


@dataclass(frozen=True)
class PlansEvaluation:
    """The figures: row (`planner`, or a floor) -> the score of each example."""

    examples: Sequence[TrainingExample]
    scores: Mapping[str, Sequence[PlanScore]]

    @property
    def names(self) -> list[str]:
        """Of the sources."""
        return sorted({example.suite for example in self.examples})

    @cached_property
    def _chains(self) -> NDArray[np.bool_]:
        return np.array([plan_metrics.is_chain(example.workflow) for example in self.examples], dtype=bool)

    def to_dict(self) -> dict[str, Any]:
        """row -> source (or `macro`) -> metric, and metric with `_non_chain`, -> mean, interval and number of plans."""
        return {row: self._by_source(partial(self._values, row)) for row in self.scores}

    def differences(self) -> dict[str, Any]:
        """floor -> as `to_dict` has it, of the planner less that floor; nothing without a planner."""
        if PLANNER not in self.scores:
            return {}
        floors = (row for row in self.scores if row != PLANNER)
        return {floor: self._by_source(partial(self._paired, floor)) for floor in floors}

    def per_plan(self) -> list[dict[str, Any]]:
        """Each example's id, source, whether it is a chain, and row -> metric -> score, null where there is none."""
        return [
            {
                "task_id": example.task_id,
                "source": example.suite,
                "chain": bool(self._chains[i]),
                "scores": {
                    row: {metric: number(getattr(scores[i], metric)) for metric in METRICS}
                    for row, scores in self.scores.items()
                },
            }
            for i, example in enumerate(self.examples)
        ]

    def table(self) -> Table:
        shown = Table(box=None, padding=(0, 1, 0, 0), title="plans", title_justify="left", pad_edge=False)
        shown.add_column("source", overflow="fold")
        for heading in ("plans", *_SHOWN):
            shown.add_column(heading, justify="right", no_wrap=True)
        for source in (*self.names, MACRO):
            for non_chain in (False, True):
                for place, row in enumerate(self.scores):
                    cells = [self._groups(self._values(row, key), source, non_chain) for key in _SHOWN.values()]
                    if not (count := sum(map(len, cells[0]))):
                        break
                    if not place:
                        shown.add_row(source + ", non-chain" * non_chain, str(count), style="dim")
                    means = (mean(np.array([mean(group) for group in cell])) for cell in cells)
                    written = ("-" if math.isnan(one) else f"{one:.3f}".lstrip("0") for one in means)
                    style = "bold" if row == PLANNER else None
                    shown.add_row("  " + row.replace("_", " "), "", *written, style=style)
            shown.add_section()
        return shown

    def differences_table(self) -> Table:
        """The planner less each floor, over sources."""
        title = "planner less each floor, over sources (95 %)"
        shown = Table(box=None, padding=(0, 1, 0, 0), title=title, title_justify="left", pad_edge=False)
        shown.add_column("floor", overflow="fold")
        compared = ("node", "edge", "exact")
        for heading in compared:
            shown.add_column(heading, justify="right", no_wrap=True)
        for floor in self.scores:
            if floor != PLANNER:
                paired = (self._paired(floor, _SHOWN[heading]) for heading in compared)
                cells = (mean_over_groups(self._groups(values, MACRO), draws=2000).signed() for values in paired)
                shown.add_row(floor.replace("_", " "), *cells)
        return shown

    def _by_source(self, values: Callable[[str], Values]) -> dict[str, dict[str, Any]]:
        """source (or `macro`) -> metric, and metric with `_non_chain`, -> interval, of (examples,) values by metric."""
        found: dict[str, dict[str, Any]] = {source: {} for source in (*self.names, MACRO)}
        for metric in METRICS:
            own = values(metric)
            for source, cell in found.items():
                for non_chain in (False, True):
                    one = mean_over_groups(self._groups(own, source, non_chain), draws=2000)
                    if one.n:
                        cell[metric + "_non_chain" * non_chain] = one.to_dict()
        return found

    def _values(self, row: str, metric: str) -> Values:
        return np.array([getattr(score, metric) for score in self.scores[row]], dtype=np.float64)

    def _paired(self, floor: str, metric: str) -> Values:
        return self._values(PLANNER, metric) - self._values(floor, metric)

    def _groups(self, values: Values, source: str, non_chain: bool = False) -> list[Values]:
        """The values of a source's examples, or for `macro` those of each source."""
        of = np.array([example.suite for example in self.examples])
        kept = ~(self._chains & non_chain)
        return [values[kept & (of == name)] for name in self.names if source in (name, MACRO)]


_FLOORS: Final[dict[str, Callable[[int], Iterable[int]]]] = {
    "listed_chain": lambda place: range(max(place - 1, 0), place),
    "all_pairs": range,
    "no_edges": lambda place: (),
}
"""Places of the parents of the right step at a place: the one listed before it, all of these, or none."""


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


def _joined(example: TrainingExample, parents: Sequence[Iterable[int]]) -> Workflow:
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
    """
    if not examples:
        raise UserError("evaluate-plans: no plans in the file")
    made: dict[str, list[Plan]] = {}
    scores: dict[str, list[PlanScore]] = {}
    with open_progress("evaluate-plans", console=console, disable=console is None) as progress:
        line = progress.add_task("evaluate-plans", total=None, status="")

        def over(items: Iterable[T], total: int, what: str) -> Iterator[T]:
            """The items, each of which counts as done when the next one is asked for."""
            progress.reset(line, total=total, status=what.replace("_", " "))
            for item in items:
                yield item
                progress.advance(line)

        def counted(sentences: Sequence[str]) -> NDArray[np.float32]:
            return np.concatenate([embed([one]) for one in over(sentences, len(sentences), "similar tasks")])

        if planner is not None:
            planned = dict(over(_planned(planner, examples), len(examples), PLANNER))
            made[PLANNER] = [planned[i] for i in range(len(examples))]
        for row, parents in _FLOORS.items():
            made[row] = [
                Plan(_joined(example, [parents(place) for place in range(len(example.workflow))]), raw_valid=True)
                for example in examples
            ]
        if learned:
            found = nearest(examples, learned, counted)
            made["nearest_graph"] = [Plan(workflow, raw_valid=True) for workflow in found]
        for row, plans in made.items():
            pairs = zip(plans, examples, strict=True)
            scores[row] = [
                score_plan(plan.workflow, example, embed, plan.raw_valid)
                for plan, example in over(pairs, len(examples), f"score of {row}")
            ]
    return PlansEvaluation(examples, scores)


def _planned(planner: StepsPlanner, examples: Sequence[TrainingExample]) -> Iterator[tuple[int, Plan]]:
    """The examples' numbers and plans, in batches of like length; the steps of those that give them are not found."""
    for rows in length_batches({i: len(example.instruction) for i, example in enumerate(examples)}):
        given = [i for i in rows if examples[i].given]
        free = [i for i in rows if not examples[i].given]
        if given:
            spans = [examples[i].spans for i in given]
            yield from zip(given, planner.plan_steps([examples[i].instruction for i in given], spans), strict=True)
        yield from zip(free, planner.plan_instructions([examples[i].instruction for i in free]), strict=True)
