"""What one answer did cost, node by node, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestai.config.running import Contract
from orchestai.execution.contract.forecast import Forecast, WholeForecast
from orchestai.execution.contract.ledger import Reservation
from orchestai.execution.contract.run_budget import RunBudget
from orchestai.execution.result import Attempt, Execution, SubtaskResult
from orchestai.workers.base import Usage
from orchestai.workflow import Workflow

OUTDONE = "another answer is likelier to be right"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class AskedWorker(_Part):
    """One worker asked for one node.

    Attributes:
        reserved_usd: what it might have cost.
        spent_usd: what it was paid.
        cached_tokens: of the prompt's, those that the server had read before.
        check: whether the node's own visible examples passed; None without any.
        why_next: why this answer is not the node's; empty where it is, unless something speaks against it.
    """

    worker: str
    reserved_usd: float
    spent_usd: float
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = Field(0, exclude_if=lambda tokens: not tokens)
    usage_estimated: bool
    latency_ms: float
    source: str
    check: bool | None
    why_next: str


class NodeReceipt(_Part):
    """One subtask: who was asked for it, in this order."""

    node: str
    instruction: str
    depends_on: tuple[str, ...]
    status: Literal["done", "failed", "skipped"]
    answered_by: str
    asked: tuple[AskedWorker, ...]
    error: str | None = None


class Receipt(_Part):
    """What one answer took.

    Attributes:
        status: `complete`; `partial` where the plan was not done by the deadline or an interruption, the answer was cut
            off, or the program does not do what the instruction shows; `failed` where there is no answer.
        planner: who made the plan; where another was not sure of its own, also why.
        degraded: why the planner was not followed, and the best single worker was asked instead; empty where it was.
        confidence: the chance that its steps and edges are right; None where nobody knows.
        forecast: what was expected of the plan and its workers before anybody was asked; None where nobody knows.
        success: the probability that the answer is right, now that it is known who answered and what the checks said;
            None where nobody knows.
        best_single: what the best single worker asked for the whole would probably have achieved and cost; None where
            nobody knows.
        planning: what models were paid to make it; None where the planner computes for itself.
        planning_ms: how long that took.
        changes: what was changed of the plan to keep the contract.
        does_as_shown: whether the program gave the results of the instruction's example calls; None: nobody looked.
        reserved_usd: the most that was set aside; the worst case of the plan unless it had to grow.
        spent_usd: of that, what counts as spent: all bills seen, and `unsettled_usd`.
        unsettled_usd: of calls that failed or were cut off, so that nobody saw their bills, the most that they can be.
        disputed_usd: what workers billed beyond what they may; not in `spent_usd`.
        calls: requests that were sent, or may have been, every sample and repeated try counted.
        critical_path: nodes, and their latencies in a row, that no other path of the workflow took longer than.
        wall_ms: from the instruction to the answer.
        replay: the command that runs this workflow again on the answers that were logged.
        versions: of packages, and the checkpoint with its digest.
    """

    run_id: str
    status: Literal["complete", "partial", "failed"]
    contract: Contract
    planner: str
    degraded: str = Field("", exclude_if=lambda reason: not reason)
    confidence: float | None = None
    forecast: Forecast | None = None
    success: float | None = None
    best_single: WholeForecast | None = None
    planning: Usage | None = None
    planning_ms: float = 0.0
    changes: tuple[str, ...] = ()
    does_as_shown: bool | None = Field(None, exclude_if=lambda shown: shown is None)
    reserved_usd: float = 0.0
    spent_usd: float = 0.0
    unsettled_usd: float = 0.0
    disputed_usd: float = 0.0
    calls: int = 0
    nodes: tuple[NodeReceipt, ...] = ()
    critical_path: tuple[str, ...] = ()
    critical_path_ms: float = 0.0
    wall_ms: float = 0.0
    replay: str = ""
    versions: dict[str, str] = {}

    def unplanned(
        self, reservation: Reservation, planning: Usage | None, unsettled_usd: float, wall_ms: float
    ) -> Receipt:
        """The receipt of a run that began with this one and never had a plan that could be run."""
        return self.model_copy(
            update={
                "reserved_usd": reservation.amount_usd,
                "spent_usd": reservation.spent_usd,
                "planning": planning,
                "unsettled_usd": unsettled_usd,
                "planning_ms": wall_ms,
                "wall_ms": wall_ms,
            }
        )

    def ended(self, execution: Execution, budget: RunBudget, wall_ms: float) -> Receipt:
        """The receipt of a run that began with this one."""
        path, path_ms = critical_path(execution.workflow, execution.results)
        return self.model_copy(
            update={
                "status": _status(execution),
                "does_as_shown": execution.does_as_shown,
                "reserved_usd": budget.reservation.amount_usd,
                "spent_usd": budget.reservation.spent_usd,
                "unsettled_usd": self.unsettled_usd + budget.unsettled_usd,
                "disputed_usd": budget.disputed_usd,
                "calls": budget.calls,
                "nodes": node_receipts(execution),
                "critical_path": path,
                "critical_path_ms": path_ms,
                "wall_ms": wall_ms,
            }
        )


def node_receipts(execution: Execution) -> tuple[NodeReceipt, ...]:
    """A receipt per subtask, in the order of the workflow."""
    return tuple(
        NodeReceipt(
            node=subtask.id,
            instruction=subtask.instruction,
            depends_on=subtask.depends_on,
            status=result.status,
            answered_by=result.worker,
            asked=tuple(_asked(result, place) for place in range(len(result.attempts))),
            error=result.error,
        )
        for subtask, result in zip(execution.workflow.subtasks, execution.results, strict=True)
    )


def critical_path(workflow: Workflow, results: Sequence[SubtaskResult]) -> tuple[tuple[str, ...], float]:
    """The longest path by the measured latencies, from root to end, and its milliseconds."""
    latency = {result.id: result.latency_ms for result in results}
    paths: dict[str, tuple[tuple[str, ...], float]] = {}
    for subtask in workflow.order():
        before = max((paths[parent] for parent in subtask.depends_on), key=_length, default=((), 0.0))
        paths[subtask.id] = (*before[0], subtask.id), before[1] + latency[subtask.id]
    return max(paths.values(), key=_length)


def _status(execution: Execution) -> Literal["complete", "partial", "failed"]:
    if execution.partial:
        return "partial" if execution.answer else "failed"
    needed = execution.workflow.needed()
    if execution.does_as_shown is False or execution.truncated:
        return "partial"
    done = all(result.status == "done" for result in execution.results if result.id in needed)
    return "complete" if done else "failed"


def _length(path: tuple[tuple[str, ...], float]) -> float:
    return path[1]


def _asked(result: SubtaskResult, place: int) -> AskedWorker:
    attempt = result.attempts[place]
    return AskedWorker(
        worker=attempt.worker,
        reserved_usd=attempt.reserved_usd,
        spent_usd=attempt.cost_usd,
        prompt_tokens=attempt.prompt_tokens,
        completion_tokens=attempt.completion_tokens,
        cached_tokens=attempt.cached_tokens,
        usage_estimated=attempt.usage_estimated,
        latency_ms=attempt.latency_ms,
        source=attempt.source,
        check=attempt.passed_check,
        why_next=_why_next(attempt) if place != result.kept or attempt.error or attempt.rejected else "",
    )


def _why_next(attempt: Attempt) -> str:
    if attempt.error is not None:
        return attempt.error
    return "its visible check failed" if attempt.passed_check is False else attempt.rejected or OUTDONE
