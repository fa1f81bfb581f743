"""What the almanac says of each kind of thing: labels, sentences and the words in which people ask for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["town", "river", "ship", "person", "lighthouse", "bridge", "mountain"]
ValueType: TypeAlias = Literal["date", "count", "measure", "name"]


@dataclass(frozen=True)
class Attribute:
    """One fact of a kind of thing.

    Attributes:
        type: what its value is.
        labels: headings that pages with fields use for it, by house style.
        sentences: how prose says it; `{t}` is the thing, `{v}` the value.
        nouns: how questions name it.
        rare: further such nouns, which only test questions use.
        target: the kind of thing that a name is of.
        superlatives: (word for the larger or later one, word for the other) in comparisons; empty where none is asked.
    """

    kind: Kind
    name: str
    type: ValueType
    labels: tuple[str, ...]
    sentences: tuple[str, ...]
    nouns: tuple[str, ...]
    rare: tuple[str, ...]
    target: Kind | None = None
    superlatives: tuple[str, str] | tuple[()] = ()


@dataclass(frozen=True)
class Distraction:
    """What pages also say, though nobody asks for it."""

    kind: Kind
    label: str
    sentence: str
    type: ValueType


ATTRIBUTES: tuple[Attribute, ...] = (
    Attribute(
        "town",
        "population",
        "count",
        ("Population", "Inhabitants", "Souls at the last census"),
        ("{v} people live in {t}.", "At the last census {v} inhabitants were counted.", "Its population is {v}."),
        ("population", "number of inhabitants", "number of people", "head count"),
        ("number of residents",),
        superlatives=("more populous", "less populous"),
    ),
    Attribute(
        "town",
        "founded",
        "date",
        ("Founded", "Charter granted", "Date of foundation"),
        ("{t} was founded on {v}.", "The charter was granted on {v}.", "Its first stone was laid on {v}."),
        ("date of foundation", "founding", "founding date", "town charter"),
        ("coming into being",),
        superlatives=("younger", "older"),
    ),
    Attribute(
        "town",
        "elevation",
        "measure",
        ("Elevation", "Above the sea", "Height of the market square"),
        ("The market square lies {v} above the sea.", "{t} stands at an elevation of {v}."),
        ("elevation", "height above the sea", "altitude"),
        ("level above the water",),
        superlatives=("higher", "lower"),
    ),
    Attribute(
        "town",
        "mayor",
        "name",
        ("Mayor", "Head of the council", "Chain of office"),
        ("{v} has been mayor for years.", "The council is headed by {v}.", "Its mayor is {v}."),
        ("mayor", "head of the council"),
        ("governor",),
        target="person",
    ),
    Attribute(
        "river",
        "length",
        "measure",
        ("Length", "From end to end", "Course"),
        ("{t} is {v} long.", "From source to sea it measures {v}.", "Its course runs for {v}."),
        ("length", "course from end to end", "distance from source to sea"),
        ("run to the coast",),
        superlatives=("longer", "shorter"),
    ),
    Attribute(
        "river",
        "depth",
        "measure",
        ("Greatest depth", "Deepest point", "Sounding"),
        ("At its deepest point it is {v} deep.", "Soundings give a greatest depth of {v}."),
        ("greatest depth", "depth at the deepest point", "depth"),
        ("most water under a keel",),
        superlatives=("deeper", "shallower"),
    ),
    Attribute(
        "river",
        "mouth",
        "name",
        ("Mouth", "Reaches the sea at", "Ends at"),
        ("{t} reaches the sea at {v}.", "Its mouth is at {v}.", "It flows into the sea by {v}."),
        ("mouth", "river mouth"),
        ("outlet",),
        target="town",
    ),
    Attribute(
        "river",
        "source",
        "name",
        ("Source", "Rises on", "Springs from"),
        ("{t} rises on {v}.", "Its source lies on {v}.", "It springs from the side of {v}."),
        ("source", "parent mountain"),
        ("spring",),
        target="mountain",
    ),
    Attribute(
        "ship",
        "launched",
        "date",
        ("Launched", "Off the slip", "Date of launch"),
        ("{t} was launched on {v}.", "She went down the slip on {v}.", "Her launch was on {v}."),
        ("launch", "launch date", "date of launch", "day off the slip"),
        ("first day afloat",),
        superlatives=("newer", "older"),
    ),
    Attribute(
        "ship",
        "length",
        "measure",
        ("Length", "Stem to stern", "Length over all"),
        ("She measures {v} from stem to stern.", "{t} is {v} long."),
        ("length", "length from stem to stern", "length over all"),
        ("measure from bow to stern",),
        superlatives=("longer", "shorter"),
    ),
    Attribute(
        "ship",
        "weight",
        "measure",
        ("Displacement", "Tonnage", "Weight laden"),
        ("Laden, she weighs {v}.", "Her displacement is {v}.", "{t} displaces {v}."),
        ("displacement", "tonnage", "weight when laden"),
        ("heaviness under cargo",),
        superlatives=("heavier", "lighter"),
    ),
    Attribute(
        "ship",
        "crew",
        "count",
        ("Crew", "Hands", "Complement"),
        ("She sails with a crew of {v}.", "{v} hands work her.", "Her complement is {v}."),
        ("crew", "number of hands", "complement"),
        ("number of sailors aboard",),
        superlatives=("more heavily manned", "less heavily manned"),
    ),
    Attribute(
        "ship",
        "captain",
        "name",
        ("Captain", "Master", "Commanded by"),
        ("{v} commands her.", "Her captain is {v}.", "The master of {t} is {v}."),
        ("captain", "master", "commander"),
        ("person in charge on board",),
        target="person",
    ),
    Attribute(
        "ship",
        "port",
        "name",
        ("Home port", "Registered at", "Berth"),
        ("Her home port is {v}.", "{t} is registered at {v}.", "She lies at {v} in winter."),
        ("home port", "port of registry"),
        ("harbour of origin",),
        target="town",
    ),
    Attribute(
        "person",
        "born",
        "date",
        ("Born", "Date of birth", "Birth"),
        ("{t} was born on {v}.", "{t} came into the world on {v}.", "The parish book gives the birth as {v}."),
        ("birth", "date of birth", "birthday"),
        ("coming into the world",),
        superlatives=("younger", "older"),
    ),
    Attribute(
        "person",
        "died",
        "date",
        ("Died", "Date of death", "Death"),
        ("{t} died on {v}.", "Death came on {v}.", "The funeral followed the death of {v}."),
        ("death", "date of death", "day of death"),
        ("passing",),
    ),
    Attribute(
        "person",
        "birthplace",
        "name",
        ("Birthplace", "Native of", "From"),
        ("{t} was a native of {v}.", "The birthplace was {v}.", "Both parents lived in {v}, where {t} grew up."),
        ("birthplace", "native town", "town of birth"),
        ("place of origin",),
        target="town",
    ),
    Attribute(
        "lighthouse",
        "height",
        "measure",
        ("Height", "Tower", "From base to lamp"),
        ("The tower of {t} is {v} high.", "From base to lamp it measures {v}."),
        ("height", "tower height", "height from base to lamp"),
        ("lantern height",),
        superlatives=("taller", "smaller"),
    ),
    Attribute(
        "lighthouse",
        "lit",
        "date",
        ("First lit", "Lamp kindled", "In service from"),
        ("{t} was first lit on {v}.", "The lamp was kindled for the first time on {v}."),
        ("first lighting", "date of first lighting", "kindling of the lamp"),
        ("beginning of service",),
        superlatives=("newer", "older"),
    ),
    Attribute(
        "lighthouse",
        "steps",
        "count",
        ("Steps", "Stairs to the lamp", "Stair"),
        ("{v} steps lead up to the lamp.", "The keeper climbs {v} steps."),
        ("number of steps", "number of stairs"),
        ("count of treads",),
    ),
    Attribute(
        "lighthouse",
        "town",
        "name",
        ("Stands at", "Town", "Harbour"),
        ("{t} stands at {v}.", "It guards the harbour of {v}.", "Ships steer by it towards {v}."),
        ("town", "harbour"),
        ("settlement beneath",),
        target="town",
    ),
    Attribute(
        "bridge",
        "length",
        "measure",
        ("Length", "Span", "From bank to bank"),
        ("{t} is {v} long.", "From bank to bank it measures {v}."),
        ("length", "length from bank to bank", "span"),
        ("reach across the water",),
        superlatives=("longer", "shorter"),
    ),
    Attribute(
        "bridge",
        "opened",
        "date",
        ("Opened", "Open to traffic", "Ribbon cut"),
        ("{t} was opened on {v}.", "The ribbon was cut on {v}.", "The first carts crossed it on {v}."),
        ("opening", "opening date", "day of opening"),
        ("inauguration",),
        superlatives=("newer", "older"),
    ),
    Attribute(
        "bridge",
        "designer",
        "name",
        ("Designer", "Plans by", "Engineer"),
        ("{v} drew the plans.", "{t} was designed by {v}.", "Its engineer was {v}."),
        ("designer", "engineer", "author of the plans"),
        ("inventor of the plans",),
        target="person",
    ),
    Attribute(
        "bridge",
        "river",
        "name",
        ("Crosses", "River", "Over the"),
        ("{t} crosses the {v}.", "Beneath it flows the {v}."),
        ("river", "river below"),
        ("water beneath",),
        target="river",
    ),
    Attribute(
        "mountain",
        "height",
        "measure",
        ("Height", "Summit", "Altitude"),
        ("{t} is {v} high.", "Its summit reaches {v}."),
        ("height", "altitude", "summit height"),
        ("peak level",),
        superlatives=("higher", "lower"),
    ),
    Attribute(
        "mountain",
        "climbed",
        "date",
        ("First climbed", "First ascent", "Conquered"),
        ("{t} was first climbed on {v}.", "The first ascent is dated {v}."),
        ("first ascent", "date of the first ascent", "day of the first climb"),
        ("conquest",),
    ),
    Attribute(
        "mountain",
        "climber",
        "name",
        ("First climbed by", "Climber", "Conqueror"),
        ("The first to stand on its top was {v}.", "{v} climbed it before anybody else."),
        ("first climber", "first person on top"),
        ("conqueror",),
        target="person",
    ),
)

DISTRACTIONS: tuple[Distraction, ...] = (
    Distraction("town", "Population in 1790", "In 1790 only {v} people lived here.", "count"),
    Distraction("town", "Market rights", "Market rights were granted on {v}.", "date"),
    Distraction("river", "Length navigable", "Barges can use {v} of it.", "measure"),
    Distraction("river", "Flood mark", "The flood mark stands {v} above the usual level.", "measure"),
    Distraction("ship", "Keel length", "Her keel is {v} long.", "measure"),
    Distraction("ship", "Refitted", "She was refitted on {v}.", "date"),
    Distraction("ship", "First captain", "Her first captain was {v}.", "name"),
    Distraction("person", "Married", "The wedding was on {v}.", "date"),
    Distraction("person", "Buried at", "The grave is at {v}.", "name"),
    Distraction("lighthouse", "Height above the sea", "The lamp burns {v} above the sea.", "measure"),
    Distraction("lighthouse", "Relit", "After the great storm it was lit again on {v}.", "date"),
    Distraction("bridge", "Width", "The road on it is {v} wide.", "measure"),
    Distraction("bridge", "Repaired", "It was repaired on {v}.", "date"),
    Distraction("mountain", "Height of the saddle", "The saddle beside it lies at {v}.", "measure"),
    Distraction("mountain", "Snow gone by", "The snow of the hardest winter was gone by {v}.", "date"),
)

OF_KIND: dict[Kind, tuple[Attribute, ...]] = {}
for _attribute in ATTRIBUTES:
    OF_KIND[_attribute.kind] = (*OF_KIND.get(_attribute.kind, ()), _attribute)


def attribute(kind: Kind, name: str) -> Attribute:
    """The attribute of that name."""
    return next(found for found in OF_KIND[kind] if found.name == name)
