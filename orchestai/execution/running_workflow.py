"""One workflow on its way: a subtask starts when its parents are done; a fallback takes over where a check fails."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from orchestai.config import ExecutionConfig
from orchestai.errors import FaultKind, InfrastructureError, UnbilledError, UserError
from orchestai.execution.assembler import assemble, assemble_part, hands_on_texts
from orchestai.execution.contract.bounds import Bounded
from orchestai.execution.contract.run_budget import NotAdmittedError, RunBudget
from orchestai.execution.events import AnswerChecked, AnswerPiece, Listener, NodeDone, NodeStarted, WorkerAsked, ignore
from orchestai.execution.request import build_request
from orchestai.execution.result import INTERRUPTED, STOPPED, Attempt, Execution, SubtaskResult
from orchestai.names import as_utf8
from orchestai.outcome import Unscorable
from orchestai.sandbox import Sandbox
from orchestai.sandbox.examples import passes_examples
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request, WorkerError, WorstCase
from orchestai.workers.patience import answers_until
from orchestai.workflow import Subtask, Workflow

logger = logging.getLogger(__name__)


class Workers(Bounded, Protocol):
    """Whoever passes a request on to the worker of that name (`orchestai.workers.WorkerPool`).

    A cancelled `answer` ends at once, whether the worker does or not.
    """

    async def answer(self, name: str, request: Request) -> Answer: ...


@runtime_checkable
class SpeakingWorkers(Protocol):
    """The same, where what they write can be heard."""

    async def speak(self, name: str, request: Request, hear: Callable[[str], None]) -> Answer: ...


class Terms(NamedTuple):
    """What one run of a workflow has to keep to.

    Attributes:
        budget: admits and counts its calls; None lets all be made.
        deadline: on the clock of `time.monotonic`; None is none.
        listen: is told what happens.
        pieces: whether it is also told a text that answers the task piece by piece.
    """

    budget: RunBudget | None = None
    deadline: float | None = None
    listen: Listener = ignore
    pieces: bool = False


NO_TERMS = Terms()
_TOO_LATE = "not asked after the deadline"


@dataclass(frozen=True)
class _Answered:
    """How a call ended.

    Attributes:
        changes: of its attempt.
        answer: None where the worker failed.
        billed: whether its bill was seen.
    """

    changes: dict[str, Any]
    answer: Answer | None = None
    billed: bool = True


class RunningWorkflow:
    """What has been attempted and lost so far.

    Attributes:
        partial: whether the deadline, or whoever cancelled the run, came before all subtasks were done.
        fault: what of the infrastructure failed, if anything did.
    """

    def __init__(
        self,
        workers: Workers,
        sandbox: Sandbox,
        config: ExecutionConfig,
        task: Task,
        workflow: Workflow,
        sample: int,
        terms: Terms,
    ) -> None:
        self.workers = workers
        self.sandbox = sandbox
        self.config = config
        self.terms = terms
        self.partial = False
        self._interrupted = False
        self.task = task
        self.workflow = workflow
        self.sample = sample
        self.fault: Unscorable | None = None
        self._hands_on_texts = hands_on_texts(task, config.assembler)
        self.attempts: dict[str, list[Attempt]] = {subtask.id: [] for subtask in workflow.subtasks}
        self.results: dict[str, SubtaskResult] = {}
        self.finished_ms: dict[str, float] = {}

    async def finish(self) -> Execution:
        """Run all subtasks and assemble their answer; where this is cancelled, `so_far` says what there is."""
        try:
            await self._run_subtasks()
        except asyncio.CancelledError:
            self.partial = self._interrupted = True
            raise
        return self.so_far()

    def so_far(self) -> Execution:
        """What has been done by now, with the answer that it makes."""
        results = tuple(self.results.get(subtask.id) or self._result(subtask) for subtask in self.workflow.subtasks)
        outputs = {result.id: result.output for result in results if result.status == "done"}
        put_together = assemble_part if self.partial else assemble
        return Execution(
            task_id=self.task.task_id,
            workflow=self.workflow,
            results=results,
            answer=put_together(self.task, self.workflow, outputs, self.config.assembler),
            partial=self.partial,
            fault=self.fault,
            total_cost=sum(result.cost_usd for result in results),
            total_latency_ms=self.workflow.critical_path({result.id: result.latency_ms for result in results}),
            error=(INTERRUPTED if self._interrupted else None)
            or (self.fault and self.fault.reason)
            or next((result.error for result in results if result.error), None),
        )

    async def _run_subtasks(self) -> None:
        running: dict[str, asyncio.Task[None]] = {}
        for subtask in self.workflow.order():
            parents = [running[parent] for parent in subtask.depends_on]
            running[subtask.id] = asyncio.ensure_future(self._when_ready(subtask, parents))
        left_s, limit_s = self._seconds_left(), self.config.timeout_s
        try:
            _, late = await asyncio.wait(
                running.values(), timeout=min(left_s, limit_s), return_when=asyncio.FIRST_EXCEPTION
            )
            if late and not any(job.done() and not job.cancelled() and job.exception() for job in running.values()):
                self._out_of_time(deadline=left_s <= limit_s)
        finally:
            for job in running.values():
                job.cancel()
            outcomes = await asyncio.gather(*running.values(), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    def _seconds_left(self) -> float:
        return math.inf if self.terms.deadline is None else max(0.0, self.terms.deadline - time.monotonic())

    def _out_of_time(self, *, deadline: bool) -> None:
        """Which limit was waited for, the caller says: a timer may end some milliseconds before its time."""
        if deadline:
            self.partial = True
            return
        self._lose(
            "timeout",
            f"no answer within {self.config.timeout_s:g} s; lower execution.concurrency or raise execution.timeout_s",
        )

    async def _when_ready(self, subtask: Subtask, parents: Sequence[asyncio.Task[None]]) -> None:
        if parents:
            await asyncio.wait(parents)
        lost = [parent for parent in subtask.depends_on if self.results[parent].status != "done"]
        stop = f"not asked: its parent {lost[0]!r} has no output" if lost and self._hands_on_texts else ""
        self.terms.listen(NodeStarted(node=subtask.id))
        start_ms = max((self.finished_ms[parent] for parent in subtask.depends_on), default=0.0)
        stop = stop or await self._ask_in_turn(subtask, start_ms)
        self.finished_ms[subtask.id] = start_ms + sum(attempt.latency_ms for attempt in self.attempts[subtask.id])
        self.results[subtask.id] = self._result(subtask, stop)
        if stop == _TOO_LATE and self.results[subtask.id].status != "done":
            self.partial = True
        if self.terms.budget is not None:
            self.terms.budget.forgo(subtask.id)
        self.terms.listen(NodeDone(node=subtask.id, result=self.results[subtask.id]))

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
        attempts, stop = self.attempts[subtask.id], ""
        limit_ms, over = self.config.timeout_s * 1000, f"the workflow's time of {self.config.timeout_s:g} s"
        for worker in subtask.workers:
            if start_ms + sum(attempt.latency_ms for attempt in attempts) >= limit_ms:
                return f"not asked after {over}"
            try:
                attempt = await self._attempt(subtask, worker, request)
            except NotAdmittedError as error:
                stop = stop or str(error)
                continue
            if start_ms + sum(each.latency_ms for each in attempts) > limit_ms:
                attempt = attempts[-1] = attempt.model_copy(update={"error": f"answered after {over}"})
            self.terms.listen(AnswerChecked(node=subtask.id, attempt=attempt))
            if attempt.error is None and attempt.passed_check is not False:
                return ""
        return stop

    async def _attempt(self, subtask: Subtask, worker: str, request: Request) -> Attempt:
        """Ask one worker, if the budget admits it; the attempt is among the subtask's, however it ends.

        Raises:
            NotAdmittedError: the budget does not.
        """
        attempts = self.attempts[subtask.id]
        if not worker:
            attempts.append(Attempt(worker="", error="no worker is assigned"))
            return attempts[-1]
        if not self._seconds_left():
            raise NotAdmittedError(_TOO_LATE)
        budget, call = self.terms.budget, (subtask.id, worker)
        worst = WorstCase() if budget is None else self.workers.worst_case(worker, request)
        if budget is not None:
            await budget.admit(call, worst)
        self.terms.listen(WorkerAsked(node=subtask.id, worker=worker))
        attempts.append(Attempt(worker=worker, prompt=request.instruction, reserved_usd=worst.cost_usd, error=STOPPED))
        try:
            with answers_until(self.terms.deadline):
                answered = await self._answer(worker, self._asked(subtask, worker, request))
        except BaseException:
            if budget is not None:
                budget.abandon(call)
            raise
        changes = answered.changes
        if budget is not None and not answered.billed:
            budget.abandon(call)
        elif budget is not None and (fault := budget.settle(call, changes.get("cost_usd", 0.0))):
            logger.warning("%s", fault)
            changes |= {"cost_usd": worst.cost_usd, "error": fault}
        attempts[-1] = attempts[-1].model_copy(update={"error": None, **changes})
        if answered.answer is not None and attempts[-1].error is None:
            passed = await self._check(request, answered.answer)
            attempts[-1] = attempts[-1].model_copy(update={"passed_check": passed})
        return attempts[-1]

    def _asked(self, subtask: Subtask, worker: str, request: Request) -> Coroutine[Any, Any, Answer]:
        """The worker's answer, told piece by piece where it is the task's, a text, and wanted so."""
        told = self.terms.pieces and request.signature is None and subtask.id == self.workflow.answering()
        if told and isinstance(self.workers, SpeakingWorkers):
            listen = self.terms.listen
            return self.workers.speak(worker, request, lambda text: listen(AnswerPiece(node=subtask.id, text=text)))
        return self.workers.answer(worker, request)

    async def _answer(self, worker: str, asked: Coroutine[Any, Any, Answer]) -> _Answered:
        try:
            answer = await asked
        except WorkerError as error:
            usage = error.usage
            return _Answered(
                {
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                    "cost_usd": usage.cost_usd,
                    "latency_ms": usage.latency_ms,
                    "usage_estimated": usage.estimated,
                    "error": as_utf8(str(error)),
                }
            )
        except UserError:
            raise
        except Exception as error:
            if not isinstance(error, InfrastructureError):
                logger.exception("worker %s broke down", worker)
            reason = str(error) or type(error).__name__
            self._lose(error.kind if isinstance(error, InfrastructureError) else "internal", f"{worker}: {reason}")
            return _Answered({"error": as_utf8(reason)}, billed=isinstance(error, UnbilledError))
        return _Answered(
            {
                "prompt": as_utf8(answer.prompt),
                "answer": as_utf8(answer.text),
                "prompt_tokens": answer.prompt_tokens,
                "completion_tokens": answer.completion_tokens,
                "cost_usd": answer.cost_usd,
                "latency_ms": answer.latency_ms,
                "source": answer.source,
                "tool_calls": answer.tool_calls,
                "truncated": answer.truncated,
                "usage_estimated": answer.usage_estimated,
            },
            answer,
        )

    async def _check(self, request: Request, answer: Answer) -> bool | None:
        if request.signature is None or not request.examples:
            return None
        if answer.passed_examples is not None:
            return answer.passed_examples
        try:
            return await passes_examples(self.sandbox, answer.text, request.signature, request.examples)
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
