"""What a question computes: a graph of steps over the almanac, with the value that each step gives."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, TypeAlias

from orchestai_almanac.pages import Page, page_of
from orchestai_almanac.values import Quantity, whole_years
from orchestai_almanac.world import Thing, Value, World

StepType: TypeAlias = Literal["lookup", "extract", "calculate", "compare"]
TASK_TYPES: tuple[StepType, ...] = ("lookup", "extract", "calculate", "compare")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        what: look-up: the thing's kind and name, or its kind alone where the parent names it; extraction: the
            attribute; else the operation, and what it needs beside its parents.
        parents: indices of earlier steps.
    """

    type: StepType
    what: tuple[str, ...]
    parents: tuple[int, ...] = ()


@dataclass(frozen=True)
class Computation:
    """Steps in an order in which parents come first; the last one gives the answer."""

    steps: tuple[Step, ...]

    @property
    def signature(self) -> str:
        """Hash of what is computed, blind to wording and to the order of branches."""
        digests: list[str] = []
        for step in self.steps:
            parents = sorted(digests[parent] for parent in step.parents)
            text = f"{step.type}({','.join(step.what)};{','.join(parents)})"
            digests.append(hashlib.sha256(text.encode()).hexdigest()[:32])
        return digests[-1]

    def run(self, country: World) -> list[Thing | Value]:
        """The value of every step, from what is true of the country; raises `ValueError` where one has none."""
        values: list[Thing | Value] = []
        for step in self.steps:
            parents = [values[parent] for parent in step.parents]
            values.append(_value(step, parents, country))
        return values

    def texts(self, country: World) -> list[str]:
        """What every step gives as text where all goes well: pages, values as pages write them, and answers."""
        values = self.run(country)
        found: list[str] = []
        for step, value in zip(self.steps, values, strict=True):
            if isinstance(value, Thing) and step.type == "lookup":
                found.append(page_of(value).text)
            elif step.type == "extract":
                found.append(_page_above(self.steps, step, values).written[step.what[0]])
            else:
                found.append(str_of(value))
        return found


def _page_above(steps: tuple[Step, ...], step: Step, values: list[Thing | Value]) -> Page:
    thing = values[step.parents[0]]
    assert isinstance(thing, Thing)
    return page_of(thing)


def _value(step: Step, parents: list[Thing | Value], country: World) -> Thing | Value:
    if step.type == "lookup":
        kind, *name = step.what
        return country.find(kind, name[0] if name else str(parents[0]))  # type: ignore[arg-type]
    if step.type == "extract":
        thing = parents[0]
        assert isinstance(thing, Thing)
        return thing.facts[step.what[0]]
    operation, *given = step.what
    if step.type == "compare":
        return _compared(operation, given, parents)
    return _calculated(operation, given, parents)


def _calculated(operation: str, given: list[str], parents: list[Thing | Value]) -> Value:
    days = [value for value in parents if isinstance(value, date)]
    sizes = [value for value in parents if isinstance(value, Quantity)]
    if operation == "years":
        return Quantity(whole_years(*days), "years")
    if operation == "days":
        return Quantity(abs((days[0] - days[1]).days), "days")
    if operation == "weekday":
        return WEEKDAYS[days[0].weekday()]
    if operation == "later":
        return days[0] + timedelta(days=int(given[0]))
    if operation == "convert":
        return sizes[0].to(given[0])
    first, second = (size.to(given[0]) if given else size for size in sizes)
    if operation == "difference":
        return Quantity(abs(first.value - second.value), first.unit)
    if operation == "sum":
        return Quantity(first.value + second.value, first.unit)
    raise ValueError(f"no operation {operation!r}")


def _compared(operation: str, names: list[str], parents: list[Thing | Value]) -> str:
    keys = [value.in_base if isinstance(value, Quantity) else value for value in parents]
    first, second = keys
    if first == second:
        raise ValueError("a tie")
    larger = 0 if first > second else 1  # type: ignore[operator]
    return names[larger if operation == "larger" else 1 - larger]


def str_of(value: Thing | Value) -> str:
    """As an answer is written."""
    if isinstance(value, Thing):
        return value.name
    return value.isoformat() if isinstance(value, date) else str(value)
