"""One line of the execution log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestai.errors import FaultKind
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.result import Attempt, Execution, JudgedExecution
from orchestai.execution.reward import Reference, typical
from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.tasks.task import Task
from orchestai.workers.base import Usage
from orchestai.workflow import Subtask, Workflow

SCHEMA_VERSION: Final = 1


class WorkflowGraph(BaseModel):
    """`adjacency[i][j]` is 1 where subtask j depends on subtask i."""

    model_config = ConfigDict(frozen=True)

    adjacency: tuple[tuple[int, ...], ...] = ()


class PlanOutputs(BaseModel):
    """The plan as a planner gives it, one entry per subtask.

    Attributes:
        model_selections: index into the pool of the worker asked first; -1 for a worker outside the pool.
        task_types: names of types (or indices, from orchestrations that know only those).
    """

    model_config = ConfigDict(frozen=True)

    model_selections: tuple[int, ...] = ()
    task_types: tuple[str | int, ...] = ()
    workflow_graph: WorkflowGraph = WorkflowGraph()


class RunOutputs(BaseModel):
    """What running the plan gave; costs in US dollars."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    success: bool
    outputs: dict[str, Any] = {}
    total_cost: float = Field(ge=0)
    total_latency_ms: float = Field(ge=0)


class SubtaskRecord(Subtask):
    """A subtask, and what became of it; see `SubtaskResult`."""

    status: Literal["done", "failed", "skipped"]
    answered_by: str = ""
    passed_check: bool | None = None
    error: str | None = None
    attempts: tuple[Attempt, ...] = ()

    def subtask(self) -> Subtask:
        return Subtask(**self.model_dump(include=set(Subtask.model_fields)))


class ExecutionRecord(BaseModel):
    """One execution. Only the fields without a default are required, so logs of other orchestrations can be read.

    Attributes:
        success: the answer has the full score; where unit tests judge, all hidden ones passed.
        cost: US dollars, of the workers.
        planning: what the planner asked of models, and paid, for this plan; None where it computes for itself.
        decomposed_by: who split a task without a reference decomposition, a model's name or `heuristic`, where the
            planner did not do so itself.
        latency_ms: critical path.
        repetition: index of this execution of the task by this planner.
        pool: worker names, which `planner_outputs.model_selections` indexes.
        outcome: `unjudged` are runs for people, whose answers nobody has judged yet; `unscorable` executions say
            nothing about the plan: `fault` says what failed, `error` says why.
        fault: None where scored.
        scorer: name of what judged the answer; empty in logs of other programs.
        score: what it gave, for unit tests the share of hidden ones passed; None where unscorable.
        reward: as configured when the execution was logged; None where unscorable, and in the relative form as long as
            nothing is measured to compare costs with.
        sandbox: level and isolation under which the hidden tests ran, e.g. `namespaces/split`.
        answer, receipt: of runs for people.
        in_dialogue: whether its workers read more than the instruction: what was said before, or a client's tools.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA_VERSION
    timestamp: str = Field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="milliseconds"))
    run_id: str = ""
    task_id: str = ""
    suite: str = ""
    split: str = ""
    planner: str = ""
    planning: Usage | None = None
    decomposed_by: str = ""
    repetition: int = 0
    instruction: str
    success: bool
    cost: float = Field(ge=0)
    latency_ms: float = Field(ge=0)
    planner_outputs: PlanOutputs
    execution_result: RunOutputs
    outcome: Literal["scored", "unscorable", "unjudged"] = "scored"
    fault: FaultKind | None = None
    scorer: str = ""
    score: float | None = None
    reward: float | None = None
    tests_passed: int = 0
    tests_total: int = 0
    sandbox: str = ""
    error: str | None = None
    pool: tuple[str, ...] = ()
    subtasks: tuple[SubtaskRecord, ...] = ()
    answer: str = Field("", exclude_if=lambda answer: not answer)
    in_dialogue: bool = Field(False, exclude_if=lambda in_dialogue: not in_dialogue)
    receipt: Receipt | None = Field(None, exclude_if=lambda receipt: receipt is None)

    @classmethod
    def from_run(cls, execution: Execution, task: Task, receipt: Receipt, pool: Sequence[str]) -> ExecutionRecord:
        """A run for somebody who has asked; its answer is not judged."""
        return cls(
            **_about(task),
            **_ran(execution, pool),
            run_id=receipt.run_id,
            planner=receipt.planner,
            planning=receipt.planning,
            success=False,
            execution_result=RunOutputs(
                success=False,
                outputs=execution.outputs,
                total_cost=execution.total_cost,
                total_latency_ms=execution.total_latency_ms,
            ),
            outcome="unjudged",
            answer=execution.answer,
            receipt=receipt,
            in_dialogue=task.dialogue is not None and task.dialogue.tells_more,
        )

    @classmethod
    def from_unplanned(cls, error: str, task: Task, receipt: Receipt, pool: Sequence[str]) -> ExecutionRecord:
        """A run that ended before it had a plan that could be run; planning may have been paid for."""
        return cls(
            **_about(task),
            run_id=receipt.run_id,
            planner=receipt.planner,
            planning=receipt.planning,
            success=False,
            cost=0.0,
            latency_ms=0.0,
            planner_outputs=PlanOutputs(),
            execution_result=RunOutputs(success=False, total_cost=0.0, total_latency_ms=0.0),
            outcome="unjudged",
            error=error,
            pool=tuple(pool),
            receipt=receipt,
        )

    @classmethod
    def from_execution(
        cls,
        execution: JudgedExecution,
        task: Task,
        *,
        planner: str,
        pool: Sequence[str],
        repetition: int = 0,
        reward: float | None = None,
        planning: Usage | None = None,
    ) -> ExecutionRecord:
        outcome = execution.outcome
        return cls(
            **_about(task),
            **_ran(execution, pool),
            planner=planner,
            planning=planning,
            repetition=repetition,
            success=execution.success,
            execution_result=RunOutputs.model_validate(execution),
            outcome="unscorable" if isinstance(outcome, Unscorable) else "scored",
            fault=outcome.kind if isinstance(outcome, Unscorable) else None,
            score=outcome.value if isinstance(outcome, Scored) else None,
            reward=reward,
            tests_passed=execution.tests_passed,
            tests_total=execution.tests_total,
            sandbox=execution.sandbox,
        )

    @classmethod
    def from_failed_plan(
        cls,
        error: str,
        task: Task,
        *,
        planner: str,
        pool: Sequence[str],
        repetition: int = 0,
        planning: Usage | None = None,
        fault: Unscorable | None = None,
    ) -> ExecutionRecord:
        """A planner that gave no valid workflow has failed the task, at no cost but its own; unless `fault` says why.

        Args:
            fault: why there is no workflow where that is nobody's fault.
        """
        return cls(
            **_about(task),
            planner=planner,
            planning=planning,
            repetition=repetition,
            success=False,
            cost=0.0,
            latency_ms=0.0,
            planner_outputs=PlanOutputs(),
            execution_result=RunOutputs(success=False, total_cost=0.0, total_latency_ms=0.0),
            outcome="scored" if fault is None else "unscorable",
            fault=None if fault is None else fault.kind,
            score=0.0 if fault is None else None,
            error=f"no valid plan: {error}" if fault is None else f"planner: {fault.reason}",
            pool=tuple(pool),
        )

    @property
    def judgment(self) -> Outcome:
        """The outcome; logs of other programs may not say what kind of fault made one unscorable."""
        if self.outcome == "unjudged":
            return Unscorable("task", "nobody has judged this run")
        if self.outcome == "unscorable":
            return Unscorable(self.fault or "internal", self.error or "unknown")
        return Scored(float(self.success) if self.score is None else self.score)

    def workflow(self) -> Workflow | None:
        """The workflow that was run; None where there was no valid plan or the subtasks were not logged."""
        return Workflow([record.subtask() for record in self.subtasks]) if self.subtasks else None


def measured_in(records: Iterable[ExecutionRecord]) -> Reference | None:
    """The reference of the executions that ran a plan and could be judged; None where there are none."""
    ran = [r for r in records if r.outcome == "scored" and r.planner_outputs.model_selections]
    return typical([(r.cost, r.latency_ms) for r in ran], f"median of {len(ran)} logged executions")


def _about(task: Task) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "suite": task.suite,
        "split": task.split,
        "instruction": task.instruction,
        "scorer": task.scorer_name,
    }


def _ran(execution: Execution, pool: Sequence[str]) -> dict[str, Any]:
    """The fields that say what was planned and what became of it."""
    subtasks = execution.workflow.subtasks
    place = {name: i for i, name in enumerate(pool)}
    return {
        "cost": execution.total_cost,
        "latency_ms": execution.total_latency_ms,
        "planner_outputs": PlanOutputs(
            model_selections=tuple(place.get(subtask.worker, -1) for subtask in subtasks),
            task_types=tuple(subtask.task_type for subtask in subtasks),
            workflow_graph=WorkflowGraph(adjacency=tuple(map(tuple, execution.workflow.adjacency()))),
        ),
        "error": execution.error,
        "pool": tuple(pool),
        "subtasks": tuple(
            SubtaskRecord(
                **subtask.model_dump(),
                status=result.status,
                answered_by=result.worker,
                passed_check=result.passed_check,
                error=result.error,
                attempts=result.attempts,
            )
            for subtask, result in zip(subtasks, execution.results, strict=True)
        ),
    }
