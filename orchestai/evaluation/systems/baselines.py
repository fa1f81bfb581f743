"""The rows that a trained planner is compared with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from orchestai.config import PlannerConfig, WorkersConfig
from orchestai.evaluation.systems.assignments import (
    Embed,
    LookupAssignment,
    NearestAssignment,
    PriorAssignment,
)
from orchestai.evaluation.systems.worker_accuracy import Trial
from orchestai.planner.base import Plan, Planner
from orchestai.planner.baselines.assignment import Assignment, FixedAssignment, RandomAssignment, assign, randomness
from orchestai.planner.baselines.heuristic import HeuristicPlanner
from orchestai.planner.baselines.reference import ReferencePlanner, WholePlanner
from orchestai.tasks.task import Task
from orchestai.workers.pool import worker_cards

WHOLE = "whole: "
"""Rows of one worker asked for the whole task are named so, before the worker's name."""
WHOLE_CASCADE = "whole: cascade"
STEPS = "each step: "
"""Rows of one worker asked for every step are named so; that of the cheapest is `CHEAPEST`."""
HEURISTIC = "heuristic planner"
RANDOM, CHEAPEST, PRIOR, NEAREST, LOOKUP = "random workers", "cheapest worker", "per-type prior", "kNN", "lookup"
CASCADE, REFERENCE, ORACLE = "cascade per step", "reference + prior", "oracle"
SAMPLE_K, SELF_CONSISTENCY, STATIC_MIX = "sample-k-and-check", "self-consistency", "static mix"


class ReassignedPlanner:
    """Decompositions that another planner made, with the workers that `assignment` chooses.

    Args:
        plans: that planner's plans by task id; a missing workflow stays missing.
    """

    def __init__(self, plans: Mapping[str, Plan], assignment: Assignment, seed: int = 0) -> None:
        self._plans = plans
        self._assignment = assignment
        self._seed = seed

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        return [self._reassigned(self._plans[task.task_id], task) for task in tasks]

    def _reassigned(self, plan: Plan, task: Task) -> Plan:
        if plan.workflow is None:
            return plan
        workflow = assign(plan.workflow, self._assignment, randomness(self._seed, task))
        return dataclasses.replace(plan, workflow=workflow, decisions=None, logp=None)


def whole_rows(workers: WorkersConfig) -> dict[str, Planner]:
    """Every worker asked for the whole task, then the cascade, cheap to strong."""
    rows: dict[str, Planner] = {f"{WHOLE}{name}": WholePlanner(name) for name in workers.pool}
    if cascade := workers.cascade:
        rows[WHOLE_CASCADE] = WholePlanner(cascade[0], cascade[1:])
    return rows


def fixed_step_rows(workers: WorkersConfig, plans: Mapping[str, Plan]) -> dict[str, Planner]:
    """Every worker asked for all steps of given decompositions, then the cascade."""
    cards = worker_cards(workers)
    cheapest = min(cards, key=lambda card: card.price_usd).name
    choices: dict[str, Assignment] = {
        CHEAPEST if card.name == cheapest else f"{STEPS}{card.name}": FixedAssignment((card.name,)) for card in cards
    }
    if workers.cascade:
        choices[CASCADE] = FixedAssignment(workers.cascade)
    return {name: ReassignedPlanner(plans, choice) for name, choice in choices.items()}


def other_rows(
    settings: PlannerConfig, workers: WorkersConfig, plans: Mapping[str, Plan], log: Sequence[Trial], embed: Embed
) -> dict[str, Planner]:
    """Choices of workers for given decompositions that differ from step to step, then other decompositions.

    They may use as many fallbacks as the planner. What learns from logs is left out where there are none.
    """
    fallbacks = settings.max_fallbacks
    choices: dict[str, Assignment] = {RANDOM: RandomAssignment(tuple(workers.pool), fallbacks)}
    if log:
        choices[PRIOR] = PriorAssignment(log, fallbacks)
        choices[NEAREST] = NearestAssignment(log, embed, fallbacks)
        choices[LOOKUP] = LookupAssignment(log, fallbacks)
    rows: dict[str, Planner] = {name: ReassignedPlanner(plans, choice) for name, choice in choices.items()}
    if workers.cascade:
        rows[HEURISTIC] = HeuristicPlanner(workers.cascade, settings)
    if log:
        rows[REFERENCE] = ReferencePlanner(PriorAssignment(log, fallbacks))
    return rows
