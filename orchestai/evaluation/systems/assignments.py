"""Assignments of workers that learn from logs by counting alone: what a trained planner has to beat."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from orchestai.evaluation.systems.worker_accuracy import Trial
from orchestai.workflow import Subtask

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
