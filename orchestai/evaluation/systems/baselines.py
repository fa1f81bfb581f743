"""The rows that a trained planner is compared with."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestai.config import PlannerConfig, WorkersConfig
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.reward import RewardForm
from orchestai.planner.base import Plan, Planner
from orchestai.planner.baselines import (
    Assignment,
    FixedAssignment,
    HeuristicPlanner,
    RandomAssignment,
    ReferencePlanner,
    WholePlanner,
    assign,
    randomness,
)
from orchestai.tasks.task import Task
from orchestai.workers.pool import worker_cards
from orchestai.workflow import Subtask


@dataclass(frozen=True)
class Trial:
    """One worker's attempt at one subtask.

    Attributes:
        first: whether the worker was asked first; fallbacks see only what others failed at.
        value: `alpha` for an answer that passed in an execution that succeeded, else 0; less what the execution lost to
            the attempt's cost and latency, compared with one in which it had been free and immediate. That other steps
            fail, too, averages out: who was at fault is not guessed.
    """

    worker: str
    task_type: str
    instruction: str
    first: bool
    value: float


def trials(records: Sequence[ExecutionRecord], reward: RewardForm) -> list[Trial]:
    """All logged attempts of the executions that were judged."""
    found = []
    for record in records:
        for subtask in record.subtasks if record.outcome == "scored" else ():
            for i, one in enumerate(subtask.attempts):
                right = record.success and one.accepted
                cost = reward.cost(record.cost) - reward.cost(max(record.cost - one.cost_usd, 0.0))
                rest_ms = max(record.latency_ms - one.latency_ms, 0.0)
                value = reward.alpha * right - cost - (reward.latency(record.latency_ms) - reward.latency(rest_ms))
                found.append(Trial(one.worker, subtask.task_type, subtask.instruction, i == 0, value))
    return found


Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""(texts, width) unit vectors."""

_SHRINKAGE = 4.0
"""Weight, in attempts, of a worker's mean over everything when few attempts speak for a particular case."""


class PriorAssignment:
    """A table task type -> workers by mean value in the logs: the best first, as fallbacks the next that are worth it.

    Only first attempts count: a fallback is asked only where others failed, so its record is of harder subtasks. Means
    of few attempts are drawn towards the worker's mean over all types.
    """

    def __init__(self, log: Sequence[Trial], fallbacks: int) -> None:
        first = [trial for trial in log if trial.first]
        self._asked = 1 + fallbacks
        self._general = _means(first)
        by_type: dict[str, list[Trial]] = defaultdict(list)
        for trial in first:
            by_type[trial.task_type].append(trial)
        self._means = {kind: _shrunk(group, self._general) for kind, group in by_type.items()}

    def __call__(self, subtasks: Sequence[Subtask], rng: random.Random) -> list[tuple[str, ...]]:
        return [_best(self.means(subtask.task_type), self._asked) for subtask in subtasks]

    def means(self, task_type: str) -> dict[str, float]:
        """What each worker is worth on subtasks of a type; of an unknown one, on all."""
        return self._means.get(task_type, self._general)


class LookupAssignment:
    """A table step -> workers by mean value on steps of that very wording; of another, those of `PriorAssignment`.

    Fallbacks count, as they were asked the same. Means of few attempts are drawn towards those over the step's type.
    """

    def __init__(self, log: Sequence[Trial], fallbacks: int) -> None:
        self._prior = PriorAssignment(log, fallbacks)
        by_words: dict[str, list[Trial]] = defaultdict(list)
        for trial in log:
            by_words[trial.instruction].append(trial)
        self._table = {
            words: _best(_shrunk(group, self._prior.means(group[0].task_type)), 1 + fallbacks)
            for words, group in by_words.items()
        }

    def __call__(self, subtasks: Sequence[Subtask], rng: random.Random) -> list[tuple[str, ...]]:
        others = self._prior(subtasks, rng)
        return [self._table.get(subtask.instruction, other) for subtask, other in zip(subtasks, others, strict=True)]


class NearestAssignment:
    """For each subtask the workers by mean value on the `k` subtasks in the logs whose words are nearest to its own.

    Each worker is judged by its own `k` nearest attempts, fallbacks included: what is compared is nearly the same
    subtask, so there is little selection to correct. Words that the encoder cannot read get the workers that are best
    over all.
    """

    def __init__(self, log: Sequence[Trial], embed: Embed, fallbacks: int, k: int = 10) -> None:
        self._embed = embed
        self._k = k
        self._asked = 1 + fallbacks
        self._general = _means(log)
        self._log: dict[str, list[Trial]] = defaultdict(list)
        for trial in log:
            self._log[trial.worker].append(trial)
        self._vectors = {
            worker: embed([trial.instruction for trial in attempted]) for worker, attempted in self._log.items()
        }

    def __call__(self, subtasks: Sequence[Subtask], rng: random.Random) -> list[tuple[str, ...]]:
        queries = self._embed([subtask.instruction for subtask in subtasks])
        nearest: list[list[Trial]] = [[] for _ in subtasks]
        for worker, vectors in self._vectors.items():
            similarity = queries @ vectors.T
            for row, order in enumerate(np.argsort(-similarity, axis=1, kind="stable")[:, : self._k]):
                nearest[row] += [self._log[worker][i] for i in order if similarity[row, i] > 0]
        return [_best(_shrunk(group, self._general), self._asked) for group in nearest]


def _means(log: Iterable[Trial]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for trial in log:
        values[trial.worker].append(trial.value)
    return {worker: float(np.mean(found)) for worker, found in values.items()}


def _shrunk(group: Iterable[Trial], general: dict[str, float]) -> dict[str, float]:
    """Mean value per worker on `group`, with `_SHRINKAGE` imagined attempts at the worker's general mean.

    Workers that have none are left out.
    """
    total = {worker: _SHRINKAGE * value for worker, value in general.items()}
    weight = dict.fromkeys(general, _SHRINKAGE)
    for trial in group:
        if trial.worker in general:
            total[trial.worker] += trial.value
            weight[trial.worker] += 1
    return {worker: total[worker] / weight[worker] for worker in general}


def _best(values: dict[str, float], count: int) -> tuple[str, ...]:
    """The best worker, and as fallbacks the next best that are worth more than nothing."""
    ranked = sorted(values, key=lambda worker: (-values[worker], worker))
    return tuple(ranked[:1] + [worker for worker in ranked[1:count] if values[worker] > 0])


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
    """Plans that another planner made, by task id, with the workers that `assignment` chooses, or as they are."""

    def __init__(self, plans: Mapping[str, Plan], assignment: Assignment | None = None) -> None:
        self._plans = plans
        self._assignment = assignment

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        plans = []
        for task in tasks:
            plan = self._plans[task.task_id]
            if plan.workflow is not None and self._assignment is not None:
                workflow = assign(plan.workflow, self._assignment, randomness(0, task))
                plan = dataclasses.replace(plan, workflow=workflow, decisions=None, logp=None)
            plans.append(plan)
        return plans


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
