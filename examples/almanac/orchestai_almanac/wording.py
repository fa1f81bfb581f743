"""How questions are put: several wordings for every kind of question, thing and unit, some of them for tests alone."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

from orchestai_almanac.attributes import Attribute, Kind
from orchestai_almanac.names import misspell
from orchestai_almanac.world import Thing, World

QuestionKind: TypeAlias = Literal[
    "value", "converted", "linked", "weekday", "later", "difference", "sum", "years", "days", "comparison", "chosen"
]
RARE = 0.25
"""Chance, in test questions, of a wording that no other split has."""


@dataclass(frozen=True)
class Bank:
    """Wordings; `rare` ones occur in test questions alone."""

    usual: tuple[str, ...]
    rare: tuple[str, ...] = ()

    def draw(self, rng: Random, *, testing: bool) -> str:
        return rng.choice(self.rare if testing and self.rare and rng.random() < RARE else self.usual)


TEMPLATES: dict[QuestionKind, Bank] = {
    "value": Bank(
        (
            "What is the [1|{n}] of [0|{a}]?",
            "Give the [1|{n}] of [0|{a}].",
            "Look up [0|{a}] and tell me the [1|{n}].",
            "I need the [1|{n}] of [0|{a}].",
            "For [0|{a}], what does the almanac give as the [1|{n}]?",
        ),
        ("My notes on [0|{a}] lack one thing, the [1|{n}]. What is it?", "[1|{n}] of [0|{a}]?"),
    ),
    "converted": Bank(
        (
            "What is the [1|{n}] of [0|{a}] [2|{u}]?",
            "Look up [0|{a}], read off the [1|{n}] and state it [2|{u}].",
            "State [2|{u}] the [1|{n}] of [0|{a}].",
            "How much is the [1|{n}] of [0|{a}] when given [2|{u}]?",
        ),
        ("A visitor who thinks [2|{u}] asks for the [1|{n}] of [0|{a}].",),
    ),
    "linked": Bank(
        (
            "What is the [3|{m}] of [2|the {k}] that is the [1|{n}] of [0|{a}]?",
            "Find [0|{a}], take the [1|{n}], turn to [2|that {k}] and read off the [3|{m}].",
            "Take the [1|{n}] of [0|{a}]. What is the [3|{m}] of [2|this {k}]?",
            "Look up the [1|{n}] of [0|{a}], then give the [3|{m}] of [2|that {k}].",
        ),
        ("Starting from [0|{a}] and its [1|{n}], open the entry on [2|the {k}] named there: what is the [3|{m}]?",),
    ),
    "weekday": Bank(
        (
            "[2|On which day of the week] fell the [1|{n}] of [0|{a}]?",
            "Find the [1|{n}] of [0|{a}] and say [2|what day of the week it was].",
            "[2|Which weekday] was the [1|{n}] of [0|{a}]?",
        ),
        ("The [1|{n}] of [0|{a}]: [2|was it a Monday, a Tuesday or which weekday]?",),
    ),
    "later": Bank(
        (
            "[2|Which date is {x} days after] the [1|{n}] of [0|{a}]?",
            "Take the [1|{n}] of [0|{a}] and [2|add {x} days]. Which date is that?",
            "Look up the [1|{n}] of [0|{a}]. [2|What was the date {x} days later]?",
        ),
        ("[2|Go {x} days forward] from the [1|{n}] of [0|{a}] and name the date.",),
    ),
    "difference": Bank(
        (
            "[4|How many {w} lie between] the [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}]?",
            "[4|What is the difference {u}] between the [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}]?",
            "Find the [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}] and [4|give the difference {u}].",
        ),
        ("The [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}]: [4|by how many {w} do they differ]?",),
    ),
    "sum": Bank(
        (
            "[4|How many {w} together] make the [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}]?",
            "[4|What is the sum {u}] of the [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}]?",
            "Take the [1|{n}] of [0|{a}], take the [3|{m}] of [2|{b}], and [4|add the two {u}].",
        ),
        ("[4|Put together {u}] the [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}].",),
    ),
    "years": Bank(
        (
            "[4|How many years passed between] the [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}]?",
            "[4|Count the full years] from the [1|{n}] of [0|{a}] to the [3|{m}] of [2|{b}].",
            "Find the [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}]; [4|how many full years lie between them]?",
        ),
        ("The [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}] are [4|how many complete years apart]?",),
    ),
    "days": Bank(
        (
            "[4|How many days passed between] the [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}]?",
            "[4|Count the days] from the [1|{n}] of [0|{a}] to the [3|{m}] of [2|{b}].",
            "Find the [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}]; [4|how many days lie between them]?",
        ),
        ("The [1|{n}] of [0|{a}] and the [3|{m}] of [2|{b}] are [4|how many days apart]?",),
    ),
    "comparison": Bank(
        (
            "[4|Which is {s}, [0|{a}] or [2|{b}]], going by the [1,3|{n}]?",
            "By the [1,3|{n}], [4|which of the two is {s}: [0|{a}] or [2|{b}]]?",
            "Read the [1,3|{n}] on both pages and say [4|which is {s}, [0|{a}] or [2|{b}]].",
        ),
        ("Somebody bets on the [1,3|{n}]: [4|is [0|{a}] or [2|{b}] {s}]?",),
    ),
    "chosen": Bank(
        (
            "[4|Which is {s}, [0|{a}] or [2|{b}]], going by the [1,3|{n}]? Of [5|that {k}], give the [6|{m}].",
            "By the [1,3|{n}], find [4|which is {s}, [0|{a}] or [2|{b}]], and of [5|this {k}] tell me the [6|{m}].",
        ),
        ("Judge by the [1,3|{n}] [4|which is {s}, [0|{a}] or [2|{b}]]; then, for [5|that {k}], the [6|{m}].",),
    ),
}

_CALLED: dict[Kind, Bank] = {
    "town": Bank(("the town of {x}", "the town {x}"), ("{x} (the town)",)),
    "river": Bank(("the river {x}", "the {x} river"), ("{x} (the river)",)),
    "ship": Bank(("the ship {x}", "the sailing ship {x}"), ("{x} (the ship)",)),
    "person": Bank(("the late {x}", "the person {x}"), ("{x} (the person)",)),
    "lighthouse": Bank(("the lighthouse {x}",), ("{x} (the lighthouse)",)),
    "bridge": Bank(("the bridge {x}",), ("{x} (the bridge)",)),
    "mountain": Bank(("the mountain {x}",), ("{x} (the mountain)",)),
}
_HEARD: dict[Kind, Bank] = {
    kind: Bank(
        (f"a {kind} called something like {{x}}", f"a {kind} whose name sounds like {{x}}"),
        (f"a {kind} spelled roughly {{x}}",),
    )
    for kind in ("town", "river", "ship", "person", "lighthouse", "bridge", "mountain")
}
_DESCRIBED: dict[Kind, tuple[str, Bank]] = {
    "town": ("mayor", Bank(("the town whose mayor is {x}", "the town where {x} is mayor"), ("the town under {x}",))),
    "river": ("mouth", Bank(("the river that flows into the sea at {x}", "the river with its mouth at {x}"))),
    "ship": ("captain", Bank(("the ship whose captain is {x}", "the ship that {x} commands"), ("the ship under {x}",))),
    "lighthouse": ("town", Bank(("the lighthouse of {x}", "the lighthouse that stands at {x}"))),
    "bridge": ("river", Bank(("the bridge over the {x}", "the bridge that crosses the {x}"))),
    "mountain": ("climber", Bank(("the mountain that {x} climbed first",), ("the mountain conquered by {x}",))),
}
_BARE_ARTICLE = ("ship", "river")

UNIT_WORDS = {"m": "metres", "km": "kilometres", "ft": "feet", "mi": "miles"}
_IN_UNIT = Bank(("in {w}", "expressed in {w}"), ("counted in {w}",))


def mention(thing: Thing, country: World, rng: Random, *, testing: bool) -> str:
    """Words for a thing: its name, its kind and name, a description, or its name as somebody heard it.

    A name that several things have is said with its kind, and a description does not name another thing of the kind.
    """
    shared = country.shares_name(thing)
    hows, weights = ("bare", "called", "described", "heard"), (0, 55, 30, 0) if shared else (40, 10, 25, 25)
    how = rng.choices(hows, weights)[0]
    if how == "described" and thing.kind in _DESCRIBED:
        relation, bank = _DESCRIBED[thing.kind]
        other = thing.facts[relation]
        if not any(namesake.name == other for namesake in country.of(thing.kind)):
            return bank.draw(rng, testing=testing).format(x=other)
    if how == "heard":
        return _HEARD[thing.kind].draw(rng, testing=testing).format(x=misspell(thing.name, rng))
    if shared or how == "called":
        return _CALLED[thing.kind].draw(rng, testing=testing).format(x=thing.name)
    return f"the {thing.name}" if thing.kind in _BARE_ARTICLE else thing.name


def noun(attribute: Attribute, rng: Random, *, testing: bool) -> str:
    """Words for an attribute."""
    return Bank(attribute.nouns, attribute.rare).draw(rng, testing=testing)


def in_unit(unit: str, rng: Random, *, testing: bool) -> str:
    """Words that ask for a unit."""
    return _IN_UNIT.draw(rng, testing=testing).format(w=UNIT_WORDS[unit])
