"""Which of two named things is the larger, older, longer, ..., by the values that the parents give."""

from __future__ import annotations

import re

from orchestai.workers.base import Request, WorkerError
from orchestai_almanac.values import dates, quantities

_LARGER = re.compile(r"\b(?:larger|longer|higher|deeper|heavier|taller|newer|younger|later|wider|more)\b")
_SMALLER = re.compile(r"\b(?:smaller|shorter|lower|shallower|lighter|older|earlier|less|fewer)\b")
_AFTER_COMMA = re.compile(r"[,:] (?P<a>[^,:]+?) or (?P<b>[^,:?]+)$")
_QUESTION = re.compile(r"\b(?:is|of|between) (?P<a>[^,:]+?) (?:or|and) (?P<b>[^,:?]+)$")


async def compare(request: Request) -> str:
    """The one of the two things named in the request that the words ask for, in the words of the request.

    Raises:
        WorkerError: the words name no two things or no direction, or the inputs are not two dates or two measures.
    """
    words = request.instruction.strip(" ?.")
    names = _AFTER_COMMA.search(words) or _QUESTION.search(words)
    larger, smaller = _LARGER.search(words), _SMALLER.search(words)
    if names is None or not (larger or smaller):
        raise WorkerError("the words do not say what is compared")
    first, second = names["a"], names["b"]
    if smaller and (not larger or smaller.start() < larger.start()):
        first, second = second, first
    keys = _keys(list(request.inputs.values()))
    direction = (larger if first == names["a"] else smaller) or smaller
    winner = first if keys[0] > keys[1] else second
    assert direction is not None
    return winner.partition(f" {direction[0]}")[0]


def _keys(inputs: list[str]) -> list[float]:
    """Numbers that are in the order of the values."""
    if len(inputs) != 2:
        raise WorkerError(f"two values are compared, and {len(inputs)} are given")
    days = [float(found[0].toordinal()) for text in inputs if (found := dates(text))]
    if len(days) == 2:
        return days
    sizes = [amounts[0] for text in inputs if (amounts := quantities(text))]
    if len(sizes) < 2 or sizes[0].dimension != sizes[1].dimension:
        raise WorkerError("the inputs are not two values of a kind")
    return [size.in_base for size in sizes]
