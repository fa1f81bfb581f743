"""Random values of each kind, and the bounds that keep compositions readable."""

from __future__ import annotations

import calendar
from random import Random

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
