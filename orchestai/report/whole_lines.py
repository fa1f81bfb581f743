"""The lines of a log that can be read, and complaints about the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from orchestai.errors import UserError
from orchestai.storage import artifacts

_MOST_PROBLEMS: Final = 50


def whole_lines(file: Path, problems: list[str]) -> Iterator[tuple[str, Any]]:
    """JSON lines as (`FILE:LINE`, value), one at a time, since a log may be larger than memory."""
    try:
        for line in artifacts.each_line(file):
            if isinstance(line, str):
                complain(problems, line.replace(f"{file.parent}/", ""))
            else:
                where, value = line
                yield where.replace(f"{file.parent}/", ""), value
    except UserError as error:
        complain(problems, str(error).replace(f"{file.parent}/", ""))


def complain(problems: list[str], complaint: str) -> None:
    """Add a complaint, unless there are so many that nobody reads on."""
    if len(problems) < _MOST_PROBLEMS:
        problems.append(complaint)
    elif len(problems) == _MOST_PROBLEMS:
        problems.append("and more lines that could not be read")
