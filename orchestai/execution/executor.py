"""Runs workflows on workers: a subtask starts when its parents are done; a fallback takes over where a check fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from orchestai.config import ExecutionConfig
from orchestai.errors import FaultKind, InfrastructureError, UserError
from orchestai.execution.assembler import assemble, hands_on_texts
from orchestai.execution.request import build_request
from orchestai.execution.result import Attempt, Execution, SubtaskResult
from orchestai.outcome import Unscorable
from orchestai.sandbox import Sandbox
from orchestai.sandbox.examples import passes_examples
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request, WorkerError
from orchestai.workflow import Subtask, Workflow

logger = logging.getLogger(__name__)


class Workers(Protocol):
    """Whoever passes a request on to the worker of that name (`orchestai.workers.WorkerPool`)."""

    async def answer(self, name: str, request: Request) -> Answer: ...


class Executor:
    """Runs workflows.

    Args:
        pool: the workers.
        sandbox: runs the visible checks.
        config: assembler and limits.
    """

    def __init__(self, pool: Workers, sandbox: Sandbox, config: ExecutionConfig) -> None:
        self.pool = pool
        self.sandbox = sandbox
        self.config = config

    async def run(self, task: Task, workflow: Workflow, sample: int = 0) -> Execution:
        """Run one workflow and assemble its answer.

        A worker that fails costs its own subtask, never the others' results. What is nobody's fault is the `fault` of
        the execution. A cancelled call cancels its requests.

        Args:
            sample: index of the repetition; the same workflow with another index may be answered otherwise.

        Raises:
            UserError: the workflow names a worker that the pool does not have.
        """
        run = _Run(self, task, workflow, sample)
        results = await run.subtasks()
        return Execution(
            task_id=task.task_id,
            workflow=workflow,
            results=results,
            answer=assemble(task, workflow, {result.id: result.output for result in results}, self.config.assembler),
            fault=run.fault,
            total_cost=sum(result.cost_usd for result in results),
            total_latency_ms=workflow.critical_path({result.id: result.latency_ms for result in results}),
            error=(run.fault and run.fault.reason) or next((result.error for result in results if result.error), None),
        )


class _Run:
    """One execution on its way: what has been attempted, spent and lost so far."""

    def __init__(self, executor: Executor, task: Task, workflow: Workflow, sample: int) -> None:
        self.executor = executor
        self.config = executor.config
        self.task = task
        self.workflow = workflow
        self.sample = sample
        self.fault: Unscorable | None = None
        self._hands_on_texts = hands_on_texts(task, executor.config.assembler)
        self.spent_usd = 0.0
        self.attempts: dict[str, list[Attempt]] = {subtask.id: [] for subtask in workflow.subtasks}
        self.results: dict[str, SubtaskResult] = {}
        self.finished_ms: dict[str, float] = {}

    async def subtasks(self) -> tuple[SubtaskResult, ...]:
        """Run all subtasks; the results come in the order in which the workflow lists them."""
        running: dict[str, asyncio.Task[None]] = {}
        for subtask in self.workflow.order():
            parents = [running[parent] for parent in subtask.depends_on]
            running[subtask.id] = asyncio.ensure_future(self._when_ready(subtask, parents))
        try:
            _, late = await asyncio.wait(
                running.values(), timeout=self.config.timeout_s, return_when=asyncio.FIRST_EXCEPTION
            )
            if late:
                self._lose(
                    "timeout",
                    f"no answer within {self.config.timeout_s:g} s; lower execution.concurrency or raise "
                    "execution.timeout_s",
                )
        finally:
            for job in running.values():
                job.cancel()
            outcomes = await asyncio.gather(*running.values(), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return tuple(self.results.get(subtask.id) or self._result(subtask) for subtask in self.workflow.subtasks)

    async def _when_ready(self, subtask: Subtask, parents: Sequence[asyncio.Task[None]]) -> None:
        if parents:
            await asyncio.wait(parents)
        lost = [parent for parent in subtask.depends_on if self.results[parent].status != "done"]
        stop = f"not asked: its parent {lost[0]!r} has no output" if lost and self._hands_on_texts else ""
        start_ms = max((self.finished_ms[parent] for parent in subtask.depends_on), default=0.0)
        stop = stop or await self._ask_in_turn(subtask, start_ms)
        self.finished_ms[subtask.id] = start_ms + sum(attempt.latency_ms for attempt in self.attempts[subtask.id])
        self.results[subtask.id] = self._result(subtask, stop)

    async def _ask_in_turn(self, subtask: Subtask, start_ms: float) -> str:
        """Ask the worker and its fallbacks until one answers well; why it was given up early, if it was."""
        inputs = {parent: self.results[parent].output for parent in subtask.depends_on}
        request = build_request(
            self.task,
            self.workflow,
            subtask,
            kind=self.config.assembler,
            inputs=inputs,
            sample=self.sample,
        )
        attempts = self.attempts[subtask.id]
        limit_ms, over = self.config.timeout_s * 1000, f"the workflow's time of {self.config.timeout_s:g} s"
        for worker in subtask.workers:
            if (budget := self.config.max_cost_usd) is not None and self.spent_usd >= budget:
                return f"not asked after the workflow's budget of {budget:g} USD"
            if start_ms + sum(attempt.latency_ms for attempt in attempts) >= limit_ms:
                return f"not asked after {over}"
            try:
                attempt = await self._attempt(worker, request)
            except asyncio.CancelledError:
                attempts.append(Attempt(worker=worker, prompt=request.instruction, error="stopped before it answered"))
                raise
            if start_ms + sum(earlier.latency_ms for earlier in attempts) + attempt.latency_ms > limit_ms:
                attempt = attempt.model_copy(update={"error": f"answered after {over}"})
            attempts.append(attempt)
            if attempt.error is None and attempt.passed_check is not False:
                break
        return ""

    async def _attempt(self, worker: str, request: Request) -> Attempt:
        if not worker:
            return Attempt(worker="", error="no worker is assigned")
        try:
            answer = await self.executor.pool.answer(worker, request)
        except WorkerError as error:
            self.spent_usd += error.usage.cost_usd
            return Attempt(
                worker=worker,
                prompt=request.instruction,
                prompt_tokens=error.usage.prompt_tokens,
                completion_tokens=error.usage.completion_tokens,
                cost_usd=error.usage.cost_usd,
                latency_ms=error.usage.latency_ms,
                usage_estimated=error.usage.estimated,
                error=str(error),
            )
        except UserError:
            raise
        except Exception as error:
            if not isinstance(error, InfrastructureError):
                logger.exception("worker %s broke down", worker)
            reason = str(error) or type(error).__name__
            self._lose(error.kind if isinstance(error, InfrastructureError) else "internal", f"{worker}: {reason}")
            return Attempt(worker=worker, prompt=request.instruction, error=reason)
        self.spent_usd += answer.cost_usd
        return Attempt(
            worker=worker,
            prompt=answer.prompt,
            answer=answer.text,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cost_usd=answer.cost_usd,
            latency_ms=answer.latency_ms,
            source=answer.source,
            usage_estimated=answer.usage_estimated,
            passed_check=await self._check(request, answer),
        )

    async def _check(self, request: Request, answer: Answer) -> bool | None:
        if request.signature is None or not request.examples:
            return None
        if answer.passed_examples is not None:
            return answer.passed_examples
        try:
            return await passes_examples(self.executor.sandbox, answer.text, request.signature, request.examples)
        except InfrastructureError as error:
            self._lose(error.kind, f"visible check: {error}")
            return None

    def _lose(self, kind: FaultKind, reason: str) -> None:
        """Note what is nobody's fault; the first counts."""
        self.fault = self.fault or Unscorable(kind, reason)

    def _result(self, subtask: Subtask, stop: str = "") -> SubtaskResult:
        attempts = tuple(self.attempts[subtask.id])
        answered = [i for i, attempt in enumerate(attempts) if attempt.error is None]
        if answered:
            kept = next((i for i in answered if attempts[i].passed_check is not False), answered[0])
            return SubtaskResult(
                id=subtask.id, status="done", attempts=attempts, kept=kept, output=attempts[kept].answer
            )
        error = stop or next((attempt.error for attempt in attempts), None)
        if error is None and self.fault is not None:
            error = self.fault.reason
        return SubtaskResult(
            id=subtask.id, status="failed" if attempts else "skipped", attempts=attempts, error=f"{subtask.id}: {error}"
        )
