"""What the database is told of each run: that it began, and how it ended."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from orchestai.answering import Event
from orchestai.config import ServingConfig
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.events import PlanReady
from orchestai.serving.api.caller import Caller
from orchestai.serving.store import Database, ServedRuns

logger = logging.getLogger(__name__)


class KeptRun:
    """One run on its way into the database; `end` must follow.

    Attributes:
        plan, receipt: as far as they are there.
    """

    def __init__(self, runs: ServedRuns, run_id: str, caller: Caller, *, texts: bool, labels: dict[str, str]) -> None:
        self._runs = runs
        self._run_id = run_id
        self._key = caller.key
        self._texts = texts
        self._labels = labels
        self.plan: PlanReady | None = None
        self.receipt: Receipt | None = None
        self._beginning = asyncio.wrap_future(runs.begin_soon(run_id, caller.key))

    def hear(self, event: Event) -> None:
        if isinstance(event, PlanReady):
            self.plan = event

    def settled(self, receipt: Receipt) -> None:
        self.receipt = receipt

    async def end(self, refusal: str = "") -> None:
        """Keep plan and receipt; of a run that was refused before it had any, why.

        Whoever is cancelled while it waits does not undo it.
        """
        await asyncio.shield(self._end(refusal))

    async def _end(self, refusal: str) -> None:
        receipt: dict[str, Any] = {"run_id": self._run_id, "status": "refused", "error": refusal}
        if self.receipt is not None:
            receipt = self.receipt.model_dump(mode="json")
        plan = None if self.plan is None else self.plan.workflow.to_dict()
        if not self._texts:
            receipt, plan = without_texts(receipt), without_texts(plan)
        if self._labels:
            receipt["labels"] = self._labels
        try:
            await self._beginning
            await asyncio.wrap_future(self._runs.put_soon(self._run_id, self._key, plan, receipt))
        except Exception:
            logger.exception("%s is not in the database", self._run_id)


class KeptRuns:
    def __init__(self, config: ServingConfig, database: Database) -> None:
        self._runs = ServedRuns(database)
        self._texts = config.log == "full"

    def begin(self, run_id: str, caller: Caller, labels: dict[str, str]) -> KeptRun:
        return KeptRun(self._runs, run_id, caller, texts=self._texts, labels=labels if self._texts else {})


_TEXTS = frozenset({"instruction", "role", "error", "why_next"})


def without_texts(value: Any) -> Any:
    """Plans and receipts without what was said: instructions, role instructions, and messages that may quote them."""
    if isinstance(value, dict):
        return {name: "" if name in _TEXTS and part else without_texts(part) for name, part in value.items()}
    if isinstance(value, list):
        return [without_texts(part) for part in value]
    return value
