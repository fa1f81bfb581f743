"""What people said of served answers, which servers keep apart from the execution log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from orchestai.errors import UserError
from orchestai.execution.record import ExecutionRecord
from orchestai.report.whole_lines import complain

Feedback: TypeAlias = Mapping[str, Any]
"""`score` from 0 to 1, the right `answer`, `tests`; what was not said is None."""
ReadFeedback: TypeAlias = Callable[[], Mapping[str, Feedback]]
"""By run id; raises UserError where it cannot be read."""


@dataclass
class ServedFeedback:
    """Looked up for runs with a receipt; read when the first one is met.

    Attributes:
        scores: those of each run of the page.
    """

    read: ReadFeedback
    scores: dict[int, list[float]] = field(default_factory=dict)
    _known: Mapping[str, Feedback] | None = None

    def of(self, run: int, record: ExecutionRecord, problems: list[str]) -> Feedback | None:
        """What was said of an execution; None where nothing was."""
        if record.outcome != "unjudged" or record.receipt is None:
            return None
        if self._known is None:
            try:
                self._known = self.read()
            except UserError as error:
                self._known = {}
                complain(problems, f"feedback on served runs is not shown: {error}")
        given = self._known.get(record.receipt.run_id)
        if given is not None and given.get("score") is not None:
            self.scores.setdefault(run, []).append(given["score"])
        return given
