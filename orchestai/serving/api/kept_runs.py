"""What the database is told of each run: that it began, and how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from orchestai.answering import Event
from orchestai.config import ServingConfig
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.events import PlanReady
from orchestai.execution.log_keeping import each_text
from orchestai.serving.api.caller import Caller
from orchestai.serving.redaction import text_change
from orchestai.serving.store import UNREACHABLE, Database, ServedRuns

logger = logging.getLogger(__name__)


class KeptRun:
    """One run on its way into the database; `end` must follow.

    Attributes:
        plan, receipt: as far as they are there.
    """

    def __init__(
        self, runs: ServedRuns, run_id: str, caller: Caller, change: Callable[[str], str] | None, labels: dict[str, str]
    ) -> None:
        self._runs = runs
        self._run_id = run_id
        self._key = caller.key
        self._change = change
        self._labels = labels
        self.plan: PlanReady | None = None
        self.receipt: Receipt | None = None
        self._beginning = runs.begin_soon(run_id, caller.key)

    def hear(self, event: Event) -> None:
        if isinstance(event, PlanReady):
            self.plan = event

    def settled(self, receipt: Receipt) -> None:
        self.receipt = receipt

    async def end(self, refusal: str = "") -> None:
        """Keep plan and receipt; of a run that was refused before it had any, why.

        Whoever is cancelled while it waits does not undo it.
        """
        receipt: dict[str, Any] = {"run_id": self._run_id, "status": "refused", "error": refusal}
        if self.receipt is not None:
            receipt = self.receipt.model_dump(mode="json") | ({"error": refusal} if refusal else {})
        plan = None if self.plan is None else self.plan.workflow.to_dict()
        labels = self._labels
        if self._change is not None:
            receipt, plan = each_text(receipt, self._change), each_text(plan, self._change)
            labels = {name: self._change(label) for name, label in labels.items()}
        if labels:
            receipt["labels"] = labels
        try:
            ended = self._runs.put_soon(self._run_id, self._key, plan, receipt)
            await asyncio.shield(asyncio.wrap_future(ended))
            self._beginning.result()  # which was written before
        except UNREACHABLE:
            logger.error("%s: the database does not answer; its receipt is kept as soon as it does", self._run_id)
        except Exception:
            logger.exception("%s is not in the database", self._run_id)


class KeptRuns:
    """Notes runs as `serving.log` and `serving.redact` say.

    Attributes:
        change: of each text before it is kept; None keeps it as it is.
    """

    def __init__(self, config: ServingConfig, database: Database) -> None:
        self._runs = ServedRuns(database)
        self.change = text_change(config)
        self._labels = config.log == "full"

    def begin(self, run_id: str, caller: Caller, labels: dict[str, str]) -> KeptRun:
        return KeptRun(self._runs, run_id, caller, self.change, labels if self._labels else {})
