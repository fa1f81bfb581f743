"""A planner and the nearest training plans beside plans that others wrote, for tasks that neither has learned from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
from rich.console import Console
from rich.table import Table

from orchestai.data.training_file import TrainingExample
from orchestai.errors import UserError
from orchestai.evaluation.held_out import HeldOut, hold_out
from orchestai.evaluation.statistics import Interval, Values, mean, mean_over_groups
from orchestai.lm.length_batches import length_batches
from orchestai.planner import plan_metrics
from orchestai.planner.base import Plan
from orchestai.planner.slots.text_encoder import EmbedSentences
from orchestai.progress import open_progress
from orchestai.tasks.splits import SeenTasks
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Workflow


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
    """Scores in [0, 1]. A missing plan has 0 throughout.

    Attributes:
        node_f1: steps found, by meaning.
        edge_f1: edges found, between the steps that were found.
        exact_graph: all steps found, and all edges right.
        chain_f1, graph_f1: WorFEval's two scores.
        raw_validity: whether the plan was one before anything was repaired.
        decoded_validity: whether there is a plan in the end.
    """

    node_f1: float
    edge_f1: float
    exact_graph: float
    chain_f1: float
    graph_f1: float
    raw_validity: float
    decoded_validity: float


METRICS = tuple(field.name for field in fields(PlanScore))


def score_plan(made: Workflow | None, wanted: Workflow, embed: EmbedSentences, valid: bool = True) -> PlanScore:
    """The score of a plan beside the one that was written.

    Args:
        valid: the raw validity.
    """
    if made is None:
        return PlanScore(**dict.fromkeys(METRICS, 0.0))
    # steps' words, without the examples among them
    words = [[clean(subtask.instruction) for subtask in plan.subtasks] for plan in (made, wanted)]
    sizes = len(made), len(wanted)
    match = plan_metrics.match_greedily(embed(words[0]) @ embed(words[1]).T, SAME_STEP)
    drawn, right = plan_metrics.edges_of(made), plan_metrics.edges_of(wanted)
    place = {subtask.id: i for i, subtask in enumerate(made.subtasks)}
    order = [place[subtask.id] for subtask in made.order()]
    edges = plan_metrics.edge_f1(drawn, right, match)
    return PlanScore(
        node_f1=plan_metrics.f1(len(match), *sizes),
        edge_f1=edges,
        exact_graph=float(len(match) == sizes[0] == sizes[1] and edges == 1.0),
        chain_f1=plan_metrics.chain_f1(order, right, match, len(wanted)),
        graph_f1=plan_metrics.graph_f1(drawn, right, match, *sizes),
        raw_validity=float(valid),
        decoded_validity=1.0,
    )


PLANNER: Final = "planner"
NEAREST: Final = "nearest_graph"
MACRO: Final = "macro"
_SHOWN = dict(zip(("node", "edge", "exact", "chain", "graph", "raw", "valid"), METRICS, strict=True))
"""Headings of the table."""


@dataclass(frozen=True)
class PlansEvaluation:
    """The figures: row (`planner`, `nearest_graph`) -> the score of each example."""

    examples: Sequence[TrainingExample]
    scores: Mapping[str, Sequence[PlanScore]]

    def to_dict(self) -> dict[str, Any]:
        """row -> source (or `macro`) -> metric -> mean, interval and number of plans."""
        return {row: self._by_source(partial(self._values, row)) for row in self.scores}

    def differences(self) -> dict[str, Any]:
        """As `to_dict` has it, of the planner less the nearest training plan; nothing where either is missing."""
        return {NEAREST: self._by_source(self._paired)} if {PLANNER, NEAREST} <= self.scores.keys() else {}

    def per_plan(self) -> list[dict[str, Any]]:
        """Each example's id and source, and row -> metric -> score."""
        return [
            {
                "task_id": example.task_id,
                "source": example.suite,
                "scores": {row: asdict(scores[i]) for row, scores in self.scores.items()},
            }
            for i, example in enumerate(self.examples)
        ]

    def table(self) -> Table:
        shown = Table(box=None, padding=(0, 1, 0, 0), title="plans", title_justify="left", pad_edge=False)
        shown.add_column("source", overflow="fold")
        for heading in ("plans", *_SHOWN):
            shown.add_column(heading, justify="right", no_wrap=True)
        for source in self._groups(np.zeros(len(self.examples))):
            for row in self.scores:
                cells = [self._groups(self._values(row, metric))[source] for metric in METRICS]
                if row == next(iter(self.scores)):
                    shown.add_row(source, str(sum(map(len, cells[0]))), style="dim")
                means = (mean(np.array([mean(group) for group in cell])) for cell in cells)
                style = "bold" if row == PLANNER else None
                shown.add_row("  " + row.replace("_", " "), "", *(f"{m:.3f}".lstrip("0") for m in means), style=style)
            shown.add_section()
        if differences := self.differences():
            shown.add_row("planner less nearest graph, over sources (95 %)", style="dim")
            overall = differences[NEAREST][MACRO]
            shown.add_row(
                "", "", *(Interval(**overall[metric]).signed() for metric in ("node_f1", "edge_f1", "exact_graph"))
            )
        return shown

    def _by_source(self, values: Callable[[str], Values]) -> dict[str, dict[str, Any]]:
        """source (or `macro`) -> metric -> interval, of (examples,) values by metric."""
        found: dict[str, dict[str, Any]] = {}
        for metric in METRICS:
            for source, groups in self._groups(values(metric)).items():
                found.setdefault(source, {})[metric] = mean_over_groups(groups, draws=2000).to_dict()
        return found

    def _values(self, row: str, metric: str) -> Values:
        return np.array([getattr(score, metric) for score in self.scores[row]], dtype=np.float64)

    def _paired(self, metric: str) -> Values:
        return self._values(PLANNER, metric) - self._values(NEAREST, metric)

    def _groups(self, values: Values) -> dict[str, list[Values]]:
        """source -> the values of its examples; `macro` -> those of each source."""
        of = np.array([example.suite for example in self.examples])
        by_source = {source: [values[of == source]] for source in sorted({*of.tolist()})}
        return by_source | {MACRO: [group for groups in by_source.values() for group in groups]}


def nearest(
    examples: Sequence[TrainingExample], learned: Sequence[TrainingExample], embed: EmbedSentences
) -> list[Workflow]:
    """For each example the plan of the learned one whose task means the most similar."""
    similarity = embed([e.asked for e in examples]) @ embed([e.asked for e in learned]).T
    return [learned[place].workflow for place in similarity.argmax(1)]


class StepsPlanner(Protocol):
    """Plans instructions."""

    def plan_instructions(self, instructions: Sequence[str]) -> list[Plan]: ...


def evaluate_plans(
    planner: StepsPlanner | None,
    examples: Sequence[TrainingExample],
    embed: EmbedSentences,
    *,
    learned: Sequence[TrainingExample] = (),
    console: Console | None = None,
) -> PlansEvaluation:
    """Score the planner, if there is one, and copies of the nearest training plan on the examples.

    Args:
        learned: examples among which the nearest training plan is looked for; without them that row is left out.
        console: where the progress bar is shown.
    """
    if not examples:
        raise UserError("evaluate-plans: no plans in the file")
    if planner is None and not learned:
        raise UserError("evaluate-plans: neither a planner nor plans to copy; name --checkpoint or --training_data")
    made: dict[str, list[Plan]] = {}
    with open_progress("evaluate-plans", console=console, disable=console is None) as progress:
        line = progress.add_task("evaluate-plans", total=len(examples), status=PLANNER)
        if planner is not None:
            planned: dict[int, Plan] = {}
            for rows in length_batches({i: len(example.instruction) for i, example in enumerate(examples)}):
                planned |= zip(rows, planner.plan_instructions([examples[i].instruction for i in rows]), strict=True)
                progress.advance(line, len(rows))
            made[PLANNER] = [planned[i] for i in range(len(examples))]
        if learned:
            made[NEAREST] = [Plan(workflow, raw_valid=True) for workflow in nearest(examples, learned, embed)]
        scores: dict[str, list[PlanScore]] = {row: [] for row in made}
        for row, plans in made.items():
            progress.reset(line, total=len(examples), status=f"score of {row.replace('_', ' ')}")
            for plan, example in zip(plans, examples, strict=True):
                scores[row].append(score_plan(plan.workflow, example.workflow, embed, plan.raw_valid))
                progress.advance(line)
    return PlansEvaluation(examples, scores)
