"""The almanac's pages: what is true of a thing, written in the style of the book that its entry was taken from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cache
from random import Random
from typing import Literal, TypeAlias

from orchestai_almanac.attributes import OF_KIND, Attribute, Kind
from orchestai_almanac.values import MONTHS, Quantity
from orchestai_almanac.world import SEED, Thing, Value, world

Style: TypeAlias = Literal["gazetteer", "register", "chronicle", "notes"]

_STYLES: dict[Kind, dict[Style, int]] = {
    "town": {"gazetteer": 5, "chronicle": 5},
    "river": {"gazetteer": 8, "notes": 2},
    "ship": {"register": 8, "chronicle": 2},
    "person": {"chronicle": 8, "notes": 2},
    "lighthouse": {"chronicle": 7, "register": 3},
    "bridge": {"notes": 4, "chronicle": 6},
    "mountain": {"gazetteer": 7, "chronicle": 3},
}
"""How often the entries of a kind come from which book."""
_UNIT_WORDS = {"m": "metres", "km": "kilometres", "ft": "feet", "mi": "miles", "t": "tonnes"}
_ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        title: the thing's name.
        text: the whole page; its first line is the title.
        written: how the page writes each fact, by attribute.
    """

    kind: Kind
    title: str
    style: Style
    text: str
    written: dict[str, str]


@cache
def pages(seed: int = SEED) -> tuple[Page, ...]:
    """All pages, in the almanac's order; the same every time."""
    return tuple(_page(thing, Random(f"page/{seed}/{thing.kind}/{thing.name}")) for thing in world(seed).things)


def page_of(thing: Thing) -> Page:
    """The page about a thing."""
    return _by_thing()[thing.kind, thing.name]


@cache
def _by_thing() -> dict[tuple[str, str], Page]:
    return {(page.kind, page.title): page for page in pages()}


def _page(thing: Thing, rng: Random) -> Page:
    weights = _STYLES[thing.kind]
    style = rng.choices(list(weights), list(weights.values()))[0]
    write = _writer(style, rng)
    written = {name: write(value) for name, value in thing.facts.items()}
    house = rng.randrange(3)
    entries = [
        (attribute.labels[house % len(attribute.labels)], _sentence(attribute, rng), written[attribute.name])
        for attribute in OF_KIND[thing.kind]
    ]
    entries += [(label, sentence, write(value)) for label, sentence, value in thing.distractions]
    rng.shuffle(entries)
    layout: dict[Style, Callable[[Thing, list[tuple[str, str, str]]], str]] = {
        "gazetteer": _gazetteer,
        "register": _register,
        "chronicle": _chronicle,
        "notes": _notes,
    }
    return Page(thing.kind, thing.name, style, layout[style](thing, entries), written)


def _sentence(attribute: Attribute, rng: Random) -> str:
    return rng.choice(attribute.sentences)


def _gazetteer(thing: Thing, entries: list[tuple[str, str, str]]) -> str:
    return "\n".join([thing.name, f"Kind: {thing.kind}", *(f"{label}: {value}" for label, _, value in entries)])


def _register(thing: Thing, entries: list[tuple[str, str, str]]) -> str:
    rows = [f"| {label} | {value} |" for label, _, value in entries]
    return "\n".join([thing.name, f"| {thing.kind} | no. {len(thing.name) * 37 % 900} |", *rows])


def _chronicle(thing: Thing, entries: list[tuple[str, str, str]]) -> str:
    called = f"the {thing.name}" if thing.kind in ("ship", "river") else thing.name
    opening = f"{thing.name}\nThis is told of the {'life of' if thing.kind == 'person' else thing.kind} {thing.name}."
    sentences = [sentence.format(t=called, v=value) for _, sentence, value in entries]
    return " ".join([opening, *(sentence[0].upper() + sentence[1:] for sentence in sentences)])


def _notes(thing: Thing, entries: list[tuple[str, str, str]]) -> str:
    return f"{thing.name}\n{thing.kind}; " + "; ".join(f"{label.lower()} {value}" for label, _, value in entries) + "."


def _writer(style: Style, rng: Random) -> Callable[[Value], str]:
    """How one page writes dates and measures throughout."""
    day_form = {"gazetteer": (0, 1), "register": (2,), "chronicle": (0, 1, 3), "notes": (0, 2)}[style]
    form = rng.choice(day_form)
    spelled = style == "chronicle" and rng.random() < 0.6
    commas = style != "register"

    def write(value: Value) -> str:
        if isinstance(value, date):
            return _date(value, form)
        if isinstance(value, Quantity):
            number = f"{value.value:,.0f}" if commas else f"{value.value:.0f}"
            unit = _UNIT_WORDS[value.unit] if spelled and value.unit else value.unit
            return f"{number} {unit}".strip()
        return value

    return write


def _date(day: date, form: int) -> str:
    month = MONTHS[day.month - 1]
    if form == 0:
        return f"{day.day} {month} {day.year}"
    if form == 1:
        return f"{month} {day.day}, {day.year}"
    if form == 2:
        return day.isoformat()
    return f"the {day.day}{_ORDINALS.get(day.day, 'th')} of {month} {day.year}"
