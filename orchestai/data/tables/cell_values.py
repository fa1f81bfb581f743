"""Numbers and texts as files of others write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from orchestai.data.tables.outcome_table import TableOutcome, UnusableOutcomeError
from orchestai.text.syntax import parse_literal

_TRUTH = {"true": 1.0, "false": 0.0}
_ABSENT = {"", "nan", "none", "null", "na", "n/a"}


def number(value: Any, name: str) -> float | None:
    """The number that a cell says, 1 or 0 for true or false; None where it is empty.

    Raises:
        UnusableOutcomeError: it is no number.
    """
    text = str(value).strip().lower()
    if text in _ABSENT:
        return None
    try:
        found = _TRUTH[text] if text in _TRUTH else float(text)
    except ValueError:
        raise UnusableOutcomeError(f"{name} is no number") from None
    return None if math.isnan(found) else found


def measures(cells: Mapping[str, Any]) -> dict[str, Any]:
    """What the cells say of an outcome beside its score, by field, with the names of those that are no numbers.

    A score is not lost because its cost cannot be read.
    """
    found: dict[str, Any] = {"unread": ()}
    for name, value in cells.items():
        try:
            found[name] = number(value, name)
        except UnusableOutcomeError:
            found["unread"] += (name,)
    return found


def text(value: Any) -> str:
    """The text of a cell; empty where there is none, and of a NaN, which tables hold for no text."""
    return "" if value is None or value != value else str(value)


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


def outcomes_of(
    make: Callable[..., TableOutcome], records: Iterable[tuple[Any, ...]]
) -> Iterator[TableOutcome | UnusableOutcomeError]:
    """As `itertools.starmap`, but where `make` cannot use a record its reason."""
    for record in records:
        try:
            yield make(*record)
        except UnusableOutcomeError as reason:
            yield reason
