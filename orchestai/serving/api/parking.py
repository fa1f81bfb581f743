"""Workflows that wait for a client's tools: parked in the database, and resumed at the step that waits."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, ConfigDict

from orchestai.answering import RunResult
from orchestai.serving.api.caller import Caller
from orchestai.serving.api.errors import ApiError
from orchestai.serving.api.requests.asked import Asked
from orchestai.serving.api.requests.common import exchanged, run_of_call
from orchestai.serving.store import UNREACHABLE, Database, ParkedRuns
from orchestai.tasks.asked_task import AnswerKind
from orchestai.tasks.dialogue import Dialogue, ToolCall, ToolUse
from orchestai.workflow import Subtask, Workflow


class ParkedRun(BaseModel):
    """One step, with all that its worker has to read to go on.

    Attributes:
        run_id: of the run that was parked.
        dialogue: with what the steps before gave, and the calls of tools so far.
        calls: that wait for their results.
        text: said beside the calls.
        spent_usd: of the contract, by all turns so far.
    """

    model_config = ConfigDict(frozen=True)

    run_id: str
    instruction: str
    answer: AnswerKind | None
    dialogue: Dialogue
    step: Subtask
    calls: tuple[ToolCall, ...]
    text: str
    spent_usd: float

    @property
    def workflow(self) -> Workflow:
        """The step alone."""
        return Workflow([self.step])


PARKED_S = 3600.0
"""How long a workflow waits for what a client's tools give."""


class Parking:
    """Of all servers on one database."""

    def __init__(self, database: Database) -> None:
        self._runs = ParkedRuns(database)

    async def take(self, asked: Asked, caller: Caller) -> ParkedRun:
        """The run that waits for the results in a request; `put_back` or `drop` follows.

        Raises:
            ApiError: none does.
        """
        name = next(iter(asked.results))
        run_id = run_of_call(name)
        state = None if run_id is None else await self._taken(run_id, caller.key)
        if state is None:
            raise ApiError(
                400,
                "tool_call_not_found",
                f"no run waits for {name}: it has been resumed, or was forgotten after {PARKED_S:g} s",
                param=asked.conversation,
            )
        return ParkedRun.model_validate(state)

    async def _taken(self, run_id: str, key: str) -> dict[str, Any] | None:
        taking = self._runs.take(run_id, key, PARKED_S)

        def leave(taken: Future[dict[str, Any] | None]) -> None:
            if taken.exception() is None and taken.result() is not None:
                self._runs.give_back(run_id, key)

        try:
            return await asyncio.shield(asyncio.wrap_future(taking))
        except asyncio.CancelledError:
            taking.add_done_callback(leave)
            raise

    async def put(self, parked: ParkedRun, caller: Caller) -> None:
        state = parked.model_dump(mode="json")
        await asyncio.shield(asyncio.wrap_future(self._runs.put(parked.run_id, caller.key, state)))

    async def put_back(self, parked: ParkedRun, caller: Caller) -> None:
        """`put` a run whose resumption failed, as soon as the database answers."""
        with suppress(*UNREACHABLE):
            await self.put(parked, caller)

    async def drop(self, parked: ParkedRun, caller: Caller) -> None:
        """Forget a run that was answered, as soon as the database answers."""
        with suppress(*UNREACHABLE):
            await asyncio.shield(asyncio.wrap_future(self._runs.drop(parked.run_id, caller.key)))


def resumed(parked: ParkedRun, asked: Asked) -> Dialogue:
    """What the worker that waits reads now: with the results, and the tools that there are now.

    Raises:
        ApiError: a result is missing.
    """
    before = parked.dialogue.tool_use or ToolUse(tools="[]")
    now = asked.dialogue.tool_use or before.model_copy(update={"choice": '"auto"'})
    exchange: list[Any] = json.loads(before.exchange)
    exchange += exchanged(parked.calls, parked.text, parked.run_id, asked.results, asked.conversation)
    tool_use = now.model_copy(update={"exchange": json.dumps(exchange)})
    return parked.dialogue.model_copy(update={"tool_use": tool_use})


def parked_run(result: RunResult, asked: Asked, before: ParkedRun | None, dialogue: Dialogue) -> ParkedRun:
    """A run whose last step has called tools.

    Args:
        before: what it was resumed from; None where it was not.
        dialogue: that the worker has read.
    """
    workflow = result.workflow
    step = workflow[workflow.answering()]
    outputs = result.execution.outputs
    inputs = dialogue.inputs or {parent: outputs[parent] for parent in step.depends_on}
    (answered,) = [node for node in result.execution.results if node.id == step.id]
    alone = step.model_copy(update={"depends_on": (), "worker": answered.worker, "fallback": ()})
    return ParkedRun(
        run_id=asked.run_id,
        instruction=before.instruction if before else asked.instruction,
        answer=before.answer if before else asked.extension.answer,
        dialogue=dialogue.model_copy(update={"inputs": inputs}),
        step=alone,
        calls=result.execution.tool_calls,
        text=answered.output,
        spent_usd=result.receipt.spent_usd + (before.spent_usd if before else 0.0),
    )
