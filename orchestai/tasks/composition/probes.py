"""Trying a composition on random inputs, and refusing those in which a step does not matter."""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from orchestai.tasks.composition.graph import INPUT, Composition, OutOfDomainError
from orchestai.tasks.composition.operation import Kind, Value

_WORDS = """
a an at be to of on in it we red fox owl sea tea old new big cat dog sun moon lamp tree house river
stone apple pear plum fig lemon green blue grey quick brown quiet music paper train ocean winter
summer orange yellow window garden market village banana kitchen morning evening picture umbrella
mountain
"""
VOCABULARY = tuple(_WORDS.split())
LONGEST_TEXT = 72
LONGEST_LIST = 24
LARGEST_INTEGER = 10**6


def sample(kind: Kind, rng: Random) -> Value:
    """A non-empty value of a kind; repeated items, ties, signs and mixed case all occur."""
    if kind == "str":
        return " ".join(_word(rng) for _ in range(rng.randint(2, 6)))
    if kind == "int":
        return rng.choice((rng.randint(2, 12), rng.randint(10, 99), rng.randint(10, 400), rng.randint(-60, -1)))
    if kind == "ints":
        return _with_repeats([rng.randint(-9, 30) for _ in range(rng.randint(3, 8))], rng)
    if kind == "words":
        return _with_repeats([_word(rng) for _ in range(rng.randint(3, 6))], rng)
    if kind == "dict":
        return {_word(rng): rng.randint(-3, 12) for _ in range(rng.randint(3, 5))}
    year, month = rng.randint(1980, 2035), rng.randint(1, 12)
    return f"{year}-{month:02}-{rng.randint(1, calendar.monthrange(year, month)[1]):02}"


def bounded(kind: Kind, value: Value) -> bool:
    """Whether a value is small enough to be shown in an instruction or a test."""
    if kind == "str":
        return len(value) <= LONGEST_TEXT
    if kind == "int":
        return abs(value) <= LARGEST_INTEGER
    if kind == "ints":
        return len(value) <= LONGEST_LIST and all(abs(n) <= LARGEST_INTEGER for n in value)
    if kind == "words":
        return sum(map(len, value)) <= LONGEST_TEXT
    if kind == "dict":
        return len(value) <= LONGEST_LIST and all(abs(n) <= LARGEST_INTEGER for n in value.values())
    return "1900" <= value[:4] <= "2100"


def _word(rng: Random) -> str:
    word = rng.choice(VOCABULARY)
    return rng.choice((word, word, word, word.capitalize(), word.upper()))


def _with_repeats(items: list[Value], rng: Random) -> list[Value]:
    """In half of the cases, one or two items are replaced by copies of others."""
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 2)):
            items[rng.randrange(len(items))] = rng.choice(items)
    return items


PROBES = 20
"""Random inputs on which a composition is examined."""
DEFINED = 0.75
"""Least share of inputs on which all steps are defined and all values are small."""


@dataclass(frozen=True)
class Probe:
    """An input and the values of all nodes on it."""

    value: Value
    values: tuple[Value, ...]

    @property
    def result(self) -> Value:
        return self.values[-1]


def probe(composition: Composition, rng: Random, count: int = PROBES) -> list[Probe]:
    """Distinct inputs, `count` at most, on which every step is defined and every value is small; none if these are few.

    An empty list also where the first inputs show that a step is idle.
    """
    probes: dict[str, Probe] = {}
    for tried in range(count):
        value = sample(composition.kind, rng)
        try:
            values = tuple(composition.run(value))
        except OutOfDomainError:
            values = ()
        if values and all(bounded(node.operation.output, v) for node, v in zip(composition.nodes, values, strict=True)):
            probes[repr(value)] = Probe(value, values)
        if tried == 3 and (len(probes) < 3 or _idle(composition, list(probes.values()))):
            return []
    return list(probes.values()) if len(probes) >= DEFINED * count else []


def _idle(composition: Composition, probes: Sequence[Probe]) -> bool:
    """Whether a step gives an argument unchanged, or the same value, on all of these probes."""
    for index, node in enumerate(composition.nodes):
        if _most_common([p.values[index] for p in probes]) == len(probes):
            return True
        if any(all(_argument(p, parent) == p.values[index] for p in probes) for parent in node.parents):
            return True
    return False


def matters(composition: Composition, probes: Sequence[Probe]) -> bool:
    """Whether every step varies, changes its argument, and shows in the result, on these probes.

    Refused are steps that mostly give the same value or the task's input, steps that can be skipped mostly unnoticed,
    arguments whose value is mostly not needed, and results of which one is frequent: skipping a step has to change the
    result on 40 % of the probes, and taking a parent's value from another probe on 30 %.
    """
    count = len(probes)
    if not count or _most_common([p.result for p in probes]) > 0.3 * count:
        return False
    for index in range(len(composition.nodes)):
        if _most_common([p.values[index] for p in probes]) > 0.7 * count:
            return False
        if sum(p.values[index] == p.value for p in probes) > 0.2 * count:
            return False
    for index, node in enumerate(composition.nodes):
        for parent in node.parents:
            if composition.kind_of(parent) == composition.kind_of(index):  # what if it hands on its parent's value?
                skipped = sum(_changes(composition, p, index, _argument(p, parent)) for p in probes)
                if skipped < 0.4 * count:
                    return False
            changed = 0
            for p, other in zip(probes, [*probes[1:], probes[0]], strict=True):  # what if that is another probe's?
                args = [_argument(other if source == parent else p, source) for source in node.parents]
                undefined = not node.operation.domain(*args)
                changed += undefined or _changes(composition, p, index, node.operation.function(*args))
            if changed < 0.3 * count:
                return False
    return True


def _changes(composition: Composition, probe: Probe, index: int, value: Value) -> bool:
    """Whether the result changes when a node's value is replaced."""
    if value == probe.values[index]:
        return False
    try:
        return composition.rerun(probe.value, [*probe.values[:index], value])[-1] != probe.result
    except OutOfDomainError:
        return True


def _argument(probe: Probe, parent: int) -> Value:
    return probe.value if parent == INPUT else probe.values[parent]


def _most_common(values: Sequence[Value]) -> int:
    return Counter(map(repr, values)).most_common(1)[0][1]
