"""One workflow on its way: a subtask starts when its parents are done; after each answer it is decided who is next."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Protocol, runtime_checkable

from orchestai.config import ExecutionConfig
from orchestai.config.running import Contract
from orchestai.errors import FaultKind, InfrastructureError, UnbilledError, UserError
from orchestai.execution.assembler import assemble, assemble_part, hands_on_texts
from orchestai.execution.contract.ledger import Ledger
from orchestai.execution.contract.run_budget import Bounded, NotAdmittedError, RunBudget
from orchestai.execution.events import AnswerChecked, AnswerPiece, Listener, NodeDone, NodeStarted, WorkerAsked, ignore
from orchestai.execution.request import build_request
from orchestai.execution.result import (
    CUT,
    INTERRUPTED,
    STOPPED,
    Attempt,
    Decide,
    Execution,
    JudgedExecution,
    SubtaskResult,
    first_accepted,
)
from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.rewards.scorers import JudgedAnswer, Scorer, judge, score
from orchestai.sandbox import Report, Sandbox
from orchestai.sandbox.examples import passes_examples
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import Example, parse_calls
from orchestai.text.spoken import as_utf8, is_refusal, spoken
from orchestai.workers.base import Answer, Request, WorkerError, WorstCase
from orchestai.workers.circuit_breaker import answers_until
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
        checks_whole: whether other workers are asked until the program does what the task's example calls show.
        decide: after each answer, whether it stands or the subtask's next worker is asked.
    """

    budget: RunBudget | None = None
    deadline: float | None = None
    listen: Listener = ignore
    pieces: bool = False
    checks_whole: bool = False
    decide: Decide = first_accepted


NO_TERMS = Terms()
_TOO_LATE = "not asked after the deadline"
_MOST_PROGRAMS = 32
"""Put together of other answers, where the first does not do what the examples show."""


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
        does_as_shown: whether the program gave the results of the task's example calls; None where nobody looked.
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
        self.does_as_shown: bool | None = None
        self._chosen: dict[str, int] = {}
        self._told: set[str] = set()
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
            if self.terms.checks_whole and not self.partial and self.fault is None:
                await self._check_whole()
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
            does_as_shown=self.does_as_shown,
            fault=self.fault,
            total_cost=sum(result.cost_usd for result in results),
            total_latency_ms=self.workflow.critical_path({result.id: result.latency_ms for result in results}),
            error=(INTERRUPTED if self._interrupted else None)
            or (self.fault and self.fault.reason)
            or next((result.error for result in results if result.error), None),
        )

    async def _check_whole(self) -> None:
        """Whether the program does what the task's example calls show; where not, ask others for its steps in turn."""
        examples = parse_calls(self.task.instruction, self.task.entry_point)
        needed = [subtask for subtask in self.workflow.order() if subtask.id in self.workflow.needed()]
        if self._hands_on_texts or any(self.results[step.id].status != "done" for step in needed):
            return
        if len(self.workflow) == 1:
            self.does_as_shown = self.results[needed[0].id].passed_check
        if len(self.workflow) == 1 or not examples:
            return
        seconds = min(self._seconds_left(), self.config.timeout_s)
        self.does_as_shown = False
        try:
            await asyncio.wait_for(self._look_further(needed, examples), seconds)
        except asyncio.TimeoutError:
            logger.info("%s: no other program was found within %.0f s", self.task.task_id, seconds)
        except InfrastructureError as error:
            self.does_as_shown = None
            self._lose(error.kind, f"check of the whole: {error}")

    async def _look_further(self, needed: Sequence[Subtask], examples: Sequence[Example]) -> None:
        """Put the program together of other answers until it does as shown; first of steps that nothing speaks for."""
        wanted, tried = self.task.entry_point, 1
        if await passes_examples(self.sandbox, self.so_far().answer, wanted, examples):
            self.does_as_shown = True
            return
        first = {step.id: self.results[step.id].kept for step in needed}
        for subtask in sorted(needed, key=lambda step: self.results[step.id].passed_check is True):
            for worker in subtask.workers:
                if all(attempt.worker != worker for attempt in self.attempts[subtask.id]):
                    request = build_request(self.task, self.workflow, subtask, kind=self.config.assembler)
                    try:
                        await self._attempt(subtask, worker, request)
                    except NotAdmittedError:
                        continue
                answers = {step.id: self._usable(step) for step in needed}
                answers[subtask.id] = [i for i in answers[subtask.id] if self._worker(subtask, i) == worker]
                for choice in product(*(answers[step.id] for step in needed)):
                    self._choose(dict(zip(answers, choice, strict=True)))
                    if await passes_examples(self.sandbox, self.so_far().answer, wanted, examples):
                        self.does_as_shown = True
                        return
                    self._choose(first)
                    if (tried := tried + 1) > _MOST_PROGRAMS:
                        return

    def _choose(self, kept: Mapping[str, int]) -> None:
        """Make these attempts the outputs of their steps."""
        self._chosen = dict(kept)
        self.results |= {step.id: self._result(step) for step in self.workflow.subtasks if step.id in kept}

    def _worker(self, subtask: Subtask, attempt: int) -> str:
        return self.attempts[subtask.id][attempt].worker

    def _usable(self, subtask: Subtask) -> list[int]:
        """The attempts that gave different answers, all of which are accepted."""
        found: dict[str, int] = {}
        for i, attempt in enumerate(self.attempts[subtask.id]):
            if attempt.accepted:
                found.setdefault(attempt.answer, i)
        return list(found.values())

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
        """Which limit was waited for, the caller says: a timer may end some milliseconds before its time.

        Where another answer was awaited beside one that is accepted, the deadline cuts nothing off.
        """
        if deadline:
            self.partial = any(self._result(step).failed for step in self.workflow.subtasks)
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
        """Ask the worker and its fallbacks until an answer stands; why it was given up early, if it was."""
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
            if self.terms.decide(attempts).done or (subtask.id in self._told and attempt.error is None):
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
                answered = await self._answer(worker, request, self._asked(subtask, worker, request))
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
            rejected = _rejected(request, answered.answer)
            attempts[-1] = attempts[-1].model_copy(update={"passed_check": passed, "rejected": rejected})
        return attempts[-1]

    def _asked(self, subtask: Subtask, worker: str, request: Request) -> Coroutine[Any, Any, Answer]:
        """The worker's answer, told piece by piece where it is the task's, a text, and wanted so: then it stands."""
        told = self.terms.pieces and request.signature is None and subtask.id == self.workflow.answering()
        if told and isinstance(self.workers, SpeakingWorkers):

            def hear(text: str) -> None:
                self._told.add(subtask.id)
                self.terms.listen(AnswerPiece(node=subtask.id, text=text))

            return self.workers.speak(worker, request, hear)
        return self.workers.answer(worker, request)

    async def _answer(self, worker: str, request: Request, asked: Coroutine[Any, Any, Answer]) -> _Answered:
        try:
            answer = await asked
            if request.signature is None:
                answer = answer.model_copy(update={"text": spoken(answer.text)})
        except WorkerError as error:
            usage = error.usage
            return _Answered(
                {
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                    "cached_tokens": usage.cached_tokens,
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
                "cached_tokens": answer.cached_tokens,
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
            return await passes_examples(self.sandbox, answer.text, request.signature.name, request.examples)
        except InfrastructureError as error:
            self._lose(error.kind, f"visible check: {error}")
            return None

    def _lose(self, kind: FaultKind, reason: str) -> None:
        """Note what is nobody's fault; the first counts."""
        self.fault = self.fault or Unscorable(kind, reason)

    def _result(self, subtask: Subtask, stop: str = "") -> SubtaskResult:
        attempts = tuple(self.attempts[subtask.id])
        kept, _, probability = self.terms.decide(attempts)
        if kept >= 0:
            kept = self._chosen.get(subtask.id, kept)
            about = {"attempts": attempts, "kept": kept, "probability": probability}
            return SubtaskResult(id=subtask.id, status="done", output=attempts[kept].answer, **about)
        error = stop or next((attempt.error for attempt in attempts), None)
        if error is None and self.fault is not None:
            error = self.fault.reason
        return SubtaskResult(
            id=subtask.id, status="failed" if attempts else "skipped", attempts=attempts, error=f"{subtask.id}: {error}"
        )


def _rejected(request: Request, answer: Answer) -> str:
    """Why nobody would take the answer, by its look; whoever limits the tokens wants it as it is."""
    if answer.truncated and not (request.dialogue and request.dialogue.max_new_tokens):
        return CUT
    if answer.source == "tool" or answer.tool_calls:
        return ""
    if not answer.text.strip():
        return "its answer is empty"
    return "it refused" if request.signature is None and is_refusal(answer.text) else ""


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

    async def run(self, task: Task, workflow: Workflow, sample: int = 0, terms: Terms = NO_TERMS) -> Execution:
        """Run one workflow and assemble its answer.

        A worker that fails costs its own subtask, never the others' results. What is nobody's fault is the `fault` of
        the execution. A cancelled call cancels its requests. At a deadline, what runs is cancelled, and the answer is
        that of the last subtask that is done.

        Args:
            sample: index of the repetition; the same workflow with another index may be answered otherwise.
            terms: the contract's; without a budget, that of the configuration holds.

        Raises:
            UserError: the workflow names a worker that the pool does not have.
        """
        if terms.budget is None and self.config.max_cost_usd is not None:
            contract = Contract(max_cost_usd=self.config.max_cost_usd)
            async with await Ledger().reserve(0) as reservation:
                terms = terms._replace(budget=RunBudget(contract, reservation))
                return await self.begin(task, workflow, sample, terms).finish()
        return await self.begin(task, workflow, sample, terms).finish()

    def begin(self, task: Task, workflow: Workflow, sample: int = 0, terms: Terms = NO_TERMS) -> RunningWorkflow:
        """The same, to be finished by the caller, who can say what was done if it is cancelled."""
        return RunningWorkflow(self.pool, self.sandbox, self.config, task, workflow, sample, terms)


class JudgingExecutor(Executor):
    """Runs workflows and judges their answers by their task's scorer.

    Args:
        rewards: scorers whose rewards are noted beside the outcome, by name.
    """

    def __init__(
        self, pool: Workers, sandbox: Sandbox, config: ExecutionConfig, rewards: Mapping[str, Scorer] | None = None
    ) -> None:
        super().__init__(pool, sandbox, config)
        self._rewards = rewards or {}

    async def execute(self, task: Task, workflow: Workflow, sample: int = 0) -> JudgedExecution:
        """`run` a workflow and judge its answer; with a fault of infrastructure on the way it is `Unscorable`."""
        execution = await self.run(task, workflow, sample)
        fault = execution.fault
        judged = JudgedAnswer(fault) if fault is not None else await judge(task, execution.answer, self.sandbox)
        outcome, report = judged.outcome, judged.report
        rewards: dict[str, float] = {}
        if isinstance(outcome, Scored):
            try:
                for name, scorer in self._rewards.items():
                    rewards[name] = await score(scorer, task, execution.answer, self.sandbox)
            except InfrastructureError as error:
                outcome = Unscorable.of(error)
        return JudgedExecution(
            **dict(execution) | {"error": execution.error or _problem(outcome, report)},
            rewards=rewards,
            outcome=outcome,
            tests_passed=report.passed if report else 0,
            tests_total=report.total if report else 0,
            sandbox=f"{report.level}/{report.isolation}" if report else "",
        )


def _problem(outcome: Outcome, report: Report | None) -> str | None:
    if report is not None:
        return report.reason or None
    return outcome.reason if isinstance(outcome, Unscorable) else None
