"""Programs inside Markdown code fences, as models write them."""

from __future__ import annotations

import re

from orchestai.syntax import parse_python

_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)


def fenced(text: str) -> str | None:
    """Content of the first Markdown code fence that defines a function, else of the first one, or None."""
    blocks: list[str] = _FENCE.findall(text)
    return next(
        (block for block in blocks if re.search(r"^\s*def ", block, re.MULTILINE)), blocks[0] if blocks else None
    )


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
