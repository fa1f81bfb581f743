"""Names of a made-up country: of places, people, ships and works. No two things of one kind share a name."""

from __future__ import annotations

from collections.abc import Callable
from random import Random


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_HEADS = _words(
    """
Al Bar Cor Dun El Fen Gar Hal Ist Kel Lor Mar Nor Or Pel Quil Ros Sker Tal Ul Ven Wyn Yar Zel Bri Dro
"""
)
_MIDDLES = _words(
    """
a e i o an en il or ar un ess ill
"""
)
_TAILS = _words(
    """
dale ford mere wick holm stead by nor ris len dan rin vale moor gate combe
"""
)
_FIRST = _words(
    """
Ada Bram Cyra Dorin Elske Fenno Greta Hask Ilva Joren Katla Lubin Mirel Nadia Orsk Pella Quirin Runa Sorrel
Tavi Una Viggo Wenna Yorick Zora Anselm Berit Corvin Dagny Emeric
"""
)
_LAST = _words(
    """
Morrow Thackle Vane Ostler Brask Quill Hallow Fenwright Larch Stroud Pimm Castell Dray Wexley Mandrel Tolliver
Skarn Penhale Rook Ashby Garrow Lund Merrow Holt Bexel
"""
)
_ADJECTIVES = _words(
    """
Grey Swift Patient Northern Silent Copper Bright Wandering Stubborn Scarlet Early Hollow
"""
)
_ANIMALS = _words(
    """
Heron Petrel Otter Gannet Marten Lynx Plover Curlew Osprey Badger Seal Tern
"""
)
_WORKS = _words(
    """
Tallow Chandler Miller Abbot Weaver Saddler Cooper Ropewalk Candle Lantern Orchard Tanner
"""
)


class Names:
    """Draws names; each call gives one that this kind of thing does not have yet."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._used: dict[str, set[str]] = {}

    def place(self, kind: str) -> str:
        rng = self._rng
        return self._fresh(
            kind, lambda: rng.choice(_HEADS) + rng.choice(_MIDDLES) * rng.randint(0, 1) + rng.choice(_TAILS)
        )

    def person(self) -> str:
        return self._fresh("person", lambda: f"{self._rng.choice(_FIRST)} {self._rng.choice(_LAST)}")

    def ship(self) -> str:
        return self._fresh("ship", lambda: f"{self._rng.choice(_ADJECTIVES)} {self._rng.choice(_ANIMALS)}")

    def bridge(self) -> str:
        rng = self._rng
        return self._fresh(
            "bridge", lambda: f"{rng.choice((*_WORKS, *_ADJECTIVES))} {rng.choice(('Bridge', 'Span', 'Crossing'))}"
        )

    def take(self, kind: str, name: str) -> bool:
        """Give a thing the name of something of another kind; False where its own kind has it already."""
        used = self._used.setdefault(kind, set())
        if name in used:
            return False
        used.add(name)
        return True

    def _fresh(self, kind: str, draw: Callable[[], str]) -> str:
        while not self.take(kind, name := draw()):
            pass
        return name


def misspell(name: str, rng: Random) -> str:
    """A name as somebody writes it who has only heard it: a letter doubled, dropped, or taken for a similar one."""
    similar = {
        "e": "a",
        "a": "e",
        "i": "y",
        "y": "i",
        "k": "c",
        "c": "k",
        "o": "u",
        "u": "o",
        "s": "z",
        "z": "s",
        "v": "w",
    }
    inner = [i for i in range(1, len(name) - 1) if name[i].isalpha() and name[i - 1].isalpha() and name[i].islower()]
    letters = list(name)
    for i in rng.sample(inner, min(2, len(inner))):
        letter = letters[i]
        letters[i] = rng.choice((similar.get(letter, letter * 2), letter * 2))
    return "".join(letters)
