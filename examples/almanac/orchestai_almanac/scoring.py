"""Whether an answer says what the reference says: the same day, measure or name, in whatever format."""

from __future__ import annotations

import re
import string

from orchestai.tasks.task import Task
from orchestai_almanac.values import Quantity, dates, quantities

TOLERANCE = 0.01
"""Relative error that a converted measure may have; counts of people, days and years are exact."""
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def scorer(task: Task, answer: str, sandbox: object) -> float:
    """1 if the answer says what one of the task's reference answers says, else 0."""
    return float(any(says(answer, reference) for reference in task.answers))


def says(answer: str, reference: str) -> bool:
    """Whether `answer` gives the value of `reference` and no other of its type."""
    if _normalized(answer) == _normalized(reference):
        return True
    if wanted := dates(reference):
        return set(dates(answer)) == set(wanted)
    if amounts := quantities(reference):
        given = quantities(answer)
        return len(given) == 1 and _same(given[0], amounts[0])
    return False


def _same(given: Quantity, wanted: Quantity) -> bool:
    if wanted.dimension in ("", "time", "years"):
        return given.value == wanted.value and given.unit in ("", wanted.unit)
    return given.dimension == wanted.dimension and abs(given.in_base - wanted.in_base) <= TOLERANCE * wanted.in_base


def _normalized(text: str) -> str:
    plain = text.lower().translate({ord(character): " " for character in string.punctuation})
    return " ".join(_ARTICLE.sub(" ", plain).split())
