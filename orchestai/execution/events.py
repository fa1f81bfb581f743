"""What happens while a workflow runs, for whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from orchestai.execution.contract.forecast import Forecast
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.result import Attempt, SubtaskResult
from orchestai.workflow import Workflow


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True)


class PlanReady(_Event):
    """There is a plan that keeps the contract.

    Attributes:
        planner: who made it; where another was not sure of its own, also why.
        confidence: the chance that its steps and edges are right; None where nobody knows.
        forecast: what is expected of it; None where nobody knows.
        reserved_usd: its worst case, which is set aside.
        changes: what was changed of it to keep the contract.
        degraded: why it is not the planner's; empty where it is.
    """

    type: Literal["planned"] = "planned"
    workflow: Workflow
    planner: str
    confidence: float | None = None
    forecast: Forecast | None = None
    reserved_usd: float
    changes: tuple[str, ...] = ()
    degraded: str = Field("", exclude_if=lambda reason: not reason)


class NodeStarted(_Event):
    """The parents of a subtask are done."""

    type: Literal["node_started"] = "node_started"
    node: str


class WorkerAsked(_Event):
    """A worker is asked."""

    type: Literal["attempt"] = "attempt"
    node: str
    worker: str


class AnswerPiece(_Event):
    """A piece of the answer, as its worker writes it; told only where it is wanted, and the answer is a text."""

    type: Literal["piece"] = "piece"
    node: str
    text: str


class AnswerChecked(_Event):
    """A worker has answered or failed; `attempt` has the answer, its price and what the visible check says of it."""

    type: Literal["check"] = "check"
    node: str
    attempt: Attempt


class NodeDone(_Event):
    """A subtask has its output, or was given up."""

    type: Literal["node_done"] = "node_done"
    node: str
    result: SubtaskResult


class AnswerReady(_Event):
    """The run has ended."""

    type: Literal["answer"] = "answer"
    answer: str
    receipt: Receipt


ExecutionEvent: TypeAlias = NodeStarted | WorkerAsked | AnswerPiece | AnswerChecked | NodeDone
Listener: TypeAlias = Callable[[ExecutionEvent], None]
"""Called at once; it must not take long, and what it raises ends the run."""


def ignore(event: ExecutionEvent) -> None:
    """Listen to nothing."""
