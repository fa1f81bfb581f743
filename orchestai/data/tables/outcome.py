"""What one worker did on one query, as readers give it, and what of it a table can use."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, isnan
from pathlib import Path
from typing import Any, Final

from orchestai.errors import UserError
from orchestai.tasks.records import Record
from orchestai.tasks.table_files import is_csv, read_table
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


def outcome_rows(file: Path) -> list[tuple[str, Record]]:
    """The rows with where each stands; an empty cell of CSV, which does not tell an empty text from none, is None.

    Raises:
        UserError: it cannot be read, or has no rows.
    """
    rows = read_table(file, "outcome")
    if not is_csv(file):
        return rows
    return [(where, {name: value or None for name, value in row.items()}) for where, row in rows]


MEASURES: Final = ("score", "cost_usd", "latency_s", "tokens")
_HALF = re.compile("[\ud800-\udfff]")
"""Of a surrogate pair: no character, and in no file."""
_ROUNDING = 1e-9
"""By which a mean of scores may miss 0 or 1."""
_NEAR = 0.1
"""By which a score may miss 0 or 1 and still say which of them is meant."""


class UnusableOutcomeError(ValueError):
    """A record holds no outcome that can be used; the message says why, in words that can be counted."""


@dataclass(frozen=True)
class TableOutcome:
    """What one worker did on one query. What the source does not say is None.

    Attributes:
        where: the place in the file, for error messages.
        id: of the query; empty where the source has none, and queries are told apart by type and text.
        query: its text.
        task_type: its type; empty where the source has none.
        score: in [0, 1].
        cost_usd: in US dollars.
        latency_s: in seconds.
        tokens: that were generated.
        reply: what the worker wrote.
        card: what the worker is, in words.
        unread: by measure what the source has in place of a number.
        outside: by measure a number that it cannot be; a score near 0 or 1 counts as that, any other is missing.
    """

    where: str
    query: str
    worker: str
    score: float | None
    id: str = ""
    task_type: str = ""
    cost_usd: float | None = None
    latency_s: float | None = None
    tokens: float | None = None
    reply: str | None = None
    card: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)


def usable(outcome: TableOutcome) -> TableOutcome:
    """The outcome in texts and numbers: a NaN is missing, names have no space around them, and half of a surrogate pair
    in what is not asked is a replacement character.

    Raises:
        UnusableOutcomeError: it has no query, or no worker.
        UserError: the reader gave a measure that is no number.
    """
    query, worker = text(outcome.query), _whole(outcome.worker).strip()
    if not query.strip():
        raise UnusableOutcomeError("a query without words")
    if _HALF.search(query):
        raise UnusableOutcomeError("a query with half of a surrogate pair, which is no character")
    if not worker:
        raise UnusableOutcomeError("no worker")
    numbers: dict[str, Any] = {name: _measured(outcome, name) for name in MEASURES}
    outside = {name: wrong for name, value in numbers.items() if (wrong := _outside(name, value))}
    for name in outside:
        score = numbers[name]
        near = name == "score" and -_NEAR <= score <= 1 + _NEAR
        numbers[name] = min(max(score, 0.0), 1.0) if near else None
    return replace(
        outcome,
        query=query,
        worker=worker,
        id=_whole(outcome.id).strip(),
        task_type=_whole(outcome.task_type).strip(),
        reply=None if absent(outcome.reply) else _whole(outcome.reply),
        card=_whole(outcome.card),
        outside={name: f"{wrong} of {worker!r}" for name, wrong in outside.items()},
        **numbers,
    )


def _whole(value: Any) -> str:
    return _HALF.sub("\ufffd", text(value))


def _measured(outcome: TableOutcome, name: str) -> float | None:
    value = getattr(outcome, name)
    if absent(value):
        return None
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        found = float(value)
    except (TypeError, ValueError):
        raise UserError(
            f"{outcome.where}: {name} of {outcome.worker!r} is {shown(value)}, no number; the reader has to give a "
            "number, or None where nobody measured"
        ) from None
    if name == "score" and -_ROUNDING < min(found, 1 - found) < 0:
        return min(max(found, 0.0), 1.0)
    return None if isnan(found) else found


def _outside(name: str, value: float | None) -> str:
    """A number that the measure cannot be; empty for all others."""
    if value is None or (0 <= value <= 1 if name == "score" else 0 <= value < inf):
        return ""
    return f"{value:g}"
