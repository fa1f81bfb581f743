"""Visible examples: input and output literals that an instruction shows. They are the only check a worker may use.

Two kinds are understood. *Step examples* show what one step does: `` `[3, 1]` -> `[1, 3]` ``. *Calls* show what the
whole function does: `` `task_func([3, 1])` returns `4` ``, `task_func([3, 1]) == 4`, or a doctest. Only literals count.
Without backticks a step has one argument, as commas of a sentence look like those between arguments.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from orchestai.text.syntax import parse_literal, parse_python

_STEP = re.compile(r"`([^`]+)`\s*(?:->|→|=>|becomes?|gives?|returns?|turns? into|yields?)\s*`([^`]+)`")
_LITERAL = r"""(?:\[[^\[\]`]*\]|'[^'`\n]*'|"[^"`\n]*"|-?\d+(?:\.\d+)?|True|False|None)"""
_BARE = re.compile(rf"(?<![\w.,`(])(?<!, )({_LITERAL})\s*(?:->|→|=>)\s*({_LITERAL})(?![\w`(\[])")
_CALL_RESULT = re.compile(
    r"`?\s*(?:#\s*)?(?:->|→|➞|==?>|⇒|==?|becomes?|gives?|yields?|(?:should |must |will )?returns?|outputs?|is|"
    r"ergibt|gibt|liefert|ist)[ \t]*"
)
_DOCTEST_RESULT = re.compile(r"[ \t]*\n[ \t]*")
_SAID = re.compile(r"[^\W\d_]+[ \t]*$")
_ENDS = re.compile(
    r"\s*(?:$|[`,;.:)\]}!?#]|[\"'](?!\w)|(?:and|und|but|aber|while|whereas|for|zum|as|because|since|also|both|then)\b)"
)
"""What follows a result that is told in words ("returns 3"), and not one that is compared, or of two ("3 or None")."""
_CONTINUES = re.compile(r"\w|\s*[-+*/%=<>]")
_OPENING = re.compile(r"(?:(?:and|then)\b\s*)+", re.IGNORECASE)
_QUOTED = re.compile(r"`[^`]*`")
_SPACE = re.compile(r"`[^`]*`|\s+")
_PUNCTUATION = " \t\r\n,;:.!-–—"


@dataclass(frozen=True)
class Example:
    """`args` and `result` are sources of Python literals."""

    args: tuple[str, ...]
    result: str


@lru_cache(maxsize=4096)
def parse_examples(text: str) -> tuple[Example, ...]:
    """The step examples that `text` shows, in order; calls of a named function are left to `parse_calls`."""
    found = []
    for match in sorted([*_STEP.finditer(text), *_BARE.finditer(text)], key=re.Match.start):
        args, result = _arguments(f"step({match[1]})"), match[2].strip()
        if args and _is_literal(result):
            found.append(Example(args, result))
    return tuple(found)


@lru_cache(maxsize=4096)
def parse_calls(text: str, entry_point: str) -> tuple[Example, ...]:
    """The example calls of `entry_point` that `text` shows with their results, in order, each once."""
    found = []
    for match in re.finditer(rf"(>>>[ \t]*)?(?<![\w.]){re.escape(entry_point)}\(", text):
        start = match.start() + len(match[1] or "")
        call = args = None
        for closing in re.finditer(r"\)", text[start : start + 4000]):
            call = text[start : start + closing.end()]
            with suppress(SyntaxError, ValueError):
                parse_python(call, "eval")
                args = _arguments(call)
                break
        if call is None or args is None:
            continue
        end = start + len(call)
        separator = (match[1] and _DOCTEST_RESULT.match(text, end)) or _CALL_RESULT.match(text, end)
        result = _literal_at(text, separator.end(), _SAID.search(separator[0]) is not None) if separator else ""
        if result:
            found.append(Example(args, result))
    return tuple(dict.fromkeys(found))


def clean(text: str) -> str:
    """Normalise the words of one step, so that spans which differ by a bracket, comma or connective read the same.

    White space outside backticks is collapsed; punctuation at both ends and a leading "and" or "then" are dropped.
    Of parentheses outside backticks, those around the whole and those at the ends without a partner are dropped, and
    what is still open is closed.
    """
    text = _SPACE.sub(lambda match: match[0] if match[0].startswith("`") else " ", text)
    partners = _partners(text)
    previous, start, end = (-1, -1), 0, len(text)
    while (start, end) != previous:
        previous = start, end
        while start < end and text[start] in _PUNCTUATION:
            start += 1
        while start < end and text[end - 1] in _PUNCTUATION:
            end -= 1
        if opening := _OPENING.match(text, start, end):
            start = opening.end()
        if start < end and partners.get(start) == end - 1:
            start, end = start + 1, end - 1
        elif start < end and partners.get(start, start) is None:
            start += 1
        elif start < end and partners.get(end - 1, end) is None:
            end -= 1
    opened = (i for i, partner in partners.items() if start <= i < end and partner is None and text[i] == "(")
    return text[start:end] + ")" * sum(1 for _ in opened)


def _partners(text: str) -> dict[int, int | None]:
    """For each parenthesis outside backticks, where its partner stands, or None."""
    partners: dict[int, int | None] = {}
    opened: list[int] = []
    plain = _QUOTED.sub(lambda match: "`" * len(match[0]), text)
    for i, character in enumerate(plain):
        if character == "(":
            opened.append(i)
            partners[i] = None
        elif character == ")" and opened:
            start = opened.pop()
            partners[start], partners[i] = i, start
        elif character == ")":
            partners[i] = None
    return partners


def _is_literal(source: str) -> bool:
    try:
        parse_literal(source)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _arguments(call: str) -> tuple[str, ...] | None:
    """Sources of the arguments of a call; None unless all are positional literals."""
    try:
        node = parse_python(call, "eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    sources = [ast.get_source_segment(call, argument) or "" for argument in node.args]
    return tuple(sources) if all(map(_is_literal, sources)) else None


def _literal_at(text: str, start: int, is_said: bool) -> str:
    """The literal that the line from `start` begins with, in backticks or not; empty if it is part of an expression.

    Args:
        is_said: whether it comes after a word, so that it may be part of a sentence.
    """
    line = text[start:].partition("\n")[0].strip()
    if line.startswith("`"):
        quoted = line[1:].partition("`")[0].strip()
        return quoted if _is_literal(quoted) else ""
    for end in range(len(line), 0, -1):
        source = line[:end].rstrip(" .,;`")
        if _is_literal(source):
            goes_on = _CONTINUES.match(line, len(source)) or (is_said and not _ENDS.match(line, len(source)))
            return "" if goes_on else source
    return ""
