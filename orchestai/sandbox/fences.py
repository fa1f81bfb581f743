"""Programs inside Markdown code fences, as models write them."""

from __future__ import annotations

import re

from orchestai.text.delimited import enclosed
from orchestai.text.syntax import parse_python

_OPENING = re.compile(r"```[^\n`]*\n")
_CLOSING = re.compile(r"\n[ \t]*```")
_FUNCTION = re.compile(r"^[^\S\n]*def ", re.MULTILINE)


def fenced(text: str) -> str | None:
    """Content of the first Markdown code fence that defines a function, else of the first one, or None."""
    blocks = list(enclosed(text, _OPENING, _CLOSING, to_end=True))
    return next(filter(_FUNCTION.search, blocks), blocks[0] if blocks else None)


def parses(code: str) -> bool:
    """Whether `code` is Python."""
    try:
        parse_python(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def unfenced(text: str) -> str:
    """The program in a text that is no Python itself but holds some in a fence; else the text."""
    return (fenced(text) or text) if "```" in text and not parses(text) else text
