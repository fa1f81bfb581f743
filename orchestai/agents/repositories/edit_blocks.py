"""Search and replace blocks in what a model wrote: a file's name, the exact lines to find and those to put there.

    path/to/file.py
    <<<<<<< SEARCH
    old lines
    =======
    new lines
    >>>>>>> REPLACE

A fence may stand around a block, or between the name and it; the name may be set off as code, a heading or bold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_SEARCH = re.compile(r"<{5,9} SEARCH[ \t]*")
_DIVIDER = re.compile(r"={5,9}[ \t]*")
_REPLACE = re.compile(r">{5,9} REPLACE")
_FENCE = "```"
_NO_NAME = re.compile(r"[`*<>]")


class EditBlock(NamedTuple):
    """The lines `old` of the file at `path`, each with its end, are to become `new`."""

    path: str
    old: str
    new: str


def find_blocks(text: str) -> Iterator[EditBlock]:
    """The complete blocks of a text, in order. Every line is looked at a few times, however many blocks are open."""
    lines = text.split("\n")
    free = 0
    for i, line in enumerate(lines):
        path = _path(lines[max(free, i - 2) : i]) if i > free and _SEARCH.fullmatch(line) else ""
        if not path:
            continue
        divider = next((k for k in range(i + 1, len(lines) - 1) if _DIVIDER.fullmatch(lines[k])), len(lines))
        end = next((k for k in range(divider + 1, len(lines)) if _REPLACE.match(lines[k])), None)
        if end is None:
            return
        yield EditBlock(path, _joined(lines[i + 1 : divider]), _joined(lines[divider + 1 : end]))
        free = end + 1


def _path(before: Sequence[str]) -> str:
    """The name that the lines before a block end with; empty where they do not."""
    above = _name(before[-2]) if len(before) > 1 and before[-1].startswith(_FENCE) else ""
    return above or _name(before[-1])


def _name(line: str) -> str:
    name = line.lstrip("`*# \t").rstrip("`*: \t").strip()
    return "" if _NO_NAME.search(name) else name


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
