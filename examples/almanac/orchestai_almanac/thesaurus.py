"""What readers know of the words for dates, measures and people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

_WORD = re.compile(r"[a-z]+")
_IDLE_WORDS = """
a an and at by date day first for from give greatest her his in is it its number of on or people person point s state
tell that the their this to was what when where which
"""
_IDLE = frozenset(_IDLE_WORDS.split())
_ENDINGS = ("ations", "ation", "ings", "ing", "ers", "ed", "er", "es", "s")


@dataclass(frozen=True)
class Topic:
    """Words that speak of one thing, and what its value looks like."""

    type: Literal["date", "count", "measure", "name"]
    words: frozenset[str]


def stems(text: str) -> frozenset[str]:
    """The words that carry meaning, without their endings."""
    return frozenset(_stem(word) for word in _WORD.findall(text.lower()) if word not in _IDLE)


def _stem(word: str) -> str:
    ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) >= 4), "")
    return word.removesuffix(ending)


def _topic(type_: Literal["date", "count", "measure", "name"], words: str) -> Topic:
    return Topic(type_, stems(words))


TOPICS: tuple[Topic, ...] = (
    _topic("count", "population inhabitants live census residents souls counted"),
    _topic("date", "founded foundation founding charter granted stone laid"),
    _topic("measure", "elevation altitude above market square stands water"),
    _topic("name", "mayor council headed governor head"),
    _topic("measure", "length long course measures source end span bank stem stern bow runs run"),
    _topic("measure", "depth deep deepest soundings"),
    _topic("name", "mouth reaches ends flows outlet"),
    _topic("name", "rises spring springs parent mountain source"),
    _topic("date", "launch launched slip afloat"),
    _topic("measure", "displacement tonnage weighs weight laden displaces"),
    _topic("count", "crew hands complement sailors"),
    _topic("name", "captain commands master commander"),
    _topic("name", "home port registered registry berth origin"),
    _topic("date", "born birth birthday world"),
    _topic("date", "died death funeral passing"),
    _topic("name", "birthplace native grew origin from"),
    _topic("measure", "height high tower base summit lantern peak altitude"),
    _topic("date", "lit lighting kindled kindling beginning service"),
    _topic("count", "steps stairs treads"),
    _topic("name", "guards harbour stands town steer"),
    _topic("date", "opened opening inauguration ribbon carts"),
    _topic("name", "designed designer engineer plans"),
    _topic("name", "crosses beneath river"),
    _topic("date", "ascent climbed climb conquered"),
    _topic("name", "climber conqueror top stand"),
)


def topic_of(words: Iterable[str]) -> Topic | None:
    """The topic that most of the words belong to, the first of several; None where they belong to none."""
    wanted = frozenset(words)
    best = max(TOPICS, key=lambda topic: len(topic.words & wanted))
    return best if best.words & wanted else None
