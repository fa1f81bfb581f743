"""Workers that replay what a table of outcomes holds: the recorded reply to the same query, at its recorded price."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from orchestai.errors import InfrastructureError, UserError
from orchestai.tasks.program_source import reply_program
from orchestai.tasks.records import read_table
from orchestai.tasks.splits import task_hash
from orchestai.workers.base import Answer, Request, WorkerCard, WorstCase

_SHOWN = 60


class RecordedReply(NamedTuple):
    """What a worker wrote, and what that took; None where nobody measured it."""

    text: str
    cost_usd: float | None
    latency_s: float | None
    tokens: float | None


class RecordedReplies:
    """The replies of a file that `orchestai prepare --from-table` wrote, by worker and query.

    A query is known by its words, whatever their case and the signs between them; of two queries with the same words
    each has its own text.
    """

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self._replies: dict[tuple[str, str], dict[str, RecordedReply]] = {}
        for row in rows:
            if row.get("reply") is not None:
                known = self._replies.setdefault((row["worker"], task_hash(row["query"])), {})
                measures = (row.get(name) for name in ("cost_usd", "latency_s", "tokens"))
                known.setdefault(row["query"].strip(), RecordedReply(row["reply"], *measures))

    @classmethod
    def read(cls, path: Path) -> RecordedReplies:
        """Those of a file.

        Raises:
            UserError: it cannot be read, or is not such a file.
        """
        try:
            return cls(row for _, row in read_table(path, "recorded reply"))
        except (KeyError, AttributeError) as error:
            raise UserError(
                f"{path}: not a file of recorded replies, whose lines have worker, query and reply ({error}); make one "
                "with `orchestai prepare --from-table`"
            ) from None

    def find(self, worker: str, query: str) -> RecordedReply | None:
        """The worker's reply; None where nobody recorded one."""
        known = self._replies.get((worker, task_hash(query)), {})
        return known.get(query.strip()) or (next(iter(known.values())) if len(known) == 1 else None)


class RecordedWorker:
    """Answers a query of the table with the recorded reply, and knows nothing else.

    Where a function is wanted, the reply's own is given under the wanted name. What nobody recorded is a fault of
    infrastructure: it says nothing about the worker.

    Args:
        replies: of this worker and others.
        price_usd: of a reply whose cost was not recorded.
    """

    def __init__(self, card: WorkerCard, replies: RecordedReplies, price_usd: float) -> None:
        self.card = card
        self._replies = replies
        self._price = price_usd

    def worst_case(self, request: Request) -> WorstCase:
        found = self._replies.find(self.card.name, request.instruction)
        if found is None:  # and `answer` asks nobody
            return WorstCase(calls=0)
        return WorstCase(cost_usd=self._cost(found), output_bytes=len(found.text.encode("utf-8", "replace")))

    async def answer(self, request: Request) -> Answer:
        found = self._replies.find(self.card.name, request.instruction)
        if found is None:
            raise InfrastructureError(
                "recording_missing",
                f"no recorded reply to {request.instruction[:_SHOWN]!r}; recorded workers answer the queries of their "
                "table alone, each asked whole",
            )
        text = found.text
        if (wanted := request.signature) is not None:
            text = reply_program(text, wanted.name, len(wanted.parameters)) or text
        return Answer(
            text=text,
            prompt=request.instruction,
            completion_tokens=round(found.tokens or 0),
            cost_usd=self._cost(found),
            latency_ms=1000 * (found.latency_s or 0.0),
            source="recording",
            usage_estimated=found.cost_usd is None,
        )

    def _cost(self, found: RecordedReply) -> float:
        return self._price if found.cost_usd is None else found.cost_usd
