"""A candidate plans what is served without answering it; both plans are logged, and nobody waits for it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from orchestai.answering import RunResult
from orchestai.errors import UserError
from orchestai.execution.log_keeping import each_text
from orchestai.orchestrator import Orchestrator
from orchestai.planner.planning_queue import PlanningQueue, QueuedTask
from orchestai.planner.serving import ServedPlanner
from orchestai.serving.redaction import text_change
from orchestai.storage import artifacts
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow

logger = logging.getLogger(__name__)
FILE = "shadow.jsonl"
_MOST_WAITING = 64


class Shadow:
    """Plans again what an orchestrator has answered.

    Args:
        planner: the candidate.
        log: folder; a line per run is appended to its `shadow.jsonl`.
        change: of each text before it is kept; None keeps it as it is.

    Attributes:
        skipped: runs that it did not plan, since it was so far behind.
    """

    def __init__(self, planner: ServedPlanner, log: Path, change: Callable[[str], str] | None = None) -> None:
        self._change = change
        self._planning = PlanningQueue(planner)
        self._path = log / FILE
        self._waiting: set[asyncio.Task[None]] = set()
        self.skipped = 0

    @classmethod
    async def beside(
        cls, orchestrator: Orchestrator, checkpoint: str, log: Path, change: Callable[[str], str] | None = None
    ) -> Shadow:
        """A shadow of all that the planner of an open orchestrator plans.

        Raises:
            UserError: the checkpoint cannot be used.
        """
        shadow = cls(await orchestrator.open_planner(checkpoint), log, change)
        orchestrator.observe(shadow.observe)
        return shadow

    def observe(self, task: Task, result: RunResult) -> None:
        """Plan a task that was answered, when there is time for it."""
        if len(self._waiting) >= _MOST_WAITING:
            self.skipped += 1
            return
        planning = asyncio.ensure_future(self._plan(task, result))
        self._waiting.add(planning)
        planning.add_done_callback(self._waiting.discard)

    async def finish(self) -> None:
        """Wait for the plans that are to come."""
        await asyncio.gather(*self._waiting)

    async def _plan(self, task: Task, result: RunResult) -> None:
        try:
            began = time.monotonic()
            plan = await self._planning.plan(QueuedTask(task), None)
            line = {
                "run_id": result.receipt.run_id,
                "planner": result.receipt.planner,
                "plan": result.workflow.to_dict(),
                "candidate": self._planning.planner.name,
                "candidate_plan": None if plan.workflow is None else plan.workflow.to_dict(),
                "candidate_confidence": plan.confidence,
                "planning_ms": 1000 * (time.monotonic() - began),
                "same_steps": plan.workflow is not None and _steps(plan.workflow) == _steps(result.workflow),
                "same_workers": plan.workflow is not None and _workers(plan.workflow) == _workers(result.workflow),
            }
            if self._change is not None:
                line = each_text(line, self._change)
            data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
            await asyncio.to_thread(artifacts.append, self._path, data)
        except Exception:
            logger.exception("the shadow planner gave no plan for %s", result.receipt.run_id)


@asynccontextmanager
async def shadowed(orchestrator: Orchestrator) -> AsyncIterator[None]:
    """Shadow an open orchestrator with `serving.shadow`, if that is set.

    Raises:
        UserError: the checkpoint cannot be used.
    """
    serving = orchestrator.config.serving
    if serving.shadow is None:
        yield
        return
    try:
        shadow = await Shadow.beside(orchestrator, serving.shadow, serving.shadow_log, text_change(serving))
    except UserError as error:
        raise UserError(f"serving.shadow: {str(error).removeprefix('--checkpoint ')}") from None
    try:
        yield
    finally:
        await shadow.finish()


def _steps(workflow: Workflow) -> list[Any]:
    return [(subtask.instruction, subtask.depends_on) for subtask in workflow.subtasks]


def _workers(workflow: Workflow) -> list[tuple[str, ...]]:
    return [subtask.workers for subtask in workflow.subtasks]
