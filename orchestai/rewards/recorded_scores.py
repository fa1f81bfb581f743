"""Scores that a table recorded with its replies: what an answer is worth that is word for word one of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from orchestai.errors import InfrastructureError
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task

RECORDED_SCORES = "recorded_scores"
"""The key of `Task.details` under which scores stand, by the digest of the answer."""


def scores_by_answer(judged: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The scores of answers by their digests; of an answer that was scored differently nobody knows the score."""
    found: dict[str, set[float]] = {}
    for answer, score in judged:
        found.setdefault(_digest(answer), set()).add(score)
    return {digest: scores.pop() for digest, scores in found.items() if len(scores) == 1}


def recorded_reward_fn(task: Task, answer: str, sandbox: Sandbox) -> float:
    """The recorded score of the answer.

    Raises:
        InfrastructureError: the table holds no such reply.
    """
    score = task.details.get(RECORDED_SCORES, {}).get(_digest(answer))
    if score is None:
        raise InfrastructureError(
            "recording_missing", f"{task.place}: no score was recorded for this answer; ask recorded workers alone"
        )
    return float(score)


def _digest(answer: str) -> str:
    return hashlib.sha256(answer.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]
