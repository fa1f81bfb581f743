"""What the pool's estimate says of plans: how probably they succeed, and what they take; whom it asks for tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from orchestai.config import CACHE_DIR
from orchestai.estimate.answers import AnswerJudge
from orchestai.estimate.attempts import FEWEST, WHOLE, Queries, Values
from orchestai.estimate.plan_options import PlanOptions, StepEstimate, plan_options
from orchestai.estimate.pool_estimate import PoolEstimate
from orchestai.execution.contract.forecast import Forecast, Likely, WholeForecast
from orchestai.execution.result import Attempt, Decision, Execution, first_accepted
from orchestai.execution.reward import RewardForm
from orchestai.planner.base import Plan
from orchestai.planner.baselines import whole_task
from orchestai.planner.slots.text_encoder import (
    MAX_SENTENCE_TOKENS,
    EmbedSentences,
    open_encoder,
    query_features,
    sentence_embedder,
)
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow

_RARE = 0.01
"""Share of the attempted queries themselves that is as unlike all others."""
_ALIKE = 0.6
"""From this cosine on two sentences of MiniLM's are about the same thing, however much more alike all attempts are."""
_SAMPLE = 1000
"""Queries that are enough to say how like the others they are."""


@dataclass(frozen=True, eq=False)
class Familiarity:
    """What was attempted, and how like some of it a query has to be.

    Attributes:
        embeddings: (queries, width) unit vectors of what was attempted.
        least: the cosine that 99 of 100 of them have to the one that is nearest to them, and no more than .6.
    """

    embeddings: NDArray[np.floating]
    least: float

    @classmethod
    def of(cls, embeddings: NDArray[np.floating]) -> Familiarity:
        """That of different queries, at least one."""
        rows = np.linspace(0, len(embeddings) - 1, min(len(embeddings), _SAMPLE)).astype(np.intp)
        cosines = embeddings[rows] @ embeddings.T
        cosines[np.arange(len(rows)), rows] = -1.0
        nearest = cosines.max(axis=1) if len(embeddings) > 1 else np.ones(1)
        return cls(embeddings, min(float(np.quantile(nearest, _RARE)), _ALIKE))

    def knows(self, embeddings: NDArray[np.floating]) -> NDArray[np.bool_]:
        """(n, width) unit vectors give (n,) bool."""
        return np.asarray((embeddings @ self.embeddings.T).max(axis=1) >= self.least - 1e-4)


_NORMAL = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, eq=False)
class PlanForecaster:
    """What is expected of one plan's workers.

    Attributes:
        pool: whose workers they are.
        workflow: the plan.
        steps: an estimate for each of its subtasks.
        confidence: the chance that the plan itself is right; None where nobody knows.
        is_familiar: whether subtasks like its own were attempted; what is expected of others is a guess.
        judge: of the answers, where the plan is the whole task.
        kind: what sort of task that is, by those that are like it.
        way: of asking, the judge's, that was chosen.
    """

    pool: PoolForecaster
    workflow: Workflow
    steps: Sequence[StepEstimate]
    confidence: float | None
    is_familiar: bool
    judge: AnswerJudge | None = None
    kind: str = ""
    way: int | None = None

    def ways(self, allowed: Sequence[str]) -> PlanOptions | None:
        """The judge's ways of which all workers are allowed; None where there is none."""
        if self.judge is None:
            return None
        names, ways = self.pool.estimate.workers, self.judge.ways
        places = [i for i, way in enumerate(ways) if {names[worker] for worker in way.order} <= set(allowed)]
        spending = self.judge.asked[places] @ self.steps[0].spending.T
        workers = tuple((tuple(ways[place].order.tolist()),) for place in places)
        options = PlanOptions(spending[:, 0], self.judge.success[places], spending, workers, tuple(places))
        return options if places else None

    def decide(self, attempts: Sequence[Attempt]) -> Decision:
        """Whether an answer to the whole task stands, by the way that was chosen."""
        answered = [place for place, attempt in enumerate(attempts) if attempt.error is None]
        if self.judge is None or self.way is None or not answered:
            return first_accepted(attempts)
        replies = [
            (self.pool.place[one.worker], one.answer, one.passed_check is False or one.truncated)
            for one in (attempts[place] for place in answered)
        ]
        instruction = self.workflow.subtasks[0].instruction
        place, done, probability = self.judge.decide(self.way, instruction, self.kind, replies)
        return Decision(answered[place], done, probability)

    def options(self, allowed: Sequence[str], longest: int) -> PlanOptions:
        """All choices of workers that no other beats; `success` is that of the answer, or of a plan that is right where
        nobody knows how sure it is.

        Args:
            longest: most workers to ask for one step.
        """
        places = [self.pool.estimate.workers.index(name) for name in allowed if name in self.pool.estimate.workers]
        options = plan_options(self.steps, places, longest)
        success = (1.0 if self.confidence is None else self.confidence) * self._calibrated(options.success)
        return PlanOptions(options.price, success, options.spending, options.workers)

    def with_workers(self, option: tuple[tuple[int, ...], ...]) -> Workflow:
        """The plan with the workers of an option."""
        names = [[self.pool.estimate.workers[place] for place in order] for order in option]
        steps = zip(self.workflow.subtasks, names, strict=True)
        return self.workflow.replace(
            {subtask.id: {"worker": own[0], "fallback": tuple(own[1:])} for subtask, own in steps}
        )

    def forecast(self, workflow: Workflow) -> Forecast | None:
        """What the same plan with these workers will probably give; None where they or the steps are not known."""
        orders = self._orders(workflow)
        if orders is None or not self.is_familiar:
            return None
        if self.judge is not None and self.way is not None and orders[0] == tuple(self.judge.ways[self.way].order):
            spending = self.steps[0].spending @ self.judge.asked[self.way]
            right = self.judge.success[self.way : self.way + 1]
        else:
            asked = [step.asking(order) for step, order in zip(self.steps, orders, strict=True)]
            spending = np.sum([spent for _, spent in asked], axis=0)
            right = self._calibrated(np.array([np.prod([right for right, _ in asked])]))
        success = None if self.confidence is None else self.confidence * float(right[0])
        priced, timed, _ = self.pool.estimate.measured
        return Forecast(
            success=success,
            cost_usd=float(spending[0]) if priced else None,
            seconds=float(spending[1]) if timed else None,
        )

    def afterwards(self, execution: Execution) -> float | None:
        """The probability that the answer is right, now that it is known who answered what and what checks said."""
        unknown = not self.is_familiar or self._orders(execution.workflow) is None
        if unknown or execution.fault is not None or self.confidence is None:
            return None
        right = 1.0
        for step, result in zip(self.steps, execution.results, strict=True):
            if result.probability is not None:
                return self.confidence * result.probability
            if result.failed:
                return 0.0
            right *= float(step.right[self.pool.place[result.worker]])
        return self.confidence * float(self.pool.estimate.after.apply(np.array([right]))[0])

    def _calibrated(self, right: Values) -> Values:
        return self.pool.estimate.before.apply(right)

    def _orders(self, workflow: Workflow) -> list[tuple[int, ...]] | None:
        place = self.pool.place
        if any(name not in place for subtask in workflow.subtasks for name in subtask.workers):
            return None
        return [tuple(place[name] for name in subtask.workers) for subtask in workflow.subtasks]


class PoolForecaster:
    """Looks ahead by a pool's estimate. The encoder is opened for the first subtask that was never logged."""

    def __init__(self, estimate: PoolEstimate) -> None:
        self.estimate = estimate
        self.place = {name: place for place, name in enumerate(estimate.workers)}
        self._known_steps: dict[tuple[str, str], StepEstimate] = {}

    def of(self, plan: Plan, instruction: str) -> PlanForecaster | None:
        """What is expected of a plan; None where nobody knows what workers do on such steps.

        A task that is asked for as it stands, but for white space and punctuation behind it, is planned right.
        """
        if plan.workflow is None:
            return None
        subtasks = plan.workflow.subtasks
        whole = len(subtasks) == 1 and _bare(subtasks[0].instruction) == _bare(instruction)
        confidence = 1.0 if whole else plan.confidence
        types = (WHOLE,) if whole else tuple(subtask.task_type for subtask in subtasks)
        if not self._known_types.issuperset(types):
            return None
        queries = self._queries([subtask.instruction for subtask in subtasks], types)
        made = PlanForecaster(self, plan.workflow, self._steps(queries), confidence, self._is_familiar(queries))
        if not whole or self.estimate.judge is None:
            return made
        return replace(made, judge=self.estimate.judge, kind=self.estimate.by_kind(queries).task_types[0])

    def whole(self, instruction: str, allowed: Sequence[str]) -> WholeForecast | None:
        """The best single worker, asked for the whole; None where too few whole tasks were attempted by any, or none
        like it."""
        attempts = self.estimate.attempts_at(WHOLE)
        known = [self.place[name] for name in allowed if name in self.place]
        known = [place for place in known if attempts[place] >= FEWEST]
        if not known:
            return None
        queries = self._queries([instruction], (WHOLE,))
        if not self._is_familiar(queries):
            return None
        [step] = self._steps(queries)
        expected = {place: step.asking((place,)) for place in known}
        best = max(known, key=lambda place: (expected[place][0], -expected[place][1][0]))
        right, spending = expected[best]
        success = float(self.estimate.before.apply(np.array([right]))[0])
        # Wilson's interval around a probability that so many attempts speak for
        count = attempts[best]
        square = _NORMAL**2 / count
        center, half = success + square / 2, _NORMAL * np.sqrt(success * (1 - success) / count + square / (4 * count))
        low, high = (center - half) / (1 + square), (center + half) / (1 + square)
        return WholeForecast(
            worker=self.estimate.workers[best],
            success=Likely(mean=success, low=float(max(low, 0.0)), high=float(min(high, 1.0))),
            cost_usd=self._whole_usd(best, float(spending[0])),
            attempts=int(attempts[best]),
        )

    def _steps(self, queries: Queries) -> list[StepEstimate]:
        """What is expected of each query's workers; of subtasks in the estimate's own words it is computed once."""
        asked = list(zip(queries.texts, queries.task_types, strict=True))
        found = {key: self._known_steps[key] for key in asked if key in self._known_steps}
        if new := [place for place, key in enumerate(asked) if key not in found]:
            steps = self.estimate.steps(queries.take(np.array(new)))
            found |= {asked[place]: step for place, step in zip(new, steps, strict=True)}
            self._known_steps |= {key: step for key, step in found.items() if key[0] in self._rows}
        return [found[key] for key in asked]

    def _whole_usd(self, worker: int, mean: float) -> Likely | None:
        low, high = self.estimate.whole_usd[worker].tolist()
        return None if np.isnan(low) else Likely(mean=mean, low=min(mean, low), high=max(mean, high))

    def _is_familiar(self, queries: Queries) -> bool:
        whole = queries.task_types == (WHOLE,)
        return bool(self._familiarity[whole].knows(queries.embeddings).all())

    @cached_property
    def _familiarity(self) -> dict[bool, Familiarity]:
        """With whole tasks, and with steps."""
        known = self.estimate.known
        whole = np.array([task_type == WHOLE for task_type in known.task_types])
        return {kind: Familiarity.of(known.embeddings[whole == kind]) for kind in set(whole.tolist())}

    @cached_property
    def _known_types(self) -> frozenset[str]:
        types = set(self.estimate.known.task_types)
        return frozenset(one for one in types if self.estimate.attempts_at(one).sum() >= FEWEST)

    @cached_property
    def _embed(self) -> EmbedSentences:
        return sentence_embedder(open_encoder(MAX_SENTENCE_TOKENS))

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {text: row for row, text in enumerate(self.estimate.known.texts)}

    def _queries(self, texts: Sequence[str], types: tuple[str, ...]) -> Queries:
        known = self.estimate.known.embeddings
        new = list(dict.fromkeys(text for text in texts if text not in self._rows))
        vectors: dict[str, NDArray[np.floating]] = dict(zip(new, self._embed(new), strict=True)) if new else {}
        rows = [known[self._rows[text]] if text in self._rows else vectors[text] for text in texts]
        return Queries(tuple(texts), types, np.stack(rows))


def _bare(text: str) -> str:
    return " ".join(text.split()).rstrip(" .,;:!?")


def expected_reward(options: PlanOptions, estimate: PoolEstimate, reward: RewardForm | None) -> Values:
    """(options,) expected rewards of an answer, in rewards of a success.

    Args:
        reward: weighs what is paid and how long it takes against success; None: success alone counts.
    """
    success = estimate.before.apply(options.success)
    if reward is None:
        return success
    usd, seconds, _ = options.spending.T
    spent = [reward.cost(a) + reward.latency(1000 * b) for a, b in zip(usd.tolist(), seconds.tolist(), strict=True)]
    return success - np.array(spent) / (reward.alpha or 1.0)


_NEAREST = 10
_PSEUDO = 3.0
"""Tasks on which a worker did as on all, beside those that are nearest."""


def nearest_workers(
    queries: NDArray[np.floating],
    known: NDArray[np.floating],
    right: Values,
    cost_usd: Values,
    *,
    apart: bool = False,
) -> NDArray[np.intp]:
    """(queries,) the worker that did best on the ten known tasks nearest to each, of equals the cheapest.

    Args:
        queries, known: (n, width) unit vectors.
        right, cost_usd: (known, workers), NaN where nobody tried.
        apart: the queries are the known ones, and what is known of each is not for itself.
    """
    near = queries @ known.T
    if apart:
        np.fill_diagonal(near, -np.inf)
    nearest = np.argsort(-near, axis=1, kind="stable")[:, : min(_NEAREST, len(known) - apart)]
    tried, won = np.isfinite(right), np.nan_to_num(right)
    own = np.stack([tried, won]) if apart else 0.0
    count, sums = np.stack([tried, won]).sum(axis=1, keepdims=True) - own
    usual = (sums + 0.5) / (count + 1)
    chance = (won[nearest].sum(axis=1) + _PSEUDO * usual) / (tried[nearest].sum(axis=1) + _PSEUDO)
    price = np.where(tried, np.nan_to_num(cost_usd), 0.0).sum(axis=0) / np.maximum(tried.sum(axis=0), 1)
    return np.asarray((chance - 1e-9 * price / max(price.max(), 1e-12)).argmax(axis=1))


@dataclass(frozen=True)
class RoutingPlanner:
    """Plans each task as one step, with the workers of the highest expected reward.

    Args:
        estimate: of the workers.
        workers: of the pool, by name; those that the estimate does not know are not asked.
        reward: weighs what is paid and how long it takes against success; None: success alone counts.
        longest: most workers to ask, one after the other.
        cache_dir: see `query_features`.
        nearest: ask the one worker that did best on the nearest tasks instead (`nearest_workers`).
    """

    estimate: PoolEstimate
    workers: Sequence[str]
    reward: RewardForm | None
    longest: int
    cache_dir: Path = field(default=CACHE_DIR)
    nearest: bool = False

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        """One plan per task; its confidence is 1, since a task that is asked as it stands is split rightly."""
        texts = tuple(task.instruction for task in tasks)
        queries = Queries(texts, (WHOLE,) * len(texts), query_features(texts, self.cache_dir))
        names = self.estimate.workers
        allowed = [place for place, name in enumerate(names) if name in set(self.workers)]
        near = self._nearest(queries, allowed) if self.nearest else ()
        plans = []
        for place, (task, step) in enumerate(zip(tasks, self.estimate.steps(queries), strict=True)):
            if self.nearest:
                order: tuple[int, ...] = (near[place],)
            else:
                options = plan_options([step], allowed, self.longest)
                [order] = options.workers[int(np.argmax(expected_reward(options, self.estimate, self.reward)))]
            first, *others = (names[place] for place in order)
            workflow = whole_task(task)
            chosen = workflow.replace({workflow.subtasks[0].id: {"worker": first, "fallback": tuple(others)}})
            plans.append(Plan(workflow=chosen, raw_valid=True, confidence=1.0))
        return plans

    def _nearest(self, queries: Queries, allowed: Sequence[int]) -> Sequence[int]:
        known, count = self.estimate, len(self.estimate.workers)
        whole = np.flatnonzero([task_type == WHOLE for task_type in known.known.task_types])
        with np.errstate(invalid="ignore", divide="ignore"):
            right = known.won[whole, count:] / known.tried[whole, :count]
            usd = known.spent[0][whole] / known.asked[whole]
        embeddings = known.known.embeddings[whole]
        found = nearest_workers(queries.embeddings, embeddings, right[:, allowed], usd[:, allowed])
        return [allowed[worker] for worker in found]
