"""A planner and the floors beside plans that others wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from orchestai.data.training_file import TrainingExample
from orchestai.errors import UserError
from orchestai.evaluation.plans import baselines
from orchestai.evaluation.plans.metrics import EmbedSentences, PlanScore, score_plan
from orchestai.evaluation.plans.plans_evaluation import PLANNER, PlansEvaluation
from orchestai.lm.length_batches import length_batches
from orchestai.planner.base import Plan
from orchestai.progress import open_progress
from orchestai.workflow import Workflow

T = TypeVar("T")

_FLOORS = {
    "listed_chain": baselines.listed_chain,
    "all_pairs": baselines.all_pairs,
    "no_edges": baselines.no_edges,
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
            floors["nearest_graph"] = baselines.nearest(examples, learned, bar.embedding(embed, "similar tasks"))
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
