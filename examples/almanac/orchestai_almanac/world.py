"""The made-up country: its towns, rivers, ships, people and works with what is true of them, from a seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache, cached_property
from random import Random
from typing import TypeAlias, get_args

from orchestai_almanac.attributes import DISTRACTIONS, Kind
from orchestai_almanac.names import Names
from orchestai_almanac.values import Quantity

SEED = 1783
COUNTS: dict[Kind, int] = {
    "town": 44,
    "river": 36,
    "ship": 56,
    "person": 76,
    "lighthouse": 26,
    "bridge": 34,
    "mountain": 36,
}
SHARED = 0.45
"""Share of the rivers and ships that are named after something of another kind."""

Value: TypeAlias = "date | Quantity | str"


@dataclass(eq=False)
class Thing:
    """One thing of the almanac.

    Attributes:
        name: its title; things of different kinds may share one.
        facts: values by attribute; names are those of other things.
        distractions: (label, sentence, value) that nobody asks for.
    """

    kind: Kind
    name: str
    facts: dict[str, Value] = field(default_factory=dict)
    distractions: list[tuple[str, str, Value]] = field(default_factory=list)


@dataclass(frozen=True)
class World:
    """All things, in the order in which the almanac lists them."""

    things: tuple[Thing, ...]

    @cached_property
    def _places(self) -> dict[tuple[str, str], Thing]:
        return {(thing.kind, thing.name): thing for thing in self.things}

    @cached_property
    def _namesakes(self) -> Counter[str]:
        return Counter(thing.name for thing in self.things)

    def of(self, kind: Kind) -> list[Thing]:
        return [thing for thing in self.things if thing.kind == kind]

    def find(self, kind: Kind, name: str) -> Thing:
        return self._places[kind, name]

    def shares_name(self, thing: Thing) -> bool:
        """Whether something else has the same title."""
        return self._namesakes[thing.name] > 1


@cache
def world(seed: int = SEED) -> World:
    """The country of a seed; the same every time."""
    rng = Random(f"almanac/{seed}")
    things = _named(rng)
    by_kind: dict[Kind, list[Thing]] = {kind: [t for t in things if t.kind == kind] for kind in get_args(Kind)}
    for thing in things:
        thing.facts.update(_measured(thing.kind, rng))
    _link(by_kind, rng)
    for thing in things:
        thing.distractions = _distractions(thing, by_kind, rng)
    return World(tuple(sorted(things, key=lambda thing: (thing.name, thing.kind))))


def _named(rng: Random) -> list[Thing]:
    names = Names(rng)
    things = [Thing("town", names.place("town")) for _ in range(COUNTS["town"])]
    towns = [town.name for town in things]
    things += [Thing("person", names.person()) for _ in range(COUNTS["person"])]
    people = [thing.name for thing in things if thing.kind == "person"]
    while sum(thing.kind == "river" for thing in things) < COUNTS["river"]:
        name = rng.choice(towns) if rng.random() < SHARED else names.place("river")
        if name not in towns or names.take("river", name):
            things.append(Thing("river", name))
    rivers = [thing.name for thing in things if thing.kind == "river"]
    while sum(thing.kind == "ship" for thing in things) < COUNTS["ship"]:
        shared = rng.random() < SHARED
        name = rng.choice([*towns, *rivers, *people]) if shared else names.ship()
        if not shared or names.take("ship", name):
            things.append(Thing("ship", name))
    lights = rng.sample(towns, COUNTS["lighthouse"])
    things += [Thing("lighthouse", f"{rng.choice(('', '', 'Old '))}{town} Light", {"town": town}) for town in lights]
    things += [Thing("bridge", names.bridge()) for _ in range(COUNTS["bridge"])]
    things += [Thing("mountain", f"Mount {names.place('mountain')}") for _ in range(COUNTS["mountain"])]
    return things


def _measured(kind: Kind, rng: Random) -> dict[str, Value]:
    if kind == "town":
        return {
            "population": Quantity(rng.randint(300, 98_000)),
            "founded": _day(rng, 1350, 1750),
            "elevation": _metres(rng, 2, 900),
        }
    if kind == "river":
        return {"length": _kilometres(rng, 20, 640), "depth": _metres(rng, 3, 40)}
    if kind == "ship":
        return {
            "launched": _day(rng, 1790, 1890),
            "length": _metres(rng, 18, 110),
            "weight": Quantity(rng.randint(80, 4200), "t"),
            "crew": Quantity(rng.randint(6, 240)),
        }
    if kind == "person":
        born = _day(rng, 1760, 1850)
        return {"born": born, "died": born + timedelta(days=rng.randint(9000, 33_000))}
    if kind == "lighthouse":
        return {"height": _metres(rng, 9, 60), "lit": _day(rng, 1700, 1880), "steps": Quantity(rng.randint(40, 310))}
    if kind == "bridge":
        return {"length": _metres(rng, 20, 900), "opened": _day(rng, 1680, 1890)}
    return {"height": _metres(rng, 320, 4100), "climbed": _day(rng, 1720, 1890)}


def _link(by_kind: dict[Kind, list[Thing]], rng: Random) -> None:
    """Relations; where a description tells one thing by another ("the bridge over the ..."), no two share it."""

    def names(kind: Kind, count: int) -> list[str]:
        return [thing.name for thing in rng.sample(by_kind[kind], count)]

    for kind, name, target in (
        ("town", "mayor", "person"),
        ("river", "mouth", "town"),
        ("river", "source", "mountain"),
        ("ship", "captain", "person"),
        ("bridge", "river", "river"),
        ("mountain", "climber", "person"),
    ):
        for thing, other in zip(by_kind[kind], names(target, len(by_kind[kind])), strict=True):  # type: ignore[index, arg-type]
            thing.facts[name] = other
    for kind, name, target in (
        ("ship", "port", "town"),
        ("person", "birthplace", "town"),
        ("bridge", "designer", "person"),
    ):
        for thing in by_kind[kind]:  # type: ignore[index]
            thing.facts[name] = rng.choice(by_kind[target]).name  # type: ignore[index]


def _distractions(thing: Thing, by_kind: dict[Kind, list[Thing]], rng: Random) -> list[tuple[str, str, Value]]:
    found: list[tuple[str, str, Value]] = []
    for distraction in DISTRACTIONS:
        if distraction.kind != thing.kind or rng.random() < 0.35:
            continue
        value: Value
        if distraction.type == "date":
            value = _day(rng, 1700, 1895)
        elif distraction.type == "count":
            value = Quantity(rng.randint(100, 9000))
        elif distraction.type == "measure":
            value = _metres(rng, 3, 60)
        else:
            value = rng.choice(by_kind["town" if thing.kind == "person" else "person"]).name
        found.append((distraction.label, distraction.sentence, value))
    return found


def _day(rng: Random, first: int, last: int) -> date:
    return date(first, 1, 1) + timedelta(days=rng.randrange((date(last, 12, 31) - date(first, 1, 1)).days))


def _metres(rng: Random, low: int, high: int) -> Quantity:
    """Mostly in metres, as the surveyors of the country measured; the older entries are in feet."""
    metres = Quantity(rng.randint(low, high), "m")
    return metres if rng.random() < 0.7 else Quantity(round(metres.to("ft").value), "ft")


def _kilometres(rng: Random, low: int, high: int) -> Quantity:
    kilometres = Quantity(rng.randint(low, high), "km")
    return kilometres if rng.random() < 0.7 else Quantity(round(kilometres.to("mi").value), "mi")
