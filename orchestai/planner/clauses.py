"""What the words of an instruction give away without learning: its clauses, and the type of each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestai.tasks.visible_examples import parse_examples

_QUOTED = re.compile(r"`[^`]*`")
_PARENTHESES = re.compile(r"\([^()]*\)")
_BOUNDARY = re.compile(r"(?<=[.;:!?])\s+|,?\s+(?:and\s+)?then\b,?\s*|,\s+and\s+(?=\w)|\n\s*\n", re.IGNORECASE)
_CONNECTIVE = re.compile(
    r"(?:(?:and|then|also|next|now|last|lastly|first|firstly|second|secondly|third|finally|separately|independently"
    r"|afterwards|meanwhile|to\s+(?:begin|start|finish|end))\b[^,`(]*,\s*"
    r"|(?:after|as|before|in|on|with|using|from|for|given|starting|taking|combining|going|once)\b[^,(]*,\s*"
    r"|(?:and|then|also|next|now|finally|first)\s+)",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(
    r"\s*(?:please\s+)?(?:write|implement|create|define|complete)\b[^.]*?\b(?:function|program|code)\b", re.IGNORECASE
)
_CALL = re.compile(r"`[A-Za-z_]\w*\(|>>>")
_EDGES = " \t\r\n.,;:"
_SHORTEST = 4
"""Characters; anything shorter is punctuation or a stray word."""

_DATE = re.compile(r"'\d{4}-\d\d-\d\d'")
_LITERALS = {"'": "string", '"': "string", "[": "list", "(": "list", "{": "dict"}
"""How a literal begins, and its type; one that begins otherwise is a number."""
_KEYWORDS = {
    "date": re.compile(r"\b(dates?|days?|weeks?|months?|years?|weekdays?|calendar|leap)\b"),
    "dict": re.compile(r"\b(dict(ionary|ionaries)?|mapping|keys?)\b"),
    "list": re.compile(r"\b(lists?|items?|elements?|numbers|sort(ed)?|entries|values)\b"),
    "integer": re.compile(r"\b(integers?|number|digits?|multiply|add|subtract|divide|square|prime|factorial)\b"),
    "string": re.compile(r"\b(strings?|text|words?|letters?|characters?|vowels?|upper|lower|case|sentence)\b"),
}


def clauses(instruction: str) -> list[tuple[int, int]]:
    """[start, end) offsets of the clauses that ask for something, in the order of the text.

    A clause keeps its inline example and loses its connective ("First,", "with the words,"). The sentence that asks for
    a function and the sentences that show calls of it are left out, and where some clauses show examples of their own,
    those that show none. An instruction in which nothing is found is one clause as a whole, so there is always one.
    """
    shield = _PARENTHESES.sub(_blank, _QUOTED.sub(_blank, instruction))
    found: list[tuple[int, int]] = []
    start = 0
    for end, following in [*((m.start(), m.end()) for m in _BOUNDARY.finditer(shield)), (len(shield), len(shield))]:
        span = _trim(instruction, shield, start, end)
        start = following
        text = instruction[span[0] : span[1]]
        if len(text) >= _SHORTEST and not _PREAMBLE.match(text) and not _CALL.search(text):
            found.append(span)
    exemplified = [(start, end) for start, end in found if parse_examples(instruction[start:end])]
    return exemplified or found or [_strip(instruction, 0, len(instruction))]


def is_connective(text: str) -> bool:
    """Whether the text only leads to what is asked for ("First,", "with both results,")."""
    match = _CONNECTIVE.match(text)
    return match is not None and match.end() == len(text)


def guess_type(clause: str, task_types: Sequence[str]) -> str:
    """The type of what the clause works on: that of its example's argument, else the one most of its words speak of.

    An example with several arguments is of type `combine`. Only `task_types` are given; ties, and clauses that say
    nothing, go to the first of them.
    """
    examples = parse_examples(clause)
    shown = _type_of(examples[0].args) if examples else ""
    if shown in task_types:
        return shown
    counts = {kind: len(_KEYWORDS[kind].findall(clause.lower())) if kind in _KEYWORDS else 0 for kind in task_types}
    return max(task_types, key=counts.__getitem__)


def _type_of(args: Sequence[str]) -> str:
    if len(args) > 1:
        return "combine"
    return "date" if _DATE.fullmatch(args[0]) else _LITERALS.get(args[0][0], "integer")


def _blank(match: re.Match[str]) -> str:
    """As many characters as the match, none of which is a boundary."""
    return match[0][0] + "_" * (len(match[0]) - 2) + match[0][-1]


def _trim(instruction: str, shield: str, start: int, end: int) -> tuple[int, int]:
    start, end = _strip(instruction, start, end)
    while (match := _CONNECTIVE.match(shield, start, end)) and match.end() < end:
        start, end = _strip(instruction, match.end(), end)
    return start, end


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in _EDGES:
        start += 1
    while end > start and text[end - 1] in _EDGES:
        end -= 1
    return start, end
