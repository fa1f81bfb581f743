"""Judging answers that are one number: units, thousands separators and words around it do not count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, DivisionByZero, InvalidOperation

from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.rewards.answers import tagged_answer
from orchestai.rewards.maths import marked_answer
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task

NO_NUMBER = "there is no number in the answer {!r}"
RELATIVE = Decimal("1e-6")
"""Relative error that is always allowed, for numbers that were computed in binary."""
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_LONGEST = 60
_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>(?<!\w)[-+−])?[$€£]?"
    rf"(?P<digits>\d{{1,3}}(?:,\d{{3}}){{1,15}}(?!\d)|\d{{1,{_LONGEST}}}(?!\d))?(?P<decimals>\.\d{{1,{_LONGEST}}})?"
    r"(?P<power>[eE][-+]?\d{1,2}(?!\w))?(?:/(?P<under>\d{1,20})(?![\d/]))?"
    rf"(?:\s(?P<scale>{'|'.join(_SCALES)})\b)?"
)


def numeric_reward_fn(task: Task, answer: str, sandbox: Sandbox) -> Outcome:
    """1 if the answer's number is that of one of the task's reference answers, else 0.

    The answer's number is the last one of what is marked as the answer (`\\boxed{}`, `<answer>`, `####`), else of the
    whole text; the reference's is its first. They agree within `task.details["tolerance"]`, an absolute error in the
    reference's unit. Without it: within a millionth of the reference, or where the reference has decimals and the
    answer more of them, if the answer rounds to the reference (`3.14159` is `3.14`, but `3` is not, and `12.4` is not
    `12`). What stands around a number does not count: `$1,200.50`, `1200.5 USD` and `1.2005 thousand` are equal, and
    so are `50%` and `50`.
    """
    references = [number for text in task.answers if (number := first_number(text)) is not None]
    if not references:
        return Unscorable("task", f"{task.place}: none of its answers has a number")
    number = answered_number(answer)
    if number is None:
        return Scored(0.0)
    tolerance = task.details.get("tolerance")
    allowed = None if tolerance is None else Decimal(str(tolerance))
    return Scored(float(any(_agree(number, reference, allowed) for reference in references)))


def answered_number(answer: str) -> Decimal | None:
    """The number that an answer gives: the last one of what is marked, else of the whole; None where there is none."""
    marked = tagged_answer(answer) or marked_answer(answer)
    numbers = list(_numbers(answer if marked is None else marked))
    return numbers[-1] if numbers else None


def first_number(text: str) -> Decimal | None:
    """The value of the first number in a text; None where there is none."""
    return next(_numbers(text), None)


def _numbers(text: str) -> Iterator[Decimal]:
    for match in _NUMBER.finditer(text):
        if not (match["digits"] or match["decimals"]):
            continue
        sign = "-" if match["sign"] in ("-", "−") else ""
        number = Decimal(f"{sign}{(match['digits'] or '0').replace(',', '')}{match['decimals'] or ''}")
        if match["power"]:
            number = number.scaleb(int(match["power"][1:]))
        if match["under"]:
            try:
                number /= Decimal(match["under"])
            except (DivisionByZero, InvalidOperation):
                continue
        yield number.scaleb(_SCALES.get(match["scale"] or "", 0))


def _agree(number: Decimal, reference: Decimal, allowed: Decimal | None) -> bool:
    error = abs(number - reference)
    if allowed is not None:
        return error <= allowed
    if error <= RELATIVE * abs(reference):
        return True
    decimals, given = (-int(value.as_tuple().exponent) for value in (reference, number))
    return 0 < decimals < given and error <= Decimal((0, (5,), -decimals - 1))
