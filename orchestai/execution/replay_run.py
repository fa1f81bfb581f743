"""A logged run once more, on the answers in its log line: nobody is asked, nothing is paid."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from orchestai.config import ExecutionConfig, SandboxConfig
from orchestai.errors import UserError
from orchestai.execution.log import read_log
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.result import Attempt, Execution
from orchestai.execution.running_workflow import Executor
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request, Usage, WorkerError, WorstCase


class LoggedWorkers:
    """Answers as the workers of a logged run did."""

    def __init__(self, record: ExecutionRecord) -> None:
        self._attempts: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
        for subtask in record.subtasks:
            for attempt in subtask.attempts:
                self._attempts[attempt.worker, subtask.instruction].append(attempt)

    def worst_case(self, name: str, request: Request) -> WorstCase:
        return WorstCase()

    async def answer(self, name: str, request: Request) -> Answer:
        attempts = self._attempts[name, request.instruction]
        if not attempts:
            raise WorkerError("was not asked in the run that is replayed")
        attempt = attempts.pop(0)
        usage = {
            "prompt_tokens": attempt.prompt_tokens,
            "completion_tokens": attempt.completion_tokens,
            "cached_tokens": attempt.cached_tokens,
            "cost_usd": attempt.cost_usd,
            "latency_ms": attempt.latency_ms,
        }
        if attempt.error is not None:
            raise WorkerError(attempt.error, Usage(**usage, requests=1, estimated=attempt.usage_estimated))
        return Answer(
            text=attempt.answer,
            prompt=attempt.prompt,
            source="recording",
            passed_examples=attempt.passed_check,
            usage_estimated=attempt.usage_estimated,
            **usage,
        )


def find_run(where: str) -> ExecutionRecord:
    """The run that `FILE#RUN` names, as receipts do.

    Raises:
        UserError: there is no such file or run, or it is none that answered somebody.
    """
    path, _, run_id = where.rpartition("#")
    if not path:
        raise UserError(f"--replay {where}: write FILE#RUN, as the receipt of the run says")
    for record in read_log(Path(path)).records:
        if record.run_id == run_id or (record.receipt is not None and record.receipt.run_id == run_id):
            if record.receipt is None or not record.subtasks:
                raise UserError(f"--replay {where}: this line is not of an answered instruction")
            return record
    raise UserError(f"{path}: no run {run_id!r} there")


async def replay(record: ExecutionRecord, execution: ExecutionConfig, sandbox: SandboxConfig) -> Execution:
    """Run the workflow of a logged run again on its logged answers; checks and assembly are made anew."""
    workflow = record.workflow()
    assert workflow is not None
    task = Task(
        task_id=record.task_id,
        suite=record.suite,
        instruct_prompt=record.instruction,
        scorer=record.scorer,
    )
    with Sandbox.from_config(sandbox) as opened:
        return await Executor(LoggedWorkers(record), opened, execution).run(task, workflow)
