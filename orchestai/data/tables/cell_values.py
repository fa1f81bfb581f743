"""Numbers and texts as files of others write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orchestai.text.syntax import parse_literal

_TRUTH = {"true": 1.0, "false": 0.0}
_ABSENT = {"", "nan", "none", "null", "na", "n/a"}
_SHOWN = 60


def number(value: Any) -> float | None:
    """The number that a cell says, 1 or 0 for true or false; None where it is empty.

    Raises:
        ValueError: it is no number.
    """
    written = str(value).strip().lower()
    if written in _ABSENT:
        return None
    found = _TRUTH[written] if written in _TRUTH else float(written)
    return None if math.isnan(found) else found


def measures(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers that the cells say, by field, and by field under `unread` the cells that are no numbers."""
    found: dict[str, Any] = {}
    unread: dict[str, str] = {}
    for name, value in cells.items():
        try:
            found[name] = number(value)
        except ValueError:
            found[name], unread[name] = None, shown(value)
    return found | {"unread": unread}


def absent(value: Any) -> bool:
    """Whether a cell holds nothing: tables hold a NaN, or pandas' NA, for no text, too."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA is neither equal to itself nor unequal
        return True
    except ValueError:  # an array says it of each of its elements
        return False


def text(value: Any) -> str:
    """The text of a cell; empty where there is none."""
    return "" if absent(value) else str(value)


def shown(value: Any) -> str:
    """The beginning of a cell, in quotes, for messages."""
    written = str(value)
    return repr(written if len(written) <= _SHOWN else f"{written[:_SHOWN]}...")


def printed_list(value: Any) -> str:
    """The texts of a list that was printed into a cell, joined by blank lines; any other text as it is."""
    written = text(value)
    if written.lstrip().startswith("["):
        try:
            parts = parse_literal(written.strip())
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
            return written
        if isinstance(parts, list) and all(isinstance(part, str) for part in parts):
            return "\n\n".join(parts)
    return written
