"""Logged executions as attempts at subtasks, for the pool's estimate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from orchestai.config import Config
from orchestai.data.tables.near_duplicates import near_duplicate_groups
from orchestai.estimate.attempts import WHOLE, PlannedStep, Rows, StepAttempts, Values
from orchestai.estimate.pool_estimate import FEWEST, PoolEstimate, fit_pool_estimate
from orchestai.execution.record import ExecutionRecord, SubtaskRecord
from orchestai.execution.result import Attempt
from orchestai.planner.slots.encoders.encoder import open_encoder
from orchestai.planner.slots.encoders.sentences import MAX_SENTENCE_TOKENS, sentence_embedder
from orchestai.workers.base import WorkerCard
from orchestai.workers.pool import worker_cards

_ITERATIONS = 50


def infer_right(
    *,
    cell: NDArray[np.int_],
    execution: NDArray[np.int_],
    succeeded: NDArray[np.bool_],
    usual: Values | float = 0.5,
    imagined: float = 2.0,
) -> Values:
    """(attempts,) probability that each attempt was right, by expectation maximization of a noisy AND.

    The model: an attempt of a cell (say, of a worker and type) is right with the cell's own probability q, and an
    execution succeeds if and only if every subtask has a right answer. So where one failed, an answer of cell c is
    right with probability (q_c - P) / (1 - P), P being the product of q over the execution's answers.

    Args:
        cell: (attempts,) index of the cell.
        execution: (attempts,) index of the execution.
        succeeded: (executions,) whether the answer has the full score.
        usual: (cells,) share of right attempts that is expected of a cell before any is seen.
        imagined: attempts that this counts as.
    """
    tried, known = np.bincount(cell), succeeded[execution]
    right = np.where(known, 1.0, 0.5)
    for _ in range(_ITERATIONS):
        rates = (np.bincount(cell, right) + imagined * np.asarray(usual)) / (tried + imagined)
        rate = rates[cell]
        logs = np.bincount(execution, np.log(np.maximum(rate, 1e-9)), minlength=len(succeeded))
        product = np.exp(logs)[execution]
        right = np.where(known, 1.0, np.maximum(rate - product, 0.0) / np.maximum(1 - product, 1e-9))
    return right


_IMAGINED = 0.5
"""Attempts at a subtask that a worker's record on its type counts as."""


def fit_estimate(records: Sequence[ExecutionRecord], config: Config) -> PoolEstimate | None:
    """What the executions say of the configured pool; None where fewer than twenty of them were judged."""
    attempts = step_attempts(records, worker_cards(config.workers))
    if len(attempts.succeeded) < FEWEST:
        return None
    return fit_pool_estimate(attempts, sentence_embedder(open_encoder(MAX_SENTENCE_TOKENS))(attempts.texts))


def step_attempts(records: Sequence[ExecutionRecord], cards: Sequence[WorkerCard]) -> StepAttempts:
    """What the executions that were judged say of each worker of a pool on each subtask.

    Executions in which others were asked, too, are left out. An answer that passed its own check and was part of a
    failed execution was right with the probability that `infer_right` gives.
    """
    place = {card.name: number for number, card in enumerate(cards)}
    judged = [record for record in records if record.outcome == "scored" and _known(record, place)]
    rows: dict[tuple[str, str], int] = {}
    planned: list[tuple[PlannedStep, ...]] = []
    attempts: list[tuple[int, int, int, Attempt]] = []
    for number, record in enumerate(judged):
        steps = []
        for subtask in record.subtasks:
            key = subtask.instruction, type_of(subtask, record.instruction)
            step = rows.setdefault(key, len(rows))
            steps.append((step, tuple(place[name] for name in subtask.workers)))
            attempts += [(number, step, place[attempt.worker], attempt) for attempt in subtask.attempts]
        planned.append(tuple(steps))
    execution, row, worker = (np.array([one[i] for one in attempts], dtype=np.intp) for i in range(3))
    passed = np.array([_passed(attempt) for *_, attempt in attempts], dtype=bool)
    succeeded = np.array([record.success for record in judged], dtype=bool)
    complete = np.array([all(any(map(_passed, s.attempts)) for s in record.subtasks) for record in judged], dtype=bool)
    types = [task_type for _, task_type in rows]
    return StepAttempts(
        workers=tuple(place),
        texts=tuple(text for text, _ in rows),
        task_types=tuple(types),
        groups=near_duplicate_groups([text for text, _ in rows]),
        prices=np.array([card.price_usd for card in cards]),
        planned=tuple(planned),
        succeeded=succeeded.astype(np.float64),
        spent_usd=np.array([record.cost for record in judged]),
        seconds=np.array([record.latency_ms / 1000 for record in judged]),
        execution=execution,
        row=row,
        worker=worker,
        passed=passed.astype(np.float64),
        right=_right(execution, row, worker, passed, succeeded, complete, types),
        spending=np.array(
            [
                (one.cost_usd, one.latency_ms / 1000, float(one.prompt_tokens + one.completion_tokens))
                for *_, one in attempts
            ]
        ).reshape(-1, 3),
    )


def type_of(subtask: SubtaskRecord, instruction: str) -> str:
    """The subtask's type; a name of its own where it is the whole task."""
    return WHOLE if " ".join(subtask.instruction.split()) == " ".join(instruction.split()) else subtask.task_type


def _known(record: ExecutionRecord, place: dict[str, int]) -> bool:
    """Whether a plan was run, by workers of the pool alone."""
    asked = {attempt.worker for subtask in record.subtasks for attempt in subtask.attempts}
    return bool(record.subtasks) and (asked | {name for s in record.subtasks for name in s.workers}) <= place.keys()


def _right(
    execution: Rows,
    row: Rows,
    worker: Rows,
    passed: NDArray[np.bool_],
    succeeded: NDArray[np.bool_],
    complete: NDArray[np.bool_],
    types: Sequence[str],
) -> Values:
    """(attempts,) how probably each that passed was right; NaN where a step without an answer explains the failure.

    First by worker and type, then by worker and subtask beside that.
    """
    right = np.where(passed, np.nan, 0.0)
    telling = passed & complete[execution]
    if not telling.any():
        return right
    execution, row, worker = execution[telling], row[telling], worker[telling]
    number = {name: i for i, name in enumerate(dict.fromkeys(types))}
    type_number = np.array([number[name] for name in types])
    by_type, cell_of_type = np.unique(worker * len(number) + type_number[row], return_inverse=True)
    of_type = infer_right(cell=cell_of_type, execution=execution, succeeded=succeeded)
    rates = np.bincount(cell_of_type, of_type) / np.bincount(cell_of_type)
    cells, cell = np.unique(worker * len(types) + row, return_inverse=True)
    parents = np.searchsorted(by_type, cells // len(types) * len(number) + type_number[cells % len(types)])
    right[telling] = infer_right(
        cell=cell, execution=execution, succeeded=succeeded, usual=rates[parents], imagined=_IMAGINED
    )
    return right


def _passed(attempt: Attempt) -> bool:
    return attempt.error is None and attempt.passed_check is not False
