"""Arithmetic on what the parents give: with plain numbers, with units, with dates."""

from __future__ import annotations

import re
from datetime import date, timedelta

from orchestai.workers.base import Request, WorkerError
from orchestai_almanac.values import Quantity, dates, quantities, unit_in, whole_years

_SUM = re.compile(r"\b(sum|add|together|total|plus)\b", re.IGNORECASE)
_DIFFERENCE = re.compile(r"\b(differ|difference|between|apart|lie|passed|less|more|from)\b", re.IGNORECASE)
_WEEKDAY = re.compile(r"\b(weekday|day of the week|monday)\b", re.IGNORECASE)
_LATER = re.compile(r"\b(\d+) days?\b", re.IGNORECASE)
_YEARS = re.compile(r"\byears?\b", re.IGNORECASE)
_DAYS = re.compile(r"\bdays?\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


async def plain(request: Request) -> str:
    """Sum or difference of the first number of each input, whatever it measures.

    Raises:
        WorkerError: there are not two numbers, or the words name neither.
    """
    numbers = [float(match[0].replace(",", "")) for text in _inputs(request) if (match := _NUMBER.search(text))]
    if len(numbers) != 2:
        raise WorkerError(f"the calculator takes two numbers, and was given {len(numbers)}")
    value = _joined(request.instruction, *numbers)
    unit = unit_in(request.instruction) or ("years" if _YEARS.search(request.instruction) else "")
    return str(Quantity(value, unit))


async def with_units(request: Request) -> str:
    """A measure in the unit that the words name, or the sum or difference of two.

    Raises:
        WorkerError: the words name no unit, or the inputs are not one or two measures that have it.
    """
    unit = unit_in(request.instruction)
    if not unit:
        raise WorkerError("the words name no unit of measure")
    try:
        given = [quantities(text)[0].to(unit) for text in _inputs(request)]
    except (IndexError, ValueError) as error:
        raise WorkerError(f"not a measure in {unit}: {error}") from None
    if len(given) == 1:
        return str(given[0])
    if len(given) != 2:
        raise WorkerError(f"the converter takes one measure or two, and was given {len(given)}")
    return str(Quantity(_joined(request.instruction, given[0].value, given[1].value), unit))


async def with_dates(request: Request) -> str:
    """Weekday of a date, a date so many days later, or the days or full years between two.

    Raises:
        WorkerError: the inputs are not one or two dates, or the words ask for something else.
    """
    words = request.instruction
    found = [days[0] for text in _inputs(request) if (days := dates(text))]
    if len(found) == 1 and _WEEKDAY.search(words):
        return _WEEKDAYS[found[0].weekday()]
    if len(found) == 1 and (later := _LATER.search(words)):
        return _shifted(found[0], int(later[1])).isoformat()
    if len(found) == 2 and _YEARS.search(words):
        return f"{whole_years(*found)} years"
    if len(found) == 2 and _DAYS.search(words):
        return f"{abs((found[0] - found[1]).days)} days"
    raise WorkerError(f"the calendar cannot do this with {len(found)} dates")


def _inputs(request: Request) -> list[str]:
    return list(request.inputs.values())


def _joined(words: str, first: float, second: float) -> float:
    if _SUM.search(words):
        return first + second
    if _DIFFERENCE.search(words):
        return abs(first - second)
    raise WorkerError("the words ask for neither a sum nor a difference")


def _shifted(day: date, days: int) -> date:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        raise WorkerError("the calendar does not go so far") from None
