"""What of a table cannot be used, by reason, with the first case of each."""

from __future__ import annotations

from collections import Counter

from orchestai.data.tables.outcome import MEASURES, TableOutcome
from orchestai.errors import UserError

_MOST_UNREAD = 0.1
"""Of a measure's cells may be no numbers; where more are, those that are numbers tell too little of all."""


class LeftOut:
    """Counts what cannot be used, and the cells of measures that are no numbers."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._filled: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """By reason, the most frequent first."""
        return dict(self._counts.most_common())

    @property
    def lines(self) -> tuple[str, ...]:
        """The counts in words, with the first case of each reason that has a known place."""
        firsts = {reason: f" (the first: {case})" for reason, case in self._first.items()}
        return tuple(f"{count} x {reason}{firsts.get(reason, '')}" for reason, count in self.counts.items())

    def add(self, reason: str, case: str) -> None:
        """Count a case, which is named by its place; empty where nobody knows it."""
        self._counts[reason] += 1
        if case:
            self._first.setdefault(reason, case)

    def add_unread(self, outcome: TableOutcome) -> None:
        """Count the outcome's cells that are no numbers, beside those that are."""
        for name in MEASURES:
            self._filled[name] += name in outcome.unread or getattr(outcome, name) is not None
        for name, cell in outcome.unread.items():
            self.add(_no_number(name), f"{cell}, {outcome.where}")

    def refuse_unread(self, source: str, *, by_columns: bool) -> None:
        """Refuse a table whose numbers are not written as numbers.

        Args:
            by_columns: whether `--columns` says what is read.

        Raises:
            UserError: of some measure more than a tenth of the cells are no numbers.
        """
        for name in MEASURES:
            reason = _no_number(name)
            if self._counts[reason] > _MOST_UNREAD * self._filled[name]:
                remedy = "scores from 0 to 1 or as true and false" if name == "score" else "without units"
                if by_columns and name != "score":
                    remedy += f", or leave the column out: --columns {name}="
                raise UserError(
                    f"{source}: {self._counts[reason]} of {self._filled[name]} cells of {name} are no numbers (the "
                    f"first: {self._first[reason]}); write numbers with a decimal point, {remedy}"
                )


def _no_number(name: str) -> str:
    return "score is no number" if name == "score" else f"{name} is no number, so that it is missing"
