"""Writes functions that are asked for again and again, where words or examples are evidence enough for one of them.

What agrees with an example by chance is worse than nothing, so every word of the description has to be the function's.
Where the words say nothing, examples have to hold more than an expression of the library would meet by chance.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import yaml

from orchestai.tasks.visible_examples import Example
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.tools import stdlib_search

_SHOWN = re.compile(
    r"```.*?```|`[^`]*`|\bdef\s+\w+\s*\([^)]*\)|\b(?:called|named|namens|genannt)\s+\w+|"
    r"\b\w+\((?:[^()]|\([^()]*\))*\)\s*(?:(?:==?|->|→|=>|(?:returns?|gives?|is|ergibt|gibt|liefert|ist)\b)[^\n]*)?|"
    r"(?:\[[^\[\]]*\]|'[^'\n]*'|\"[^\"\n]*\"|-?\d+(?:\.\d+)?)\s*(?:->|→|=>)\s*[^\s,;]+(?:, [^\s,;]+)*|"
    r"(?:(?<=function )|(?<=funktion ))(?:[a-z]|[a-z]*[_\d]\w*|(?-i:[a-z]+[A-Z])\w*)(?!\w)|"
    r"\b(?:for example|e\. ?g\.|for instance|such as|like|zum beispiel|z\. ?b\.|(?:beispiel|example)s?:)",
    re.IGNORECASE | re.DOTALL,
)
"""What a request shows beside its words: code, names and examples."""
_ONE_NUMBER = re.compile(r"\b(an?|the|this|given|one) number\b(?! of)", re.IGNORECASE)
"""A number, where "number" does not ask how many there are."""
_SYMBOLS = frozenset(string.ascii_lowercase) - {"a", "n"}
"""Parameters that are no words of a description."""
_CLAUSE = re.compile(r",?\s+(?:(?:and|und)\s+)?(?:then|dann|anschließend|and|und)\s+", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?")
_LONGEST, _LONGEST_ENDING, _EXACT = 300, 7, 2
"""Characters of a request, letters of an ending, and letters of a word that stands for itself alone."""
_MANY_BITS, _FEWER_BITS = 16, 8
"""What examples hold that hardly one of two hundred expressions gives by chance; of three or more, fewer each."""

Alternatives = tuple[str, ...]


@dataclass(frozen=True)
class _Known:
    """A function of the catalogue.

    Attributes:
        kind: what it takes.
        words: that describe it: for each its alternative beginnings.
        optional: of those that may be missing.
        ordered: whether the words come in this order.
        body: an expression or statements of `x`, or `a` and `b`; `c` is a number among the words.
    """

    kind: str
    words: tuple[Alternatives, ...]
    optional: tuple[Alternatives, ...]
    ordered: bool
    body: str


def answer(request: Request) -> str:
    """Source of the function.

    Raises:
        WorkerError: a text is wanted, or neither words nor examples are evidence for a function.
    """
    signature = request.signature
    if signature is None:
        raise WorkerError("it writes functions alone")
    described = _ONE_NUMBER.sub(r"\1 integer", _SHOWN.sub(" ", request.instruction))
    for symbol in {*signature.parameters} & _SYMBOLS:
        described = re.sub(rf"\b{symbol}\b", " ", described)
    named = signature.name.replace("_", " ")
    for words in (described, "" if set(_WORD.findall(described.lower())) - _words("left_out") else named):
        for clauses in ([words], _CLAUSE.split(words)) if len(words) <= _LONGEST else ():
            bodies = [_bodies(clause, len(signature.parameters) if i == 0 else 1) for i, clause in enumerate(clauses)]
            if not all(bodies):
                continue
            for first in bodies[0]:
                source = stdlib_search.function(signature, [first, *(others[0] for others in bodies[1:])])
                if stdlib_search.reproduces(source, signature, request.examples):
                    return source
    shown = len({example.args for example in request.examples})
    if shown > 1 and _bits(request.examples) >= (_MANY_BITS if shown == 2 else _FEWER_BITS):
        return stdlib_search.answer(request)
    raise WorkerError("its words describe no function that is known here, and it shows too few examples to find one by")


def _bodies(words: str, arity: int) -> list[str]:
    """Of the functions of so many arguments that the words describe, those that account for the most of them."""
    found = []
    for known in _catalogue():
        if arity == (2 if known.kind == "pair" else 1) and (body := _described(known, _WORD.findall(words.lower()))):
            found.append((len(known.words), body))
    most = max((count for count, _ in found), default=0)
    return [body for count, body in found if count == most]


def _described(known: _Known, words: list[str]) -> str | None:
    """The body of a function if these words describe it, each of them accounted for."""
    left, places, body = dict(enumerate(words)), [], known.body
    for alternatives in (*known.words, *known.optional):
        place = next((i for i, word in left.items() if _begins(word, alternatives)), None)
        if place is None and alternatives in known.words:
            return None
        if place is not None:
            word = left.pop(place)
            places += [place] if alternatives in known.words else []
            body = re.sub(r"\bc\b", word, body) if alternatives == ("N",) else body
    nouns = _words("nouns", known.kind)
    if known.kind == "list" and nouns.intersection(left.values()):
        nouns |= _words("nouns", "of_list")
    said_again = {word for word in left.values() for names in known.words if names != ("N",) and _begins(word, names)}
    unknown = set(left.values()) - nouns - _words("left_out") - said_again
    return None if unknown or (known.ordered and places != sorted(places)) else body


def _begins(word: str, alternatives: Alternatives) -> bool:
    if alternatives == ("N",):
        return word[0].isdigit()
    endings = {one: min(_LONGEST_ENDING, len(one)) if len(one) > _EXACT else 0 for one in alternatives}
    return any(word.startswith(one) and len(word) - len(one) <= most for one, most in endings.items())


def _bits(examples: tuple[Example, ...]) -> float:
    """How much the results say, roughly: a sign three bits, a truth value one."""
    results = {example.result for example in examples if example.result not in example.args}
    return sum(1 if result in ("True", "False", "None") else 3 * len(re.findall(r"\w", result)) for result in results)


@lru_cache
def _data() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = yaml.safe_load((files(__package__) / "functions.yaml").read_text("utf-8"))
    return found


@lru_cache
def _words(section: str, name: str = "") -> frozenset[str]:
    found = _data()[section]
    return frozenset((found[name] if name else str(found)).split())


@lru_cache
def _catalogue() -> tuple[_Known, ...]:
    found = []
    for kind in ("text", "number", "list", "year", "pair"):
        for description, body in _data()[kind].items():
            words: list[Alternatives] = []
            optional: list[Alternatives] = []
            for token in description.replace(">", "").split():
                names = token.removeprefix("?").split("/")
                alternatives = "/".join(_data()["words"].get(name, name) for name in names).split("/")
                (optional if token.startswith("?") else words).append(tuple(alternatives))
            found.append(_Known(kind, tuple(words), tuple(optional), ">" in description, str(body)))
    return tuple(found)
