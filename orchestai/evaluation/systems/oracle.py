"""The best plan in hindsight, from below: what somebody who saw the hidden tests beforehand could at least have had."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orchestai.errors import InfrastructureError
from orchestai.evaluation.systems.runner import Result, SystemRow
from orchestai.execution.assembler import assemble
from orchestai.execution.request import build_request
from orchestai.execution.reward import RewardForm
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.outcome import Unscorable, judged
from orchestai.planner.base import Plan
from orchestai.rewards.scorers import judge
from orchestai.sandbox.examples import passes_examples
from orchestai.tasks.suites import canonical_steps
from orchestai.tasks.task import REFERENCE_OUTPUTS, Task
from orchestai.workers.base import Answer, Request, WorkerError
from orchestai.workflow import Subtask, Workflow


class Hindsight:
    """Finds, for reference decompositions, a worker per subtask whose answer is right, at the lowest price.

    An answer is right where the program that has it in place of one canonical step, all other steps being canonical,
    passes the hidden tests; a text, where it says what the suite's own says, given the suite's own for the parents. The
    price is what the answer's cost and latency would take off the reward of a plan without
    other steps.
    """

    def __init__(self, executor: JudgingExecutor, workers: Sequence[str], reward: RewardForm, concurrency: int) -> None:
        self._executor = executor
        self._workers = tuple(workers)
        self._reward = reward
        self._slots = asyncio.Semaphore(concurrency)
        self._answers: dict[tuple[str, ...], asyncio.Task[Answer | Unscorable | None]] = {}

    async def plans(self, tasks: Sequence[Task], advance: Callable[[], None]) -> list[Plan]:
        """One plan per task; without a workflow where no worker is right on some subtask, or no one knows the steps.

        Where no worker is known to be right and one could not be asked or judged, the plan has a `fault`.
        """

        async def one(task: Task) -> Plan:
            async with self._slots:
                plan = await self._plan(task)
            advance()
            return plan

        jobs = [asyncio.ensure_future(one(task)) for task in tasks]
        try:
            return list(await asyncio.gather(*jobs))
        finally:
            for job in (*jobs, *self._answers.values()):
                job.cancel()

    async def _plan(self, task: Task) -> Plan:
        right: Mapping[str, str] | None = task.details.get(REFERENCE_OUTPUTS)
        if task.reference is not None and task.wants_program:
            right = canonical_steps(task.reference)
        if task.reference is None or right is None:
            return Plan(workflow=None, raw_valid=False, error="the steps of this task are not known")
        steps = _KnownSteps(self._executor, task, task.reference, right)
        chosen = await asyncio.gather(*(self._best(steps, subtask) for subtask in task.reference.subtasks))
        changes = {}
        for subtask, worker in zip(task.reference.subtasks, chosen, strict=True):
            if isinstance(worker, Unscorable):
                return Plan(workflow=None, raw_valid=False, error=worker.reason, fault=worker)
            if worker is None:
                return Plan(workflow=None, raw_valid=False, error=f"no worker is right on subtask {subtask.id}")
            changes[subtask.id] = {"worker": worker, "fallback": ()}
        return Plan(workflow=task.reference.replace(changes), raw_valid=True)

    async def _best(self, steps: _KnownSteps, subtask: Subtask) -> str | Unscorable | None:
        """The cheapest worker that is right; why it is not known where there may be one, None where there is none."""
        request = steps.request(subtask)
        answers = await asyncio.gather(*(self._answer(worker, request) for worker in self._workers))
        offers = [
            (self._reward.cost(a.cost_usd) + self._reward.latency(a.latency_ms), worker, a)
            for worker, a in zip(self._workers, answers, strict=True)
            if isinstance(a, Answer)
        ]
        faults = [answer for answer in answers if isinstance(answer, Unscorable)]
        for _, worker, answer in sorted(offers, key=lambda offer: offer[0]):
            try:
                if await steps.accepts(subtask, answer.text):
                    return worker
            except InfrastructureError as error:
                faults.append(Unscorable.of(error))
        return faults[0] if faults else None

    async def _answer(self, worker: str, request: Request) -> Answer | Unscorable | None:
        """The worker's answer if it has one that passes the visible examples; equal requests are asked once."""

        async def ask() -> Answer | Unscorable | None:
            try:
                answer = await self._executor.pool.answer(worker, request)
                passed = answer.passed_examples
                if passed is None and (wanted := request.signature) is not None and request.examples:
                    passed = await passes_examples(self._executor.sandbox, answer.text, wanted.name, request.examples)
            except WorkerError:
                return None
            except InfrastructureError as error:
                return Unscorable.of(error)
            return None if passed is False else answer

        key = (worker, request.instruction, str(request.signature), request.task, *request.inputs.values())
        if key not in self._answers:
            self._answers[key] = asyncio.ensure_future(ask())
        return await self._answers[key]


@dataclass(frozen=True)
class _KnownSteps:
    """A task whose steps have known right answers: their source where they are functions, or else the texts."""

    executor: JudgingExecutor
    task: Task
    plan: Workflow
    right: Mapping[str, str]

    def request(self, subtask: Subtask) -> Request:
        if self.task.wants_program:
            return build_request(self.task, self.plan, subtask, kind="dataflow")
        inputs = {parent: self.right[parent] for parent in subtask.depends_on}
        return build_request(self.task, self.plan, subtask, kind="sink", inputs=inputs)

    async def accepts(self, subtask: Subtask, answer: str) -> bool:
        """Whether the answer is right; raises `InfrastructureError` where it could not be judged."""
        if self.task.wants_program:
            program = assemble(self.task, self.plan, {**self.right, subtask.id: answer}, "dataflow")
            return judged((await judge(self.task, program, self.executor.sandbox)).outcome) >= 1.0
        last = subtask.id == self.plan.answering()
        step = self.task if last else self.task.model_copy(update={"answers": (self.right[subtask.id],)})
        return judged((await judge(step, answer, self.executor.sandbox)).outcome) >= 1.0


def best_of(name: str, rows: Sequence[SystemRow]) -> SystemRow:
    """For each task the result with the highest reward among `rows`: a lower bound of the best plan in hindsight."""

    def worth(result: Result) -> float:
        return -math.inf if math.isnan(result.reward) else result.reward

    return SystemRow(
        name, tuple(max(results, key=worth) for results in zip(*(row.results for row in rows), strict=True))
    )
