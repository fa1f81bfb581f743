"""Which of several answers to one task most of them agree on, as its scorer compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from orchestai.rewards.answers import normalize_answer, tagged_answer
from orchestai.rewards.maths import final_answer
from orchestai.rewards.numeric import answered_number
from orchestai.rewards.scorers import MATHS, NUMERIC, canonical_name
from orchestai.tasks.task import Task


def majority(task: Task, answers: Sequence[str]) -> int:
    """Index of the first of the answers that most agree with; those that say nothing agree with nobody."""
    keys = [answer_key(task, answer) for answer in answers]
    votes = Counter(key for key in keys if key)
    return keys.index(max(votes, key=votes.__getitem__)) if votes else 0


def answer_key(task: Task, answer: str) -> str:
    """What an answer says, equal for answers that only differ in how they say it; empty where it says nothing."""
    name = canonical_name(task.scorer_name)
    if name == NUMERIC:
        number = answered_number(answer)
        return "" if number is None else str(number.normalize())
    if name == MATHS:
        return "".join(final_answer(answer).split())
    tagged = tagged_answer(answer)
    return normalize_answer(answer if tagged is None else tagged, task.suite)
